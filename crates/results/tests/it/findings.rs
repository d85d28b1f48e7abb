//! `docs/findings.md` against the runs that are kept: each table's figures are computed again from `docs/runs`.
//!
//! A comment before a table says where its figures come from:
//!
//! ```text
//! <!-- run: NAME, NAME
//! where: PARAM=VALUE, …       which trials are meant
//! rows: PARAM, PARAM          the leading columns are values of these parameters
//! row LABEL: PARAM=VALUE, …   or what a label stands for (labels of several columns are joined by " | ")
//! row LABEL: = FIGURE | …     or a row with figures of its own, one for each column
//! invalid: shown              cells of invalid trials say "invalid" and may have figures
//! col: FIGURE; FIGURE         the next column: its numbers in their order
//! col: not checked: REASON    a column that no run supports
//! -->
//! ```
//!
//! A FIGURE is an expression (see `expression.rs`), with `in UNIT` where the cell names none. `<!-- no run: REASON -->` is for
//! a table that no kept run supports; its section says "no kept run". `<!-- check NAME, …: LITERAL = FIGURE; … -->` after a
//! paragraph or an item of a list is for figures in the text.

mod expression;
mod number;

use expression::{Context, split};
use number::{Number, numbers};
use results::{RunDir, TrialRecord};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The trials of some runs, each with its run as a parameter.
fn trials(names: &str) -> Result<Vec<TrialRecord>, String> {
    let mut all = Vec::new();
    for name in names.split(',').map(str::trim) {
        let run = RunDir::open(&docs().join("runs").join(name)).map_err(|e| e.to_string())?;
        all.extend(run.trials().iter().cloned().map(|mut trial| {
            trial.params.push(("run".into(), name.into()));
            trial
        }));
    }
    Ok(all)
}

/// A value as people write it, and as runs keep it: `Knot DNS 3.2` and `knot`, `10K` and `10000`.
fn plain(param: &str, label: &str) -> String {
    match param {
        "server" => label.split([' ', '(']).next().unwrap_or_default().to_lowercase(),
        "zone_size" | "rate" => measure::units::count(label).map_or(label.to_owned(), |n| n.to_string()),
        _ => label.to_owned(),
    }
}

/// `a=b, c=d`.
fn filters(text: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |pair: &str| {
        let (k, v) = pair.split_once('=').ok_or_else(|| format!("'{pair}' is no PARAM=VALUE"))?;
        Ok((k.trim().to_owned(), plain(k.trim(), v.trim())))
    };
    text.split(", ").filter(|t| !t.trim().is_empty()).map(pair).collect()
}

/// What a comment says of a table.
#[derive(Default)]
struct TableComment {
    trials: Vec<TrialRecord>,
    of_all: Vec<(String, String)>,
    rows: Vec<String>,
    row: BTreeMap<String, String>,
    columns: Vec<String>,
    show_invalid: bool,
}

