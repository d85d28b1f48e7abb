//! Resource records of a message, with compression pointers (RFC 1035, sections 4.1.3 and 4.1.4): found without a copy,
//! and uncompressed into buffers of the caller's.

use crate::header::{Header, LEN};
use crate::name::MAX_NAME;
use crate::rtype;
use std::ops::Range;

/// Pointers followed in one name: each has a label before it, unless somebody plays tricks.
const POINTERS_MAX: usize = 127;
/// Octets between a record's owner and its data: type, class, TTL and length.
const FIXED: usize = 10;

/// Octets of a message that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at octet {at} of the message")]
pub struct Damaged {
    /// From the start of the message.
    pub at: usize,
    /// The fault.
    pub what: &'static str,
}

/// One record, where it is in its message.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    msg: &'a [u8],
    owner: usize,
    /// TYPE.
    pub rtype: u16,
    /// CLASS.
    pub class: u16,
    /// TTL in seconds.
    pub ttl: u32,
    data: Range<usize>,
}

/// The records of one section, or of several that follow each other; after damage there are no more.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    msg: &'a [u8],
    at: usize,
    left: usize,
}

/// The end of the name at `at`; `None` where it runs out of the message.
pub fn skip_name(msg: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *msg.get(at)? {
            0 => return Some(at + 1),
            len @ 1..=63 => at += 1 + usize::from(len),
            192.. => return Some(at + 2),
            _ => return None,
        }
    }
}

/// Appends the name at `at` to `out`, its pointers followed; where it ends in the message. `None` where it is damaged, and
/// `out` holds anything then.
pub fn append_name(msg: &[u8], mut at: usize, out: &mut Vec<u8>) -> Option<usize> {
    let (start, mut end, mut pointers) = (out.len(), None, 0);
    loop {
        let length = *msg.get(at)?;
        match length {
            0 => {
                out.push(0);
                return Some(end.unwrap_or(at + 1));
            }
            1..=63 => {
                out.extend_from_slice(msg.get(at..at + 1 + usize::from(length))?);
                at += 1 + usize::from(length);
                if out.len() - start >= MAX_NAME {
                    return None;
                }
            }
            0xc0.. => {
                let to = usize::from(length & 0x3f) << 8 | usize::from(*msg.get(at + 1)?);
                end = end.or(Some(at + 2));
                pointers += 1;
                // Pointers go backwards, or it would never end.
                if to >= at || pointers > POINTERS_MAX {
                    return None;
                }
                at = to;
            }
            _ => return None,
        }
    }
}

/// As [`append_name`], in place of what `out` has.
pub fn read_name(msg: &[u8], at: usize, out: &mut Vec<u8>) -> Option<usize> {
    out.clear();
    append_name(msg, at, out)
}

/// Octets before the names in the data of a type, and how many names there are: of the types of RFC 1035, which may be
/// compressed, and of those that RFC 3597 section 4 wants to be read that way.
fn names_in(rtype: u16, data: &[u8]) -> (usize, usize) {
    const MD: u16 = 3;
    const MR: u16 = 9;
    const MINFO: u16 = 14;
    const RP: u16 = 17;
    const AFSDB: u16 = 18;
    const RT: u16 = 21;
    const SIG: u16 = 24;
    const PX: u16 = 26;
    const NXT: u16 = 30;
    match rtype {
        rtype::NS | rtype::CNAME | rtype::PTR | rtype::DNAME | NXT | MD | 4 | 7 | 8 | MR => (0, 1),
        rtype::SOA | MINFO | RP => (0, 2),
        rtype::MX | AFSDB | RT => (2, 1),
        PX => (2, 2),
        rtype::SRV => (6, 1),
        SIG => (18, 1),
        rtype::NAPTR => {
            // Order, preference and three strings.
            let strings = (0..3).try_fold(4, |at, _| Some(at + 1 + usize::from(*data.get(at)?)));
            (strings.unwrap_or(data.len()), 1)
        }
        _ => (0, 0),
    }
}

