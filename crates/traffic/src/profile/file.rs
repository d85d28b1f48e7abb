//! How a profile is written down, and what is wrong where it is not.

use super::{BELOW_MAX, Order, Profile};
use crate::background::{Background, Under};
use crate::clients::{CLIENTS_MAX, ZIPF_MAX};
use crate::{Error, NameList};
use measure::line_column;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Spanned;
use wire::rtype;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    #[serde(default)]
    edns: Edns,
    #[serde(default)]
    names: NamesPart,
    #[serde(default)]
    types: BTreeMap<Spanned<String>, Spanned<f64>>,
    #[serde(default)]
    packets: Packets,
    #[serde(default)]
    clients: Clients,
    #[serde(default)]
    background: BackgroundPart,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edns {
    share: Option<Spanned<f64>>,
    #[serde(rename = "do")]
    do_bit: Option<Spanned<f64>>,
    #[serde(default)]
    sizes: BTreeMap<Spanned<String>, Spanned<f64>>,
    #[serde(default, rename = "sizes-do")]
    sizes_do: BTreeMap<Spanned<String>, Spanned<f64>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamesPart {
    #[serde(default)]
    order: Order,
    nonexistent: Option<Spanned<f64>>,
    below: Option<Spanned<Vec<f64>>>,
    #[serde(rename = "below-nonexistent")]
    below_nonexistent: Option<Spanned<Vec<f64>>>,
    types: Option<TypesFrom>,
    #[serde(default)]
    list: Vec<Spanned<ListPart>>,
}

/// A list of names: how often it is asked for, and whether its names exist.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListPart {
    file: PathBuf,
    weight: Option<Spanned<f64>>,
    exist: Option<bool>,
}

/// Where the types of names come from, if not from `[types]`.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum TypesFrom {
    Zone,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Packets {
    df: Option<Spanned<f64>>,
    no_checksum: Option<Spanned<f64>>,
    bad_checksum: Option<Spanned<f64>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Clients {
    count: Option<Spanned<u32>>,
    zipf: Option<Spanned<f64>>,
    #[serde(default)]
    ports: BTreeMap<Spanned<String>, Spanned<f64>>,
    ipv6: Option<Spanned<f64>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BackgroundPart {
    share: Option<Spanned<f64>>,
    under: Option<Spanned<String>>,
    label: Option<Spanned<u8>>,
    #[serde(default)]
    types: BTreeMap<Spanned<String>, Spanned<f64>>,
}

impl Profile {
    /// Reads a profile; `file` is what errors call it, and the files of its lists are looked for beside it.
    ///
    /// # Errors
    /// The first fault with line and column: syntax, an unknown key, a share outside 0 to 1, a type
    /// that is none, weights without a sum. No list of names is opened.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let fault = |at: usize, what: String| {
            let (line, column) = line_column(text, at);
            Error::Profile { file: file.to_owned(), line, column, what }
        };
        let raw: File = toml::from_str(text).map_err(|e| {
            let what = e.message().lines().collect::<Vec<_>>().join("; ").replace("f64", "a number");
            fault(e.span().map_or(0, |s| s.start), what)
        })?;
        let lists =
            lists(&raw.names, |at| line_column(text, at), file).map_err(|(at, what)| fault(at, what))?;
        Self::from_raw(raw, lists).map_err(|(at, what)| fault(at, what))
    }

    fn from_raw(raw: File, lists: Vec<NameList>) -> Result<Self, (usize, String)> {
        let profile = Self {
            about: raw.about,
            edns: share(raw.edns.share.as_ref())?,
            do_bit: share(raw.edns.do_bit.as_ref())?,
            edns_sizes: sizes(&raw.edns.sizes)?,
            edns_sizes_do: sizes(&raw.edns.sizes_do)?,
            order: raw.names.order,
            nonexistent: share(raw.names.nonexistent.as_ref())?,
            lists,
            below: labels(raw.names.below.as_ref())?,
            below_nonexistent: labels(raw.names.below_nonexistent.as_ref())?,
            types_of_zone: raw.names.types.is_some(),
            types: types(&raw.types)?,
            df: share(raw.packets.df.as_ref())?,
            no_checksum: share(raw.packets.no_checksum.as_ref())?,
            bad_checksum: share(raw.packets.bad_checksum.as_ref())?,
            clients: number(raw.clients.count.as_ref(), 1, (1, CLIENTS_MAX), "count")?,
            zipf: number(raw.clients.zipf.as_ref(), 1.0, (0.0, ZIPF_MAX), "zipf")?,
            ports: weights(&raw.clients.ports, |t| t.parse().ok(), "random, own or a port's number")?,
            ipv6: share(raw.clients.ipv6.as_ref())?,
            background: background(&raw.background)?,
        };
        let at = |s: &Option<Spanned<f64>>| s.as_ref().map_or(0, |s| s.span().start);
        if profile.types.is_empty() && !profile.types_of_zone {
            let what = "no types: give [types] at least one with its weight, or [names] types = \"zone\"";
            return Err((0, what.into()));
        }
        if let Some(what) = profile.do_without_edns() {
            return Err((at(&raw.edns.do_bit), what));
        }
        if profile.edns > 0.0 && profile.edns_sizes.is_empty() {
            return Err((at(&raw.edns.share), "queries with EDNS, but no [edns.sizes]".into()));
        }
        if profile.do_bit == 0.0 && !profile.edns_sizes_do.is_empty() {
            let first = raw.edns.sizes_do.keys().map(|k| k.span().start).min().unwrap_or(0);
            return Err((first, "sizes of queries with DO, but 'do' is 0: they would not be used".into()));
        }
        if profile.no_checksum + profile.bad_checksum > 1.0 {
            return Err((
                at(&raw.packets.bad_checksum),
                "'no-checksum' and 'bad-checksum' are more than 1".into(),
            ));
        }
        Ok(profile)
    }
}

