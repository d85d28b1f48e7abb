#!/usr/bin/env bash
# Do other programs read what `dnsrack trace import` writes, and find the same in it? Imports a capture (or 300,000 generated requests), and asks
# dnsrack query, DuckDB, pandas and Spark (PySpark) for the columns with the number of values in each, the first and last instant, the
# queries by type, and the ten names with the most queries. Prints what differs; status 1 where anything does.
#
#   scripts/parquet-readers.sh [CAPTURE]
#
# Needs python3-venv, a Java runtime (default-jre-headless), and the network for PyPI; some minutes, most of them for PySpark's package.
set -euo pipefail
capture=${1:+$(realpath "$1")}
cd "$(dirname "$0")/.."
. scripts/setup.sh
query=$(built dnsrack-query)
release=$(dirname "$query")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet duckdb pandas pyarrow pyspark pytz
if [ -z "$capture" ]; then
    capture=$work/requests.pcap
    "$release/dnsrack" zone generate --family U-4-DS0 --delegations 10K -o "$work/zone" >/dev/null 2>&1
    "$release/dnsrack" traffic generate rzaia --zone "$work/zone" --clients 10K --rate 10K --count 300K --format pcap -o "$capture" 2>/dev/null
fi
"$release/dnsrack" trace import "$capture" -o "$work/rows" >/dev/null 2>&1
"$work/venv/bin/python" - "$release/dnsrack-query" "$work/rows" <<'PY'
import json, subprocess, sys
import duckdb, pandas
from pyspark.sql import SparkSession, functions as F

query, rows = sys.argv[1:]
NAMES = "SELECT qname, count(*) AS n FROM queries WHERE qname IS NOT NULL GROUP BY qname ORDER BY n DESC, qname LIMIT 10"
TYPES = "SELECT qtype, count(*) AS n FROM queries GROUP BY qtype ORDER BY qtype"
TIMES = "SELECT min(time_ns), max(time_ns) FROM queries"

def ours():
    def ask(sql):
        said = subprocess.run([query, "--format", "json", sql, rows], check=True, capture_output=True, text=True).stdout
        return [tuple(row.values()) for row in json.loads(said)] if said.lstrip().startswith("[") else [
            tuple(json.loads(line).values()) for line in said.splitlines()]
    columns = [name for (name,) in ask("SELECT column_name FROM information_schema.columns WHERE table_name = 'queries' ORDER BY ordinal_position")]
    counts = ask("SELECT " + ", ".join(f'count("{c}")' + f' AS "{c}"' for c in columns) + " FROM queries")[0]
    first, last = ask("SELECT min(time_ns) AS a, max(time_ns) AS b FROM queries")[0]
    return dict(zip(columns, counts)), (first, last), ask(TYPES), ask(NAMES)

def in_duckdb():
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.execute(f"CREATE VIEW queries AS SELECT * FROM '{rows}/*.parquet'")
    columns = [row[0] for row in con.execute("DESCRIBE queries").fetchall()]
    counts = con.execute("SELECT " + ", ".join(f'count("{c}")' for c in columns) + " FROM queries").fetchone()
    return dict(zip(columns, counts)), con.execute(TIMES).fetchone(), con.execute(TYPES).fetchall(), con.execute(NAMES).fetchall()

def in_pandas():
    frame = pandas.read_parquet(rows)
    assert str(frame["time"].dtype).startswith("datetime64["), frame["time"].dtype
    micros = frame["time"].astype("datetime64[us, UTC]").astype("int64")
    assert (micros == frame["time_ns"] // 1000).all(), "time is time_ns in microseconds"
    types = frame.groupby("qtype").size().sort_index()
    names = frame.groupby("qname").size().reset_index(name="n").sort_values(["n", "qname"], ascending=[False, True]).head(10)
    return ({c: int(n) for c, n in frame.count().items()}, (int(frame["time_ns"].min()), int(frame["time_ns"].max())),
            [(int(t), int(n)) for t, n in types.items()], [(q, int(n)) for q, n in zip(names["qname"], names["n"])])

def in_spark():
    spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC")
             .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate())
    spark.sparkContext.setLogLevel("ERROR")
    frame = spark.read.parquet(rows)
    frame.createOrReplaceTempView("queries")
    kinds = dict(frame.dtypes)
    assert kinds["time"] == "timestamp" and kinds["time_ns"] == "bigint", kinds
    counts = frame.select([F.count(F.col(f"`{c}`")).alias(c) for c in frame.columns]).first()
    result = (counts.asDict(), tuple(spark.sql(TIMES).first()), [tuple(row) for row in spark.sql(TYPES).collect()],
              [tuple(row) for row in spark.sql(NAMES).collect()])
    spark.stop()
    return result

want, differs = ours(), False
print(f"dnsrack query: {want[0]['id']} rows, {len(want[0])} columns")
for name, reader in [("DuckDB", in_duckdb), ("pandas", in_pandas), ("Spark", in_spark)]:
    got = reader()
    for what, a, b in zip(("columns and values in each", "instants", "types", "names"), want, got):
        # Counts of rows by type may have no type at all in none of them.
        a, b = ([tuple(row) for row in a], [tuple(row) for row in b]) if isinstance(a, list) else (a, b)
        same = dict(a) == dict(b) if isinstance(a, dict) else list(a) == list(b)
        differs |= not same
        print(f"{name}: {what} {'are the same' if same else f'DIFFER: {a} and {b}'}")
sys.exit(differs)
PY
