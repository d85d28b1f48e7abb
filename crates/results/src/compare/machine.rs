//! In what two runs differ besides the server: the machine, the software, who had which cores.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// An item of `environment.json` that two runs do not have in common.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Differing {
    /// `machine.kernel`, `server.workers` …
    pub what: String,
    /// In A; `null` where it says nothing.
    pub a: Value,
    /// In B.
    pub b: Value,
}

/// Items that differ from hour to hour and say nothing about the machine.
const PASSING: [&str; 6] = [
    "command",
    "machine.unix_time",
    "machine.memory_available",
    "machine.load_average",
    "machine.steal_percent",
    // By label, below.
    "servers",
];

/// The differences between the environments of A and B; of the servers, each pair of labels that is compared.
pub(super) fn differing(a: &Value, b: &Value, servers: &BTreeSet<(&str, &str)>) -> Vec<Differing> {
    let mut all = Vec::new();
    walk("", a, b, &mut all);
    let server = |of: &Value, label: &str| {
        let mut listed = of["servers"].as_array().into_iter().flatten();
        let mut found = listed.find(|s| s["label"] == label).cloned().unwrap_or(Value::Null);
        found.as_object_mut().map(|s| s.remove("label"));
        found
    };
    for (label_a, label_b) in servers {
        let name = if label_a == label_b { label_a } else { "server" };
        walk(name, &server(a, label_a), &server(b, label_b), &mut all);
    }
    all
}

fn walk(what: &str, a: &Value, b: &Value, all: &mut Vec<Differing>) {
    if a == b || PASSING.contains(&what) {
        return;
    }
    let (Some(in_a), Some(in_b)) = (a.as_object(), b.as_object()) else {
        all.push(Differing { what: what.to_owned(), a: a.clone(), b: b.clone() });
        return;
    };
    let only_b = in_b.keys().filter(|key| !in_a.contains_key(*key));
    for key in in_a.keys().chain(only_b) {
        let inner = if what.is_empty() { key.clone() } else { format!("{what}.{key}") };
        walk(&inner, &a[key], &b[key], all);
    }
}