impl TableComment {
    fn parse(comment: &str) -> Result<Self, String> {
        let mut table = Self::default();
        for line in comment.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let (key, value) = line.split_once(": ").ok_or_else(|| format!("'{line}' is no KEY: VALUE"))?;
            match key {
                "run" => table.trials = trials(value)?,
                "where" => table.of_all = filters(value)?,
                "rows" => table.rows = value.split(", ").map(str::to_owned).collect(),
                "col" => table.columns.push(value.to_owned()),
                "invalid" => table.show_invalid = value == "shown",
                _ => match key.strip_prefix("row ") {
                    Some(label) => drop(table.row.insert(label.to_owned(), value.to_owned())),
                    None => return Err(format!("unknown key '{key}'")),
                },
            }
        }
        Ok(table)
    }

    /// How many columns at the left are labels.
    fn labels(&self) -> usize {
        self.row
            .keys()
            .next()
            .map_or(self.rows.len(), |label| label.split(" | ").count())
            .max(self.rows.len())
    }

    /// Rows that the comment names and the table does not have.
    fn missing(&self, rows: &[&str]) -> impl Iterator<Item = String> {
        let label = |row: &&str| {
            let cells = cells(row);
            cells[..self.labels().min(cells.len())].join(" | ")
        };
        let there: Vec<String> = rows.iter().map(label).collect();
        let empty = rows.is_empty().then(|| "a table without rows".to_owned());
        let named = self.row.keys().filter(move |label| !there.contains(label));
        empty.into_iter().chain(named.map(|label| format!("the table has no row '{label}'")))
    }

    fn check_row(&self, cells: &[&str]) -> Vec<String> {
        let (labels, figures) = cells.split_at(self.labels().min(cells.len()));
        let label = labels.join(" | ");
        let (mut of_row, mut columns) = (self.of_all.clone(), self.columns.clone());
        match self.row.get(&label) {
            Some(text) => match text.strip_prefix("= ") {
                Some(own) => columns = own.split(" | ").map(str::to_owned).collect(),
                None => match filters(text) {
                    Ok(more) => of_row.extend(more),
                    Err(e) => return vec![format!("{label}: {e}")],
                },
            },
            None => of_row.extend(self.rows.iter().zip(labels).map(|(p, l)| (p.clone(), plain(p, l)))),
        }
        if columns.len() != figures.len() {
            return vec![format!("{label}: {} figures for {} columns", columns.len(), figures.len())];
        }
        let context = Context::new(&self.trials, of_row, self.show_invalid);
        let cell = |(text, column): (&&str, &String)| {
            check_cell(text, column, &context).err().map(|e| format!("{label} [{text}]: {e}"))
        };
        figures.iter().zip(&columns).filter_map(cell).collect()
    }
}

/// A figure's expression, and the unit that is meant where none is printed.
fn figure(text: &str) -> (&str, Option<&str>) {
    text.rsplit_once(" in ").map_or((text.trim(), None), |(e, unit)| (e.trim(), Some(unit.trim())))
}

fn check_cell(text: &str, column: &str, context: &Context<'_>) -> Result<(), String> {
    if column.starts_with("not checked: ") {
        return Ok(());
    }
    let mut expected = Vec::new();
    context.forget();
    for part in split(column, "; ") {
        let (expression, unit) = figure(part);
        if let Some(value) = context.value(expression)? {
            expected.push((value, unit, expression));
        }
    }
    let printed = numbers(text);
    if context.met_invalid() != text.contains("invalid") {
        return Err(format!("invalid trials: {}", context.met_invalid()));
    }
    if printed.len() != expected.len() {
        let values: Vec<f64> = expected.iter().map(|e| e.0).collect();
        return Err(format!("{} numbers are printed, the run has {values:?}", printed.len()));
    }
    printed.iter().zip(&expected).try_for_each(|(n, (value, unit, e))| compare(n, *value, *unit, e))
}

fn compare(printed: &Number, value: f64, unit: Option<&str>, expression: &str) -> Result<(), String> {
    let factor = number::factor(printed.unit.as_deref().or(unit).unwrap_or("1"));
    let (low, high) = printed.range();
    let value = value / factor;
    let slack = 1e-9 * value.abs();
    match (low - slack..=high + slack).contains(&value) {
        true => Ok(()),
        false => Err(format!("{} is printed, {expression} is {value:.6}", printed.value)),
    }
}

