//! One answer against what the zone says: every fault by its name.

mod dnssec;

use super::expect::{End, Expected, Step, expect};
use super::facts::{Facts, serial};
use super::message::{Answer, Kind, Set, find, show_name};
use super::signatures::Signatures;
use wire::name;
use wire::rtype;

/// A fault in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub name: &'static str,
    pub expected: String,
    pub got: String,
}

/// The comparison of one answer.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// The kind of answer that the zone asks for; empty where it was not looked up.
    pub kind: &'static str,
    pub faults: Vec<Fault>,
    /// Right, but not as it should be.
    pub odd: Vec<&'static str>,
    /// Why it could not be compared.
    pub unchecked: Option<&'static str>,
    /// It had to have signatures and proofs.
    pub dnssec: bool,
    pub serial: Option<u32>,
}

const NOERROR: u16 = 0;
const NXDOMAIN: u16 = 3;
const YXDOMAIN: u16 = 6;

/// Judges an answer.
pub(super) fn compare(facts: &Facts, answer: &Answer, signatures: &mut Signatures<'_>) -> Comparison {
    let mut comparison = Comparison { unchecked: out_of_scope(facts, answer), ..Comparison::default() };
    if comparison.unchecked.is_some() {
        return comparison;
    }
    let soa = |set: &&Set| set.kind.rtype == rtype::SOA && set.owner == facts.apex;
    comparison.serial = answer.sets().find(soa).map(|set| serial(&set.rdatas[0]));
    // Serial number arithmetic (RFC 1982).
    if comparison.serial.is_some_and(|s| (s.wrapping_sub(facts.serial) as i32) > 0) {
        comparison.unchecked = Some("newer_serial");
        return comparison;
    }
    let expected = expect(facts, &answer.qname, answer.qtype);
    comparison.kind = match &expected.end {
        End::Answer if expected.steps.len() > 1 => "alias",
        End::Answer => "answer",
        End::Some { .. } => "some",
        End::NoData { .. } => "nodata",
        End::NoName { .. } => "nxdomain",
        End::Referral { .. } => "referral",
        End::Outside | End::TooLong | End::Unknown("alias_not_shown") => "alias",
        End::Unknown(why) => {
            comparison.unchecked = Some(why);
            return comparison;
        }
    };
    let mut comparer = Comparer {
        facts,
        answer,
        expected: &expected,
        dnssec: answer.wants_dnssec && facts.is_signed(),
        faults: Vec::new(),
        odd: Vec::new(),
    };
    comparer.whole(signatures);
    Comparison { faults: comparer.faults, odd: comparer.odd, dnssec: comparer.dnssec, ..comparison }
}

/// Why the zone cannot say what the answer must be.
fn out_of_scope(facts: &Facts, answer: &Answer) -> Option<&'static str> {
    if answer.opcode != 0 {
        return Some("opcode");
    }
    if answer.qclass != facts.class {
        return Some("class");
    }
    if !name::is_under(&answer.qname, &facts.apex) {
        return Some("outside_zone");
    }
    // Meta types and transfers, ANY apart (RFC 6895 section 3.1).
    if answer.qtype == rtype::OPT || (128..255).contains(&answer.qtype) {
        return Some("question_type");
    }
    // PowerDNS sends who asks for ANY over UDP to TCP without looking at the name.
    if answer.tc && answer.qtype == rtype::ANY {
        return Some("any_truncated");
    }
    // BADVERS, BADCOOKIE and the like are about the query.
    (answer.rcode > 15).then_some("extended_rcode")
}

/// An answer that is compared.
struct Comparer<'a> {
    facts: &'a Facts,
    answer: &'a Answer,
    expected: &'a Expected,
    dnssec: bool,
    faults: Vec<Fault>,
    odd: Vec<&'static str>,
}