impl Record<'_> {
    /// Octets that it takes in its message.
    #[allow(clippy::len_without_is_empty, reason = "none takes nothing")]
    pub fn len(&self) -> usize {
        self.data.end - self.owner
    }

    /// Replaces `out` by the owner, uncompressed.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn owner(&self, out: &mut Vec<u8>) -> Result<(), Damaged> {
        read_name(self.msg, self.owner, out)
            .map(drop)
            .ok_or(Damaged { at: self.owner, what: "a damaged owner" })
    }

    /// The data as they are in the message.
    pub fn raw_data(&self) -> &[u8] {
        &self.msg[self.data.clone()]
    }

    /// Replaces `out` by the data, names in them uncompressed.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn data(&self, out: &mut Vec<u8>) -> Result<(), Damaged> {
        out.clear();
        let raw = self.raw_data();
        let (before, names) = names_in(self.rtype, raw);
        let bad = Damaged { at: self.data.start, what: "damaged record data" };
        if raw.is_empty() && names > 0 {
            // As in a prerequisite of an update: the type without data.
            return Ok(());
        }
        out.extend_from_slice(raw.get(..before).ok_or(bad)?);
        let mut at = self.data.start + before;
        for _ in 0..names {
            at = append_name(self.msg, at, out).filter(|&end| end <= self.data.end).ok_or(bad)?;
        }
        out.extend_from_slice(&self.msg[at..self.data.end]);
        Ok(())
    }
}

impl<'a> Records<'a> {
    /// The records of the sections after the questions: 0 answers, 1 authority, 2 additional.
    ///
    /// # Errors
    /// [`Damaged`] where the message breaks off before that section.
    pub fn of(msg: &'a [u8], section: usize) -> Result<Self, Damaged> {
        let broken = |at| Damaged { at, what: "a message that breaks off" };
        let header = Header::new(msg).ok_or(broken(msg.len()))?;
        let mut at = LEN;
        for _ in 0..header.qdcount() {
            at = skip_name(msg, at).map(|end| end + 4).filter(|&end| end <= msg.len()).ok_or(broken(at))?;
        }
        let counts = [header.ancount(), header.nscount(), header.arcount()].map(usize::from);
        let mut records = Self { msg, at, left: counts[..section.min(2)].iter().sum() };
        for record in records.by_ref() {
            record?;
        }
        records.left = counts[section.min(2)];
        Ok(records)
    }

    fn read(&mut self) -> Option<Record<'a>> {
        let owner = self.at;
        let fixed_at = skip_name(self.msg, owner)?;
        let fixed: &[u8; FIXED] = self.msg.get(fixed_at..)?.first_chunk()?;
        let word = |i: usize| u16::from_be_bytes([fixed[i], fixed[i + 1]]);
        let data = fixed_at + FIXED..fixed_at + FIXED + usize::from(word(8));
        self.msg.get(data.clone())?;
        self.at = data.end;
        let ttl = u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
        Some(Record { msg: self.msg, owner, rtype: word(0), class: word(2), ttl, data })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let record = self.read();
        if record.is_none() {
            self.left = 0;
        }
        Some(record.ok_or(Damaged { at: self.at, what: "a record that breaks off" }))
    }
}

