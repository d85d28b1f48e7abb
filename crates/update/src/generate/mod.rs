//! Streams of updates made in the context of a zone, in `nsupdate`'s format.
//!
//! Only records that exist are deleted, only new ones are added, and a change begins with the data of that moment: the state goes through
//! the stream (ISC-TN-2008-1, section 5: ISC's `updgen`). `nsupdate`, `knsupdate` and [`crate::send`] play the same file.
//!
//! - An *addition* is a new name beside a delegation of the zone that lends it its looks: as many servers, inside it and elsewhere,
//!   with glue where that has glue and DS records where it has some. Addresses, key tags and digests are random.
//! - A *deletion* takes a delegation with its NS and DS records and all glue inside it. One inside which there are servers that other
//!   delegations use stays: to delete it would break those, and registries do not. So does one with very much below it, such as NET in
//!   RZAIA's zones: it is left alone altogether.
//! - A *modification* replaces one server: one inside the delegation by another inside it, with glue like the old one's, whose glue
//!   goes; one elsewhere by another that the zone uses. That is ISC's "NS record change"; RZAIA does not say what its modifications
//!   change.
//!
//! Of a signed zone only unsigned data are touched where the server signs; otherwise ([`Spec::sign`]) signatures, NSEC records and the
//! SOA record with its next serial are among the changes, and the zone is read once more. The zone is read twice ([`mod@generate`]'s memory is that of what
//! the stream touches), and one seed gives one stream on any machine.

mod chain;
mod mix;
mod sample;
mod series;
mod state;
mod write;

pub use mix::Mix;
pub use series::series;

use crate::Error;
use chain::Chain;
use measure::Seed;
use mix::{Kind, Kinds};
use serde::{Deserialize, Serialize};
use state::{NoneLeft, State};
use std::io::Write;
use std::path::PathBuf;
use write::Writer;

/// A stream over a zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The zone file; it is read twice.
    pub zone: PathBuf,
    /// How many add, delete and modify.
    pub mix: Mix,
    /// Changes.
    pub count: u64,
    /// Changes in each transaction; 0: as the mix has it ([`Mix::batch`]).
    #[serde(default)]
    pub batch: u32,
    /// Each transaction says what must hold: the name that is added does not exist, the NS RRset that is deleted does, the one that
    /// is modified is just so.
    #[serde(default)]
    pub prerequisites: bool,
    /// The same seed gives the same stream, but for ECDSA's signatures.
    #[serde(default)]
    pub seed: Seed,
    /// Signatures and denials of a zone that is signed with NSEC are among the changes, for a server that does not make them; none: it
    /// does, or the zone is not signed.
    #[serde(default)]
    pub sign: Option<Signing>,
}

/// Who signs what is changed, if it is not the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signing {
    /// A folder with the zone's keys in BIND's format.
    pub keys: PathBuf,
    /// Start of the signatures' validity, seconds since 1970.
    pub inception: u32,
    /// Its length in seconds.
    pub validity: u32,
}

/// A stream through versions of a zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesSpec {
    /// The first version.
    pub zone: PathBuf,
    /// The versions after it, in order.
    pub to: Vec<PathBuf>,
    /// Changes in each transaction; 0: one.
    #[serde(default)]
    pub batch: u32,
    /// Each transaction says what must hold.
    #[serde(default)]
    pub prerequisites: bool,
    /// Each version is one transaction, its SOA with it, so that the server's serial is the version's; where one message does not
    /// hold the version, several without the SOA. [`Self::batch`] is of no effect.
    #[serde(default)]
    pub whole: bool,
    /// DNSSEC's records are changed as the versions have them, for a primary that does not sign; versions are whole then.
    #[serde(default)]
    pub dnssec: bool,
    /// With each version, at its end, the TXT record of [`crate::watch::MARKER_LABEL`] below the zone becomes the version's number,
    /// 1 for the first step.
    #[serde(default)]
    pub marker: bool,
}

impl SeriesSpec {
    /// The unsigned changes from version to version, a transaction each.
    pub fn new(zone: impl Into<PathBuf>, to: Vec<PathBuf>) -> Self {
        let zone = zone.into();
        Self { zone, to, batch: 0, prerequisites: false, whole: false, dnssec: false, marker: false }
    }

    /// Whether each version goes as a whole.
    fn is_whole(&self) -> bool {
        self.whole || self.dnssec
    }
}

/// A step from one version of a zone to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The serial before.
    pub from: u32,
    /// The serial after.
    pub to: u32,
    /// Transactions; none where nothing that can be sent differs.
    pub transactions: u64,
    /// Records that go, SOA and marker not counted.
    pub deleted: u64,
    /// Records that come, likewise.
    pub added: u64,
}

