//! From a name or a path to an experiment: the catalogue, `[quick]`, `--set`.

use crate::{Error, Experiment, check, keys};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

/// One `--set KEY=VALUE`.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    /// Dotted: `zone.file`.
    pub key: String,
    /// As typed.
    pub value: String,
}

impl FromStr for Set {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self { key: key.into(), value: value.into() }),
            _ => Err(format!("'{text}' is not KEY=VALUE, such as zone.file=root.zone")),
        }
    }
}

/// The catalogue: name and file.
macro_rules! catalogue {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../catalogue/", $name, ".toml")))),*]
    };
}

/// The papers' experiments: name and file.
pub const CATALOGUE: [(&str, &str); 27] = catalogue![
    "demo",
    "compare-builds",
    "impact",
    "rzaia-memory",
    "rzaia-load",
    "rzaia-latency",
    "rzaia-glue",
    "rzaia-dnssec",
    "rzaia-ds",
    "rzaia-nxdomain",
    "rzaia-baseline",
    "rzaia-attack",
    "rzaia-truncation",
    "isc-platform",
    "isc-peak",
    "receive-buffer",
    "nominet",
    "capacity",
    "isc-updates",
    "isc-query-under-update",
    "isc-distribution",
    "isc-durability",
    "secondary-kill",
    "rzaia-axfr",
    "rzaia-ixfr",
    "rzaia-paths",
    "root-churn",
];

/// Reads an experiment of the catalogue, or of a file, as [`load`] does.
///
/// # Errors
/// [`Error::Unknown`], [`Error::Read`], and those of [`load`].
pub fn open(name_or_file: &str, sets: &[Set]) -> Result<Experiment, Error> {
    let (path, text) = named(name_or_file)?;
    load(&path, &text, sets)
}

/// The same for tests, with each `--set` as on the command line.
#[cfg(test)]
pub(crate) fn open_with<S: AsRef<str>>(name: &str, sets: &[S]) -> Result<Experiment, Error> {
    let sets: Vec<Set> = sets.iter().map(|set| set.as_ref().parse().unwrap()).collect();
    open(name, &sets)
}

/// The text of an experiment of the catalogue, or of a file, with the name to use in errors.
///
/// # Errors
/// [`Error::Unknown`], [`Error::Read`].
pub fn named(name_or_file: &str) -> Result<(String, String), Error> {
    if let Some((name, text)) = CATALOGUE.iter().find(|(name, _)| *name == name_or_file) {
        return Ok((format!("{name}.toml"), (*text).to_owned()));
    }
    let path = Path::new(name_or_file);
    if !path.exists() {
        return Err(Error::Unknown(name_or_file.into()));
    }
    let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.into(), source })?;
    Ok((name_or_file.into(), text))
}

/// Reads an experiment, puts `[quick]` in place where `size=quick` is set, then every other `--set`.
///
/// # Errors
/// [`Error::Syntax`] with line and column, [`Error::Set`], [`Error::Plan`].
pub fn load(path: &str, text: &str, sets: &[Set]) -> Result<Experiment, Error> {
    let syntax = |text: &str, e: &toml::de::Error| {
        let (line, column) = measure::line_column(text, e.span().map_or(0, |s| s.start));
        let message = keys::unknown_key(e.message()).unwrap_or_else(|| e.message().into());
        Error::Syntax { path: path.into(), line, column, message }
    };
    let checked: Experiment = toml::from_str(text).map_err(|e| syntax(text, &e))?;
    let mut table: toml::Table = toml::from_str(text).map_err(|e| syntax(text, &e))?;
    let quick = table.remove("quick");
    let mut experiment = Experiment { quick: None, ..checked };
    let refuse =
        |set: &Set, message: String| Error::Set { key: set.key.clone(), value: set.value.clone(), message };
    for set in sets {
        let attempts = if set.key == "size" {
            match (set.value.as_str(), &quick) {
                ("full", _) => continue,
                ("quick", Some(toml::Value::Table(quick))) => vec![overlay(table.clone(), quick)],
                ("quick", _) => return Err(refuse(set, "this experiment has no [quick] size".into())),
                _ => return Err(refuse(set, "sizes are 'full' and 'quick'".into())),
            }
        } else if set.key == "variants" {
            vec![with_variants(table.clone(), &set.value).map_err(|m| refuse(set, m))?]
        } else {
            // The key's type decides what a text means: "10m" is ten million to one key and ten minutes to another, "bind" is
            // a list to a third.
            let with = |value: toml::Value| {
                let mut attempt = table.clone();
                put(&mut attempt, &set.key, value).map(|()| attempt).map_err(|m| refuse(set, m))
            };
            vec![with(scalar(&set.value))?, with(list(&set.value))?, with(set.value.clone().into())?]
        };
        let read = |table: &toml::Table| Experiment::deserialize(table.clone());
        let fits = attempts.iter().find_map(|table| Some((table.clone(), read(table).ok()?)));
        (table, experiment) = match fits {
            Some(fits) => fits,
            None => {
                let mut reasons =
                    attempts.iter().filter_map(|table| Some(read(table).err()?.message().to_owned()));
                let why = reasons.find(|why| !why.contains("expected a sequence")).unwrap_or_default();
                return Err(refuse(set, keys::unknown_key(&why).unwrap_or(why)));
            }
        };
    }
    check::experiment(&experiment)?;
    Ok(experiment)
}

