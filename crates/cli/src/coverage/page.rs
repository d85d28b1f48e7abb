//! Coverage as a page in Markdown, and as JSON.

use super::{Coverage, Missing, OfTable, OfValue, REPEATS, experiment};
use crate::experiment::time;
use crate::output::Failure;
use ::experiment::resources;
use serde_json::{Value, json};
use std::fmt::Write as _;

impl Coverage {
    fn values(&self) -> impl Iterator<Item = &OfValue> {
        self.tables.iter().flat_map(|t| &t.values)
    }

    /// For scripts.
    pub fn json(&self) -> Value {
        let value = |v: &OfValue| {
            let (why, how) = match &v.missing {
                Missing::NotRun { name, sets } => ("not run", command(name, sets)),
                Missing::TooLarge(why) => ("too large", why.clone()),
                Missing::Command(how) => ("not run", how.clone()),
                Missing::Parts(of) => {
                    ("not run", format!("measure the values of {} and {}", of.dividends, of.divisors))
                }
                Missing::Not(why) => ("not possible", why.clone()),
            };
            json!({
                "row": v.row.key, "column": v.column, "published": v.cell.text,
                "measured": v.measured.as_ref().map(|m| json!({
                    "runs": m.runs, "text": m.text, "factor": m.factor, "repeats": m.repeats })),
                "missing": (!v.is_measured()).then(|| json!({ "why": why, "how": how })),
            })
        };
        let table = |t: &OfTable| json!({ "table": t.table.id, "values": t.values.iter().map(value).collect::<Vec<_>>() });
        json!({
            "values": self.values().count(),
            "measured": self.values().filter(|v| v.is_measured()).count(),
            "tables": self.tables.iter().map(table).collect::<Vec<_>>(),
        })
    }

    /// The page in Markdown.
    ///
    /// # Errors
    /// As [`of`].
    pub fn markdown(&self) -> Result<String, Failure> {
        let (all, measured) = (self.values().count(), self.values().filter(|v| v.is_measured()).count());
        let few = self.values().filter(|v| v.measured.is_some() && !v.is_measured()).count();
        let gb = self.memory as f64 / 1e9;
        let mut text = format!(
            "# How much of the published tables is measured\n\n\
             **{measured} of {all} published values** have a measured value beside them at the same parameters, from a kept run with at \
             least {REPEATS} valid repeats. {few} more have one from fewer repeats. `dnsrack report --coverage docs/runs docs/values --memory {gb:.0}G` \
             makes this page.\n\n\
             The parameters that have to agree are the server's kind, the zone's family and size, rate or window, deadline, updates, \
             batches, timers and path. A load has to last at least as long. Hardware and versions are of today.\n\n\
             | table | | values | measured | from fewer repeats | too large for {gb:.0} GB | not possible | not run |\n\
             |---|---|--:|--:|--:|--:|--:|--:|\n"
        );
        for t in &self.tables {
            let count = |is: &dyn Fn(&OfValue) -> bool| t.values.iter().filter(|v| is(v)).count();
            let missing = |is: fn(&Missing) -> bool| count(&|v| v.measured.is_none() && is(&v.missing));
            let id = &t.table.id;
            let _ = writeln!(
                text,
                "| [{id}](#{}) | {} | {} | {} | {} | {} | {} | {} |",
                anchor(id),
                t.table.title,
                t.values.len(),
                count(&|v| v.is_measured()),
                count(&|v| v.measured.is_some() && !v.is_measured()),
                missing(|m| matches!(m, Missing::TooLarge(_))),
                missing(|m| matches!(m, Missing::Not(_))),
                missing(|m| matches!(m, Missing::NotRun { .. } | Missing::Command(_) | Missing::Parts(_))),
            );
        }
        for t in &self.tables {
            self.table(t, &mut text)?;
        }
        Ok(text)
    }

