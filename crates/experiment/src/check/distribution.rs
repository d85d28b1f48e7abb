//! Can a distribution be as it is described, and do its servers take what is sent to them?

use crate::config::{Distribution, Signing};
use crate::measures::{self, Measurement, Part, ZoneChanges};
use crate::replication::{fleet, paths};
use crate::{Error, Experiment, Measure};

/// The most secondaries that a rack may have.
const MOST: u32 = 64;

/// Whether a primary can do what is asked of it while a signed zone changes.
fn signing(e: &Experiment, d: &Distribution, label: &str) -> Result<(), Error> {
    let (kind, signing) = (e.kind(label)?, e.signing_of(d, label));
    let can = server::driver(kind).facts().can;
    if !e.signs() {
        return Ok(());
    }
    if signing == Signing::Online && !can.signs {
        return Err(e.refuse(format!("'{label}': {kind} does not sign what changes")));
    }
    if signing == Signing::Sent {
        if !can.takes_signatures {
            let why = format!(
                "'{label}': {kind} takes no signatures with updates: set signing = \"online\" for it"
            );
            return Err(e.refuse(why));
        }
        if let Some(m) = e.measure.iter().find(|m| d.secondaries > 0 && measures::of(**m).has_markers()) {
            let why =
                "markers are changes that nobody signs: signing = \"sent\" goes with measure 'update' alone";
            return Err(e.refuse(format!("measure {}: {why}", m.word())));
        }
        if !e.updates.series.is_empty() {
            return Err(e.refuse("updates.series: its versions are not signed: set signing = \"online\""));
        }
        if let Some(family) = e.zone.families.iter().find(|f| f.contains("+nsec3") || f.contains("+opt-out"))
        {
            return Err(e.refuse(format!("zone.families: {family}: signing = \"sent\" is for NSEC alone")));
        }
    }
    Ok(())
}

/// Whether the experiment can be made of external servers: they have no secondaries here, and they take updates with their own keys alone.
fn external(e: &Experiment, d: &Distribution) -> Result<(), Error> {
    if d.secondaries > 0 {
        return Err(
            e.refuse("distribution.secondaries: an external server is not set up here, so it has none")
        );
    }
    for &measure in &e.measure {
        let taken = measures::of(measure);
        let possible = match taken.part {
            Part::Alone | Part::Any => measure != Measure::Load,
            Part::Primary | Part::LonePrimary | Part::OneOfSeveral => {
                matches!(measure, Measure::Update | Measure::Transfer)
            }
        };
        if !possible {
            return Err(e.refuse(format!(
                "measure {}: it needs a server that is started here, and its servers are external",
                measure.word()
            )));
        }
        for label in e.servers.iter().filter(|_| taken.takes_updates()) {
            let server = e.server(label)?;
            if server.tsig.is_none() || server.reset.is_empty() {
                return Err(e.refuse(format!(
                    "measure {}: give server.{label}.tsig, the file with its key, and server.{label}.reset, a command that puts it back \
                     to the zone file",
                    measure.word()
                )));
            }
        }
    }
    Ok(())
}

