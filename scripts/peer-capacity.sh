#!/usr/bin/env bash
# Does the capacity that an experiment gives agree with dnsperf's window? Runs 'demo' for each server on one zone, then starts each
# server again with the configuration that the experiment wrote, in a rack of the same addresses and cores, and asks it with dnsperf,
# the experiment's window of 250 and its deadline of 1 s, after which a lost query gives its place in the window to another. There are
# three loads of 3 s, each with queries of its own: a load that repeated those before it would measure PowerDNS's packet cache.
# dnsperf's queries all have EDNS or none has, so here none has, for both. Prints the capacity, its loads' median stretch, dnsperf's
# rate, the share of dnsperf's loads in which the server's core had nothing to do (much of it: dnsperf was the limit), and the ratios
# of both to dnsperf's rate. Needs root.
# Usage: scripts/peer-capacity.sh [ROUNDS [DELEGATIONS [FAMILY]]]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3} delegations=${2:-10K} family=${3:-U-4-DS0}
# shellcheck source=scripts/peer-rack.sh
. scripts/peer-rack.sh
peer_rack capacity "$delegations" 1500K
split -n l/3 "$work/queries" "$work/queries-"
# The server's core so far: idle and all time, in ticks.
core() { awk '$1 == "cpu0" { print $5 + $6, $2 + $3 + $4 + $5 + $6 + $7 + $8 }' /proc/stat; }
printf '%-9s %5s %10s %10s %10s %22s %6s %15s\n' server round capacity median dnsperf loads idle ratios
for round in $(seq "$rounds"); do
    run=$work/run-$round
    taskset -c 0,1 "$dnsrack" experiment run demo --set measure=peak --set zone.families="$family" --set zone.delegations="$delegations" \
        --set traffic.changes.edns=0 --set traffic.changes.do=0 --set zone.keep=true --set peak.budget=1s -o "$run" >"$work/said" 2>&1 || [ $? -eq 3 ] || { cat "$work/said" >&2; exit 1; }
    for dir in "$run"/servers/*; do
        [[ ${dir##*/} == *-* ]] && continue # an attempt that was invalid
        if [ -e "$dir/named.conf" ]; then
            server=bind; spawn server named -f -n 1 -c "$dir/named.conf" -L "$work/log"
        elif [ -e "$dir/nsd.conf" ]; then
            server=nsd; spawn server nsd -d -c "$dir/nsd.conf"
        elif [ -e "$dir/knot.conf" ]; then
            server=knot; spawn server knotd -c "$dir/knot.conf" >/dev/null 2>&1
        else
            server=powerdns; spawn server pdns_server --config-dir="$dir" >/dev/null 2>&1
        fi
        process=$!
        for _ in $(seq 150); do
            on generator dig +time=1 +tries=1 +norec "@$address" . SOA 2>/dev/null | grep -q 'status: NOERROR' && break
            sleep 0.2
        done
        : >"$work/windows"
        for queries in "$work"/queries-*; do
            on generator taskset -c 1 dnsperf -s "$address" -d "$queries" -l 3 -q 250 -t 1 -c 16 -T 1 >"$work/dnsperf" 2>&1 &
            load=$!
            sleep 0.5
            read -r idle all <<<"$(core)"
            sleep 2
            read -r idle_then all_then <<<"$(core)"
            wait "$load"
            rate=$(awk '/Queries per second/ { print $4 }' "$work/dnsperf")
            echo "$rate $(((idle_then - idle) * 100 / (all_then - all)))" >>"$work/windows"
        done
        python3 - "$server" "$round" "$dir/search.json" "$work/windows" <<'PY'
import json, statistics, sys
server, n, path, windows = sys.argv[1:]
capacity = json.load(open(path))["capacity"]
loads = [tuple(map(float, line.split())) for line in open(windows)]
theirs = sorted(rate for rate, _ in loads)
idle = statistics.median(idle for _, idle in loads)
ours, stretch = capacity["qps"] or 0, capacity["median_qps"] or 0
word = "at least " if capacity["at_least"] else ""
shown = f"{word}{ours:,.0f}" if ours else "not known"
peer = statistics.median(theirs)
span = f"{theirs[0]:,.0f} to {theirs[-1]:,.0f}"
ratios = f"{ours / peer:.2f} and {stretch / peer:.2f}"
print(f"{server:<9} {n:>5} {shown:>10} {stretch:>10,.0f} {peer:>10,.0f} {span:>22} {idle:>4.0f} % {ratios:>15}")
PY
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
done
