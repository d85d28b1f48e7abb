//! Zone transfers as messages: AXFR (RFC 5936) and IXFR (RFC 1995), distinguished and checked record by record, in memory
//! that does not grow with the zone. No sockets and no clock: the client and the reader of captures both feed it.

use crate::header::Header;
use crate::record::{Damaged, Record, Records};
use crate::{class, name, question, rcode, rtype};
use serde::{Deserialize, Serialize};

/// The question of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// All of the zone.
    Axfr,
    /// The changes since the version of this serial; none where the question was not seen.
    Ixfr(Option<u32>),
}

/// The kind of a transfer's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// All of the zone, as asked for.
    Axfr,
    /// Differences.
    Ixfr,
    /// All of the zone, where differences were asked for (RFC 1995, section 4).
    AxfrForIxfr,
    /// One SOA: the server has no newer version (RFC 1995, section 2).
    UpToDate,
}

impl Kind {
    /// As in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Axfr => "axfr",
            Self::Ixfr => "ixfr",
            Self::AxfrForIxfr => "axfr_for_ixfr",
            Self::UpToDate => "up_to_date",
        }
    }
}

/// The part that a record plays in its transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The SOA that opens every transfer: the server's version.
    First,
    /// A record of the whole zone.
    Zone,
    /// The SOA before deletions: the version that a difference begins with.
    From,
    /// A record that the difference deletes.
    Deleted,
    /// The SOA before additions: the version that the difference leads to.
    To,
    /// A record that the difference adds.
    Added,
    /// The SOA that closes the transfer.
    Last,
}

/// A record, uncompressed, in buffers that the next one overwrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Wire format.
    pub owner: &'a [u8],
    /// TYPE.
    pub rtype: u16,
    /// TTL in seconds.
    pub ttl: u32,
    /// Record data, names uncompressed.
    pub rdata: &'a [u8],
}

/// Why messages are no transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Octets that cannot be read.
    #[error("a damaged message: {0}")]
    Damaged(#[from] Damaged),
    /// QR clear, or another opcode.
    #[error("a message that is no answer")]
    NotAnswer,
    /// The server refuses.
    #[error("the server answers {}", rcode::to_text(*.0))]
    Rcode(u8),
    /// TC set.
    #[error("a truncated message")]
    Truncated,
    /// A question that was not asked.
    #[error("an answer to another question")]
    Question,
    /// NOERROR, but no record.
    #[error("a message without records")]
    Empty,
    /// The first record is not the zone's SOA.
    #[error("the first record is {}, not the zone's SOA", rtype::to_text(*.0))]
    NoSoa(u16),
    /// A SOA of another name, or one that is too short.
    #[error("a SOA that is not the zone's")]
    OtherSoa,
    /// A record of another class.
    #[error("a record of class {}", class::to_text(*.0))]
    Class(u16),
    /// The SOA at the end is of another version than the one at the beginning.
    #[error("the first SOA has serial {first}, the last one {last}")]
    Changed {
        /// Serial.
        first: u32,
        /// Serial.
        last: u32,
    },
    /// A difference that begins with a version that was not asked for, or not with the one before it led to.
    #[error("a difference begins with serial {got}, not {expected}")]
    Sequence {
        /// Serial.
        expected: u32,
        /// Serial.
        got: u32,
    },
    /// A difference that leads to no newer version.
    #[error("a difference leads from serial {from} to {to}, which is not newer")]
    Back {
        /// Serial.
        from: u32,
        /// Serial.
        to: u32,
    },
    /// Records after the last SOA.
    #[error("more comes after the final SOA")]
    After,
}

impl Fault {
    /// A stable name for scripts.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Damaged(_) => "damaged",
            Self::NotAnswer => "no_answer",
            Self::Rcode(_) => "refused",
            Self::Truncated => "truncated",
            Self::Question => "other_question",
            Self::Empty => "no_records",
            Self::NoSoa(_) => "no_soa",
            Self::OtherSoa => "other_soa",
            Self::Class(_) => "other_class",
            Self::Changed { .. } => "soa_differs",
            Self::Sequence { .. } => "out_of_sequence",
            Self::Back { .. } => "serial_goes_back",
            Self::After => "after_the_end",
        }
    }
}

/// The counts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Messages.
    pub messages: u64,
    /// Their octets, without the two of length before each.
    pub octets: u64,
    /// Of the largest message.
    pub largest: u64,
    /// Records in answer sections, all SOA included.
    pub records: u64,
    /// Octets of these records in the messages.
    pub record_octets: u64,
    /// The same without compression.
    pub plain_octets: u64,
    /// Differences, complete ones.
    pub deltas: u64,
    /// Records that they delete, the SOA before them not counted.
    pub deleted: u64,
    /// Records that they add, likewise.
    pub added: u64,
    /// Records whose owner is outside the zone.
    pub outside: u64,
}

