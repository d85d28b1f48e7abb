//! The streaming signer (RFC 4034, RFC 4035, RFC 5155, RFC 5702, RFC 6605, RFC 8080, RFC 8976): an adapter over
//! any [`RecordSource`] in canonical order.
//!
//! One thread reads and lays the chain, others sign and print batches, the caller's thread writes them in order.
//! Memory is bounded. With NSEC, what lies below a delegation waits for the next name of the chain, in a temporary
//! file where it is much, and all is written in canonical order. With NSEC3 the hashes are sorted outside memory
//! ([`crate::sort`]), and the NSEC3 records come at the end of the zone. A ZONEMD record is the last of all, since
//! it digests the others; with NSEC3 it needs a sorted copy of the zone in temporary storage.

mod canonical;
mod chain;
mod digest;
mod key;
mod keys;
mod node;
mod nsec3;
mod rrset;
mod rrsig;
mod speed;
pub mod verify;
mod worker;

pub(crate) use canonical::canonical_rdata;
pub(crate) use chain::is_dropped as is_made_by_signing;
pub use key::Algorithm;
pub use nsec3::Nsec3;
pub use rrset::{RrsetSigner, nsec};
pub use speed::speed;

use crate::error::Error;
use crate::ordered::{Feed, ordered, threads};
use crate::probe::soa_serial;
use crate::source::{RecordSource, piped};
use crate::text;
use chain::{BATCH_SIGNATURES, Batch, Stop, Walk, Walked};
use digest::Digest;
use keys::Keys;
use measure::clock::{self, Nanos};
use node::{Kind, Nodes};
use nsec3::Hashes;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;
use wire::name::Name;
use wire::rtype;
use worker::{Signed, Worker};

/// How to sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Algorithm of both keys.
    pub algorithm: Algorithm,
    /// Modulus of an RSA key-signing key, in bits.
    pub ksk_bits: u32,
    /// Modulus of an RSA zone-signing key, in bits.
    pub zsk_bits: u32,
    /// Start of the signatures' validity, seconds since 1970.
    pub inception: u32,
    /// Its length in seconds.
    pub validity: u32,
    /// Folder of BIND's key files: read where it has keys of the zone, otherwise written. Without one,
    /// keys are made for this zone alone and kept nowhere.
    pub keys: Option<PathBuf>,
    /// Denial of existence by NSEC3; `None` is NSEC.
    pub nsec3: Option<Nsec3>,
    /// With a digest of the zone (RFC 8976: scheme SIMPLE, SHA-384).
    pub zonemd: bool,
}

/// Seven days, RZAIA's validity, in seconds.
pub const WEEK: u32 = 7 * 86400;

impl Options {
    /// An algorithm with RSA keys of 2,048 bits, seven days of validity, NSEC, no digest.
    pub fn new(algorithm: Algorithm, inception: u32) -> Self {
        Self {
            algorithm,
            ksk_bits: 2048,
            zsk_bits: 2048,
            inception,
            validity: WEEK,
            keys: None,
            nsec3: None,
            zonemd: false,
        }
    }

    /// RZAIA's parameters with today's hash: RSASHA256, KSK 2,048 and ZSK 1,024 bits, seven days.
    pub fn rzaia(inception: u32) -> Self {
        Self { zsk_bits: 1024, ..Self::new(Algorithm::RsaSha256, inception) }
    }

    /// By the name of an algorithm, or of a preset: `rzaia` is [`Self::rzaia`], and `rzaia-2009` has the paper's own RSASHA1 instead.
    ///
    /// # Errors
    /// A sentence that names the algorithms and presets there are.
    pub fn named(name: &str, inception: u32) -> Result<Self, String> {
        match name.to_ascii_lowercase().as_str() {
            "rzaia" => Ok(Self::rzaia(inception)),
            "rzaia-2009" => Ok(Self { algorithm: Algorithm::RsaSha1, ..Self::rzaia(inception) }),
            _ => Ok(Self::new(name.parse().map_err(|why| format!("{why}, rzaia or rzaia-2009"))?, inception)),
        }
    }
}

