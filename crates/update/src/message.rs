//! UPDATE messages (RFC 2136, section 2) from their records.

use crate::script::{Rr, Section};
use wire::header;
use wire::{name, rtype};

/// OPCODE 5, in the octet of a header that has it.
const UPDATE: u8 = 5 << 3;

/// Gathers the records of one message.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    zone: Vec<u8>,
    prerequisites: Vec<u8>,
    updates: Vec<u8>,
    counts: [u16; 2],
}

impl Builder {
    /// Empties it, for a message about this zone (wire format).
    pub fn begin(&mut self, zone: &[u8]) {
        self.zone.clear();
        self.zone.extend_from_slice(zone);
        self.prerequisites.clear();
        self.updates.clear();
        self.counts = [0; 2];
    }

    /// True where it has no record.
    pub fn is_empty(&self) -> bool {
        self.counts == [0; 2]
    }

    /// Records of the update section.
    pub fn updates(&self) -> u16 {
        self.counts[1]
    }

    /// Records that must hold.
    pub fn prerequisites(&self) -> u16 {
        self.counts[0]
    }

    /// Octets of the message so far.
    pub fn len(&self) -> usize {
        header::LEN + self.zone.len() + 4 + self.prerequisites.len() + self.updates.len()
    }

    /// Adds a record; false where a section cannot count any more.
    #[must_use]
    pub fn push(&mut self, section: Section, rr: &Rr<'_>) -> bool {
        let (out, count) = match section {
            Section::Prerequisite => (&mut self.prerequisites, &mut self.counts[0]),
            Section::Update => (&mut self.updates, &mut self.counts[1]),
        };
        let Some(next) = count.checked_add(1) else { return false };
        *count = next;
        // The zone's name stands at the front of the message: what lies under it points there.
        let above = rr.owner.len() - self.zone.len().min(rr.owner.len());
        if self.zone.len() > 2 && name::is_under(rr.owner, &self.zone) {
            out.extend_from_slice(&rr.owner[..above]);
            out.extend_from_slice(&(0xc000 | header::LEN as u16).to_be_bytes());
        } else {
            out.extend_from_slice(rr.owner);
        }
        out.extend_from_slice(&rr.rtype.to_be_bytes());
        out.extend_from_slice(&rr.class.to_be_bytes());
        out.extend_from_slice(&rr.ttl.to_be_bytes());
        out.extend_from_slice(&(rr.rdata.len() as u16).to_be_bytes());
        out.extend_from_slice(rr.rdata);
        true
    }

    /// Appends all records of another one about the same zone; false where a section cannot count them.
    #[must_use]
    pub fn append(&mut self, other: &Self) -> bool {
        let sum = |n: usize| self.counts[n].checked_add(other.counts[n]);
        let (Some(prerequisites), Some(updates)) = (sum(0), sum(1)) else { return false };
        self.counts = [prerequisites, updates];
        self.prerequisites.extend_from_slice(&other.prerequisites);
        self.updates.extend_from_slice(&other.updates);
        true
    }

    /// Appends the message, its id zero.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0, 0, UPDATE, 0, 0, 1]);
        out.extend_from_slice(&self.counts[0].to_be_bytes());
        out.extend_from_slice(&self.counts[1].to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&self.zone);
        out.extend_from_slice(&rtype::SOA.to_be_bytes());
        out.extend_from_slice(&wire::class::IN.to_be_bytes());
        out.extend_from_slice(&self.prerequisites);
        out.extend_from_slice(&self.updates);
    }
}

/// Whether a message is an UPDATE; an answer to one has QR beside it.
pub fn is_update(message: &[u8]) -> bool {
    message.get(2).is_some_and(|b| b & 0x78 == UPDATE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::iana::{Class, Opcode, Rtype};
    use domain::base::name::Name;
    use domain::base::{Message, ParsedName, ToName};
    use domain::rdata::AllRecordData;

    #[test]
    fn domain_reads_what_is_written() {
        for (zone, owner, text) in [
            (&b"\x07example\x00"[..], &b"\x01a\x07eXample\x00"[..], "a.example"),
            (b"\x00", b"\x01a\x00", "a"),
            (b"\x01a\x00", b"\x01a\x00", "a"),
        ] {
            let mut builder = Builder::default();
            builder.begin(zone);
            let rr = Rr { owner, class: 1, rtype: 2, ttl: 300, rdata: b"\x02ns\x04test\x00" };
            assert!(builder.push(Section::Update, &rr));
            let gone = Rr { owner, class: 255, rtype: 255, ttl: 0, rdata: b"" };
            assert!(builder.push(Section::Prerequisite, &gone));
            let mut more = Builder::default();
            more.begin(zone);
            assert!(more.push(Section::Update, &Rr { rtype: 1, class: 254, rdata: &[10, 0, 0, 1], ..gone }));
            assert!(builder.append(&more));
            let mut bytes = Vec::new();
            builder.write(&mut bytes);
            assert_eq!((bytes.len(), is_update(&bytes)), (builder.len(), true));
            let message = Message::from_octets(bytes).unwrap();
            assert_eq!(message.header().opcode(), Opcode::UPDATE);
            let question = message.sole_question().unwrap();
            assert_eq!((question.qname().to_vec().as_slice(), question.qtype()), (zone, Rtype::SOA));
            let want: Name<Vec<u8>> = text.parse().unwrap();
            let prerequisite = message.answer().unwrap().next().unwrap().unwrap();
            assert_eq!((prerequisite.rtype(), prerequisite.class()), (Rtype::ANY, Class::ANY));
            let updates: Vec<_> = message.authority().unwrap().map(|r| r.unwrap()).collect();
            assert_eq!(updates.len(), 2);
            assert!(updates.iter().all(|r| r.owner() == want));
            let record =
                updates[0].clone().into_record::<AllRecordData<_, ParsedName<_>>>().unwrap().unwrap();
            assert_eq!(
                (record.data().to_string().trim_end_matches('.'), record.ttl().as_secs()),
                ("ns.test", 300)
            );
            assert_eq!((updates[1].rtype(), updates[1].class()), (Rtype::A, Class::NONE));
        }
    }
}
