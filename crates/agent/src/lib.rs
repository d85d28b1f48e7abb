//! What is done on a host of the rack: servers are started, asked and ended there, packets are captured, and the machine's counters
//! are read while a load goes on.
//!
//! - [`Agent`]: does it on one host. A coordinator has an agent for each.
//! - [`Server`], [`Capture`], [`Readings`], [`Meter`], [`Disk`]: what a coordinator holds of what was started; dropped, that is ended.
//! - [`Request`]: one thing to do, as plain data. An agent keeps what it started in [`Here`] and gives numbers for it, so that no
//!   request needs more than data.
//! - [`serve()`]: an agent in another process or on another machine, to which requests go as lines of JSON.

mod agent;
mod arrivals;
mod capture;
mod clock;
mod connection;
mod describe;
mod durability;
mod error;
mod files;
mod here;
mod idle;
mod machines;
mod message;
mod meter;
mod peak;
mod program;
mod readings;
mod request;
mod role;
mod running_server;
mod serve;
mod settle;
pub mod slurm;
mod tool;

pub use agent::Agent;
pub use arrivals::{Arrivals, QUERY, UPDATE};
pub use capture::{Capture, StartCapture};
pub use clock::Offset;
pub use describe::{Describe, Described, Installed};
pub use durability::{Ability, Disk, Judged, PRELOAD, Try};
pub use error::Error;
pub use here::Here;
pub use idle::PollWhenIdle;
pub use machines::{HostEntry, MOST_SETS, Machine, Machines, NeededHost, RackFile, RackSource};
pub use meter::{Arrived, Counted, LATER, Meter, Metered, ServerTime};
pub use readings::{Reading, Readings, Side, Watched};
pub use request::{At, Request};
pub use running_server::{Mapped, Server, Started};
pub use serve::serve;
pub use settle::Settle;
pub use tool::{Axfr, Counters, FindAdditions, Ran, Tool};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex: a request that panicked is no reason to refuse the next one.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
