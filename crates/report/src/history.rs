//! The history of a figure over runs: a line for each measurement on each machine, with intervals, versions and the changes that are
//! certain.

use crate::format::value;
use crate::svg::{self, Axis, Plot};
use jiff::Timestamp;
use measure::params;
use results::compare::cell_of;
use results::{RunDir, TrialRecord};
use serde::Serialize;
use stats::change::{self, Change};
use std::collections::BTreeMap;

/// A figure of one measurement on one machine, run by run.
#[derive(Clone, Debug, Serialize)]
pub struct History {
    /// The parameters that say what was measured.
    pub params: BTreeMap<String, String>,
    /// The parameters in words: those in which the histories differ; of a single one all.
    pub title: String,
    /// The machine: its processor, and how many CPUs it has.
    pub machine: String,
    /// The figure's unit.
    pub unit: String,
    /// The runs, the earliest first.
    pub points: Vec<Point>,
    /// The changes that are certain, in sentences.
    pub changes: Vec<Marked>,
    /// The plot, as SVG that takes its colours from the page.
    #[serde(skip)]
    pub svg: String,
    /// The plot's legend: a sample and the version.
    #[serde(skip)]
    pub legend: Vec<(String, String)>,
}

/// What one run has.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The name of the run.
    pub run: String,
    /// When it began: seconds since 1970.
    pub started: i64,
    /// The server's version.
    pub version: String,
    /// The median over the valid repeats.
    pub median: f64,
    /// Lower end of its interval at 95 %; the least value where there are too few repeats for that.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Whether `low` and `high` are an interval at 95 %.
    pub interval: bool,
    /// The valid trials, by number.
    pub trials: Vec<u32>,
    /// How many others there are.
    pub invalid: usize,
}

/// A change that is certain.
#[derive(Clone, Debug, Serialize)]
pub struct Marked {
    /// The first run after it.
    pub run: String,
    /// Its place among the points, from 0.
    pub at: usize,
    /// By how much, as a share.
    pub difference: f64,
    /// The interval of that at 95 %.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How often chance alone makes as much.
    pub by_chance: f64,
    /// All of it in a sentence.
    pub text: String,
}

/// The histories of a metric over runs, each with its name, those with the most runs first. `of` says which trials count.
pub fn histories(runs: &[(&str, &RunDir)], metric: &str, of: impl Fn(&TrialRecord) -> bool) -> Vec<History> {
    type Key = (BTreeMap<String, String>, String);
    let mut all: BTreeMap<Key, Vec<Point>> = BTreeMap::new();
    let mut units: BTreeMap<Key, String> = BTreeMap::new();
    for (name, run) in runs {
        let mut cells: BTreeMap<BTreeMap<String, String>, Vec<&TrialRecord>> = BTreeMap::new();
        run.trials().iter().filter(|t| of(t)).for_each(|t| cells.entry(cell_of(t)).or_default().push(t));
        for (params, trials) in cells {
            let value = |t: &&TrialRecord| t.outcome.metrics.iter().find(|m| m.name == metric).cloned();
            let valid: Vec<_> =
                trials.iter().filter(|t| t.is_valid()).filter(|t| value(t).is_some()).collect();
            let figures: Vec<_> = valid.iter().filter_map(|t| value(t)).collect();
            let values: Vec<f64> = figures.iter().map(|m| m.value).collect();
            let (Some(median), Some(interval)) =
                (stats::median(&values), stats::interval(&values, stats::LEVEL))
            else {
                continue;
            };
            let key = (params, machine(run));
            units.insert(key.clone(), figures[0].unit.clone());
            all.entry(key).or_default().push(Point {
                run: (*name).to_owned(),
                started: run.started().unwrap_or(0),
                version: valid[0].param(params::VERSION).unwrap_or("no version").to_owned(),
                median,
                low: interval.low,
                high: interval.high,
                interval: interval.basis == stats::Basis::OrderStatistics,
                trials: valid.iter().map(|t| t.id).collect(),
                invalid: trials.len() - valid.len(),
            });
        }
    }
    let varied = varied(all.keys().map(|(params, _)| params));
    let mut histories: Vec<History> = all
        .into_iter()
        .map(|(key, mut points)| {
            points.sort_by(|a, b| (a.started, &a.run).cmp(&(b.started, &b.run)));
            let unit = units.remove(&key).unwrap_or_default();
            history(key.0, key.1, unit, points, &varied)
        })
        .collect();
    histories.sort_by_key(|h| std::cmp::Reverse(h.points.len()));
    histories
}

