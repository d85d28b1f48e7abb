//! Hosts, links and a switch on one machine; the launcher; confinement and clean-up.

pub mod command;
pub mod error;
pub mod host;
pub mod process;

pub use command::{Cmd, Input, Output};
pub use error::Error;
pub use host::Host;
pub use process::{Launcher, Local, Process};
