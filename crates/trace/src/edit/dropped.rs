//! Counts of packets that were not kept, by reason.

use serde::ser::{Serialize, SerializeMap, Serializer};

/// A reason not to keep a packet or a message; its text is [`DROPPED`]'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drop {
    Time,
    NoClient,
    Client,
    Queries,
    Responses,
    NoQuestion,
    Names,
    CutMessage,
    EdnsSize,
    Do,
    Every,
    QueryDropped,
    QueryUnknown,
    Quote,
    Connection,
    NoLine,
    Family,
    Unread,
    Routed,
    Content,
    Length,
}

/// Every reason, in the order of [`Drop`].
pub const DROPPED: [&str; 21] = [
    "of other times",
    "of no client that is known",
    "of other clients",
    "queries",
    "responses",
    "messages without a question that can be read",
    "for other names",
    "messages cut short by the capture, which cannot be checked",
    "queries of another EDNS size or none",
    "queries without DO",
    "queries between every n-th",
    "responses to queries that were not kept",
    "responses whose queries are not in the trace",
    "ICMP errors: messages were asked for",
    "TCP connections without a message that was kept",
    "queries that are no line: of another opcode or class",
    "of a family for which no address was given",
    "packets that cannot be read, so that their addresses cannot be changed",
    "packets with a route or other addresses in their IP or TCP options",
    "packets whose content may have addresses, and cannot be read",
    "messages too long for a packet",
];

/// How much was not kept, by reason. Serialised as a map of the reasons that occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped([u64; DROPPED.len()]);

impl Dropped {
    pub(super) fn add(&mut self, reason: Drop) {
        self.0[reason as usize] += 1;
    }

    /// The reasons that occurred, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        DROPPED.iter().copied().zip(self.0).filter(|&(_, count)| count > 0)
    }

    /// How often a reason occurred, by its text.
    pub fn count(&self, reason: &str) -> u64 {
        self.iter().find(|&(text, _)| text == reason).map_or(0, |(_, count)| count)
    }

    /// How much was not kept.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Serialize for Dropped {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (reason, count) in self.iter() {
            map.serialize_entry(reason, &count)?;
        }
        map.end()
    }
}
