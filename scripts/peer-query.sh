#!/usr/bin/env bash
# Sets `dnsrack query` beside `trace info` on the same capture, and beside DuckDB on the same Parquet files: first whether every query of
# captures that comes with dnsrack gives the same rows as in DuckDB, then times, one after the other in rounds, on two threads, the
# files in the page cache. The capture is that of scripts/peer-trace.sh, and the Parquet files are its import, ten times. DuckDB is the package of PyPI, in a folder of its own
# that is removed; its time is that of the statement in a process that has it loaded, and ours that of the whole command.
#
#   scripts/peer-query.sh [ROUNDS [CAPTURE]]
#
# Needs root, nsd, tcpdump, python3-venv and the network for PyPI; two cores.
set -euo pipefail
given=${2:+$(realpath "$2")}
cd "$(dirname "$0")/.."
# shellcheck source=scripts/peer-rack.sh
. scripts/peer-rack.sh
rounds=${1:-5}
peer_rack peerquery 1000 100000
query=$(dirname "$dnsrack")/dnsrack-query
[ -x "$query" ] || cargo build --release --quiet --package dnsrack-query
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet duckdb numpy pytz
capture=$given
if [ -z "$given" ]; then
    capture=$work/capture.pcap
    peer_capture "$capture"
fi
taskset -pc 0-1 $$ >/dev/null
"$dnsrack" trace import "$capture" -o "$work/rows" 2>/dev/null
# Ten times as many rows, so that the start of a program is a small part of its time.
for n in 1 2 3 4 5 6 7 8 9; do
    cp "$work/rows/part-00000.parquet" "$work/rows/part-0000$n.parquet"
done
cat "$capture" "$work"/rows/* >/dev/null
"$work/venv/bin/python" - "$rounds" "$capture" "$work/rows" "$dnsrack" "$query" <<'PY'
import csv, io, ipaddress, json, re, statistics, subprocess, sys, time
import duckdb

rounds, capture, rows, dnsrack, query = int(sys.argv[1]), *sys.argv[2:]
TYPES = {1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 12: "PTR", 15: "MX", 16: "TXT", 28: "AAAA", 33: "SRV", 35: "NAPTR", 38: "A6",
         43: "DS", 46: "RRSIG", 47: "NSEC", 48: "DNSKEY", 65: "HTTPS", 99: "SPF", 255: "ANY"}
RCODES = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"]

def prefix(address, v4, v6):
    length = v6 if ":" in address else v4
    return None if length > (128 if ":" in address else 32) else str(ipaddress.ip_network((address, length), strict=False))

def connection():
    con = duckdb.connect(config={"threads": 2})
    con.execute("SET TimeZone = 'UTC'")
    con.execute(f"CREATE VIEW queries AS SELECT * FROM '{rows}/*.parquet'")
    # By other hands than ours.
    con.create_function("type_name", lambda n: TYPES.get(n, f"TYPE{n}"), ["BIGINT"], "VARCHAR")
    con.create_function("class_name", lambda n: {1: "IN", 3: "CH", 4: "HS", 255: "ANY"}.get(n, f"CLASS{n}"), ["BIGINT"], "VARCHAR")
    con.create_function("rcode_name", lambda n: RCODES[n], ["BIGINT"], "VARCHAR")
    con.create_function("opcode_name", lambda n: {0: "QUERY", 4: "NOTIFY", 5: "UPDATE"}[n], ["BIGINT"], "VARCHAR")
    con.create_function("tld", lambda n: "." if n == "." else n[:-1].rsplit(".", 1)[-1].lower() + ".", ["VARCHAR"], "VARCHAR")
    con.create_function("prefix", prefix, ["VARCHAR", "BIGINT", "BIGINT"], "VARCHAR", null_handling="special")
    con.execute("CREATE MACRO ip_prefix(a, v4) AS prefix(a, v4, v4), (a, v4, v6) AS prefix(a, v4, v6)")
    con.execute("CREATE MACRO to_timestamp_nanos(n) AS make_timestamp_ns(n)")
    return con

def shipped():
    listed = subprocess.run([query, "--list"], capture_output=True, text=True, check=True).stdout
    for name in re.findall(r"^  @(\S+)", listed.split("Of run directories")[0], re.M):
        sql = subprocess.run([query, "--show", name], capture_output=True, text=True, check=True).stdout
        yield name, sql, {key: int(value) for key, value in re.findall(r"^-- \$(\w+) = (\d+):", sql, re.M)}

def plain(value):
    """A value as text that both write alike: numbers to nine digits, times without their zone."""
    if value is None or value == "":
        return ""
    text = str(value)
    try:
        return f"{float(text):.9g}"
    except ValueError:
        pass
    return re.sub(r"(\.0+)?(Z|\+00(:00)?)?$", "", text.replace("T", " ")) if re.match(r"\d{4}-\d\d-\d\d", text) else text.lower() if text in ("True", "False") else text

con, same, different = connection(), 0, []
for name, sql, parameters in shipped():
    try:
        theirs = [[plain(v) for v in row] for row in con.execute(sql, parameters or None).fetchall()]
    except duckdb.Error as error:
        theirs = [str(error)]
    out = subprocess.run([query, "@" + name, rows, "--format", "csv"], capture_output=True, text=True, check=True).stdout
    ours = [[plain(v) for v in row] for row in list(csv.reader(io.StringIO(out)))[1:]]
    if ours == theirs:
        same += 1
    else:
        different.append((name, ours[:3], theirs[:3]))
print(f"{same} queries of {same + len(different)} give the same rows in DuckDB {duckdb.__version__}")
for name, ours, theirs in different:
    print(f"  @{name} differs: {ours} and {theirs}")

def wall(command):
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start

GROUP = "SELECT qtype, count(*) FROM queries GROUP BY qtype"
FIVE = ["types", "response-sizes", "latency", "truncation", "rssac002-traffic-sizes"]
statements = dict((name, sql) for name, sql, _ in shipped())
times = {}
def add(name, seconds):
    times.setdefault(name, []).append(seconds)
for _ in range(rounds):
    add("trace info", wall([dnsrack, "trace", "info", "--threads", "2", capture]))
    add("from the capture", wall([query, GROUP, capture, "--threads", "2"]))
    add("from the capture, with answers", wall([query, GROUP.replace("qtype,", "qtype, count(rcode),", 1), capture, "--threads", "2"]))
    for name in FIVE:
        add(f"@{name}", wall([query, "@" + name, rows, "--threads", "2"]))
        con = connection()
        start = time.perf_counter()
        con.execute(statements[name]).fetchall()
        add(f"@{name} in DuckDB", time.perf_counter() - start)
for name, seconds in times.items():
    print(f"{name:<40} {statistics.median(seconds):8.3f} s  ({min(seconds):.3f} to {max(seconds):.3f})")
def ratios(a, b):
    all = [x / y for x, y in zip(times[a], times[b])]
    return f"{statistics.median(all):.2f} ({min(all):.2f} to {max(all):.2f})"
print(f"rate from the capture, to trace info's: {ratios('trace info', 'from the capture')} (goal: 0.8)")
print(f"rate with answers, to trace info's: {ratios('trace info', 'from the capture, with answers')}")
for name in FIVE:
    print(f"time of @{name} to DuckDB's: {ratios('@' + name, '@' + name + ' in DuckDB')} (goal: 1.5)")
PY
