//! The streaming signer (RFC 4034, RFC 4035, RFC 5702, RFC 6605, RFC 8080): an adapter over any
//! [`RrsetSource`] in canonical order.
//!
//! One thread reads and lays the NSEC chain, others sign and print batches, the caller's thread writes
//! them in order. Memory is bounded: what lies below a delegation waits for the next name of the chain,
//! in a temporary file where it is much.

mod chain;
mod key;
mod set;

pub(crate) use chain::is_dropped as is_made_anew;
pub use key::Algorithm;

use crate::error::Error;
use crate::ordered::{ordered, threads};
use crate::probe::soa_serial;
use crate::rrset::{RrsetSource, Rrsets};
use crate::scan::{Record, Scanner};
use crate::text;
use aws_lc_rs::rand::SystemRandom;
use chain::{Batch, Stop, Walk, Walked};
use key::Keys;
use serde::Serialize;
use set::{Set, Signer, View, canonical_rdata, decode};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::thread;
use wire::name::{self, Name};
use wire::rtype;

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
}

/// Seven days, RZAIA's validity, in seconds.
pub const WEEK: u32 = 7 * 86400;

impl Options {
    /// An algorithm with RSA keys of 2,048 bits and seven days of validity.
    pub fn new(algorithm: Algorithm, inception: u32) -> Self {
        Self { algorithm, ksk_bits: 2048, zsk_bits: 2048, inception, validity: WEEK, keys: None }
    }

    /// RZAIA's parameters with today's hash: RSASHA256, KSK 2,048 and ZSK 1,024 bits, seven days.
    pub fn rzaia(inception: u32) -> Self {
        Self { zsk_bits: 1024, ..Self::new(Algorithm::RsaSha256, inception) }
    }
}

/// What was signed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The zone's name.
    pub origin: String,
    /// The SOA's serial, as it was.
    pub serial: u32,
    /// Algorithm's mnemonic.
    pub algorithm: String,
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
    /// Octets of text written.
    pub bytes: u64,
    /// The key-signing key as a DNSKEY record.
    pub dnskey: String,
    /// The key-signing key as a DS record (SHA-256).
    pub ds: String,
    /// `trust-anchors` statement for delv's -a option and for named.conf.
    pub trust_anchor: String,
}

/// Text of one batch, and how many records and signatures are in it.
struct Signed {
    text: Vec<u8>,
    records: u64,
    signatures: u64,
    octets: u64,
}

/// Signs a zone and writes it; `progress` hears how many octets of the source were read.
///
/// # Errors
/// The source's errors, [`Error::Unsorted`], [`Error::Key`], [`Error::Spool`], [`Error::Write`].
pub fn sign(
    source: &mut (impl RrsetSource + Send),
    options: &Options,
    out: &mut (impl Write + ?Sized),
    progress: &mut dyn FnMut(u64),
) -> Result<Summary, Error> {
    let no_zone = || Error::Unable("no zone to sign: expected a SOA first".to_owned());
    let (apex, soa) = {
        let first = source.next()?.filter(|set| set.rtype == rtype::SOA).ok_or_else(no_zone)?;
        (first.owner.to_vec(), Set::of(&first))
    };
    let origin = Name::from_wire(&apex).map_err(|e| Error::Unable(e.to_string()))?;
    let bits = (options.ksk_bits, options.zsk_bits);
    let keys = Keys::prepare(options.keys.as_deref(), &origin, options.algorithm, bits)?;
    let mut summary = summary(&origin, &keys, soa_serial(&soa.rdatas[0]));
    let mut dnskeys = Set { rtype: rtype::DNSKEY, rdatas: vec![keys.ksk.dnskey.clone()], ..soa.clone() };
    dnskeys.rdatas.extend(keys.zsk.as_ref().map(|k| k.dnskey.clone()));

    let worker =
        Worker { keys: &keys, options, origin: origin.clone().lowercase(), random: SystemRandom::new() };
    let mut walked = Walked::default();
    ordered(
        threads(),
        |feed| {
            let mut walk = Walk::new(&apex, soa, dnskeys, feed);
            let ended = walk.run(source);
            walked = walk.walked;
            match ended {
                Err(Stop::Failed(e)) => Err(e),
                Ok(()) | Err(Stop::Closed(_)) => Ok(()),
            }
        },
        |batch| worker.batch(&batch),
        |signed| {
            let signed = signed?;
            out.write_all(&signed.text).map_err(Error::Write)?;
            summary.records += signed.records;
            summary.signatures += signed.signatures;
            summary.bytes += signed.text.len() as u64;
            progress(signed.octets);
            Ok(())
        },
    )?;
    (summary.delegations, summary.dropped) = (walked.delegations, walked.dropped);
    Ok(summary)
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
    let (reader, writer) = std::io::pipe().map_err(|source| Error::Spool { source })?;
    thread::scope(|scope| {
        let maker = scope.spawn(move || {
            let mut writer = BufWriter::with_capacity(64 << 10, writer);
            let made = make(&mut writer, progress)?;
            writer.flush().map_err(Error::Write)?;
            Ok(made)
        });
        let mut source = Rrsets::new(Scanner::new(reader, label));
        let signed = sign(&mut source, options, out, &mut |_| {});
        // Closing the pipe ends the maker where the signer gave up.
        drop(source);
        let made: Result<T, Error> = maker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (signed, made) {
            (Ok(signed), made) => Ok((made?, signed)),
            // The maker's failure comes first, unless it is only the closed pipe.
            (Err(_), Err(e)) if !matches!(e, Error::Write(_)) => Err(e),
            (Err(e), _) => Err(e),
        }
    })
}

