//! One query, and where queries come from.

use crate::Error;

/// The UDP checksum that a query is to carry where its packet is written by us; sockets always send
/// right ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// As computed.
    #[default]
    Right,
    /// Zero: none was computed (RFC 768; IPv4 only).
    Absent,
    /// One that does not match.
    Bad,
}

/// A query to send; a source fills it again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Its number in the stream, from 0: the same for any number of workers.
    pub index: u64,
    /// The DNS message, with ID 0: the sender sets the ID.
    pub bytes: Vec<u8>,
    /// The IPv4 header's "don't fragment" bit.
    pub df: bool,
    /// Only captures that we write can honour it.
    pub checksum: Checksum,
    /// The name asked for was made not to exist.
    pub nonexistent: bool,
}

/// Gives queries one after the other.
pub trait QuerySource {
    /// Fills `query` with the next one, reusing its buffer; false where there are no more.
    ///
    /// # Errors
    /// Where a file became unreadable, or changed for the worse, after it was checked.
    fn next(&mut self, query: &mut Query) -> Result<bool, Error>;
}
