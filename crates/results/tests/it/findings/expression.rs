//! Figures of runs, as comments in `docs/findings.md` write them.
//!
//! `METRIC` or `METRIC[PARAM=VALUE, …]`: the median over the valid repeats of the one cell that is meant. `min(METRIC)`,
//! `max(METRIC)`, `sum(METRIC)`: over all trials that are meant. `published(TABLE, KEY, …, COLUMN)`: a printed cell, where TABLE, a
//! KEY or COLUMN may be the name of a parameter, or of one that only this uses (`@os`). `least(F for PARAM, …)`, `most(…)`: over the values of parameters. `pairs(METRIC, A, B,
//! NOISE, mid|low|high)`: by which share server B differs from A, pair by pair. `trials(PARAM=VALUE, …)`: how many valid ones.
//! `param(NAME)`: a parameter
//! that is a number. `ceil(F)`. A `*` in METRIC stands for anything. Numbers, `+ - * /` with spaces around them, and parentheses. Times are in seconds, memory in octets, shares of one.

use super::{filters, number::factor};
use measure::params;
use results::{TrialRecord, published};
use stats::Ratio;
use std::cell::Cell;
use std::collections::BTreeSet;

/// Parameters that do not tell cells apart.
const NAMES: [&str; 9] = [
    "experiment",
    "set",
    "published",
    "kind",
    "version",
    "program",
    "zone_bytes",
    "run",
    "first_mixed_by_query",
];

/// A parameter of a trial by its name, or its run.
fn param<'t>(trial: &'t TrialRecord, name: &str) -> Option<&'t str> {
    if name == "run" {
        return trial.params.iter().find(|(key, _)| key == name).map(|(_, run)| run.as_str());
    }
    trial.param(params::find(name).unwrap_or_else(|| panic!("there is no parameter {name}")))
}

/// The trials that are meant.
pub struct Context<'a> {
    trials: &'a [TrialRecord],
    filters: Vec<(String, String)>,
    /// Figures of invalid trials are shown.
    all: bool,
    invalid: Cell<bool>,
}

/// Parts of a text between separators that are in no parentheses or brackets.
pub fn split<'t>(text: &'t str, separator: &str) -> Vec<&'t str> {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ if depth == 0 && i >= begin && text[i..].starts_with(separator) => {
                parts.push(&text[begin..i]);
                begin = i + separator.len();
            }
            _ => (),
        }
    }
    parts.push(&text[begin..]);
    parts
}

impl<'a> Context<'a> {
    pub fn new(trials: &'a [TrialRecord], filters: Vec<(String, String)>, all: bool) -> Self {
        Self { trials, filters, all, invalid: Cell::new(false) }
    }

    /// Whether a figure since [`Self::forget`] was of invalid trials alone.
    pub fn met_invalid(&self) -> bool {
        self.invalid.get()
    }

    pub fn forget(&self) {
        self.invalid.set(false);
    }

    fn with(&self, more: Vec<(String, String)>) -> Self {
        let filters = [self.filters.clone(), more].concat();
        Self { trials: self.trials, filters, all: self.all, invalid: Cell::new(false) }
    }

    /// What is later said of a parameter counts.
    fn wanted(&self, param: &str) -> Option<&str> {
        self.filters.iter().rev().find(|(k, _)| k == param).map(|(_, v)| v.as_str())
    }

