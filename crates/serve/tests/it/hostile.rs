//! No run directory can put markup into a page, whatever is in its files.

use measure::{Metric, Reason, metrics, params};
use proptest::prelude::*;
use results::{RunDir, TrialRecord};
use serde_json::json;
use std::path::Path;

/// A run that has a text wherever a run has one.
fn hostile(dir: &Path, text: &str) {
    let plan = toml_text(text);
    let machine = json!({
        "machine": { "cpu_model": text, "kernel": text, "os": text, "cpus": 2, "unix_time": 1_780_000_000 },
        "dnsrack": text, "command": text, "servers": { text: { "version": text, "path": text } },
    });
    let mut run = RunDir::create(dir, &plan, &machine).expect("a run");
    for id in 1..=3 {
        let mut trial = TrialRecord { id, repeat: id, ..TrialRecord::default() };
        let names = [
            params::EXPERIMENT,
            params::SERVER,
            params::KIND,
            params::VERSION,
            params::FAMILY,
            params::VARIANT,
        ];
        names.into_iter().for_each(|name| trial.add_param(name, text));
        trial.params.push((text.to_owned(), text.to_owned()));
        trial.outcome.metrics.push(metrics::ANSWERED_QPS.of(1.0));
        trial.outcome.metrics.push(Metric::new(text, text, 2.0));
        trial.outcome.validity.valid = true;
        trial.outcome.validity.warn(Reason::new("code", text));
        match id {
            2 => trial.error = Some(text.to_owned()),
            3 => trial.outcome.validity.reject(Reason::new("code", text)),
            _ => {}
        }
        run.append(trial).expect("a trial");
    }
}

fn toml_text(text: &str) -> String {
    let plan = json!({ "name": text, "title": text, "about": text, "seed": 1 });
    plan.as_object().unwrap().iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

/// Whether a page has an element, an attribute or an entity that it should not have.
fn assert_harmless(page: &str) {
    for markup in ["<img", "<script>", "onerror=\"", "<b>x", "\"><x"] {
        assert!(!page.contains(markup), "{markup} in {page}");
    }
}

#[test]
fn markup_in_files_stays_text() {
    for text in [
        "<img src=x onerror=\"alert(1)\">",
        "</title><script>alert(1)</script>",
        "\"><x y=\"'",
        "</style></svg><b>x",
        "{{ 7777 * 7777 }}{% raw %}",
        "&lt;&#60;\u{0}\u{7}\u{202e}",
        "javascript:alert(1)",
    ] {
        let folder = tempfile::tempdir().unwrap();
        hostile(&folder.path().join("run"), text);
        // Folders may have any name that has no slash.
        let name: String = text.chars().filter(|c| !matches!(c, '/' | '\0')).collect();
        hostile(&folder.path().join(name), text);
        for page in serve::fuzz_pages(folder.path()) {
            assert_harmless(&page);
            assert!(!page.contains("60481729"), "a template in a file is no template: {page}");
            assert!(!page.contains("href=\"javascript"), "{page}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_has_pages(text in "[\\PC<>\"'&/]{0,40}") {
        let folder = tempfile::tempdir().unwrap();
        hostile(&folder.path().join("run"), &text);
        for page in serve::fuzz_pages(folder.path()) {
            prop_assert!(!page.contains("<script>") && page.contains("</html>"), "{}", page);
        }
    }
}
