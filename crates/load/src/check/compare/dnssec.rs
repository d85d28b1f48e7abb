//! DNSSEC in answers: signatures and proofs where they are wanted, and none where they are not.

use super::{Comparer, shown};
use crate::check::expect::End;
use crate::check::message::{Kind, find, same_data, show};
use crate::check::proof::{Claim, Proof};
use wire::rtype;

impl Comparer<'_> {
    /// A query without the DO bit gets no DNSSEC records (RFC 4035 section 3.1).
    pub(super) fn without_dnssec(&mut self) {
        let answer = self.answer;
        if answer.wants_dnssec {
            return;
        }
        let asked = |rtype| answer.qtype == rtype || answer.qtype == rtype::ANY;
        if let Some(set) = answer.sets().find(|set| set.kind.is_dnssec() && !asked(set.kind.rtype)) {
            self.fault("dnssec_without_do", "none: the query has no DO", shown(set));
        }
        if answer.authority.iter().any(|set| set.kind.rtype == rtype::DS) {
            self.odd.push("ds_without_do");
        }
    }

    /// Every RRset of answer and authority with the signatures that the zone has for it.
    pub(super) fn signed(&mut self) {
        let (facts, answer, expected) = (self.facts, self.answer, self.expected);
        if answer.tc || matches!(expected.end, End::Some { .. }) {
            return;
        }
        for section in [&answer.answer, &answer.authority] {
            for set in section.iter().filter(|set| set.kind.rtype != rtype::RRSIG) {
                let step = expected.steps.iter().find(|s| s.owner == set.owner);
                let source = step.map_or(&set.owner, |s| &s.source);
                let kind = Kind::rrsig(set.kind.rtype);
                let Some(zone) = facts.set(source, kind) else { continue };
                let here = find(section, &set.owner, kind);
                let has = |r: &Vec<u8>| {
                    here.is_some_and(|here| here.rdatas.iter().any(|h| same_data(rtype::RRSIG, h, r)))
                };
                let there = zone.rdatas.iter().filter(|r| has(r)).count();
                // One that is there in part was reported as incomplete.
                if there == 0 {
                    self.fault("rrsig_missing", format!("RRSIG of {}", shown(set)), "none in its section");
                }
            }
        }
        if let End::Referral { cut } = &expected.end
            && facts.set(cut, Kind::plain(rtype::DS)).is_some()
            && find(&answer.authority, cut, Kind::plain(rtype::DS)).is_none()
        {
            self.fault("ds_missing", show(cut, rtype::DS), "not in the authority section");
        }
    }

    /// Denial of existence wherever something does not exist.
    pub(super) fn proofs(&mut self) {
        let expected = self.expected;
        let proof = Proof::new(self.facts, self.answer);
        let name = &expected.name[..];
        let qtype = self.answer.qtype;
        let mut claims = Vec::new();
        for (expanded, closest) in &expected.expanded {
            let last = expanded == name;
            match &expected.end {
                End::NoData { .. } if last => {
                    claims.push(Claim::NoDataAtWildcard { name, closest, rtype: qtype });
                }
                End::Some { .. } if last => {}
                _ => claims.push(Claim::Expanded { name: expanded, closest }),
            }
        }
        match &expected.end {
            End::NoName { closest } => claims.push(Claim::NoName { name, closest }),
            End::NoData { source } if source == name => claims.push(Claim::NoData { name, rtype: qtype }),
            End::Referral { cut } if self.facts.set(cut, Kind::plain(rtype::DS)).is_none() => {
                claims.push(Claim::Unsigned { cut });
            }
            _ => {}
        }
        for claim in claims {
            if let Err(missing) = proof.proves(claim) {
                let got: Vec<String> = self
                    .answer
                    .authority
                    .iter()
                    .filter(|s| matches!(s.kind.rtype, rtype::NSEC | rtype::NSEC3))
                    .map(shown)
                    .collect();
                let got = if got.is_empty() { "no NSEC or NSEC3".to_owned() } else { got.join(", ") };
                self.fault("proof", missing, got);
            }
        }
    }
}
