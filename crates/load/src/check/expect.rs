//! The right answer of a server that has the zone (RFC 1034 section 4.3.2, RFC 4592, RFC 6672, RFC 4035 section 3.1).

use super::facts::{Facts, wildcard};
use super::message::Kind;
use std::borrow::Cow;
use wire::name::{self, MAX_NAME};
use wire::rtype;

/// Aliases followed; servers stop after 8 to 20.
const ALIASES: usize = 8;

/// An RRset that belongs into the answer section.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Whose it is in the answer.
    pub owner: Vec<u8>,
    /// Whose it is in the zone: the wildcard that was expanded, or the owner of the DNAME record it was made from.
    pub source: Vec<u8>,
    pub rtype: u16,
    /// Made from a DNAME record: the data of the one CNAME record.
    pub made: Option<Vec<u8>>,
}

/// How an answer ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With the RRset asked for.
    Answer,
    /// With some of the RRsets at this name: question types that ask for several.
    Some { source: Vec<u8> },
    /// The name exists, its RRset does not; `source` is another name where a wildcard was expanded.
    NoData { source: Vec<u8> },
    /// The name does not exist; the longest name above it that does.
    NoName { closest: Vec<u8> },
    /// Below or at this zone cut.
    Referral { cut: Vec<u8> },
    /// With an alias to a name outside the zone.
    Outside,
    /// A DNAME record would make too long a name (YXDOMAIN).
    TooLong,
    /// The right answer is not known, and why.
    Unknown(&'static str),
}

/// Zone cuts and aliases have NSEC records beside NS and CNAME; whether these are answered or the referral and the
/// alias, servers differ.
const NSEC_QUESTION: End = End::Unknown("nsec_question");

/// The right answer to a question.
#[derive(Debug)]
pub(super) struct Expected {
    pub steps: Vec<Step>,
    pub end: End,
    /// The last name asked for, aliases followed.
    pub name: Vec<u8>,
    /// Names that were answered from a wildcard, with the longest name above that exists.
    pub expanded: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The right answer to a question, by the zone's facts.
pub(super) fn expect(facts: &Facts, qname: &[u8], qtype: u16) -> Expected {
    let mut expected = Expected {
        steps: Vec::new(),
        end: End::Unknown("alias_chain"),
        name: qname.to_vec(),
        expanded: Vec::new(),
    };
    for _ in 0..=ALIASES {
        let from = expected.steps.len();
        match expected.follow(facts, qtype) {
            Some(end) => {
                expected.end = end;
                return expected;
            }
            // Round in a circle: servers differ in when they notice.
            None if expected.steps[..from].iter().any(|s| s.owner == expected.name) => break,
            None => {}
        }
    }
    expected
}

impl Expected {
    /// Looks a name up; `None` where it is an alias, and `self.name` the next one.
    fn follow(&mut self, facts: &Facts, qtype: u16) -> Option<End> {
        let name = self.name.clone();
        if !name::is_under(&name, &facts.apex) {
            return Some(End::Outside);
        }
        let mut path = vec![&name[..]];
        while path[path.len() - 1].len() > facts.apex.len() {
            path.push(name::parent(path[path.len() - 1]));
        }
        // From the apex down.
        let (mut closest, mut exists) = (&facts.apex[..], true);
        for &up in path.iter().rev() {
            let Some(node) = facts.node(up) else { return Some(End::Unknown("alias_not_shown")) };
            if !node.exists() {
                exists = false;
                break;
            }
            closest = up;
            let at_apex = up.len() == facts.apex.len();
            // The parent's side of a cut has the DS record (RFC 4035 section 3.1.4.1).
            let ds_here = qtype == rtype::DS && up.len() == name.len();
            if node.has(rtype::NS) && !at_apex && !ds_here {
                return Some(match qtype == rtype::NSEC && up.len() == name.len() {
                    false => End::Referral { cut: up.to_vec() },
                    true => NSEC_QUESTION,
                });
            }
            if up.len() < name.len()
                && let Some(dname) = node.set(Kind::plain(rtype::DNAME))
            {
                self.step(up, up, rtype::DNAME, None);
                let target = &dname.rdatas[0];
                let made = [&name[..name.len() - up.len()], target].concat();
                if made.len() > MAX_NAME {
                    return Some(End::TooLong);
                }
                self.step(&name, up, rtype::CNAME, Some(made.clone()));
                self.name = made;
                // The alias is what was asked for; with ANY, some servers stop there and others go on.
                return match qtype {
                    rtype::CNAME => Some(End::Answer),
                    rtype::ANY => Some(End::Unknown("any_below_dname")),
                    _ => None,
                };
            }
        }
        let mut source = Cow::Borrowed(&name[..]);
        if !exists {
            let star = wildcard(closest);
            if !facts.node(&star)?.exists() {
                return Some(End::NoName { closest: closest.to_vec() });
            }
            self.expanded.push((name.clone(), closest.to_vec()));
            source = star.into();
        }
        let node = facts.node(&source)?;
        if !exists && (node.has(rtype::NS) || node.has(rtype::DNAME)) {
            return Some(End::Unknown("wildcard_delegation"));
        }
        // Signatures may be had like any other data (RFC 4035 section 3.1), and servers differ about which.
        if matches!(qtype, rtype::ANY | rtype::RRSIG) {
            return Some(End::Some { source: source.into_owned() });
        }
        let alias = node.set(Kind::plain(rtype::CNAME));
        if let (Some(alias), false) = (alias, qtype == rtype::CNAME) {
            if qtype == rtype::NSEC {
                return Some(NSEC_QUESTION);
            }
            self.step(&name, &source, rtype::CNAME, None);
            self.name.clone_from(&alias.rdatas[0]);
            return None;
        }
        if node.has(qtype) && qtype != rtype::NSEC3 {
            self.step(&name, &source, qtype, None);
            return Some(End::Answer);
        }
        Some(End::NoData { source: source.into_owned() })
    }

    fn step(&mut self, owner: &[u8], source: &[u8], rtype: u16, made: Option<Vec<u8>>) {
        self.steps.push(Step { owner: owner.to_vec(), source: source.to_vec(), rtype, made });
    }
}
