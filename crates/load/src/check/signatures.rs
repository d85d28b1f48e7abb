//! Signatures verified, each once.

use super::compare::Fault;
use super::facts::Facts;
use super::message::{Kind, Set, find, show_name};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::rtype;
use zone::sign::verify::{Rrsig, Verification, verify};

/// The verdicts of one thread, and how many signatures all threads verified.
pub(super) struct Signatures<'a> {
    keys: Vec<&'a [u8]>,
    /// By a hash of owner, signature and records: chance alone makes two equal.
    known: HashMap<(u64, u64), Verification>,
    verified: &'a AtomicU64,
}

impl<'a> Signatures<'a> {
    pub fn new(facts: &'a Facts, verified: &'a AtomicU64) -> Self {
        Self { keys: facts.keys(), known: HashMap::new(), verified }
    }

    /// Verifies the signatures of a section over the RRsets in it.
    pub fn check(&mut self, facts: &Facts, section: &[Set]) -> Vec<Fault> {
        let mut faults = Vec::new();
        for set in section.iter().filter(|set| set.kind.rtype == rtype::RRSIG) {
            // Records that are not in the answer cannot be verified; the query may have asked for a signature alone.
            let Some(covered) = find(section, &set.owner, Kind::plain(set.kind.covered)) else { continue };
            for rdata in &set.rdatas {
                let why = match self.verdict(facts, covered, rdata) {
                    Verification::Valid | Verification::Unknown => continue,
                    Verification::Wrong => "it does not verify",
                    Verification::NoKey => "the zone has no DNSKEY of its algorithm and tag",
                };
                let expected = format!("a signature over {} {}", show_name(&covered.owner), covered.kind);
                faults.push(Fault { name: "signature", expected, got: why.to_owned() });
            }
        }
        faults
    }

    fn verdict(&mut self, facts: &Facts, covered: &Set, rdata: &[u8]) -> Verification {
        let Some(rrsig) = Rrsig::parse(rdata).filter(|rrsig| rrsig.signer == facts.apex) else {
            return Verification::Wrong;
        };
        let records: Vec<&[u8]> = covered.rdatas.iter().map(|r| &r[..]).collect();
        let hash = wire::question::hash_octets;
        let key = (hash(&[rdata, &covered.owner].concat()), hash(&records.concat()));
        *self.known.entry(key).or_insert_with(|| {
            let verdict = verify(&covered.owner, facts.class, &records, &rrsig, &self.keys);
            self.verified.fetch_add(u64::from(verdict == Verification::Valid), Ordering::Relaxed);
            verdict
        })
    }
}
