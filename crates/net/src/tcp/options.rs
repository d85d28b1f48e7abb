//! How connections live.

/// The life of connections. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Queries on a connection before we close it; 0: no limit.
    pub queries: u32,
    /// For how long a connection on which nothing is unanswered stays open; 0: until the server closes it.
    pub idle: u64,
    /// The most queries unanswered on a connection; further ones wait in the slot. 0: as many as there are ids.
    pub pipeline: u32,
    /// The most queries that wait in a slot; further ones are refused.
    pub waiting: u32,
    /// How long a handshake may take; 0: as long as the system tries.
    pub connect_timeout: u64,
    /// A connection with queries unanswered on which nothing has come for so long is closed; 0: never.
    pub patience: u64,
    /// Close with RST instead of FIN: no port waits in TIME_WAIT (60 s) then, so that one source address can open more
    /// than about 470 connections a second to one target.
    pub reset: bool,
    /// The most octets read from a connection at a time.
    pub read_chunk: usize,
}

impl Options {
    /// Queries that ids can tell apart.
    pub(super) const IDS: u32 = 1 << 16;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queries: 0,
            idle: 0,
            pipeline: 64,
            waiting: 64,
            connect_timeout: 4_000_000_000,
            patience: 4_000_000_000,
            reset: false,
            read_chunk: 64 << 10,
        }
    }
}