/// Counts of a zone that was signed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The zone's name.
    pub origin: String,
    /// The SOA's serial, as it was.
    pub serial: u32,
    /// Algorithm's mnemonic.
    pub algorithm: String,
    /// NSEC, NSEC3 or NSEC3 with opt-out.
    pub denial: &'static str,
    /// True with a ZONEMD record.
    pub zonemd: bool,
    /// Key tags: the key-signing key's, then the zone-signing key's where there is one.
    pub key_tags: Vec<u16>,
    /// Delegations.
    pub delegations: u64,
    /// Records written.
    pub records: u64,
    /// RRSIG records among them.
    pub signatures: u64,
    /// DNSSEC records of the input that were left out (RRSIG, NSEC, NSEC3, DNSKEY, ZONEMD, ...).
    pub dropped: u64,
    /// Octets of the source's text.
    pub source_bytes: u64,
    /// Octets of text written.
    pub bytes: u64,
    /// From the first record to the last octet, in seconds.
    pub seconds: f64,
    /// Signatures over that time.
    pub signatures_per_second: f64,
    /// Where time went.
    pub cpu: Cpu,
    /// The key-signing key as a DNSKEY record.
    pub dnskey: String,
    /// The key-signing key as a DS record (SHA-256).
    pub ds: String,
    /// `trust-anchors` statement for delv's -a option and for named.conf.
    pub trust_anchor: String,
}

/// Processor time by step, in seconds, over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cpu {
    /// Threads that sign and print; one more reads, and one writes.
    pub threads: usize,
    /// Reading the input, and finding out what is authoritative.
    pub reading: f64,
    /// Making signatures.
    pub signing: f64,
    /// Canonical form, hashes, and text.
    pub printing: f64,
    /// Writing, sorting hashes, digesting the zone.
    pub writing: f64,
}

/// Facts of the zone for walk and workers.
struct Zone {
    /// As the SOA has it.
    apex: Vec<u8>,
    /// In small letters.
    origin: Vec<u8>,
    class: u16,
    soa: Vec<u8>,
    soa_ttl: u32,
    /// Of NSEC and NSEC3 records.
    nsec_ttl: u32,
    dnskeys: Vec<Vec<u8>>,
    nsec3: Option<Nsec3>,
}

impl Zone {
    /// The records that the signer adds to the apex: type, TTL and data.
    fn at_apex(&self) -> Vec<(u16, u32, Vec<Vec<u8>>)> {
        let mut sets = vec![(rtype::DNSKEY, self.soa_ttl, self.dnskeys.clone())];
        // Only servers look at it: like BIND, with a TTL of zero.
        sets.extend(self.nsec3.iter().map(|n| (rtype::NSEC3PARAM, 0, vec![n.param()])));
        sets
    }
}

/// Where batches end: the output, and what is gathered for the end of the zone.
struct Sink<'o, W: ?Sized> {
    out: &'o mut W,
    summary: Summary,
    hashes: Option<Hashes>,
    digest: Option<Digest>,
    signing: Nanos,
    printing: Nanos,
}

impl<W: Write + ?Sized> Sink<'_, W> {
    fn take(&mut self, signed: Result<Signed, Error>) -> Result<u64, Error> {
        let signed = signed?;
        self.out.write_all(&signed.text).map_err(Error::Write)?;
        self.summary.records += signed.records;
        self.summary.signatures += signed.signatures;
        self.summary.bytes += signed.text.len() as u64;
        self.signing += signed.signing;
        self.printing += signed.printing;
        if let Some(hashes) = &mut self.hashes {
            hashes.push_all(&signed.hashes).map_err(|source| Error::Spool { source })?;
        }
        if let Some(digest) = &mut self.digest {
            digest.push_all(&signed.digest)?;
        }
        Ok(signed.octets)
    }
}

