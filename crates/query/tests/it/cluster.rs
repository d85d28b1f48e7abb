//! Statements on a cluster give the rows that they give here.

use crate::{ask, kept_runs, made, shipped, two_threads};
use query::Options;
use query::shipped::ALL;
use serde_json::{Number, Value};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use trace::import::{Spec, import};

/// A process that says where it is.
struct Role {
    child: Child,
    at: String,
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

impl Role {
    fn start(args: &[&str]) -> Self {
        Self::start_with(args, &[])
    }

    /// With these variables in its environment.
    fn start_with(args: &[&str], environment: &[(String, String)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dnsrack-query"))
            .args(args)
            .envs(environment.iter().cloned())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let first = said.next().expect("it says where it is").expect("text");
        let at = first.split(": at ").nth(1).unwrap_or_else(|| panic!("{first}"));
        let at = at.split(',').next().unwrap_or_default().to_owned();
        // What it says later is for those who read the output of the tests.
        std::thread::spawn(move || said.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
        Self { child, at }
    }
}

/// A scheduler and its executors, on this machine.
pub struct Cluster {
    executors: Vec<Role>,
    scheduler: Role,
    /// What killed executors leave.
    _spilled: TempDir,
}

impl Cluster {
    fn up() -> Self {
        Self::up_with(&[])
    }

    /// Each with these variables in its environment.
    pub fn up_with(environment: &[(String, String)]) -> Self {
        let start = |args: &[&str]| Role::start_with(args, environment);
        let scheduler = start(&["scheduler", "--port", "0"]);
        let spilled = tempfile::tempdir().expect("a folder");
        let folder = spilled.path().to_str().expect("a path");
        let args = ["executor", "--scheduler", &scheduler.at, "--threads", "2", "--spill", folder];
        Self { executors: (0..3).map(|_| start(&args)).collect(), scheduler, _spilled: spilled }
    }

    /// `parts` tasks at most.
    pub fn options(&self, parts: usize) -> Options {
        Options { threads: parts, cluster: Some(self.scheduler.at.clone()), ..Options::default() }
    }
}

/// Rows in an order of their own, and sums of floating-point numbers without their last digits, which depend on the order of addition.
pub fn canonical(rows: Vec<Value>) -> Vec<String> {
    fn rounded(value: &mut Value) {
        match value {
            Value::Number(n) if n.is_f64() => {
                let text = format!("{:.9e}", n.as_f64().unwrap());
                *value = Value::Number(Number::from_f64(text.parse().unwrap()).unwrap());
            }
            Value::Array(items) => items.iter_mut().for_each(rounded),
            Value::Object(items) => items.values_mut().for_each(rounded),
            _ => {}
        }
    }
    let mut rows: Vec<String> = rows
        .into_iter()
        .map(|mut row| {
            rounded(&mut row);
            row.to_string()
        })
        .collect();
    rows.sort();
    rows
}

fn assert_same(cluster: &Cluster, sources: &[PathBuf], parts: usize, sql: &str) {
    let here = canonical(ask(sources, &two_threads(), sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e}")));
    let there = ask(sources, &cluster.options(parts), sql, &[])
        .unwrap_or_else(|e| panic!("{sql}, {parts} parts: {e}"));
    assert_eq!(canonical(there), here, "{sql}, {parts} parts");
}

#[test]
fn every_shipped_query_gives_the_rows_that_it_gives_here() {
    let cluster = Cluster::up();
    let (folder, capture) = made(4000);
    let table = folder.path().join("table");
    let spec = Spec { rows_per_file: 700, rows_per_group: 350, ..Spec::default() };
    import(std::slice::from_ref(&capture), &table, &spec, &mut |_| {}).unwrap();
    for query in ALL {
        let sources = match query.is_of_runs() {
            true => vec![vec![kept_runs()]],
            false => vec![vec![capture.clone()], vec![table.clone()]],
        };
        for sources in sources {
            let here = canonical(shipped(&sources, &two_threads(), query.name));
            let there = canonical(shipped(&sources, &cluster.options(8), query.name));
            assert_eq!(there, here, "@{} of {sources:?}", query.name);
        }
    }
}

/// Statements whose plans this or an earlier version of Ballista is known to have rewritten to others, each with its source:
/// numbers are those of issues of apache/datafusion-ballista.
const REWRITES: &[(&str, &str)] = &[
    // Leaves that the scheduler does not know are read whole by each task: `Scan` has an input for this reason.
    ("a table of our own", "SELECT count(*) AS n, count(DISTINCT qname) AS names, sum(qtype) AS sum FROM queries"),
    ("a table of our own in a union", "SELECT count(*) AS n FROM (SELECT qname FROM queries UNION ALL SELECT src FROM queries)"),
    ("a row without a table in a union", "SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT qtype FROM queries"),
    ("values in a union", "SELECT * FROM (VALUES (1), (2), (3)) AS v(n) UNION ALL SELECT qtype FROM queries"),
    ("2046: NULL in INTERSECT", "SELECT rcode FROM queries INTERSECT SELECT rcode FROM queries WHERE qtype = 28"),
    ("2046: NULL in EXCEPT", "SELECT rcode FROM queries EXCEPT SELECT rcode FROM queries WHERE rcode = 3"),
    ("2046: rows of an outer join lost before a limit", "
        SELECT a.qname, a.n, b.n AS failed FROM (SELECT qname, count(*) AS n FROM queries GROUP BY qname) a
        LEFT JOIN (SELECT qname, count(*) AS n FROM queries WHERE rcode = 3 GROUP BY qname) b ON a.qname = b.qname
        WHERE coalesce(b.n, 0) = 0 OR b.n > 0 ORDER BY a.n DESC, a.qname LIMIT 100"),
    ("2046: shares of two selves", "
        WITH each AS (SELECT qname, ipv AS v, count(*) AS n FROM queries GROUP BY qname, ipv)
        SELECT a.qname, a.n, b.n AS other FROM each a JOIN each b ON a.qname = b.qname AND a.v <> b.v
        WHERE a.n >= CASE WHEN b.n > 0 THEN b.n / 2 ELSE NULL END ORDER BY a.qname, a.n, b.n LIMIT 100"),
    ("2187, 2193: NOT IN with NULL", "SELECT count(*) AS n FROM queries WHERE qtype NOT IN (SELECT rcode FROM queries)"),
    ("2187: NOT IN without NULL", "
        SELECT count(*) AS n FROM queries WHERE rcode NOT IN (SELECT rcode FROM queries WHERE rcode = 3)"),
    ("1909: scalar subqueries", "
        SELECT count(*) AS n FROM queries WHERE qtype > (SELECT avg(qtype) FROM queries)
        AND time >= (SELECT min(time) FROM queries WHERE rcode = 3)"),
    ("1375: filters of a join's other side", "
        SELECT q.qname, count(*) AS n FROM queries q JOIN (SELECT DISTINCT qname FROM queries WHERE rcode = 3) f
        ON q.qname = f.qname GROUP BY q.qname ORDER BY n DESC, q.qname LIMIT 5"),
    ("2185: no row where one is empty", "
        SELECT count(*) AS n, sum(a.qtype) AS sum FROM (SELECT * FROM queries WHERE qtype = 9999) a
        JOIN queries b ON a.qname = b.qname"),
    ("2185: shares of two totals", "
        SELECT a.n, b.n AS all, a.n * 100.0 / b.n AS share FROM (SELECT count(*) AS n FROM queries WHERE rcode = 3) a,
        (SELECT count(*) AS n FROM queries) b"),
    ("2047: an empty side of an outer join", "
        SELECT a.qtype, count(b.qname) AS n FROM queries a LEFT JOIN (SELECT * FROM queries WHERE qtype = 9999) b
        ON a.qname = b.qname GROUP BY a.qtype"),
    ("a cross join whose left side is read by each task", "
        SELECT count(*) AS n FROM (SELECT DISTINCT qtype FROM queries) a, (SELECT DISTINCT src FROM queries) b"),
    ("HAVING with a subquery", "
        SELECT qname, count(*) AS n FROM queries GROUP BY qname
        HAVING count(*) > (SELECT avg(n) FROM (SELECT count(*) AS n FROM queries GROUP BY qname))"),
    ("windows over all rows", "
        SELECT time_ns, row_number() OVER (ORDER BY time_ns, srcp) AS n,
        sum(qtype) OVER (ORDER BY time_ns, srcp ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS three FROM queries"),
    ("windows over a range", "
        SELECT time_ns, count(*) OVER (ORDER BY time_ns RANGE BETWEEN 100000000 PRECEDING AND CURRENT ROW) AS n FROM queries"),
    ("windows of each name", "
        SELECT qname, n, last FROM (SELECT qname, rank() OVER (PARTITION BY qname ORDER BY time_ns, srcp) AS n,
        lag(time_ns) OVER (PARTITION BY qname ORDER BY time_ns, srcp) AS last FROM queries) WHERE n <= 2"),
    ("a limit after an offset", "SELECT time_ns, qname FROM queries ORDER BY time_ns, srcp LIMIT 7 OFFSET 1234"),
    ("a limit without an order", "SELECT count(*) AS n FROM (SELECT qname FROM queries LIMIT 100)"),
    ("groups of several sets", "
        SELECT ipv, qtype, count(*) AS n FROM queries GROUP BY GROUPING SETS ((ipv, qtype), (ipv), ())"),
    ("rows that match and rows that do not", "
        SELECT count(*) AS n FROM queries a FULL OUTER JOIN (SELECT * FROM queries WHERE rcode = 3) b
        ON a.time_ns = b.time_ns AND a.srcp = b.srcp"),
    ("EXISTS", "
        SELECT count(*) AS n FROM queries a WHERE NOT EXISTS
        (SELECT 1 FROM queries b WHERE b.src = a.src AND b.rcode = 3)"),
    ("functions of DNS in groups, joins and orders", "
        SELECT tld(a.qname) AS tld, count(*) AS n FROM queries a JOIN (SELECT DISTINCT tld(qname) AS t FROM queries
        WHERE under(qname, 'org.')) b ON tld(a.qname) = b.t GROUP BY tld(a.qname) ORDER BY tld(a.qname)"),
];

#[test]
fn known_wrong_rewrites_give_the_rows_that_they_give_here() {
    let cluster = Cluster::up();
    let (_folder, capture) = made(3000);
    let sources = [capture];
    for (known, sql) in REWRITES {
        for parts in [1, 7] {
            eprintln!("{known}, {parts} parts");
            assert_same(&cluster, &sources, parts, sql);
        }
    }
}

#[test]
fn captures_apart_and_tables_of_runs_are_divided() {
    let cluster = Cluster::up();
    let (folder, one) = made(500);
    let two = folder.path().join("two.pcap");
    std::fs::copy(&one, &two).unwrap();
    let sources = [one, two, kept_runs()];
    let apart = |options: Options| Options { apart: true, ..options };
    let sql = "SELECT source, count(*) AS n FROM queries GROUP BY source";
    let here = canonical(ask(&sources, &apart(two_threads()), sql, &[]).unwrap());
    assert_eq!(here.len(), 2);
    assert_eq!(canonical(ask(&sources, &apart(cluster.options(5)), sql, &[]).unwrap()), here);
    for table in query::runs::tables() {
        assert_same(
            &cluster,
            &sources[2..],
            5,
            &format!("SELECT count(*) AS n, count(DISTINCT run) AS runs FROM {table}"),
        );
    }
    assert_same(&cluster, &sources[2..], 5, "SELECT run, trial, metric, value FROM metrics");
    // A name of this session's tables; nobody else has them.
    let tables = ask(&sources, &cluster.options(5), "SHOW TABLES", &[]).unwrap();
    assert!(tables.iter().any(|row| row["table_name"] == "queries"), "{tables:?}");
    assert_same(&cluster, &sources[..1], 5, "DESCRIBE queries");
}

#[test]
fn what_is_wrong_on_a_cluster_is_told() {
    let cluster = Cluster::up();
    let (_folder, path) = made(100);
    let sources = [path.clone()];
    let error_of = |options: &Options, sql: &str| match ask(&sources, options, sql, &[]) {
        Err(error) => error.to_string(),
        Ok(rows) => panic!("{sql}: {rows:?}"),
    };
    let options = cluster.options(4);
    // As here: the place in the statement.
    let error = error_of(&options, "SELECT qnam FROM queries");
    assert!(error.starts_with("SQL:1:8: ") && error.contains("column 'qnam' not found"), "{error}");
    let error = error_of(&options, "SELECT 1 / (qtype - qtype) FROM queries");
    assert!(error.contains("DivideByZero"), "{error}");
    let error = error_of(&options, "EXPLAIN ANALYZE SELECT count(*) FROM queries");
    assert!(error.contains("EXPLAIN ANALYZE has no figures on a cluster"), "{error}");
    let nobody = Options { cluster: Some("127.0.0.1:1".into()), ..Options::default() };
    let error = error_of(&nobody, "SELECT count(*) FROM queries");
    assert!(error.contains("127.0.0.1:1") && error.contains("no scheduler"), "{error}");
    // Another file than the one that was asked about: here it changes while the statement is made.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let error = runtime.block_on(async {
        let session = query::Session::open(&sources, &options).await.unwrap();
        let octets = std::fs::read(&path).unwrap();
        std::fs::write(&path, &octets[..octets.len() - 1]).unwrap();
        let sql = "SELECT count(*) FROM queries";
        match session.ask(sql, "SQL", &Default::default()).await {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it is another file"),
        }
    });
    assert!(error.contains("made.pcap") && error.contains("it is another file"), "{error}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_cluster_can_be_reached_over_ipv6() {
    let (folder, capture) = made(100);
    let scheduler = Role::start(&["scheduler", "--address", "::1", "--port", "0"]);
    let spill = folder.path().to_str().expect("a path");
    let _executor =
        Role::start(&["executor", "--scheduler", &scheduler.at, "--address", "::1", "--spill", spill]);
    let options = Options { threads: 2, cluster: Some(scheduler.at.clone()), ..Options::default() };
    let sql = "SELECT qtype, count(*) AS n FROM queries GROUP BY qtype";
    let sources = [capture];
    let here = canonical(ask(&sources, &two_threads(), sql, &[]).unwrap());
    assert_eq!(canonical(ask(&sources, &options, sql, &[]).unwrap()), here);
}

#[test]
fn a_killed_executor_costs_no_row_and_gives_none_twice() {
    let (folder, capture) = made(60_000);
    // A cluster of its own, which loses one.
    let mut cluster = Cluster::up();
    let sql = "SELECT a.qname, count(*) AS n FROM queries a JOIN queries b ON a.src = b.src GROUP BY a.qname";
    let sources = [capture];
    let here = canonical(ask(&sources, &two_threads(), sql, &[]).unwrap());
    let options = cluster.options(6);
    let began = Instant::now();
    let there = std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&sources, &options, sql, &[]));
        std::thread::sleep(Duration::from_millis(400));
        let lost = cluster.executors.pop().expect("there are three");
        eprintln!("killed at {} ms: {}", began.elapsed().as_millis(), lost.at);
        drop(lost);
        asked.join().expect("no panic")
    });
    assert_eq!(canonical(there.unwrap_or_else(|error| panic!("{error}"))), here);
    eprintln!("answered after {} ms", began.elapsed().as_millis());
    // And those that are left go on.
    assert_eq!(ask(&sources, &options, "SELECT count(*) AS n FROM queries", &[]).unwrap().len(), 1);
    drop(folder);
}
