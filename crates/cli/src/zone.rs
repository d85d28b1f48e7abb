//! `dnsrack zone`: generate, sign, info.

use crate::output::{self, Common, Failure, Progress, Status, write_output};
use clap::Args;
use measure::units::{self, grouped};
use measure::{Seed, clock};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;
use zone::sign::{self, Algorithm, Options};
use zone::{Family, Info, Rrsets, Scanner};

/// What can be done with zones.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Write a zone of any size, the same for the same seed
    Generate(Generate),
    /// Sign a zone file that is in canonical order
    Sign(Sign),
    /// Say what is in a zone file
    Info {
        /// Zone file (RFC 1035); '-' is standard input
        #[arg(value_name = "IN")]
        input: PathBuf,
    },
}

/// `zone generate`.
#[derive(Args)]
pub struct Generate {
    /// Family of the RZAIA study: U-4-DS0, U-6-DS0, S-6-DS10, S-6-DS50 or S-6-DS100
    #[arg(long, value_name = "FAMILY")]
    family: Family,
    /// Delegations: the 280 TLDs of 2009 and new ones; K, M, G are powers of ten
    #[arg(long, value_name = "N", value_parser = units::count)]
    delegations: u64,
    /// Zone file to write; '-' is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Sign too, in the same pass: 'rzaia' or an algorithm such as ECDSAP256SHA256
    #[arg(long, value_name = "ALGORITHM|rzaia", num_args = 0..=1, default_missing_value = "rzaia")]
    sign: Option<String>,
    #[command(flatten)]
    signing: Signing,
    /// Seed of all draws
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

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
struct Signing {
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
    fn options(&self, algorithm: Option<Algorithm>) -> Options {
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
    fn is_used(&self) -> bool {
        self.ksk_bits.is_some()
            || self.zsk_bits.is_some()
            || self.validity.is_some()
            || self.at.is_some()
            || self.keys.is_some()
            || self.trust_anchor.is_some()
    }

    fn write_anchor(&self, signed: &sign::Summary) -> Result<(), Failure> {
        let Some(path) = &self.trust_anchor else { return Ok(()) };
        write_output(path, |out| Ok(out.write_all(signed.trust_anchor.as_bytes())?))
    }
}

/// Runs one of them.
pub fn run(command: Command, common: &Common) -> output::Result {
    match command {
        Command::Generate(g) => generate(&g, common),
        Command::Sign(s) => sign_file(&s, common),
        Command::Info { input } => show_info(&input, common),
    }
}

fn no_two_outputs(path: &Path, common: &Common) -> Result<(), Failure> {
    if common.json && path == Path::new("-") {
        return Err(Failure::usage("--json and '--output -' both want standard output: give -o a file"));
    }
    Ok(())
}

fn generate(g: &Generate, common: &Common) -> output::Result {
    no_two_outputs(&g.output, common)?;
    let options = match g.sign.as_deref() {
        None if g.signing.is_used() => {
            return Err(Failure::usage(
                "--at, --validity, --keys, --ksk-bits, --zsk-bits, --trust-anchor need --sign",
            ));
        }
        None => None,
        Some(text) if text.eq_ignore_ascii_case("rzaia") => Some(g.signing.options(None)),
        Some(text) => {
            let algorithm = text.parse().map_err(|e| Failure::usage(format!("--sign: {e}, or rzaia")))?;
            Some(g.signing.options(Some(algorithm)))
        }
    };
    let start = Instant::now();
    let mut progress = Progress::new(&format!("{} delegations", g.family), g.delegations);
    let written = write_output(&g.output, |out| {
        let mut heard = |n| progress.set(n);
        Ok(match &options {
            None => (zone::generate(g.family, g.delegations, Seed(g.seed), out, &mut heard)?, None),
            Some(options) => {
                let (made, signed) =
                    zone::generate_signed(g.family, g.delegations, Seed(g.seed), options, out, &mut heard)?;
                (made, Some(signed))
            }
        })
    });
    progress.finish();
    let (made, signed) = written?;
    if let Some(signed) = &signed {
        g.signing.write_anchor(signed)?;
    }
    let bytes = signed.as_ref().map_or(made.bytes, |s| s.bytes);
    eprintln!(
        "{}: {} delegations, {} NS, {} A, {} AAAA, {} DS, {} octets in {:.1} s",
        g.output.display(),
        grouped(made.delegations),
        grouped(made.ns),
        grouped(made.a),
        grouped(made.aaaa),
        grouped(made.ds),
        grouped(bytes),
        start.elapsed().as_secs_f64()
    );
    if let Some(signed) = &signed {
        say_signed(signed, start);
    }
    if common.json {
        #[derive(serde::Serialize)]
        struct Written {
            family: Family,
            seed: u64,
            #[serde(flatten)]
            made: zone::generate::Summary,
            signed: Option<sign::Summary>,
        }
        output::json("zone.generate", &Written { family: g.family, seed: g.seed, made, signed })?;
    }
    Ok(Status::Done)
}

fn say_signed(signed: &sign::Summary, start: Instant) {
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

/// A file to read, and its size for the progress bar; `-` is standard input.
fn input(path: &Path) -> (PathBuf, u64) {
    let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
    (path.to_path_buf(), path.metadata().map_or(0, |m| m.len()))
}

fn sign_file(s: &Sign, common: &Common) -> output::Result {
    no_two_outputs(&s.output, common)?;
    let options = match s.preset {
        Some(_) => s.signing.options(None),
        None => s.signing.options(Some(s.algorithm.unwrap_or(Algorithm::EcdsaP256Sha256))),
    };
    let (path, size) = input(&s.input);
    let start = Instant::now();
    // Before the output is touched: an input that is not there.
    let mut source = Rrsets::new(Scanner::open(&path)?);
    let mut progress = Progress::new(&format!("signing {}, octets", s.input.display()), size);
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
    if common.json {
        output::json("zone.sign", &signed)?;
    }
    Ok(Status::Done)
}

fn show_info(path: &Path, common: &Common) -> output::Result {
    let (path, size) = input(path);
    let mut progress = Progress::new(&format!("reading {}, octets", path.display()), size);
    let info = zone::info(&path, &mut |octets| progress.set(octets));
    progress.finish();
    let info = info?;
    if common.json {
        output::json("zone.info", &info)?;
    } else {
        output::print(&describe(&info))?;
    }
    Ok(Status::Done)
}

/// The facts for people.
fn describe(info: &Info) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<18} {value}");
    };
    line("zone", format!("{}, serial {}", info.origin, info.serial));
    line("delegations", grouped(info.delegations));
    line("records", grouped(info.records));
    line("size", format!("{} octets, {} in wire format", grouped(info.bytes), grouped(info.wire_bytes)));
    let signed = match (info.signed, info.algorithms.is_empty()) {
        (false, _) => "no".to_owned(),
        (true, true) => "yes, but without signatures".to_owned(),
        (true, false) => format!("yes; signatures: {}", pairs(&info.algorithms)),
    };
    line("signed", signed);
    line("types", pairs(&info.types));
    if info.delegations > 0 {
        let ns = &info.ns_per_delegation;
        line("NS a delegation", format!("mean {:.2}; {}", mean(ns), pairs(ns)));
        let lengths = &info.label_length;
        line("label length", format!("mean {:.2}; {}", mean(lengths), pairs(lengths)));
        line("with DS", format!("{:.1} %", info.ds_share * 100.0));
        let g = &info.glue;
        line("glue", format!("{} names, {} A, {} AAAA", grouped(g.names), grouped(g.a), grouped(g.aaaa)));
        let mut most: Vec<_> = g.most.iter().collect();
        most.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let most: Vec<String> = most.into_iter().map(|(cut, n)| format!("{cut} {}", grouped(*n))).collect();
        line("most glue below", most.join(", "));
    }
    let row = ["NS", "A", "AAAA", "DS"].map(|t| grouped(info.count(t)));
    let _ = writeln!(text, "\nas in RZAIA's table 1.1:");
    let _ = writeln!(
        text,
        "{:>14} {:>14} {:>14} {:>14} {:>16}",
        "NS RRs", "A RRs", "AAAA RRs", "DS RRs", "File Size"
    );
    let _ = writeln!(
        text,
        "{:>14} {:>14} {:>14} {:>14} {:>16}",
        row[0],
        row[1],
        row[2],
        row[3],
        grouped(info.bytes)
    );
    text
}

fn mean<K: Copy + Into<u64>>(counts: &BTreeMap<K, u64>) -> f64 {
    let (sum, n) = counts.iter().fold((0, 0), |(s, n), (&k, &c)| (s + k.into() * c, n + c));
    sum as f64 / n.max(1) as f64
}

fn pairs<K: std::fmt::Display>(counts: &BTreeMap<K, u64>) -> String {
    let pairs: Vec<String> = counts.iter().map(|(k, &n)| format!("{k}: {}", grouped(n))).collect();
    pairs.join(", ")
}
