//! An answer taken apart: RRsets by section, names in small letters and uncompressed, data in canonical form.

use domain::base::message::RecordSection;
use domain::base::rdata::ComposeRecordData;
use domain::base::wire::ParseError;
use domain::base::{Message, ToName};
use domain::rdata::AllRecordData;
use wire::name;
use wire::rtype;
use zone::sign::verify::{Rrsig, canonical_rdata};

/// The kind of an RRset, which with its owner identifies it: the type, and for RRSIG records the type that they sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Kind {
    pub rtype: u16,
    pub covered: u16,
}

impl Kind {
    pub fn of(rtype: u16, rdata: &[u8]) -> Self {
        let covered = match rdata {
            [high, low, ..] if rtype == rtype::RRSIG => u16::from_be_bytes([*high, *low]),
            _ => 0,
        };
        Self { rtype, covered }
    }

    pub fn plain(rtype: u16) -> Self {
        Self { rtype, covered: 0 }
    }

    pub fn rrsig(covered: u16) -> Self {
        Self { rtype: rtype::RRSIG, covered }
    }

    /// NSEC, NSEC3 and RRSIG: what only those are to see who ask for DNSSEC (RFC 4035 section 3.1).
    pub fn is_dnssec(self) -> bool {
        matches!(self.rtype, rtype::RRSIG | rtype::NSEC | rtype::NSEC3)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&rtype::to_text(self.rtype))?;
        match self.rtype {
            rtype::RRSIG => write!(f, " of {}", rtype::to_text(self.covered)),
            _ => Ok(()),
        }
    }
}

/// Records of one owner and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set {
    pub owner: Vec<u8>,
    pub kind: Kind,
    /// The TTLs that occur, seconds.
    pub ttls: Vec<u32>,
    /// Canonical form, each once.
    pub rdatas: Vec<Vec<u8>>,
}

impl Set {
    /// True where a record of these canonical data is in it.
    pub fn has(&self, rdata: &[u8]) -> bool {
        self.rdatas.iter().any(|r| same_data(self.kind.rtype, r, rdata))
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub qname: Vec<u8>,
    pub qtype: u16,
    pub qclass: u16,
    pub opcode: u8,
    pub aa: bool,
    pub tc: bool,
    /// With the upper bits of an OPT record.
    pub rcode: u16,
    /// The DO bit of the answer's OPT record, which a server copies from the query's (RFC 3225 section 3).
    pub wants_dnssec: bool,
    pub answer: Vec<Set>,
    pub authority: Vec<Set>,
    pub additional: Vec<Set>,
    /// The first record that a section has twice.
    pub duplicate: Option<String>,
}

impl Answer {
    /// Reads a message; an error says what is malformed.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let question = wire::question::parse(bytes).ok_or("no question")?;
        let message = Message::from_octets(bytes).map_err(|_| "shorter than a header")?;
        let mut answer = Self {
            qname: question.qname.to_ascii_lowercase(),
            qtype: question.qtype,
            qclass: question.qclass,
            opcode: message.header().opcode().to_int(),
            aa: message.header().aa(),
            tc: message.header().tc(),
            rcode: message.header().rcode().to_int().into(),
            wants_dnssec: false,
            answer: Vec::new(),
            authority: Vec::new(),
            additional: Vec::new(),
            duplicate: None,
        };
        if message.header_counts().qdcount() != 1 {
            return Err(format!("{} questions", message.header_counts().qdcount()));
        }
        let broken = |section: &'static str| move |e: ParseError| format!("{section} section: {e}");
        let (a, b, c) = ("answer", "authority", "additional");
        let section = message.answer().map_err(broken(a))?;
        answer.section(section, 0).map_err(broken(a))?;
        answer.section(message.authority().map_err(broken(b))?, 1).map_err(broken(b))?;
        let end = answer.section(message.additional().map_err(broken(c))?, 2).map_err(broken(c))?;
        match bytes.len() - end {
            0 => Ok(answer),
            more => Err(format!("{more} octets after the last record")),
        }
    }

