#!/usr/bin/env bash
# How fast dnsrack and kxdpgun send into a sink (a socket that nobody reads), in turn, on the same rack with one core each
# for generator and receive path: floods with full bookkeeping over sockets (bursts of 512, cut up by the kernel) and
# over AF_XDP, and paced over AF_XDP with bursts of 8, offered the rate that kxdpgun reached in the same round. Rates are the
# programs' own; beside them what arrived at the sink's end of the link (its interface's counters). Needs root (AF_XDP, and rack up pins namespaces). Usage: scripts/peer-flood.sh [ROUNDS [SECONDS]]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5} seconds=${2:-5}
# shellcheck source=scripts/peer-rack.sh
. scripts/peer-rack.sh
peer_rack flood 10K 500K
spawn server python3 -c 'import signal, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((sys.argv[1], 53)); signal.pause()' "$address"
sleep 1

# What has arrived so far: taken and, where the receive path had no room, dropped.
arrived() { on server ip -j -s link show "$server_device" | python3 -c 'import json,sys; r = json.load(sys.stdin)[0]["stats64"]["rx"]; print(r["packets"] + r["dropped"])'; }
# counted COMMAND...: runs it with its output in $work/out; prints what arrived per second meanwhile.
counted() {
    local before
    before=$(arrived)
    "$@" >"$work/out" 2>"$work/err" || [ $? -eq 3 ] || { cat "$work/err" >&2; return 1; }
    echo $((($(arrived) - before) / seconds))
}
# kxdpgun leaves its XDP program on the interface.
theirs() { on generator timeout $((seconds + 20)) kxdpgun -t "$seconds" -Q 100000000 -F 1 -i "$work/queries" -I "$generator_device" "$address"; on generator ip link set dev "$generator_device" xdp off; }
ours() { on generator "$dnsrack" --json load run "$address" --queries "$work/queries" --cpus 1 --deadline 100ms --duration "${seconds}s" "$@"; }
of() { field "$1" <"$work/out"; }
why() { python3 -c 'import json, sys; print(",".join(r["code"] for r in json.load(sys.stdin)["validity"]["reasons"]) or "-")' <"$work/out"; }

printf '%-6s %11s %11s | %11s %11s %6s | %11s %11s | %11s %11s %11s %s\n' \
    round kxdpgun/s arrived gso/s arrived ratio xdp/s arrived 'offered/s' 'paced/s' arrived 'invalid for'
for round in $(seq "$rounds"); do
    a1=$(counted theirs)
    peer=$(sed -n 's/.*total queries:.*(\([0-9]*\) pps.*/\1/p' "$work/out" "$work/err")
    a4=$(counted ours --flood --backend xdp)
    xdp=$(of sent_qps)
    a2=$(counted ours --flood --backend socket)
    flood=$(of sent_qps)
    rate=$peer
    a3=$(counted ours --rate "$rate" --burst 8 --backend xdp)
    awk -v OFMT=%.0f -v r="$round" -v p="$peer" -v a="$a1" -v f="$flood" -v b="$a2" -v o="$rate" -v q="$(of sent_qps)" -v c="$a3" \
        -v x="$xdp" -v d="$a4" -v why="$(why)" 'BEGIN {
            printf "%-6s %11.0f %11.0f | %11.0f %11.0f %6.2f | %11.0f %11.0f | %11.0f %11.0f %11.0f %s\n", r, p, a, f, b, f / p, x, d, o, q, c, why }' |
        tee -a "$work/table"
done
m() { median "$1" "$work/table"; }
printf 'medians: kxdpgun %s/s, flood over sockets %s/s (ratio %s), over AF_XDP %s/s, paced %s/s of %s offered\n' \
    "$(m 2)" "$(m 5)" "$(m 7)" "$(m 9)" "$(m 13)" "$(m 12)"