    fn matching(&self) -> Vec<&'a TrialRecord> {
        // What begins with "@" is for `published` alone.
        let names = self.filters.iter().map(|(k, _)| k.as_str()).filter(|k| !k.starts_with('@'));
        let names: BTreeSet<&str> = names.collect();
        let fits = |t: &&TrialRecord| names.iter().all(|k| param(t, k) == self.wanted(k));
        let all: Vec<_> = self.trials.iter().filter(fits).collect();
        let valid: Vec<_> = all.iter().filter(|t| t.is_valid()).copied().collect();
        if valid.is_empty() && !all.is_empty() {
            self.invalid.set(true);
            return if self.all { all } else { valid };
        }
        valid
    }

    /// A metric of each trial that is meant.
    fn each(&self, reference: &str) -> Result<(Vec<&'a TrialRecord>, Vec<f64>), String> {
        let (metric, of) = reference.trim().split_once('[').unwrap_or((reference.trim(), "]"));
        let inner = self.with(filters(of.trim_end_matches(']'))?);
        let trials = inner.matching();
        self.invalid.set(self.invalid.get() || inner.invalid.get());
        // `generator_*_answered_qps`: each of them.
        let is_meant = |name: &str| match metric.split_once('*') {
            Some((begin, end)) => name.starts_with(begin) && name.ends_with(end),
            None => name == metric,
        };
        let values = |t: &&'a TrialRecord| {
            let meant = t.outcome.metrics.iter().filter(|m| is_meant(&m.name));
            meant.map(|m| m.value * factor(&m.unit)).collect::<Vec<_>>()
        };
        let values = trials.iter().flat_map(values).collect();
        Ok((trials, values))
    }

    /// The median of one cell.
    fn median(&self, reference: &str) -> Result<Option<f64>, String> {
        let (trials, values) = self.each(reference)?;
        let cell = |t: &TrialRecord| -> Vec<(String, String)> {
            t.params.iter().filter(|(k, _)| !NAMES.contains(&k.as_str())).cloned().collect()
        };
        if let Some(other) = trials.iter().find(|t| cell(t) != cell(trials[0])) {
            let one = cell(trials[0]);
            let differs: Vec<_> = cell(other).into_iter().filter(|p| !one.contains(p)).collect();
            return Err(format!("{reference} is of several cells, which differ in {differs:?}"));
        }
        Ok(stats::median(&values))
    }

    fn published(&self, arguments: &[&str]) -> Result<Option<f64>, String> {
        let [id, keys @ .., column] = arguments else {
            return Err("published(TABLE, KEY, …, COLUMN)".into());
        };
        let (id, column) = (self.wanted(id).unwrap_or(id), self.wanted(column).unwrap_or(column));
        let table = published::find(id).ok_or_else(|| format!("no published table {id}"))?;
        let keys: Vec<&str> = keys.iter().map(|k| self.wanted(k).unwrap_or(k)).collect();
        let cell = table.cell(&keys, column).and_then(|cell| cell.value);
        let unit = table.unit_of(&keys);
        // A published GB is 2³⁰ bytes, one of our texts 10⁹.
        let in_base = ["s", "B"].iter().find_map(|base| published::conversion(unit, base));
        Ok(cell.map(|value| value * in_base.unwrap_or_else(|| factor(unit))))
    }

    /// A figure over all values of some parameters.
    fn over(&self, text: &str, better: fn(f64, f64) -> f64) -> Result<Option<f64>, String> {
        let (expression, params) = text.rsplit_once(" for ").ok_or("least(F for PARAM)")?;
        let params: Vec<&str> = params.split(',').map(str::trim).collect();
        let values = |t: &TrialRecord| -> Option<Vec<(String, String)>> {
            params.iter().map(|p| Some(((*p).to_owned(), param(t, p)?.to_owned()))).collect()
        };
        let cells: BTreeSet<_> = self.matching().into_iter().filter_map(values).collect();
        let mut found = None;
        for cell in cells {
            if let Some(value) = self.with(cell).value(expression)? {
                found = Some(found.map_or(value, |f| better(f, value)));
            }
        }
        Ok(found)
    }

    fn pairs(&self, arguments: &[&str]) -> Result<Option<f64>, String> {
        let [metric, a, b, noise, end] = arguments else {
            return Err("pairs(METRIC, A, B, NOISE, mid|low|high)".into());
        };
        let side = |label: &str| -> Result<Vec<(u32, f64)>, String> {
            let inner = self.with(vec![("server".into(), label.into())]);
            let (trials, values) = inner.each(metric)?;
            Ok(trials.iter().map(|t| t.repeat).zip(values).collect())
        };
        let (a, b) = (side(a)?, side(b)?);
        let partner = |(repeat, value): &(u32, f64)| {
            b.iter().find(|(other, _)| other == repeat).map(|(_, of_b)| (*value, *of_b))
        };
        let pairs: Vec<(f64, f64)> = a.iter().filter_map(partner).collect();
        let noise = noise.parse().map_err(|_| "NOISE is a number")?;
        Ok(Ratio::of_pairs(&pairs, noise).map(|ratio| match *end {
            "low" => ratio.interval(stats::LEVEL).0,
            "high" => ratio.interval(stats::LEVEL).1,
            _ => ratio.difference(),
        }))
    }

    /// A figure; none where no trial has it.
    pub fn value(&self, expression: &str) -> Result<Option<f64>, String> {
        let text = expression.trim();
        for operators in [[" + ", " - "], [" * ", " / "]] {
            let last = |op: &&str| split(text, op).last().map(|part| text.len() - part.len());
            let op = operators.into_iter().filter(|op| split(text, op).len() > 1).max_by_key(|op| last(op));
            if let Some(op) = op {
                let at = last(&op).unwrap_or_default();
                let (Some(a), Some(b)) = (self.value(&text[..at - op.len()])?, self.value(&text[at..])?)
                else {
                    return Ok(None);
                };
                return Ok(Some(match op.trim() {
                    "+" => a + b,
                    "-" => a - b,
                    "*" => a * b,
                    _ => a / b,
                }));
            }
        }
        if let Ok(number) = text.parse::<f64>() {
            return Ok(Some(number));
        }
        let Some((name, rest)) = text.split_once('(').filter(|(name, _)| !name.contains('[')) else {
            return self.median(text);
        };
        let inner = rest.strip_suffix(')').ok_or_else(|| format!("'{text}' has no end"))?;
        let arguments: Vec<&str> = inner.split(',').map(str::trim).collect();
        let fold = |f: fn(f64, f64) -> f64| Ok(self.each(inner)?.1.into_iter().reduce(f));
        match name {
            "" => self.value(inner),
            "min" => fold(f64::min),
            "max" => fold(f64::max),
            "sum" => fold(|a, b| a + b),
            "published" => self.published(&arguments),
            "least" => self.over(inner, f64::min),
            "most" => self.over(inner, f64::max),
            "pairs" => self.pairs(&arguments),
            "ceil" => Ok(self.value(inner)?.map(f64::ceil)),
            "param" => {
                let values: BTreeSet<&str> =
                    self.matching().iter().filter_map(|t| param(t, inner.trim())).collect();
                let mut numbers = values.iter().filter_map(|v| measure::units::count(v).ok());
                Ok(numbers.next().filter(|_| values.len() == 1).map(|n| n as f64))
            }
            "trials" => Ok(Some(self.with(filters(inner)?).matching().len() as f64)),
            _ => Err(format!("unknown function '{name}'")),
        }
    }
}
