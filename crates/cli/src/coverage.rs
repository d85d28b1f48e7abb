//! `dnsrack report --coverage`: how many of the published values have a measured one beside them, and what is missing.

use crate::experiment::time;
use crate::output::Failure;
use experiment::{Experiment, Set, resources};
use measure::{Parameter, params, units};
use report::Pair;
use results::published::{self, Cell, Row, Table, Way};
use results::{RunDir, TrialRecord};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A value counts as measured from so many valid repeats on.
const REPEATS: usize = 3;

/// The published values, table by table.
pub struct Coverage {
    tables: Vec<OfTable>,
    /// Bytes of memory that an experiment may need.
    memory: u64,
}

struct OfTable {
    table: &'static Table,
    values: Vec<OfValue>,
}

struct OfValue {
    row: &'static Row,
    column: &'static str,
    cell: &'static Cell,
    measured: Option<Measured>,
    /// Why it is not measured, or the command that measures it.
    missing: Missing,
}

/// A measured value at the published parameters.
struct Measured {
    run: String,
    text: String,
    factor: Option<f64>,
    repeats: usize,
}

enum Missing {
    /// An experiment of the catalogue would measure it.
    NotRun { name: String, sets: Vec<String> },
    /// It would, but its servers do not fit into memory.
    TooLarge(String),
    /// Another command would.
    Command(String),
    /// It cannot be measured.
    Not(String),
}

impl OfValue {
    fn is_measured(&self) -> bool {
        self.measured.as_ref().is_some_and(|m| m.repeats >= REPEATS)
    }
}

/// A published value that a run has, with the trials.
struct Known<'a> {
    run: String,
    pair: Pair,
    trials: Vec<&'a TrialRecord>,
}

/// Values of a table that a script measured without an experiment, and kept in a file `NAME.values.json`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptFile {
    table: String,
    /// The command that measures them; only people read it.
    #[serde(rename = "command")]
    _command: String,
    values: Vec<KeptValue>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptValue {
    row: Vec<String>,
    column: String,
    /// In the unit of the row, a value for each repeat.
    measured: Vec<f64>,
}

/// The run directories and files that have measured values.
pub struct Kept {
    runs: Vec<RunDir>,
    files: Vec<(String, KeptFile)>,
}

impl Kept {
    /// Reads run directories, and the run directories and files of values that lie in other folders.
    ///
    /// # Errors
    /// A folder that has neither; a run or a file that cannot be read.
    pub fn below(dirs: &[PathBuf]) -> Result<Self, Failure> {
        let mut kept = Self { runs: Vec::new(), files: Vec::new() };
        for dir in dirs {
            let failed = |path: &Path, why: &dyn std::fmt::Display| Failure {
                code: 1,
                message: format!("{}: {why}", path.display()),
            };
            if dir.join("run.toml").exists() {
                kept.runs.push(RunDir::open(dir)?);
                continue;
            }
            let entries = std::fs::read_dir(dir).map_err(|e| failed(dir, &e))?;
            let mut below: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            below.sort();
            let before = kept.runs.len() + kept.files.len();
            for path in below {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if path.join("run.toml").exists() {
                    kept.runs.push(RunDir::open(&path)?);
                } else if name.ends_with(".values.json") {
                    let text = std::fs::read_to_string(&path).map_err(|e| failed(&path, &e))?;
                    kept.files.push((name, serde_json::from_str(&text).map_err(|e| failed(&path, &e))?));
                }
            }
            if kept.runs.len() + kept.files.len() == before {
                return Err(failed(dir, &"there is no run directory in it"));
            }
        }
        Ok(kept)
    }

    /// The value of a cell from a file, the median of its repeats.
    fn of_file(&self, table: &Table, row: &Row, column: &str, cell: &Cell) -> Option<Measured> {
        let of_table = self.files.iter().filter(|(_, file)| file.table == table.id);
        let (name, value) = of_table
            .flat_map(|(name, file)| file.values.iter().map(move |value| (name, value)))
            .find(|(_, value)| value.row == row.key && value.column == column)?;
        let median = stats::median(&value.measured)?;
        let factor = cell.value.filter(|published| *published > 0.0).map(|published| median / published);
        let text = if median >= 100.0 { units::grouped(median as u64) } else { median.to_string() };
        Some(Measured { run: name.clone(), text, factor, repeats: value.measured.len() })
    }
}

