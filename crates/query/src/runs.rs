//! Run directories as tables.
//!
//! | table | a row for each |
//! |---|---|
//! | `runs` | run: when, on what machine, by which command |
//! | `trials` | trial: whether it is valid, and its parameters, a column each |
//! | `metrics` | figure of a trial |
//! | `latency` | bucket of a histogram of a trial |
//! | `series` | figure of a second of a trial |
//! | `servers` | server of a run, with its version |
//! | `environment` | value of `environment.json`, by its key |
//!
//! `run` and `trial` join them.

use datafusion::arrow::array::{
    ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use measure::params;
use results::{RunDir, TrialRecord};
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A run directory, and what it is called in tables.
struct Run<'a> {
    name: &'a str,
    dir: &'a RunDir,
}

impl Run<'_> {
    /// When it began, in microseconds since 1970.
    fn started(&self) -> Option<i64> {
        Some(self.dir.started()? * 1_000_000)
    }

    fn machine(&self, key: &str) -> Option<&Value> {
        self.dir.environment().get("machine")?.get(key).filter(|value| !value.is_null())
    }

    fn experiment(&self) -> Option<String> {
        self.dir.trials().iter().find_map(|t| t.param(params::EXPERIMENT)).map(str::to_owned)
    }
}

/// What runs are called in tables: their folders, with as many of the folders above as tell them apart.
pub fn names(paths: &[PathBuf]) -> Vec<String> {
    let whole = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let wholes: Vec<PathBuf> = paths.iter().map(whole).collect();
    let end = |path: &PathBuf, count: usize| {
        let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        parts[parts.len().saturating_sub(count)..].join("/")
    };
    let different = |count: usize| {
        let names: HashSet<_> = wholes.iter().map(|path| end(path, count)).collect();
        names.len() == paths.len()
    };
    let count = (1..16).find(|&count| different(count)).unwrap_or(16);
    wholes.iter().map(|path| end(path, count)).collect()
}

/// Makes a table of runs.
type Make = fn(&[Run<'_>]) -> RecordBatch;
/// Reads what is left out of [`RunDir::open_figures`].
type Add = fn(&mut RunDir) -> Result<(), results::Error>;

/// The tables by name. Histograms and series are nearly all of a run: they are read for the tables that have them.
const TABLES: [(&str, Option<Add>, Make); 7] = [
    ("runs", None, table_of_runs),
    ("trials", None, trials),
    ("metrics", None, metrics),
    ("servers", None, servers),
    ("environment", None, environment),
    ("latency", Some(RunDir::add_histograms), latency),
    ("series", Some(RunDir::add_series), series),
];

/// Names of the tables.
pub fn tables() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|(name, ..)| *name)
}

fn table(name: &str) -> Option<&'static (&'static str, Option<Add>, Make)> {
    TABLES.iter().find(|(known, ..)| *known == name)
}

/// The columns of a table; `None` where there is no such table.
pub fn schema(name: &str) -> Option<SchemaRef> {
    table(name).map(|(.., make)| make(&[]).schema())
}

/// The rows of a table that come from these runs, each with its name. `figures` opens a run directory without its histograms and
/// series, or has it already.
///
/// # Errors
/// A run directory that cannot be read.
///
/// # Panics
/// Where there is no such table.
pub fn rows(
    name: &str,
    runs: &[(&str, &Path)],
    figures: impl Fn(&Path) -> Result<Arc<RunDir>, results::Error>,
) -> Result<RecordBatch, results::Error> {
    let &(_, add, make) = table(name).expect("there is such a table");
    let open = |&(_, path): &(&str, &Path)| match add {
        None => figures(path),
        Some(add) => {
            let mut dir = RunDir::open_figures(path)?;
            add(&mut dir).map(|()| Arc::new(dir))
        }
    };
    let dirs = runs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let runs: Vec<_> = runs.iter().zip(&dirs).map(|((name, _), dir)| Run { name, dir }).collect();
    Ok(make(&runs))
}

/// The trials of all runs, each with the name of its run.
fn each_trial<'a>(runs: &'a [Run<'_>]) -> impl Iterator<Item = (&'a str, &'a TrialRecord)> {
    runs.iter().flat_map(|run| run.dir.trials().iter().map(|trial| (run.name, trial)))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .expect("columns of one length")
}

