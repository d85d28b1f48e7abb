//! Does what is asked of durability make sense, and can the server's machine do it?

use crate::config::Syncs;
use crate::measures::{self, Part};
use crate::{Error, Experiment, Measure};
use agent::{Ability, Agent, Try};
use measure::Time;

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

/// Whether the machine of the server can do what it asks: looked at before anything is started there.
pub fn on(e: &Experiment, server: &Agent) -> Result<(), Error> {
    let measured =
        |measure: Measure| e.measure.contains(&measure).then(|| format!("measure {}", measure.word()));
    let leave_out = "; or leave it out with --set measure=…";
    let wanted = [
        (Ability::TraceSyncs, measured(Measure::Syncs), leave_out),
        (Ability::CutPower, measured(Measure::PowerCut), leave_out),
        (Ability::TakeSyncsAway, preloads(e)?.then(|| "syncs off".into()), ""),
    ];
    for (ability, what, hint) in wanted {
        let Some(what) = what else { continue };
        if let Some(why) = server.ask(Try { ability })? {
            let place = if server.is_elsewhere() { "host server: " } else { "" };
            return Err(Error::Machine(format!("{place}{what}: {why}{hint}")));
        }
    }
    Ok(())
}

/// Whether the syncs of any server are taken away by a library.
fn preloads(e: &Experiment) -> Result<bool, Error> {
    let variants = || e.variant.iter().map(|v| Some(v.name.as_str())).chain([None]);
    for label in &e.servers {
        let kind = e.kind(label)?;
        if variants().any(|variant| e.syncs_of(label, variant).preloads(kind)) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_makes_no_sense_is_refused() {
        let load =
            |sets: &[&str]| crate::open_with("isc-durability", sets).map(|_| ()).map_err(|e| e.to_string());
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
