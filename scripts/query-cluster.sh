#!/usr/bin/env bash
# Sets `dnsrack query --cluster` beside `dnsrack query` on the same machine and the same two cores: two executors of one thread each, and one
# process of two threads. 16 captures of a million requests each, compressed with gzip as DITL's are, and their import; one statement after
# the other in rounds, the files in the page cache. Then what the 48 hours of 13 root letters would take at these rates.
#
#   scripts/query-cluster.sh [ROUNDS]
#
# Needs two cores, python3 and gzip.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5}
. scripts/setup.sh
query=$(built dnsrack-query)
release=$(dirname "$query")
work=$(mktemp -d) started=()
finish() {
    trap - EXIT
    [ ${#started[@]} -eq 0 ] || kill "${started[@]}" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap finish EXIT
taskset -pc 0-1 $$ >/dev/null
"$release/dnsrack" zone generate --family U-4-DS0 --delegations 1000 -o "$work/zone" >/dev/null 2>&1
for n in $(seq 10 25); do
    "$release/dnsrack" traffic generate rzaia --zone "$work/zone" --clients 100K --rate 5K --count 1M --seed "$n" --format pcap -o - 2>/dev/null |
        gzip >"$work/$n.pcap.gz"
done
"$release/dnsrack-query" scheduler >"$work/scheduler" 2>&1 &
started+=($!)
for n in 1 2; do
    "$release/dnsrack-query" executor --scheduler 127.0.0.1 --threads 1 --spill "$work" >"$work/executor-$n" 2>&1 &
    started+=($!)
done
until grep -q ': at ' "$work/executor-1" && grep -q ': at ' "$work/executor-2"; do sleep 0.1; done
python3 - "$rounds" "$release" "$work" <<'PY'
import glob, os, shutil, statistics, subprocess, sys, time

rounds, release, work = int(sys.argv[1]), sys.argv[2], sys.argv[3]
captures = sorted(glob.glob(f"{work}/*.pcap.gz"))
table, queries = f"{work}/table", 16_000_000

def run(words):
    start = time.perf_counter()
    out = subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return time.perf_counter() - start, sorted(out.splitlines())

def import_all():
    shutil.rmtree(table, ignore_errors=True)
    return run([f"{release}/dnsrack", "trace", "import", "--apart", "--jobs", "2", *captures, "-o", table])[0]

STATEMENTS = [("@types", captures), ("@types", [table]), ("@tlds", [table]), ("@rssac002-unique-sources", [table])]
times = {}
for _ in range(rounds):
    times.setdefault("import", []).append(import_all())
    for name, sources in STATEMENTS:
        ask = [f"{release}/dnsrack-query", "--apart", name, *sources, "--format", "csv"]
        here, rows = run([*ask, "--threads", "2"])
        there, same = run([*ask, "--cluster", "127.0.0.1", "--threads", "4"])
        assert rows == same, f"{name}: other rows on the cluster"
        key = f"{name} from {'captures' if sources is captures else 'Parquet'}"
        times.setdefault(key, []).append((here, there))

def spread(values, unit=""):
    return f"{statistics.median(values):.2f}{unit} ({min(values):.2f} to {max(values):.2f})"

octets = sum(os.path.getsize(c) for c in captures)
parquet = sum(os.path.getsize(f) for f in glob.glob(f"{table}/*/*.parquet"))
print(f"{queries} requests; captures {octets / queries:.1f} octets each, Parquet {parquet / queries:.1f}")
print("| | two threads | two executors | ratio |\n|---|---|---|---|")
print(f"| `trace import --apart --jobs 2` | {spread(times['import'], ' s')} | | |")
for key, pairs in times.items():
    if key != "import":
        here, there = zip(*pairs)
        print(f"| {key} | {spread(here, ' s')} | {spread(there, ' s')} | {spread([t / h for h, t in pairs])} |")
PY
