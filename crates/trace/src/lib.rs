//! Captures in and out.
//!
//! [`Reader`] turns captures into a trace: the DNS messages in order, over UDP and TCP, with everything that was
//! skipped counted by reason. [`Replay`] gives a trace's queries to a load with their times;
//! [`rows`] is the table of its queries, which [`import`] writes to files; [`transfers`] are its zone transfers.

pub mod anonymize;
pub mod compare;
pub mod edit;
pub mod facts;
pub mod fit;
pub mod import;
mod names;
pub mod octets;
pub mod pair;
pub mod read;
mod replay;
pub mod rows;
pub mod transfers;
pub mod write;

pub use names::names_asked_for;
pub use read::{
    ChecksumState, Connection, Counts, End, Event, Frame, Message, Options, Quote, Reader, Skipped, Traffic,
    fuzz_capture, fuzz_packets,
};
pub use replay::{LOADED_MAX, Replay, ReplaySpec, Survey};
