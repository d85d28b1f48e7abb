//! Answers checked in full against the zone that the server has (`--check-against`), by sample.
//!
//! While the load runs, a [`Sampler`] a worker keeps a bounded uniform sample of the answers; [`verify`] then reads the
//! zone file once and compares each with it:
//!
//! * what kind of answer the question gets (answer, alias, referral, NODATA, NXDOMAIN; wildcards, empty non-terminals,
//!   DNAME), with its response code and AA (RFC 1034 section 4.3.2, RFC 4592, RFC 6672, RFC 6604);
//! * that every record is the zone's, in whole RRsets, with its TTL (that of a negative answer's SOA: RFC 2308);
//! * a referral's name servers and the glue it needs (RFC 9471);
//! * with DO: signatures, which are verified with the zone's keys, DS or the proof that there is none, and NSEC or
//!   NSEC3 that prove what does not exist (RFC 4035 section 3.1, RFC 5155 section 7.2); without DO: none of it;
//! * that the SOA serial never goes back (RFC 1982).
//!
//! A truncated answer need not be complete; what it has must be right. The zone file has to be what the server serves:
//! answers from a newer serial are counted, not compared, and a server that signs by itself must be asked for its zone
//! first. Whether a query had DO is read from the answer, where servers repeat it (RFC 3225 section 3); so
//! [`CheckResult::dnssec`] should be near the share of DO in the queries. Times of signatures are not checked: zones may
//! be signed for another day.

mod compare;
mod expect;
mod facts;
mod message;
mod proof;
mod sampler;
mod signatures;

pub use sampler::{Sample, Sampler};

use crate::{Error, counts};
use compare::{Comparison, Fault, compare};
use facts::Facts;
use measure::{Metric, Seed, metrics};
use message::Answer;
use serde::{Deserialize, Serialize};
use signatures::Signatures;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

/// The zone to check answers against, and how many to check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckSpec {
    /// The zone file as the server has it.
    pub zone: PathBuf,
    /// How many answers to keep and check at most.
    #[serde(default = "default_sample")]
    pub sample: u32,
    /// Which answers are drawn.
    #[serde(default)]
    pub seed: Seed,
}

fn default_sample() -> u32 {
    CheckSpec::SAMPLE
}

impl CheckSpec {
    /// The usual size of the sample.
    pub const SAMPLE: u32 = 10_000;

    /// The usual sample against a zone file.
    pub fn new(zone: impl Into<PathBuf>) -> Self {
        Self { zone: zone.into(), sample: Self::SAMPLE, seed: Seed::default() }
    }

    /// The sampler of a worker.
    pub fn sampler(&self, worker: u32) -> Sampler {
        Sampler::new(self.sample, self.seed, worker)
    }

    /// Sees that the zone file can be read, so that a long load does not end in vain.
    ///
    /// # Errors
    /// [`zone::Error`] where the first record cannot be read.
    pub fn check(&self) -> Result<(), Error> {
        zone::Scanner::open(&self.zone)?.next()?;
        Ok(())
    }
}

/// The faults of an answer that lacks glue.
pub const GLUE: [&str; 2] = ["glue_missing", "glue_incomplete"];

/// Examples of wrong answers kept, and of each fault.
const EXAMPLES: usize = 20;
const EXAMPLES_OF_A_FAULT: usize = 3;

/// A wrong answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// Name and type.
    pub question: String,
    /// The server.
    pub target: SocketAddr,
    /// As in [`CheckResult::wrong`].
    pub fault: String,
    /// The right answer, by the zone.
    pub expected: String,
    /// The answer that came.
    pub got: String,
}

/// The serials of one target's answers, in the order they were received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serials {
    /// The server.
    pub target: SocketAddr,
    /// Sampled answers with a SOA record.
    pub answers: u64,
    /// The first.
    pub first: u32,
    /// The last.
    pub last: u32,
    /// How often it was another than before.
    pub changes: u64,
    /// How often it was less than before (RFC 1982): also among the faults, as `serial_went_back`.
    pub back: u64,
}

