//! The runs and values that are kept.

use super::Measured;
use crate::output::Failure;
use measure::units;
use results::RunDir;
use results::published::{Cell, Row, Table};
use std::path::{Path, PathBuf};

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
    pub runs: Vec<RunDir>,
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
    pub(super) fn of_file(&self, table: &Table, row: &Row, column: &str, cell: &Cell) -> Option<Measured> {
        let of_table = self.files.iter().filter(|(_, file)| file.table == table.id);
        let (name, value) = of_table
            .flat_map(|(name, file)| file.values.iter().map(move |value| (name, value)))
            .find(|(_, value)| value.row == row.key && value.column == column)?;
        let median = stats::median(&value.measured)?;
        let factor = cell.value.filter(|published| *published > 0.0).map(|published| median / published);
        let text = if median >= 100.0 { units::grouped(median as u64) } else { median.to_string() };
        Some(Measured { runs: vec![name.clone()], text, factor, repeats: value.measured.len() })
    }
}
