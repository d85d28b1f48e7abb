//! Hosts, links and a switch on one machine; the launcher; confinement and clean-up.

pub mod command;
pub mod confine;
pub mod environment;
pub mod error;
pub mod host;
pub mod kept;
mod link;
pub mod process;
pub mod sample;
pub mod spec;
pub mod steering;
pub mod up;

pub use command::{Cmd, Input, Output};
pub use confine::{Confinement, confine};
pub use environment::{Environment, environment};
pub use error::Error;
pub use host::Host;
pub use kept::Kept;
pub use process::{Launcher, Local, Process};
pub use spec::{HostSpec, RackSpec};
pub use steering::Steering;
pub use up::Rack;
