//! Whether a name exists, and which part of it is the zone's, by the answer or by the zone itself.

use traffic::Names;
use wire::{header::Header, name, opt, record::Records, rtype};

/// The existence on the name of a query. Names are in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existence {
    /// It exists, or an answer leads to it.
    Hit(Option<Place>),
    /// It does not exist.
    Miss(Option<Place>),
    /// It is not known: another code than NOERROR and NXDOMAIN, a name of no zone of the server.
    Neither,
}

/// Which part of a name is of the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of octets at its end: of a name that exists the delegation, or all where it is below none; of another the
    /// part that would have to exist first.
    pub octets: usize,
    /// Labels go before it as the asker likes.
    pub cut: bool,
}

/// The existence of an answer about the name that was asked for, `qname`.
pub(super) fn of_answer(answer: &[u8], qname: &[u8], qtype: u16, owner: &mut Vec<u8>) -> Existence {
    let Some(header) = Header::new(answer) else { return Existence::Neither };
    if opt::find(answer).is_some_and(|opt| opt.extended_rcode != 0) {
        return Existence::Neither;
    }
    match header.rcode() {
        0 => {
            // At a delegation the parent itself answers for DS alone (RFC 4035, section 3.1.4.1).
            let whole = Place { octets: qname.len(), cut: qtype == rtype::DS && qname.len() > 1 };
            if header.ancount() > 0 {
                return Existence::Hit(Some(whole));
            }
            match authority(answer, owner) {
                Some(rtype::NS) if owner.len() == 1 && qname.len() > 1 => Existence::Neither,
                Some(rtype::NS) if name::is_under(qname, owner) => {
                    Existence::Hit(Some(Place { octets: owner.len(), cut: true }))
                }
                Some(rtype::SOA) => Existence::Hit(Some(whole)),
                _ if header.tc() => Existence::Hit(None),
                _ => Existence::Neither,
            }
        }
        3 => match authority(answer, owner) {
            Some(rtype::SOA) if name::is_under(qname, owner) && qname.len() > owner.len() => {
                let above = name::label_count(qname) - name::label_count(owner) - 1;
                let first = (0..above).fold(qname, |name, _| name::parent(name));
                Existence::Miss(Some(Place { octets: first.len(), cut: true }))
            }
            _ => Existence::Miss(None),
        },
        _ => Existence::Neither,
    }
}

/// The existence of the zone.
pub(super) fn of_zone(zone: &Names, qname: &[u8]) -> Existence {
    let Some(found) = zone.locate(qname) else { return Existence::Neither };
    let place = Some(Place { octets: found.octets, cut: found.cut });
    if found.exists { Existence::Hit(place) } else { Existence::Miss(place) }
}

/// The type of the first NS or SOA record in the authority section, whose owner goes to `owner` in lower case.
fn authority(msg: &[u8], owner: &mut Vec<u8>) -> Option<u16> {
    let mut records = Records::of(msg, 1).ok()?.map_while(Result::ok);
    let record = records.find(|record| matches!(record.rtype, rtype::NS | rtype::SOA))?;
    record.owner(owner).ok()?;
    name::lowercase(owner);
    Some(record.rtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with a question for `www.example.com` A and these records: owner, type, data; how many are answers.
    fn message(flags: [u8; 2], answers: u8, records: &[(&[u8], u16, &[u8])]) -> Vec<u8> {
        let mut msg =
            vec![0, 1, 0x80 | flags[0], flags[1], 0, 1, 0, answers, 0, records.len() as u8 - answers, 0, 0];
        msg.extend_from_slice(b"\x03www\x07example\x03com\0\0\x01\0\x01");
        for (owner, rtype, data) in records {
            msg.extend_from_slice(owner);
            msg.extend_from_slice(&rtype.to_be_bytes());
            msg.extend_from_slice(&[0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
            msg.extend_from_slice(data);
        }
        msg
    }

    const QNAME: &[u8] = b"\x03www\x07example\x03com\0";

    fn existence(msg: &[u8], qtype: u16) -> Existence {
        of_answer(msg, QNAME, qtype, &mut Vec::new())
    }

    fn hit(octets: usize, cut: bool) -> Existence {
        Existence::Hit(Some(Place { octets, cut }))
    }

    #[test]
    fn answers_say_where_the_zone_is_cut() {
        // 12 octets of header, then the name: "com" is at 24, "example.com" at 16.
        let com: &[u8] = &[0xc0, 24];
        let referral = message([0, 0], 0, &[(com, 43, b"x"), (b"\x03COM\0", 2, b"\0"), (com, 2, b"\0")]);
        assert_eq!(existence(&referral, 1), hit(5, true));
        let answer = message([4, 0], 1, &[(&[0xc0, 12], 1, b"1234"), (com, 2, b"\0")]);
        assert_eq!(existence(&answer, 1), hit(QNAME.len(), false));
        assert_eq!(
            existence(&message([4, 0], 0, &[(com, 6, b"x")]), 1),
            hit(QNAME.len(), false),
            "no such type"
        );
        assert_eq!(existence(&message([4, 0], 0, &[(com, 6, b"x")]), rtype::DS), hit(QNAME.len(), true));
        let of_com = Existence::Miss(Some(Place { octets: 13, cut: true }));
        assert_eq!(existence(&message([4, 3], 0, &[(com, 47, b"x"), (com, 6, b"x")]), 1), of_com);
        let of_root = Existence::Miss(Some(Place { octets: 5, cut: true }));
        assert_eq!(existence(&message([4, 3], 0, &[(b"\0", 6, b"x")]), 1), of_root);
        assert_eq!(existence(&message([4, 3], 0, &[]), 1), Existence::Miss(None));
        assert_eq!(existence(&message([2, 0], 0, &[]), 1), Existence::Hit(None), "truncated");
        for other in
            [message([0, 5], 0, &[]), message([0, 0], 0, &[]), message([0, 0], 0, &[(b"\0", 2, b"\0")])]
        {
            assert_eq!(existence(&other, 1), Existence::Neither);
        }
    }

    #[test]
    fn broken_answers_say_nothing_and_end() {
        let good = message([4, 3], 0, &[(&[0xc0, 24], 6, b"x")]);
        let mut draw = measure::Seed(1).draw("fuzz", 0);
        for _ in 0..100_000 {
            let mut msg = good.clone();
            for _ in 0..=draw.below(4) {
                let at = draw.below(msg.len() as u64) as usize;
                msg[at] = draw.bits() as u8;
            }
            msg.truncate(draw.below(msg.len() as u64 + 1) as usize);
            if let Existence::Hit(Some(place)) | Existence::Miss(Some(place)) = existence(&msg, 1) {
                assert!(place.octets <= QNAME.len());
            }
        }
        let circle = message([4, 3], 0, &[(&[0xc0, 33], 6, b"x")]);
        assert_eq!(existence(&circle, 1), Existence::Miss(None));
    }
}
