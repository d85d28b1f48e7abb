//! What is done on a host of the rack: servers are started, asked and ended there, packets are captured, and the machine's counters
//! are read while a load goes on.
//!
//! - [`Agent`]: does it on one host. A coordinator has an agent for each.
//! - [`Server`], [`Capture`], [`Readings`], [`Meter`]: what a coordinator holds of what was started; dropped, that is ended.
//! - [`Request`]: one thing to do, as plain data. An agent keeps what it started in [`Here`] and gives numbers for it, so that no
//!   request needs more than data.

mod agent;
mod capture;
mod error;
mod here;
mod meter;
mod peak;
mod readings;
mod request;
mod running_server;

pub use agent::Agent;
pub use capture::{Capture, StartCapture};
pub use error::Error;
pub use here::Here;
pub use meter::{Counted, LATER, Meter, Metered, ServerTime};
pub use readings::{Reading, Readings, Side, Watched};
pub use request::{At, Request};
pub use running_server::{Mapped, Server, Started};
