//! The keys of an experiment file: what `experiment show --keys` prints and docs/keys.md has.
//!
//! Names, defaults and texts come from the types that read the file, through their JSON schema.

use crate::Experiment;
use schemars::generate::{Contract, SchemaSettings};
use serde::Serialize;
use serde_json::{Map, Value};

/// A table of an experiment file with its keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Section {
    /// As in a file: `[zone]`, `[server.LABEL]`, `[[variant]]`; empty for the keys before the first table.
    pub table: String,
    /// One sentence.
    pub about: String,
    /// Its keys, by name.
    pub keys: Vec<Key>,
}

/// A key of an experiment file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Key {
    /// As `--set` takes it: `zone.file`.
    pub name: String,
    /// The type of its value, or the words that it can be.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its value where a file does not give it; `None` where it is then absent, or must be given.
    pub default: Option<String>,
    /// A file must give it.
    pub required: bool,
    /// Its meaning, with the unit.
    pub about: String,
}

/// All keys, table by table.
pub fn sections() -> Vec<Section> {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.inline_subschemas = true;
        s.contract = Contract::Deserialize;
    });
    let schema = settings.into_generator().into_root_schema_for::<Experiment>();
    let mut sections = Vec::new();
    let top = Section { table: String::new(), about: "At the top of the file.".into(), keys: Vec::new() };
    collect("", top, schema.as_value(), &mut sections);
    sections
}

/// Adds a table, and after it those within it.
fn collect(prefix: &str, mut section: Section, schema: &Value, sections: &mut Vec<Section>) {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let required =
        |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|r| r == name));
    let mut inner = Vec::new();
    for (name, value) in properties {
        let (full, about) =
            (format!("{prefix}{name}"), plain(value["description"].as_str().unwrap_or_default()));
        let value = present(value);
        let of_label = &value["additionalProperties"];
        let is_table = |schema: &Value| schema["properties"].is_object();
        if about.starts_with("As `") && is_table(value) {
            // Its keys stand there.
            section.keys.push(Key {
                name: full,
                kind: "table".into(),
                default: None,
                required: false,
                about,
            });
        } else if is_table(value) || is_table(of_label) {
            inner.push((format!("[{full}]"), full, about, value.clone()));
        } else if is_table(&value["items"]) {
            inner.push((format!("[[{full}]]"), full, about, value["items"].clone()));
        } else {
            let given = properties[name].get("default").filter(|d| !d.is_null()).map(shown);
            // The schema leaves out a default that run.toml leaves out.
            let default = given.or_else(|| (value["type"] == "boolean").then(|| "false".into()));
            let kind = kind(value);
            section.keys.push(Key { name: full, kind, default, required: required(name), about });
        }
    }
    // A map: tables by labels.
    let of_label = &schema["additionalProperties"];
    if of_label["properties"].is_object() {
        let about = plain(of_label["description"].as_str().unwrap_or_default());
        inner.push((format!("[{prefix}LABEL]"), format!("{prefix}LABEL"), about, of_label.clone()));
    }
    if !section.keys.is_empty() {
        sections.push(section);
    }
    for (table, name, about, schema) in inner {
        collect(&format!("{name}."), Section { table, about, keys: Vec::new() }, &schema, sections);
    }
}

/// The schema of a value that may be absent, where it is there.
fn present(schema: &Value) -> &Value {
    let is_null = |s: &&Value| s["type"] == "null";
    let either = schema["anyOf"].as_array().filter(|all| all.iter().any(|s| is_null(&s)));
    either.and_then(|all| all.iter().find(|s| !is_null(s))).unwrap_or(schema)
}

/// The type of a value in words.
fn kind(schema: &Value) -> String {
    let words = |values: Vec<&Value>| {
        let words: Vec<String> =
            values.into_iter().filter(|v| !v.is_null()).map(|v| format!("`{}`", shown(v))).collect();
        words.join(", ")
    };
    if let Some(choices) = schema["oneOf"].as_array() {
        return words(
            choices
                .iter()
                .flat_map(|c| c.get("const").into_iter().chain(c["enum"].as_array().into_iter().flatten()))
                .collect(),
        );
    }
    if let Some(choices) = schema["enum"].as_array() {
        return words(choices.iter().collect());
    }
    let of = match &schema["type"] {
        Value::Array(types) => types.iter().find(|t| *t != "null").unwrap_or(&Value::Null),
        one => one,
    };
    match of.as_str() {
        Some("array") => format!("list of {}", kind(&schema["items"])),
        Some("object") => format!("table of {}", kind(&schema["additionalProperties"])),
        Some("string") => schema["title"].as_str().unwrap_or("text").to_owned(),
        Some("integer") => "whole number".into(),
        Some("number") => "number".into(),
        Some("boolean") => "`true`, `false`".into(),
        _ => "text".into(),
    }
}

