//! Which two servers a run was made to compare, as its plan or its command says.

use super::Gates;
use crate::RunDir;
use measure::params;
use serde::Deserialize;

/// The base, the candidate and the gates of a run, as `[comparison]` of its plan has them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Named {
    /// The label of the base.
    pub base: String,
    /// The label of the candidate.
    pub candidate: String,
    /// The figures that decide.
    #[serde(default)]
    pub gates: Gates,
}

/// The labels that a run was made to compare; none where it was not made for that. Runs of before `[comparison]` name the base in their
/// command (`--against`).
pub fn named(run: &RunDir) -> Option<Named> {
    #[derive(Deserialize)]
    struct Plan {
        comparison: Option<Named>,
    }
    let plan: Option<Plan> = toml::from_str(run.run_toml()).ok();
    plan.and_then(|plan| plan.comparison).or_else(|| against(run))
}

fn against(run: &RunDir) -> Option<Named> {
    let command = run.environment()["command"].as_str().unwrap_or_default();
    let (_, rest) = command.split_once("--against")?;
    let base = rest.strip_prefix('=').unwrap_or(rest).split_whitespace().next()?;
    let mut others: Vec<&str> = run.trials().iter().filter_map(|t| t.param(params::SERVER)).collect();
    others.retain(|label| *label != base);
    others.dedup();
    match others[..] {
        [candidate] => {
            Some(Named { base: base.into(), candidate: candidate.into(), gates: Gates::default() })
        }
        _ => None,
    }
}
