//! Right answers are found right, and each corruption of them is found by its name. The answers are put together here
//! from the records of zones that `zone::sign` signed; those of real servers are in `server`'s tests.

use super::message::Set;
use super::*;
use proptest::prelude::*;
use std::io::Cursor;
use std::path::Path;
use std::sync::OnceLock;
use wire::name::Name;
use wire::rtype;
use zone::Scanner;
use zone::sign::{Algorithm, Nsec3, Options};

const ZONE: &str = "\
example. 3600 IN SOA ns.example. host.example. 7 1800 900 604800 300
@ NS ns
@ NS ns.other.
a A 192.0.2.1
a A 192.0.2.2
a TXT one
alias CNAME a
away CNAME www.other.
d DNAME target
x.ent A 192.0.2.3
ns A 192.0.2.53
secure NS ns.secure
secure NS ns.unsigned
secure DS 1 13 2 abcd
ns.secure A 192.0.2.4
ns.secure AAAA 2001:db8::4
x.target A 192.0.2.5
unsigned NS ns.unsigned
ns.unsigned A 192.0.2.6
*.w TXT wild
";

#[derive(Clone, Debug, PartialEq)]
struct Rr {
    owner: Name,
    rtype: u16,
    ttl: u32,
    rdata: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Denial {
    Unsigned,
    Nsec,
    Nsec3,
    OptOut,
}

/// A zone file, and its records.
struct Zone {
    file: tempfile::NamedTempFile,
    denial: Denial,
    records: Vec<Rr>,
}

/// A zone of each kind of denial.
fn zones() -> &'static [Zone] {
    static ZONES: OnceLock<Vec<Zone>> = OnceLock::new();
    ZONES.get_or_init(|| {
        [Denial::Unsigned, Denial::Nsec, Denial::Nsec3, Denial::OptOut].map(Zone::new).into_iter().collect()
    })
}

impl Zone {
    fn new(denial: Denial) -> Self {
        let mut text = ZONE.as_bytes().to_vec();
        if denial != Denial::Unsigned {
            let source = Scanner::new(Cursor::new(ZONE), "test").with_origin(b"\x07example\0");
            let nsec3 = Nsec3 { opt_out: denial == Denial::OptOut, iterations: 2, salt: vec![0xab] };
            let options = Options {
                nsec3: (denial != Denial::Nsec).then_some(nsec3),
                ..Options::new(Algorithm::Ed25519, 1_700_000_000)
            };
            text.clear();
            zone::sign(
                &mut zone::sort::sorted(source, &mut |_| {}).unwrap(),
                &options,
                &mut text,
                &mut |_| {},
            )
            .unwrap();
        } else {
            text.splice(0..0, *b"$ORIGIN example.\n");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, text).unwrap();
        let (mut scanner, mut records) = (Scanner::open(file.path()).unwrap(), Vec::new());
        while let Some(r) = scanner.next().unwrap() {
            let owner = Name::from_wire(r.owner).unwrap();
            records.push(Rr { owner, rtype: r.rtype, ttl: r.ttl, rdata: r.rdata.to_vec() });
        }
        Self { file, denial, records }
    }

    fn signed(&self) -> bool {
        self.denial != Denial::Unsigned
    }

    /// An RRset, as `owner TYPE`, without signatures.
    fn plain(&self, what: &str) -> Vec<Rr> {
        let (owner, rtype) = split(what);
        let found: Vec<Rr> =
            self.records.iter().filter(|r| r.owner == owner && r.rtype == rtype).cloned().collect();
        assert!(!found.is_empty(), "{what}");
        found
    }

    /// An RRset with its signatures where the zone is signed and `dnssec` is wanted.
    fn set(&self, what: &str, dnssec: bool) -> Vec<Rr> {
        let (owner, rtype) = split(what);
        let mut records = self.plain(what);
        let signs = |r: &&Rr| {
            dnssec && r.owner == owner && r.rtype == rtype::RRSIG && r.rdata[..2] == rtype.to_be_bytes()
        };
        records.extend(self.records.iter().filter(signs).cloned());
        records
    }