/// The result of checking sampled answers. `sampled = checked + Σ unchecked`; an answer with several faults counts
/// once under each, so `checked - right` is the number of answers with a fault.
///
/// Faults: `rcode`, `aa`, `malformed`, `duplicate_record`, `foreign_record` (not the zone's), `incomplete_rrset`,
/// `ttl`, `negative_ttl`, `answer_missing`, `answer_extra`, `referral_missing` (the NS RRset), `soa_missing`,
/// `authority_extra`, `glue_missing` (all of it), `glue_incomplete` (some of it, although TC is clear), `ds_missing`,
/// `rrsig_missing`, `signature` (does not verify), `proof` (NSEC or NSEC3 that do not prove what they must),
/// `dnssec_without_do`, `old_serial` (before the zone file's), `serial_went_back`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckResult {
    /// Answers in the sample.
    pub sampled: u64,
    /// Answers that could be compared.
    pub checked: u64,
    /// Answers without a fault.
    pub right: u64,
    /// Answers whose only fault is that they lack glue, although TC is clear. Before RFC 9471 (2023) servers were free to leave it out.
    #[serde(default)]
    pub lack_glue: u64,
    /// Compared answers that were truncated: compared in part only.
    pub truncated: u64,
    /// Judged answers that had to have signatures and proofs: DO, and the zone is signed.
    pub dnssec: u64,
    /// Different signatures that were verified, and are valid.
    pub signatures: u64,
    /// The kinds of the questions: `answer`, `alias`, `some` (ANY, RRSIG), `nodata`, `nxdomain`, `referral`.
    pub kinds: BTreeMap<String, u64>,
    /// Faults, and how many answers have each.
    pub wrong: BTreeMap<String, u64>,
    /// Oddities in answers that harm nobody: `ds_without_do`.
    pub odd: BTreeMap<String, u64>,
    /// Why answers could not be compared: `newer_serial`, `outside_zone`, `class`, `opcode`, `question_type`,
    /// `extended_rcode`, `cut_by_receiver`, `alias_chain`, `wildcard_delegation`, and where servers rightly differ
    /// `any_truncated`, `any_below_dname`, `nsec_question`.
    pub unchecked: BTreeMap<String, u64>,
    /// One for each target whose answers had serials.
    pub serials: Vec<Serials>,
    /// Some of the wrong answers, at most 20.
    pub examples: Vec<Example>,
}

impl CheckResult {
    /// True where every answer that could be compared is right.
    pub fn is_right(&self) -> bool {
        self.right == self.checked
    }

    /// Answers with a fault other than that they lack glue.
    pub fn wrong(&self) -> u64 {
        self.checked - self.right - self.lack_glue
    }

    /// How many answers were compared, how many of these are wrong, and how many lack glue.
    pub fn metrics(&self) -> [Metric; 3] {
        [
            metrics::CHECKED.count(self.checked),
            metrics::CHECKED_WRONG.count(self.wrong()),
            metrics::CHECKED_LACKING_GLUE.count(self.lack_glue),
        ]
    }

    /// Adds what another generator found; the serials of a target that both asked stay apart, as nobody knows the
    /// order between them.
    pub fn merge(&mut self, other: &Self) {
        // A new field must be added here.
        let Self {
            sampled,
            checked,
            right,
            lack_glue,
            truncated,
            dnssec,
            signatures,
            kinds,
            wrong,
            odd,
            unchecked,
            serials,
            examples,
        } = other;
        self.sampled += sampled;
        self.checked += checked;
        self.right += right;
        self.lack_glue += lack_glue;
        self.truncated += truncated;
        self.dnssec += dnssec;
        self.signatures += signatures;
        for (ours, theirs) in [
            (&mut self.kinds, kinds),
            (&mut self.wrong, wrong),
            (&mut self.odd, odd),
            (&mut self.unchecked, unchecked),
        ] {
            counts::add(ours, theirs.clone());
        }
        self.serials.extend_from_slice(serials);
        examples.iter().for_each(|example| self.keep(example.clone()));
    }

    fn keep(&mut self, example: Example) {
        let alike = self.examples.iter().filter(|e| e.fault == example.fault).count();
        if self.examples.len() < EXAMPLES && alike < EXAMPLES_OF_A_FAULT {
            self.examples.push(example);
        }
    }

    fn unchecked(&mut self, why: &str) {
        *self.unchecked.entry(why.to_owned()).or_default() += 1;
    }

    fn add(&mut self, target: SocketAddr, question: &str, truncated: bool, comparison: Comparison) {
        if let Some(why) = comparison.unchecked {
            return self.unchecked(why);
        }
        self.checked += 1;
        self.truncated += u64::from(truncated);
        self.dnssec += u64::from(comparison.dnssec);
        if !comparison.kind.is_empty() {
            *self.kinds.entry(comparison.kind.to_owned()).or_default() += 1;
        }
        for odd in comparison.odd {
            *self.odd.entry(odd.to_owned()).or_default() += 1;
        }
        let glue = |fault: &Fault| GLUE.contains(&fault.name);
        match comparison.faults.as_slice() {
            [] => self.right += 1,
            faults => self.lack_glue += u64::from(faults.iter().all(glue)),
        }
        let mut named: Vec<&str> = comparison.faults.iter().map(|f| f.name).collect();
        named.sort_unstable();
        named.dedup();
        named.into_iter().for_each(|name| *self.wrong.entry(name.to_owned()).or_default() += 1);
        for Fault { name, expected, got } in comparison.faults {
            self.keep(Example {
                question: question.to_owned(),
                target,
                fault: name.to_owned(),
                expected,
                got,
            });
        }
    }
}