/// Whether what it says of changes makes sense.
pub fn check(e: &Experiment) -> Result<(), Error> {
    paths::check(e, &fleet::peer_names(e))?;
    let u = &e.updates;
    let measured = || e.measure.iter().map(|&m| measures::of(m));
    let of_secondaries = e.measure.iter().find(|m| measures::of(**m).needs_secondaries());
    for d in e.distributions() {
        if d.primary.is_some() && d.secondaries == 0 {
            return Err(e.refuse(
                "distribution.secondaries: the server measured is one of the primary's: at least 1",
            ));
        }
        if d.secondaries > MOST {
            return Err(e.refuse(format!("distribution.secondaries: at most {MOST}")));
        }
        if let Some(m) = d.measures.iter().find(|m| measures::of(**m).part == Part::Alone) {
            return Err(e.refuse(format!("distribution.measures: {} is of a server alone", m.word())));
        }
        if !d.queried.is_measured() && (d.primary.is_none() || d.secondaries < 2) {
            return Err(e.refuse(
                "distribution.queried: all secondaries are asked where one of several is measured: set distribution.primary, and \
                 distribution.secondaries to 2 at least",
            ));
        }
        if d.chained >= d.secondaries.max(1) {
            return Err(e.refuse("distribution.chained: fewer than there are secondaries"));
        }
        for label in d.primary.iter().chain(&d.others) {
            if e.server(label)?.address.is_some() {
                let why = format!("distribution: '{label}' is external, and all of it is on the rack");
                return Err(e.refuse(why));
            }
        }
        if e.is_external()? {
            external(e, d)?;
        } else if let Some(m) = of_secondaries.filter(|_| d.secondaries == 0) {
            return Err(e.refuse(format!("measure {}: it needs distribution.secondaries", m.word())));
        }
    }
    for d in e.distributions() {
        let changes = |m: &Measurement| m.has_markers() || m.changes == ZoneChanges::Versions;
        let taken = match &d.primary {
            Some(label) if d.secondaries > 0 && measured().any(|m| m.changes != ZoneChanges::None) => {
                vec![label]
            }
            None if measured().any(|m| m.takes_updates() || d.secondaries > 0 && changes(m)) => {
                e.servers.iter().collect()
            }
            _ => Vec::new(),
        };
        for label in taken {
            let kind = e.kind(label)?;
            if !server::driver(kind).facts().can.update {
                return Err(e.refuse(format!("'{label}': {kind} takes no updates (RFC 2136)")));
            }
            signing(e, d, label)?;
        }
    }
    if !u.rates.iter().all(|r| r.is_finite() && (0.0..=1e6).contains(r)) || u.rates.is_empty() {
        return Err(e.refuse("updates.rates: updates per second, from 0 to 1M, at least one"));
    }
    if u.batch == 0 || u.count == 0 || u.window == 0 {
        return Err(e.refuse("updates: batch, count and window from 1"));
    }
    e.updates.mix().map_err(|why| e.refuse(why.to_string()))?;
    super::batches::check(e)?;
    super::outage::check(e)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str, sets: &[&str]) -> String {
        crate::open_with(name, sets).expect_err(&format!("{sets:?}")).to_string()
    }

    #[test]
    fn what_is_measured_of_a_server_alone_has_no_secondaries() {
        let said = refused("demo", &["distribution.secondaries=1", "distribution.measures=memory"]);
        assert!(said.contains("distribution.measures: memory is of a server alone"), "{said}");
    }

    #[test]
    fn all_secondaries_are_asked_where_one_of_several_is_measured() {
        let said =
            refused("isc-query-under-update", &["distribution.queried=all", "distribution.secondaries=1"]);
        assert!(said.contains("distribution.secondaries to 2 at least"), "{said}");
    }

    #[test]
    fn who_cannot_sign_is_refused_before_anything_starts() {
        let sent = "distribution.signing=sent";
        for (name, sets, why) in [
            ("isc-updates", &[sent][..], "'bind': bind takes no signatures with updates"),
            ("isc-updates", &["servers=knot,yadifa", sent], "'yadifa': yadifa takes no signatures"),
            ("isc-updates", &["servers=nsd"], "'nsd': nsd takes no updates"),
            ("isc-updates", &["servers=knot", sent, "zone.families=COM+nsec3"], "is for NSEC alone"),
            (
                "isc-query-under-update",
                &["distribution.primary=knot", sent],
                "measure throughput: markers are changes that nobody signs",
            ),
        ] {
            let said = refused(name, sets);
            assert!(said.contains(why), "{sets:?}: {said}");
        }
        // One server's own setting goes before the distribution's.
        let sets = ["servers=knot,b", "server.b.kind=bind", sent, "server.b.signing=online"];
        let e = crate::open_with("isc-updates", &sets).unwrap();
        let d = e.distribution_of(None);
        assert_eq!((e.signing_of(d, "knot"), e.signing_of(d, "b")), (Signing::Sent, Signing::Online));
        // Without a signed zone nothing is said of it.
        crate::open_with("isc-updates", &[sent, "zone.families=COM"]).unwrap();
    }
}
