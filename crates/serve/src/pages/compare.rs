//! The comparison of two runs, or of two servers of one.

use super::run::asked;
use super::{Problem, page, quoted};
use crate::Parameters;
use crate::form::{Form, csv};
use crate::store::{Run, Store};
use axum::response::Response;
use measure::params;
use minijinja::context;
use results::compare::{self, Comparison, Gates, Side};
use results::{RunDir, TrialRecord};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Two runs, or a run and two of its servers.
struct Asked {
    a: Arc<Run>,
    b: Arc<Run>,
    base: Option<String>,
    candidate: Option<String>,
    gates: Gates,
}

fn labels(run: &Run) -> BTreeSet<String> {
    let of = |t: &TrialRecord| t.param(params::SERVER).map(str::to_owned);
    run.dir.as_ref().map_or_else(|_| BTreeSet::new(), |dir| dir.trials().iter().filter_map(of).collect())
}

impl Asked {
    /// None where nothing is asked for yet.
    fn of(store: &Store, parameters: &Parameters) -> Result<Option<Self>, Problem> {
        let said = |key: &str| parameters.get(key).filter(|value| !value.is_empty()).cloned();
        if said("a").is_none() && said("b").is_none() {
            return Ok(None);
        }
        let (a, b) = (asked(store, parameters, "a")?, asked(store, parameters, "b")?);
        let threshold = match said("threshold") {
            None => None,
            Some(text) => match text.trim_end_matches([' ', '%']).parse::<f64>() {
                Ok(percent) if percent > 0.0 && percent < 100.0 => Some(percent / 100.0),
                _ => return Err(Problem::asked("threshold: per cent, above 0 and below 100")),
            },
        };
        let gates = Gates::new(&[], threshold).map_err(Problem::asked)?;
        Ok(Some(Self { a, b, base: said("base"), candidate: said("candidate"), gates }))
    }

    fn compared(&self) -> Result<Comparison, Problem> {
        let read = |run: &Run| RunDir::open(&run.folder);
        let a = read(&self.a)?;
        if self.a.name != self.b.name {
            let b = read(&self.b)?;
            let (one, other) =
                (Side::new(&a, self.base.as_deref()), Side::new(&b, self.candidate.as_deref()));
            return match (&self.base, &self.candidate) {
                (Some(_), None) | (None, Some(_)) => Err(Problem::asked(
                    "name a server of both runs, or of none: each is compared with itself then",
                )),
                _ => Ok(compare::compare(one, other, &self.gates)),
            };
        }
        match (&self.base, &self.candidate) {
            (Some(base), Some(candidate)) if base != candidate => {
                Ok(compare::compare(Side::new(&a, Some(base)), Side::new(&a, Some(candidate)), &self.gates))
            }
            (None, None) => report::compare::of_run(&a).ok_or_else(|| {
                Problem::asked("this run compares nothing by itself: name two of its servers, or another run")
            }),
            _ => Err(Problem::asked("name two different servers of the run")),
        }
    }
}

/// The comparison as a page.
pub fn html(store: &Store, parameters: &Parameters) -> Result<String, Problem> {
    let said = |key: &str| parameters.get(key).cloned().unwrap_or_default();
    let names: Vec<String> = store.runs().iter().map(|run| run.name.clone()).collect();
    let (mut section, mut problem) = (None, None);
    let mut known = (BTreeSet::new(), BTreeSet::new());
    match Asked::of(store, parameters) {
        Ok(None) => {}
        Ok(Some(asked)) => {
            known = (labels(&asked.a), labels(&asked.b));
            match asked.compared() {
                Ok(comparison) => section = Some(report::comparison_html(&comparison)?),
                Err(why) => problem = Some(why.text),
            }
        }
        Err(why) => problem = Some(why.text),
    }
    let keys = ["a", "b", "base", "candidate", "threshold"];
    let query: Vec<String> = keys.iter().map(|key| format!("{key}={}", quoted(&said(key)))).collect();
    let values = context! {
        names,
        a => said("a"),
        b => said("b"),
        base => said("base"),
        candidate => said("candidate"),
        threshold => said("threshold"),
        a_servers => known.0,
        b_servers => known.1,
        query => query.join("&"),
        section,
        problem,
    };
    Ok(page("Compare · dnsrack", "/compare", include_str!("../../templates/compare.html"), values)?)
}

/// A compared figure, as data.
#[derive(Serialize)]
struct Flat {
    cell: String,
    figure: &'static str,
    unit: &'static str,
    base: f64,
    candidate: f64,
    base_repeats: usize,
    candidate_repeats: usize,
    difference: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    threshold: f64,
    decides: bool,
    outcome: &'static str,
}

fn rows(comparison: &Comparison) -> impl Iterator<Item = Flat> {
    comparison.cells.iter().flat_map(|cell| {
        let params: Vec<String> = cell.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        cell.figures.iter().map(move |f| Flat {
            cell: params.join(" "),
            figure: f.name,
            unit: f.unit,
            base: f.a.median,
            candidate: f.b.median,
            base_repeats: f.a.repeats,
            candidate_repeats: f.b.repeats,
            difference: f.change.map(|c| c.value),
            low: f.change.map(|c| c.low),
            high: f.change.map(|c| c.high),
            threshold: f.threshold,
            decides: f.gates,
            outcome: f.outcome.word(),
        })
    })
}

/// The comparison.
pub fn compare(store: &Store, parameters: &Parameters, form: Form) -> Result<Response, Problem> {
    if form == Form::Page {
        return Ok(form.response(html(store, parameters)?));
    }
    let asked = Asked::of(store, parameters)?
        .ok_or_else(|| Problem::asked("say which runs: ?a=NAME&b=NAME, the base first"))?;
    let comparison = asked.compared()?;
    let text = match form {
        Form::Csv => csv(rows(&comparison))?,
        _ => {
            let data = serde_json::json!({
                "outcome": comparison.outcome(), "answer": report::compare::answer(&comparison), "comparison": comparison,
            });
            data.to_string() + "\n"
        }
    };
    Ok(form.response(text))
}