    /// All of the zone's denial records with their signatures.
    fn denials(&self, dnssec: bool) -> Vec<Rr> {
        let denies = |t: u16| matches!(t, rtype::NSEC | rtype::NSEC3);
        let covered = |r: &Rr| u16::from_be_bytes([r.rdata[0], r.rdata[1]]);
        let wanted = |r: &&Rr| dnssec && (denies(r.rtype) || r.rtype == rtype::RRSIG && denies(covered(r)));
        self.records.iter().filter(wanted).cloned().collect()
    }

    fn check(&self, replies: &[Reply]) -> CheckResult {
        let bytes: Vec<Vec<u8>> = replies.iter().map(Reply::bytes).collect();
        self.check_bytes(&bytes)
    }

    fn check_bytes(&self, answers: &[Vec<u8>]) -> CheckResult {
        let target = "127.0.0.1:53".parse().unwrap();
        let samples = (0..).zip(answers);
        let samples =
            samples.map(|(at, bytes)| Sample { target, at, bytes: bytes.clone(), len: bytes.len() });
        verify(&CheckSpec::new(self.file.path()), samples.collect()).unwrap()
    }

    /// The faults of one answer.
    fn faults(&self, reply: &Reply) -> Vec<String> {
        let result = self.check(std::slice::from_ref(reply));
        assert_eq!(result.unchecked, BTreeMap::new(), "{reply:?}");
        assert_eq!(result.right == 1, result.wrong.is_empty());
        result.wrong.into_keys().collect()
    }
}

fn split(what: &str) -> (Name, u16) {
    let (owner, rtype) = what.split_once(' ').unwrap();
    (owner.parse().unwrap(), rtype::from_text(rtype).unwrap())
}

/// An answer to be.
#[derive(Clone, Debug)]
struct Reply {
    question: &'static str,
    rcode: u8,
    aa: bool,
    tc: bool,
    edns: Option<bool>,
    sections: [Vec<Rr>; 3],
}

impl Reply {
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let (qname, qtype) = split(self.question);
        wire::query::write(&mut out, 0, qname.as_wire(), qtype, None);
        out[2] = 0x80 | u8::from(self.aa) << 2 | u8::from(self.tc) << 1;
        out[3] = self.rcode;
        for (number, section) in self.sections.iter().enumerate() {
            let count = section.len() + usize::from(number == 2 && self.edns.is_some());
            out[6 + 2 * number..8 + 2 * number].copy_from_slice(&(count as u16).to_be_bytes());
            for r in section {
                out.extend_from_slice(r.owner.as_wire());
                out.extend_from_slice(&r.rtype.to_be_bytes());
                out.extend_from_slice(&[0, 1]);
                out.extend_from_slice(&r.ttl.to_be_bytes());
                out.extend_from_slice(&(r.rdata.len() as u16).to_be_bytes());
                out.extend_from_slice(&r.rdata);
            }
        }
        if let Some(dnssec) = self.edns {
            out.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, if dnssec { 0x80 } else { 0 }, 0, 0, 0]);
        }
        out
    }

    fn take(&mut self, section: usize, rtype: u16) {
        self.sections[section].retain(|r| r.rtype != rtype);
    }
}

