//! Changing zones and carrying them: update streams, the RFC 2136 sender, zone transfers, convergence.
//!
//! - [`TsigKey`]: the secret that signs updates and transfers (TSIG, RFC 8945).
//! - [`mod@generate`]: streams of updates made in the context of a zone, in `nsupdate`'s format.
//! - [`script`]: reads that format.
//! - [`send`]: sends it and says what became of each update; [`echo`] is an other end that only acknowledges.
//! - [`transfer()`]: a client of AXFR and IXFR that counts every octet.
//! - [`advice`]: what to do about a response code.
//! - [`additions`] and [`pairs()`]: updates that can be looked for afterwards, each of two halves.
//! - [`watch()`]: when each server shows each marker; [`lags`]: how long that took.
//! - [`batches()`]: both together in a closed loop, where each batch waits until the one before is served.

pub mod additions;
pub mod advice;
pub mod batches;
pub mod echo;
mod error;
pub mod generate;
mod key;
pub mod lag;
pub mod message;
pub mod pairs;
pub mod script;
pub mod send;
pub mod transfer;
pub mod tsig;
pub mod watch;

pub use batches::{Batch, BatchesResult, BatchesSpec, batches};
pub use error::Error;
pub use key::TsigKey;
pub use lag::{Lags, lags};
pub use pairs::{PairsResult, PairsSpec, pairs};
pub use send::{Marker, MarkerSpec, SendResult, SendSpec, SendTransport};
pub use transfer::{TransferResult, TransferSpec, transfer};
pub use watch::{WatchResult, WatchSpec, watch};
