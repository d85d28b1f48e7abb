//! The zones of a run: generated (and signed), or the user's own; with what readiness and traffic need.

use crate::config::Scenario;
use crate::family_spec::FamilySpec;
use crate::planned::ZonePlan;
use crate::{Error, Experiment, RunEvent, family_spec};
use measure::{Aside, Seed, aside};
use std::collections::HashSet;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A zone that servers can be started on.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// In presentation form, with its last dot.
    pub origin: String,
    /// The zone file.
    pub file: PathBuf,
    /// The algorithm that signs it, where it is signed.
    pub signed: Option<String>,
    /// The question and answer that show that a server is ready.
    pub probe: zone::Probe,
    /// The names that traffic asks for, one a line.
    pub names: PathBuf,
    /// A folder with the keys that signed it, where its primary is to sign what changes.
    pub keys: Option<PathBuf>,
    /// For validators, where we hold it.
    pub trust_anchor: Option<String>,
    /// The octets of its text before it was signed, where that is known.
    pub unsigned_bytes: Option<u64>,
    /// The seconds that it took to be signed, with reading and writing, where it was not generated at the same time.
    pub signing_seconds: Option<f64>,
    /// Of everything drawn for it.
    pub seed: Seed,
}

/// Makes one zone, or takes what an earlier part of the same run made. Where zones change during the run, the keys of one that is
/// signed here are kept for the server that signs what changes.
///
/// # Errors
/// [`Error::Zone`], [`Error::Traffic`], [`Error::Io`]; also once `stop` is set. Nothing half-made is left.
pub fn prepare(
    e: &Experiment,
    plan: &ZonePlan,
    changes: bool,
    dir: &Path,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(RunEvent),
) -> Result<Prepared, Error> {
    std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
    let seed = Seed(e.seed);
    let [made, names, anchor] =
        ["zone", "names", "anchor"].map(|ending| dir.join(format!("{}.{ending}", plan.label())));
    let (signs, own) = match plan {
        ZonePlan::Family { family, .. } => (family_spec::is_signed(family), None),
        ZonePlan::File(file) => (e.zone.sign_file, Some(file)),
        ZonePlan::Scenario(name) => (e.zone.scenarios.get(name).is_some_and(|s| s.sign), None),
    };
    let took = dir.join(format!("{}.signing", plan.label()));
    let note_time = |began: Instant| {
        std::fs::write(&took, began.elapsed().as_secs_f64().to_string()).map_err(Error::io(&took))
    };
    let keys = (signs && changes).then(|| dir.join(format!("{}.keys", plan.label())));
    if let Some(folder) = &keys {
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
    }
    match plan {
        _ if made.exists() => {}
        ZonePlan::Family { family, delegations } => {
            let family_spec = FamilySpec::from_str(family).map_err(|m| e.refuse(m))?;
            let family = family_spec.family;
            let doing = if signs { "generating and signing" } else { "generating" };
            tell(RunEvent::Zone { label: plan.label(), doing });
            if let (Some(_), false) = (family_spec.slice, signs) {
                slice(e, (&family_spec, *delegations), dir, stop)?;
                // Now it is there.
                return prepare(e, plan, changes, dir, stop, tell);
            }
            if let Some((part, parts)) = family_spec.slice {
                // It is cut from a zone that is not signed.
                let cut = ZonePlan::Family {
                    family: format!("{}#{part}/{parts}", family.name()),
                    delegations: *delegations,
                };
                let file = dir.join(format!("{}.zone", cut.label()));
                if !file.exists() {
                    slice(e, (&family_spec, *delegations), dir, stop)?;
                }
                let mut source = zone::order::canonical(&file, &mut |_| {})?;
                let options = family_spec.sign(signing(e, &e.zone.sign, &keys)?);
                write_aside(&made, stop, |out| {
                    keep_signed(&anchor, &zone::sign(&mut source, &options, out, &mut |_| {})?)
                })?;
            } else {
                write_aside(&made, stop, |out| {
                    if !signs {
                        return Ok(zone::generate(family, *delegations, seed, out, &mut |_| {}).map(drop)?);
                    }
                    let options = family_spec.sign(signing(e, &e.zone.sign, &keys)?);
                    let make = |out: &mut dyn Write, heard: &mut dyn FnMut(u64)| {
                        zone::generate(family, *delegations, seed, out, heard)
                    };
                    let (_, signed) = zone::generate_signed(family.name(), make, &options, out, &mut |_| {})?;
                    keep_signed(&anchor, &signed)
                })?;
            }
        }
        ZonePlan::File(from) if signs => {
            tell(RunEvent::Zone { label: plan.label(), doing: "signing" });
            let began = Instant::now();
            let mut source = zone::order::canonical(from, &mut |_| {})?;
            let options = signing(e, &e.zone.sign, &keys)?;
            let options = zone::sign::Options { nsec3: e.zone.denial.nsec3(), ..options };
            write_aside(&made, stop, |out| {
                keep_signed(&anchor, &zone::sign(&mut source, &options, out, &mut |_| {})?)
            })?;
            note_time(began)?;
        }
        ZonePlan::File(_) => {}
        ZonePlan::Scenario(name) => {
            let scenario =
                e.zone.scenarios.get(name).ok_or_else(|| e.refuse(format!("there is no [zone.{name}]")))?;
            let mut doing = |doing| tell(RunEvent::Zone { label: plan.label(), doing });
            let unsigned = Steps { e, scenario, dir, stop }.unsigned(&made, &names, &mut doing)?;
            if scenario.sign {
                doing("signing");
                let began = Instant::now();
                let mut source = zone::order::canonical(&unsigned, &mut |_| {})?;
                let options = scenario_signing(e, scenario, &keys)?;
                write_aside(&made, stop, |out| {
                    keep_signed(&anchor, &zone::sign(&mut source, &options, out, &mut |_| {})?)
                })?;
                note_time(began)?;
                std::fs::remove_file(&unsigned).map_err(Error::io(&unsigned))?;
            } else {
                std::fs::rename(&unsigned, &made).map_err(Error::io(&made))?;
            }
        }
    }
    let file = match own {
        Some(own) if !signs => std::fs::canonicalize(own).map_err(Error::io(own))?,
        _ => made,
    };
    tell(RunEvent::Zone { label: plan.label(), doing: "reading" });
    let probe = zone::probe(&file)?;
    if !names.exists() {
        write_names(e, &file, &names, stop)?;
    }
    Ok(Prepared {
        origin: probe.origin.to_string(),
        signed: probe.signed.then(|| if signs { algorithm(e, plan).into() } else { "as given".into() }),
        trust_anchor: std::fs::read_to_string(&anchor).ok(),
        unsigned_bytes: noted(&before_signing(&anchor)),
        signing_seconds: noted(&took),
        file,
        probe,
        keys,
        names,
        seed,
    })
}

