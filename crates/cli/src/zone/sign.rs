//! `dnsrack zone sign`, and what `zone generate --sign` shares with it.

use super::input;
use crate::output::{self, Common, Failure, Progress, Status, write_output};
use clap::Args;
use measure::clock;
use measure::units::{self, grouped};
use std::path::{Path, PathBuf};
use zone::sign::{self, Algorithm, Nsec3, Options};
use zone::{Error, Scanner, order};

/// `zone sign`.
#[derive(Args)]
pub struct Sign {
    /// Zone file; one that is not in canonical order is sorted in TMPDIR; '-' is standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Zone file to write; '-' is standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Algorithm: ECDSAP256SHA256 (the default), ECDSAP384SHA384, ED25519, RSASHA256, RSASHA512 or RSASHA1
    #[arg(long, value_name = "ALGORITHM", conflicts_with = "preset")]
    algorithm: Option<Algorithm>,
    /// Preset: rzaia is RSASHA256, a KSK of 2048 and a ZSK of 1024 bits, NSEC, seven days; rzaia-2009 has the paper's RSASHA1
    #[arg(long, value_name = "PRESET", value_parser = ["rzaia", "rzaia-2009"])]
    preset: Option<String>,
    #[command(flatten)]
    signing: Signing,
}

/// The flags of both ways of signing.
#[derive(Args)]
pub struct Signing {
    /// Bits of an RSA KSK (1024 to 4096)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1024..=4096))]
    ksk_bits: Option<u32>,
    /// Bits of an RSA ZSK (1024 to 4096)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1024..=4096))]
    zsk_bits: Option<u32>,
    /// Use NSEC3 instead of NSEC; its records come at the end of the zone
    #[arg(long)]
    nsec3: bool,
    /// Leave unsigned delegations out of the NSEC3 chain (opt-out)
    #[arg(long, requires = "nsec3")]
    opt_out: bool,
    /// Additional NSEC3 iterations [default: 0, as in RFC 9276]
    #[arg(long, value_name = "N", requires = "nsec3")]
    iterations: Option<u16>,
    /// NSEC3 salt in hexadecimal digits [default: none, as in RFC 9276]
    #[arg(long, value_name = "HEX", requires = "nsec3", value_parser = salt)]
    salt: Option<Salt>,
    /// Add a digest of the zone at its end (ZONEMD, RFC 8976: SIMPLE, SHA-384)
    #[arg(long)]
    zonemd: bool,
    /// Validity of the signatures [default: 7d]
    #[arg(long, value_name = "DURATION", value_parser = validity)]
    validity: Option<u32>,
    /// Start of the validity: 2026-08-20T04:00:00Z, 20260820040000 or seconds since 1970 [default: an hour ago]
    #[arg(long, value_name = "TIME", value_parser = zone::time::parse)]
    at: Option<u64>,
    /// Folder of BIND's K*.key and K*.private files: keys are read from it if it has some for the zone, and written otherwise
    #[arg(long, value_name = "DIR")]
    keys: Option<PathBuf>,
    /// Write the KSK as a trust-anchors statement (for delv -a or named.conf)
    #[arg(long, value_name = "FILE")]
    trust_anchor: Option<PathBuf>,
}

/// Octets, as one value of a flag.
#[derive(Clone, Debug)]
struct Salt(Vec<u8>);

