//! The published values that a run has a measured one beside.

use crate::Error;
use crate::cells::{Run, State};
use crate::grids;
use results::RunDir;
use results::published::{Cell, Table};

/// A published value and a measured one.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The table.
    pub table: &'static Table,
    /// The published value: a cell of the table.
    pub cell: &'static Cell,
    /// The measured one, as the report writes it.
    pub text: String,
    /// Measured over published, where both are numbers.
    pub factor: Option<f64>,
    /// The valid trials that it is from.
    pub trials: Vec<u32>,
}

/// All pairs of a run's report, in its order. Values from invalid trials are not among them.
///
/// # Errors
/// [`Error::Plan`].
pub fn pairs(dir: &RunDir) -> Result<Vec<Pair>, Error> {
    let run = Run::new(dir)?;
    let grids = grids::of(&run);
    let cells = grids.iter().flat_map(|grid| &grid.rows).flat_map(|row| &row.cells);
    let pair = |cell: &crate::grid::GridCell| {
        let beside = cell.published.as_ref().filter(|_| cell.state == State::Valid)?;
        let valid = cell.trials.iter().filter(|(_, valid)| *valid).map(|(id, _)| *id);
        Some(Pair {
            table: beside.table,
            cell: beside.cell,
            text: cell.text.clone(),
            factor: beside.factor,
            trials: valid.collect(),
        })
    };
    Ok(cells.filter_map(pair).filter(|pair| pair.text != "–").collect())
}