/// Writes the names of a zone that traffic asks for, one a line.
fn write_names(e: &Experiment, zone: &Path, names: &Path, stop: &AtomicBool) -> Result<(), Error> {
    let sample = traffic::Names::from_zone(zone, Seed(e.seed), want(e)?, &mut |_| {})?;
    write_aside(names, stop, |out| sample.write(out).map_err(Error::io(names)))
}

/// Makes a whole zone and all of its slices.
fn slice(
    e: &Experiment,
    (family_spec, delegations): (&FamilySpec, u64),
    dir: &Path,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let (_, parts) = family_spec.slice.expect("a slice is wanted");
    let named = |part: u32| ZonePlan::Family {
        family: format!("{}#{part}/{parts}", family_spec.family.name()),
        delegations,
    };
    let file = |part: u32| dir.join(format!("{}.zone", named(part).label()));
    let folder = aside::folder_in(dir).map_err(Error::io(dir))?;
    let whole = folder.path().join("whole");
    write_aside(&whole, stop, |out| {
        zone::generate(family_spec.family, delegations, Seed(e.seed), out, &mut |_| {})?;
        Ok(())
    })?;
    let cut = zone::slice::plan(&whole, zone::slice::Cut::Parts(parts as usize), false, &mut |_| {})?;
    let aside: Vec<PathBuf> = (1..=parts).map(|part| folder.path().join(part.to_string())).collect();
    let mut outs = Vec::new();
    let unwritten = |error: zone::Error| with_path(folder.path(), error.into());
    for path in &aside {
        outs.push(BufWriter::new(std::fs::File::create(path).map_err(Error::io(path))?));
    }
    cut.write(&mut outs, &mut |_| {}).map_err(unwritten)?;
    for (part, (mut out, path)) in (1..).zip(outs.into_iter().zip(&aside)) {
        out.flush().map_err(Error::io(path))?;
        let file = file(part);
        std::fs::rename(path, &file).map_err(Error::io(&file))?;
    }
    Ok(())
}

