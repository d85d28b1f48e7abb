//! A comparison as a system for continuous integration reads it: JUnit's XML, and the line of a badge.

use crate::compare::{answer, comparison, difference, name, outcome, percent, varied};
use crate::format::escape;
use results::compare::{ComparedFigure, Comparison, Outcome};
use std::fmt::Write;

/// The name of the suite.
const SUITE: &str = "dnsrack compare";

/// A comparison as JUnit's XML. Each figure that decides is a test case of the class of its cell: it fails where the candidate is worse
/// than the threshold, and is skipped where that is not known, with the interval as the message. A candidate that failed, a cell in
/// which only one side has valid trials, and a run that was cut short are test cases with an error.
pub fn junit(c: &Comparison) -> String {
    let varied = varied(c);
    let (mut cases, mut counts) = (String::new(), [0usize; 4]);
    let mut add = |class: &str, name: &str, inside: Option<(&str, String)>| {
        counts[0] += 1;
        let (class, name) = (escape(class), escape(name));
        let _ = write!(cases, "    <testcase classname=\"{class}\" name=\"{name}\"");
        let Some((element, message)) = inside else {
            let _ = writeln!(cases, "/>");
            return;
        };
        counts[["failure", "error", "skipped"].iter().position(|e| *e == element).map_or(0, |n| n + 1)] += 1;
        let _ = writeln!(cases, "><{element} message=\"{}\"/></testcase>", escape(&message));
    };
    for (cell, figure) in c.gating() {
        let inside = match figure.outcome {
            Outcome::Worse => Some(("failure", words(figure))),
            Outcome::NotKnown => Some(("skipped", format!("not known: {}", words(figure)))),
            _ => None,
        };
        add(&name(&cell.params, &varied), figure.figure().title, inside);
    }
    for alone in c.alone.iter().filter(|alone| alone.lost || alone.unknown) {
        add(
            &name(&alone.params, &varied),
            alone.figure.unwrap_or("all figures"),
            Some(("error", alone.reason.clone())),
        );
    }
    if c.candidate_failed > 0 {
        let error = c.candidate_error.clone().unwrap_or_default();
        add("candidate", "no trial fails where the base's did not", Some(("error", error)));
    }
    if c.undone > 0 {
        add("run", "all trials are done", Some(("error", format!("{} trials are not done", c.undone))));
    }
    let [tests, failures, errors, skipped] = counts;
    let counted =
        format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\"");
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{SUITE}\" {counted}>\n  <testsuite name=\"{SUITE}\" {counted}>\n\
         {cases}    <system-out>{}</system-out>\n  </testsuite>\n</testsuites>\n",
        escape(&comparison(c))
    )
}

/// A figure's change in words: `-9.1 % (-23 to +7.3 %), threshold 5 %`.
fn words(figure: &ComparedFigure) -> String {
    let change = figure.change.map_or("too few valid repeats".into(), |d| difference(&d));
    format!("{change}, threshold {}", percent(figure.threshold))
}

/// The line of a badge as JSON in the form of shields.io's endpoint: label, message and colour.
pub fn badge(c: &Comparison) -> String {
    let (message, color) = match c.outcome() {
        Outcome::NoWorse => ("no slower".to_owned(), "brightgreen"),
        Outcome::Better => ("faster".to_owned(), "brightgreen"),
        Outcome::Worse => {
            let worse = c.gating().filter(|(_, f)| f.outcome == Outcome::Worse).count();
            (format!("slower in {}", crate::format::plural(worse, "figure")), "red")
        }
        Outcome::NotKnown => ("not known".to_owned(), "lightgrey"),
        Outcome::CandidateFailed | Outcome::CutShort => (outcome(c).to_lowercase(), "red"),
    };
    let badge = serde_json::json!({
        "schemaVersion": 1, "label": "dnsrack", "message": message, "color": color, "answer": answer(c),
    });
    badge.to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{metrics, params};
    use results::compare::{Gates, Side, compare};
    use results::{RunDir, TrialRecord};
    use serde_json::json;

    fn run(folder: &std::path::Path, rate: f64, fails: bool) -> RunDir {
        let mut run = RunDir::create(folder, "name = \"x\"", &json!({})).unwrap();
        for id in 1..=6 {
            let mut trial = TrialRecord { id, repeat: id, ..TrialRecord::default() };
            trial.add_param(params::SERVER, "a<&\"");
            trial.add_param(params::MEASURE, "throughput");
            trial.outcome.metrics.push(metrics::ANSWERED_QPS.of(rate * (1.0 + f64::from(id) * 0.001)));
            trial.outcome.validity.valid = true;
            trial.error = (fails && id == 6).then(|| "it died <here>".into());
            run.append(trial).unwrap();
        }
        run
    }

    #[test]
    fn what_is_worse_fails_and_what_is_unknown_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str, rate, fails| run(&folder.path().join(name), rate, fails);
        let (base, slow, dead) =
            (of("base", 1000.0, false), of("slow", 800.0, false), of("dead", 1000.0, true));
        let compared = |b: &RunDir| compare(Side::new(&base, None), Side::new(b, None), &Gates::default());
        let worse = junit(&compared(&slow));
        assert!(worse.contains("tests=\"1\" failures=\"1\" errors=\"0\" skipped=\"0\""), "{worse}");
        assert!(worse.contains("<failure message=\"-20") && worse.contains("threshold 5 %"), "{worse}");
        assert!(!worse.contains("a<"), "{worse}");
        assert!(badge(&compared(&slow)).contains("\"slower in 1 figure\""));
        let same = junit(&compared(&base));
        assert!(
            same.contains("failures=\"0\" errors=\"0\" skipped=\"0\"") && same.contains("\"/>"),
            "{same}"
        );
        let failed = junit(&compared(&dead));
        assert!(failed.contains("errors=\"1\"") && failed.contains("it died &lt;here&gt;"), "{failed}");
        assert!(badge(&compared(&dead)).contains("\"candidate failed\""));
    }
}
