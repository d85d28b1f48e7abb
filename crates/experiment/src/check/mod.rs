//! Does an experiment make sense as a whole? Looked at before anything is started.

mod batches;
mod distribution;
pub mod durability;
mod outage;
pub mod versions;

use crate::config::{MANY, Scenario};
use crate::family_spec::{Denial, FamilySpec};
use crate::{Error, Experiment, Measure};
use std::str::FromStr;

/// Whether it makes sense as a whole.
pub fn experiment(e: &Experiment) -> Result<(), Error> {
    let named: [(&str, bool); 3] =
        [("measure", e.measure.is_empty()), ("servers", e.servers.is_empty()), ("repeats", e.repeats == 0)];
    if let Some((key, _)) = named.iter().find(|(_, empty)| *empty) {
        return Err(e.refuse(format!("{key}: at least one is needed")));
    }
    for (i, label) in e.servers.iter().enumerate() {
        let (kind, server) = (e.kind(label)?, e.server(label)?);
        if e.servers[..i].contains(label) {
            return Err(e.refuse(format!("servers: '{label}' stands there twice")));
        }
        if (kind == server::Kind::EXTERNAL) != server.address.is_some() {
            return Err(e.refuse(format!(
                "server.{label}.address: an external server needs one (ADDR:PORT), and no other takes one"
            )));
        }
    }
    for (label, server) in &e.server {
        if server.address.is_none() && (server.tsig.is_some() || !server.reset.is_empty()) {
            return Err(e.refuse(format!("server.{label}: tsig and reset are of an external server")));
        }
    }
    if e.workers.contains(&0) {
        return Err(e.refuse("workers: numbers of CPUs for the server, from 1"));
    }
    if !e.workers.is_empty() {
        if e.is_external()? {
            return Err(e.refuse("workers: an external server has the CPUs that it has"));
        }
        if let Some((label, _)) = e.server.iter().find(|(_, server)| server.workers.is_some()) {
            return Err(
                e.refuse(format!("workers: server.{label}.workers is given already: leave out one of both"))
            );
        }
    }
    if e.is_external()? && e.traffics().iter().any(|t| t.addresses > 1) {
        return Err(e.refuse("traffic.addresses: an external server answers at the one address given"));
    }
    for family in &e.zone.families {
        FamilySpec::from_str(family).map_err(|why| e.refuse(format!("zone.families: {why}")))?;
    }
    zone::sign::Options::named(&e.zone.sign, 0).map_err(|m| e.refuse(format!("zone.sign: {m}")))?;
    if e.zone.denial != Denial::Nsec && !(e.zone.sign_file && e.zone.file.is_some()) {
        return Err(e.refuse("zone.denial is of a zone file that is signed first (zone.sign_file = true)"));
    }
    for (name, scenario) in &e.zone.scenarios {
        self::scenario(e, scenario).map_err(|what| e.refuse(format!("zone.{name}: {what}")))?;
    }
    // Real versions are asked for when it is run: the catalogue has none.
    let given = e.measure.contains(&Measure::Churn) || !e.zone.scenarios.is_empty();
    if e.zone.file.is_none() && !given && (e.zone.families.is_empty() || e.zone.delegations.is_empty()) {
        return Err(e.refuse("zone: give families and delegations, or a file"));
    }
    if e.zone.file.is_none() && e.zone.delegations.contains(&0) {
        return Err(e.refuse("zone.delegations: a zone without delegations cannot be generated"));
    }
    for (i, v) in e.variant.iter().enumerate() {
        if v.name.is_empty() || e.variant[..i].iter().any(|other| other.name == v.name) {
            return Err(e.refuse(format!("variant: each needs a name of its own, unlike '{}'", v.name)));
        }
    }
    for traffic in e.traffics() {
        if traffic.queries.is_some() && traffic.trace.is_some() {
            return Err(e.refuse("traffic: give queries or a trace, not both"));
        }
        if !(traffic.speed.is_finite() && traffic.speed > 0.0) {
            return Err(e.refuse("traffic.speed: a factor above 0"));
        }
        for (key, given) in [("generators", traffic.generators), ("addresses", traffic.addresses)] {
            if !(1..=MANY).contains(&given) {
                return Err(e.refuse(format!("traffic.{key}: from 1 to {MANY}")));
            }
        }
        if traffic.trace.is_some() {
            if traffic.generators > 1 {
                return Err(e.refuse("traffic.generators: a capture is replayed by one"));
            }
            if let Some(m) = e.measure.iter().find(|m| matches!(m, Measure::Throughput | Measure::Peak)) {
                return Err(e.refuse(format!(
                    "measure {}: a capture has times of its own; make a file of its queries with 'dnsrack trace edit \
                     --format queries' and give that as traffic.queries",
                    m.word()
                )));
            }
        }
        if traffic.retry.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err(e.refuse("traffic.retry: a share from 0 to 1"));
        }
    }
    if e.precision.as_ref().is_some_and(|p| !(p.rate > 0.0 && p.latency > 0.0)) {
        return Err(e.refuse("precision: half-widths above 0, such as 0.05"));
    }
    if let Some(c) = &e.comparison {
        for (key, label) in [("base", &c.base), ("candidate", &c.candidate)] {
            if !e.servers.contains(label) {
                return Err(e.refuse(format!("comparison.{key}: '{label}' is none of the servers")));
            }
        }
        if c.base == c.candidate {
            return Err(e.refuse("comparison: base and candidate are one label: give the same program two"));
        }
    }
    if !(e.load.rate.is_finite() && (1.0..=1e6).contains(&e.load.rate)) {
        return Err(e.refuse("load.rate: queries per second, from 1 to 1M"));
    }
    let rates = e.variant.iter().filter_map(|v| v.rates.as_ref()).chain([&e.latency.rates]);
    if !rates.flatten().all(|r| r.is_finite() && *r > 0.0 && *r <= 1e8) {
        return Err(e.refuse("latency.rates: queries per second, above 0 and at most 100M"));
    }
    let (trial, sum) = (e.peak.trial, e.peak.duration_sum);
    if sum.0 < 2 * trial.0 {
        return Err(e.refuse(format!(
            "peak.duration_sum: {sum} are less than two trials of {trial}, and one trial alone proves nothing"
        )));
    }
    if !(1..=100_000).contains(&e.peak.window) || !(1..=100).contains(&e.peak.window_loads) {
        return Err(e.refuse("peak: window is 1 to 100,000 queries, window_loads 1 to 100"));
    }
    distribution::check(e)?;
    durability::check(e)?;
    if !(1..=10_000).contains(&e.throughput.window) {
        return Err(e.refuse("throughput.window: queries that wait at once, from 1 to 10,000"));
    }
    if e.throughput.count == Some(0) {
        return Err(e.refuse("throughput.count: at least one query"));
    }
    let width = e.peak.width;
    if !((0.0..1.0).contains(&e.peak.loss) && width > 0.0 && width < 1.0) {
        return Err(e.refuse("peak: loss is a ratio from 0 to below 1, width one between 0 and 1"));
    }
    Ok(())
}

