#!/usr/bin/env bash
# Does the history of a figure mark a change, and nothing else? Makes 20 runs of NSD, three repeats each, asks the pages of `dnsrack serve` for
# changes, makes six more runs in which the same NSD is slower (throughput) or larger (memory) by PERCENT, and asks again. NSD is changed by a
# preload (scripts/slow.c); how long it must compute after each message is found by trying.
#
#   scripts/history-changes.sh throughput|memory PERCENT [FOLDER]
#
# Needs root, nsd, cc, curl, jq and python3; two cores that are quiet. The runs stay in FOLDER, where one is given, and those that are there
# are not made again.
set -euo pipefail
cd "$(dirname "$0")/.."
measure=${1:?throughput or memory} percent=${2:?the change in per cent}
if [ -n "${DNSRACK:-}" ]; then
    dnsrack=$(realpath "$DNSRACK")
else
    cargo build --release --quiet --package dnsrack --package dnsrack-query
    dnsrack=${CARGO_TARGET_DIR:-target}/release/dnsrack
fi
case $measure in
throughput) figure=answered_qps delegations=1000 ;;
memory) figure=server_pss delegations=10000 ;;
*) echo "unknown measure $measure" >&2; exit 2 ;;
esac
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
cat >"$work/history.toml" <<TOML
name = "history"
title = "NSD again and again"
measure = ["$measure"]
servers = ["nsd"]
repeats = 3
[zone]
families = ["U-4-DS0"]
delegations = [$delegations]
validate = 0
[throughput]
duration = "2s"
TOML
changed=(--set server.nsd.kind=nsd --set "server.nsd.program=$work/nsd")

# changed VARIABLE=VALUE: writes a program that starts NSD so changed.
changed() {
    printf '#!/bin/sh\nLD_PRELOAD=%s/slow.so %s exec %s "$@"\n' "$work" "$1" "$(command -v nsd)" >"$work/nsd"
    chmod +x "$work/nsd"
}

# run FOLDER [ARGUMENTS]: a run; prints the median of the figure.
run() {
    local dir=$1
    shift
    [ -e "$dir" ] || "$dnsrack" experiment run "$work/history.toml" -o "$dir" "$@" >"$work/log" 2>&1 || [ $? = 3 ] ||
        { tail -5 "$work/log" >&2; exit 1; }
    "$dnsrack" query --format csv "SELECT median(value) FROM metrics WHERE metric = '$figure'" "$dir" 2>/dev/null | tail -1
}

changes() {
    # The pages look for new runs once a second.
    sleep 2
    curl -sf "$page/history.json?figure=$figure" |
        jq -r '.histories[] | "\(.points | length) runs, \(.changes | length) changes marked\(.changes | map("\n  " + .text) | join(""))"'
}

mkdir -p "$folder"
"$dnsrack" --json serve "$folder" --port 0 >"$work/page" &
pages=$!
for n in $(seq -w 1 20); do
    echo "run $n: $(run "$folder/as-it-is-$n")"
done
page=$(jq -r .page "$work/page")
page=${page%/}
changes
if [ "$measure" = memory ]; then
    changed "GROW_OCTETS=$(python3 -c "print(int($(run "$folder/as-it-is-01") * $percent / 100))")"
else
    # What a query takes goes with the logarithm of the rate.
    ns=200
    for attempt in 1 2 3; do
        changed "SLOW_NS=$ns"
        base=$(run "$work/base-$attempt") slow=$(run "$work/tried-$attempt" "${changed[@]}")
        echo "$ns ns after each message: $(python3 -c "print(f'{100 * ($slow / $base - 1):+.1f}')") %"
        ns=$(python3 -c "
import math
change = math.log($slow / $base)
print(max(1, round($ns * min(10, math.log(1 - $percent / 100) / min(change, -0.001)))))")
    done
    changed "SLOW_NS=$ns"
fi
for n in 1 2 3 4 5 6; do
    echo "changed run $n: $(run "$folder/changed-$n" "${changed[@]}")"
done
changes
