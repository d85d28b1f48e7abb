//! Does what is asked of durability make sense, and can this machine do it?

use crate::config::{PRELOAD, Syncs};
use crate::measures::{self, Part};
use crate::{Error, Experiment, Measure};
use measure::Time;
use std::process::Command;

/// Whether what it says of durability makes sense.
pub fn check(e: &Experiment) -> Result<(), Error> {
    let d = &e.durability;
    let measured = || e.measure.iter().map(|&m| (m, measures::of(m)));
    for (key, time) in [("timed", d.timed), ("calibrate", d.calibrate), ("life", d.life)] {
        if time < Time::millis(100) {
            return Err(e.refuse(format!("durability.{key}: at least 100 ms")));
        }
    }
    if d.updates == 0 || d.window == 0 || d.cuts == 0 || d.kills == 0 || d.cuts > 1000 {
        return Err(e.refuse("durability: updates, window, kills and cuts from 1, cuts up to 1000"));
    }
    if !(d.rate.is_finite() && (0.1..=10_000.0).contains(&d.rate)) {
        return Err(e.refuse("durability.rate: updates per second, from 0.1 to 10,000"));
    }
    let variants: Vec<Option<&str>> = match e.variant.as_slice() {
        [] => vec![None],
        all => all.iter().map(|v| Some(v.name.as_str())).collect(),
    };
    let off = |v: &Option<&str>| e.servers.iter().any(|s| e.syncs_of(s, *v) != Syncs::On);
    if let (Some((measure, _)), true) =
        (measured().find(|(_, m)| !m.takes_updates()), variants.iter().any(off))
    {
        return Err(e.refuse(format!(
            "syncs: taken away where a server is under updates (measures update, syncs, power-cut), not for '{}'",
            measure.word()
        )));
    }
    for v in variants {
        let distribution = e.distribution_of(v);
        if let Some((measure, _)) =
            measured().find(|(_, m)| m.part == Part::LonePrimary && distribution.secondaries > 0)
        {
            return Err(
                e.refuse(format!("measure {}: it is of one server, without secondaries", measure.word()))
            );
        }
        if e.measure.contains(&Measure::Kill) && distribution.primary.is_none() {
            return Err(e.refuse("measure kill: it needs distribution.primary, whose secondary is killed"));
        }
    }
    Ok(())
}

/// Whether this machine can do what it asks: looked at before anything is started.
pub fn here(e: &Experiment) -> Result<(), Error> {
    let without = |measure: Measure, why: String| {
        Error::Machine(format!("measure {}: {why}; or leave it out with --set measure=…", measure.word()))
    };
    if e.measure.contains(&Measure::Syncs) {
        rack::syncs::check().map_err(|e| without(Measure::Syncs, e.to_string()))?;
    }
    if e.measure.contains(&Measure::PowerCut) {
        rack::disk::check().map_err(|e| without(Measure::PowerCut, e.to_string()))?;
    }
    let variants = e.variant.iter().map(|v| Some(v.name.as_str())).chain([None]);
    for variant in variants {
        for label in &e.servers {
            if e.syncs_of(label, variant).preloads(e.kind(label)?) {
                return preload_works();
            }
        }
    }
    Ok(())
}

/// Whether the library can be loaded; the loader only says so where not, and goes on.
fn preload_works() -> Result<(), Error> {
    let tried = Command::new("true").env("LD_PRELOAD", PRELOAD).output();
    let said = tried.map_or_else(|e| e.to_string(), |o| String::from_utf8_lossy(&o.stderr).into_owned());
    if said.trim().is_empty() {
        return Ok(());
    }
    Err(Error::Machine(format!(
        "syncs off: {PRELOAD} cannot be put in front of a server ({}): apt-get install eatmydata",
        said.trim()
    )))
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_makes_no_sense_is_refused() {
        let load = |sets: &[&str]| {
            let (path, text) = crate::named("isc-durability").unwrap();
            let sets: Vec<_> = sets.iter().map(|s| s.parse().unwrap()).collect();
            crate::load(&path, &text, &sets).map(|_| ()).map_err(|e| e.to_string())
        };
        load(&["durability.cuts=3", "servers=bind", "measure=power-cut"]).unwrap();
        for (sets, part) in [
            (&["durability.life=1ms"][..], "durability.life: at least"),
            (&["durability.cuts=0"], "from 1"),
            (&["durability.rate=0"], "durability.rate"),
            (&["servers=nsd"], "nsd takes no updates"),
            (&["measure=memory"], "syncs: taken away"),
            (&["distribution.secondaries=1", "measure=syncs"], "without secondaries"),
        ] {
            let error = load(sets).unwrap_err();
            assert!(error.contains(part), "{sets:?}: {error}");
        }
    }
}