/// A right answer of each kind.
fn right(zone: &Zone, dnssec: bool) -> Vec<Reply> {
    let reply =
        |question, sections| Reply { question, rcode: 0, aa: true, tc: false, edns: Some(dnssec), sections };
    let set = |what: &str| zone.set(what, dnssec);
    let proof = || zone.denials(dnssec);
    let negative = || {
        let mut soa = set("example. SOA");
        // The lesser of its TTL and its last field.
        soa.iter_mut().for_each(|r| r.ttl = 300);
        [soa, proof()].concat()
    };
    let glue = |names: &[&str]| names.iter().flat_map(|n| zone.plain(n)).collect::<Vec<_>>();
    let mut wild = set("*.w.example. TXT");
    wild.iter_mut().for_each(|r| r.owner = "b.c.w.example.".parse().unwrap());
    let made = Rr {
        owner: "x.d.example.".parse().unwrap(),
        rtype: rtype::CNAME,
        ttl: 3600,
        rdata: b"\x01x\x06target\x07example\0".to_vec(),
    };
    let ds = |name: &str| match (name, dnssec && zone.signed()) {
        (_, false) => vec![],
        ("secure", true) => set("secure.example. DS"),
        _ => proof(),
    };
    let mut all = vec![
        reply("A.Example. A", [set("a.example. A"), set("example. NS"), glue(&["ns.example. A"])]),
        reply(
            "alias.example. TXT",
            [[set("alias.example. CNAME"), set("a.example. TXT")].concat(), vec![], vec![]],
        ),
        reply("away.example. A", [set("away.example. CNAME"), vec![], vec![]]),
        reply(
            "x.d.example. A",
            [[set("d.example. DNAME"), vec![made], set("x.target.example. A")].concat(), vec![], vec![]],
        ),
        reply("b.c.w.example. TXT", [wild, proof(), vec![]]),
        reply("a.example. MX", [vec![], negative(), vec![]]),
        reply("ent.example. A", [vec![], negative(), vec![]]),
        reply("c.w.example. A", [vec![], negative(), vec![]]),
        reply("unsigned.example. DS", [vec![], negative(), vec![]]),
        reply("example. DS", [vec![], negative(), vec![]]),
        reply("secure.example. DS", [set("secure.example. DS"), vec![], vec![]]),
        reply("a.example. ANY", [[set("a.example. A"), set("a.example. TXT")].concat(), vec![], vec![]]),
    ];
    let mut none = reply("no.x.ent.example. A", [vec![], negative(), vec![]]);
    none.rcode = 3;
    all.push(none.clone());
    none.question = "nothing.example. A";
    all.push(none);
    for (question, name, servers) in [
        ("www.secure.example. A", "secure", &["ns.secure.example. A", "ns.secure.example. AAAA"][..]),
        ("unsigned.example. A", "unsigned", &["ns.unsigned.example. A"]),
    ] {
        let ns = zone.plain(&format!("{name}.example. NS"));
        let mut referral = reply(question, [vec![], [ns, ds(name)].concat(), glue(servers)]);
        referral.aa = false;
        all.push(referral);
    }
    all
}

#[test]
fn right_answers_are_right() {
    for zone in zones() {
        for dnssec in [false, true] {
            for reply in right(zone, dnssec) {
                assert_eq!(zone.faults(&reply), [""; 0], "{:?} {reply:#?}", zone.denial);
            }
            let result = zone.check(&right(zone, dnssec));
            let kinds: Vec<_> = result.kinds.iter().map(|(k, n)| (k.as_str(), *n)).collect();
            let expected =
                [("alias", 3), ("answer", 3), ("nodata", 5), ("nxdomain", 2), ("referral", 2), ("some", 1)];
            assert_eq!(kinds, expected);
            assert_eq!((result.sampled, result.right), (16, 16));
            assert_eq!(result.dnssec, if dnssec && zone.signed() { 16 } else { 0 });
            assert_eq!(result.signatures > 10, dnssec && zone.signed());
            let serials = &result.serials[0];
            assert_eq!((serials.first, serials.last, serials.answers, serials.back), (7, 7, 7, 0));
        }
    }
}

/// A corruption, the question it is for, and the fault it must be found as.
type Corruption = (&'static str, fn(&mut Reply, &Zone), &'static str);