/// Judges sampled answers against the zone file: one pass over it, and memory for what it says about them.
///
/// # Errors
/// The scanner's errors.
pub fn verify(spec: &CheckSpec, mut samples: Vec<Sample>) -> Result<CheckResult, Error> {
    // Serials are followed target by target, in order of time.
    samples.sort_by_key(|sample| (sample.target, sample.at));
    let whole = |sample: &Sample| sample.bytes.len() >= sample.len;
    let answers: Vec<Option<Result<Answer, String>>> =
        samples.iter().map(|s| whole(s).then(|| Answer::parse(&s.bytes))).collect();
    let facts = Facts::read(&spec.zone, answers.iter().flatten().flatten())?;
    let (comparisons, signatures) = compare_all(&facts, &answers);
    let mut result = CheckResult { sampled: samples.len() as u64, signatures, ..CheckResult::default() };
    for ((sample, answer), mut comparison) in samples.iter().zip(&answers).zip(comparisons) {
        let (question, truncated) = match answer {
            None => {
                result.unchecked("cut_by_receiver");
                continue;
            }
            Some(Ok(answer)) => (answer.question(), answer.tc),
            Some(Err(_)) => (malformed_question(&sample.bytes), false),
        };
        if let Some(serial) = comparison.serial {
            follow(&mut result.serials, sample.target, serial, &facts, &mut comparison);
        }
        result.add(sample.target, &question, truncated, comparison);
    }
    Ok(result)
}

/// The question of an answer that could not be taken apart, as far as it has one.
fn malformed_question(bytes: &[u8]) -> String {
    wire::question::parse(bytes).map_or_else(|| "no question".to_owned(), |q| message::show(q.qname, q.qtype))
}

/// Judges on all cores; also gives the number of signatures verified.
fn compare_all(facts: &Facts, answers: &[Option<Result<Answer, String>>]) -> (Vec<Comparison>, u64) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let verified = AtomicU64::new(0);
    let work = |part: &[Option<Result<Answer, String>>]| -> Vec<Comparison> {
        let mut signatures = Signatures::new(facts, &verified);
        let one = |answer: &Option<Result<Answer, String>>| match answer {
            None => Comparison::default(),
            Some(Ok(answer)) => compare(facts, answer, &mut signatures),
            Some(Err(what)) => {
                let expected = "a well-formed message".to_owned();
                let fault = Fault { name: "malformed", expected, got: what.clone() };
                Comparison { faults: vec![fault], ..Comparison::default() }
            }
        };
        part.iter().map(one).collect()
    };
    let comparisons = std::thread::scope(|scope| {
        let part = answers.len().div_ceil(threads).max(1);
        let threads: Vec<_> = answers.chunks(part).map(|part| scope.spawn(|| work(part))).collect();
        let join = |t: std::thread::ScopedJoinHandle<'_, Vec<Comparison>>| {
            t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(join).collect()
    });
    (comparisons, verified.into_inner())
}

/// Takes the next serial of a target.
fn follow(
    all: &mut Vec<Serials>,
    target: SocketAddr,
    serial: u32,
    facts: &Facts,
    comparison: &mut Comparison,
) {
    let older = |than: u32| (serial.wrapping_sub(than) as i32) < 0;
    let mut fault = |name, expected: u32| {
        let (expected, got) = (format!("serial {expected} or later"), serial.to_string());
        // A fault even where the rest cannot be compared.
        comparison.unchecked = None;
        comparison.faults.push(Fault { name, expected, got });
    };
    if older(facts.serial) {
        fault("old_serial", facts.serial);
    }
    match all.last_mut().filter(|s| s.target == target) {
        None => all.push(Serials { target, answers: 1, first: serial, last: serial, changes: 0, back: 0 }),
        Some(s) => {
            if older(s.last) {
                s.back += 1;
                fault("serial_went_back", s.last);
            }
            s.answers += 1;
            s.changes += u64::from(s.last != serial);
            s.last = serial;
        }
    }
}

/// Fuzz entry point: any octets as an answer to compare with a small zone.
///
/// # Panics
/// Where comparing does: a bug.
pub fn fuzz_answer(bytes: &[u8], zone: &std::path::Path) {
    let sample =
        Sample { target: ([127, 0, 0, 1], 53).into(), at: 0, bytes: bytes.to_vec(), len: bytes.len() };
    let result = verify(&CheckSpec::new(zone), vec![sample]).expect("the zone is a good one");
    assert_eq!(result.sampled, result.checked + result.unchecked.values().sum::<u64>());
}

#[cfg(test)]
mod tests;