/// The experiment with some of its variants alone: one by its name, or a list of names in TOML (names may have commas).
fn with_variants(mut table: toml::Table, wanted: &str) -> Result<toml::Table, String> {
    let wanted: Vec<String> = match wanted.starts_with('[') {
        true => toml::from_str::<BTreeMap<String, Vec<String>>>(&format!("names = {wanted}"))
            .map_err(|e| format!("a name, or a list such as [\"one\", \"other\"]: {}", e.message()))?
            .remove("names")
            .unwrap_or_default(),
        false => vec![wanted.to_owned()],
    };
    let Some(toml::Value::Array(variants)) = table.remove("variant") else {
        return Err("this experiment has no variants".into());
    };
    let name =
        |variant: &toml::Value| variant.get("name").and_then(|n| n.as_str()).unwrap_or_default().to_owned();
    let known: Vec<String> = variants.iter().map(name).collect();
    if let Some(unknown) = wanted.iter().find(|wanted| !known.contains(wanted)) {
        return Err(format!("there is no variant '{unknown}'; there are '{}'", known.join("', '")));
    }
    let kept: Vec<toml::Value> = variants.into_iter().filter(|v| wanted.contains(&name(v))).collect();
    if kept.is_empty() {
        return Err("give one variant at least".into());
    }
    table.insert("variant".into(), kept.into());
    Ok(table)
}

fn overlay(mut base: toml::Table, over: &toml::Table) -> toml::Table {
    for (key, value) in over {
        let merged = match (base.remove(key), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(over)) => overlay(inner, over).into(),
            _ => value.clone(),
        };
        base.insert(key.clone(), merged);
    }
    base
}

/// A list, with or without its brackets.
fn list(text: &str) -> toml::Value {
    toml::Value::Array(text.trim_matches(['[', ']']).split(',').map(|v| scalar(v.trim())).collect())
}

/// Sets a dotted key.
fn put(table: &mut toml::Table, key: &str, value: toml::Value) -> Result<(), String> {
    let (folders, last) = key.rsplit_once('.').map_or((None, key), |(f, l)| (Some(f), l));
    let mut at = table;
    for folder in folders.into_iter().flat_map(|f| f.split('.')) {
        at = at
            .entry(folder)
            .or_insert_with(|| toml::Table::new().into())
            .as_table_mut()
            .ok_or_else(|| format!("'{folder}' is not a table"))?;
    }
    at.insert(last.into(), value);
    Ok(())
}