const CORRUPTIONS: &[Corruption] = &[
    ("A.Example. A", |r, _| r.rcode = 2, "rcode"),
    ("A.Example. A", |r, _| r.rcode = 3, "rcode"),
    ("A.Example. A", |r, _| r.aa = false, "aa"),
    ("A.Example. A", |r, _| drop(r.sections[0].remove(0)), "incomplete_rrset"),
    ("A.Example. A", |r, _| r.take(0, rtype::A), "answer_missing"),
    ("A.Example. A", |r, _| r.sections[0][0].rdata[3] = 99, "foreign_record"),
    ("A.Example. A", |r, _| r.sections[0][0].ttl += 1, "ttl"),
    ("A.Example. A", |r, z| r.sections[0].extend(z.plain("a.example. TXT")), "answer_extra"),
    ("A.Example. A", |r, _| r.sections[0].push(r.sections[0][0].clone()), "duplicate_record"),
    ("A.Example. A", |r, _| r.sections[0][0].owner = "b.example.".parse().unwrap(), "foreign_record"),
    ("A.Example. A", |r, z| r.sections[1].extend(z.plain("example. SOA")), "authority_extra"),
    ("A.Example. A", |r, _| drop(r.sections[1].remove(0)), "incomplete_rrset"),
    ("A.Example. A", |r, _| r.sections[2][0].rdata[0] = 1, "foreign_record"),
    ("alias.example. TXT", |r, _| r.take(0, rtype::TXT), "answer_missing"),
    ("alias.example. TXT", |r, _| r.take(0, rtype::CNAME), "answer_missing"),
    ("away.example. A", |r, _| r.sections[0].clear(), "answer_missing"),
    ("x.d.example. A", |r, _| r.take(0, rtype::DNAME), "answer_missing"),
    ("x.d.example. A", |r, _| r.take(0, rtype::CNAME), "answer_missing"),
    (
        "x.d.example. A",
        |r, _| r.sections[0].iter_mut().filter(|r| r.rtype == rtype::CNAME).for_each(|r| r.rdata[1] = b'y'),
        "foreign_record",
    ),
    ("a.example. MX", |r, _| r.take(1, rtype::SOA), "soa_missing"),
    ("a.example. MX", |r, _| r.rcode = 3, "rcode"),
    ("a.example. MX", |r, _| r.sections[1][0].ttl = 3600, "negative_ttl"),
    ("a.example. MX", |r, z| r.sections[1].extend(z.plain("example. NS")), "authority_extra"),
    ("a.example. MX", |r, z| r.sections[0].extend(z.plain("a.example. TXT")), "answer_extra"),
    ("a.example. MX", |r, _| r.sections[1][0].rdata[33] ^= 1, "foreign_record"),
    ("ent.example. A", |r, _| r.rcode = 3, "rcode"),
    ("no.x.ent.example. A", |r, _| r.rcode = 0, "rcode"),
    ("nothing.example. A", |r, _| r.aa = false, "aa"),
    ("nothing.example. A", |r, _| r.take(1, rtype::SOA), "soa_missing"),
    ("www.secure.example. A", |r, _| r.aa = true, "aa"),
    ("www.secure.example. A", |r, _| drop(r.sections[1].remove(0)), "incomplete_rrset"),
    ("www.secure.example. A", |r, _| r.take(1, rtype::NS), "referral_missing"),
    ("www.secure.example. A", |r, _| r.take(2, rtype::A), "glue_incomplete"),
    ("www.secure.example. A", |r, _| r.take(2, rtype::AAAA), "glue_incomplete"),
    ("www.secure.example. A", |r, _| r.sections[2].clear(), "glue_missing"),
    ("www.secure.example. A", |r, _| r.rcode = 3, "rcode"),
    (
        "www.secure.example. A",
        |r, z| r.sections[1].extend(z.plain("unsigned.example. NS")),
        "authority_extra",
    ),
    ("www.secure.example. A", |r, z| r.sections[0].extend(z.plain("ns.secure.example. A")), "answer_extra"),
    ("a.example. ANY", |r, z| r.sections[0].extend(z.plain("ns.example. A")), "answer_extra"),
];

