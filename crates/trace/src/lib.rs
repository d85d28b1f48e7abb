//! Captures in and out.

pub mod write;
