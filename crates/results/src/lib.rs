//! What a run leaves behind, and what it is set beside.
//!
//! A [`RunDir`] keeps one execution of an experiment: the plan (`run.toml`), the machine
//! (`environment.json`), the trials as Parquet tables that DuckDB, pandas and Spark read, and a
//! folder of configurations and logs per trial. [`stats`] turns repeats into a figure with an
//! interval; [`compare()`](compare::compare) says whether a run is worse than another; [`published`] holds the seeds'
//! tables, cell by cell.

pub mod compare;
pub mod effect;
mod error;
pub mod published;
pub mod ratio;
mod record;
mod rundir;
pub mod stats;
mod tables;

pub use error::Error;
pub use record::{SeriesRow, TrialRecord, latency_of_sent};
pub use rundir::RunDir;
pub use tables::fuzz_tables;
