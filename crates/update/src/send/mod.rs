//! Sends updates (RFC 2136) at a rate, by a window or as a flood, and says what became of each.
//!
//! [`run`] takes a file in `nsupdate`'s format from a [`SendSpec`] to a [`SendResult`], with one thread.
//!
//! # Rates and counts
//!
//! Messages are what is paced and counted. The file's *transactions* (what `send` ends) are each a message unless
//! [`SendSpec::merge`] puts several into one; the result counts these too, and their *records*, the lines of the file. In an open
//! loop messages are due at absolute instants; one that cannot be sent in time is not caught up in a burst but counted as unsent,
//! and as every update has those before it as its premise, the stream then goes on where it was: nothing is left out of it.
//!
//! # Order
//!
//! Updates of one name stay in the order of the file: names are dealt to clients by the label below the zone's apex, and each client
//! sends in order. Over UDP with more than one message in flight the network or a server with several threads may still change the
//! order; over TCP only a server may. Where the order must be certain, use a window of 1.
//!
//! # Retries without double application
//!
//! A lost message may have been applied: it may be the answer that was lost. To send it again is safe only if applying it twice does
//! what once does. RFC 2136 (sections 3.4.2 and 5) would have prerequisites see to that, but then the answer to the second application
//! cannot be distinguished from a refusal of the first. So a message is sent again only where
//!
//! - it has no prerequisites, and adds or deletes no CNAME and no SOA, and deletes no NS record of the apex: all else RFC 2136 makes
//!   sets grow and shrink, whatever is in them, and twice in a row is once; and
//! - no newer message of one of its names has been sent meanwhile, which it would undo: then it is counted as `superseded`.
//!
//! It is sent again as it was, to the octet, with its id and signature, from the same client, at even distances within its deadline.
//! `applied_twice_possible` counts these messages.
//!
//! # Signatures
//!
//! With a key every message is signed as it is sent, and the signature of every answer is checked. An answer that is not signed as it
//! must be is no answer, unless its response code is an error: then it is counted by that, and in `bad_tsig`.
//!
//! # The file of latencies
//!
//! [`SendSpec::latencies`] names a file of comma-separated values, a line for each message in the order in which they were done with:
//! its number, client, when it was due and first sent (microseconds from the start), its latency from either, its response code, how
//! often it was sent, and its transactions and records. What was lost has neither latency nor code. A flood is slower by it.

mod fates;
mod flight;
mod gate;
mod markers;
mod result;
mod run;
mod sender;
mod spec;
mod stream;
mod tally;
mod validity;

pub(crate) use gate::{Gate, MISSES_MAX, SentBatch};
pub use markers::Marker;
pub use result::{Bytes, Histograms, SendResult};
pub use run::run;
pub(crate) use run::run_gated;
pub use spec::{LONGEST, MarkerSpec, SendSpec, SendTransport};
pub use stream::{Contents, fuzz_updates};
pub use tally::Passed;