fn texts<T: AsRef<str>>(values: impl Iterator<Item = Option<T>>) -> ArrayRef {
    let mut array = StringBuilder::new();
    values.for_each(|value| array.append_option(value));
    Arc::new(array.finish())
}

fn ints(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    let mut array = Int64Builder::new();
    values.for_each(|value| array.append_option(value));
    Arc::new(array.finish())
}

fn floats(values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    let mut array = Float64Builder::new();
    values.for_each(|value| array.append_option(value));
    Arc::new(array.finish())
}

fn bools(values: impl Iterator<Item = bool>) -> ArrayRef {
    let mut array = BooleanBuilder::new();
    values.for_each(|value| array.append_value(value));
    Arc::new(array.finish())
}

fn times(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    let mut array = TimestampMicrosecondBuilder::new().with_timezone("UTC");
    values.for_each(|value| array.append_option(value));
    Arc::new(array.finish())
}

/// Text of a JSON value; a string without its quotes.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn table_of_runs(runs: &[Run<'_>]) -> RecordBatch {
    let of = |key: &'static str| texts(runs.iter().map(move |run| plain(run.dir.environment().get(key)?)));
    let machine = |key: &'static str| texts(runs.iter().map(move |run| plain(run.machine(key)?)));
    let number = |key: &'static str| ints(runs.iter().map(move |run| run.machine(key)?.as_i64()));
    // A figure that was measured while other programs ran is none.
    let undisturbed = |run: &Run<'_>, key| {
        let hardware =
            run.machine("hardware").filter(|all| all.get("disturbed").is_none_or(Value::is_null))?;
        hardware.get(key)?.as_f64()
    };
    let hardware = |key: &'static str| floats(runs.iter().map(move |run| undisturbed(run, key)));
    batch(vec![
        ("run", texts(runs.iter().map(|run| Some(run.name)))),
        ("started", times(runs.iter().map(Run::started))),
        ("experiment", texts(runs.iter().map(Run::experiment))),
        ("trials", ints(runs.iter().map(|run| Some(run.dir.trials().len() as i64)))),
        ("undone", ints(runs.iter().map(|run| Some(run.dir.undone() as i64)))),
        ("cpu", machine("cpu_model")),
        ("cpus", number("cpus")),
        ("memory", number("memory")),
        ("kernel", machine("kernel")),
        ("memory_latency_ns", hardware("memory_latency_ns")),
        ("memory_bandwidth_mb_s", hardware("memory_bandwidth_mb_s")),
        ("os", machine("os")),
        ("dnsrack", of("dnsrack")),
        ("command", of("command")),
        ("path", texts(runs.iter().map(|run| Some(run.dir.dir().display().to_string())))),
    ])
}

