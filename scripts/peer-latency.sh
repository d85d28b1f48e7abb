#!/usr/bin/env bash
# Latency as dnsrack tells it, beside two captures of the same queries: one at the generator's end of the link and one at
# the server's (tcpdump; tshark reads them, pairs are matched by client port and id). 5,000 queries/s over sockets to NSD
# in a rack of two hosts. Prints p50 and p99 of the service latency in us, and the differences; the last lines are the
# medians of the differences beside their goals (5 us at p50, 20 us at p99). Needs root, tcpdump and tshark.
# Usage: scripts/peer-latency.sh [ROUNDS [SECONDS [RATE [FLAGS of load run ...]]]]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3} seconds=${2:-20} rate=${3:-5000}
shift $(($# < 3 ? $# : 3))
for program in tcpdump tshark; do
    command -v $program >/dev/null || { echo "$program is not installed: apt-get install $program" >&2; exit 1; }
done
# shellcheck source=scripts/peer-rack.sh
. scripts/peer-rack.sh
peer_rack latency 100K 1M
peer_nsd

# capture HOST DEVICE FILE: begins a capture, away from the generator's core, and waits until it listens. It ends by
# itself, so that it writes all it has.
capture() {
    spawn "$1" timeout $((seconds + 8)) taskset -c 0 tcpdump -i "$2" -n -p -s 128 -B 65536 -Z root --time-stamp-precision=nano -w "$3" udp port 53 2>"$3.said"
    captures+=($!)
    for _ in $(seq 100); do
        grep -q 'listening on' "$3.said" && return
        sleep 0.1
    done
    cat "$3.said" >&2
    exit 1
}

# latencies FILE: microseconds from each query to its answer, sorted. The day of the stamps is cut off, so that
# doubles keep the nanoseconds.
latencies() {
    tshark -r "$1" -T fields -e frame.time_epoch -e ip.src -e udp.srcport -e ip.dst -e udp.dstport -e dns.id -e dns.flags.response 2>/dev/null |
        awk '{ split($1, t, "."); at = t[1] % 86400 + ("0." t[2]) }
             $7 == 0 || $7 == "False" { asked[$2, $3, $6] = at; next }
             ($4, $5, $6) in asked { printf "%.3f\n", (at - asked[$4, $5, $6]) * 1e6; delete asked[$4, $5, $6] }' | sort -g
}
# quantiles FILE: how many, p50 and p99.
quantiles() { awk '{ v[NR] = $1 } END { print NR, v[int((NR + 1) * 0.5)], v[int((NR + 1) * 0.99)] }' "$1"; }

printf '%-6s %9s | %9s %9s | %9s %9s %9s | %9s %9s %9s\n' round answered 'ours p50' p99 'gen. pairs' p50 p99 'srv. pairs' p50 p99
for round in $(seq "$rounds"); do
    captures=()
    capture server "$server_device" "$work/server.pcap"
    capture generator "$generator_device" "$work/generator.pcap"
    load run "$address" --rate "$rate" --duration "${seconds}s" --backend socket "$@" >"$work/result.json"
    for pid in "${captures[@]}"; do
        wait "$pid" || [ $? -eq 124 ]
    done
    for end in server generator; do
        grep -q '^0 packets dropped by kernel' "$work/$end.pcap.said" || grep 'dropped by kernel' "$work/$end.pcap.said" >&2 || true
        latencies "$work/$end.pcap" >"$work/$end.us"
    done
    read -r gn g50 g99 < <(quantiles "$work/generator.us")
    read -r sn s50 s99 < <(quantiles "$work/server.us")
    answered=$(field answered <"$work/result.json")
    o50=$(field service_latency_us.p50 <"$work/result.json") o99=$(field service_latency_us.p99 <"$work/result.json")
    printf '%-6s %9d | %9.1f %9.1f | %9d %9.1f %9.1f | %9d %9.1f %9.1f\n' "$round" "$answered" "$o50" "$o99" "$gn" "$g50" "$g99" "$sn" "$s50" "$s99"
    [ "$(field validity.valid <"$work/result.json")" = True ] || echo "       invalid: $(field validity.reasons <"$work/result.json")"
    awk -v o50="$o50" -v o99="$o99" -v g50="$g50" -v g99="$g99" -v s50="$s50" -v s99="$s99" \
        'BEGIN { print o50 - g50, o99 - g99, o50 - s50, o99 - s99 }' >>"$work/differences"
done
awk -v g50="$(median 1 "$work/differences")" -v g99="$(median 2 "$work/differences")" \
    -v s50="$(median 3 "$work/differences")" -v s99="$(median 4 "$work/differences")" '
    function verdict(d, goal) { return sprintf("%+7.1f us (goal: within %d: %s)", d, goal, (d < 0 ? -d : d) <= goal ? "met" : "missed") }
    BEGIN {
        print "median difference to the generator'\''s end: p50 " verdict(g50, 5) ", p99 " verdict(g99, 20)
        print "median difference to the server'\''s end:    p50 " verdict(s50, 5) ", p99 " verdict(s99, 20)
    }'