impl Counts {
    /// Octets on TCP: each message with the two of its length (RFC 1035, section 4.2.2).
    pub fn tcp_octets(&self) -> u64 {
        self.octets + 2 * self.messages
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There was no message.
    Nothing,
    /// One SOA: the next record tells what it is.
    First,
    Zone,
    Deleting {
        from: u32,
    },
    Adding {
        to: u32,
    },
    Done,
}

/// A transfer that comes in.
#[derive(Clone, Debug)]
pub struct Transfer {
    asked: Asked,
    apex: Vec<u8>,
    state: State,
    kind: Option<Kind>,
    /// Serial that the first difference begins with, and of the server's version.
    from: Option<u32>,
    to: Option<u32>,
    counts: Counts,
    owner: Vec<u8>,
    data: Vec<u8>,
}

/// Whether a serial is newer than another (RFC 1982, section 3.2).
pub fn is_newer(serial: u32, than: u32) -> bool {
    (1..1 << 31).contains(&serial.wrapping_sub(than))
}

/// The serial in a SOA's data; `None` where they are too short for one.
pub fn soa_serial(rdata: &[u8]) -> Option<u32> {
    let numbers = rdata.len().checked_sub(20).filter(|&names| names >= 2)?;
    rdata[numbers..].first_chunk().map(|&serial| u32::from_be_bytes(serial))
}

impl Transfer {
    /// A transfer of the zone `apex` (wire format).
    pub fn new(asked: Asked, apex: &[u8]) -> Self {
        Self {
            asked,
            apex: apex.to_vec(),
            state: State::Nothing,
            kind: None,
            from: None,
            to: None,
            counts: Counts::default(),
            owner: Vec::new(),
            data: Vec::new(),
        }
    }

    /// Takes the next message; `each` sees every record of it in order. True where the transfer is complete.
    ///
    /// # Errors
    /// [`Fault`]; what `each` has seen until then was in order. Nothing is to be taken after one.
    pub fn message(&mut self, msg: &[u8], each: &mut dyn FnMut(Part, &Entry<'_>)) -> Result<bool, Fault> {
        self.counts.messages += 1;
        self.counts.octets += msg.len() as u64;
        self.counts.largest = self.counts.largest.max(msg.len() as u64);
        let header = Header::new(msg).ok_or(Damaged { at: msg.len(), what: "no header" })?;
        if !header.qr() || header.opcode() != 0 {
            return Err(Fault::NotAnswer);
        }
        if header.rcode() != 0 {
            return Err(Fault::Rcode(header.rcode()));
        }
        if header.tc() {
            return Err(Fault::Truncated);
        }
        if self.state == State::Done {
            return Err(Fault::After);
        }
        // Only the first message needs a question (RFC 5936, section 2.2.1).
        if header.qdcount() > 0 && !self.is_asked(msg, header) {
            return Err(Fault::Question);
        }
        if header.ancount() == 0 {
            return Err(Fault::Empty);
        }
        for record in Records::of(msg, 0)? {
            self.record(&record?, each)?;
        }
        if let (State::First, Asked::Ixfr(Some(serial)), Some(to)) = (self.state, self.asked, self.to)
            && !is_newer(to, serial)
        {
            (self.state, self.kind) = (State::Done, Some(Kind::UpToDate));
        }
        Ok(self.state == State::Done)
    }

    /// Whether a message's question is ours; a silent AXFR may repeat either type.
    fn is_asked(&self, msg: &[u8], header: Header<'_>) -> bool {
        let ours = |q: question::Question<'_>| {
            let qtype = match self.asked {
                Asked::Axfr => q.qtype == rtype::AXFR,
                Asked::Ixfr(_) => matches!(q.qtype, rtype::IXFR | rtype::AXFR),
            };
            qtype && q.qclass == class::IN && name::equal(q.qname, &self.apex)
        };
        header.qdcount() == 1 && question::parse(msg).is_some_and(ours)
    }

    fn record(&mut self, record: &Record<'_>, each: &mut dyn FnMut(Part, &Entry<'_>)) -> Result<(), Fault> {
        if record.class != class::IN {
            return Err(Fault::Class(record.class));
        }
        record.owner(&mut self.owner)?;
        record.data(&mut self.data)?;
        let serial = match record.rtype {
            rtype::SOA if !name::equal(&self.owner, &self.apex) => return Err(Fault::OtherSoa),
            rtype::SOA => Some(soa_serial(&self.data).ok_or(Fault::OtherSoa)?),
            _ => None,
        };
        let part = self.part(record.rtype, serial)?;
        let counts = &mut self.counts;
        counts.records += 1;
        counts.record_octets += record.len() as u64;
        counts.plain_octets += (self.owner.len() + 10 + self.data.len()) as u64;
        counts.outside += u64::from(!name::is_under(&self.owner, &self.apex));
        counts.deleted += u64::from(part == Part::Deleted);
        counts.added += u64::from(part == Part::Added);
        let (owner, rdata) = (&self.owner[..], &self.data[..]);
        each(part, &Entry { owner, rtype: record.rtype, ttl: record.ttl, rdata });
        Ok(())
    }