/// Whether a scenario makes sense.
fn scenario(e: &Experiment, s: &Scenario) -> Result<(), String> {
    if let Some(family) = &s.family {
        let spec = FamilySpec::from_str(family).map_err(|why| format!("family: {why}"))?;
        if spec.signed.is_some() || spec.slice.is_some() {
            return Err(format!(
                "family: {family}: give a family that is neither signed nor cut, and `sign = true`"
            ));
        }
        if s.delegations.is_none_or(|n| n == 0) {
            return Err("delegations: a family needs a number of them".into());
        }
        if s.file.is_some() {
            return Err("give a file or a family, not both".into());
        }
    } else if s.file.is_none() && e.zone.file.is_none() {
        return Err("it begins with nothing: give a file or a family, or zone.file for all scenarios".into());
    }
    if let Some(size) = &s.grow {
        size.parse::<zone::Size>().map_err(|why| format!("grow: {why}"))?;
    }
    if s.ds.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
        return Err("ds: a share from 0 to 1".into());
    }
    if let Some(algorithm) = &s.algorithm {
        algorithm.parse::<zone::sign::Algorithm>().map_err(|why| format!("algorithm: {why}"))?;
    }
    if !s.sign && (s.algorithm.is_some() || s.nsec3 || s.opt_out) {
        return Err("algorithm, nsec3 and opt-out need `sign = true`".into());
    }
    if s.opt_out && !s.nsec3 {
        return Err("opt-out needs `nsec3 = true`".into());
    }
    Ok(())
}
