#!/usr/bin/env bash
# Asks a folder of Parquet files that is larger than memory may be: makes the queries of ROWS (200M: some 10 GB) requests of ten million
# clients at 100,000/s, imports them, and runs statements with --memory 1G, in ROUNDS (1): wall time, largest resident memory, and a check of
# the number of rows. Usage: scripts/query-large.sh [ROWS [ROUNDS]]
set -euo pipefail
cd "$(dirname "$0")/.."
rows=${1:-200M}
. scripts/setup.sh
query=$(built dnsrack-query)
release=$(dirname "$query")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$release/dnsrack" zone generate --family U-4-DS0 --delegations 100K -o "$work/zone" >/dev/null 2>&1
start=$SECONDS
"$release/dnsrack" traffic generate rzaia --zone "$work/zone" --clients 10M --rate 100K --count "$rows" --format pcap -o - 2>/dev/null |
    "$release/dnsrack" --json trace import - -o "$work/rows" 2>/dev/null >"$work/import.json"
rm "$work/zone"
grep -o '"rows":[0-9]*\|"octets":[0-9]*' "$work/import.json"
echo "made and imported in $((SECONDS - start)) s"
ask() {
    echo "$1"
    /usr/bin/time -f '%e s, %M KB' "$release/dnsrack-query" "$1" "$work/rows" --memory 1G --spill "$work" --format csv
}
for _ in $(seq "${2:-1}"); do
    ask "SELECT qtype, count(*) AS queries FROM queries GROUP BY qtype ORDER BY queries DESC LIMIT 3"
    ask "SELECT src, count(*) AS queries FROM queries GROUP BY src ORDER BY queries DESC, src LIMIT 3"
    ask "SELECT count(*) AS clients_and_names, sum(n) AS queries FROM (SELECT src, qname, count(*) AS n FROM queries GROUP BY src, qname)"
    ask "SELECT count(*) AS queries, max(step) AS longest_step_ns FROM (SELECT time_ns - lag(time_ns) OVER (ORDER BY time_ns) AS step FROM queries)"
done
