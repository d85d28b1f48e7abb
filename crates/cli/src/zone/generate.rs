//! `dnsrack zone generate`.

use super::sign::{Signing, say_signed};
use crate::output::{self, Common, Failure, Status, write_output};
use clap::Args;
use measure::Seed;
use measure::units::{self, grouped};
use std::path::PathBuf;
use std::time::Instant;
use zone::{Family, Profile, Shape, sign};

/// `zone generate`.
#[derive(Args)]
pub struct Generate {
    /// Kind of zone in the papers: U-4-DS0, U-6-DS0, S-6-DS10, S-6-DS50 or S-6-DS100 (RZAIA), COM, PT, ROOT, NOMINET
    #[arg(long, value_name = "FAMILY", required_unless_present = "profile", conflicts_with = "profile")]
    family: Option<Family>,
    /// Zone profile: a TOML file, such as 'zone fit' writes, or COM, PT, ROOT
    #[arg(long, value_name = "FILE|NAME")]
    profile: Option<String>,
    /// Number of delegations (in NOMINET, of A records); K, M, G are powers of ten [default: that of the family or profile;
    /// RZAIA's families have none]
    #[arg(long, value_name = "N", value_parser = units::count)]
    delegations: Option<u64>,
    /// Zone file to write; '-' is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Sign the zone in the same pass: 'rzaia', or an algorithm such as ECDSAP256SHA256
    #[arg(long, value_name = "ALGORITHM|rzaia", num_args = 0..=1, default_missing_value = "rzaia")]
    sign: Option<String>,
    #[command(flatten)]
    signing: Signing,
    /// Seed; the same seed gives the same zone
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

/// Runs it.
pub fn run(g: &Generate, common: &Common) -> output::Result {
    common.no_two_outputs(&g.output)?;
    let options = match g.sign.as_deref() {
        None if g.signing.is_used() => {
            return Err(Failure::usage(
                "--at, --validity, --keys, --ksk-bits, --zsk-bits, --nsec3, --zonemd, --trust-anchor need --sign",
            ));
        }
        None => None,
        Some(text) => Some(g.signing.options(text).map_err(|why| Failure::usage(format!("--sign: {why}")))?),
    };
    let (shape, name) = match (&g.profile, g.family) {
        (Some(profile), _) => (Shape::from(Profile::load(profile)?), profile.as_str()),
        (None, Some(family)) => (Shape::from(family), family.name()),
        (None, None) => return Err(Failure::usage("give --family or --profile")),
    };
    let Some(delegations) = g.delegations.or(shape.delegations()) else {
        return Err(Failure::usage(format!("{name} has no size of its own: give --delegations, 1K to 10M")));
    };
    let start = Instant::now();
    let mut progress = common.progress(&format!("{name} delegations"), delegations);
    let written = write_output(&g.output, |out| {
        let mut heard = |n| progress.set(n);
        Ok(match &options {
            None => (zone::generate(shape, delegations, Seed(g.seed), out, &mut heard)?, None),
            Some(options) => {
                let make = |out: &mut dyn std::io::Write, heard: &mut dyn FnMut(u64)| {
                    zone::generate(shape, delegations, Seed(g.seed), out, heard)
                };
                let (made, signed) = zone::generate_signed(name, make, options, out, &mut heard)?;
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
        say_signed(signed);
    }
    #[derive(serde::Serialize)]
    struct Written {
        family: Option<Family>,
        profile: Option<String>,
        seed: u64,
        #[serde(flatten)]
        made: zone::generate::Summary,
        signed: Option<sign::Summary>,
    }
    let written = Written { family: g.family, profile: g.profile.clone(), seed: g.seed, made, signed };
    common.tell("zone.generate", &written, String::new)?;
    Ok(Status::Done)
}
