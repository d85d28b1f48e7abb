//! Streams against a model of the zone, the sender against responders with one fault each, and both against real servers.

mod generate;
mod model;
mod send;
mod servers;
mod support;
