//! `dnsrack zone sign`, and what `zone generate --sign` shares with it.

use super::input;
use crate::output::{self, Common, Failure, Status, write_output};
use clap::Args;
use measure::clock;
use measure::units::{self, grouped};
use std::path::PathBuf;
use std::time::Instant;
use zone::sign::{self, Algorithm, Options};
use zone::{Rrsets, Scanner};

/// `zone sign`.
#[derive(Args)]
pub struct Sign {
    /// Zone file in canonical order; '-' is standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Zone file to write; '-' is standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// ECDSAP256SHA256 (the default), ED25519, RSASHA256 or RSASHA512
    #[arg(long, value_name = "ALGORITHM", conflicts_with = "preset")]
    algorithm: Option<Algorithm>,
    /// rzaia: RSASHA256, KSK of 2048 and ZSK of 1024 bits, NSEC, seven days
    #[arg(long, value_name = "PRESET", value_parser = ["rzaia"])]
    preset: Option<String>,
    #[command(flatten)]
    signing: Signing,
}

/// What both ways of signing take.
#[derive(Args)]
pub struct Signing {
    /// Bits of an RSA key-signing key (1024 to 4096)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1024..=4096))]
    ksk_bits: Option<u32>,
    /// Bits of an RSA zone-signing key (1024 to 4096)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1024..=4096))]
    zsk_bits: Option<u32>,
    /// How long signatures are valid [default: 7d]
    #[arg(long, value_name = "DURATION", value_parser = validity)]
    validity: Option<u32>,
    /// Start of the validity: 2026-08-20T04:00:00Z, 20260820040000 or seconds since 1970 [default: an hour ago]
    #[arg(long, value_name = "TIME", value_parser = zone::time::parse)]
    at: Option<u64>,
    /// Folder of BIND's K*.key and K*.private files: read where it has the zone's, otherwise written
    #[arg(long, value_name = "DIR")]
    keys: Option<PathBuf>,
    /// Write the key-signing key as a trust-anchors statement (delv -a, named.conf)
    #[arg(long, value_name = "FILE")]
    trust_anchor: Option<PathBuf>,
}

fn validity(text: &str) -> Result<u32, String> {
    let seconds = units::duration(text)? / clock::SECOND;
    // Serial-number arithmetic ends at 2^31 seconds (RFC 4034 section 3.1.5).
    match u32::try_from(seconds) {
        Ok(n) if (1..1 << 31).contains(&n) => Ok(n),
        _ => Err(format!("'{text}': give a second to 68 years")),
    }
}

impl Signing {
    pub fn options(&self, algorithm: Option<Algorithm>) -> Options {
        let now = clock::wall() / clock::SECOND;
        let inception = self.at.unwrap_or(now.saturating_sub(3600)) as u32;
        let mut options = match algorithm {
            Some(algorithm) => Options::new(algorithm, inception),
            None => Options::rzaia(inception),
        };
        options.ksk_bits = self.ksk_bits.unwrap_or(options.ksk_bits);
        options.zsk_bits = self.zsk_bits.unwrap_or(options.zsk_bits);
        options.validity = self.validity.unwrap_or(options.validity);
        options.keys.clone_from(&self.keys);
        options
    }

    /// True where any of these flags is given.
    pub fn is_used(&self) -> bool {
        self.ksk_bits.is_some()
            || self.zsk_bits.is_some()
            || self.validity.is_some()
            || self.at.is_some()
            || self.keys.is_some()
            || self.trust_anchor.is_some()
    }

    pub fn write_anchor(&self, signed: &sign::Summary) -> Result<(), Failure> {
        let Some(path) = &self.trust_anchor else { return Ok(()) };
        write_output(path, |out| Ok(out.write_all(signed.trust_anchor.as_bytes())?))
    }
}

/// Runs it.
pub fn run(s: &Sign, common: &Common) -> output::Result {
    common.no_two_outputs(&s.output)?;
    let options = match s.preset {
        Some(_) => s.signing.options(None),
        None => s.signing.options(Some(s.algorithm.unwrap_or(Algorithm::EcdsaP256Sha256))),
    };
    let (path, size) = input(&s.input);
    let start = Instant::now();
    // Before the output is touched: an input that is not there.
    let mut source = Rrsets::new(Scanner::open(&path)?);
    let mut progress = common.progress(&format!("signing {}, octets", s.input.display()), size);
    let signed = write_output(&s.output, |out| {
        Ok(zone::sign(&mut source, &options, out, &mut |octets| progress.set(octets))?)
    });
    progress.finish();
    let signed = signed?;
    s.signing.write_anchor(&signed)?;
    eprintln!(
        "{}: {} records, {} octets",
        s.output.display(),
        grouped(signed.records),
        grouped(signed.bytes)
    );
    say_signed(&signed, start);
    common.tell("zone.sign", &signed, String::new)?;
    Ok(Status::Done)
}

/// Tells people what was signed.
pub fn say_signed(signed: &sign::Summary, start: Instant) {
    let seconds = start.elapsed().as_secs_f64().max(1e-9);
    let per_second = (signed.signatures as f64 / seconds) as u64;
    eprintln!(
        "signed {} with {}: {} signatures, {} a second; key tags {:?}",
        signed.origin,
        signed.algorithm,
        grouped(signed.signatures),
        grouped(per_second),
        signed.key_tags
    );
    if signed.dropped > 0 {
        eprintln!("left out {} DNSSEC records of the input", grouped(signed.dropped));
    }
    eprintln!("{}", signed.ds);
}
