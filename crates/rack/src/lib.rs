//! Hosts, and the cable or switch that joins them, on one machine; the launcher; confinement and clean-up.
//!
//! - [`confine()`]: first thing in `main`, so that nothing of a run outlives it, whatever is killed.
//! - [`RackSpec`] → [`Rack::up`]: hosts, each a network stack of its own, joined by a cable or a switch; gone on drop.
//! - [`Launcher`], here [`Local`]: starts a [`Cmd`] on a [`Host`]; the [`Process`] is killed on drop.
//!   [`Substitute`]: the same with another command for one program.
//!   [`Host::loopback`] is the host without a rack.
//! - [`resource_counters`]: what cores, processes and network stacks spent and dropped. [`environment()`]: what the machine is.
//! - [`server_watch`]: a server's processes while a load is at them: what held it up, and what became of packets on the way.
//! - [`Role`]: this program at work on a host, for a coordinator elsewhere.
//! - [`path`]: what packets between hosts meet with; [`Paths`] opens and cuts them.
//! - [`Capture`]: what a host's device, or the router's port of a host, receives and sends, in a file.
//! - [`disk`]: a file system that drops what was not synced when its power is cut. [`syncs`]: whether a server's answers to
//!   updates follow a sync that covers them, by a trace of its system calls.
//! - [`standing`]: racks that stay, for work by hand. [`wake_up`]: how soon a thread that slept runs;
//!   [`IdlePolling`] keeps cores from sleeping.
//!
//! Linux only. All system calls that need `unsafe` are in `net::ns`.

pub mod capture;
pub mod command;
pub mod confine;
pub mod core_watch;
pub mod disk;
pub mod environment;
pub mod error;
pub mod hardware_counters;
pub mod host;
pub mod idle;
mod link;
pub mod memory;
pub mod path;
pub mod process;
pub mod resource_counters;
mod role;
pub mod root;
pub mod server_watch;
pub mod sockets;
pub mod spec;
pub mod standing;
pub mod steering;
mod substitute;
pub mod syncs;
pub mod topology;
pub mod up;
pub mod wake_up;

pub use capture::{Capture, Captured};
pub use command::{Cmd, Input, Output};
pub use confine::{Confinement, confine, confine_processes};
pub use core_watch::CoreWatch;
pub use disk::Disk;
pub use environment::{Environment, environment};
pub use error::Error;
pub use hardware_counters::HardwareCounters;
pub use host::Host;
pub use idle::IdlePolling;
pub use path::{PathSpec, Paths};
pub use process::{Launcher, Local, Process, allowed_cpus, stay_off};
pub use role::{Link, Role, RoleProcess};
pub use root::Root;
pub use server_watch::ServerWatch;
pub use sockets::UdpSockets;
pub use spec::{HostSpec, ROUTER, RackSpec, RouterSpec};
pub use standing::StandingRack;
pub use steering::Steering;
pub use substitute::Substitute;
pub use up::Rack;
