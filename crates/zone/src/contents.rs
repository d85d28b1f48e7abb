//! The contents of a zone in numbers. The memory that a server takes and the size of a file are estimated from them, before the
//! zone is made.

use crate::error::Error;
use crate::generate::{self, Family};
use crate::scan::{Record, Scanner};
use crate::sign::{Algorithm, Options};
use measure::Seed;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use wire::{name, rtype};

/// Larger zones of a family are estimated in proportion to one with so many delegations.
const SAMPLE: u64 = 20_000;

/// Octets of text that an RRSIG record takes beside its signature, an NSEC record, and an NSEC3 record.
const RRSIG_TEXT: u64 = 71;
const NSEC_TEXT: u64 = 42;
const NSEC3_TEXT: u64 = 120;
/// Octets that each other record takes more as the signer writes it: class and TTL stand on every line.
const SIGNED_TEXT: u64 = 8;
/// Octets of text of a DS record of SHA-256.
const DS_TEXT: i64 = 105;

/// Counts of what a zone has. DNSSEC's own records are counted apart, DS records excepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Delegations.
    pub delegations: u64,
    /// Delegations with DS records.
    pub secure: u64,
    /// Owners of records.
    pub names: u64,
    /// RRsets.
    pub rrsets: u64,
    /// Records.
    pub records: u64,
    /// RRSIG records.
    pub signatures: u64,
    /// NSEC records.
    pub nsec: u64,
    /// NSEC3 records.
    pub nsec3: u64,
    /// Octets of text.
    pub bytes: u64,
}

impl Contents {
    /// The contents of a family's zone, not signed.
    ///
    /// # Errors
    /// As [`generate()`](crate::generate()).
    pub fn of_family(family: Family, delegations: u64) -> Result<Self, Error> {
        let sample = delegations.min(SAMPLE);
        // Experiments ask for the same zones again and again, and a family's zone of a size has always the same contents.
        static MADE: Mutex<Vec<(Family, u64, Contents)>> = Mutex::new(Vec::new());
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            made.iter().find(|(f, n, _)| (*f, *n) == (family, sample)).map(|(_, _, contents)| *contents);
        let contents = match known {
            Some(contents) => contents,
            None => Self::of_sample(family, sample)?,
        };
        if known.is_none() {
            made.push((family, sample, contents));
        }
        Ok(contents.times(delegations as f64 / sample.max(1) as f64))
    }

    fn of_sample(family: Family, delegations: u64) -> Result<Self, Error> {
        let made = generate::generate(family, delegations, Seed(1), &mut std::io::sink(), &mut |_| {})?;
        let secure = if family.is_rzaia() { made.ds / 2 } else { made.ds };
        let servers = made.a.max(made.aaaa);
        Ok(Self {
            delegations: made.delegations,
            secure,
            names: made.delegations + servers + 1,
            rrsets: made.delegations + secure + made.a + made.aaaa + 2,
            records: made.records,
            bytes: made.bytes,
            ..Self::default()
        })
    }

    /// The contents of a zone file: one pass. Names of which a file has records in several places count several times.
    ///
    /// # Errors
    /// The scanner's errors, and [`Error::Read`].
    pub fn of_file(path: &Path) -> Result<Self, Error> {
        let mut scanner = Scanner::open(path)?;
        let (mut contents, mut last) = (Self::default(), Last::default());
        while let Some(record) = scanner.next()? {
            contents.count(&record, &mut last);
        }
        Ok(Self { bytes: scanner.octets(), ..contents })
    }

    fn count(&mut self, record: &Record<'_>, last: &mut Last) {
        match record.rtype {
            rtype::RRSIG => self.signatures += 1,
            rtype::NSEC => self.nsec += 1,
            rtype::NSEC3 => self.nsec3 += 1,
            rtype => {
                if rtype == rtype::SOA {
                    last.apex = record.owner.len();
                }
                let same = name::equal(record.owner, &last.owner);
                self.records += 1;
                self.names += u64::from(!same);
                if !same || rtype != last.rtype {
                    self.rrsets += 1;
                    self.delegations += u64::from(rtype == rtype::NS && record.owner.len() != last.apex);
                    self.secure += u64::from(rtype == rtype::DS);
                }
                last.owner.clear();
                last.owner.extend_from_slice(record.owner);
                last.rtype = rtype;
            }
        }
    }

    /// Records, those of DNSSEC among them.
    pub fn all_records(&self) -> u64 {
        self.records + self.signatures + self.nsec + self.nsec3
    }

    /// So many times as much of everything.
    pub fn times(self, by: f64) -> Self {
        let times = |count: u64| (count as f64 * by).round() as u64;
        Self {
            delegations: times(self.delegations),
            secure: times(self.secure),
            names: times(self.names),
            rrsets: times(self.rrsets),
            records: times(self.records),
            signatures: times(self.signatures),
            nsec: times(self.nsec),
            nsec3: times(self.nsec3),
            bytes: times(self.bytes),
        }
    }

    /// Without DNSSEC's own records.
    pub fn stripped(self) -> Self {
        let bytes = self.bytes.saturating_sub(self.dnssec_bytes(Algorithm::EcdsaP256Sha256, 0));
        Self { signatures: 0, nsec: 0, nsec3: 0, bytes, ..self }
    }

