//! One query, and where queries come from.

use crate::Error;
use measure::Nanos;
use wire::Checksum;

/// A query to send; a source fills it again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Its number in the stream, from 0: the same for any number of workers.
    pub index: u64,
    /// The DNS message, with ID 0: the sender sets the ID.
    pub bytes: Vec<u8>,
    /// The IPv4 header's "don't fragment" bit.
    pub df: bool,
    /// Honoured where its packet is written by us; sockets always send right ones.
    pub checksum: Checksum,
    /// The name asked for was made not to exist, or is of a list of such names.
    pub nonexistent: bool,
    /// The list that the name is of, as [`crate::Lists::lists`] counts them; `None` where it was made, or is a
    /// popular one that no list has.
    pub list: Option<u16>,
    /// When it is due after the first of its stream, in nanoseconds; `None` where the stream has no times.
    pub at: Option<Nanos>,
    /// The sender: queries of one client go from one address and port. `None`: any.
    pub client: Option<u32>,
    /// Over which family it goes where there are targets of both; `None`: either.
    pub ipv6: Option<bool>,
    /// It came over TCP, and is to go over TCP.
    pub tcp: bool,
    /// It belongs to traffic that is offered beside the one that is measured (an attack), and is counted apart.
    pub background: bool,
}

/// Gives queries one after the other.
pub trait QuerySource {
    /// Fills `query` with the next one, reusing its buffer; false where there are no more.
    ///
    /// # Errors
    /// Where a file became unreadable, or changed for the worse, after it was checked.
    fn next(&mut self, query: &mut Query) -> Result<bool, Error>;
}
