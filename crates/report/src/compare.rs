//! A comparison of a base and a candidate in words: the answer in a sentence, and its table for a terminal, a page and
//! Markdown.

use crate::format;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use measure::{Parameter, params, units};
use results::RunDir;
use results::compare::{self, Cell, Change, ComparedFigure, Comparison, Outcome, Side, Tried, Verdict};
use serde::Serialize;
use stats::ratio::MIN_REPEATS;
use std::collections::BTreeMap;
use std::fmt::Write;

/// How many figures the sentence names.
const NAMED: usize = 3;

/// The comparison that a run was made for; none where it was not made for one.
pub fn of_run(run: &RunDir) -> Option<Comparison> {
    let named = compare::named(run)?;
    let side = |label| Side::new(run, Some(label));
    Some(compare::compare(side(&named.base), side(&named.candidate), &named.gates))
}

/// The outcome in two or three words: `No worse`.
pub fn outcome(c: &Comparison) -> &'static str {
    match c.outcome() {
        Outcome::CutShort => "Cut short",
        Outcome::CandidateFailed => "Candidate failed",
        Outcome::Worse => "Worse",
        Outcome::NotKnown => "Not known",
        Outcome::Better => "Better",
        Outcome::NoWorse => "No worse",
    }
}

/// The answer to "is the candidate worse than the base?" in one sentence or a few, without a line break.
pub fn answer(c: &Comparison) -> String {
    let mut text = match c.outcome() {
        Outcome::CutShort => format!(
            "Cut short: {} not done. So far: {}",
            are(c.undone, "trial"),
            if c.candidate_failed > 0 { failed(c) } else { figures(c) }
        ),
        Outcome::CandidateFailed => failed(c),
        _ => figures(c),
    };
    let lost = c.alone.iter().filter(|a| a.unknown && !a.lost).count();
    if lost > 0 {
        let _ = write!(
            text,
            " {} no valid trial on one side.",
            format::plural(lost, "cell") + if lost == 1 { " has" } else { " have" }
        );
    }
    text
}

fn are(n: usize, word: &str) -> String {
    format!("{} {}", format::plural(n, word), if n == 1 { "was" } else { "were" })
}

fn failed(c: &Comparison) -> String {
    let error = c.candidate_error.as_deref().unwrap_or_default();
    let of = format::plural(c.candidate_failed, "trial");
    let cells = match c.lost() {
        0 => String::new(),
        n => format!(", and in every trial of {}", format::plural(n, "cell")),
    };
    format!("The candidate failed in {of} where the base did not{cells}. The first error: {error}.")
}

/// The figures that decide, with their intervals, in a sentence.
fn figures(c: &Comparison) -> String {
    let varied = varied(c);
    let with = |outcome| c.gating().filter(|(_, f)| f.outcome == outcome).collect::<Vec<_>>();
    let (worse, better, unknown) = (with(Outcome::Worse), with(Outcome::Better), with(Outcome::NotKnown));
    let gating = c.gating().count();
    if gating == 0 {
        return if c.cells.is_empty() {
            nothing(c)
        } else {
            "Not known: no figure that decides was measured in both; choose others with --gate.".into()
        };
    }
    let of = format::plural(gating, "figure");
    let mut parts: Vec<String> = Vec::new();
    if !worse.is_empty() {
        parts.push(shown(worse, Outcome::Worse, &varied, &of));
    }
    if !unknown.is_empty() {
        parts.push(not_known(unknown, &varied, &of));
    }
    if !better.is_empty() {
        parts.push(shown(better, Outcome::Better, &varied, &of));
    }
    if parts.is_empty() || (c.outcome() == Outcome::Better) {
        let same = with(Outcome::NoWorse).len();
        parts.extend(match same {
            0 => None,
            1 if gating == 1 => {
                Some("The candidate is no worse: the one figure that decides is within its threshold.".into())
            }
            n if n == gating => {
                Some(format!("The candidate is no worse: all {of} that decide are within their thresholds."))
            }
            1 => Some("The other figure that decides is within its threshold.".into()),
            n => Some(format!("The other {n} figures that decide are within their thresholds.")),
        });
    }
    // Differences that are shown and decide nothing are not hidden.
    let decides = |f: &ComparedFigure| f.gates && matches!(f.outcome, Outcome::Worse | Outcome::NotKnown);
    let silent = c.findings().filter(|(_, f)| f.verdict == Verdict::Worse && !decides(f));
    let silent: Vec<String> = silent
        .map(|(cell, f)| {
            Some(format!("{} of {} {}", f.figure().title, name(&cell.params, &varied), size_text(&f.change?)))
        })
        .collect::<Option<_>>()
        .unwrap_or_default();
    if let Some(first) = silent.first() {
        let more = if silent.len() > 1 { format!(" (and {} more)", silent.len() - 1) } else { String::new() };
        parts.push(format!("Shown, but within its threshold or not deciding: {first}{more}."));
    }
    parts.join(" ")
}

