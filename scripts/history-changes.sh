#!/usr/bin/env bash
# Does the history of a figure mark a change of 10 %, and nothing else? Makes 20 runs of NSD (throughput, three repeats each), asks the pages
# of `dnsrack serve` for changes, makes six more runs in which the same NSD is slowed by PERCENT, and asks again. NSD is slowed by a preload that
# computes for so long after each message; how long is found by trying.
#
#   scripts/history-changes.sh [PERCENT [RUNS [FOLDER]]]
#
# Needs root, nsd, cc, curl and jq; two cores that are quiet. The runs stay in FOLDER, where one is given.
set -euo pipefail
cd "$(dirname "$0")/.."
percent=${1:-10} runs=${2:-20}
if [ -n "${DNSRACK:-}" ]; then
    dnsrack=$(realpath "$DNSRACK")
else
    cargo build --release --quiet --package dnsrack
    dnsrack=${CARGO_TARGET_DIR:-target}/release/dnsrack
fi
export PATH="/usr/sbin:$PATH"
work=$(mktemp -d)
folder=${3:-$work/runs}
pages=
tidy() {
    [ -z "$pages" ] || kill "$pages" 2>/dev/null || true
    rm -rf "$work"
}
trap tidy EXIT
cc -O2 -shared -fPIC -o "$work/slow.so" scripts/slow.c -ldl
cat >"$work/history.toml" <<'TOML'
name = "history"
title = "NSD again and again"
measure = ["throughput"]
servers = ["nsd"]
repeats = 3
[zone]
families = ["U-4-DS0"]
delegations = [1000]
validate = 0
[throughput]
duration = "2s"
TOML

# slowed NS: writes a program that starts NSD so slowed.
slowed() {
    printf '#!/bin/sh\nLD_PRELOAD=%s/slow.so SLOW_NS=%s exec %s "$@"\n' "$work" "$1" "$(command -v nsd)" >"$work/nsd"
    chmod +x "$work/nsd"
}

# run NAME [ARGUMENTS]: a run; prints the median of its answers per second.
run() {
    local name=$1 dir=$1
    shift
    [[ $dir == /* ]] || dir=$folder/$name
    "$dnsrack" experiment run "$work/history.toml" -o "$dir" "$@" >"$work/log" 2>&1 || [ $? = 3 ] || { tail -5 "$work/log" >&2; exit 1; }
    "$dnsrack" query --format csv "SELECT median(value) FROM metrics WHERE metric = 'answered_qps'" "$dir" 2>/dev/null | tail -1
}

changes() {
    curl -sf "$page/history.json?figure=answered_qps" |
        jq -r '.histories[] | "\(.points | length) runs, \(.changes | length) changes marked\(.changes | map("\n  " + .text) | join(""))"'
}

mkdir -p "$folder"
"$dnsrack" --json serve "$folder" --port 0 >"$work/page" &
pages=$!
for n in $(seq -w 1 "$runs"); do
    echo "run $n: $(run "as-it-is-$n") answers/s"
done
page=$(jq -r .page "$work/page")
page=${page%/}
sleep 2
changes
# What a query takes goes with the logarithm of the rate.
ns=200
for attempt in 1 2 3; do
    slowed "$ns"
    base=$(run "$work/base-$attempt") slow=$(run "$work/tried-$attempt" --set server.nsd.program="$work/nsd")
    ns=$(python3 -c "
import math
change = math.log($slow / $base)
print(max(1, round($ns * min(10, math.log(1 - $percent / 100) / min(change, -0.001)))))")
    echo "slowed: $(python3 -c "print(f'{100 * ($slow / $base - 1):+.1f}')") %; now $ns ns for each message"
done
slowed "$ns"
for n in 1 2 3 4 5 6; do
    echo "slowed run $n: $(run "slowed-$n" --set server.nsd.program="$work/nsd") answers/s"
done
sleep 2
changes
