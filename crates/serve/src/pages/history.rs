//! The history of a figure over runs.

use super::{Problem, experiment, instant, page, quoted, started};
use crate::Parameters;
use crate::form::{Form, csv};
use crate::store::{Run, Store};
use axum::response::Response;
use measure::metrics::Scope;
use measure::{metrics, params};
use minijinja::context;
use minijinja::value::Serde;
use report::History;
use results::{RunDir, TrialRecord};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many histories a page shows: each is a plot and a table.
const MOST: usize = 40;

/// The figures that are shown where none is asked for, each of a measure: the first of them that there is.
const FIRST: [(&str, measure::Definition); 8] = [
    ("peak", metrics::CAPACITY_QPS),
    ("throughput", metrics::ANSWERED_QPS),
    ("latency", metrics::LATENCY.p50),
    ("memory", metrics::SERVER_PSS),
    ("load", metrics::SERVER_READY),
    ("update", metrics::ACCEPTED_UPS.within(Scope::Updates)),
    ("lag", metrics::LAG.p50),
    ("transfer", metrics::TRANSFER_SECONDS),
];

/// What is asked for, and what can be.
struct Choice {
    runs: Vec<Arc<Run>>,
    experiments: BTreeSet<String>,
    experiment: String,
    /// The figures of its runs with their titles.
    figures: BTreeMap<String, String>,
    figure: String,
    servers: BTreeSet<String>,
    /// Empty: all.
    server: String,
}

impl Choice {
    fn of(store: &Store, parameters: &Parameters) -> Self {
        let said = |key: &str| parameters.get(key).filter(|value| !value.is_empty()).cloned();
        let mut runs = store.runs();
        runs.retain(|run| run.dir.is_ok());
        let dir = |run: &Arc<Run>| run.dir.as_ref().map_or(0, started);
        let newest = runs.iter().max_by_key(|run| dir(run)).map(|run| experiment(run));
        let experiments: BTreeSet<String> = runs.iter().map(|run| experiment(run)).collect();
        let chosen = said("experiment").or(newest).unwrap_or_default();
        runs.retain(|run| experiment(run) == chosen);
        let trials = || runs.iter().filter_map(|run| run.dir.as_ref().ok()).flat_map(|dir| dir.trials());
        let title = |name: &str| metrics::find(name).map_or_else(String::new, |d| d.title.to_owned());
        let figures: BTreeMap<String, String> = trials()
            .flat_map(|t| t.outcome.metrics.iter())
            .map(|m| (m.name.clone(), title(&m.name)))
            .collect();
        let servers = trials().filter_map(|t| t.param(params::SERVER)).map(str::to_owned).collect();
        let measured: BTreeSet<&str> = trials().filter_map(|t| t.param(params::MEASURE)).collect();
        let first = || {
            let of_measure = FIRST.iter().filter(|(measure, _)| measured.contains(measure));
            of_measure.map(|(_, figure)| figure.name()).find(|name| figures.contains_key(name))
        };
        let figure = said("figure").or_else(first).or_else(|| figures.keys().next().cloned());
        let figure = figure.unwrap_or_default();
        let server = said("server").unwrap_or_default();
        Self { runs, experiments, experiment: chosen, figures, figure, servers, server }
    }

    fn histories(&self) -> Vec<History> {
        let runs: Vec<(&str, &RunDir)> =
            self.runs.iter().filter_map(|run| Some((run.name.as_str(), run.dir.as_ref().ok()?))).collect();
        let counts =
            |t: &TrialRecord| self.server.is_empty() || t.param(params::SERVER) == Some(self.server.as_str());
        report::histories(&runs, &self.figure, counts)
    }
}

/// A history with what a template cannot make of it.
#[derive(Serialize)]
struct View<'a> {
    #[serde(flatten)]
    history: &'a History,
    svg: &'a str,
    legend: &'a [(String, String)],
    rows: Vec<Row>,
}

/// A run of a history.
#[derive(Serialize)]
struct Row {
    run: String,
    address: String,
    started: String,
    version: String,
    median: String,
    range: String,
    /// `Interval` or `Range`.
    kind: &'static str,
    trials: Vec<u32>,
    invalid: usize,
    /// A change begins with it.
    changed: bool,
}

fn view(history: &History) -> View<'_> {
    let number = |value: f64| report::value(value, &history.unit);
    let row = |(at, point): (usize, &report::Point)| Row {
        run: point.run.clone(),
        address: quoted(&point.run),
        started: instant(point.started),
        version: point.version.clone(),
        median: number(point.median),
        range: format!("{} to {}", number(point.low), number(point.high)),
        kind: if point.interval { "Interval" } else { "Range" },
        trials: point.trials.clone(),
        invalid: point.invalid,
        changed: history.changes.iter().any(|change| change.at == at),
    };
    let rows = history.points.iter().enumerate().map(row).collect();
    View { history, svg: &history.svg, legend: &history.legend, rows }
}

/// The history as a page.
pub fn html(store: &Store, parameters: &Parameters) -> Result<String, Problem> {
    let choice = Choice::of(store, parameters);
    let all = choice.histories();
    let title = choice.figures.get(&choice.figure).cloned();
    let figures: Vec<(String, String)> = choice.figures.into_iter().collect();
    let query = format!(
        "experiment={}&figure={}&server={}",
        quoted(&choice.experiment),
        quoted(&choice.figure),
        quoted(&choice.server)
    );
    let values = context! {
        experiments => choice.experiments,
        experiment => choice.experiment,
        figures,
        figure => choice.figure,
        title,
        servers => choice.servers,
        server => choice.server,
        query,
        changes => all.iter().map(|h| h.changes.len()).sum::<usize>(),
        hidden => all.len().saturating_sub(MOST),
        histories => Serde(all.iter().take(MOST).map(view).collect::<Vec<_>>()),
    };
    Ok(page("History · dnsrack", "/history", include_str!("../../templates/history.html"), values)?)
}

/// A run of a history, as data.
#[derive(Serialize)]
struct Flat<'a> {
    measurement: &'a str,
    machine: &'a str,
    run: &'a str,
    started: i64,
    version: &'a str,
    unit: &'a str,
    median: f64,
    low: f64,
    high: f64,
    interval: bool,
    repeats: usize,
    invalid: usize,
    changed: bool,
}

/// The history.
pub fn history(store: &Store, parameters: &Parameters, form: Form) -> Result<Response, Problem> {
    if form == Form::Page {
        return Ok(form.response(html(store, parameters)?));
    }
    let choice = Choice::of(store, parameters);
    let all = choice.histories();
    let text = match form {
        Form::Csv => csv(all.iter().flat_map(|h| {
            h.points.iter().enumerate().map(move |(at, p)| Flat {
                measurement: &h.title,
                machine: &h.machine,
                run: &p.run,
                started: p.started,
                version: &p.version,
                unit: &h.unit,
                median: p.median,
                low: p.low,
                high: p.high,
                interval: p.interval,
                repeats: p.trials.len(),
                invalid: p.invalid,
                changed: h.changes.iter().any(|change| change.at == at),
            })
        }))?,
        _ => {
            let data = serde_json::json!({
                "experiment": choice.experiment, "figure": choice.figure, "server": choice.server, "histories": all,
            });
            data.to_string() + "\n"
        }
    };
    Ok(form.response(text))
}
