//! Packets that a reader did not turn into messages, by reason.

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;

/// A reason to skip; its text is [`REASONS`]'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skip {
    NoInterface,
    Link,
    NotIp,
    BadIp,
    Protocol,
    Icmp,
    Port,
    BadUdp,
    BadTcp,
    CutPacket,
    ShortUdp,
    FragmentsAlone,
    FragmentsOverlap,
    TcpBoundary,
    TcpHole,
    TcpPart,
    ShortTcp,
    FileEnd,
}

/// Every reason, in the order of [`Skip`].
pub const REASONS: [&str; 18] = [
    "packets of an interface that pcapng did not describe",
    "packets of a link type that is not known",
    "packets that are not IP",
    "packets with a malformed IP header",
    "packets of other protocols than UDP, TCP and ICMP",
    "ICMP packets that quote no DNS",
    "packets of other ports",
    "packets with a malformed UDP header",
    "packets with a malformed TCP header",
    "packets cut short by the capture",
    "UDP payloads shorter than a DNS header",
    "IP fragments without their others",
    "IP fragments that overlap",
    "TCP segments before a message boundary was found",
    "TCP holes",
    "TCP messages not seen to their end",
    "TCP messages shorter than a DNS header",
    "files that end within a packet",
];

/// How much was skipped, by reason. Serialised as a map of the reasons that occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped([u64; REASONS.len()]);

impl Skipped {
    pub(crate) fn add(&mut self, reason: Skip) {
        self.add_many(reason, 1);
    }

    pub(crate) fn add_many(&mut self, reason: Skip, count: u64) {
        self.0[reason as usize] += count;
    }

    /// Adds what another part of the same trace skipped.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }

    /// The reasons that occurred, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        REASONS.iter().copied().zip(self.0).filter(|&(_, count)| count > 0)
    }

    /// How often a reason occurred, by its text.
    pub fn count(&self, reason: &str) -> u64 {
        self.iter().find(|&(text, _)| text == reason).map_or(0, |(_, count)| count)
    }

    /// True where nothing was skipped.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl Serialize for Skipped {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (reason, count) in self.iter() {
            map.serialize_entry(reason, &count)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Skipped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut skipped = Self::default();
        for (reason, count) in BTreeMap::<String, u64>::deserialize(deserializer)? {
            let known = REASONS.iter().position(|text| *text == reason);
            let at = known.ok_or_else(|| D::Error::custom(format!("unknown reason to skip '{reason}'")))?;
            skipped.0[at] = count;
        }
        Ok(skipped)
    }
}
