//! A comparison of two runs in words: the answer in a sentence, and its table for a terminal.

use crate::format;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use measure::units;
use results::compare::{Cell, Change, Comparison, Judged, Tried, Verdict};
use results::ratio::MIN_REPEATS;
use std::collections::BTreeMap;
use std::fmt::Write;

/// How many figures the sentence names.
const NAMED: usize = 3;

/// The answer to "is B worse than A?" in one sentence or a few, without a line break.
pub fn answer(c: &Comparison) -> String {
    let lost = match c.lost() {
        0 => String::new(),
        n => format!("B failed in every trial of {} where A did not. ", format::plural(n, "cell")),
    };
    lost + &figures(c)
}

/// What the figures say.
fn figures(c: &Comparison) -> String {
    let (worse, better) = (c.with(Verdict::Worse), c.with(Verdict::Better));
    let figures = format::plural(c.told(), "figure");
    if worse + better == 0 {
        return match c.detectable() {
            Some(least) => format!(
                "No difference can be shown in any of {figures}; in half of them one of {} would have been seen \
                 four times in five.",
                percent(least)
            ),
            None if c.cells.is_empty() => "Nothing can be compared: no cell has valid trials in both.".into(),
            None => {
                format!("Too few repeats to tell: a figure needs {MIN_REPEATS} valid ones of A and of B.")
            }
        };
    }
    let (verdict, n) = if worse > 0 { (Verdict::Worse, worse) } else { (Verdict::Better, better) };
    let mut found: Vec<(&Cell, &Judged)> = c.judged().filter(|(_, f)| f.verdict == verdict).collect();
    // Regressions first, then by size, a lost query in a thousand as much as five per cent of time.
    let size = |f: &Judged| f.change.map_or(0.0, |d| d.value.ln_1p().abs() / f.figure().weight);
    found.sort_by(|(_, x), (_, y)| y.regression.cmp(&x.regression).then(size(y).total_cmp(&size(x))));
    let word = |f: &Judged| f.figure().words[usize::from(verdict == Verdict::Better)];
    let first = word(found[0].1);
    let common = found.iter().all(|(_, f)| word(f) == first);
    let verb = match (common, verdict) {
        (true, _) => first,
        (_, Verdict::Better) => "is better",
        _ => "is worse",
    };
    let varied = varied(c);
    let name = |(cell, f): &(&Cell, &Judged)| {
        let change = f.change.expect("shown");
        format!("{} of {} {}", f.figure().title, self::name(&cell.params, &varied), size_text(&change))
    };
    let named: Vec<String> = found.iter().take(NAMED).map(name).collect();
    let mut text = format!("B {verb}: {}", named.join("; "));
    if n > NAMED {
        let _ = write!(text, "; and {} more", n - NAMED);
    }
    let counts = match (worse, better) {
        (0, n) => format!("{n} of {figures} better"),
        (n, 0) => format!("{n} of {figures} worse"),
        (worse, better) => format!("{worse} of {figures} worse, {better} better"),
    };
    let _ = write!(text, " ({counts}).");
    if worse > 0 && c.regressions() == 0 {
        let _ = write!(text, " None of it is more than {} for certain.", percent(c.threshold));
    }
    text
}

/// Answer, table and everything that must be known to believe them. Ends with a line break.
pub fn comparison(c: &Comparison) -> String {
    let mut out = format!("{}\n\n{}{}", answer(c), side("A", &c.a), side("B", &c.b));
    for d in &c.environment {
        let _ = writeln!(out, "differs: {}: A {}, B {}", d.what, d.a, d.b);
    }
    let varied = varied(c);
    if !c.cells.is_empty() {
        let _ = write!(out, "\n{}\n{}", table(c, &varied), about(c));
    }
    for alone in &c.alone {
        let figure = alone.figure.map_or_else(String::new, |f| format!(", {f}"));
        let _ = writeln!(out, "not compared: {}{figure}: {}", name(&alone.params, &varied), alone.reason);
    }
    out
}

fn side(letter: &str, tried: &Tried) -> String {
    let server = tried.server.as_ref().map_or_else(String::new, |s| format!(", {s}"));
    let left_out = match (tried.invalid, tried.failed, tried.skipped) {
        (0, 0, 0) => "all valid".into(),
        (i, f, 0) => format!("{i} invalid and {f} failed left out"),
        (i, f, s) => format!("{i} invalid and {f} failed left out, {s} skipped"),
    };
    let versions = format::list(&tried.versions);
    let versions = if versions.is_empty() { versions } else { format!(" ({versions})") };
    let trials = format::plural(tried.trials, "trial");
    format!("{letter}: {}{server}{versions}: {trials}, {left_out}\n", tried.directory.display())
}

