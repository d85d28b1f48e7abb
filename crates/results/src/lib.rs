//! Run directories, and the published tables that they are compared with.
//!
//! A [`RunDir`] keeps one execution of an experiment: the plan (`run.toml`), the machine
//! (`environment.json`), the trials as Parquet tables that DuckDB, pandas and Spark read, and a
//! folder of configurations and logs per trial. [`compare()`](compare::compare) says whether a run is worse than another;
//! [`published`] holds the tables of the papers, cell by cell.

pub mod compare;
mod error;
mod machine_changed;
mod progress;
pub mod published;
mod record;
mod rundir;
mod tables;

pub use error::Error;
pub use progress::{Doing, Progress};
pub use record::{SeriesRow, TrialRecord};
pub use rundir::RunDir;
pub use tables::fuzz_tables;
