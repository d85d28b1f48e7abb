#!/usr/bin/env bash
# 'dnsrack hardware' beside independent tools, in one sitting on a quiet machine: mbw (copies of memory), sysbench (memory), openssl speed
# (signatures and verifications), fio (syncs). Prints both figures and their ratio. Needs python3; the tools are installed where missing.
# Usage: scripts/peer-hardware.sh [FOLDER]     (default: a folder in TMPDIR; it has to be on a disk)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh
need mbw mbw "copies memory"
need sysbench sysbench "writes and reads memory"
need fio fio "syncs files"
need openssl openssl "signs and verifies"
install_missing
dnsrack=$(built dnsrack)
work=$(mktemp -d "${1:-${TMPDIR:-/tmp}}/peer-hardware.XXXXXX")
trap 'rm -rf "$work"' EXIT
"$dnsrack" hardware -o "$work/run" --json >"$work/summary" 2>/dev/null || true
"$dnsrack" report "$work/run" >"$work/report"
# On the first core, as the tests are.
taskset -c 0 mbw -q -n 5 -t0 512 >"$work/mbw"
taskset -c 0 sysbench memory --memory-block-size=512M --memory-total-size=8G --memory-oper=write --memory-access-mode=seq run >"$work/sysbench"
for algorithm in ecdsap256 ecdsap384 ed25519 rsa1024 rsa2048; do
    taskset -c 0 openssl speed -seconds 1 "$algorithm" 2>/dev/null | tail -1 | sed "s/^/$algorithm: /"
done >"$work/openssl"
for sync in fdatasync fsync; do
    fio --name="$sync" --directory="$work" --size=1M --bs=4k --rw=write --"$sync"=1 --ioengine=psync --time_based --runtime=2 --output-format=json \
        >"$work/fio.$sync.json"
    rm -f "$work/$sync".*
done
python3 - "$work" <<'PY'
import json, re, subprocess, sys
work = sys.argv[1]
rows = []
for line in open(f"{work}/report"):
    cells = [c.strip() for c in re.split("[│┆]", line)]
    if len(cells) >= 4:
        rows.append(cells[1:-1])
def operation(case):
    text = next(r[2] for r in rows if r[0] == case)
    number, unit = text.replace(",", "").split()
    return float(number) * {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "MB/s": 1.0}[unit]
def copied():
    return float(next(r[-1] for r in rows if r[0] == "memcpy").replace(",", "").split()[0])
print(f"{'what':44} {'dnsrack':>12} {'peer':>12}  ratio")
def show(what, ours, peer, unit):
    print(f"{what:44} {ours:>12,.1f} {peer:>12,.1f}  {ours / peer:.2f}  {unit}")
mbw = [float(m) for m in re.findall(r"Copy: ([\d.]+) MiB/s", open(f"{work}/mbw").read())]
show("largest copy, mbw memcpy", copied(), 1.048576 * sorted(mbw)[len(mbw) // 2], "MB/s")
written = float(re.search(r"\(([\d.]+) MiB/sec\)", open(f"{work}/sysbench").read()).group(1))
print(f"{'sequential writes of 512 MiB, sysbench':44} {'':>12} {1.048576 * written:>12,.1f}        MB/s")
names = {"ecdsap256": "ECDSAP256SHA256", "ecdsap384": "ECDSAP384SHA384", "ed25519": "ED25519", "rsa1024": "RSASHA256, 1024 bits", "rsa2048": "RSASHA256, 2048 bits"}
for line in open(f"{work}/openssl"):
    algorithm, rest = line.split(": ", 1)
    sign, verify = (float(x) for x in rest.split()[-2:])
    show(f"{names[algorithm]}: signatures", 1 / operation(names[algorithm] + ": a signature"), sign, "1/s")
    show(f"{names[algorithm]}: verifications", 1 / operation(names[algorithm] + ": a verification"), verify, "1/s")
for sync in ("fdatasync", "fsync"):
    job = json.load(open(f"{work}/fio.{sync}.json"))["jobs"][0]
    show(f"write of 4 KiB with {sync}, fio", 1 / operation(f"a write of 4 KiB with {sync}"), job["write"]["iops"], "1/s")
PY