    /// With DS records at this share of the delegations, one at each that had none.
    pub fn with_ds(self, share: f64) -> Self {
        let secure = (self.delegations as f64 * share).round() as u64;
        let more = secure as i64 - self.secure as i64;
        Self {
            secure,
            rrsets: self.rrsets.saturating_add_signed(more),
            records: self.records.saturating_add_signed(more),
            bytes: self.bytes.saturating_add_signed(more * DS_TEXT),
            ..self
        }
    }

    /// Signed with these options. What it was signed with before is replaced.
    pub fn signed(self, options: &Options) -> Self {
        let bare = self.stripped();
        // The apex, and every delegation; with opt-out those alone that have DS records. Zones without delegations have names.
        let all = if bare.delegations > 0 { bare.delegations } else { bare.names } + 1;
        let (nsec, nsec3) = match &options.nsec3 {
            None => (all, 0),
            Some(nsec3) if nsec3.opt_out => (0, bare.secure + 1),
            Some(_) => (0, all),
        };
        let rest = if bare.delegations > 0 { bare.secure + 3 } else { bare.rrsets };
        let signed = Self { nsec, nsec3, signatures: nsec + nsec3 + rest, ..bare };
        let text = signed.records * SIGNED_TEXT + signed.dnssec_bytes(options.algorithm, options.zsk_bits);
        Self { bytes: bare.bytes + text, ..signed }
    }

    /// Octets of text of its DNSSEC records.
    fn dnssec_bytes(&self, algorithm: Algorithm, zsk_bits: u32) -> u64 {
        let signature = match algorithm {
            Algorithm::RsaSha1 | Algorithm::RsaSha256 | Algorithm::RsaSha512 => u64::from(zsk_bits) / 8,
            Algorithm::EcdsaP384Sha384 => 96,
            Algorithm::EcdsaP256Sha256 | Algorithm::Ed25519 => 64,
        };
        self.signatures * (RRSIG_TEXT + signature.div_ceil(3) * 4)
            + self.nsec * NSEC_TEXT
            + self.nsec3 * NSEC3_TEXT
    }
}

/// The record before.
#[derive(Default)]
struct Last {
    owner: Vec<u8>,
    rtype: u16,
    /// Length of the apex's name; 0 where it is not known yet.
    apex: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sign::Nsec3;
    use std::io::Write;

    /// The text of a zone, with what was counted of it.
    fn made(family: Family, delegations: u64, options: Option<&Options>) -> Contents {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let make = |out: &mut dyn Write, heard: &mut dyn FnMut(u64)| {
            generate::generate(family, delegations, Seed(7), out, heard)
        };
        match options {
            None => drop(make(file.as_file_mut(), &mut |_| {}).unwrap()),
            Some(options) => {
                let out = file.as_file_mut();
                crate::generate_signed(family.name(), make, options, out, &mut |_| {}).unwrap();
            }
        }
        Contents::of_file(file.path()).unwrap()
    }

    /// Counts differ by no more than this share of the greater one, and three.
    fn assert_near<const N: usize>(family: Family, estimated: [u64; N], made: [u64; N], share: f64) {
        let near = |(a, b): (&u64, &u64)| a.abs_diff(*b) as f64 <= share * *a.max(b) as f64 + 3.0;
        let all = estimated.iter().zip(&made).all(near);
        assert!(all, "{family}: estimated {estimated:?}, made {made:?}, allowed {share}");
    }

    #[test]
    fn estimates_agree_with_what_is_made() {
        for family in Family::ALL {
            let (estimated, made) = (Contents::of_family(family, 3_000).unwrap(), made(family, 3_000, None));
            let counts = |c: &Contents| [c.delegations, c.names, c.rrsets, c.records];
            assert_near(family, counts(&estimated), counts(&made), 0.03);
            // Another seed draws other labels, and some delegations of the root have two DS records.
            assert_near(family, [estimated.bytes, estimated.secure], [made.bytes, made.secure], 0.1);
        }
    }

    #[test]
    fn large_zones_are_in_proportion() {
        let (estimated, made) =
            (Contents::of_family(Family::Com, 60_000).unwrap(), made(Family::Com, 60_000, None));
        assert_near(Family::Com, [estimated.names], [made.names], 0.01);
        assert_near(Family::Com, [estimated.bytes], [made.bytes], 0.1);
    }

    #[test]
    fn signing_is_estimated() {
        let now = (measure::clock::wall() / measure::clock::SECOND) as u32;
        let p256 = Options::new(Algorithm::EcdsaP256Sha256, now);
        let nsec3 = |opt_out| Options {
            nsec3: Some(Nsec3 { opt_out, iterations: 0, salt: Vec::new() }),
            ..p256.clone()
        };
        let cases = [
            (Family::S6Ds50, p256.clone()),
            (Family::S6Ds50, nsec3(false)),
            (Family::S6Ds50, nsec3(true)),
            (Family::Com, nsec3(true)),
            (Family::Root, Options::rzaia(now)),
        ];
        for (family, options) in cases {
            let estimated = Contents::of_family(family, 2_000).unwrap().signed(&options);
            let made = made(family, 2_000, Some(&options));
            let counts = |c: &Contents| [c.signatures, c.nsec, c.nsec3, c.names];
            assert_near(family, counts(&estimated), counts(&made), 0.1);
            assert_near(family, [estimated.bytes], [made.bytes], 0.2);
        }
    }
}
