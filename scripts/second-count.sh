#!/usr/bin/env bash
# What does second_count cost? Measures NSD with a window of queries, with a second count and without, in turn. Prints of each load the
# answers per second, the share of the time for which the server's threads waited for a core, the CPU time of the server's core for a query, the
# queries that were sent and that arrived, and whether the load is valid; then the ranges. Needs root, NSD, python3.
# Usage: scripts/second-count.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/sbin"
. scripts/setup.sh
dnsrack=$(built dnsrack)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for round in $(seq "${1:-10}"); do
    ways=(false true)
    [ $((round % 2)) -eq 1 ] || ways=(true false)
    for counts in "${ways[@]}"; do
        # 3: the load was invalid, which is one of the results.
        status=0
        "$dnsrack" experiment run isc-peak --set measure=throughput --set servers=nsd --set repeats=1 --set attempts=1 --set settle=2s \
            --set throughput.duration=5s --set zone.families=U-4-DS0 --set zone.delegations=10K --set second_count="$counts" --events \
            -o "$work/$round-$counts" 2>"$work/said" | grep '"event":"done"' >>"$work/$counts" || status=$?
        [ $status -eq 0 ] || [ $status -eq 3 ] || { tail -5 "$work/said" >&2; exit 1; }
    done
done
python3 - "$work" <<'PY'
import json, sys
figures = {"answered_qps": "answers/s", "server_waited": "waited %", "server_core_time_per_query": "core us/query"}
for counts in ("false", "true"):
    trials = [json.loads(line) for line in open(f"{sys.argv[1]}/{counts}")]
    loads = [{m["name"]: m["value"] for m in trial["metrics"]} for trial in trials]
    for load, trial in zip(loads, trials):
        shown = [f"{title} {load[name]:.2f}" for name, title in figures.items()]
        print(f"second_count={counts}", *shown, "sent", load["sent"], "arrived", load.get("arrived"), "valid", trial["valid"])
    ranges = [f"{title} {min(l[n] for l in loads):.2f} to {max(l[n] for l in loads):.2f}" for n, title in figures.items()]
    print(f"second_count={counts}: {len(loads)} loads, {sum(t['valid'] for t in trials)} valid,", ", ".join(ranges))
PY