/// Signs a zone and writes it; `progress` hears how many octets of the source were read.
///
/// # Errors
/// The source's errors, [`Error::Unsorted`], [`Error::Key`], [`Error::Spool`], [`Error::Write`],
/// [`Error::Unable`] where there is no SOA, or where NSEC3 cannot do it.
pub fn sign(
    source: &mut (impl RecordSource + Send),
    options: &Options,
    out: &mut (impl Write + ?Sized),
    progress: &mut dyn FnMut(u64),
) -> Result<Summary, Error> {
    let (start, cpu) = (Instant::now(), clock::cpu());
    let (zone, keys) = prepare(source, options)?;
    let origin = Name::from_wire(&zone.apex).map_err(|e| Error::Unable(e.to_string()))?;
    let worker = Worker::new(&zone, &keys, options);
    let mut sink = Sink {
        out,
        summary: summary(&origin, &keys, options, soa_serial(&zone.soa)),
        hashes: options.nsec3.as_ref().map(|_| Hashes::new()),
        digest: options.zonemd.then(|| Digest::new(options.nsec3.is_none())),
        signing: 0,
        printing: 0,
    };
    let (mut walked, mut reading) = (Walked::default(), 0);
    ordered(
        threads(),
        |feed| {
            let cpu = clock::cpu();
            let mut walk = Walk::new(&zone, feed);
            let ended = walk.run(source);
            walked = walk.walked;
            reading = clock::cpu() - cpu;
            match ended {
                Err(Stop::Failed(e)) => Err(e),
                Ok(()) | Err(Stop::Closed(_)) => Ok(()),
            }
        },
        |batch| worker.batch(&batch),
        |signed| sink.take(signed).map(&mut *progress),
    )?;
    if let (Some(hashes), Some(nsec3)) = (sink.hashes.take(), &zone.nsec3) {
        ordered(
            threads(),
            |feed| feed_chain(hashes, nsec3, &zone, feed),
            |batch| worker.batch(&batch),
            |signed| sink.take(signed).map(drop),
        )?;
    }
    if let Some(digest) = sink.digest.take() {
        let zonemd = digest.finish(sink.summary.serial)?;
        let mut nodes = Nodes::default();
        nodes.begin(&zone.apex);
        nodes.record(zone.soa_ttl, rtype::ZONEMD, &zonemd);
        nodes.end(Kind::Made, &[]);
        sink.take(worker.batch(&Batch { flat: nodes.take(), octets: 0 }))?;
    }
    let seconds = |nanos: Nanos| nanos as f64 / clock::SECOND as f64;
    let mut summary = sink.summary;
    summary.cpu = Cpu {
        threads: threads(),
        reading: seconds(reading),
        signing: seconds(sink.signing),
        printing: seconds(sink.printing),
        writing: seconds(clock::cpu() - cpu),
    };
    summary.seconds = start.elapsed().as_secs_f64();
    summary.signatures_per_second = summary.signatures as f64 / summary.seconds.max(1e-9);
    (summary.delegations, summary.dropped) = (walked.delegations, walked.dropped);
    summary.source_bytes = source.octets();
    Ok(summary)
}

