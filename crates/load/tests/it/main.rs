//! The engine against real sockets: what it counts, and which faults it names.

mod child;
mod correctness;
mod faults;
mod outcome;
mod support;
mod tcp;
