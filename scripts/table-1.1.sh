#!/usr/bin/env bash
# RZAIA's table 1.1 again: every family at every size made, read and judged against the published row.
# Usage: scripts/table-1.1.sh [SIZE...]     (1K 10K 100K 1M; 10M needs 8 GB of disk in $TMPDIR and some minutes)
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 1K 10K 100K 1M
export PATH="$HOME/.cargo/bin:$PATH"
cargo build --release --quiet --package dnsrack
dnsrack="${CARGO_TARGET_DIR:-target}/release/dnsrack"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
printf '%-10s %5s  %s\n' family size 'found (difference to the published count, in per cent)'
for family in U-4-DS0 U-6-DS0 S-6-DS10 S-6-DS50 S-6-DS100; do
    for size in "$@"; do
        "$dnsrack" zone generate --family "$family" --delegations "$size" -o "$work/zone" 2>/dev/null
        "$dnsrack" --json zone info "$work/zone" --against "rzaia:$family:$size" 2>/dev/null >"$work/info" || status=$?
        python3 - "$work/info" "$family" "$size" <<'PY'
import json, sys
info = json.load(open(sys.argv[1]))
row = []
for f in info["verdict"]["findings"][1:]:
    off = 100 * (f["found"] - f["expected"]) / (f["expected"] or 1)
    row.append(f"{f['what'].split()[0]} {f['found']:,.0f} ({off:+.2f}{'' if f['within'] else ' OUT OF BOUNDS'})")
print(f"{sys.argv[2]:10} {sys.argv[3]:>5}  " + "  ".join(row) + f"  octets {info['bytes']:,}, in wire format {info['wire_bytes']:,}")
PY
        rm "$work/zone"
    done
done
exit "$status"