/// A value as in a file; a text without its quotes.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(n) if n.is_f64() => n.as_f64().map_or_else(|| n.to_string(), |n| n.to_string()),
        other => other.to_string(),
    }
}

/// A doc comment as a user reads it: links to other keys become these keys.
fn plain(text: &str) -> String {
    let mut parts = text.split("[`");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (link, rest) = part.split_once("`]").unwrap_or((part, ""));
        let key = match link.split_once("::") {
            Some(("Experiment", key)) => key.to_owned(),
            Some((table, key)) => format!("{}.{key}", table.to_lowercase()),
            None => link.to_owned(),
        };
        plain += &format!("`{key}`{rest}");
    }
    plain.replace('\n', " ")
}

/// The words of a list that are nearest to one that is not in it, for an error: `; nearest: 'a', 'b'`.
pub(crate) fn nearest<'a>(word: &str, words: impl IntoIterator<Item = &'a str>) -> String {
    /// Below this likeness words have nothing to do with each other.
    const ALIKE: f64 = 0.7;
    let mut alike: Vec<(f64, &str)> = words
        .into_iter()
        .map(|w| (strsim::jaro_winkler(word, w), w))
        .filter(|(alike, _)| *alike >= ALIKE)
        .collect();
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    match alike.iter().take(3).map(|(_, word)| format!("'{word}'")).collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        some => format!("; nearest: {some}"),
    }
}

/// Serde's message about an unknown key, with the nearest keys instead of all.
pub(crate) fn unknown_key(message: &str) -> Option<String> {
    let mut words = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    let key = words.next()?;
    Some(format!(
        "unknown key '{key}'{}; `dnsrack experiment show --keys` and docs/keys.md have all of them",
        nearest(key, words)
    ))
}

/// The tables of docs/keys.md.
#[cfg(test)]
fn markdown() -> String {
    let mut text = String::new();
    for section in sections() {
        let title =
            if section.table.is_empty() { "Top of the file".into() } else { format!("`{}`", section.table) };
        text += &format!(
            "\n## {title}\n\n{}\n\n| key | type | default | meaning |\n|---|---|---|---|\n",
            section.about
        );
        for key in section.keys {
            let default = match &key.default {
                _ if key.required => "must be given".into(),
                None => "none".into(),
                Some(text) if text.is_empty() => "empty".into(),
                Some(text) => format!("`{text}`"),
            };
            let cell = |text: &str| text.replace('|', "\\|");
            text += &format!(
                "| `{}` | {} | {} | {} |\n",
                key.name,
                cell(&key.kind),
                cell(&default),
                cell(&key.about)
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_keys_is_what_files_are_read_by() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/keys.md");
        let text = std::fs::read_to_string(page).expect("the page");
        let (before, _) = text.split_once("<!-- made -->").expect("where the tables begin");
        let wanted = format!("{before}<!-- made -->\n{}", markdown());
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(page, &wanted).expect("it can be written");
        }
        assert!(text == wanted, "run this test with UPDATE_DOCS=1");
    }

    #[test]
    fn every_key_has_a_type_and_a_meaning_and_its_default_is_read() {
        let sections = sections();
        let key = |name: &str| {
            sections.iter().flat_map(|s| &s.keys).find(|k| k.name == name).unwrap_or_else(|| panic!("{name}"))
        };
        for section in &sections {
            assert!(!section.about.is_empty(), "{}", section.table);
            for key in &section.keys {
                assert!(!key.kind.is_empty() && !key.about.is_empty(), "{key:?}");
                assert!(!key.about.contains("::"), "{key:?}");
            }
        }
        assert_eq!(
            (key("latency.duration").kind.as_str(), key("latency.duration").default.as_deref()),
            ("duration", Some("60s"))
        );
        assert!(key("servers").required && !key("server.LABEL.kind").required);
        assert_eq!(key("zone.file").default, None);
        assert_eq!(key("distribution.timers").kind, "`default`, `tuned`");
        assert_eq!(key("variant.profile").about, "As `traffic.profile`.");
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        let said =
            unknown_key("unknown field `fiel`, expected one of `families`, `delegations`, `file`, `keep`")
                .unwrap();
        assert!(said.starts_with("unknown key 'fiel'; nearest: 'file'"), "{said}");
        assert!(unknown_key("invalid type").is_none());
        assert_eq!(nearest("zzz", ["bind", "nsd"]), "");
    }
}
