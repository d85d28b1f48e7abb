//! Could the generator offer what it claims? Validity is about us, never about the server.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a trial is invalid, or what to know about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// A stable name for scripts, in snake case: `generator_stalled`.
    pub code: String,
    /// A sentence: what happened, with figures and units, and what to do.
    pub text: String,
}

impl Reason {
    /// A reason from its code and its sentence.
    pub fn new(code: &str, text: impl Into<String>) -> Self {
        Self { code: code.into(), text: text.into() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text, self.code)
    }
}

/// The code of a warning: some of the answers that were compared with the zone are wrong.
pub const WRONG_ANSWERS: &str = "wrong_answers";

/// Whether a trial's figures may be believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validity {
    /// No reason speaks against the trial.
    pub valid: bool,
    /// Reasons that limit the figures without making them wrong.
    pub warnings: Vec<Reason>,
    /// Reasons that make the trial invalid.
    pub reasons: Vec<Reason>,
}

impl Default for Validity {
    fn default() -> Self {
        Self { valid: true, warnings: Vec::new(), reasons: Vec::new() }
    }
}

impl Validity {
    /// Makes the trial invalid.
    pub fn reject(&mut self, reason: Reason) {
        self.valid = false;
        self.reasons.push(reason);
    }

    /// Notes something that does not make the trial invalid.
    pub fn warn(&mut self, reason: Reason) {
        self.warnings.push(reason);
    }

    /// As [`Self::reject`], where there is a reason.
    pub fn reject_for(&mut self, reason: Option<Reason>) {
        reason.into_iter().for_each(|reason| self.reject(reason));
    }

    /// As [`Self::warn`], where there is a reason.
    pub fn warn_for(&mut self, reason: Option<Reason>) {
        reason.into_iter().for_each(|reason| self.warn(reason));
    }

    /// Makes warnings of the reasons with this code, and adds to each why it does not matter here: `because` is the end of a
    /// sentence. Valid where no other reason is left.
    pub fn only_warn(&mut self, code: &str, because: &str) {
        let of_code = self.reasons.extract_if(.., |reason| reason.code == code);
        self.warnings.extend(of_code.map(|Reason { code, text }| Reason {
            code,
            text: format!("{text}; this trial is valid all the same, because {because}"),
        }));
        self.valid = self.reasons.is_empty();
    }

    /// Takes in what another part of the same trial found.
    pub fn merge(&mut self, other: Self) {
        self.valid &= other.valid;
        self.warnings.extend(other.warnings);
        self.reasons.extend(other.reasons);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_of_which_only_a_warning_is_made_does_not_invalidate() {
        let mut validity = Validity::default();
        validity.reject(Reason::new("generator_preempted", "a little"));
        validity.only_warn("generator_preempted", "a window kept the server busy");
        assert_eq!((validity.valid, validity.reasons.len(), validity.warnings.len()), (true, 0, 1));
        assert_eq!(
            validity.warnings[0].text,
            "a little; this trial is valid all the same, because a window kept the server busy"
        );
        validity.reject(Reason::new("unsent", "much"));
        validity.only_warn("generator_preempted", "a window kept the server busy");
        assert_eq!((validity.valid, validity.reasons.len(), validity.warnings.len()), (false, 1, 1));
    }
}
