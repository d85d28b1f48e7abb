//! Were the answers right? A sample of those of a load, compared with the zone in full (`load::check`).

use crate::Error;
use crate::system_under_test::SystemUnderTest;
use load::LoadSpec;
use load::check::{CheckResult, CheckSpec, GLUE};
use measure::validity::WRONG_ANSWERS;
use measure::{Reason, Seed};
use results::TrialRecord;

/// The file of a trial's folder that has the wrong answers.
const FILE: &str = "wrong-answers.json";

impl SystemUnderTest<'_> {
    /// The load, with some of its answers compared with the zone. In a distribution the zone changes, and its primary may sign it.
    pub fn checked(&self, load: &LoadSpec) -> LoadSpec {
        let sample = self.traffic.check;
        let seed = Seed(self.context.experiment.seed);
        let check = CheckSpec { sample, seed, ..CheckSpec::new(&self.zone.file) };
        let wanted = sample > 0 && self.spec.distribution.is_none();
        LoadSpec { check: wanted.then_some(check), ..load.clone() }
    }

    /// Notes that answers of a load were wrong, where any was, and keeps some of them in a file of the trial's.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note_wrong(&self, checked: Option<&CheckResult>, record: &mut TrialRecord) -> Result<(), Error> {
        let Some(checked) = checked.filter(|checked| checked.wrong() > 0) else { return Ok(()) };
        record.outcome.validity.warn(Reason::new(WRONG_ANSWERS, sentence(checked)));
        let path = self.dir.join(FILE);
        let text = serde_json::to_string_pretty(checked).map_err(|e| Error::Machine(e.to_string()))?;
        std::fs::write(&path, text).map_err(Error::io(&path))
    }
}

/// How many of the answers are wrong, in what, and an example.
fn sentence(checked: &CheckResult) -> String {
    // Answers that lack glue are counted apart.
    let other = |fault: &str| !GLUE.contains(&fault);
    let faults = checked.wrong.iter().filter(|(fault, _)| other(fault));
    let faults: Vec<String> = faults.map(|(fault, n)| format!("{fault} in {n}")).collect();
    let example = checked.examples.iter().find(|e| other(&e.fault)).map_or_else(String::new, |e| {
        format!("; for {}: expected {}, got {}", e.question, e.expected, e.got)
    });
    format!(
        "{} of {} answers that were compared with the zone are wrong ({}){example}; more in {FILE}",
        checked.wrong(),
        checked.checked,
        faults.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::check::Example;

    #[test]
    fn wrong_answers_are_told_with_an_example() {
        let checked = CheckResult {
            checked: 1000,
            right: 985,
            lack_glue: 5,
            wrong: [("aa".to_owned(), 10), ("glue_missing".to_owned(), 5), ("rcode".to_owned(), 4)].into(),
            examples: ["glue_missing", "rcode"]
                .map(|fault| Example {
                    question: "www.example. A".into(),
                    target: "127.0.0.1:53".parse().unwrap(),
                    fault: fault.into(),
                    expected: "NOERROR".into(),
                    got: if fault == "rcode" { "NXDOMAIN" } else { "nothing" }.into(),
                })
                .into(),
            ..CheckResult::default()
        };
        assert_eq!(
            sentence(&checked),
            "10 of 1000 answers that were compared with the zone are wrong (aa in 10, rcode in 4); for www.example. A: expected \
             NOERROR, got NXDOMAIN; more in wrong-answers.json"
        );
    }
}
