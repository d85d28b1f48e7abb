//! Which figures decide about a comparison, and from which share of change on.

use super::figures::{FIGURES, Figure};
use measure::metrics::{self, Definition};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Figures that gates name together, and the threshold where nobody says otherwise.
pub const GROUPS: [(&str, &[Definition], f64); 9] = [
    (
        "throughput",
        &[metrics::SUSTAINED_QPS, metrics::ANSWERED_QPS, metrics::CAPACITY_QPS, metrics::PEAK_QPS],
        0.05,
    ),
    ("cpu", &[metrics::CALM_SERVER_CPU_PER_QUERY, metrics::SERVER_CPU_PER_QUERY], 0.05),
    ("instructions", &[metrics::SERVER_INSTRUCTIONS_PER_QUERY], 0.03),
    ("pss", &[metrics::SERVER_PSS], 0.03),
    ("start", &[metrics::SERVER_READY], 0.10),
    ("latency", &[metrics::CALM_LATENCY_P50, metrics::LATENCY.p50], 0.15),
    ("answered", &[metrics::ANSWERED_IN_DEADLINE_SHARE], 0.01),
    ("reload", &[metrics::RELOAD_SECONDS], 0.10),
    ("transfer", &[metrics::TRANSFER_SECONDS, metrics::BATCHES_SECONDS], 0.10),
];

/// The threshold of figures that no group names.
const OTHERS: f64 = 0.05;

/// The figures that decide, by name or group, each with its threshold: a share of change, above 0 and below 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, f64>", into = "BTreeMap<String, f64>")]
pub struct Gates {
    of: BTreeMap<String, f64>,
    /// The threshold of all that have none of their own.
    all: Option<f64>,
}

impl Default for Gates {
    fn default() -> Self {
        Self::new(&[], None).expect("the defaults are sound")
    }
}

impl Gates {
    /// The gates of `list` (with none: every group), by its thresholds, otherwise by `all`, otherwise by their own. A share of
    /// queries has `all` fiftyfold: of lost queries one in a thousand counts as 5 % of a time.
    ///
    /// # Errors
    /// A sentence, where a name is no figure's and no group's, or a threshold is not above 0 and below 1.
    pub fn new(list: &[(String, Option<f64>)], all: Option<f64>) -> Result<Self, String> {
        let groups: Vec<(String, Option<f64>)> =
            GROUPS.iter().map(|(name, ..)| ((*name).to_owned(), None)).collect();
        let mut of = BTreeMap::new();
        for (name, threshold) in if list.is_empty() { &groups } else { list } {
            let figure = first(name).ok_or_else(|| unknown(name))?;
            let threshold = threshold.or(all.map(|t| t * figure.weight)).unwrap_or_else(|| usual(figure));
            sound(name, threshold)?;
            of.insert(name.clone(), threshold);
        }
        all.map_or(Ok(()), |all| sound("threshold", all))?;
        Ok(Self { of, all })
    }

    /// The threshold where a figure decides.
    pub(super) fn of(&self, figure: &Figure) -> Option<f64> {
        let group = GROUPS.iter().find(|(_, figures, _)| figures.contains(&figure.metric));
        let by_name = self.of.get(figure.name);
        by_name.or_else(|| self.of.get(group?.0)).copied()
    }

    /// The threshold that a figure is compared by, whether it decides or not.
    pub(super) fn limit(&self, figure: &Figure) -> f64 {
        let of_all = || self.all.map(|t| t * figure.weight);
        self.of(figure).or_else(of_all).unwrap_or_else(|| usual(figure))
    }

    /// The threshold of figures that no gate and no group names.
    pub(super) fn threshold(&self) -> f64 {
        self.all.unwrap_or(OTHERS)
    }

    /// Each name with its threshold.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.of.iter().map(|(name, threshold)| (name.as_str(), *threshold))
    }
}

impl TryFrom<BTreeMap<String, f64>> for Gates {
    type Error = String;

    fn try_from(of: BTreeMap<String, f64>) -> Result<Self, String> {
        let list: Vec<(String, Option<f64>)> = of.into_iter().map(|(name, t)| (name, Some(t))).collect();
        Self::new(&list, None)
    }
}

impl From<Gates> for BTreeMap<String, f64> {
    fn from(gates: Gates) -> Self {
        gates.of
    }
}

/// One figure of a name.
fn first(name: &str) -> Option<&'static Figure> {
    let group = GROUPS.iter().find(|(group, ..)| *group == name);
    let name = group.map_or(name, |(_, figures, _)| figures[0].stem());
    FIGURES.iter().find(|f| f.name == name)
}

/// The threshold of a figure where nobody says otherwise.
fn usual(figure: &Figure) -> f64 {
    let group = GROUPS.iter().find(|(_, figures, _)| figures.contains(&figure.metric));
    group.map_or(OTHERS * figure.weight, |(.., threshold)| *threshold)
}

fn sound(name: &str, threshold: f64) -> Result<(), String> {
    if threshold.is_finite() && threshold > 0.0 && threshold < 1.0 {
        return Ok(());
    }
    Err(format!("{name}: a threshold is a share of change above 0 and below 1, such as 5% or 0.05"))
}

fn unknown(name: &str) -> String {
    let groups: Vec<&str> = GROUPS.iter().map(|(group, ..)| *group).collect();
    let figures: Vec<&str> = FIGURES.iter().map(|f| f.name).collect();
    format!(
        "'{name}' is no figure that can decide: there are {}, and single figures: {}",
        groups.join(", "),
        figures.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(gates: &Gates) -> Vec<Option<f64>> {
        let figure = |name: &str| FIGURES.iter().find(|f| f.name == name).unwrap();
        let names = ["answered_qps", "server_pss", "answered_in_deadline_share", "latency_p99"];
        names.map(|name| gates.of(figure(name))).to_vec()
    }

    #[test]
    fn every_group_names_figures_that_exist_and_none_twice() {
        let mut all: Vec<&str> =
            GROUPS.iter().flat_map(|(_, figures, _)| *figures).map(|m| m.stem()).collect();
        assert!(all.iter().all(|name| FIGURES.iter().any(|f| f.name == *name)), "{all:?}");
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn thresholds_are_those_named_or_the_one_of_all_or_the_usual_ones() {
        assert_eq!(limits(&Gates::default()), [Some(0.05), Some(0.03), Some(0.01), None]);
        let all = Gates::new(&[], Some(0.1)).unwrap();
        assert_eq!(limits(&all), [Some(0.1), Some(0.1), Some(0.002), None]);
        let some = [("pss".to_owned(), Some(0.2)), ("latency_p99".to_owned(), None)];
        let some = Gates::new(&some, None).unwrap();
        assert_eq!(limits(&some), [None, Some(0.2), None, Some(0.05)]);
        // As it stands in a file.
        let again: Gates = toml::from_str(&toml::to_string(&some).unwrap()).unwrap();
        assert_eq!(again, some);
        let wrong = |name: &str, threshold| Gates::new(&[(name.to_owned(), threshold)], None).unwrap_err();
        assert!(wrong("sped", None).starts_with("'sped' is no figure that can decide: there are throughput"));
        assert!(wrong("cpu", Some(5.0)).contains("above 0 and below 1"));
    }
}
