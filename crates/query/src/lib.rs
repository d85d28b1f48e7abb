//! SQL over run directories, traces that were imported, and captures as they are.
//!
//! A [`Session`] has the tables of its sources, and gives the rows of a statement as a stream. The engine is DataFusion. What is ours
//! are the tables ([`runs`] with [`late`], [`captures`]), the functions of DNS ([`functions`]), and the queries that come with the program
//! ([`shipped`]).

pub mod captures;
mod error;
pub mod functions;
pub mod late;
pub mod output;
pub mod runs;
mod session;
pub mod shipped;
pub mod sources;

pub use error::Error;
pub use session::{Options, Progress, Session};