/// Looks at all published values, beside those that are kept, for machines with so many bytes of memory.
///
/// # Errors
/// Runs that cannot be reported; an experiment that a table names and that cannot be read.
pub fn of(kept: &Kept, memory: u64) -> Result<Coverage, Failure> {
    let mut known = Vec::new();
    for run in &kept.runs {
        let name = run.dir().file_name().unwrap_or(run.dir().as_os_str()).to_string_lossy().into_owned();
        for pair in report::pairs(run)? {
            let trials = run.trials().iter().filter(|t| pair.trials.contains(&t.id)).collect();
            known.push(Known { run: name.clone(), pair, trials });
        }
    }
    let mut tables = Vec::new();
    for table in published::all() {
        let mut values = Vec::new();
        for row in &table.rows {
            for (column, cell) in table.columns.iter().zip(&row.cells) {
                if cell.value.is_some() {
                    values.push(of_value((table, row, column, cell), kept, &known, memory)?);
                }
            }
        }
        tables.push(OfTable { table, values });
    }
    Ok(Coverage { tables, memory })
}

fn of_value(
    (table, row, column, cell): (&'static Table, &'static Row, &'static str, &'static Cell),
    kept: &Kept,
    known: &[Known<'_>],
    memory: u64,
) -> Result<OfValue, Failure> {
    let headings = table.row_titles.iter().map(String::as_str).zip(row.key.iter().map(String::as_str));
    let (missing, measured) = match table.repeat.of(headings, (table.column_title.as_str(), column)) {
        Way::Not(why) => (Missing::Not(why), None),
        Way::Command(command) => (Missing::Command(command), kept.of_file(table, row, column, cell)),
        Way::Experiment { name, sets } => {
            let e = experiment(&name, &sets)?;
            let measured = measured(&e, cell, known);
            let missing = match resources::fit(&e, memory)?.refused {
                Some(why) => Missing::TooLarge(why),
                None => Missing::NotRun { name, sets },
            };
            (missing, measured)
        }
    };
    Ok(OfValue { row, column, cell, measured, missing })
}

fn experiment(name: &str, sets: &[String]) -> Result<Experiment, Failure> {
    let (path, text) = experiment::named(name)?;
    let sets = sets.iter().map(|set| set.parse()).collect::<Result<Vec<Set>, String>>();
    let sets = sets.map_err(|message| Failure { code: 1, message })?;
    Ok(experiment::load(&path, &text, &sets)?)
}

/// The measured value of a cell with the most repeats at the experiment's parameters.
fn measured(e: &Experiment, cell: &'static Cell, known: &[Known<'_>]) -> Option<Measured> {
    let plan = experiment::plan(e);
    let cells: Vec<_> =
        plan.iter().filter(|t| t.repeat == 1).map(|t| experiment::planned_params(e, t)).collect();
    let of_known = |known: &Known<'_>| {
        let repeats = known.trials.iter().filter(|trial| cells.iter().any(|cell| same(cell, trial))).count();
        let Pair { text, factor, .. } = known.pair.clone();
        (repeats > 0).then(|| Measured { run: known.run.clone(), text, factor, repeats })
    };
    let all = known.iter().filter(|known| std::ptr::eq(known.pair.cell, cell)).filter_map(of_known);
    all.reduce(|best, other| if other.repeats > best.repeats { other } else { best })
}

/// The parameters that have to agree: the rest is how it was measured, and not what.
const SAME: [Parameter; 19] = [
    params::MEASURE,
    params::KIND,
    params::FAMILY,
    params::ZONE_SIZE,
    params::TRANSPORT,
    params::GENERATORS,
    params::ADDRESSES,
    params::RATE,
    params::WINDOW,
    params::DEADLINE,
    params::UPDATES,
    params::COUNT,
    params::SHARE,
    params::BATCHES,
    params::PRIMARY_KIND,
    params::SECONDARIES,
    params::TIMERS,
    params::PATH_RTT_MS,
    params::PATH_LOSS,
];