fn salt(text: &str) -> Result<Salt, String> {
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let digits = text.bytes().all(|b| b.is_ascii_hexdigit()) && text.len().is_multiple_of(2);
    let octets: Option<Vec<u8>> = text.as_bytes().chunks(2).map(octet).collect();
    let octets = octets.filter(|o| digits && !o.is_empty() && o.len() <= 255);
    octets.map(Salt).ok_or_else(|| format!("'{text}': give 1 to 255 octets, two hexadecimal digits each"))
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
    /// The options of an algorithm or a preset, with these flags.
    pub fn options(&self, name: &str) -> Result<Options, String> {
        let now = clock::wall() / clock::SECOND;
        let inception = self.at.unwrap_or(now.saturating_sub(3600)) as u32;
        let mut options = Options::named(name, inception)?;
        options.ksk_bits = self.ksk_bits.unwrap_or(options.ksk_bits);
        options.zsk_bits = self.zsk_bits.unwrap_or(options.zsk_bits);
        options.validity = self.validity.unwrap_or(options.validity);
        options.keys.clone_from(&self.keys);
        options.zonemd = self.zonemd;
        options.nsec3 = self.nsec3.then(|| Nsec3 {
            opt_out: self.opt_out,
            iterations: self.iterations.unwrap_or(0),
            salt: self.salt.clone().map_or(Vec::new(), |s| s.0),
        });
        Ok(options)
    }

    /// True where any of these flags is given.
    pub fn is_used(&self) -> bool {
        self.ksk_bits.is_some()
            || self.zsk_bits.is_some()
            || self.validity.is_some()
            || self.at.is_some()
            || self.keys.is_some()
            || self.trust_anchor.is_some()
            || self.nsec3
            || self.zonemd
    }

    pub fn write_anchor(&self, signed: &sign::Summary) -> Result<(), Failure> {
        let Some(path) = &self.trust_anchor else { return Ok(()) };
        write_output(path, |out| Ok(out.write_all(signed.trust_anchor.as_bytes())?))
    }
}

/// Runs it.
pub fn run(s: &Sign, common: &Common) -> output::Result {
    common.no_two_outputs(&s.output)?;
    let algorithm = s.algorithm.unwrap_or(Algorithm::EcdsaP256Sha256).to_string();
    let options = s.signing.options(s.preset.as_ref().unwrap_or(&algorithm)).map_err(Failure::usage)?;
    let (path, size) = input(&s.input);
    let mut progress = common.progress(&format!("signing {}, octets", s.input.display()), size);
    let signed = signed(&path, &s.output, &options, &mut progress);
    progress.finish();
    let signed = signed?;
    s.signing.write_anchor(&signed)?;
    eprintln!(
        "{}: {} records, {} octets",
        s.output.display(),
        grouped(signed.records),
        grouped(signed.bytes)
    );
    say_signed(&signed);
    common.tell("zone.sign", &signed, String::new)?;
    Ok(Status::Done)
}

/// Signs a zone file in whatever order it is. One in canonical order streams; that another is not is found out on
/// the way, and it is read again where nothing has left this program yet.
fn signed(
    path: &Path,
    output: &Path,
    options: &Options,
    progress: &mut Progress,
) -> Result<sign::Summary, Failure> {
    // A file is renamed into place at the end, and /dev/null keeps nothing.
    let nothing_left = output != Path::new("-") && output.metadata().map_or(true, |m| m.is_file())
        || output == Path::new("/dev/null");
    if order::can_be_read_again(path) && nothing_left {
        let mut source = Scanner::open(path)?;
        let mut unsorted = false;
        let done = write_output(output, |out| {
            zone::sign(&mut source, options, out, &mut |octets| progress.set(octets)).map_err(|e| {
                unsorted = matches!(e, Error::Unsorted { .. });
                Failure::from(e)
            })
        });
        if !unsorted {
            return done;
        }
    }
    let mut source = order::canonical(path, &mut |octets| progress.set(octets))?;
    write_output(output, |out| Ok(zone::sign(&mut source, options, out, &mut |octets| progress.set(octets))?))
}

/// Tells people what was signed, how fast, and where time went.
pub fn say_signed(signed: &sign::Summary) {
    eprintln!(
        "signed {} with {} and {}{}: {} signatures in {:.1} s, {} a second; key tags {:?}",
        signed.origin,
        signed.algorithm,
        signed.denial,
        if signed.zonemd { " and ZONEMD" } else { "" },
        grouped(signed.signatures),
        signed.seconds,
        grouped(signed.signatures_per_second as u64),
        signed.key_tags
    );
    let cpu = &signed.cpu;
    eprintln!(
        "CPU time of {} threads: signing {:.1} s, canonical form and text {:.1} s, reading {:.1} s, writing {:.1} s",
        cpu.threads + 2,
        cpu.signing,
        cpu.printing,
        cpu.reading,
        cpu.writing
    );
    if signed.dropped > 0 {
        eprintln!("left out {} DNSSEC records of the input", grouped(signed.dropped));
    }
    eprintln!("{}", signed.ds);
}