const WITH_DNSSEC: &[Corruption] = &[
    ("A.Example. A", |r, _| r.take(0, rtype::RRSIG), "rrsig_missing"),
    ("A.Example. A", |r, _| r.take(1, rtype::RRSIG), "rrsig_missing"),
    ("A.Example. A", |r, _| r.edns = Some(false), "dnssec_without_do"),
    ("A.Example. A", |r, _| r.edns = None, "dnssec_without_do"),
    ("a.example. MX", |r, _| r.take(1, rtype::RRSIG), "rrsig_missing"),
    ("secure.example. DS", |r, _| r.take(0, rtype::RRSIG), "rrsig_missing"),
    ("www.secure.example. A", |r, _| r.take(1, rtype::DS), "ds_missing"),
    ("www.secure.example. A", |r, _| r.take(1, rtype::RRSIG), "rrsig_missing"),
    ("b.c.w.example. TXT", |r, _| r.sections[1].clear(), "proof"),
    ("unsigned.example. A", |r, _| r.sections[1].retain(|r| r.rtype == rtype::NS), "proof"),
    ("unsigned.example. DS", |r, _| r.sections[1].retain(|r| r.rtype == rtype::SOA), "proof"),
    ("ent.example. A", |r, _| r.sections[1].retain(|r| r.rtype == rtype::SOA), "proof"),
    ("nothing.example. A", |r, _| r.sections[1].retain(|r| r.rtype == rtype::SOA), "proof"),
    (
        "A.Example. A",
        |r, _| r.sections[0].iter_mut().filter(|r| r.rtype == rtype::RRSIG).for_each(|r| r.rdata[40] ^= 1),
        "signature",
    ),
];

#[test]
fn every_corruption_is_found() {
    for zone in zones() {
        for dnssec in [false, true] {
            let more = if dnssec && zone.signed() { WITH_DNSSEC } else { &[] };
            for (n, (question, corrupt, fault)) in CORRUPTIONS.iter().chain(more).enumerate() {
                let mut replies = right(zone, dnssec);
                let reply = replies.iter_mut().find(|r| r.question == *question).unwrap();
                corrupt(reply, zone);
                let faults = zone.faults(reply);
                assert!(
                    faults.iter().any(|f| f == fault),
                    "{:?}, {n}: {question} {fault}: {faults:?}",
                    zone.denial
                );
            }
        }
    }
}

/// Denial records are taken away one by one as long as the answer stays right; then each that is left is needed.
#[test]
fn every_record_of_a_proof_is_needed() {
    let needed = |zone: &Zone, question: &str| {
        let mut reply = right(zone, true).into_iter().find(|r| r.question == question).unwrap();
        let denials: Vec<Rr> = zone.denials(true).into_iter().filter(|r| r.rtype != rtype::RRSIG).collect();
        let without = |reply: &Reply, denial: &Rr| {
            let mut less = reply.clone();
            less.sections[1].retain(|r| {
                let signs = r.rtype == rtype::RRSIG && r.rdata[..2] == denial.rtype.to_be_bytes();
                r.owner != denial.owner || !(signs || r == denial)
            });
            less
        };
        for denial in &denials {
            let less = without(&reply, denial);
            if zone.faults(&less).is_empty() {
                reply = less;
            }
        }
        let left: Vec<&Rr> = denials.iter().filter(|d| reply.sections[1].contains(d)).collect();
        for denial in &left {
            assert_eq!(zone.faults(&without(&reply, denial)), ["proof"], "{question}");
        }
        left.len()
    };
    for (denial, question, least, most) in [
        // RFC 4035 section 3.1.3: one record may prove two things.
        (Denial::Nsec, "nothing.example. A", 1, 2),
        (Denial::Nsec, "a.example. MX", 1, 1),
        (Denial::Nsec, "ent.example. A", 1, 1),
        (Denial::Nsec, "b.c.w.example. TXT", 1, 1),
        (Denial::Nsec, "unsigned.example. A", 1, 1),
        // RFC 5155 section 7.2: closest encloser, next closer name, wildcard.
        (Denial::Nsec3, "nothing.example. A", 1, 3),
        (Denial::Nsec3, "no.x.ent.example. A", 2, 3),
        (Denial::Nsec3, "a.example. MX", 1, 1),
        (Denial::Nsec3, "ent.example. A", 1, 1),
        (Denial::Nsec3, "b.c.w.example. TXT", 1, 1),
        (Denial::Nsec3, "unsigned.example. DS", 1, 1),
        (Denial::OptOut, "unsigned.example. A", 1, 2),
        (Denial::OptOut, "unsigned.example. DS", 1, 2),
    ] {
        let zone = zones().iter().find(|z| z.denial == denial).unwrap();
        let n = needed(zone, question);
        assert!((least..=most).contains(&n), "{denial:?} {question}: {n}");
    }
}

