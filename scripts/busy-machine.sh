#!/usr/bin/env bash
# Does dnsrack print a wrong figure as valid while a compiler runs on both cores? Measures NSD in quiet (QUIET times, 5), then TIMES
# times (20) with two rustc processes at work, and prints each capacity and each median latency with its validity. A figure is
# wrong where it is valid and differs from the quiet median by more than a quarter of it. Needs root, NSD, rustc, python3.
# Usage: scripts/busy-machine.sh [TIMES [QUIET]]
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:/usr/sbin:$PATH"
. scripts/setup.sh
dnsrack=$(built dnsrack)
source=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -path '*/regex-syntax-*/src/lib.rs' | head -1)
[ -n "$source" ] || { echo "no sources to compile: build dnsrack on this machine first" >&2; exit 1; }
work=$(mktemp -d) compilers=()
trap 'kill "${compilers[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT

compile() {
    while [ ! -e "$work/over" ]; do
        rustc --edition 2021 --crate-type lib -O --cap-lints allow --crate-name "$1" --cfg 'feature="std"' --cfg 'feature="unicode"' "$source" \
            --out-dir "$work/$1" >/dev/null 2>&1 || true
    done
}

one() {
    # 3: trials were invalid; that is what is looked for.
    local status=0
    "$dnsrack" experiment run demo --set servers=nsd --set zone.families=U-4-DS0 --set zone.delegations=1K -o "$work/$1" --events \
        >"$work/$1.json" 2>"$work/$1.txt" || status=$?
    [ $status -eq 0 ] || [ $status -eq 3 ] || { tail -5 "$work/$1.txt" >&2; exit 1; }
}

# judge NAME: a line for each trial of this run; the quiet ones are what the others are judged by.
judge() {
    python3 - "$work" "$1" <<'PY'
import glob, json, os, statistics, sys

FIGURES = {"peak": "capacity_qps", "latency": "latency_p50"}
folder, name = sys.argv[1:]

def figures(path):
    """Of each measure of a run: the figure, and whether it is printed as a valid one."""
    for event in map(json.loads, open(path)):
        if event.get("event") == "done":
            measure = event["params"]["measure"]
            metrics = {m["name"]: m["value"] for m in event["metrics"]}
            # A lower bound is printed as one.
            yield measure, metrics.get(FIGURES[measure]), event["valid"] and not metrics.get("capacity_at_least")

quiet = {}
for path in glob.glob(os.path.join(folder, "quiet-*.json")):
    for measure, value, valid in figures(path):
        if valid and value:
            quiet.setdefault(measure, []).append(value)
for measure, value, valid in figures(os.path.join(folder, name + ".json")):
    if not valid or value is None:
        word = "marked as invalid, a bound or not known"
    elif measure in quiet and abs(value / statistics.median(quiet[measure]) - 1) > 0.25:
        word = f"WRONG: the quiet median is {statistics.median(quiet[measure]):,.1f}"
    else:
        word = "valid"
    print(f"{name:<9} {measure:<8} {'-' if value is None else format(value, ',.1f'):>10}  {word}", flush=True)
PY
}

for n in $(seq "${2:-5}"); do one "quiet-$n"; judge "quiet-$n"; done
for name in one two; do mkdir "$work/$name"; compile "$name" & compilers+=($!); done
for n in $(seq "${1:-20}"); do one "busy-$n"; judge "busy-$n"; done
touch "$work/over"
wait "${compilers[@]}"