/// Counts of a stream that was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// The zone's name.
    pub origin: String,
    /// The serial of the zone file, the first one's where there are several.
    pub serial: u32,
    /// Delegations that the zone file has; zero in a series.
    pub delegations: u64,
    /// The zone file is signed.
    pub signed: bool,
    /// Steps from version to version.
    pub versions: u64,
    /// The kind of each of them.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Additions.
    pub adds: u64,
    /// Deletions.
    pub deletes: u64,
    /// Modifications.
    pub modifies: u64,
    /// Transactions.
    pub transactions: u64,
    /// Records of update sections.
    pub records: u64,
    /// Octets of text.
    pub bytes: u64,
    /// Delegations that were drawn for deletion and stayed because others use servers inside them.
    pub kept: u64,
}

/// Writes a stream. `progress` hears how many octets of the zone are read, twice over.
///
/// # Errors
/// The scanner's; [`Error::Spec`] where the zone has no delegations or too few of them; [`Error::Write`].
pub fn generate(spec: &Spec, out: &mut dyn Write, progress: &mut dyn FnMut(u64)) -> Result<Made, Error> {
    if spec.count == 0 {
        return Err(Error::Spec("--count: a stream of nothing: give at least 1".into()));
    }
    if !spec.zone.metadata().is_ok_and(|m| m.is_file()) && spec.zone.exists() {
        return Err(Error::Spec(format!(
            "{}: the zone is read twice: give a regular file",
            spec.zone.display()
        )));
    }
    let batch = if spec.batch == 0 { spec.mix.batch() } else { spec.batch };
    let adds = spec.mix.at_most(&[Kind::Add], spec.count);
    let picks = spec.mix.at_most(&[Kind::Delete, Kind::Modify], spec.count);
    let sample = sample::sample(&spec.zone, spec.seed, picks, adds, progress)?;
    let name = wire::name::Name::from_wire(&sample.origin).map_err(|e| Error::Spec(e.to_string()))?;
    let mut made = Made {
        origin: name.to_string(),
        serial: sample.serial,
        delegations: sample.delegations,
        signed: sample.signed,
        ..Made::default()
    };
    let chain = spec.sign.as_ref().map(|signing| Chain::read(&spec.zone, &sample, signing)).transpose()?;
    let mut writer = Writer::new(out, chain);
    let head = format!(
        "dnsrack update generate: zone {name} serial {}, {} changes, mix {}, {batch} to a transaction, seed {}",
        sample.serial, spec.count, spec.mix, spec.seed.0
    );
    writer.comment(&head)?;
    if sample.signed {
        writer.comment(match &spec.sign {
            None => "the zone is signed: unsigned data alone are changed, and the server signs",
            Some(_) => "the zone is signed: signatures and denials are among the changes, and the server does not sign",
        })?;
    }
    writer.zone(&sample.origin)?;
    let mut kinds = Kinds::new(spec.mix, spec.seed.draw("update/mix", 0));
    let mut state = State::new(sample, spec.seed.draw("update/changes", 0), spec.prerequisites);
    let mut in_batch = 0;
    for n in 0..spec.count {
        let kind = kinds.next();
        let (out, prerequisites) = (&mut writer, spec.prerequisites);
        let change = |state: &mut State, out: &mut Writer<'_>| match kind {
            Kind::Add => state.add(out, prerequisites).map(Ok),
            Kind::Delete => state.delete(out, prerequisites),
            Kind::Modify => state.modify(out, prerequisites),
        };
        let mut changed = change(&mut state, out)?;
        if changed.is_err() && in_batch > 0 {
            // The transaction that is still open may have what the change needs.
            out.send()?;
            state.sent();
            in_batch = 0;
            changed = change(&mut state, out)?;
        }
        if let Err(NoneLeft) = changed {
            return Err(Error::Spec(format!(
                "after {n} changes the zone has no delegation left that can be {}: give a smaller --count, a larger zone, or a --mix \
                 with more additions",
                if kind == Kind::Delete { "deleted without breaking others" } else { "modified" }
            )));
        }
        *match kind {
            Kind::Add => &mut made.adds,
            Kind::Delete => &mut made.deletes,
            Kind::Modify => &mut made.modifies,
        } += 1;
        in_batch += 1;
        if in_batch == batch {
            out.send()?;
            state.sent();
            in_batch = 0;
        }
    }
    writer.send()?;
    made.kept = state.kept;
    made.transactions = writer.transactions;
    made.records = writer.records;
    made.bytes = writer.bytes;
    Ok(made)
}