fn summary(origin: &Name, keys: &Keys, serial: u32) -> Summary {
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
        dnskey: format!("{origin}\tIN\tDNSKEY\t{dnskey}"),
        ds: format!("{origin}\tIN\tDS\t{ds}"),
        ..Summary::default()
    }
}

/// Signs and prints batches.
struct Worker<'a> {
    keys: &'a Keys,
    options: &'a Options,
    /// As small letters.
    origin: Name,
    random: SystemRandom,
}

impl Worker<'_> {
    fn batch(&self, batch: &Batch) -> Result<Signed, Error> {
        let mut signed = Signed {
            text: Vec::with_capacity(batch.flat.len() * 3),
            records: 0,
            signatures: 0,
            octets: batch.octets,
        };
        let (mut flat, mut rdatas) = (&batch.flat[..], Vec::new());
        let mut last_owner: &[u8] = &[];
        let (mut canonical, mut scratch) = (Canonical::default(), Vec::new());
        while let Some(set) = decode(&mut flat, &mut rdatas) {
            if rdatas.len() > 1 || set.signer != Signer::Nobody {
                canonical.of(&set, &mut rdatas);
            }
            for &rdata in &rdatas {
                self.line(&set, set.rtype, rdata, &mut last_owner, &mut signed);
            }
            if set.signer != Signer::Nobody {
                let rdata = self.rrsig(&set, &canonical, &mut scratch)?;
                self.line(&set, rtype::RRSIG, &rdata, &mut last_owner, &mut signed);
                signed.signatures += 1;
            }
        }
        Ok(signed)
    }

    fn line<'b>(&self, set: &View<'b>, rtype: u16, rdata: &[u8], last: &mut &'b [u8], signed: &mut Signed) {
        if *last != set.owner {
            name::write_text(set.owner, &mut signed.text);
            *last = set.owner;
        }
        let record = Record { owner: set.owner, ttl: set.ttl, class: set.class, rtype, rdata, line: 0 };
        text::write_tail(&record, &mut signed.text);
        signed.records += 1;
    }

    /// The data of the RRSIG over a set (RFC 4034 section 3.1.8.1).
    fn rrsig(&self, set: &View<'_>, canonical: &Canonical, data: &mut Vec<u8>) -> Result<Vec<u8>, Error> {
        let key = match set.signer {
            Signer::KeySigningKey => &self.keys.ksk,
            _ => self.keys.zone_key(),
        };
        let mut owner = set.owner.to_vec();
        name::lowercase(&mut owner);
        // A wildcard's asterisk is not counted.
        let labels = name::label_count(&owner) - usize::from(owner.starts_with(b"\x01*"));
        data.clear();
        data.extend_from_slice(&set.rtype.to_be_bytes());
        data.extend_from_slice(&[key.algorithm().number(), labels as u8]);
        data.extend_from_slice(&set.ttl.to_be_bytes());
        let expiration = self.options.inception.wrapping_add(self.options.validity);
        data.extend_from_slice(&expiration.to_be_bytes());
        data.extend_from_slice(&self.options.inception.to_be_bytes());
        data.extend_from_slice(&key.tag.to_be_bytes());
        data.extend_from_slice(self.origin.as_wire());
        let mut rdata = data.clone();
        for record in canonical.records() {
            data.extend_from_slice(&owner);
            data.extend_from_slice(&set.rtype.to_be_bytes());
            data.extend_from_slice(&set.class.to_be_bytes());
            data.extend_from_slice(&set.ttl.to_be_bytes());
            data.extend_from_slice(&(record.len() as u16).to_be_bytes());
            data.extend_from_slice(record);
        }
        key.sign(data, &self.random, &mut rdata)?;
        Ok(rdata)
    }
}

/// The record data of one set in canonical form and order, without duplicates (RFC 4034 section 6.3).
#[derive(Default)]
struct Canonical {
    data: Vec<u8>,
    /// Start and end in `data`, and the record's number before sorting.
    order: Vec<(u32, u32, u32)>,
}

impl Canonical {
    /// Puts `rdatas` in order too.
    fn of<'a>(&mut self, set: &View<'_>, rdatas: &mut Vec<&'a [u8]>) {
        self.data.clear();
        self.order.clear();
        for (i, rdata) in rdatas.iter().enumerate() {
            let start = self.data.len() as u32;
            canonical_rdata(set.rtype, rdata, &mut self.data);
            self.order.push((start, self.data.len() as u32, i as u32));
        }
        let data = &self.data;
        let record = |&(start, end, _): &(u32, u32, u32)| &data[start as usize..end as usize];
        self.order.sort_by(|a, b| record(a).cmp(record(b)));
        self.order.dedup_by(|a, b| record(a) == record(b));
        let sorted: Vec<&'a [u8]> = self.order.iter().map(|&(_, _, i)| rdatas[i as usize]).collect();
        *rdatas = sorted;
    }

    fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.order.iter().map(|&(start, end, _)| &self.data[start as usize..end as usize])
    }
}