/// Whatever bit of an answer is turned over: it is found, unless the answer means the same.
#[test]
fn every_bit_counts() {
    for zone in zones() {
        let mut bytes = Vec::new();
        for reply in right(zone, true) {
            let good = reply.bytes();
            let question = wire::question::end(&good).unwrap();
            let meant = Answer::parse(&good).unwrap();
            // Of what comes late, mostly signatures, one bit an octet, another from octet to octet.
            let tried = |bit: usize| bit < 1200 || bit % 8 == bit / 8 % 8;
            for bit in (16..8 * good.len()).filter(|&bit| tried(bit) && !(96..8 * question).contains(&bit)) {
                let mut bad = good.clone();
                bad[bit / 8] ^= 0x80 >> (bit % 8);
                // A truncated answer need not be whole.
                let same = Answer::parse(&bad).is_ok_and(|answer| {
                    // DO is nothing to an unsigned zone, and to a question for everything.
                    let do_counts = zone.signed() && answer.qtype != rtype::ANY;
                    answer.means(&meant, do_counts) || answer.tc
                });
                if !same {
                    bytes.push((reply.question, bit, bad));
                }
            }
        }
        let answers: Vec<_> = bytes.iter().map(|(.., bad)| Some(Answer::parse(bad))).collect();
        let facts = Facts::read(zone.file.path(), answers.iter().flatten().flatten()).unwrap();
        let (comparisons, _) = compare_all(&facts, &answers);
        let passed =
            comparisons.iter().zip(&bytes).filter(|(j, _)| j.unchecked.is_none() && j.faults.is_empty());
        let passed: Vec<String> = passed.map(|(_, (q, bit, _))| format!("{q} octet {}", bit / 8)).collect();
        assert_eq!(passed, [""; 0], "{:?}: these do not count", zone.denial);
        assert!(comparisons.len() > 5_000);
    }
}

impl Answer {
    /// True where two answers mean the same.
    fn means(&self, other: &Self, do_counts: bool) -> bool {
        let key =
            |a: &Self| (a.opcode, a.aa, a.tc, a.rcode, a.wants_dnssec && do_counts, a.duplicate.clone());
        // Where an alias leads out of the zone, nobody knows what else there is.
        let away =
            |set: &&Set| self.qname != b"\x04away\x07example\0" || set.owner.ends_with(b"\x07example\0");
        let in_zone = |sets: &[Set]| sets.iter().filter(away).cloned().collect::<Vec<_>>();
        key(self) == key(other)
            && in_zone(&self.answer) == in_zone(&other.answer)
            && in_zone(&self.authority) == in_zone(&other.authority)
            && in_zone(&self.additional) == in_zone(&other.additional)
    }
}

#[test]
fn truncated_answers_are_compared_in_what_they_have() {
    let zone = &zones()[1];
    // A truncated answer to ANY says nothing at all.
    for mut reply in right(zone, true).into_iter().filter(|r| !r.question.ends_with("ANY")) {
        reply.tc = true;
        for section in &mut reply.sections {
            section.truncate(1);
        }
        assert_eq!(zone.faults(&reply), [""; 0], "{reply:?}");
        reply.sections.iter_mut().for_each(Vec::clear);
        assert_eq!(zone.check(&[reply.clone()]).truncated, 1);
        reply.rcode ^= 1;
        assert_eq!(zone.faults(&reply), ["rcode"]);
    }
}