/// The figures that are worse or better, the greatest difference first.
fn shown(mut found: Vec<(&Cell, &ComparedFigure)>, outcome: Outcome, varied: &[String], of: &str) -> String {
    // By size, a lost query in a thousand as much as five per cent of time.
    let size = |f: &ComparedFigure| f.change.map_or(0.0, |d| d.value.ln_1p().abs() / f.figure().weight);
    found.sort_by(|(_, x), (_, y)| size(y).total_cmp(&size(x)));
    let word = |f: &ComparedFigure| f.figure().words[usize::from(outcome == Outcome::Better)];
    let first = word(found[0].1);
    let common = found.iter().all(|(_, f)| word(f) == first);
    let verb = match (common, outcome) {
        (true, _) => first,
        (_, Outcome::Better) => "is better",
        _ => "is worse",
    };
    let one = |(cell, f): &(&Cell, &ComparedFigure)| {
        let change = f.change.expect("shown");
        format!("{} of {} {}", f.figure().title, name(&cell.params, varied), size_text(&change))
    };
    let named: Vec<String> = found.iter().take(NAMED).map(one).collect();
    let more =
        if found.len() > NAMED { format!("; and {} more", found.len() - NAMED) } else { String::new() };
    let word = if outcome == Outcome::Better { "better" } else { "worse" };
    format!(
        "The candidate {verb}: {}{more} ({} of {of} {word} by more than the threshold).",
        named.join("; "),
        found.len()
    )
}

/// The answer where no cell is in both.
fn nothing(c: &Comparison) -> String {
    let values = |all: &[String]| {
        let some: Vec<String> = all.iter().take(3).cloned().collect();
        format::list(&some) + if all.len() > 3 { " …" } else { "" }
    };
    let apart: Vec<String> = c
        .apart
        .iter()
        .map(|apart| {
            format!(
                "{} ({} in the base, {} in the candidate)",
                apart.parameter,
                values(&apart.a),
                values(&apart.b)
            )
        })
        .collect();
    match &c.apart[..] {
        [] => "Not known: nothing can be compared, as no cell has valid trials in both.".into(),
        [one] => format!(
            "Not known: nothing can be compared, as {} differs everywhere. To compare across it, add --across {}.",
            apart[0], one.parameter
        ),
        _ => format!(
            "Not known: nothing can be compared, as these differ everywhere: {}.",
            format::list(&apart)
        ),
    }
}

/// The figures that cannot be decided, and the repeats that it would take.
fn not_known(mut found: Vec<(&Cell, &ComparedFigure)>, varied: &[String], of: &str) -> String {
    found.sort_by_key(|(_, f)| std::cmp::Reverse(f.repeats_needed.unwrap_or(usize::MAX)));
    let one = |(cell, f): &(&Cell, &ComparedFigure)| {
        let interval = f.change.map_or("too few valid repeats".into(), |d| difference(&d));
        let title = f.figure().title;
        format!(
            "{title} of {} {interval} at a threshold of {}",
            name(&cell.params, varied),
            percent(f.threshold)
        )
    };
    let named: Vec<String> = found.iter().take(NAMED).map(one).collect();
    let more =
        if found.len() > NAMED { format!("; and {} more", found.len() - NAMED) } else { String::new() };
    let takes = match found.iter().map(|(_, f)| f.repeats_needed).collect::<Option<Vec<_>>>() {
        Some(all) => {
            let most = all.into_iter().max().unwrap_or(MIN_REPEATS);
            format!(
                "About {} of each side would tell, if they scatter as these do.",
                format::plural(most, "repeat")
            )
        }
        None if found.iter().all(|(_, f)| f.change.is_some()) => {
            "Ten thousand repeats would not tell: the difference is about the threshold.".into()
        }
        None => {
            format!("A figure needs at least {MIN_REPEATS} valid repeats of the base and of the candidate.")
        }
    };
    format!("Not known for {} of {of}: {}{more}. {takes}", found.len(), named.join("; "))
}