/// Reads the SOA and has the keys ready.
fn prepare(source: &mut impl RecordSource, options: &Options) -> Result<(Zone, Keys), Error> {
    let no_zone = || Error::Unable("no zone to sign: expected a SOA first".to_owned());
    let first = source.next()?.filter(|set| set.rtype == rtype::SOA).ok_or_else(no_zone)?;
    let (apex, soa) = (first.owner.to_vec(), first.rdata.to_vec());
    let (class, soa_ttl) = (first.class, first.ttl);
    let name = Name::from_wire(&apex).map_err(|e| Error::Unable(e.to_string()))?;
    if let Some(nsec3) = &options.nsec3 {
        nsec3.check(&name)?;
        if options.algorithm == Algorithm::RsaSha1 {
            let why = "RSASHA1 says of a zone that it denies with NSEC (RFC 5155 section 2): take RSASHA256, or leave NSEC3 out";
            return Err(Error::Unable(why.to_owned()));
        }
    }
    let bits = (options.ksk_bits, options.zsk_bits);
    let keys = Keys::prepare(options.keys.as_deref(), &name, options.algorithm, bits, options.inception)?;
    // The lesser of the SOA's TTL and minimum (RFC 9077).
    let minimum = soa.last_chunk::<4>().map_or(soa_ttl, |m| u32::from_be_bytes(*m));
    let dnskeys = std::iter::once(&keys.ksk).chain(&keys.zsk).map(|k| k.dnskey.clone()).collect();
    let origin = name.lowercase().as_wire().to_vec();
    let (nsec_ttl, nsec3) = (soa_ttl.min(minimum), options.nsec3.clone());
    Ok((Zone { apex, origin, class, soa, soa_ttl, nsec_ttl, dnskeys, nsec3 }, keys))
}

/// Hands the NSEC3 records to the workers.
fn feed_chain(hashes: Hashes, nsec3: &Nsec3, zone: &Zone, feed: &mut Feed<Batch>) -> Result<(), Error> {
    let (mut nodes, mut waiting) = (Nodes::default(), 0);
    hashes.chain(nsec3, &zone.apex, |owner, rdata| {
        nodes.begin(owner);
        nodes.record(zone.nsec_ttl, rtype::NSEC3, rdata);
        nodes.end(Kind::Made, &[]);
        waiting = (waiting + 1) % BATCH_SIGNATURES;
        waiting > 0 || feed.push(Batch { flat: nodes.take(), octets: 0 })
    })?;
    // Where nobody takes it, the consumer's error counts.
    let _ = feed.push(Batch { flat: nodes.take(), octets: 0 });
    Ok(())
}

/// Makes a zone and signs it in one pass, without a file in between: `make` writes the zone in canonical
/// order and tells its second argument how far it is, which `progress` hears. `label` is what messages call
/// the zone. Gives what `make` gave, and what was signed.
///
/// # Errors
/// As `make` and [`sign`].
pub fn generate_signed<T: Send>(
    label: &str,
    make: impl FnOnce(&mut dyn Write, &mut dyn FnMut(u64)) -> Result<T, Error> + Send,
    options: &Options,
    out: &mut (impl Write + ?Sized),
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<(T, Summary), Error> {
    piped(label, |out| make(out, progress), |source| sign(source, options, out, &mut |_| {}))
}

fn summary(origin: &Name, keys: &Keys, options: &Options, serial: u32) -> Summary {
    let shown = |rtype, rdata: &[u8]| {
        let mut text = Vec::new();
        text::write_rdata(rtype, rdata, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    };
    let dnskey = shown(rtype::DNSKEY, &keys.ksk.dnskey);
    let ds = shown(rtype::DS, &keys.ksk.ds(origin.as_wire()));
    let (fields, key) = dnskey.rsplit_once(' ').unwrap_or_default();
    let tags = std::iter::once(&keys.ksk).chain(&keys.zsk).map(|k| k.tag);
    Summary {
        origin: origin.to_string(),
        serial,
        algorithm: keys.ksk.algorithm().to_string(),
        key_tags: tags.collect(),
        trust_anchor: format!("trust-anchors {{\n    \"{origin}\" static-key {fields} \"{key}\";\n}};\n"),
        denial: match &options.nsec3 {
            None => "NSEC",
            Some(n) if n.opt_out => "NSEC3 with opt-out",
            Some(_) => "NSEC3",
        },
        zonemd: options.zonemd,
        dnskey: format!("{origin}\tIN\tDNSKEY\t{dnskey}"),
        ds: format!("{origin}\tIN\tDS\t{ds}"),
        ..Summary::default()
    }
}