/// A number (also `10K`), a truth value, or a string.
fn scalar(text: &str) -> toml::Value {
    let unquoted = text.trim_matches('"');
    match (unquoted.parse::<bool>(), measure::units::number(unquoted)) {
        _ if unquoted.len() < text.len() => unquoted.into(),
        (Ok(truth), _) => truth.into(),
        (_, Ok(n)) if n.fract() == 0.0 => (n as i64).into(),
        (_, Ok(n)) => n.into(),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demo(sets: &[&str]) -> Result<Experiment, Error> {
        let (path, text) = named("demo").unwrap();
        load(&path, &text, &sets.iter().map(|s| s.parse().unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn the_catalogue_is_sound() {
        for (name, text) in CATALOGUE {
            let full = load(name, text, &[]).unwrap();
            assert_eq!(full.name, name);
            if toml::from_str::<Experiment>(text).unwrap().quick.is_some() {
                load(name, text, &["size=quick".parse().unwrap()]).unwrap();
            }
        }
    }

    #[test]
    fn variants_are_chosen_by_name() {
        let (path, text) = named("rzaia-ixfr").unwrap();
        let names = |set: &str| {
            let e = load(&path, &text, &[set.parse().unwrap()])?;
            Ok::<_, Error>(e.variant.into_iter().map(|v| v.name).collect::<Vec<_>>())
        };
        let one = "10 % in 24 batches, default timers";
        assert_eq!(names(&format!("variants={one}")).unwrap(), [one]);
        let two =
            names("variants=[\"1 % in 24 batches, tuned timers\", \"10 % in 24 batches, default timers\"]");
        assert_eq!(two.unwrap().len(), 2);
        for (set, says) in [
            ("variants=fast", "there is no variant 'fast'; there are '10 % in 288"),
            ("variants=[1]", "a list such as"),
            ("variants=[]", "one variant at least"),
        ] {
            let error = names(set).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert!(demo(&["variants=x"]).unwrap_err().to_string().contains("no variants"));
    }

    #[test]
    fn sets_reach_every_depth() {
        let e =
            demo(&["zone.file=my.zone", "servers=nsd,new", "server.new.kind=nsd", "latency.rates=1K,500"])
                .unwrap();
        assert_eq!(e.zone.file.as_deref(), Some(Path::new("my.zone")));
        assert_eq!(e.servers, ["nsd", "new"]);
        assert_eq!(e.latency.rates, [1000.0, 500.0]);
        let e = demo(&["latency.duration=2m", "receive_buffer=4M", "zone.delegations=2M"]).unwrap();
        assert_eq!(e.latency.duration, measure::Time::seconds(120));
        assert_eq!((e.receive_buffer_of(None), &e.zone.delegations), (Some(4_000_000), &vec![2_000_000]));
        let again: Experiment = toml::from_str(&toml::to_string(&e).unwrap()).unwrap();
        assert_eq!(again, e);
    }

    #[test]
    fn a_server_without_a_kind_is_of_the_kind_that_its_label_names() {
        let e = demo(&["servers=hickory,new", "server.hickory.workers=2", "server.new.kind=nsd"]).unwrap();
        assert_eq!(["hickory", "new"].map(|label| e.kind(label).unwrap().name()), ["hickory", "nsd"]);
        let error = demo(&["servers=new", "server.new.workers=2"]).unwrap_err().to_string();
        assert!(error.contains("'new' is no kind") && error.contains("no server.new.kind"), "{error}");
    }

    #[test]
    fn typing_errors_are_found_where_they_are() {
        let text = CATALOGUE[0].1;
        let at = |text: &str| load("x.toml", text, &[]).unwrap_err().to_string();
        let broken = text.replace("[traffic]", "[trafic]");
        assert!(broken != text, "the demo has a [traffic] section");
        let line = broken.lines().position(|l| l == "[trafic]").unwrap() + 1;
        assert!(
            at(&broken).starts_with(&format!("x.toml:{line}:2: unknown key 'trafic'; nearest: 'traffic'")),
            "{}",
            at(&broken)
        );
        let quick = format!("{text}\n[quick.zone]\nfamilys = []\n");
        assert!(at(&quick).contains("unknown key 'familys'; nearest: 'families'"), "{}", at(&quick));
        for (set, part) in [
            ("zone.fiel=x", "--set zone.fiel=x: unknown key 'fiel'; nearest: 'file'"),
            ("servers=bind,bnid", "'bnid' is no kind"),
            ("server.nsd.kind=nds", "'nds' is not a kind of server"),
            ("size=huge", "sizes are"),
            ("latency.duration=60x", "latency.duration=60x: '60x' is not a duration"),
            ("peak.trial=0s", "--set peak.trial=0s: must be longer than nothing"),
            ("receive_buffer=4X", "neither 'default' nor a number of bytes"),
            ("zone.families=U-5", "zone.families"),
        ] {
            let error = demo(&[set]).unwrap_err().to_string();
            assert!(error.contains(part), "{set}: {error}");
        }
    }
}