fn lists(
    raw: &NamesPart,
    place: impl Fn(usize) -> (usize, usize),
    file: &str,
) -> Result<Vec<NameList>, (usize, String)> {
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let misses = raw.nonexistent.as_ref().map_or(0.0, |share| *share.get_ref());
    let list = |part: &Spanned<ListPart>| {
        let at = part.span().start;
        let (line, column) = place(at);
        let ListPart { file: names, weight, exist } = part.get_ref();
        if let Some(weight) = weight
            && let Some(what) = NameList::wrong_weight(*weight.get_ref())
        {
            return Err((weight.span().start, what));
        }
        if *exist == Some(false) && misses == 0.0 {
            return Err((
                at,
                "names that do not exist, but 'nonexistent' is 0: they would not be asked for".into(),
            ));
        }
        Ok(NameList {
            file: folder.join(names),
            weight: weight.as_ref().map_or(1.0, |w| *w.get_ref()),
            exist: exist.unwrap_or(true),
            said: format!("{file}:{line}:{column}"),
        })
    };
    raw.list.iter().map(list).collect()
}

fn share(value: Option<&Spanned<f64>>) -> Result<f64, (usize, String)> {
    let Some(value) = value else { return Ok(0.0) };
    let share = *value.get_ref();
    if (0.0..=1.0).contains(&share) {
        return Ok(share);
    }
    Err((value.span().start, format!("{share} is not a share: give a number from 0 to 1")))
}

/// A number within bounds, both included.
fn number<N: PartialOrd + Copy + std::fmt::Display>(
    value: Option<&Spanned<N>>,
    default: N,
    (least, most): (N, N),
    name: &str,
) -> Result<N, (usize, String)> {
    let Some(value) = value else { return Ok(default) };
    let number = *value.get_ref();
    if least <= number && number <= most {
        return Ok(number);
    }
    Err((value.span().start, format!("'{name}' must be between {least} and {most}")))
}

fn background(raw: &BackgroundPart) -> Result<Background, (usize, String)> {
    let fallback = Background::default();
    let under = raw.under.as_ref().map_or(Ok(Under::default()), |under| {
        under.get_ref().parse().map_err(|what| (under.span().start, what))
    })?;
    let types = types(&raw.types)?;
    Ok(Background {
        share: share(raw.share.as_ref())?,
        under,
        label: number(raw.label.as_ref(), fallback.label, (1, wire::name::MAX_LABEL as u8), "label")?,
        types: if types.is_empty() { fallback.types } else { types },
    })
}

fn types(raw: &BTreeMap<Spanned<String>, Spanned<f64>>) -> Result<BTreeMap<u16, f64>, (usize, String)> {
    weights(raw, |t| rtype::from_text(t), "a type such as AAAA, or TYPE and a number")
}

fn sizes(raw: &BTreeMap<Spanned<String>, Spanned<f64>>) -> Result<BTreeMap<u16, f64>, (usize, String)> {
    weights(raw, |t| t.parse().ok(), "a size in octets, up to 65535")
}

fn weights<K: Ord>(
    raw: &BTreeMap<Spanned<String>, Spanned<f64>>,
    key: impl Fn(&str) -> Option<K>,
    expected: &str,
) -> Result<BTreeMap<K, f64>, (usize, String)> {
    let mut out = BTreeMap::new();
    for (name, weight) in raw {
        let at = name.span().start;
        let parsed =
            key(name.get_ref()).ok_or_else(|| (at, format!("'{}' is not {expected}", name.get_ref())))?;
        check_weight(*weight.get_ref(), weight.span().start)?;
        if out.insert(parsed, *weight.get_ref()).is_some() {
            return Err((at, format!("'{}' is there twice under different spellings", name.get_ref())));
        }
    }
    if !raw.is_empty() && out.values().sum::<f64>() <= 0.0 {
        let first = raw.keys().map(|k| k.span().start).min().unwrap_or(0);
        return Err((first, "all weights are zero".into()));
    }
    Ok(out)
}

fn check_weight(weight: f64, at: usize) -> Result<(), (usize, String)> {
    // An upper bound, so that no sum overflows.
    if (0.0..=1e15).contains(&weight) {
        return Ok(());
    }
    Err((at, format!("{weight} is not a weight: give a number from 0 to 1e15")))
}

fn labels(value: Option<&Spanned<Vec<f64>>>) -> Result<Vec<f64>, (usize, String)> {
    let Some(value) = value else { return Ok(vec![1.0]) };
    let at = value.span().start;
    let list = value.get_ref();
    list.iter().try_for_each(|&w| check_weight(w, at))?;
    if list.len() > BELOW_MAX + 1 || list.iter().sum::<f64>() <= 0.0 {
        return Err((
            at,
            format!("expected weights of 0, 1, 2, … labels (at most {BELOW_MAX}), not all zero"),
        ));
    }
    Ok(list.clone())
}

/// Fuzz entry point: any octets as a profile; what is read must make sense, what is not has its place in the text.
///
/// # Panics
/// Where it does not: a bug.
pub fn fuzz_profile(text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    match Profile::parse(&text, "fuzz") {
        Ok(p) => assert!(p.do_bit <= p.edns && p.clients > 0 && (p.types_of_zone || !p.types.is_empty())),
        Err(Error::Profile { line, column, what, .. }) => {
            assert!(line > 0 && line <= text.lines().count() + 1 && column > 0 && !what.is_empty());
        }
        Err(other) => panic!("{other}"),
    }
}
