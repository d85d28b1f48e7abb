#!/usr/bin/env bash
# How fast BIND and Knot DNS take updates from nsupdate, knsupdate, dnsperf -u and dnsrack: the same stream (ISC's mix, one
# change to a transaction, TSIG) over UDP, each program in turn against a server that was started anew with the same zone, server
# and client on a core of their own in a rack of two hosts. nsupdate and knsupdate wait for each answer; dnsperf and dnsrack do so
# with a window of 1, and are measured with one of WINDOW too. Rates are accepted transactions over the program's whole time, its
# start and the reading of the file included; beside them ratios to dnsrack with the same window. Last, what dnsrack sends to a
# responder that only acknowledges. Needs root. Usage: scripts/peer-update.sh [ROUNDS [UPDATES [DELEGATIONS [WINDOW]]]]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3} updates=${2:-10K} delegations=${3:-10K} window=${4:-100}
# shellcheck source=scripts/peer-rack.sh
. scripts/peer-rack.sh
peer_rack update "$delegations" 1K
secret=$(head -c 32 /dev/urandom | base64)
printf 'key "lab" {\n\talgorithm hmac-sha256;\n\tsecret "%s";\n};\n' "$secret" >"$work/key"
"$dnsrack" update generate "$work/zone" --mix isc --count "$updates" -o "$work/updates" >/dev/null 2>"$work/said"
{ echo "server $address"; cat "$work/updates"; } >"$work/nsupdate"
# dnsperf wants the zone before each transaction, and no word 'update'.
awk '$1 == "zone" { zone = $2; open = 0; next } /^;/ { next } { if (!open) { print zone; open = 1 } sub(/^update /, ""); print } $1 == "send" { open = 0 }' \
    "$work/updates" >"$work/dnsperf"
transactions=$(grep -c '^send' "$work/updates")

# serve KIND: starts a server with a fresh copy of the zone, and waits until it answers.
serve() {
    rm -rf "$work/server"
    mkdir -p "$work/server/db"
    cp "$work/zone" "$work/server/zone"
    case $1 in
    bind)
        cat - "$work/key" >"$work/server/conf" <<CONF
options { directory "$work/server"; listen-on { $address; }; listen-on-v6 { none; }; recursion no; notify no; pid-file none;
    session-keyfile "$work/server/session"; dnssec-validation no; check-names primary ignore; };
controls { };
zone "." { type primary; file "zone"; allow-update { key "lab"; }; };
CONF
        spawn server named -g -n 1 -c "$work/server/conf" 2>"$work/server/log" ;;
    knot)
        cat >"$work/server/conf" <<CONF
server:
    rundir: "$work/server"
    listen: [ "$address@53" ]
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
control:
    listen: "$work/server/control"
database:
    storage: "$work/server/db"
key:
  - id: lab
    algorithm: hmac-sha256
    secret: "$secret"
acl:
  - id: update
    action: update
    key: lab
zone:
  - domain: .
    file: "$work/server/zone"
    zonefile-sync: -1
    acl: update
CONF
        spawn server knotd -c "$work/server/conf" >"$work/server/log" 2>&1 ;;
    esac
    serving=$!
    for _ in $(seq 300); do
        on generator dig +time=1 +tries=1 +norec "@$address" . SOA 2>/dev/null | grep -q 'status: NOERROR' && return
        sleep 0.2
    done
    echo "$1 does not answer:" >&2
    tail -5 "$work/server/log" >&2
    exit 1
}
unserve() { kill "$serving" 2>/dev/null || true; wait "$serving" 2>/dev/null || true; }