/// Fuzz entry point: every record of any octets, uncompressed.
///
/// # Panics
/// Where what is uncompressed is not what it is said to be: a bug.
pub fn fuzz_records(msg: &[u8]) {
    let (mut owner, mut data) = (Vec::new(), Vec::new());
    for section in 0..3 {
        let Ok(records) = Records::of(msg, section) else { continue };
        for record in records.map_while(Result::ok) {
            assert!(record.len() > FIXED && record.len() <= msg.len());
            if record.owner(&mut owner).is_ok() {
                assert_eq!(crate::name::wire_len(&owner), Some(owner.len()));
            }
            if record.data(&mut data).is_ok() {
                assert!(data.len() <= record.raw_data().len() + 2 * MAX_NAME);
                if names_in(record.rtype, record.raw_data()).1 == 0 {
                    assert_eq!(data, record.raw_data());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::iana::Class;
    use domain::base::{Message, MessageBuilder, Name, Rtype, Serial, StaticCompressor, Ttl};
    use domain::rdata::{AllRecordData, Mx, Ns, Soa, Srv};
    use proptest::prelude::*;
    use std::str::FromStr;

    fn name(text: &str) -> Name<Vec<u8>> {
        Name::from_str(text).unwrap()
    }

    /// A message by another hand, names compressed.
    fn sample() -> Vec<u8> {
        let target = StaticCompressor::new(Vec::new());
        let mut message = MessageBuilder::from_target(target).unwrap().question();
        message.push((name("example."), Rtype::AXFR)).unwrap();
        let mut message = message.answer();
        let ttl = Ttl::from_secs(3600);
        let soa = Soa::new(name("ns.example."), name("admin.example."), Serial(7), ttl, ttl, ttl, ttl);
        message.push((name("example."), Class::IN, ttl, soa)).unwrap();
        message.push((name("example."), Class::IN, ttl, Ns::new(name("ns.example.")))).unwrap();
        message.push((name("a.example."), Class::IN, ttl, Mx::new(10, name("mx.a.example.")))).unwrap();
        message
            .push((name("_s._tcp.example."), Class::IN, ttl, Srv::new(1, 2, 3, name("b.example."))))
            .unwrap();
        message.finish().into_target()
    }

    /// Owner, type and data of all answers by `domain`.
    fn theirs(msg: &[u8]) -> Vec<(Vec<u8>, u16, Vec<u8>)> {
        use domain::base::ToName;
        use domain::base::rdata::ComposeRecordData;
        let message = Message::from_octets(msg).unwrap();
        let mut all = Vec::new();
        for record in message.answer().unwrap() {
            let record = record.unwrap();
            let owner: Name<Vec<u8>> = record.owner().to_name();
            let record = record.to_any_record::<AllRecordData<_, _>>().unwrap();
            let mut data = Vec::new();
            record.data().compose_rdata(&mut data).unwrap();
            all.push((owner.as_slice().to_vec(), record.rtype().to_int(), data));
        }
        all
    }

    #[test]
    fn an_independent_reader_agrees() {
        let msg = sample();
        let (mut owner, mut data) = (Vec::new(), Vec::new());
        let mut ours = Vec::new();
        let mut octets = 0;
        for record in Records::of(&msg, 0).unwrap() {
            let record = record.unwrap();
            record.owner(&mut owner).unwrap();
            record.data(&mut data).unwrap();
            octets += record.len();
            ours.push((owner.clone(), record.rtype, data.clone()));
        }
        assert_eq!(ours, theirs(&msg));
        assert_eq!(
            (ours.len(), octets),
            (4, msg.len() - LEN - 9 - 4),
            "the header and the question are the rest"
        );
        assert!(ours.iter().map(|(owner, _, data)| owner.len() + FIXED + data.len()).sum::<usize>() > octets);
        assert_eq!(Records::of(&msg, 1).unwrap().count(), 0);
    }

    #[test]
    fn what_is_cut_or_turns_in_circles_is_damaged() {
        let msg = sample();
        for cut in 0..msg.len() {
            let cut = &msg[..cut];
            let whole = Records::of(cut, 0).is_ok_and(|mut records| records.all(|r| r.is_ok()));
            assert!(!whole, "cut at {}", cut.len());
            fuzz_records(cut);
        }
        // A pointer to itself, forwards, and more of them than a name can have labels.
        let mut out = Vec::new();
        assert_eq!(read_name(&[0xc0, 0], 0, &mut out), None);
        assert_eq!(read_name(&[0xc0, 2, 0], 0, &mut out), None);
        let mut chain = vec![0];
        (0..200u16).for_each(|n| chain.extend((0xc000 | (2 * n).saturating_sub(1)).to_be_bytes()));
        let last = |pointers: usize| read_name(&chain, 2 * pointers - 1, &mut Vec::new());
        assert_eq!((last(1), last(POINTERS_MAX)), (Some(3), Some(2 * POINTERS_MAX + 1)));
        assert_eq!(last(POINTERS_MAX + 1), None);
    }

    proptest! {
        #[test]
        fn any_octets_are_safe(msg in prop::collection::vec(any::<u8>(), 0..400)) {
            fuzz_records(&msg);
        }

        #[test]
        fn mutated_messages_are_safe(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
            let mut msg = sample();
            for (at, octet) in changes {
                let at = at.index(msg.len());
                msg[at] = octet;
            }
            fuzz_records(&msg);
        }
    }
}
