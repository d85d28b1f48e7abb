#!/usr/bin/env bash
# How good is 'dnsrack compare --build'?
#   scripts/compare-accuracy.sh same [REPEATS [SERVERS]]          each build against itself: how wide are the intervals (12 repeats)?
#   scripts/compare-accuracy.sh slowed PERCENT [TIMES [SERVERS]]  a build against itself, slowed: is that found (10 times)?
# SERVERS is a list such as "nsd bind". A server is slowed by a preload that computes for so long after each message that was sent;
# how long makes the throughput PERCENT less is found by trying. Needs python3, and cc for 'slowed'.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh
dnsrack=$(built dnsrack)
export PATH="/usr/sbin:$PATH"
work=$(mktemp -d)
echo "runs: $work"

program() {
    case $1 in
    bind) command -v named ;; nsd) command -v nsd ;; knot) command -v knotd ;; powerdns) command -v pdns_server ;; yadifa) command -v yadifad ;;
    *) echo "unknown server $1" >&2; exit 2 ;;
    esac
}

# compare NAME BASE CANDIDATE KIND [--set …]: writes NAME.json; says nothing if the comparison ended with an answer.
compare() {
    local name=$1 base=$2 candidate=$3 kind=$4
    shift 4
    "$dnsrack" compare --build "$base" --build "$candidate" --kind "$kind" -o "$work/$name" --json "$@" >"$work/$name.json" 2>"$work/$name.txt" ||
        [ -s "$work/$name.json" ] || { tail -5 "$work/$name.txt" >&2; exit 1; }
}

same() {
    local repeats=${1:-12}
    printf '%-9s %7s   %-36s %9s %18s %11s\n' server seconds figure change interval half-width
    for server in ${2:-bind nsd knot powerdns}; do
        local began=$SECONDS
        compare "same-$server" "$(program "$server")" "$(program "$server")" "$server" --set repeats="$repeats" --set comparison.repeats="$repeats"
        python3 - "$server" $((SECONDS - began)) "$work/same-$server.json" <<'PY'
import json, sys
server, seconds, path = sys.argv[1:]
for cell in json.load(open(path))["cells"]:
    for figure in cell["figures"]:
        change = figure["change"]
        if not change:
            continue
        low, high = 100 * change["low"], 100 * change["high"]
        name = f"{figure['name']} ({cell['params'].get('measure', 'both')})"
        shown = "  shown" if figure["verdict"] in ("better", "worse") else ""
        print(f"{server:<9} {seconds:>7}   {name:<36} {100 * change['value']:>+7.2f} % {low:>+8.2f} to {high:>+6.2f} {(high - low) / 2:>8.2f} %{shown}")
PY
    done
}

# slow SERVER NS: writes $work/slow-SERVER, which starts the server so slowed.
slow() {
    printf '#!/bin/sh\nLD_PRELOAD=%s/slow.so SLOW_NS=%s exec %s "$@"\n' "$work" "$2" "$(program "$1")" >"$work/slow-$1"
    chmod +x "$work/slow-$1"
}

slowed() {
    local percent=$1 times=${2:-10}
    cc -O2 -shared -fPIC -o "$work/slow.so" scripts/slow.c -ldl
    printf '%-9s %5s %8s %-10s  %s\n' server time seconds outcome 'changes of the figures that decide, in percent'
    for server in ${3:-nsd bind}; do
        # A nanosecond of computing costs more than one: find by trying how many make the throughput PERCENT less.
        local ns=200 change
        for _ in 1 2 3; do
            slow "$server" "$ns"
            compare "tried-$server-$ns" "$(program "$server")" "$work/slow-$server" "$server" --set measure=throughput --set repeats=8 \
                --set comparison.repeats=8
            read -r ns change < <(python3 - "$work/tried-$server-$ns.json" "$ns" "$percent" <<'PY'
import json, math, sys
path, ns, percent = sys.argv[1:]
figures = [figure for cell in json.load(open(path))["cells"] for figure in cell["figures"]]
change = next(f["change"]["value"] for f in figures if f["name"] == "sustained_qps")
# What a query takes goes with the logarithm of the rate.
wanted = math.log(1 - float(percent) / 100) / min(math.log(1 + change), -0.001)
print(max(1, round(float(ns) * min(wanted, 10))), f"{100 * change:+.1f}")
PY
            )
            echo "$server: the last computing time made it $change % in throughput; now $ns ns"
        done
        slow "$server" "$ns"
        for n in $(seq "$times"); do
            local began=$SECONDS
            compare "slowed-$server-$n" "$(program "$server")" "$work/slow-$server" "$server"
            python3 - "$server" "$n" $((SECONDS - began)) "$work/slowed-$server-$n.json" <<'PY'
import json, sys
server, n, seconds, path = sys.argv[1:]
found = json.load(open(path))
parts = []
for cell in found["cells"]:
    for figure in cell["figures"]:
        change = figure["change"]
        if change and figure["gates"]:
            parts.append(f"{figure['name']} {100 * change['value']:+.1f} ({100 * change['low']:+.1f} to {100 * change['high']:+.1f}) {figure['outcome']}")
print(f"{server:<9} {n:>5} {seconds:>8} {found['outcome']:<10}  {'; '.join(parts)}", flush=True)
PY
        done
    done
}

case ${1:-} in
same) shift; same "$@" ;;
slowed) shift; slowed "$@" ;;
*) sed -n 2,7p "$0" >&2; exit 2 ;;
esac
