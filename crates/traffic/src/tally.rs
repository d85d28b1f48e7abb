//! The shares of a stream of queries, counted from the messages themselves.

use crate::Query;
use serde::Serialize;
use std::collections::BTreeMap;
use wire::Checksum;
use wire::{question, rtype};

/// Counts of queries: all, and what those are that do not belong to a flood.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// All.
    pub queries: u64,
    /// Queries of a flood, which are in none of the counts below.
    pub background: u64,
    /// For names that do not exist.
    pub nonexistent: u64,
    /// With an OPT record.
    pub edns: u64,
    /// With DO.
    #[serde(rename = "do")]
    pub do_bit: u64,
    /// With RD.
    pub rd: u64,
    /// With DF.
    pub df: u64,
    /// Over TCP.
    pub tcp: u64,
    /// Without a checksum.
    pub no_checksum: u64,
    /// With a wrong checksum.
    pub bad_checksum: u64,
    /// By type.
    #[serde(serialize_with = "types_by_name")]
    pub types: BTreeMap<u16, u64>,
    /// By the UDP payload size of the OPT record, in octets.
    pub edns_sizes: BTreeMap<u16, u64>,
    /// For names of each list; in none are those for names that were made.
    #[serde(skip)]
    pub lists: Vec<u64>,
}

fn types_by_name<S: serde::Serializer>(types: &BTreeMap<u16, u64>, s: S) -> Result<S::Ok, S::Error> {
    s.collect_map(types.iter().map(|(&t, n)| (rtype::to_text(t), n)))
}

impl Tally {
    /// Counts a query of one of this room's sources.
    pub fn add(&mut self, query: &Query) {
        self.queries += 1;
        if query.background {
            self.background += 1;
            return;
        }
        self.nonexistent += u64::from(query.nonexistent);
        if let Some(list) = query.list.map(usize::from) {
            self.lists.resize(self.lists.len().max(list + 1), 0);
            self.lists[list] += 1;
        }
        self.df += u64::from(query.df);
        self.tcp += u64::from(query.tcp);
        self.no_checksum += u64::from(query.checksum == Checksum::Absent);
        self.bad_checksum += u64::from(query.checksum == Checksum::Bad);
        self.rd += u64::from(wire::header::Header::new(&query.bytes).is_some_and(|header| header.rd()));
        let Some(asked) = question::parse(&query.bytes) else { return };
        *self.types.entry(asked.qtype).or_default() += 1;
        // Our sources put one OPT record after the question or nothing (wire::query::write).
        let rest = question::end(&query.bytes).map(|end| &query.bytes[end..]);
        if let Some(&[0, 0, 41, high, low, _, _, flags, ..]) = rest {
            self.edns += 1;
            self.do_bit += u64::from(flags & 0x80 != 0);
            *self.edns_sizes.entry(u16::from_be_bytes([high, low])).or_default() += 1;
        }
    }
}
