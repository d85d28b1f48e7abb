#!/usr/bin/env bash
# RZAIA's table 1.1 again: every family at every size made from three seeds, read and judged against the published row. Prints a row for each
# zone, and writes the counts to FOLDER, where 'dnsrack report --coverage' reads them. Counts of other sizes that are in FOLDER stay.
# Needs python3; no zone is kept on the disk.
# Usage: scripts/table-1.1.sh [FOLDER [SIZE...]]     (default: docs/values 1K 10K 100K 1M; the 15 zones of 10M take some eight minutes)
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-docs/values}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- 1K 10K 100K 1M
. scripts/setup.sh
dnsrack=$(built dnsrack)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
printf '%-10s %5s %4s  %s\n' family size seed 'found (difference to the published count, in per cent)'
for size in "$@"; do
    for family in U-4-DS0 U-6-DS0 S-6-DS10 S-6-DS50 S-6-DS100; do
        for seed in 1 2 3; do
            "$dnsrack" zone generate --family "$family" --delegations "$size" --seed "$seed" -o - 2>/dev/null |
                "$dnsrack" --json zone info - --against "rzaia:$family:$size" 2>/dev/null >"$work/info" || status=$?
            python3 - "$work/info" "$family" "$size" "$seed" "$work/values" <<'PY'
import json, sys
info, (family, size, seed) = json.load(open(sys.argv[1])), sys.argv[2:5]
row = []
for f in info["verdict"]["findings"][1:]:
    off = 100 * (f["found"] - f["expected"]) / (f["expected"] or 1)
    row.append(f"{f['what'].split()[0]} {f['found']:,.0f} ({off:+.2f}{'' if f['within'] else ' OUT OF BOUNDS'})")
print(f"{family:10} {size:>5} {seed:>4}  " + "  ".join(row) + f"  octets {info['bytes']:,}, in wire format {info['wire_bytes']:,}")
counts = {f"{t} RRs": info["types"].get(t, 0) for t in ("NS", "A", "AAAA", "DS")} | {"File Size": info["bytes"]}
with open(sys.argv[5], "a") as values:
    for what, count in counts.items():
        print(json.dumps({"row": [family, what], "column": size, "value": count}), file=values)
PY
        done
    done
done
PYTHONPATH=scripts python3 - "$work/values" "$folder" <<'PY'
import json, published_values, sys
counted, folder = sys.argv[1:]
values = {}
try:
    with open(f"{folder}/rzaia-1.1.values.json") as kept:
        values = {(*v["row"], v["column"]): v["measured"] for v in json.load(kept)["values"]}
except FileNotFoundError:
    pass
counts = {}
for line in open(counted):
    one = json.loads(line)
    counts.setdefault((*one["row"], one["column"]), []).append(one["value"])
# New counts stand at the end.
values = {key: measured for key, measured in values.items() if key not in counts} | counts
published_values.write(folder, "rzaia-1.1", "scripts/table-1.1.sh", [(list(key[:2]), key[2], measured) for key, measured in values.items()])
PY
exit "$status"
