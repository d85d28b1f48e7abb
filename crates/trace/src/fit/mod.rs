//! From a trace to a profile: one pass, in bounded memory.
//!
//! A name exists, or does not, as the answer says: NOERROR or NXDOMAIN. The zone is cut where a referral says so (the
//! owner of its NS records), and what would have to exist first is the label below the owner of the SOA record of a
//! denial. Clients are put together that use EDNS alike; what goes together in them stays together: EDNS, sizes, DO, hits
//! and misses, family, RD and DF. Of more than a million clients those that ask least, and of more than 131,072 names
//! those that are asked for least, are not known one by one; [`Sample`] and the warnings say so.
//!
//! A profile has queries of opcode 0 and class IN; what else there was is counted. A query over TCP that follows a truncated
//! answer is not its client's choice: it is counted in [`Profile::retry`], and in nothing else.

mod classes;
mod clients;
mod collect;
mod counts;
mod crowd;
mod existence;
mod intervals;
mod warnings;

use crate::read::{self, Options, Reader};
use collect::Collector;
use measure::Reason;
use serde::Serialize;
use std::path::PathBuf;
use traffic::{Names, Profile};

/// The most popular names of a profile, of those that exist and of those that do not.
pub const POPULAR: usize = 200;

/// The most shapes of a profile, of names that exist and of others.
pub const SHAPES: usize = 500;

/// The number of packets between two progress reports.
const STEP: u64 = 1 << 16;

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The captures cannot be read.
    #[error(transparent)]
    Read(#[from] read::Error),
    /// There is nothing to fit to.
    #[error(
        "no query to fit a profile to: {messages} messages, of them {responses} responses; {left_out} queries are left out \
         (retries over TCP, other opcodes and classes, cut short, damaged). Is it a capture of a server's port?"
    )]
    Nothing {
        /// Messages in the captures.
        messages: u64,
        /// Of them, responses.
        responses: u64,
        /// Queries that no profile has.
        left_out: u64,
    },
}

/// A profile from a trace, and what is to be known about it.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The profile.
    pub profile: Profile,
    /// Properties that the trace cannot tell.
    pub warnings: Vec<Reason>,
    /// The sample that it was made from.
    pub sample: Sample,
}

/// The sample that a profile was made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Queries that the profile is made of.
    pub queries: u64,
    /// Of them, over TCP.
    pub tcp: u64,
    /// Responses in the captures.
    pub responses: u64,
    /// Of them, truncated.
    pub truncated: u64,
    /// Of the queries, those with an answer.
    pub answered: u64,
    /// Of the queries, those without.
    pub unanswered: u64,
    /// Queries for names that exist.
    pub hits: u64,
    /// For names that do not.
    pub misses: u64,
    /// With an answer, or a name, which shows neither.
    pub neither: u64,
    /// Queries per second; none where all have the same time.
    pub rate: Option<f64>,
    /// From the first packet to the last, in seconds.
    pub span_s: f64,
    /// Clients that sent them.
    pub clients: u64,
    /// There were too many clients to know each: an estimate, with a standard error of 0.8 %.
    pub clients_are_estimated: bool,
    /// By how much the count of a name can be too low, as there were too many to count each.
    pub names_count_error: u64,
    /// Classes that they were put into.
    pub classes: usize,
    /// Queries that are of no profile.
    pub left_out: LeftOut,
}

/// Queries that are of no profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Asked again over TCP, as the answer over UDP was truncated: they are the server's doing.
    pub retries: u64,
    /// Not captured in full.
    pub cut_short: u64,
    /// Of another opcode than 0.
    pub opcodes: u64,
    /// Of another class than IN.
    pub classes: u64,
    /// Without a question that can be read.
    pub damaged: u64,
}

/// Fits a profile to captures, read as one trace. Whether names exist is read from `zone` where there is one, of which all names must
/// be known ([`Names::is_complete`]), otherwise by the answers. `about` says in the profile what it was fitted from;
/// `progress` hears the packets read so far.
///
/// # Errors
/// As the reader's; captures without a query.
pub fn fit(
    paths: &[PathBuf],
    ports: &[u16],
    zone: Option<&Names>,
    about: &str,
    progress: &mut dyn FnMut(u64),
) -> Result<Fitted, Error> {
    let mut reader = Reader::open(paths, &Options { ports: ports.to_vec(), ..Options::default() })?;
    let mut collector = Collector::new(zone);
    let mut reported = 0;
    while let Some(event) = reader.next_event()? {
        collector.add(&event);
        if reader.seen() >= reported + STEP {
            reported = reader.seen();
            progress(reported);
        }
    }
    if collector.sample.queries == 0 {
        let counts = reader.counts();
        return Err(Error::Nothing {
            messages: counts.queries + counts.responses,
            responses: counts.responses,
            left_out: collector.sample.left_out.sum(),
        });
    }
    Ok(collector.finish(&reader, about))
}

impl Sample {
    /// Half the width of the interval that holds the truth 19 times of 20, of a share near a half.
    pub fn error(&self) -> f64 {
        warnings::sampling_error(self.queries)
    }
}

impl Fitted {
    /// The profile as a file, with the warnings as comments before it.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        for warning in &self.warnings {
            let mut line = String::from("#");
            for word in warning.to_string().split_whitespace() {
                if line.chars().count() + 1 + word.chars().count() > 120 {
                    out += &(std::mem::replace(&mut line, "#  ".into()) + "\n");
                }
                line += &format!(" {word}");
            }
            out += &(line + "\n");
        }
        out + &self.profile.to_toml()
    }
}