/// How a zone is signed: `rzaia` or an algorithm.
fn algorithm<'a>(e: &'a Experiment, plan: &ZonePlan) -> &'a str {
    let scenario = match plan {
        ZonePlan::Scenario(name) => e.zone.scenarios.get(name),
        _ => None,
    };
    scenario.and_then(|s| s.algorithm.as_ref()).unwrap_or(&e.zone.sign)
}

pub fn scenario_signing(
    e: &Experiment,
    scenario: &Scenario,
    keys: &Option<PathBuf>,
) -> Result<zone::sign::Options, Error> {
    let options = signing(e, scenario.algorithm.as_ref().unwrap_or(&e.zone.sign), keys)?;
    Ok(zone::sign::Options { nsec3: scenario.denial().nsec3(), ..options })
}

/// The steps by which a scenario's zone is made.
struct Steps<'a> {
    e: &'a Experiment,
    scenario: &'a Scenario,
    dir: &'a Path,
    stop: &'a AtomicBool,
}

impl Steps<'_> {
    /// Makes the zone but for its signatures, beside `made`. Each step reads the file of the one before. The names that queries ask for
    /// are written before the zone grows, where they are those.
    fn unsigned(
        &self,
        made: &Path,
        names: &Path,
        doing: &mut dyn FnMut(&'static str),
    ) -> Result<PathBuf, Error> {
        let Self { e, scenario, dir, stop } = self;
        let folder = aside::folder_in(dir).map_err(Error::io(dir))?;
        let seed = Seed(e.seed);
        let step = |name: &str, write: &mut dyn FnMut(&mut dyn Write) -> Result<(), Error>| {
            let to = folder.path().join(name);
            write_aside(&to, stop, |out| write(out)).map(|()| to)
        };
        let mut file = match (&scenario.family, scenario.file.as_ref().or(e.zone.file.as_ref())) {
            (Some(family), _) => {
                doing("generating");
                let family = FamilySpec::from_str(family).map_err(|m| e.refuse(m))?.family;
                let delegations = scenario.delegations.unwrap_or_default();
                step("generated", &mut |out| {
                    Ok(zone::generate(family, delegations, seed, out, &mut |_| {}).map(drop)?)
                })?
            }
            (None, Some(file)) => file.clone(),
            (None, None) => return Err(e.refuse("a scenario begins with nothing: give zone.file")),
        };
        if scenario.strip {
            doing("taking DNSSEC out");
            file = step("stripped", &mut |out| {
                Ok(zone::strip(&mut zone::Scanner::open(&file)?, false, out, &mut |_| {}).map(drop)?)
            })?;
        }
        if let Some(size) = &scenario.grow {
            doing("adding delegations");
            if !scenario.ask_for_added {
                write_names(e, &file, names, stop)?;
            }
            let size = size.parse().map_err(|m| e.refuse(m))?;
            let asked_for = asked_for(e)?;
            file = step("grown", &mut |out| {
                let avoid = asked_for.iter().map(Vec::as_slice);
                Ok(zone::grow(&file, size, avoid, seed, out, &mut |_| {}).map(drop)?)
            })?;
        }
        let edits = zone::Edits { ds: scenario.ds, glue: scenario.glue, ttl: scenario.ttl };
        if edits != zone::Edits::default() {
            doing("changing its records");
            file = step("edited", &mut |out| Ok(zone::edit(&file, &edits, seed, out).map(drop)?))?;
        }
        // The last step's file, or a copy of what no step changed.
        let unsigned = made.with_extension("unsigned");
        if file.starts_with(folder.path()) {
            std::fs::rename(&file, &unsigned).map_err(Error::io(&unsigned))?;
        } else {
            std::fs::copy(&file, &unsigned).map_err(Error::io(&file))?;
        }
        Ok(unsigned)
    }
}

