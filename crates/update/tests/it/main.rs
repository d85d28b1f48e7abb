//! Streams against a model of the zone, the sender against responders with one fault each, transfers against servers that do what
//! real ones do on bad days, and all of them against real servers.
//!
//! A test whose server or tool is not installed says SKIPPED on standard error and passes.

mod cut;
mod generate;
mod lab;
mod model;
mod send;
mod servers;
mod support;
mod transfer;
mod watch;
