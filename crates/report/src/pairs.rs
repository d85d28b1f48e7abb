//! The published values that a run has a measured one beside.

use crate::Error;
use crate::cells::{Run, State};
use crate::format::significant;
use crate::grid::GridCell;
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
    /// The valid trials of this cell of the report.
    pub trials: Vec<u32>,
    /// The number of these trials that have the measured value.
    pub repeats: usize,
}

/// All pairs of a run's report, in its order. Values from invalid trials are not among them.
///
/// # Errors
/// [`Error::Plan`].
pub fn pairs(dir: &RunDir) -> Result<Vec<Pair>, Error> {
    let run = Run::new(dir)?;
    let grids = grids::of(&run);
    let cells = grids.iter().flat_map(|grid| &grid.rows).flat_map(|row| &row.cells);
    let of_cell = |cell: &GridCell| -> Vec<Pair> {
        let Some(beside) = cell.published.as_ref().filter(|_| cell.state == State::Valid) else {
            return Vec::new();
        };
        let valid = cell.trials.iter().filter(|(_, valid)| *valid).map(|(id, _)| *id);
        let first = Pair {
            table: beside.table,
            cell: beside.cell,
            text: cell.text.clone(),
            factor: beside.factor,
            trials: valid.collect(),
            repeats: cell.repeats,
        };
        let further = beside.more.iter().map(|further| Pair {
            table: further.table,
            cell: further.cell,
            text: further.measured.map_or_else(|| cell.text.clone(), significant),
            factor: further
                .measured
                .zip(further.cell.value)
                .map(|(measured, published)| measured / published),
            ..first.clone()
        });
        let further: Vec<Pair> = further.collect();
        std::iter::once(first).chain(further).collect()
    };
    Ok(cells.flat_map(of_cell).filter(|pair| pair.text != "–").collect())
}