/// Answer, table and everything that must be known to believe them. Ends with a line break.
pub fn comparison(c: &Comparison) -> String {
    let mut out = format!("{}\n\n{}\n{}\n", answer(c), side("base", &c.a), side("candidate", &c.b));
    for text in differing(c) {
        let _ = writeln!(out, "differs: {text}");
    }
    let rows = rows(c);
    if !rows.is_empty() {
        let _ = write!(out, "\n{}\n", table(&rows));
        for text in about(c) {
            let _ = writeln!(out, "{text}");
        }
    }
    for text in not_compared(c) {
        let _ = writeln!(out, "not compared: {text}");
    }
    out
}

/// The same as Markdown, for a comment on a change or a page of a CI. Ends with a line break.
pub fn markdown(c: &Comparison) -> String {
    let escape = |text: &str| text.replace('|', "\\|");
    let mut out = format!("**{}.** {}\n\n", outcome(c), answer(c));
    for text in [side("base", &c.a), side("candidate", &c.b)] {
        let _ = writeln!(out, "- {}", escape(&text));
    }
    for text in differing(c) {
        let _ = writeln!(out, "- differs: {}", escape(&text));
    }
    let rows = rows(c);
    if !rows.is_empty() {
        let _ = writeln!(out, "\n| {} |\n|---|---|---:|---:|---:|---:|---:|---|", HEAD.join(" | "));
        for row in &rows {
            let _ = writeln!(out, "| {} |", row.texts().map(escape).join(" | "));
        }
        let _ = writeln!(out, "\n{}", about(c).join(" "));
    }
    for text in not_compared(c) {
        let _ = writeln!(out, "\nNot compared: {}", escape(&text));
    }
    out
}

