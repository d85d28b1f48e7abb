//! Classes of clients: who asks, and what is common to those who ask alike.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// A class of clients. What is said here goes together in real traffic: a client that advertises no EDNS is likely to
/// be an old one, and to ask for other names. Shares are of the class's queries.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its weight among all queries; of a class alone it is of no effect, and 1.
    pub share: f64,
    /// How many clients there are, at most. Those of each class are others.
    pub clients: u32,
    /// Client `n`, from 1, sends as often as 1/n to this power; 0: all alike.
    pub zipf: f64,
    /// Their addresses with their weights, instead of [`Self::clients`], [`Self::zipf`] and [`Self::ipv6`].
    pub addresses: Option<AddressFile>,
    /// Share of queries over IPv6. Senders are free to choose where it is 0 in all classes.
    pub ipv6: f64,
    /// Share of queries with an OPT record.
    pub edns: f64,
    /// Share of queries with DO; each has an OPT record.
    pub do_bit: f64,
    /// UDP payload sizes of the OPT records, in octets, with their weights.
    pub edns_sizes: BTreeMap<u16, f64>,
    /// The same for queries with DO; empty: as those without.
    pub edns_sizes_do: BTreeMap<u16, f64>,
    /// Share of queries for names that do not exist.
    pub nonexistent: f64,
    /// Share of queries with RD (recursion desired).
    pub rd: f64,
    /// Share of queries over UDP with the IPv4 header's "don't fragment" bit.
    pub df: f64,
    /// Share of queries over TCP that no truncated answer made ask so.
    pub tcp: f64,
}

/// A file of clients' addresses: `ADDRESS WEIGHT` a line, IPv4 or IPv6; the weight is 1 where none is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressFile {
    /// The file.
    pub file: PathBuf,
    /// Where a profile asks for it: `file:line:column`, otherwise empty.
    pub said: String,
}

impl Default for Class {
    /// One client, nothing else.
    fn default() -> Self {
        Self {
            share: 1.0,
            clients: 1,
            zipf: 1.0,
            addresses: None,
            ipv6: 0.0,
            edns: 0.0,
            do_bit: 0.0,
            edns_sizes: BTreeMap::new(),
            edns_sizes_do: BTreeMap::new(),
            nonexistent: 0.0,
            rd: 0.0,
            df: 0.0,
            tcp: 0.0,
        }
    }
}

impl Class {
    /// [`Self::edns_sizes_do`], where there is a use for them.
    pub(crate) fn used_sizes_do(&self) -> &BTreeMap<u16, f64> {
        static NONE: BTreeMap<u16, f64> = BTreeMap::new();
        if self.do_bit > 0.0 { &self.edns_sizes_do } else { &NONE }
    }

    /// The fault where more queries have DO than have an OPT record.
    pub(crate) fn do_without_edns(&self) -> Option<String> {
        (self.do_bit > self.edns).then(|| {
            format!(
                "'do' is {}, but only {} of the queries have EDNS: DO needs an OPT record",
                self.do_bit, self.edns
            )
        })
    }
}
