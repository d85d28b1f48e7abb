//! What is not the same any more when a run goes on later: the machine, its kernel, or the programs.

use measure::Reason;
use serde_json::Value;

/// What a figure depends on, and what it is called in a sentence. Other parts of the environment, such as its load, change all the time.
const PARTS: [(&str, &str); 7] = [
    ("/dnsrack", "dnsrack"),
    ("/machine/cpu_model", "the processor"),
    ("/machine/cpus", "the number of processors"),
    ("/machine/memory", "the memory in octets"),
    ("/machine/hypervisor", "the hypervisor"),
    ("/machine/kernel", "the kernel"),
    ("/machine/os", "the distribution"),
];

/// What has changed since the run began, if anything has.
pub(crate) fn machine_changed(then: &Value, now: &Value) -> Option<Reason> {
    let parts = PARTS.iter().map(|(path, name)| (name.to_string(), then.pointer(path), now.pointer(path)));
    let servers = |of: &Value| of["servers"].as_array().cloned().unwrap_or_default();
    let (old, new) = (servers(then), servers(now));
    let versions = new.iter().map(|server| {
        let before = old.iter().find(|old| old["label"] == server["label"]);
        let name = format!("the version of {}", server["label"].as_str().unwrap_or_default());
        (name, before.map(|before| &before["version"]), Some(&server["version"]))
    });
    let text = |value: Option<&Value>| match value {
        None | Some(Value::Null) => "not known".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    let changed: Vec<String> = parts
        .chain(versions)
        .map(|(name, then, now)| (name, text(then), text(now)))
        .filter(|(_, then, now)| then != now)
        .map(|(name, then, now)| format!("{name} was {then} when the run began, and is {now}"))
        .collect();
    let sentence = || format!("{}: do not compare this trial with those before", changed.join("; "));
    (!changed.is_empty()).then(|| Reason::new("machine_changed", sentence()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_figures_depend_on_is_compared() {
        let of = |kernel: &str, nsd: &str, load: f64| {
            json!({
                "machine": { "kernel": kernel, "cpus": 2, "load_average": load },
                "servers": [{ "label": "nsd", "version": nsd }],
            })
        };
        assert_eq!(machine_changed(&of("6.1", "4.6", 0.1), &of("6.1", "4.6", 0.2)), None);
        let changed = machine_changed(&of("6.1", "4.6", 0.1), &of("6.2", "4.12", 0.1)).unwrap();
        assert_eq!(
            changed.to_string(),
            "the kernel was 6.1 when the run began, and is 6.2; the version of nsd was 4.6 when the run began, and is 4.12: \
             do not compare this trial with those before (machine_changed)"
        );
        let unknown = machine_changed(&json!({}), &of("6.1", "4.6", 0.1)).unwrap();
        assert!(unknown.text.starts_with("the number of processors was not known when"), "{unknown}");
    }
}