/// Whether a trial has the planned parameters and lasted at least as long as planned.
fn same(planned: &[(Parameter, String)], trial: &TrialRecord) -> bool {
    planned.iter().all(|(parameter, value)| {
        let Some(made) = trial.param(*parameter) else { return !SAME.contains(parameter) };
        match (*parameter == params::DURATION, units::duration(made), units::duration(value)) {
            (true, Ok(made), Ok(planned)) => made >= planned,
            (true, ..) => false,
            (false, ..) => !SAME.contains(parameter) || equal(made, value),
        }
    })
}

/// Texts, numbers or durations that are the same.
fn equal(a: &str, b: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    let numbers = number(a).zip(number(b)).is_some_and(|(a, b)| a == b);
    let durations = units::duration(a).ok().zip(units::duration(b).ok()).is_some_and(|(a, b)| a == b);
    a == b || numbers || durations
}

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
                Missing::Not(why) => ("not possible", why.clone()),
            };
            json!({
                "row": v.row.key, "column": v.column, "published": v.cell.text,
                "measured": v.measured.as_ref().map(|m| json!({
                    "run": m.run, "text": m.text, "factor": m.factor, "repeats": m.repeats })),
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
                missing(|m| matches!(m, Missing::NotRun { .. } | Missing::Command(_))),
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
                cells.push(format!("{}{beside}", cell.text.trim()));
                debug_assert!(value.is_none_or(|v| v.column == column));
            }
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        text.push('\n');
        let mut runs: Vec<&str> =
            t.values.iter().filter_map(|v| Some(v.measured.as_ref()?.run.as_str())).collect();
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
            Missing::TooLarge(why) => format!("Too large, as it {why}"),
        };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, all)) => all.push(value),
            None => reasons.push((reason, vec![value])),
        }
    }
    let mut lines = Vec::new();
    for (name, sets) in commands {
        let seconds = resources::fit(&experiment(&name, &sets)?, u64::MAX)?.seconds;
        lines.push(format!("Not run: `{}`, about {}", command(&name, &sets), time(seconds as f64)));
    }
    lines.extend(reasons.into_iter().map(|(why, values)| match values.len() == t.values.len() {
        true => format!("{why}."),
        false => format!("{why}: {}.", places(t, &values)),
    }));
    Ok(lines)
}

/// The places of values: a row by its headings where all of its values are among them.
fn places(t: &OfTable, values: &[&OfValue]) -> String {
    let mut all: Vec<String> = Vec::new();
    for value in values {
        let of_row = |v: &&OfValue| std::ptr::eq(v.row, value.row);
        let whole = values.iter().copied().filter(of_row).count() == t.values.iter().filter(of_row).count();
        let column = if whole { "" } else { value.column };
        let parts = value.row.key.iter().map(String::as_str).chain([column]).filter(|part| !part.is_empty());
        let place = parts.collect::<Vec<_>>().join(" ");
        if !all.contains(&place) {
            all.push(place);
        }
    }
    all.join("; ")
}

/// Two lists of `--set`s as one, where they differ in a list of zone sizes alone.
fn joined(one: &[String], other: &[String]) -> Option<Vec<String>> {
    const KEY: &str = "zone.delegations=";
    let rest = |sets: &[String]| sets.iter().filter(|set| !set.starts_with(KEY)).cloned().collect::<Vec<_>>();
    let sizes = |sets: &[String]| sets.iter().find_map(|set| set.strip_prefix(KEY).map(str::to_owned));
    let (a, b) = (sizes(one)?, sizes(other)?);
    if rest(one) != rest(other) {
        return None;
    }
    let all = if a.split(',').any(|size| size == b) { a } else { format!("{a},{b}") };
    Some(
        one.iter()
            .map(|set| if set.starts_with(KEY) { format!("{KEY}{all}") } else { set.clone() })
            .collect(),
    )
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
