//! Does an experiment make sense as a whole?

use crate::family_spec::FamilySpec;
use crate::file::MANY;
use crate::{Error, Experiment, Measure};
use std::str::FromStr;

impl Experiment {
    /// Whether it makes sense as a whole.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let named: [(&str, bool); 3] = [
            ("measure", self.measure.is_empty()),
            ("servers", self.servers.is_empty()),
            ("repeats", self.repeats == 0),
        ];
        if let Some((key, _)) = named.iter().find(|(_, empty)| *empty) {
            return Err(self.refuse(format!("{key}: at least one is needed")));
        }
        for (i, label) in self.servers.iter().enumerate() {
            let server = self.server(label)?;
            let kind = server::Kind::from_str(&server.kind).map_err(|_| {
                self.refuse(format!("server.{label}.kind: '{}' is no kind of server", server.kind))
            })?;
            if self.servers[..i].contains(label) {
                return Err(self.refuse(format!("servers: '{label}' stands there twice")));
            }
            if (kind == server::Kind::External) != server.address.is_some() {
                return Err(self.refuse(format!(
                    "server.{label}.address: an external server needs one (ADDR:PORT), and no other takes one"
                )));
            }
        }
        if self.is_external()? && self.traffics().iter().any(|t| t.addresses > 1) {
            return Err(self.refuse("traffic.addresses: an external server answers at the one address given"));
        }
        for family in &self.zone.families {
            FamilySpec::from_str(family).map_err(|e| self.refuse(format!("zone.families: {e}")))?;
        }
        if self.zone.sign != "rzaia" {
            let known: Result<zone::sign::Algorithm, String> = self.zone.sign.parse();
            known.map_err(|m| self.refuse(format!("zone.sign: {m}, or 'rzaia' for the paper's keys")))?;
        }
        // Real versions are asked for when it is run: the catalogue has none.
        let given = self.measure.contains(&Measure::Churn);
        if self.zone.file.is_none()
            && !given
            && (self.zone.families.is_empty() || self.zone.delegations.is_empty())
        {
            return Err(self.refuse("zone: give families and delegations, or a file"));
        }
        if self.zone.file.is_none() && self.zone.delegations.contains(&0) {
            return Err(self.refuse("zone.delegations: a zone without delegations cannot be generated"));
        }
        for (i, v) in self.variant.iter().enumerate() {
            if v.name.is_empty() || self.variant[..i].iter().any(|other| other.name == v.name) {
                return Err(
                    self.refuse(format!("variant: each needs a name of its own, unlike '{}'", v.name))
                );
            }
        }
        for traffic in self.traffics() {
            if traffic.queries.is_some() && traffic.trace.is_some() {
                return Err(self.refuse("traffic: give queries or a trace, not both"));
            }
            if !(traffic.speed.is_finite() && traffic.speed > 0.0) {
                return Err(self.refuse("traffic.speed: a factor above 0"));
            }
            for (key, given) in [("generators", traffic.generators), ("addresses", traffic.addresses)] {
                if !(1..=MANY).contains(&given) {
                    return Err(self.refuse(format!("traffic.{key}: from 1 to {MANY}")));
                }
            }
            if traffic.trace.is_some() {
                if traffic.generators > 1 {
                    return Err(self.refuse("traffic.generators: a capture is replayed by one"));
                }
                if let Some(m) =
                    self.measure.iter().find(|m| matches!(m, Measure::Throughput | Measure::Peak))
                {
                    return Err(self.refuse(format!(
                        "measure {}: a capture has times of its own; make a file of its queries with 'dnsrack trace edit \
                         --format queries' and give that as traffic.queries",
                        m.word()
                    )));
                }
            }
            if traffic.retry.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
                return Err(self.refuse("traffic.retry: a share from 0 to 1"));
            }
        }
        if self.precision.as_ref().is_some_and(|p| !(p.rate > 0.0 && p.latency > 0.0)) {
            return Err(self.refuse("precision: half-widths above 0, such as 0.05"));
        }
        if let Some(c) = &self.comparison {
            for (key, label) in [("base", &c.base), ("candidate", &c.candidate)] {
                if !self.servers.contains(label) {
                    return Err(self.refuse(format!("comparison.{key}: '{label}' is none of the servers")));
                }
            }
            if c.base == c.candidate {
                return Err(
                    self.refuse("comparison: base and candidate are one label: give the same program two")
                );
            }
        }
        if !(self.load.rate.is_finite() && (1.0..=1e6).contains(&self.load.rate)) {
            return Err(self.refuse("load.rate: queries per second, from 1 to 1M"));
        }
        let rates = self.variant.iter().filter_map(|v| v.rates.as_ref()).chain([&self.latency.rates]);
        if !rates.flatten().all(|r| r.is_finite() && *r > 0.0 && *r <= 1e8) {
            return Err(self.refuse("latency.rates: queries per second, above 0 and at most 100M"));
        }
        let (trial, sum) = (self.peak.trial, self.peak.duration_sum);
        if sum.0 < 2 * trial.0 {
            return Err(self.refuse(format!(
                "peak.duration_sum: {sum} are less than two trials of {trial}, and one trial alone proves nothing"
            )));
        }
        if !(1..=100_000).contains(&self.peak.window) || !(1..=100).contains(&self.peak.window_loads) {
            return Err(self.refuse("peak: window is 1 to 100,000 queries, window_loads 1 to 100"));
        }
        self.check_changes()?;
        self.check_durability()?;
        if !(1..=10_000).contains(&self.throughput.window) {
            return Err(self.refuse("throughput.window: queries that wait at once, from 1 to 10,000"));
        }
        let width = self.peak.width;
        if !((0.0..1.0).contains(&self.peak.loss) && width > 0.0 && width < 1.0) {
            return Err(self.refuse("peak: loss is a ratio from 0 to below 1, width one between 0 and 1"));
        }
        Ok(())
    }
}
