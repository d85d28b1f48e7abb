//! All runs.

use super::{Problem, experiment, instant, page, quoted, servers, started};
use crate::Parameters;
use crate::form::{Form, csv};
use crate::store::{Run, Store};
use axum::response::Response;
use minijinja::context;
use minijinja::value::Serde;
use results::TrialRecord;
use serde::Serialize;

/// A run in the list.
#[derive(Serialize)]
struct Row {
    name: String,
    #[serde(skip)]
    address: String,
    experiment: String,
    started: i64,
    /// The same for people.
    started_text: String,
    servers: String,
    machine: String,
    kernel: String,
    dnsrack: String,
    valid: usize,
    invalid: usize,
    failed: usize,
    skipped: usize,
    undone: usize,
    /// `running`, `done`, `cut short`, or `cannot be read`.
    state: &'static str,
    /// What it does now, or why it cannot be read.
    now: String,
}

impl Row {
    fn of(run: &Run) -> Self {
        let progress = run.progress();
        let state = match (&run.dir, &progress, run.undone) {
            (Err(_), ..) => "cannot be read",
            (_, Some(_), _) => "running",
            (_, None, 0) => "done",
            _ => "cut short",
        };
        let doing = |p: results::Progress| {
            p.doing.first().map_or_else(String::new, |doing| format!("{}: {}", doing.trial, doing.now))
        };
        let now = match &run.dir {
            Err(why) => why.clone(),
            Ok(_) => progress.map_or_else(String::new, doing),
        };
        let mut row = Self {
            name: run.name.clone(),
            address: quoted(&run.name),
            experiment: experiment(run),
            started: 0,
            started_text: String::new(),
            servers: String::new(),
            machine: String::new(),
            kernel: String::new(),
            dnsrack: String::new(),
            valid: 0,
            invalid: 0,
            failed: 0,
            skipped: 0,
            undone: run.undone,
            state,
            now,
        };
        let Ok(dir) = &run.dir else { return row };
        let environment = dir.environment();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or("unknown").to_owned();
        let count = |of: fn(&TrialRecord) -> bool| dir.trials().iter().filter(|t| of(t)).count();
        row.started = started(dir);
        row.started_text = instant(row.started);
        row.servers = servers(dir).join(", ");
        row.machine = text(&environment["machine"]["cpu_model"]);
        // The release, without what its builders add.
        row.kernel = text(&environment["machine"]["kernel"]).split(' ').next().unwrap_or_default().to_owned();
        row.dnsrack = text(&environment["dnsrack"]);
        row.failed = count(|t| t.error.is_some());
        row.skipped = count(|t| t.skipped.is_some());
        row.valid = count(TrialRecord::is_valid);
        row.invalid = dir.trials().len() - row.valid - row.failed - row.skipped;
        row
    }
}

/// All runs, the newest first.
fn rows(store: &Store) -> Vec<Row> {
    let mut rows: Vec<Row> = store.runs().iter().map(|run| Row::of(run)).collect();
    rows.sort_by(|a, b| (b.started, &a.name).cmp(&(a.started, &b.name)));
    rows
}

/// The list as a page.
pub fn html(store: &Store, _: &Parameters) -> Result<String, Problem> {
    let rows = rows(store);
    let running = rows.iter().filter(|row| row.state == "running").count();
    let values: Vec<_> =
        rows.iter().map(|row| context! { row => Serde(row), address => row.address.clone() }).collect();
    let template = include_str!("../../templates/runs.html");
    Ok(page("Runs · dnsrack", "/", template, context! { rows => values, running })?)
}

/// The list.
pub fn runs(store: &Store, parameters: &Parameters, form: Form) -> Result<Response, Problem> {
    let text = match form {
        Form::Page => html(store, parameters)?,
        Form::Json => serde_json::to_string(&rows(store))? + "\n",
        Form::Csv => csv(rows(store))?,
    };
    Ok(form.response(text))
}