/// The comment that ends at the line before `at`, blank lines aside.
fn comment_before(lines: &[&str], at: usize) -> Option<String> {
    let end = lines[..at].iter().rposition(|l| !l.trim().is_empty())?;
    lines[end].trim_end().strip_suffix("-->")?;
    let begin = lines[..=end].iter().rposition(|l| l.starts_with("<!--"))?;
    let text = lines[begin..=end].join("\n");
    Some(text.trim_start_matches("<!--").trim_end().trim_end_matches("-->").trim().to_owned())
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// What is wrong with one section's tables.
fn tables(lines: &[&str], first: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    let says_so = lines.join("\n").contains("no kept run");
    let mut at = 0;
    while at < lines.len() {
        if !lines[at].starts_with('|') {
            at += 1;
            continue;
        }
        let begin = at;
        while at < lines.len() && lines[at].starts_with('|') {
            at += 1;
        }
        let place = first + begin + 1;
        let Some(comment) = comment_before(lines, begin) else {
            wrong.push(format!("line {place}: a table without '<!-- run: … -->' or '<!-- no run: … -->'"));
            continue;
        };
        if comment.starts_with("no run: ") {
            if !says_so {
                wrong.push(format!("line {place}: the section does not say that there is no kept run"));
            }
            continue;
        }
        match TableComment::parse(&comment) {
            Err(e) => wrong.push(format!("line {place}: {e}")),
            Ok(table) => {
                let rows = &lines[at.min(begin + 2)..at];
                wrong.extend(table.missing(rows).map(|e| format!("line {place}: {e}")));
                for (i, line) in rows.iter().enumerate() {
                    let row = table.check_row(&cells(line));
                    wrong.extend(row.into_iter().map(|e| format!("line {}: {e}", place + 2 + i)));
                }
            }
        }
    }
    wrong
}

/// What is wrong with the figures in the text that have a check.
fn text_figures(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, _) in text.match_indices("<!-- check ") {
        let mut check = || -> Result<(), String> {
            let body = text[at + 11..].split("-->").next().unwrap_or_default();
            let (runs, claims) = body.split_once(':').ok_or("no runs are named")?;
            let trials = trials(runs.trim())?;
            let paragraph = text[..at].rsplit("\n\n").next().unwrap_or_default();
            let item = paragraph.rsplit("\n- ").next().unwrap_or_default();
            let words = item.split_whitespace().collect::<Vec<_>>().join(" ");
            for claim in split(claims, ";").into_iter().map(str::trim).filter(|c| !c.is_empty()) {
                let (literal, expression) =
                    claim.split_once(" = ").ok_or(format!("'{claim}' is no A = B"))?;
                if !words.contains(literal.trim()) {
                    wrong.push(format!("'{literal}' is not in: {words}"));
                }
                let printed = numbers(literal);
                let [printed] = &printed[..] else { return Err(format!("'{literal}' is not one number")) };
                let (expression, unit) = figure(expression);
                let context = Context::new(&trials, Vec::new(), false);
                let value = context.value(expression)?.ok_or(format!("no trial has {expression}"))?;
                compare(printed, value, unit, expression)?;
            }
            Ok(())
        };
        if let Err(e) = check() {
            wrong.push(format!("line {}: {e}", text[..at].lines().count() + 1));
        }
    }
    wrong
}

/// `docs/runs/NAME`: R repeats, V of T trials valid.
fn counts(section: &str) -> (usize, Vec<String>) {
    let (mut seen, mut wrong) = (0, Vec::new());
    for (at, mark) in section.match_indices("`docs/runs/") {
        let rest = &section[at + mark.len()..];
        let Some((name, rest)) = rest.split_once('`') else { continue };
        let claim = rest.split(')').next().unwrap_or_default();
        let claim = claim.split_whitespace().collect::<Vec<_>>().join(" ");
        let Some(claim) = claim.strip_prefix(": ") else { continue };
        let run = match trials(name) {
            Ok(run) => run,
            Err(e) => {
                wrong.push(e);
                continue;
            }
        };
        seen += 1;
        let repeats = run.iter().map(|t| t.repeat).max().unwrap_or(0);
        let valid = run.iter().filter(|t| t.is_valid()).count();
        let s = if repeats == 1 { "" } else { "s" };
        let truth = format!("{repeats} repeat{s}, {valid} of {} valid", run.len());
        if !claim.starts_with(&truth) {
            wrong.push(format!("{name}: '{claim}', where it is '{truth}'"));
        }
    }
    (seen, wrong)
}

