//! One run: its report, and what it does while it goes on.

use super::{HEAD, Problem, experiment, instant, quoted, started, top};
use crate::Parameters;
use crate::form::{Form, csv};
use crate::store::{Run, Store};
use axum::response::Response;
use minijinja::context;
use minijinja::value::Serde;
use report::Frame;
use results::{RunDir, TrialRecord};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;

/// The run that is asked for.
pub fn asked(store: &Store, parameters: &Parameters, key: &str) -> Result<Arc<Run>, Problem> {
    let name = parameters
        .get(key)
        .ok_or_else(|| Problem::asked(format!("say which run: ?{key}=NAME, as the list of runs names it")))?;
    store.run(name).ok_or_else(|| Problem::missing(format!("there is no run '{name}' (any more)")))
}

/// The run as a page.
pub fn html(store: &Store, parameters: &Parameters) -> Result<String, Problem> {
    let run = asked(store, parameters, "name")?;
    // All of it: the report draws histograms and series.
    let dir = RunDir::open(&run.folder)?;
    let experiment = experiment(&run);
    let mut others = store.runs();
    others.retain(|other| other.name != run.name && super::experiment(other) == experiment);
    let others: Vec<String> = others.iter().map(|other| other.name.clone()).collect();
    let values = context! {
        name => run.name.clone(),
        address => quoted(&run.name),
        experiment_address => quoted(&experiment),
        experiment,
        started => instant(started(&dir)),
        progress => Serde(run.progress()),
        undone => run.undone,
        others,
    };
    let head = report::render("head.html", include_str!("../../templates/run.html"), values)?;
    let frame = Frame { head: HEAD.into(), top: top("/run")? + &head };
    Ok(report::html_within(std::slice::from_ref(&dir), &frame)?)
}

/// A figure of a trial.
#[derive(Serialize)]
struct Row<'a> {
    run: &'a str,
    trial: u32,
    repeat: u32,
    valid: bool,
    /// The trial's parameters in words.
    params: String,
    metric: &'a str,
    unit: &'a str,
    value: f64,
}

fn rows<'a>(run: &'a str, trial: &'a TrialRecord) -> impl Iterator<Item = Row<'a>> {
    let params: Vec<String> = trial.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let params = params.join(" ");
    trial.outcome.metrics.iter().map(move |m| Row {
        run,
        trial: trial.id,
        repeat: trial.repeat,
        valid: trial.is_valid(),
        params: params.clone(),
        metric: &m.name,
        unit: &m.unit,
        value: m.value,
    })
}

fn json(run: &Run, dir: &RunDir) -> serde_json::Value {
    let trial = |t: &TrialRecord| {
        let params: serde_json::Map<_, _> =
            t.params.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({
            "trial": t.id, "repeat": t.repeat, "valid": t.is_valid(), "params": params, "error": t.error,
            "skipped": t.skipped, "validity": t.outcome.validity, "metrics": t.outcome.metrics,
        })
    };
    json!({
        "name": run.name, "experiment": experiment(run), "started": started(dir), "undone": run.undone,
        "progress": run.progress(), "environment": dir.environment(),
        "trials": dir.trials().iter().map(trial).collect::<Vec<_>>(),
    })
}

/// The run.
pub fn run(store: &Store, parameters: &Parameters, form: Form) -> Result<Response, Problem> {
    if form == Form::Page {
        return Ok(form.response(html(store, parameters)?));
    }
    let run = asked(store, parameters, "name")?;
    let dir = run.dir.as_ref().map_err(|why| Problem::fault(why))?;
    let text = match form {
        Form::Csv => csv(dir.trials().iter().flat_map(|trial| rows(&run.name, trial)))?,
        _ => json(&run, dir).to_string() + "\n",
    };
    Ok(form.response(text))
}
