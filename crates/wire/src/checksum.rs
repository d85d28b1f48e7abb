//! The UDP checksum, as far as it is part of what a query is to look like.

/// The UDP checksum that a query is to carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// As computed.
    #[default]
    Right,
    /// Zero: none was computed (RFC 768; IPv4 only, as RFC 8200 section 8.1 forbids it).
    Absent,
    /// One that does not match. Only who writes the packet himself can send it: captures and AF_XDP.
    Bad,
}