#[test]
fn every_figure_in_a_table_is_what_its_run_says() {
    let text = std::fs::read_to_string(docs().join("findings.md")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut starts: Vec<usize> =
        lines.iter().enumerate().filter(|(_, l)| l.starts_with("## ")).map(|(i, _)| i).collect();
    starts.push(lines.len());
    let mut wrong = text_figures(&text);
    wrong.extend(tables(&lines[..starts[0]], 0));
    for pair in starts.windows(2) {
        let section = &lines[pair[0]..pair[1]];
        let whole = section.join("\n");
        wrong.extend(tables(section, pair[0]));
        let (runs, more) = counts(&whole);
        wrong.extend(more);
        if runs == 0 && !whole.contains("no kept run") {
            wrong.push(format!(
                "'{}' names no run with its repeats, and does not say 'no kept run'",
                section[0]
            ));
        }
    }
    assert!(wrong.is_empty(), "docs/findings.md, {} times:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_kept_run_is_what_some_finding_rests_on() {
    let text = std::fs::read_to_string(docs().join("findings.md")).unwrap();
    for run in std::fs::read_dir(docs().join("runs")).unwrap() {
        let name = run.unwrap().file_name().into_string().unwrap();
        assert!(
            text.contains(&format!("`docs/runs/{name}`: ")),
            "docs/runs/{name} is not in docs/findings.md"
        );
    }
}

#[test]
fn a_wrong_figure_is_found() {
    let table = |cell: &str, comment: &str| {
        let lines = ["## A", comment, "", "| server | PSS |", "|---|---|", cell];
        tables(&lines, 0)
    };
    let comment = "<!-- run: rzaia-memory-bind-10M\nrows: server\ncol: server_pss in GiB\n-->";
    let unchecked = |cell: &str| table(cell, comment).join("; ");
    let lines: Vec<&str> = comment.lines().collect();
    let of_lines = |row: &str| {
        let mut all = vec!["## A"];
        all.extend(&lines);
        all.extend(["| server | PSS |", "|---|---|", row]);
        tables(&all, 0).join("; ")
    };
    assert_eq!(of_lines("| BIND | 20.1 |"), "");
    assert_eq!(of_lines("| BIND 9.18 | 20.1 GiB |"), "");
    assert!(of_lines("| BIND | 20.3 |").contains("20.3 is printed"), "{}", of_lines("| BIND | 20.3 |"));
    assert!(of_lines("| BIND | 20.1 MiB |").contains("is printed"));
    assert!(of_lines("| BIND | – |").contains("0 numbers"));
    assert!(of_lines("| NSD | 20.1 |").contains("1 numbers are printed, the run has []"));
    assert_eq!(of_lines("| NSD | – |"), "");
    let named = comment.replace("rows: server", "row BIND: server=bind\nrow NSD: server=nsd");
    assert_eq!(table("| BIND | 20.1 |", &named).join(""), "line 4: the table has no row 'NSD'");
    assert!(!unchecked("| BIND | 20.3 |").is_empty(), "a comment in one string is read as well");
    assert!(
        table("| BIND | 1 |", "text")
            .contains(&"line 4: a table without '<!-- run: … -->' or '<!-- no run: … -->'".into())
    );
    assert!(table("| BIND | 1 |", "<!-- no run: a reason -->").join("").contains("no kept run"));
    let text = |claim: &str| {
        text_figures(&format!("It takes 20.1 GiB. <!-- check rzaia-memory-bind-10M: {claim} -->"))
    };
    assert!(text("20.1 GiB = server_pss").is_empty());
    assert_eq!(text("20.4 GiB = server_pss").len(), 2, "neither in the text, nor the run's");
    let (seen, wrong) = counts("(`docs/runs/rzaia-memory-bind-10M`: 2 repeats, 1 of 1 valid)");
    assert_eq!((seen, wrong.len()), (1, 1));
}