impl Comparer<'_> {
    fn fault(&mut self, name: &'static str, expected: impl ToString, got: impl ToString) {
        self.faults.push(Fault { name, expected: expected.to_string(), got: got.to_string() });
    }

    fn whole(&mut self, signatures: &mut Signatures<'_>) {
        self.header();
        if matches!(self.answer.rcode, NOERROR | NXDOMAIN | YXDOMAIN) {
            let answer = self.answer;
            if let Some(record) = &answer.duplicate {
                self.fault("duplicate_record", "each record once", record);
            }
            self.records();
            self.answer_section();
            self.authority_section();
            self.without_dnssec();
            if !answer.tc {
                self.glue();
            }
            if self.dnssec {
                self.signed();
                if !answer.tc {
                    self.proofs();
                }
                for set in [&answer.answer, &answer.authority, &answer.additional] {
                    self.faults.extend(signatures.check(self.facts, set));
                }
            }
        }
    }

    /// Response code and AA.
    fn header(&mut self) {
        let (answer, expected) = (self.answer, self.expected);
        let rcode = match expected.end {
            End::NoName { .. } => NXDOMAIN,
            End::TooLong => YXDOMAIN,
            // Another zone of the server may say more about it.
            End::Outside | End::Unknown(_) if answer.rcode == NXDOMAIN => NXDOMAIN,
            _ => NOERROR,
        };
        if answer.rcode != rcode {
            let text = |code: u16| wire::rcode::to_text(code as u8);
            self.fault("rcode", text(rcode), text(answer.rcode));
        }
        let referral = matches!(expected.end, End::Referral { .. }) && expected.steps.is_empty();
        // AA is about the first name (RFC 1035 section 4.1.1). A server that refuses claims nothing.
        if matches!(answer.rcode, NOERROR | NXDOMAIN) && answer.aa == referral {
            match referral {
                true => self.fault("aa", "AA clear: a referral", "AA set"),
                false => self.fault("aa", "AA set: an authoritative answer", "AA clear"),
            }
        }
    }

    /// Every record must be the zone's, with its TTL, and in whole RRsets.
    fn records(&mut self) {
        let (facts, answer) = (self.facts, self.answer);
        // A question for everything may get nothing.
        let negative =
            matches!(self.expected.end, End::NoData { .. } | End::NoName { .. } | End::Some { .. });
        for (number, section) in
            [&answer.answer, &answer.authority, &answer.additional].into_iter().enumerate()
        {
            for set in section {
                if !name::is_under(&set.owner, &facts.apex) {
                    // Another zone of the server may have more about an alias, and addresses of names in the answer:
                    // data of NS, MX and SRV end with a name.
                    let names = |s: &Set| s.rdatas.iter().any(|rdata| rdata.ends_with(&set.owner));
                    let named = || {
                        [set.kind.rtype, set.kind.covered].iter().any(|t| [rtype::A, rtype::AAAA].contains(t))
                            && answer.answer.iter().chain(&answer.authority).any(names)
                    };
                    if self.expected.end != End::Outside && !(number == 2 && named()) {
                        self.fault("foreign_record", "records of the zone", shown(set));
                    }
                    continue;
                }
                // A question for the SOA has it in the answer section.
                let negative =
                    negative && number == 1 && [set.kind.rtype, set.kind.covered].contains(&rtype::SOA);
                self.one_set(set, negative);
            }
        }
    }

    fn one_set(&mut self, set: &Set, negative: bool) {
        let (facts, answer, expected) = (self.facts, self.answer, self.expected);
        let steps = &expected.steps;
        let made = |s: &&Step| s.owner == set.owner && s.made.is_some();
        if let Some(step) = steps.iter().find(made)
            && set.kind == Kind::plain(rtype::CNAME)
        {
            let target = step.made.clone().unwrap_or_default();
            if set.rdatas[..] != [target.clone()] {
                self.fault(
                    "foreign_record",
                    format!("CNAME {}, from the DNAME", show_name(&target)),
                    shown(set),
                );
            }
            // RFC 6672 section 3.1; RFC 2672 had zero.
            let dname = facts.set(&step.source, Kind::plain(rtype::DNAME));
            let right = |ttl: &u32| *ttl == 0 || dname.is_some_and(|d| d.ttls.contains(ttl));
            if let Some(ttl) = set.ttls.iter().find(|ttl| !right(ttl)) {
                self.fault("ttl", format!("{}: the DNAME's", shown(set)), ttl);
            }
            return;
        }
        let source = match &expected.end {
            End::Some { source } if set.owner == expected.name => source,
            _ => steps.iter().find(|s| s.owner == set.owner).map_or(&set.owner, |s| &s.source),
        };
        let Some(zone) = facts.set(source, set.kind) else {
            // RFC 8482 section 4.2: servers may make up a HINFO record for ANY.
            if !(answer.qtype == rtype::ANY && set.kind.rtype == rtype::HINFO) {
                self.fault("foreign_record", format!("no {} at {}", set.kind, show_name(source)), shown(set));
            }
            return;
        };
        if let Some(odd) = set.rdatas.iter().find(|r| !zone.has(r)) {
            let [wanted, odd] = [&zone.rdatas[0], odd].map(|r| show_data(set.kind.rtype, r));
            let wanted = match &zone.rdatas[..] {
                [_] => wanted,
                all => format!("{wanted} and {} more", all.len() - 1),
            };
            let owner = show_name(&set.owner);
            self.fault(
                "foreign_record",
                format!("{owner} {} {wanted}", set.kind),
                format!("{owner} {} {odd}", set.kind),
            );
        } else if set.rdatas.len() < zone.rdatas.len() && !answer.tc {
            self.fault(
                "incomplete_rrset",
                format!("{} records of {}", zone.rdatas.len(), shown(set)),
                set.rdatas.len(),
            );
        }
        let ttls = match negative {
            // RFC 2308 section 3; BIND gives zero to who asks for the SOA (zero-no-soa-ttl).
            true => {
                let ttl = zone.ttls.iter().copied().min().unwrap_or(0).min(self.minimum());
                if answer.qtype == rtype::SOA { vec![ttl, 0] } else { vec![ttl] }
            }
            false => zone.ttls.clone(),
        };
        if let Some(ttl) = set.ttls.iter().find(|ttl| !ttls.contains(ttl)) {
            let name = if negative { "negative_ttl" } else { "ttl" };
            self.fault(name, format!("{} {ttls:?}", shown(set)), ttl);
        }
    }

    /// The SOA's last field.
    fn minimum(&self) -> u32 {
        let soa = self.facts.set(&self.facts.apex, Kind::plain(rtype::SOA));
        let minimum = soa.and_then(|soa| soa.rdatas[0].last_chunk::<4>());
        minimum.map_or(u32::MAX, |m| u32::from_be_bytes(*m))
    }

    /// The RRsets that answer, and no others.
    fn answer_section(&mut self) {
        let (answer, expected) = (self.answer, self.expected);
        if !answer.tc {
            for step in &expected.steps {
                if find(&answer.answer, &step.owner, Kind::plain(step.rtype)).is_none() {
                    let what = super::message::show(&step.owner, step.rtype);
                    self.fault("answer_missing", what, "not in the answer section");
                }
            }
        }
        for set in &answer.answer {
            let asked = |rtype| expected.steps.iter().any(|s| s.owner == set.owner && s.rtype == rtype);
            let right = match &expected.end {
                End::Some { .. } if set.owner == expected.name => true,
                End::Outside if !name::is_under(&set.owner, &self.facts.apex) => true,
                End::Unknown(_) => true,
                _ => asked(if set.kind.rtype == rtype::RRSIG { set.kind.covered } else { set.kind.rtype }),
            };
            if !right {
                self.fault("answer_extra", "only what was asked for", shown(set));
            }
        }
    }

    /// The name servers of a referral, the SOA of a negative answer, and nothing that does not belong there.
    fn authority_section(&mut self) {
        let (facts, answer, expected) = (self.facts, self.answer, self.expected);
        let (needed, allowed): (Option<(&[u8], u16)>, &[u16]) = match &expected.end {
            End::Referral { cut } => (Some((cut, rtype::NS)), &[rtype::NS, rtype::DS]),
            End::NoData { .. } | End::NoName { .. } => (Some((&facts.apex, rtype::SOA)), &[rtype::SOA]),
            End::Answer | End::TooLong => (None, &[rtype::NS]),
            // A server may have nothing of what was asked for (RFC 8482 section 4.1), or leave signatures out.
            End::Some { .. } => (None, &[rtype::NS, rtype::SOA]),
            End::Outside | End::Unknown(_) => return,
        };
        let place = needed.map_or(&facts.apex[..], |(owner, _)| owner);
        if let Some((owner, rtype)) = needed.filter(|_| !answer.tc)
            && find(&answer.authority, owner, Kind::plain(rtype)).is_none()
        {
            let name = if rtype == rtype::NS { "referral_missing" } else { "soa_missing" };
            self.fault(name, super::message::show(owner, rtype), "not in the authority section");
        }
        for set in &answer.authority {
            let rtype = if set.kind.rtype == rtype::RRSIG { set.kind.covered } else { set.kind.rtype };
            let proof = matches!(rtype, rtype::NSEC | rtype::NSEC3);
            let belongs = proof || set.owner == place && allowed.contains(&rtype);
            if !belongs {
                let types: Vec<String> = allowed.iter().map(|t| wire::rtype::to_text(*t)).collect();
                self.fault(
                    "authority_extra",
                    format!("{} of {}", types.join(", "), show_name(place)),
                    shown(set),
                );
            }
        }
    }

    /// A referral's glue: the addresses of the name servers at or below the cut (RFC 9471 section 3.1). Without any,
    /// the delegation is lost; servers of before RFC 9471 leave some out of small answers.
    fn glue(&mut self) {
        let End::Referral { cut } = &self.expected.end else { return };
        let Some(servers) = self.facts.set(cut, Kind::plain(rtype::NS)) else { return };
        let (mut there, mut missing) = (false, Vec::new());
        for server in servers.rdatas.iter().filter(|server| name::is_under(server, cut)) {
            for rtype in [rtype::A, rtype::AAAA] {
                let kind = Kind::plain(rtype);
                if self.facts.set(server, kind).is_some() {
                    match find(&self.answer.additional, server, kind) {
                        Some(_) => there = true,
                        None => missing.push(super::message::show(server, rtype)),
                    }
                }
            }
        }
        if !missing.is_empty() {
            let name = if there { "glue_incomplete" } else { "glue_missing" };
            self.fault(name, missing.join(", "), "not in the additional section, and TC clear");
        }
    }
}

fn shown(set: &Set) -> String {
    format!("{} {}", show_name(&set.owner), set.kind)
}

/// Record data as a zone file has them.
fn show_data(rtype: u16, rdata: &[u8]) -> String {
    let mut text = Vec::new();
    zone::text::write_rdata(rtype, rdata, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
