#!/usr/bin/env bash
# What making, reading, signing and comparing large zones costs: wall seconds, CPU seconds and the largest resident memory
# of each step, at the full size of RZAIA's table 1.1. Needs some 12 GB of disk in $TMPDIR for size 10M.
# Usage: scripts/measure-zones.sh [DELEGATIONS_OF_THE_LARGEST [DELEGATIONS_OF_THE_DIFF]]
set -euo pipefail
cd "$(dirname "$0")/.."
largest=${1:-10M} differ=${2:-1M}
export PATH="$HOME/.cargo/bin:/usr/sbin:$PATH"
cargo build --release --quiet --package dnsrack
dnsrack="${CARGO_TARGET_DIR:-target}/release/dnsrack"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# timed WHAT COMMAND...: one line of figures; the command's own words go to a file.
timed() {
    local what=$1
    shift
    /usr/bin/time -o "$work/time" -f '%e %U %S %M' "$@" >"$work/out" 2>"$work/err" || { cat "$work/err" >&2; return 1; }
    awk -v w="$what" '{ printf "%-58s %8.2f s wall %8.2f s CPU %8.1f MB resident\n", w, $1, $2 + $3, $4 / 1024 }' "$work/time"
}
megabytes() { stat -c %s "$1" | awk '{ printf "%.0f MB", $1 / 1e6 }'; }

timed "generate U-4-DS0 $largest to /dev/null" "$dnsrack" zone generate --family U-4-DS0 --delegations "$largest" -o /dev/null
timed "generate COM $largest to /dev/null" "$dnsrack" zone generate --family COM --delegations "$largest" -o /dev/null
timed "generate U-4-DS0 $largest to disk" "$dnsrack" zone generate --family U-4-DS0 --delegations "$largest" -o "$work/large"
timed "the same and sync" bash -c "'$dnsrack' zone generate --family U-4-DS0 --delegations $largest -o '$work/large' && sync '$work/large'"
timed "dd of as many octets, and sync" dd if=/dev/zero of="$work/dd" bs=1M count=$(($(stat -c %s "$work/large") / 1048576)) conv=fsync
rm "$work/dd"
timed "info of it ($(megabytes "$work/large"))" "$dnsrack" zone info "$work/large"
rm "$work/large"
timed "generate and sign S-6-DS100 $largest, P-256, /dev/null" \
    "$dnsrack" zone generate --family S-6-DS100 --delegations "$largest" --sign ECDSAP256SHA256 -o /dev/null
cat "$work/err"
"$dnsrack" zone generate --family U-4-DS0 --delegations "$differ" -o "$work/old" 2>/dev/null
# One delegation in 100 gets another first name server, one in 1,000 goes: the newer version.
awk -F'\t' '$1 != "" { n += $2 == "NS"; gone = $2 == "NS" && n % 1000 == 0; changed = $2 == "NS" && n % 100 == 7 }
    gone { next }
    changed { print $1 "\tNS\tns1.elsewhere.example."; changed = 0; next }
    { print }' "$work/old" >"$work/new"
timed "info of $differ ($(megabytes "$work/old")) in the page cache" "$dnsrack" zone info "$work/old"
timed "diff of two such zones ($(megabytes "$work/old") each)" "$dnsrack" zone diff "$work/old" "$work/new"
cat "$work/out"
