//! Captures in and out.