    fn table(&self, t: &OfTable, text: &mut String) -> Result<(), Failure> {
        let table = t.table;
        let unit = if table.unit == "1" { String::new() } else { format!(", in {}", table.unit) };
        let _ = write!(
            text,
            "\n## {}\n\n{}, {}: {}{unit}. Each value as published, then as measured, with the number of valid repeats.\n\n",
            table.id,
            table.short_source(),
            table.place,
            table.title
        );
        let heads: Vec<&str> = table.row_titles.iter().chain(&table.columns).map(String::as_str).collect();
        let _ = writeln!(text, "| {} |\n|{}", heads.join(" | "), "---|".repeat(heads.len()));
        for row in &table.rows {
            let mut cells: Vec<String> = row.key.clone();
            for (column, cell) in table.columns.iter().zip(&row.cells) {
                let value = t.values.iter().find(|v| std::ptr::eq(v.cell, cell));
                let measured = value.and_then(|v| v.measured.as_ref());
                let beside = measured.map_or_else(String::new, |m| format!(" · {} ×{}", m.text, m.repeats));
                let unit = row.unit.as_ref().filter(|_| cell.value.is_some());
                let unit = unit.map_or_else(String::new, |unit| format!(" {unit}"));
                cells.push(format!("{}{unit}{beside}", cell.text.trim()));
                debug_assert!(value.is_none_or(|v| v.column == column));
            }
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        text.push('\n');
        for (mark, about) in &table.footnotes {
            let _ = writeln!(text, "{} {about}\n", mark.replace('*', "\\*"));
        }
        let mut runs: Vec<&str> = t
            .values
            .iter()
            .filter_map(|v| v.measured.as_ref())
            .flat_map(|m| &m.runs)
            .map(String::as_str)
            .collect();
        runs.sort_unstable();
        runs.dedup();
        if !runs.is_empty() {
            let runs: Vec<String> = runs.iter().map(|run| format!("`{run}`")).collect();
            let _ = writeln!(text, "Measured in {}.\n", runs.join(", "));
        }
        for line in missing(t)? {
            let _ = writeln!(text, "- {line}");
        }
        Ok(())
    }
}

/// The values of a table that are not measured: a line for each reason or command.
fn missing(t: &OfTable) -> Result<Vec<String>, Failure> {
    let mut reasons: Vec<(String, Vec<&OfValue>)> = Vec::new();
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for value in t.values.iter().filter(|v| !v.is_measured()) {
        let reason = match &value.missing {
            Missing::NotRun { name, sets } => {
                match commands
                    .iter_mut()
                    .find_map(|(of, all)| Some((joined(all, sets)?, all)).filter(|_| of == name))
                {
                    Some((both, all)) => *all = both,
                    None => commands.push((name.clone(), sets.clone())),
                }
                continue;
            }
            Missing::Not(why) => format!("Not possible, as {why}"),
            Missing::Command(how) => format!("Not kept: `{how}`"),
            Missing::Parts(of) => {
                let link = |id: &str| format!("[{id}](#{})", anchor(id));
                format!(
                    "Not calculated, as not all of the values of {} and {} that it needs are measured",
                    link(&of.dividends),
                    link(&of.divisors)
                )
            }
            Missing::TooLarge(why) => format!("Too large, as it {why}"),
        };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, all)) => all.push(value),
            None => reasons.push((reason, vec![value])),
        }
    }
    let mut lines = Vec::new();
    let advice = t.table.repeat.advice.clone().filter(|_| !commands.is_empty());
    for (name, sets) in commands {
        let e = experiment(&name, &sets)?;
        let took = time(resources::fit(&e, u64::MAX)?.seconds as f64);
        lines.push(format!("Not run: `{}`, about {took}", command(&name, &sets)));
    }
    lines.extend(advice);
    lines.extend(reasons.into_iter().map(|(why, values)| match values.len() == t.values.len() {
        true => format!("{why}."),
        false => format!("{why}: {}.", places(t, &values)),
    }));
    Ok(lines)
}

/// The places of values: a column or a row by its heading where all of its values are among them.
fn places(t: &OfTable, values: &[&OfValue]) -> String {
    let all_of = |same: &dyn Fn(&OfValue) -> bool| {
        values.iter().filter(|v| same(v)).count() == t.values.iter().filter(|v| same(v)).count()
    };
    let mut all: Vec<String> = Vec::new();
    for value in values {
        let of_row = |v: &OfValue| std::ptr::eq(v.row, value.row);
        let place = if all_of(&of_row) {
            value.row.key.join(" ")
        } else if !value.column.is_empty() && all_of(&|v| v.column == value.column) {
            format!("all of {}", value.column)
        } else {
            let parts = value.row.key.iter().map(String::as_str).chain([value.column]);
            parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
        };
        if !all.contains(&place) {
            all.push(place);
        }
    }
    all.join("; ")
}

/// Two lists of `--set`s as one, where they are the same or differ in a list of zone sizes alone.
fn joined(one: &[String], other: &[String]) -> Option<Vec<String>> {
    const KEY: &str = "zone.delegations=";
    let rest = |sets: &[String]| sets.iter().filter(|set| !set.starts_with(KEY)).cloned().collect::<Vec<_>>();
    if rest(one) != rest(other) {
        return None;
    }
    let mut all: Vec<&str> = Vec::new();
    for size in
        one.iter().chain(other).filter_map(|set| set.strip_prefix(KEY)).flat_map(|sizes| sizes.split(','))
    {
        if !all.contains(&size) {
            all.push(size);
        }
    }
    let sizes = format!("{KEY}{}", all.join(","));
    Some(one.iter().map(|set| if set.starts_with(KEY) { sizes.clone() } else { set.clone() }).collect())
}

/// The command line for an experiment.
fn command(name: &str, sets: &[String]) -> String {
    let plain = |set: &str| set.bytes().all(|b| b.is_ascii_alphanumeric() || b"=.,-+".contains(&b));
    let word = |set: &String| match plain(set) {
        true => format!(" --set {set}"),
        false => format!(" --set {}", shlex::try_quote(set).expect("no set has a NUL")),
    };
    format!("dnsrack run {name}{}", sets.iter().map(word).collect::<String>())
}

/// The anchor that a heading has on most pages.
fn anchor(id: &str) -> String {
    id.replace('.', "")
}
