//! SQL over run directories, traces that were imported, and captures as they are.
//!
//! A [`Session`] has the tables of its sources, and gives the rows of a statement as a stream. The engine is DataFusion. What is ours
//! are the tables ([`scan`], of [`runs`] and [`captures`]), the functions of DNS ([`functions`]), the queries that come with the program
//! ([`shipped`]), and what makes all of this known to the machines of a [`cluster`].

pub mod captures;
pub mod cluster;
mod error;
pub mod functions;
pub mod output;
pub mod runs;
pub mod scan;
mod session;
pub mod shipped;
pub mod sources;
pub mod storage;

pub use error::Error;
pub use session::{Options, Progress, Session};
