//! The tests of a machine without a server: the words by which those who make trials of them and those who read them know them.

/// The measure of their trials.
pub const MEASURE: &str = "hardware";

/// A random pointer chase.
pub const LATENCY: &str = "memory latency";
/// Copies of memory.
pub const COPY: &str = "copy";
/// McCalpin's four kernels.
pub const STREAM: &str = "STREAM";
/// System calls and reads of the clock.
pub const SYSTEM: &str = "system calls";
/// Context switches.
pub const SWITCHES: &str = "context switches";
/// Wake-ups of a thread that sleeps.
pub const WAKE_UPS: &str = "wake-ups";
/// Datagrams between two sockets.
pub const DATAGRAMS: &str = "datagrams";
/// Signatures, their verification, and hashes.
pub const CRYPTO: &str = "signatures and hashes";
/// Syncs and writes.
pub const DISK: &str = "disk";