/// The comparison at the top of a page.
#[derive(Serialize)]
pub(crate) struct View {
    outcome: &'static str,
    /// For the page's style: `no_worse` …
    word: &'static str,
    answer: String,
    sides: [String; 2],
    head: [&'static str; 8],
    rows: Vec<Row>,
    about: Vec<String>,
    not_compared: Vec<String>,
}

impl View {
    pub fn of(c: &Comparison) -> Self {
        Self {
            outcome: outcome(c),
            word: c.outcome().word(),
            answer: answer(c),
            sides: [side("base", &c.a), side("candidate", &c.b)],
            head: HEAD,
            rows: rows(c),
            about: about(c),
            not_compared: not_compared(c),
        }
    }
}

fn differing(c: &Comparison) -> Vec<String> {
    c.environment.iter().map(|d| format!("{}: base {}, candidate {}", d.what, d.a, d.b)).collect()
}

fn not_compared(c: &Comparison) -> Vec<String> {
    let varied = varied(c);
    let one = |alone: &results::compare::Alone| {
        let figure = alone.figure.map_or_else(String::new, |f| format!(", {f}"));
        format!("{}{figure}: {}", name(&alone.params, &varied), alone.reason)
    };
    c.alone.iter().map(one).collect()
}

/// `base: TMP/run, nsd (nsd 4.6.1): 6 trials, all valid`. Of a run its name alone: where it lay is nobody's business who gets
/// the page.
fn side(word: &str, tried: &Tried) -> String {
    let folder = tried.directory.file_name().unwrap_or(tried.directory.as_os_str()).to_string_lossy();
    let left_out = match (tried.invalid, tried.failed, tried.skipped) {
        (0, 0, 0) => "all valid".into(),
        (i, f, 0) => format!("{i} invalid and {f} failed left out"),
        (i, f, s) => format!("{i} invalid and {f} failed left out, {s} skipped"),
    };
    let versions = format::list(&tried.versions);
    let versions = if versions.is_empty() { versions } else { format!(" ({versions})") };
    let trials = format::plural(tried.trials, "trial");
    let server = tried.server.as_ref().or(tried.value.as_ref()).map_or_else(String::new, |s| format!("{s} "));
    format!("{word}: {server}of {folder}{versions}: {trials}, {left_out}")
}

fn about(c: &Comparison) -> Vec<String> {
    if c.compared() == 0 {
        return Vec::new();
    }
    let level = format!("{:.0} %", c.level * 100.0);
    let mut out = vec![
        format!(
            "Base and candidate: geometric means, which the difference is of, and medians beside them. The difference has an \
             interval at {level} of its own. Figures with a threshold decide: no worse is one whose interval ends within the \
             threshold, not known one whose interval holds it."
        ),
        format!(
            "A difference is shown at a false discovery rate of {} among {} (Benjamini and Hochberg): of the differences \
             shown, on average at most so many are chance.",
            percent(1.0 - c.level),
            format::plural(c.compared(), "figure"),
        ),
    ];
    out.push(
        if c.interleaved {
            "Repeats were made in turn and are compared pair by pair, where enough pairs are whole."
        } else {
            "Two runs, one after the other: what changed on the machine between them counts as a difference. Servers of one \
             run do not have that (compare DIR --base A --candidate B)."
        }
        .into(),
    );
    if c.figures().any(|(_, f)| f.same_as.is_some()) {
        out.push(
            "With a window the server uses its cores as far as it can, so CPU time a query is throughput once more: it is \
             not counted. At a fixed rate it is a finding of its own."
                .into(),
        );
    }
    out
}

const HEAD: [&str; 8] =
    ["cell", "figure", "base", "candidate", "medians", "difference", "threshold", "outcome"];

/// One figure, ready to be shown.
#[derive(Serialize)]
pub(crate) struct Row {
    cell: String,
    figure: String,
    base: String,
    candidate: String,
    medians: String,
    difference: String,
    threshold: String,
    outcome: String,
    /// For the page's style.
    word: &'static str,
    gates: bool,
}

impl Row {
    fn texts(&self) -> [&str; 8] {
        [
            &self.cell,
            &self.figure,
            &self.base,
            &self.candidate,
            &self.medians,
            &self.difference,
            &self.threshold,
            &self.outcome,
        ]
    }
}

fn rows(c: &Comparison) -> Vec<Row> {
    let varied = varied(c);
    let mut all = Vec::new();
    for cell in c.cells.iter().filter(|cell| !cell.figures.is_empty()) {
        for (i, f) in cell.figures.iter().enumerate() {
            let side = |of: &results::compare::Repeats| {
                let left = if of.repeats < of.trials {
                    format!(" ({} of {})", of.repeats, of.trials)
                } else {
                    String::new()
                };
                format::value(of.geometric_mean.unwrap_or(of.median), f.unit) + &left
            };
            let medians = [&f.a, &f.b].map(|of| format::value(of.median, f.unit));
            all.push(Row {
                cell: if i == 0 { name(&cell.params, &varied) } else { String::new() },
                figure: f.figure().title.into(),
                base: side(&f.a),
                candidate: side(&f.b),
                medians: if medians[0] == medians[1] { medians[0].clone() } else { medians.join(", ") },
                difference: f.change.map_or("–".to_owned(), |d| difference(&d)),
                threshold: if f.gates { percent(f.threshold) } else { "–".into() },
                outcome: verdict(f),
                word: f.outcome.word(),
                gates: f.gates,
            });
        }
    }
    all
}

/// `-9.1 % (-23 to +7.3 %)`.
pub(crate) fn difference(d: &Change) -> String {
    let [value, low, high] = [d.value, d.low, d.high].map(signed);
    format!("{value} % ({low} to {high} %)")
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(HEAD);
    for row in rows {
        table.add_row(row.texts());
    }
    for column in table.column_iter_mut().skip(2).take(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn verdict(f: &ComparedFigure) -> String {
    if f.same_as.is_some() {
        return "throughput once more".into();
    }
    let limit = percent(f.threshold);
    if !f.gates {
        return match f.verdict {
            Verdict::TooFew => "too few repeats to tell".into(),
            Verdict::None => "no difference shown".into(),
            Verdict::Better => "better".into(),
            Verdict::Worse => "worse".into(),
        };
    }
    match (f.outcome, f.verdict) {
        (_, Verdict::TooFew) => "NOT KNOWN: too few repeats".into(),
        (Outcome::Worse, _) => format!("WORSE by more than {limit}"),
        (Outcome::Better, _) => format!("better by more than {limit}"),
        (Outcome::NoWorse, Verdict::Worse) => format!("worse, by less than {limit}"),
        (Outcome::NoWorse, Verdict::Better) => "better".into(),
        (Outcome::NoWorse, _) => "no worse".into(),
        _ => match f.repeats_needed {
            Some(n) => format!("NOT KNOWN: about {n} repeats would tell"),
            None => "NOT KNOWN: the difference is about the threshold".into(),
        },
    }
}

/// `12.1 % lower (9.8 to 14.2 %)`; where it is more than twice as much, `13.9 times as high (10.4 to 18.4 times)`.
pub(crate) fn size_text(d: &Change) -> String {
    if d.value > MANY_TIMES {
        let times = |share: f64| format::significant(1.0 + share);
        return format!("{} as high ({} to {} times)", times_text(d.value), times(d.low), times(d.high));
    }
    let (word, low, high) =
        if d.value < 0.0 { ("lower", -d.high, -d.low) } else { ("higher", d.low, d.high) };
    format!("{} {word} ({} to {})", percent(d.value.abs()), number(low), percent(high))
}

/// An increase above this share is written as a factor (`13.9 times`), not in per cent.
pub(crate) const MANY_TIMES: f64 = 1.0;

/// `13.9 times`, of an increase by a share.
pub(crate) fn times_text(share: f64) -> String {
    format!("{} times", format::significant(1.0 + share))
}

/// A share as per cent, without the sign: one digit behind the point, more where it would be none.
fn number(share: f64) -> String {
    let digits = match share.abs() {
        s if s >= 0.009_5 || s == 0.0 => 1,
        s if s >= 0.000_95 => 2,
        _ => 3,
    };
    let text = format!("{:.digits$}", share * 100.0);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

pub(crate) fn percent(share: f64) -> String {
    number(share) + " %"
}

/// `-23 to +7.3 %`.
pub(crate) fn span_text(d: &Change) -> String {
    format!("{} to {} %", signed(d.low), signed(d.high))
}

/// A share as per cent with its sign.
pub(crate) fn signed(share: f64) -> String {
    let text = number(share);
    if share > 0.0 { format!("+{text}") } else { text }
}

/// The parameters that tell cells apart, besides those that every name has.
pub(crate) fn varied(c: &Comparison) -> Vec<String> {
    const NAMED: [Parameter; 6] =
        [params::SERVER, params::FAMILY, params::ZONE_SIZE, params::SIGNED, params::MEASURE, params::RATE];
    let mut all: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    let cells = c.cells.iter().map(|c| &c.params).chain(c.alone.iter().map(|a| &a.params));
    for params in cells {
        let measure = value(params, params::MEASURE);
        for (name, value) in params.iter().filter(|(name, _)| !NAMED.iter().any(|p| p.is(name))) {
            let values = all.entry((name, measure)).or_default();
            if !values.contains(&value.as_str()) {
                values.push(value);
            }
        }
    }
    all.into_iter().filter(|(_, values)| values.len() > 1).map(|((name, _), _)| name.to_owned()).collect()
}

/// The value of a cell's parameter; empty where the cell does not have it.
fn value(params: &BTreeMap<String, String>, parameter: Parameter) -> &str {
    params.get(parameter.name()).map_or("", String::as_str)
}

/// `nsd on U-4-DS0-10K at 5,000/s`, and what else tells the cell from others.
pub(crate) fn name(params: &BTreeMap<String, String>, varied: &[String]) -> String {
    let value_of = |parameter| value(params, parameter);
    let size = units::count(value_of(params::ZONE_SIZE)).ok().map(units::short);
    // Where zones are compared, a cell may have none.
    let zone = match (value_of(params::FAMILY), size) {
        ("", size) => size.unwrap_or_default(),
        (family, None) => family.to_owned(),
        (family, Some(size)) => format!("{family}-{size}"),
    };
    let mut text = match value_of(params::SERVER) {
        "" => zone,
        server if zone.is_empty() => server.to_owned(),
        server => format!("{server} on {zone}"),
    };
    if !matches!(value_of(params::SIGNED), "" | "no") {
        let _ = write!(text, ", signed ({})", value_of(params::SIGNED));
    }
    match (value_of(params::MEASURE), value_of(params::RATE).parse::<f64>()) {
        (_, Ok(rate)) => {
            let _ = write!(text, " at {}", format::rate(rate));
        }
        ("peak", _) => text += " in the search",
        ("", _) => {}
        (measure, _) => {
            let _ = write!(text, ", {measure}");
        }
    }
    for (key, value) in varied.iter().filter_map(|key| params.get_key_value(key)) {
        let _ = write!(text, ", {key} {value}");
    }
    text
}