/// The processor of a run's machine, how many CPUs it has, and whether these were kept awake, which changes latencies as another
/// machine does.
fn machine(run: &RunDir) -> String {
    let environment = run.environment();
    let machine = &environment["machine"];
    let model = machine["cpu_model"].as_str().unwrap_or("unknown processor");
    let cpus = machine["cpus"].as_u64().map(|n| measure::units::counted(n, "CPU"));
    let awake = idle_cores(environment).map(str::to_owned);
    [Some(model.to_owned()), cpus, awake].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// That idle cores were kept awake, where they were.
pub(crate) fn idle_cores(environment: &serde_json::Value) -> Option<&'static str> {
    (environment["idle_cores"] == "poll").then_some("idle cores polled")
}

/// The parameters that do not have one value everywhere.
fn varied<'a>(all: impl Iterator<Item = &'a BTreeMap<String, String>>) -> Vec<String> {
    let mut values: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
    let mut count = 0;
    for params in all {
        count += 1;
        params.iter().for_each(|(name, value)| values.entry(name).or_default().push(value));
    }
    let differs = |values: &Vec<&String>| values.len() < count || values.iter().any(|v| *v != values[0]);
    values.into_iter().filter(|(_, v)| differs(v)).map(|(name, _)| name.clone()).collect()
}

fn history(
    params: BTreeMap<String, String>,
    machine: String,
    unit: String,
    points: Vec<Point>,
    varied: &[String],
) -> History {
    let shown = |name: &&String| varied.is_empty() || varied.contains(name);
    let words: Vec<String> =
        params.keys().filter(shown).map(|name| format!("{name} {}", params[name])).collect();
    let title = words.join(", ");
    let medians: Vec<f64> = points.iter().map(|p| p.median).collect();
    let found = change::changes(&medians);
    let changes = found.iter().map(|change| marked(change, &points)).collect();
    let (svg, legend) = plot(&points, &found, &unit, &title);
    History { params, title, machine, unit, points, changes, svg, legend }
}

fn marked(change: &Change, points: &[Point]) -> Marked {
    let (low, high) = change.ratio.interval(stats::LEVEL);
    let difference = change.ratio.difference();
    let percent = |share: f64| format!("{:+.1} %", 100.0 * share);
    let (before, after) = (change.at - change.from, change.to - change.at);
    let run = points[change.at].run.clone();
    let versions = match (&points[change.at - 1].version, &points[change.at].version) {
        (a, b) if a == b => format!("the version is {b} before and after"),
        (a, b) => format!("version {a} before, {b} after"),
    };
    let text = format!(
        "From {run} on: {} ({} to {}), {before} runs before and {after} after; {versions}.",
        percent(difference),
        percent(low),
        percent(high)
    );
    Marked { run, at: change.at, difference, low, high, by_chance: change.by_chance, text }
}

/// The day of an instant, in UTC.
fn day(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| "unknown".into(), |t| t.strftime("%Y-%m-%d").to_string())
}