/// The names that the experiment's files of queries and captures ask for.
fn asked_for(e: &Experiment) -> Result<HashSet<Vec<u8>>, Error> {
    let mut names = HashSet::new();
    for traffic in e.traffics() {
        if let Some(queries) = &traffic.queries {
            names.extend(traffic::names_asked_for(queries)?);
        }
        if let Some(capture) = &traffic.trace {
            names.extend(trace::names_asked_for(std::slice::from_ref(capture), &mut |_| {})?);
        }
    }
    Ok(names)
}

/// The records that the traffics ask for: those of all delegations where one traffic needs them.
fn want(e: &Experiment) -> Result<traffic::Want, Error> {
    for traffic in e.traffics() {
        let want = traffic::Profile::load(&traffic.profile)?.want();
        if want == traffic::Want::Records {
            return Ok(want);
        }
    }
    Ok(traffic::Want::Names)
}

/// How the experiment signs: from now, as servers and validators look at the real date.
pub fn signing(
    e: &Experiment,
    algorithm: &str,
    keys: &Option<PathBuf>,
) -> Result<zone::sign::Options, Error> {
    let now = (measure::clock::wall() / measure::clock::SECOND) as u32;
    let options =
        zone::sign::Options::named(algorithm, now).map_err(|m| e.refuse(format!("zone.sign: {m}")))?;
    // Some servers re-sign signatures that are valid for a week at once, if they sign at all.
    let validity = if keys.is_some() { VALIDITY } else { options.validity };
    Ok(zone::sign::Options { keys: keys.clone(), validity, ..options })
}

/// Seconds for which signatures of a zone that changes are valid.
pub const VALIDITY: u32 = 30 * 86_400;

/// Keeps beside the zone what a resumed run has to know of its signing: the trust anchor, and the octets that the zone had before.
fn keep_signed(anchor: &Path, signed: &zone::sign::Summary) -> Result<(), Error> {
    let before = before_signing(anchor);
    std::fs::write(&before, signed.source_bytes.to_string()).map_err(Error::io(&before))?;
    std::fs::write(anchor, &signed.trust_anchor).map_err(Error::io(anchor))
}

/// The file beside a trust anchor that says how many octets the zone had before it was signed.
fn before_signing(anchor: &Path) -> PathBuf {
    anchor.with_extension("unsigned-bytes")
}

/// A number that was noted in a file; none where there is no such file.
fn noted<T: FromStr>(path: &Path) -> Option<T> {
    std::fs::read_to_string(path).ok()?.parse().ok()
}

/// A zone that could not be written does not know where.
fn with_path(path: &Path, error: Error) -> Error {
    match error {
        Error::Zone(zone::Error::Write(source)) => Error::Io { path: path.into(), source },
        other => other,
    }
}

/// Removes what a run that was killed had half written. Nobody else may be at work in the folder.
pub fn sweep(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        // Files that are written aside, and folders for zones that are made in several steps.
        if aside::is_aside(&entry.file_name()) {
            let path = entry.path();
            // A file that cannot be removed takes disk space, and does no other harm.
            let _ = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        }
    }
}

/// Refuses to write on once the run is to stop: a zone of millions takes minutes.
struct Heeding<'a, W> {
    out: W,
    stop: &'a AtomicBool,
}

impl<W: Write> Write for Heeding<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(std::io::Error::other("the run was stopped")),
            false => self.out.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Writes a file aside and renames it into place.
fn write_aside<T>(
    path: &Path,
    stop: &AtomicBool,
    write: impl FnOnce(&mut dyn Write) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut aside = Aside::create(path).map_err(Error::io(path))?;
    let mut out = BufWriter::with_capacity(1 << 20, Heeding { out: &mut aside, stop });
    let value = write(&mut out).map_err(|error| with_path(path, error))?;
    out.flush().map_err(Error::io(path))?;
    drop(out);
    aside.finish().map_err(Error::io(path))?;
    Ok(value)
}
