//! The engine against real sockets: what it counts, and which faults it names.

mod faults;
mod outcome;
mod support;