/// The points in the order of the runs: a marker with its interval for each, another style for each version, the geometric mean
/// between changes, and an upright line at each change.
fn plot(points: &[Point], changes: &[Change], unit: &str, title: &str) -> (String, Vec<(String, String)>) {
    let low = points.iter().map(|p| p.low).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|p| p.high).fold(f64::NEG_INFINITY, f64::max);
    // Room for the scatter of one run at least.
    let margin = ((high - low) * 0.15).max(high.abs() * 0.02);
    let y = Axis::between("", low - margin, high + margin, |at| value(at, unit));
    let y = Axis { title: if y.low == 0.0 { String::new() } else { "not from 0".into() }, ..y };
    let last = points.len() as f64;
    let every = points.len().div_ceil(5).max(1);
    let ticks = (0..points.len()).step_by(every).map(|i| (i as f64 + 1.0, day(points[i].started))).collect();
    let x = Axis { title: "run".into(), low: 0.0, high: last + 1.0, log: false, ticks };
    let mut picture = Plot::new(x, y);
    let mut versions: Vec<&String> = Vec::new();
    let ends = changes.iter().map(|c| c.at).chain([points.len()]);
    let mut from = 0;
    for to in ends {
        let medians: Vec<f64> = points[from..to].iter().map(|p| p.median).collect();
        if let (Some(mean), false) = (stats::geometric_mean(&medians), changes.is_empty()) {
            picture.line(&[(from as f64 + 0.6, mean), (to as f64 + 0.4, mean)], 6, "steps");
        }
        from = to;
    }
    for (i, point) in points.iter().enumerate() {
        let style = versions.iter().position(|v| **v == point.version).unwrap_or_else(|| {
            versions.push(&point.version);
            versions.len() - 1
        });
        let at = i as f64 + 1.0;
        if point.high > point.low {
            picture.interval(at, point.low, point.high, style);
        }
        picture.point(at, point.median, style, false);
    }
    for change in changes {
        picture.upright(&[change.at as f64 + 0.5], &format!("{:+.1} %", 100.0 * change.ratio.difference()));
    }
    let legend = versions.iter().enumerate().map(|(style, v)| (svg::key(style), (*v).clone())).collect();
    (picture.finish(title, &format!("{unit} by run")), legend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{Metric, metrics};
    use serde_json::json;

    fn run(folder: &std::path::Path, n: u32, value: f64) -> RunDir {
        let machine = json!({ "machine": { "cpu_model": "Z<80>", "cpus": 2, "unix_time": 1_780_000_000 + i64::from(n) * 86_400 } });
        let mut run = RunDir::create(&folder.join(n.to_string()), "name = \"x\"", &machine).unwrap();
        for id in 1..=5 {
            let mut trial = TrialRecord { id, repeat: id, ..TrialRecord::default() };
            trial.add_param(params::SERVER, "nsd");
            trial.add_param(params::VERSION, if n < 12 { "4.6 <b>" } else { "4.7" });
            let wobble = 1.0 + f64::from(id) * 0.001 + f64::from(n % 5) * 0.004;
            trial.outcome.metrics.push(metrics::ANSWERED_QPS.of(value * wobble));
            trial.outcome.metrics.push(Metric::new("none", "1", 0.0));
            trial.outcome.validity.valid = id < 5;
            run.append(trial).unwrap();
        }
        run
    }

    #[test]
    fn a_machine_whose_cores_are_kept_awake_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let named = |name: &str, environment| {
            machine(&RunDir::create(&folder.path().join(name), "name = \"x\"", &environment).unwrap())
        };
        let z80 = json!({ "cpu_model": "Z80", "cpus": 1 });
        assert_eq!(named("asleep", json!({ "machine": z80, "idle_cores": "system" })), "Z80, 1 CPU");
        assert_eq!(
            named("awake", json!({ "machine": z80, "idle_cores": "poll" })),
            "Z80, 1 CPU, idle cores polled"
        );
        assert_eq!(named("unknown", json!({})), "unknown processor");
    }

    #[test]
    fn a_slower_version_is_marked_and_the_same_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let runs: Vec<RunDir> =
            (0..18).map(|n| run(folder.path(), n, if n < 12 { 1000.0 } else { 900.0 })).collect();
        let names: Vec<String> = (0..18).map(|n| format!("night/{n}")).collect();
        let named: Vec<(&str, &RunDir)> = names.iter().map(String::as_str).zip(&runs).collect();
        let all = histories(&named, "answered_qps", |_| true);
        assert_eq!(all.len(), 1);
        let [change] = &all[0].changes[..] else { panic!("{:?}", all[0].changes) };
        assert_eq!((change.at, change.run.as_str()), (12, "night/12"));
        assert!(change.low < -0.1 && -0.1 < change.high, "{change:?}");
        assert_eq!(
            (all[0].points[0].trials.len(), all[0].points[0].invalid),
            (4, 1),
            "invalid repeats do not count"
        );
        let svg = &all[0].svg;
        assert!(svg.contains("-9.9 %") && !svg.contains("NaN") && !svg.contains("<b>"), "{svg}");
        assert_eq!(all[0].legend.len(), 2);
        let same = histories(&named[..12], "answered_qps", |_| true);
        assert!(same[0].changes.is_empty(), "{:?}", same[0].changes);
        // A figure that is zero has a plot as well, and one that nobody has has none.
        assert!(!histories(&named, "none", |_| true)[0].svg.contains("NaN"));
        assert!(histories(&named, "nobody", |_| true).is_empty());
    }
}