# Each prints how many transactions were accepted.
with_nsupdate() { on generator nsupdate -t 0 -y "hmac-sha256:lab:$secret" "$work/nsupdate" >"$work/out" 2>&1 && echo "$transactions" || echo $((transactions - $(grep -c 'failed' "$work/out"))); }
with_knsupdate() { on generator knsupdate -y "hmac-sha256:lab:$secret" "$work/nsupdate" >"$work/out" 2>&1 && echo "$transactions" || echo $((transactions - $(grep -c 'failed' "$work/out"))); }
with_dnsperf() { on generator dnsperf -u -s "$address" -d "$work/dnsperf" -n 1 -c 1 -T 1 -q "$1" -y "hmac-sha256:lab:$secret" 2>/dev/null | awk '$1 == "Response" && $2 == "codes:" { print $4 + 0 }'; }
with_dnsrack() { { on generator "$dnsrack" --json update send "$address" "$work/updates" --window "$1" --tsig "$work/key" --cpu 1 2>"$work/said" || [ $? -eq 3 ]; } | field accepted; }

printf '%-6s %-6s %-16s %10s %10s\n' round server program accepted 'per second'
run() {
    local name=$1 begun accepted
    shift
    serve "$server"
    begun=$(date +%s.%N)
    accepted=$("$@") || accepted=0
    awk -v r="$round" -v s="$server" -v p="$name" -v n="${accepted:-0}" -v b="$begun" -v e="$(date +%s.%N)" \
        'BEGIN { printf "%-6s %-6s %-16s %10d %10.0f\n", r, s, p, n, n / (e - b) }' | tee -a "$work/table"
    unserve
}
for round in $(seq "$rounds"); do
    for server in bind knot; do
        run nsupdate with_nsupdate
        run knsupdate with_knsupdate
        run dnsperf-1 with_dnsperf 1
        run dnsrack-1 with_dnsrack 1
        run "dnsperf-$window" with_dnsperf "$window"
        run "dnsrack-$window" with_dnsrack "$window"
    done
done
of() { awk -v s="$1" -v p="$2" '$2 == s && $3 == p' "$work/table" >"$work/one"; median 5 "$work/one"; }
for server in bind knot; do
    for pair in nsupdate:1 knsupdate:1 dnsperf-1:1 "dnsperf-$window:$window"; do
        awk -v s="$server" -v p="${pair%:*}" -v o="dnsrack-${pair#*:}" -v a="$(of "$server" "${pair%:*}")" -v b="$(of "$server" "dnsrack-${pair#*:}")" \
            'BEGIN { if (a + 0 == 0) { print s ": " p " has no figure"; exit } printf "median %s: %s %.0f/s, %s %.0f/s: ratio %.2f\n", s, o, b, p, a, b / a }'
    done
done

# What is the most that the sender can do: a flood, each message signed and each answer's signature checked.
spawn server "$dnsrack" update echo "$address" --tsig "$work/key" --cpu 0 2>"$work/said"
sleep 1
"$dnsrack" update generate "$work/zone" --mix isc --count 1M -o "$work/million" >/dev/null 2>"$work/said" ||
    "$dnsrack" update generate "$work/zone" --mix 2:1:1 --count 1M -o "$work/million" >/dev/null 2>"$work/said"
for round in $(seq "$rounds"); do
    { on generator "$dnsrack" --json update send "$address" "$work/million" --flood --deadline 200ms --tsig "$work/key" --cpu 1 2>"$work/said" || [ $? -eq 3 ]; } >"$work/flood"
    awk -v s="$(field sent_ups <"$work/flood")" -v a="$(field acknowledged_ups <"$work/flood")" -v r="$round" 'BEGIN { printf "%-6s flood at an echo: sent %.0f/s, acknowledged %.0f/s\n", r, s, a }' | tee -a "$work/floods"
done
printf 'median flood: %s/s sent; the fastest server took %s/s: ' "$(awk '{ sub(/\/s,/, "", $7); print $7 }' "$work/floods" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')" \
    "$(awk '{ if ($5 > m) m = $5 } END { print m }' "$work/table")"
awk -v s="$(awk '{ sub(/\/s,/, "", $7); print $7 }' "$work/floods" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')" \
    -v m="$(awk '{ if ($5 > m) m = $5 } END { print m }' "$work/table")" 'BEGIN { printf "ratio %.1f (goal: at least 10)\n", s / m }'