    /// Takes a section; gives where it ends.
    fn section(&mut self, mut section: RecordSection<'_, &[u8]>, number: usize) -> Result<usize, ParseError> {
        for record in section.by_ref() {
            let record = record?;
            if record.rtype().to_int() == rtype::OPT {
                // Class is the size, TTL the upper bits of the rcode, version, flags (RFC 6891 section 6.1.3).
                let ttl = record.ttl().as_secs();
                self.wants_dnssec = ttl & 0x8000 != 0;
                self.rcode |= (ttl >> 24 << 4) as u16;
                continue;
            }
            let mut owner: Vec<u8> = record.owner().to_vec().as_slice().to_vec();
            name::lowercase(&mut owner);
            let (rtype, ttl) = (record.rtype().to_int(), record.ttl().as_secs());
            let mut rdata = Vec::new();
            let record = record.to_any_record::<AllRecordData<_, _>>()?;
            // Nothing can go wrong with a vector.
            let _ = record.data().compose_rdata(&mut rdata);
            let sets = match number {
                0 => &mut self.answer,
                1 => &mut self.authority,
                _ => &mut self.additional,
            };
            if !add(sets, owner, rtype, ttl, &rdata) && self.duplicate.is_none() {
                self.duplicate = Some(show(&record.owner().to_vec(), rtype));
            }
        }
        Ok(section.pos())
    }

    /// All sections' RRsets.
    pub fn sets(&self) -> impl Iterator<Item = &Set> {
        self.answer.iter().chain(&self.authority).chain(&self.additional)
    }

    /// The question as text.
    pub fn question(&self) -> String {
        show(&self.qname, self.qtype)
    }
}

/// Adds a record to sets; false where it is there already. `owner` in small letters.
pub(super) fn add(sets: &mut Vec<Set>, owner: Vec<u8>, rtype: u16, ttl: u32, rdata: &[u8]) -> bool {
    let (kind, rdata) = (Kind::of(rtype, rdata), canonical(rtype, rdata));
    // Records of one RRset mostly follow each other.
    match sets.iter_mut().rev().find(|set| set.kind == kind && set.owner == owner) {
        Some(set) => {
            if !set.ttls.contains(&ttl) {
                set.ttls.push(ttl);
            }
            let new = !set.has(&rdata);
            if new {
                set.rdatas.push(rdata);
            }
            new
        }
        None => {
            sets.push(Set { owner, kind, ttls: vec![ttl], rdatas: vec![rdata] });
            true
        }
    }
}

/// The RRset of an owner (small letters) and kind.
pub(super) fn find<'a>(sets: &'a [Set], owner: &[u8], kind: Kind) -> Option<&'a Set> {
    sets.iter().find(|set| set.kind == kind && set.owner == owner)
}

/// Record data in canonical form (RFC 4034 section 6.2; that of NSEC keeps its letters, RFC 6840 section 5.1).
fn canonical(rtype: u16, rdata: &[u8]) -> Vec<u8> {
    let mut data = Vec::with_capacity(rdata.len());
    canonical_rdata(rtype, rdata, &mut data);
    if rtype == rtype::RRSIG {
        let end = Rrsig::parse(rdata).map_or(0, |r| 18 + r.signer.len());
        name::lowercase(data.get_mut(18..end).unwrap_or_default());
    }
    data
}

/// True where canonical data are the same; the letters of an NSEC's next name do not count.
pub(super) fn same_data(rtype: u16, a: &[u8], b: &[u8]) -> bool {
    let next = |rdata| name::wire_len(rdata).unwrap_or(0);
    a == b
        || rtype == rtype::NSEC
            && next(a) == next(b)
            && name::equal(&a[..next(a)], &b[..next(b)])
            && a[next(a)..] == b[next(b)..]
}

/// A name (wire format) and a type as text.
pub(super) fn show(owner: &(impl AsRef<[u8]> + ?Sized), rtype: u16) -> String {
    format!("{} {}", show_name(owner.as_ref()), rtype::to_text(rtype))
}

/// A name (wire format) as text.
pub(super) fn show_name(wire: &[u8]) -> String {
    let mut text = Vec::new();
    name::write_text(wire, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
