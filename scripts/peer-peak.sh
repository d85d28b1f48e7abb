#!/usr/bin/env bash
# The highest rate that NSD answers with at most 0.1 % loss, as kxdpgun, dnsperf and dnsrack find it: in turn, on the same
# rack, one core each for server and generator, the same query file. kxdpgun and dnsperf are driven by bisection over
# the rate (trials of 3 s); dnsperf also without a rate, its window being the limit. Needs root.
# Usage: scripts/peer-peak.sh [ROUNDS [DELEGATIONS]]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5} delegations=${2:-100K}
# shellcheck source=scripts/peer-rack.sh
. scripts/peer-rack.sh
peer_rack peak "$delegations" 1M
peer_nsd

# One trial at a rate (0: as fast as it goes): answered queries a second and loss ratio.
trial_kxdpgun() {
    on generator kxdpgun -t 3 -Q "$1" -b 10 -F 1 -i "$work/queries" -p 53 "$address" 2>&1 | awk '
        /^total queries:/ { sent = $3 }
        /^total replies:/ { got = $3 }
        END { printf "%.0f %.6f\n", got / 3, sent ? 1 - got / sent : 1 }'
    on generator ip link set dev "$generator_device" xdp off
}
trial_dnsperf() {
    local limit=()
    [ "$1" = 0 ] || limit=(-Q "$1")
    on generator dnsperf -s "$address" -d "$work/queries" -l 3 -q 1000 -c 16 -T 1 "${limit[@]}" 2>/dev/null | awk '
        /Queries sent/ { sent = $3 }
        /Queries completed/ { got = $3 }
        /Queries per second/ { rate = $4 }
        END { printf "%.0f %.6f\n", rate, sent ? 1 - got / sent : 1 }'
}
# The greatest answered rate over a bisection: highest TOOL FROM TO.
highest() {
    local low=$2 high=$3 best=0
    while [ $((high - low)) -gt $((high / 40)) ]; do
        local rate=$(((low + high) / 2))
        read -r answered loss < <("trial_$1" "$rate")
        if awk "BEGIN { exit !($loss <= 0.001) }"; then
            low=$rate
            [ "$answered" -gt "$best" ] && best=$answered
        else
            high=$rate
        fi
    done
    echo "$best"
}

printf '%-6s %10s %10s %10s %10s %10s %12s %12s\n' round kxdpgun dnsperf 'd. window' sockets AF_XDP 'best/kxdpgun' 'best/dnsperf'
for round in $(seq "$rounds"); do
    kxdpgun=$(highest kxdpgun 20000 300000)
    dnsperf=$(highest dnsperf 20000 300000)
    read -r window loss < <(trial_dnsperf 0)
    awk "BEGIN { exit !($loss > 0.001) }" && window=0
    for backend in socket xdp; do
        "$dnsrack" rack exec --rack "$rack" generator "$dnsrack" --json load search "$address" --queries "$work/queries" --cpus 1 \
            --budget 30s --start 60K --group 8 --backend $backend >"$work/$backend.json" 2>"$work/said" || [ $? -eq 3 ]
    done
    python3 - "$round" "$kxdpgun" "$dnsperf" "$window" "$work/socket.json" "$work/xdp.json" <<'PY'
import json, sys
n, k, d, w = sys.argv[1], *map(float, sys.argv[2:5])
s, x = (json.load(open(path))["peak_qps"] or 0 for path in sys.argv[5:])
best = max(s, x)
print(f"{n:<6} {k:10.0f} {d:10.0f} {w:10.0f} {s:10.0f} {x:10.0f} {best / k if k else 0:12.2f} {best / max(d, w):12.2f}")
PY
done
