//! `dnsrack report --coverage`: how many of the published values have a measured one beside them, and what is missing.

mod kept;
mod page;

use crate::output::Failure;
use ::experiment::{Experiment, Set, resources};
use measure::{Parameter, params, units};
use report::Pair;
use results::TrialRecord;
use results::published::{self, Cell, Quotients, Row, Table, Way};

pub use kept::Kept;

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
    /// The run or the file that it is from; several of a value that is calculated from others.
    runs: Vec<String>,
    text: String,
    /// Measured over published.
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
    /// It is calculated from values of these tables, and not all of them are measured.
    Parts(Quotients),
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
                    values.push(of_value((table, row, column, cell), kept, &known, &tables, memory)?);
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
    before: &[OfTable],
    memory: u64,
) -> Result<OfValue, Failure> {
    let way = table.repeat.of(table.headings(row), (table.column_title.as_str(), column));
    let (missing, measured) = match way {
        Way::Not(why) => (Missing::Not(why), None),
        Way::Command(command) => (Missing::Command(command), kept.of_file(table, row, column, cell)),
        Way::Quotients(quotients) => {
            let measured = calculated(&quotients.cells(table, row), (column, cell), before);
            (Missing::Parts(quotients), measured)
        }
        Way::Experiment { name, mut sets } => {
            let e = experiment(&name, &sets)?;
            // With fewer repeats its values would not count.
            if (e.repeats as usize) < REPEATS {
                sets.push(format!("repeats={REPEATS}"));
            }
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
    let sets = sets.iter().map(|set| set.parse()).collect::<Result<Vec<Set>, String>>();
    let sets = sets.map_err(|message| Failure { code: 1, message })?;
    Ok(::experiment::open(name, &sets)?)
}

/// The measured value of a cell with the most repeats at the experiment's parameters. Of several with as many, one of the
/// experiment's own measure comes first, and then one of the machine's own server.
fn measured(e: &Experiment, cell: &'static Cell, known: &[Known<'_>]) -> Option<Measured> {
    let plan = ::experiment::plan(e);
    let cells: Vec<_> =
        plan.iter().filter(|t| t.repeat == 1).map(|t| ::experiment::planned_params(e, t)).collect();
    let of_known = |known: &Known<'_>| {
        // The text is that of all trials, so all of them have to be at these parameters.
        let all = known.trials.iter().all(|trial| cells.iter().any(|cell| same(cell, trial)));
        let Pair { text, factor, repeats, .. } = known.pair.clone();
        let measure = known.trials.iter().all(|trial| {
            let measure = trial.param(params::MEASURE);
            cells.iter().flatten().any(|(p, value)| *p == params::MEASURE && measure == Some(value))
        });
        let server = known.trials.iter().all(|trial| trial.is_of_own_server());
        let rank = (repeats, measure, server);
        (all && repeats > 0)
            .then(|| (rank, Measured { runs: vec![known.run.clone()], text, factor, repeats }))
    };
    let all = known.iter().filter(|known| std::ptr::eq(known.pair.cell, cell)).filter_map(of_known);
    all.reduce(|best, other| if other.0 > best.0 { other } else { best }).map(|(_, measured)| measured)
}

/// The least or the most of the quotients of measured values, in percent: none where one of the values is not measured. It has as many
/// repeats as the value with the fewest.
fn calculated(
    quotients: &[(&'static Cell, &'static Cell)],
    (column, cell): (&str, &Cell),
    before: &[OfTable],
) -> Option<Measured> {
    let measured = |cell: &Cell| -> Option<(&Measured, f64)> {
        let mut values = before.iter().flat_map(|t| &t.values);
        let measured = values.find(|v| std::ptr::eq(v.cell, cell))?.measured.as_ref()?;
        Some((measured, measured.factor? * cell.value?))
    };
    let (mut shares, mut repeats, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    for (dividend, divisor) in quotients {
        let ((of, dividend), (over, divisor)) = (measured(dividend)?, measured(divisor)?);
        shares.push(100.0 * dividend / divisor);
        repeats.extend([of.repeats, over.repeats]);
        runs.extend(of.runs.iter().chain(&over.runs).cloned());
    }
    let share = match column {
        "least" => shares.into_iter().reduce(f64::min),
        _ => shares.into_iter().reduce(f64::max),
    }?;
    let factor = cell.value.map(|published| share / published);
    Some(Measured { runs, text: format!("{share:.1} %"), factor, repeats: repeats.into_iter().min()? })
}

/// The parameters that have to agree: the rest is how it was measured, and not what. The measure is not among them, as a report
/// puts a published value beside a figure of the same kind only: a trial of the measure 'load' also says how much memory the server takes.
const SAME: [Parameter; 18] = [
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

/// By what share a slice may be smaller or larger than its part of the zone.
const SLICES: f64 = 0.05;

/// Whether a trial has the planned parameters and lasted at least as long as planned.
fn same(planned: &[(Parameter, String)], trial: &TrialRecord) -> bool {
    planned.iter().all(|(parameter, value)| {
        let Some(made) = trial.param(*parameter) else { return !SAME.contains(parameter) };
        match *parameter {
            params::DURATION => match (units::duration(made), units::duration(value)) {
                (Ok(made), Ok(planned)) => made >= planned,
                _ => false,
            },
            // Slices of a zone are about as large as each other.
            params::ZONE_SIZE => match (made.parse::<f64>(), value.parse::<f64>()) {
                (Ok(made), Ok(planned)) => (made - planned).abs() <= SLICES * planned,
                _ => false,
            },
            _ => !SAME.contains(parameter) || equal(made, value),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A table whose values were measured to be as published, with the run `run`.
    fn as_published(id: &str, run: &str, repeats: usize) -> OfTable {
        let table = published::find(id).unwrap();
        let mut values = Vec::new();
        for row in &table.rows {
            for (column, cell) in table.columns.iter().zip(&row.cells) {
                let (runs, text) = (vec![run.to_owned()], cell.text.clone());
                let measured = Some(Measured { runs, text, factor: Some(1.0), repeats });
                values.push(OfValue { row, column, cell, measured, missing: Missing::Not(String::new()) });
            }
        }
        OfTable { table, values }
    }

    #[test]
    fn a_share_is_calculated_where_all_of_its_parts_are_measured() {
        let table = published::find("rzaia-text-ixfr").unwrap();
        let value = |column: &'static str, before: &[OfTable]| {
            let row = &table.rows[0];
            let cell = table.cell(&["U-4-DS0"], column).unwrap();
            let kept = Kept::below(&[]).unwrap();
            of_value((table, row, column, cell), &kept, &[], before, u64::MAX).unwrap()
        };
        let mut before = [as_published("rzaia-5.1", "axfr", 5), as_published("rzaia-5.2", "ixfr", 3)];
        let [least, most] = ["least", "most"].map(|column| value(column, &before).measured.unwrap());
        assert_eq!([&*least.text, &*most.text], ["11.7 %", "14.8 %"]);
        assert_eq!((least.repeats, least.runs.contains(&"axfr".into())), (3, true));
        assert!((most.factor.unwrap() - 14.8 / 15.0).abs() < 0.001);
        // The zone of a million delegations is not measured with one of the secondaries.
        before[1].values.retain(|v| (&*v.row.key[1], v.column) != ("NSD", "1M"));
        let missing = value("least", &before);
        assert!(missing.measured.is_none() && matches!(missing.missing, Missing::Parts(_)));
    }
}