    /// The part of the next record, by its type and, of a SOA, the serial.
    fn part(&mut self, rtype: u16, soa: Option<u32>) -> Result<Part, Fault> {
        let first = self.to.unwrap_or_default();
        let (state, part) = match (self.state, soa) {
            (State::Done, _) => return Err(Fault::After),
            (State::Nothing, None) => return Err(Fault::NoSoa(rtype)),
            (State::Nothing, Some(serial)) => {
                self.to = Some(serial);
                (State::First, Part::First)
            }
            (State::First, soa) => return self.second(first, soa),
            (State::Zone, None) => (State::Zone, Part::Zone),
            (State::Zone, Some(serial)) if serial == first => (State::Done, Part::Last),
            (State::Zone, Some(last)) => return Err(Fault::Changed { first, last }),
            (State::Deleting { from }, None) => (State::Deleting { from }, Part::Deleted),
            (State::Deleting { from }, Some(to)) if is_newer(to, from) => (State::Adding { to }, Part::To),
            (State::Deleting { from }, Some(to)) => return Err(Fault::Back { from, to }),
            (State::Adding { to }, None) => (State::Adding { to }, Part::Added),
            (State::Adding { to }, Some(serial)) if serial == to => {
                self.counts.deltas += 1;
                match to == first {
                    true => (State::Done, Part::Last),
                    false => (State::Deleting { from: to }, Part::From),
                }
            }
            (State::Adding { to }, Some(got)) => return Err(Fault::Sequence { expected: to, got }),
        };
        self.state = state;
        Ok(part)
    }

    /// The part of the second record: it tells the kind (RFC 1995, section 4).
    fn second(&mut self, first: u32, soa: Option<u32>) -> Result<Part, Fault> {
        let whole = match self.asked {
            Asked::Axfr => Kind::Axfr,
            Asked::Ixfr(_) => Kind::AxfrForIxfr,
        };
        let (kind, state, part) = match (self.asked, soa) {
            (_, None) => (whole, State::Zone, Part::Zone),
            (Asked::Ixfr(serial), Some(from)) if serial.map_or(from != first, |serial| serial == from) => {
                self.from = Some(from);
                (Kind::Ixfr, State::Deleting { from }, Part::From)
            }
            (_, Some(last)) if last == first => (whole, State::Done, Part::Last),
            (Asked::Ixfr(Some(expected)), Some(got)) => return Err(Fault::Sequence { expected, got }),
            (_, Some(last)) => return Err(Fault::Changed { first, last }),
        };
        (self.kind, self.state) = (Some(kind), state);
        Ok(part)
    }

    /// The kind, as soon as it is known.
    pub fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// It is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// One SOA came and nothing else: where the question was not seen, the zone may be up to date.
    pub fn has_one_soa(&self) -> bool {
        self.state == State::First
    }

    /// The serial that the differences begin with; `None` where there are none.
    pub fn from(&self) -> Option<u32> {
        self.from
    }

    /// The serial of the server's version.
    pub fn to(&self) -> Option<u32> {
        self.to
    }

    /// The counts so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// Fuzz entry point: any octets as the messages of a transfer, each with its length before it. The first octet says what
/// was asked for.
///
/// # Panics
/// Where its parameters contradict each other: a bug.
pub fn fuzz_transfer(bytes: &[u8]) {
    let Some((&first, mut stream)) = bytes.split_first() else { return };
    let asked = match first % 3 {
        0 => Asked::Axfr,
        1 => Asked::Ixfr(None),
        _ => Asked::Ixfr(Some(1)),
    };
    let mut transfer = Transfer::new(asked, b"\x07example\0");
    let (mut parts, mut plain, mut fault) = (Vec::new(), 0, None);
    while let Some((&[high, low], rest)) = stream.split_first_chunk()
        && let Some((msg, rest)) = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])))
        && fault.is_none()
    {
        stream = rest;
        let done = transfer.message(msg, &mut |part, entry| {
            assert_eq!(name::wire_len(entry.owner), Some(entry.owner.len()));
            plain += (entry.owner.len() + 10 + entry.rdata.len()) as u64;
            parts.push(part);
        });
        assert!(done.is_err() || done == Ok(transfer.is_done()));
        fault = done.err();
    }
    let counts = transfer.counts();
    let many = |part: Part| parts.iter().filter(|&&p| p == part).count() as u64;
    assert_eq!((counts.records, counts.plain_octets), (parts.len() as u64, plain));
    assert_eq!((counts.deleted, counts.added), (many(Part::Deleted), many(Part::Added)));
    assert!(parts.is_empty() || (parts[0] == Part::First && many(Part::First) == 1));
    assert_eq!(many(Part::Last) == 1, parts.last() == Some(&Part::Last), "nothing comes after the last");
    assert!(many(Part::Last) == u64::from(transfer.is_done() && transfer.kind() != Some(Kind::UpToDate)));
    let deltas = many(Part::From);
    assert!(counts.deltas == deltas || (counts.deltas + 1 == deltas && !transfer.is_done()));
    assert_eq!(deltas > 0, transfer.kind() == Some(Kind::Ixfr));
    assert_eq!(deltas > 0, transfer.from().is_some());
    assert!(!transfer.is_done() || (transfer.kind().is_some() && transfer.to().is_some()));
    assert!(transfer.owner.len() <= name::MAX_NAME && transfer.data.len() < 1 << 17);
}

#[cfg(test)]
mod tests;
