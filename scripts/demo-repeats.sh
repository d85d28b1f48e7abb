#!/usr/bin/env bash
# Does 'demo' give the same capacities each time? Runs it TIMES times (10; some five minutes each) and prints for each cell the
# capacities in order, their median, and how many lie within 10 % of it; and how other estimators from the same loads would have
# done. With RUNS given, nothing is run: it reads the runs that are there. Needs python3. Usage: scripts/demo-repeats.sh [TIMES] | scripts/demo-repeats.sh --read RUNS...
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --read ]; then
    shift
    runs=("$@")
else
    . scripts/setup.sh
    dnsrack=$(built dnsrack)
    folder=$(mktemp -d) runs=()
    for n in $(seq "${1:-10}"); do
        # Invalid trials are a result here.
        "$dnsrack" experiment run demo -o "$folder/$n" >"$folder/$n.txt" 2>&1 || [ $? -eq 3 ] || { tail "$folder/$n.txt" >&2; exit 1; }
        runs+=("$folder/$n")
    done
    echo "runs: $folder"
fi
exec python3 - "${runs[@]}" <<'PY'
import glob, json, math, os, re, statistics, sys

CONFIGURATIONS = {"named.conf": "bind", "nsd.conf": "nsd", "knot.conf": "knot", "pdns.conf": "powerdns"}

def cell(folder):
    """The server and the zone of a trial, by the server's configuration."""
    for name, server in CONFIGURATIONS.items():
        if os.path.exists(os.path.join(folder, name)):
            texts = [open(path).read() for path in glob.glob(os.path.join(folder, "*.conf"))]
            zone = re.search(r'/zones/([^/"]+)\.zone', "".join(texts))
            return server, zone.group(1) if zone else "?"
    return "?", "?"

def quantile(values, q):
    values = sorted(values)
    at = q * (len(values) - 1)
    low, high = values[math.floor(at)], values[math.ceil(at)]
    return low + at % 1 * (high - low)

def pooled(loads):
    return [rate for load in loads for rate in load]

# Each takes the stretches of all loads that count, load by load.
ESTIMATORS = {
    "median of the first three loads' medians": lambda loads: statistics.median(quantile(load, 0.5) for load in loads[:3]),
    "median stretch": lambda loads: quantile(pooled(loads), 0.5),
    "upper quartile of the stretches": lambda loads: quantile(pooled(loads), 0.75),
    "what a tenth of the stretches reached (the capacity)": lambda loads: quantile(pooled(loads), 0.9),
    "the best stretch": lambda loads: max(pooled(loads)),
}

estimates = {}
cells = {}
for run in sys.argv[1:]:
    for path in glob.glob(os.path.join(run, "servers", "*", "search.json")):
        folder = os.path.dirname(path)
        if "-" in os.path.basename(folder):
            continue  # an attempt that was invalid
        capacity = json.load(open(path))["capacity"]
        at = capacity["qps"] if capacity and not capacity["at_least"] else None
        of = cell(folder)
        cells.setdefault(of, []).append(at)
        loads = [load["stretches"] for load in (capacity or {}).get("loads", []) if load["not_counted"] is None and not load["limited"]]
        for name, estimator in ESTIMATORS.items() if loads else []:
            estimates.setdefault(name, {}).setdefault(of, []).append(estimator(loads))
print(f"{'server':<9} {'zone':<15} {'median':>8} {'least':>8} {'most':>8} {'within 10 %':>12} {'not known':>10}")
near = known = unknown = 0
for (server, zone), all in sorted(cells.items()):
    values = sorted(v for v in all if v)
    unknown += len(all) - len(values)
    if not values:
        print(f"{server:<9} {zone:<15} {'-':>8} {'-':>8} {'-':>8} {'-':>12} {len(all):>10}")
        continue
    middle = statistics.median(values)
    within = sum(abs(v / middle - 1) <= 0.1 for v in values)
    near, known = near + within, known + len(values)
    print(f"{server:<9} {zone:<15} {middle:>8,.0f} {values[0]:>8,.0f} {values[-1]:>8,.0f} {within:>5} of {len(values):<3} {len(all) - len(values):>10}")
def near_median(cells):
    count = lambda values: sum(abs(v / statistics.median(values) - 1) <= 0.1 for v in values)
    return sum(map(count, cells.values())), sum(map(len, cells.values()))

print(f"within 10 % of their cell's median: {near} of {known} ({100 * near / max(known, 1):.0f} %); not known: {unknown} of {known + unknown}")
print()
for name, cells in estimates.items():
    close, all = near_median(cells)
    print(f"{name:<53} {close:>4} of {all} ({100 * close / all:.0f} %)")
PY
