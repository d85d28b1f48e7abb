#!/usr/bin/env bash
# Does 'demo' give the same capacities each time? Runs it TIMES times (10; some five minutes each) and prints for each cell the
# capacities in order, their median, and how many lie within 10 % of it. With RUNS given, nothing is run: it reads the runs that
# are there. Needs python3. Usage: scripts/demo-repeats.sh [TIMES] | scripts/demo-repeats.sh --read RUNS...
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --read ]; then
    shift
    runs=("$@")
else
    dnsrack=${DNSRACK:-${CARGO_TARGET_DIR:-target}/release/dnsrack}
    [ -x "$dnsrack" ] || { echo "build it first: cargo build --release" >&2; exit 1; }
    folder=$(mktemp -d) runs=()
    for n in $(seq "${1:-10}"); do
        # Invalid trials are a result here.
        "$dnsrack" experiment run demo -o "$folder/$n" >"$folder/$n.txt" 2>&1 || [ $? -eq 3 ] || { tail "$folder/$n.txt" >&2; exit 1; }
        runs+=("$folder/$n")
    done
    echo "runs: $folder"
fi
exec python3 - "${runs[@]}" <<'PY'
import glob, json, os, re, statistics, sys

CONFIGURATIONS = {"named.conf": "bind", "nsd.conf": "nsd", "knot.conf": "knot", "pdns.conf": "powerdns"}

def cell(folder):
    """The server and the zone of a trial, by the server's configuration."""
    for name, server in CONFIGURATIONS.items():
        if os.path.exists(os.path.join(folder, name)):
            texts = [open(path).read() for path in glob.glob(os.path.join(folder, "*.conf"))]
            zone = re.search(r'/zones/([^/"]+)\.zone', "".join(texts))
            return server, zone.group(1) if zone else "?"
    return "?", "?"

cells = {}
for run in sys.argv[1:]:
    for path in glob.glob(os.path.join(run, "servers", "*", "search.json")):
        folder = os.path.dirname(path)
        if "-" in os.path.basename(folder):
            continue  # an attempt that was invalid
        capacity = json.load(open(path))["capacity"]
        at = capacity["qps"] if capacity and not capacity["at_least"] else None
        cells.setdefault(cell(folder), []).append(at)
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
print(f"within 10 % of their cell's median: {near} of {known} ({100 * near / max(known, 1):.0f} %); not known: {unknown} of {known + unknown}")
PY
