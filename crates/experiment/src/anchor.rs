//! Are a signed zone's answers right? Asked of an independent validator: `delv`, from the trust anchor.

use crate::Error;
use agent::{Agent, Tool};
use measure::Seed;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use traffic::{Kind, Names};

/// The verdict of `delv` on a sample of names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Answers fully validated, negative ones among them.
    pub validated: u32,
    /// The others: what was asked, and `delv`'s words.
    pub refused: Vec<String>,
}

/// Questions to put: the apex's keys and SOA, then in turn the DS of a delegation and a name that does
/// not exist. Each answer is either signed or proven absent, so `delv` must validate every one.
fn questions(
    origin: &str,
    names: &Path,
    count: u32,
    seed: Seed,
) -> Result<Vec<(String, &'static str)>, Error> {
    let mut asked = vec![(origin.to_owned(), "SOA"), (origin.to_owned(), "DNSKEY")];
    let names = Names::from_file(names, seed)?;
    let mut draw = seed.draw("validated names", 0);
    let below = if origin == "." { "." } else { &format!(".{origin}") };
    while asked.len() < count as usize {
        // Among the owners of records there is glue, of which nothing is signed.
        if names.kind() != Kind::Records {
            asked.push((names.text(draw.below(names.len() as u64) as usize), "DS"));
        }
        asked.push((format!("no-such-name-{:08x}{below}", draw.bits() as u32), "A"));
    }
    asked.truncate(count as usize);
    Ok(asked)
}

/// Has `delv` on an agent's host ask `at` for a sample of the zone's names and validate each answer.
///
/// # Errors
/// [`Error::Agent`] where `delv` cannot be started, [`Error::Io`] where the folder cannot be written.
pub fn validate(
    agent: &Agent,
    at: SocketAddr,
    zone: &crate::zones::Prepared,
    count: u32,
    dir: &Path,
) -> Result<Verdict, Error> {
    let Some(anchor) = &zone.trust_anchor else { return Ok(Verdict::default()) };
    let anchor_file = dir.join("trust-anchor.conf");
    std::fs::write(&anchor_file, anchor).map_err(Error::io(&anchor_file))?;
    let anchor_there = agent.put(&anchor_file)?.display().to_string();
    let log = dir.join("delv.txt");
    let mut all = File::options().create(true).append(true).open(&log).map_err(Error::io(&log))?;
    let mut verdict = Verdict::default();
    for (name, rtype) in questions(&zone.origin, &zone.names, count, zone.seed)? {
        let mut args = vec![format!("@{}", at.ip()), "-p".into(), at.port().to_string()];
        args.extend([
            "-a".into(),
            anchor_there.clone(),
            format!("+root={}", zone.origin),
            name.clone(),
            rtype.into(),
        ]);
        let delv = Tool { program: "delv".into(), args, patience: Duration::from_secs(10) };
        let said = agent.ask(delv)?.said;
        all.write_all(said.as_bytes()).map_err(Error::io(&log))?;
        if said.contains("fully validated") {
            verdict.validated += 1;
        } else {
            let words: Vec<&str> = said.lines().filter(|l| !l.trim().is_empty()).take(2).collect();
            verdict.refused.push(format!("{name} {rtype}: {}", words.join("; ")));
        }
    }
    Ok(verdict)
}