fn trials(runs: &[Run<'_>]) -> RecordBatch {
    let all: Vec<_> = each_trial(runs).collect();
    let started = runs.iter().flat_map(|run| run.dir.trials().iter().map(|_| run.started()));
    let reasons = |of: fn(&TrialRecord) -> &[measure::Reason]| {
        texts(all.iter().map(move |(_, trial)| {
            let all: Vec<_> = of(trial).iter().map(|reason| reason.text.as_str()).collect();
            (!all.is_empty()).then(|| all.join("; "))
        }))
    };
    let mut columns = vec![
        ("run", texts(all.iter().map(|(run, _)| Some(run)))),
        ("started", times(started)),
        ("trial", ints(all.iter().map(|(_, t)| Some(t.id.into())))),
        ("repeat", ints(all.iter().map(|(_, t)| Some(t.repeat.into())))),
        ("valid", bools(all.iter().map(|(_, t)| t.is_valid()))),
        ("reasons", reasons(|t| &t.outcome.validity.reasons)),
        ("warnings", reasons(|t| &t.outcome.validity.warnings)),
        ("error", texts(all.iter().map(|(_, t)| t.error.as_ref()))),
        ("skipped", texts(all.iter().map(|(_, t)| t.skipped.as_ref()))),
    ];
    columns.extend(params::all().map(|p| (p.name(), texts(all.iter().map(move |(_, t)| t.param(p))))));
    batch(columns)
}

fn metrics(runs: &[Run<'_>]) -> RecordBatch {
    let all: Vec<_> =
        each_trial(runs).flat_map(|(run, t)| t.outcome.metrics.iter().map(move |m| (run, t.id, m))).collect();
    batch(vec![
        ("run", texts(all.iter().map(|(run, ..)| Some(run)))),
        ("trial", ints(all.iter().map(|&(_, trial, _)| Some(trial.into())))),
        ("metric", texts(all.iter().map(|(.., m)| Some(&m.name)))),
        ("unit", texts(all.iter().map(|(.., m)| Some(&m.unit)))),
        ("value", floats(all.iter().map(|(.., m)| Some(m.value)))),
    ])
}

fn latency(runs: &[Run<'_>]) -> RecordBatch {
    let mut all = Vec::new();
    for (run, trial) in each_trial(runs) {
        for histogram in &trial.outcome.histograms {
            let name = histogram.name.as_str();
            all.extend(histogram.value.buckets().map(|bucket| (run, trial.id, name, bucket)));
        }
    }
    let whole = |n: u64| Some(i64::try_from(n).unwrap_or(i64::MAX));
    batch(vec![
        ("run", texts(all.iter().map(|(run, ..)| Some(run)))),
        ("trial", ints(all.iter().map(|&(_, trial, ..)| Some(trial.into())))),
        ("histogram", texts(all.iter().map(|(_, _, name, _)| Some(name)))),
        ("low_ns", ints(all.iter().map(|(.., bucket)| whole(bucket.0)))),
        ("high_ns", ints(all.iter().map(|(.., bucket)| whole(bucket.1)))),
        ("count", ints(all.iter().map(|(.., bucket)| whole(bucket.2)))),
    ])
}

fn series(runs: &[Run<'_>]) -> RecordBatch {
    let all: Vec<_> =
        each_trial(runs).flat_map(|(run, t)| t.series.iter().map(move |row| (run, t.id, row))).collect();
    batch(vec![
        ("run", texts(all.iter().map(|(run, ..)| Some(run)))),
        ("trial", ints(all.iter().map(|&(_, trial, _)| Some(trial.into())))),
        ("second", ints(all.iter().map(|(.., row)| Some(row.second.into())))),
        ("metric", texts(all.iter().map(|(.., row)| Some(&row.metric)))),
        ("unit", texts(all.iter().map(|(.., row)| Some(&row.unit)))),
        ("value", floats(all.iter().map(|(.., row)| Some(row.value)))),
    ])
}

fn servers(runs: &[Run<'_>]) -> RecordBatch {
    let of = |run| -> Vec<(&Run<'_>, &Value)> {
        let run: &Run<'_> = run;
        let servers = run.dir.environment().get("servers").and_then(Value::as_array);
        servers.into_iter().flatten().map(|server| (run, server)).collect()
    };
    let all: Vec<_> = runs.iter().flat_map(of).collect();
    let text = |key: &'static str| texts(all.iter().map(move |(_, server)| plain(server.get(key)?)));
    let mut columns = vec![("run", texts(all.iter().map(|(run, _)| Some(run.name))))];
    columns.push(("server", text("label")));
    columns.extend(
        ["kind", "version", "program", "release", "root", "config", "workers"].map(|key| (key, text(key))),
    );
    batch(columns)
}

fn environment(runs: &[Run<'_>]) -> RecordBatch {
    let mut all = Vec::new();
    for run in runs {
        flatten(String::new(), run.dir.environment(), &mut |key, value| all.push((run.name, key, value)));
    }
    batch(vec![
        ("run", texts(all.iter().map(|(run, ..)| Some(run)))),
        ("key", texts(all.iter().map(|(_, key, _)| Some(key)))),
        ("value", texts(all.iter().map(|(.., value)| value.as_ref()))),
    ])
}

/// Gives all values, each with its keys and a point between them; of a list the numbers of its items, from 0.
fn flatten(key: String, value: &Value, each: &mut impl FnMut(String, Option<String>)) {
    let inner = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    match value {
        Value::Object(items) => items.iter().for_each(|(name, value)| flatten(inner(name), value, each)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, value)| flatten(inner(&n.to_string()), value, each));
        }
        value => each(key, plain(value)),
    }
}
