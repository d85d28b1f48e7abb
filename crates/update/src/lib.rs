//! Changing zones and carrying them: update streams, the RFC 2136 sender, zone transfers, convergence.
//!
//! - [`Key`]: the secret that signs updates and transfers (TSIG, RFC 8945).
//! - [`mod@generate`]: streams of updates made in the context of a zone, in `nsupdate`'s format.
//! - [`script`]: reads that format.
//! - [`send`]: sends it and says what became of each update; [`echo`] is an other end that only acknowledges.

pub mod echo;
mod error;
pub mod generate;
mod key;
pub mod message;
pub mod script;
pub mod send;
pub mod tsig;

pub use error::Error;
pub use key::Key;
pub use send::{Marker, MarkerSpec, SendResult, SendSpec, Transport};