fn about(c: &Comparison) -> String {
    if c.told() == 0 {
        return String::new();
    }
    let chance = percent(1.0 - c.level);
    let mut out = format!(
        "B to A: of geometric means, with the interval at {:.0} % of each figure by itself. A difference is shown where \
         chance makes such a one among all {} in at most {chance} of comparisons (Benjamini and Hochberg).\n",
        c.level * 100.0,
        format::plural(c.told(), "figure"),
    );
    out += if c.interleaved {
        "Repeats were made in turn and are compared pair by pair, where enough pairs are whole.\n"
    } else {
        "Two runs, one after the other: what changed on the machine between them counts as a difference. Servers of one \
         run do not have that (compare DIR --between A,B).\n"
    };
    out
}

fn table(c: &Comparison, varied: &[String]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["cell", "figure", "A", "B", "B to A", "verdict"]);
    for cell in &c.cells {
        for (i, f) in cell.figures.iter().enumerate() {
            let side = |of: &results::compare::Repeats| {
                let left = if of.repeats < of.trials {
                    format!(" ({} of {})", of.repeats, of.trials)
                } else {
                    String::new()
                };
                format::value(of.median, f.unit) + &left
            };
            let change = f.change.map_or("–".to_owned(), |d| {
                let [value, low, high] = [d.value, d.low, d.high].map(signed);
                format!("{value} % ({low} to {high} %)")
            });
            let cell = if i == 0 { name(&cell.params, varied) } else { String::new() };
            table.add_row([cell, f.figure().title.into(), side(&f.a), side(&f.b), change, verdict(f, c)]);
        }
    }
    for column in table.column_iter_mut().skip(2).take(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn verdict(f: &Judged, c: &Comparison) -> String {
    let limit = percent(c.threshold * f.figure().weight);
    match f.verdict {
        Verdict::TooFew => "too few repeats to tell".into(),
        Verdict::None => match f.change {
            Some(d) if d.low > 0.0 || d.high < 0.0 => "no difference can be shown among so many".into(),
            _ => "no difference can be shown".into(),
        },
        Verdict::Better => "better".into(),
        Verdict::Worse if f.regression => format!("WORSE by more than {limit}"),
        Verdict::Worse => format!("worse, not by more than {limit} for certain"),
    }
}

/// `12.1 % lower (9.8 to 14.2 %)`.
fn size_text(d: &Change) -> String {
    let (word, low, high) =
        if d.value < 0.0 { ("lower", -d.high, -d.low) } else { ("higher", d.low, d.high) };
    format!("{} {word} ({} to {})", percent(d.value.abs()), number(low), percent(high))
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

fn percent(share: f64) -> String {
    number(share) + " %"
}

fn signed(share: f64) -> String {
    let text = number(share);
    if share > 0.0 { format!("+{text}") } else { text }
}

/// The parameters that tell cells apart, besides those that every name has.
fn varied(c: &Comparison) -> Vec<String> {
    const NAMED: [&str; 6] = ["server", "family", "zone_size", "signed", "measure", "rate"];
    let mut all: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    let cells = c.cells.iter().map(|c| &c.params).chain(c.alone.iter().map(|a| &a.params));
    for params in cells {
        let measure = params.get("measure").map_or("", String::as_str);
        for (name, value) in params.iter().filter(|(name, _)| !NAMED.contains(&name.as_str())) {
            let values = all.entry((name, measure)).or_default();
            if !values.contains(&value.as_str()) {
                values.push(value);
            }
        }
    }
    all.into_iter().filter(|(_, values)| values.len() > 1).map(|((name, _), _)| name.to_owned()).collect()
}

/// `nsd on U-4-DS0-10K at 5,000/s`, and what else tells the cell from others.
fn name(params: &BTreeMap<String, String>, varied: &[String]) -> String {
    let get = |name: &str| params.get(name).map_or("", String::as_str);
    let size = units::count(get("zone_size")).map_or(String::new(), |n| format!("-{}", units::short(n)));
    let mut text = format!("{}{size}", get("family"));
    if params.contains_key("server") {
        text = format!("{} on {text}", get("server"));
    }
    if !matches!(get("signed"), "" | "no") {
        let _ = write!(text, ", signed ({})", get("signed"));
    }
    match (get("measure"), get("rate").parse::<f64>()) {
        (_, Ok(rate)) => {
            let _ = write!(text, " at {}", format::rate(rate));
        }
        ("peak", _) => text += " in the search",
        ("", _) => {}
        (measure, _) => {
            let _ = write!(text, ", {measure}");
        }
    }
    for key in varied.iter().filter(|key| params.contains_key(*key)) {
        let _ = write!(text, ", {key} {}", get(key));
    }
    text
}