#[test]
fn what_cannot_be_compared_is_counted_by_reason() {
    let zone = &zones()[0];
    let good = right(zone, false)[0].clone();
    let mut answers = vec![good.bytes(); 5];
    answers[0][2] |= 0x20;
    answers[1][26] = 3;
    let mut outside = good.clone();
    outside.question = "www.other. A";
    answers[2] = outside.bytes();
    outside.question = "example. AXFR";
    answers[3] = outside.bytes();
    answers[4].extend_from_slice(&[]);
    let result = zone.check_bytes(&answers);
    let reasons: Vec<&str> = result.unchecked.keys().map(String::as_str).collect();
    assert_eq!(reasons, ["class", "opcode", "outside_zone", "question_type"]);
    assert_eq!((result.sampled, result.checked, result.right), (5, 1, 1));
    let sample = Sample { target: "[::1]:53".parse().unwrap(), at: 0, bytes: good.bytes(), len: 9999 };
    let result = verify(&CheckSpec::new(zone.file.path()), vec![sample]).unwrap();
    assert_eq!(result.unchecked["cut_by_receiver"], 1);
}

#[test]
fn serials_are_followed_in_order_of_time() {
    let zone = &zones()[0];
    let sample = |serial: u32, at, target: &str| {
        let mut soa = zone.plain("example. SOA");
        let at_serial = soa[0].rdata.len() - 20;
        soa[0].rdata[at_serial..at_serial + 4].copy_from_slice(&serial.to_be_bytes());
        let reply = Reply {
            question: "example. SOA",
            rcode: 0,
            aa: true,
            tc: false,
            edns: None,
            sections: [soa, vec![], vec![]],
        };
        let bytes = reply.bytes();
        Sample { target: target.parse().unwrap(), at, len: bytes.len(), bytes }
    };
    let (a, b) = ("127.0.0.1:53", "127.0.0.2:53");
    // Out of order as they come: in order of time a's are 7, 8, 10, 9 and b's 7, 6.
    let samples = [
        sample(9, 4, a),
        sample(7, 1, a),
        sample(6, 9, b),
        sample(10, 3, a),
        sample(8, 2, a),
        sample(7, 5, b),
    ];
    let result = verify(&CheckSpec::new(zone.file.path()), samples.to_vec()).unwrap();
    let [first, second] = &result.serials[..] else { panic!("{:?}", result.serials) };
    assert_eq!((first.first, first.last, first.answers, first.changes, first.back), (7, 9, 4, 3, 1));
    assert_eq!((second.first, second.last, second.back), (7, 6, 1));
    assert_eq!((result.wrong["serial_went_back"], result.wrong["old_serial"]), (2, 1));
    assert_eq!(result.unchecked["newer_serial"], 2);
    assert_eq!(result.right, 2);
}

#[test]
fn results_add_up_and_examples_stay_few() {
    let zone = &zones()[0];
    let mut bad = right(zone, false)[0].clone();
    bad.aa = false;
    let result = zone.check(&vec![bad; 50]);
    assert_eq!((result.checked, result.right, result.wrong["aa"]), (50, 0, 50));
    assert_eq!(result.examples.len(), 3, "alike ones are left out");
    assert_eq!(result.examples[0].question, "a.example. A");
    let mut sum = result.clone();
    sum.merge(&result);
    assert_eq!((sum.sampled, sum.wrong["aa"], sum.examples.len()), (100, 100, 3));
    let json = serde_json::to_string(&sum).unwrap();
    assert_eq!(serde_json::from_str::<CheckResult>(&json).unwrap(), sum);
}

#[test]
fn a_zone_that_cannot_be_read_is_an_error() {
    let spec = CheckSpec::new("/nowhere/x.zone");
    assert!(spec.check().unwrap_err().to_string().contains("/nowhere/x.zone"));
    assert!(matches!(verify(&spec, Vec::new()), Err(Error::Zone(_))));
    let spec: CheckSpec = serde_json::from_str(r#"{"zone": "z"}"#).unwrap();
    assert_eq!(spec, CheckSpec::new(Path::new("z")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_octets_can_be_compared(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz_answer(&bytes, zones()[2].file.path());
    }

    #[test]
    fn mutated_answers_can_be_compared(which in 0usize..16, changes in prop::collection::vec((any::<u16>(), any::<u8>()), 1..6), cut: u16) {
        let zone = &zones()[2];
        let mut bytes = right(zone, true)[which].bytes();
        for (at, value) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = value;
        }
        bytes.truncate(bytes.len() - usize::from(cut) % 20);
        fuzz_answer(&bytes, zone.file.path());
    }
}
