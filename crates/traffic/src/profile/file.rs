//! How a profile is written down, and what is wrong where it is not.

use super::parts::{ClassPart, Place, classes};
use super::values::{self, Fault, Weighted, first, labels, number, share, types, weights};
use super::{Background, Under};
use super::{Law, Order, POPULAR_MAX, Profile, SHAPES_MAX, Shape};
use crate::{Error, NameList};
use measure::{Seed, line_column};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Spanned;
use wire::name::{MAX_LABEL, Name, ROOT};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    about: String,
    #[serde(default)]
    edns: Edns,
    #[serde(default)]
    names: NamesPart,
    #[serde(default)]
    types: Weighted,
    #[serde(default)]
    types_itself: Weighted,
    #[serde(default)]
    types_nonexistent: Weighted,
    #[serde(default)]
    packets: Packets,
    #[serde(default)]
    clients: Clients,
    #[serde(default)]
    class: Vec<Spanned<ClassPart>>,
    #[serde(default)]
    arrivals: ArrivalsPart,
    #[serde(default)]
    background: BackgroundPart,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Edns {
    share: Option<Spanned<f64>>,
    #[serde(rename = "do")]
    do_bit: Option<Spanned<f64>>,
    sizes: Option<Weighted>,
    sizes_do: Option<Weighted>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct NamesPart {
    #[serde(default)]
    order: Order,
    nonexistent: Option<Spanned<f64>>,
    below: Option<Spanned<Vec<f64>>>,
    below_nonexistent: Option<Spanned<Vec<f64>>>,
    types: Option<TypesFrom>,
    #[serde(default)]
    popular: Weighted,
    #[serde(default)]
    popular_nonexistent: Weighted,
    #[serde(default)]
    lengths: Weighted,
    #[serde(default)]
    shapes: Weighted,
    #[serde(default)]
    shapes_nonexistent: Weighted,
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
    rd: Option<Spanned<f64>>,
    df: Option<Spanned<f64>>,
    tcp: Option<Spanned<f64>>,
    retry: Option<Spanned<f64>>,
    no_checksum: Option<Spanned<f64>>,
    bad_checksum: Option<Spanned<f64>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Clients {
    count: Option<Spanned<u32>>,
    zipf: Option<Spanned<f64>>,
    addresses: Option<Spanned<PathBuf>>,
    #[serde(default)]
    ports: Weighted,
    ipv6: Option<Spanned<f64>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ArrivalsPart {
    law: Option<Spanned<LawPart>>,
    rate: Option<Spanned<f64>>,
    quantiles_us: Option<Spanned<Vec<f64>>>,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum LawPart {
    Even,
    Poisson,
    Intervals,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BackgroundPart {
    share: Option<Spanned<f64>>,
    under: Option<Spanned<String>>,
    label: Option<Spanned<u8>>,
    #[serde(default)]
    types: Weighted,
}

impl File {
    /// The part for clients that are of no other class.
    fn all(&mut self) -> ClassPart {
        ClassPart {
            share: None,
            count: self.clients.count.take(),
            zipf: self.clients.zipf.take(),
            addresses: self.clients.addresses.take(),
            ipv6: self.clients.ipv6.take(),
            edns: self.edns.share.take(),
            do_bit: self.edns.do_bit.take(),
            sizes: self.edns.sizes.take(),
            sizes_do: self.edns.sizes_do.take(),
            nonexistent: self.names.nonexistent.clone(),
            rd: self.packets.rd.take(),
            df: self.packets.df.take(),
            tcp: self.packets.tcp.take(),
        }
    }
}

impl Profile {
    /// Reads a profile; `file` is what errors call it, and the files of its lists are looked for beside it.
    ///
    /// # Errors
    /// The first fault with line and column: syntax, an unknown key, a share outside 0 to 1, a type
    /// that is not one, weights without a sum. No list of names or addresses is opened.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let fault = |at: usize, what: String| {
            let (line, column) = line_column(text, at);
            Error::Profile { file: file.to_owned(), line, column, what }
        };
        let raw: File = toml::from_str(text).map_err(|e| {
            let what = e.message().lines().collect::<Vec<_>>().join("; ").replace("f64", "a number");
            fault(e.span().map_or(0, |s| s.start), what)
        })?;
        Self::from_raw(raw, &Place { text, file }).map_err(|(at, what)| fault(at, what))
    }

    fn from_raw(mut raw: File, place: &Place<'_>) -> Result<Self, Fault> {
        let all = raw.all();
        let classes = classes(&all, &raw.class, place)?;
        let misses = classes.iter().any(|class| class.nonexistent > 0.0);
        let lengths = |raw: &Weighted| {
            let length = |text: &str| text.parse().ok().filter(|n| (1..=MAX_LABEL as u8).contains(n));
            weights(raw, length, "a label's length in octets, 1 to 63")
        };
        let (law, rate) = arrivals(&raw.arrivals)?;
        let profile = Self {
            about: raw.about,
            classes,
            order: raw.names.order,
            lists: lists(&raw.names, misses, place)?,
            popular: popular(&raw.names.popular)?,
            popular_nonexistent: popular(&raw.names.popular_nonexistent)?,
            lengths: lengths(&raw.names.lengths)?,
            shapes: shapes(&raw.names.shapes)?,
            shapes_nonexistent: shapes(&raw.names.shapes_nonexistent)?,
            below: labels(raw.names.below.as_ref())?,
            below_nonexistent: labels(raw.names.below_nonexistent.as_ref())?,
            types_of_zone: raw.names.types.is_some(),
            types: types(&raw.types)?,
            types_itself: types(&raw.types_itself)?,
            types_nonexistent: types(&raw.types_nonexistent)?,
            retry: raw.packets.retry.as_ref().map(|retry| share(Some(retry))).transpose()?,
            no_checksum: share(raw.packets.no_checksum.as_ref())?,
            bad_checksum: share(raw.packets.bad_checksum.as_ref())?,
            ports: weights(&raw.clients.ports, |t| t.parse().ok(), "random, own or a port's number")?,
            law,
            rate,
            background: background(&raw.background)?,
        };
        if profile.types.is_empty() && !profile.types_of_zone {
            let what = "no types: give [types] at least one with its weight, or [names] types = \"zone\"";
            return Err((0, what.into()));
        }
        for (weights, what) in [
            (&raw.types_nonexistent, "types of queries for names that do not exist"),
            (&raw.names.popular_nonexistent, "popular names that do not exist"),
            (&raw.names.shapes_nonexistent, "shapes of names that do not exist"),
        ] {
            if !misses && !weights.is_empty() {
                let what = format!("{what}, but 'nonexistent' is 0: they would not be asked for");
                return Err((first(weights), what));
            }
        }
        said_once(&raw.names, &profile)?;
        if profile.no_checksum + profile.bad_checksum > 1.0 {
            let at = raw.packets.bad_checksum.as_ref().map_or(0, |s| s.span().start);
            return Err((at, "'no-checksum' and 'bad-checksum' are more than 1".into()));
        }
        Ok(profile)
    }
}

fn lists(raw: &NamesPart, misses: bool, place: &Place<'_>) -> Result<Vec<NameList>, Fault> {
    let list = |part: &Spanned<ListPart>| {
        let at = part.span().start;
        let ListPart { file, weight, exist } = part.get_ref();
        if let Some(weight) = weight
            && let Some(what) = NameList::wrong_weight(*weight.get_ref())
        {
            return Err((weight.span().start, what));
        }
        if *exist == Some(false) && !misses {
            return Err((
                at,
                "names that do not exist, but 'nonexistent' is 0: they would not be asked for".into(),
            ));
        }
        Ok(NameList {
            file: place.beside(file),
            weight: weight.as_ref().map_or(1.0, |w| *w.get_ref()),
            exist: exist.unwrap_or(true),
            said: place.said(at),
        })
    };
    raw.list.iter().map(list).collect()
}

/// Lengths of labels with their weights.
fn shapes(raw: &Weighted) -> Result<BTreeMap<Shape, f64>, Fault> {
    if raw.len() > SHAPES_MAX {
        return Err((first(raw), format!("{} shapes: give at most {SHAPES_MAX}", raw.len())));
    }
    let expected =
        "none, or the lengths of labels, such as 3-8: each 1 to 63 octets, all within a name's 255";
    weights(raw, |text| text.parse().ok(), expected)
}

/// Refuses values that shapes give and that are given otherwise, too.
fn said_once(raw: &NamesPart, profile: &Profile) -> Result<(), Fault> {
    let start = |value: &Option<Spanned<Vec<f64>>>| value.as_ref().map(|value| value.span().start);
    let lengths = (!raw.lengths.is_empty()).then(|| first(&raw.lengths));
    for (shapes, key, other) in [
        (&profile.shapes, "below", start(&raw.below)),
        (&profile.shapes_nonexistent, "below-nonexistent", start(&raw.below_nonexistent)),
        (&profile.shapes_nonexistent, "lengths", lengths),
    ] {
        if let Some(at) = other.filter(|_| !shapes.is_empty()) {
            return Err((at, format!("'{key}' and shapes of the same names: leave one of them out")));
        }
    }
    if profile.shapes_nonexistent.contains_key(&Shape::default()) {
        let what = "a name that does not exist has a label at least: 'none' is no shape of it";
        return Err((first(&raw.shapes_nonexistent), what.into()));
    }
    Ok(())
}

/// Names with their shares.
fn popular(raw: &Weighted) -> Result<BTreeMap<Name, f64>, Fault> {
    let mut out = BTreeMap::new();
    for (name, share) in raw {
        let at = name.span().start;
        let parsed = Name::parse_text(name.get_ref(), Some(ROOT))
            .map_err(|e| (at, format!("'{}' is not a name: {e}", name.get_ref())))?;
        if out.insert(parsed, values::share(Some(share))?).is_some() {
            return Err((at, format!("'{}' is there twice under different spellings", name.get_ref())));
        }
    }
    let sum: f64 = out.values().sum();
    // As much above as the rounding of many shares can make.
    if sum > 1.0 + 1e-9 {
        return Err((first(raw), format!("the shares of these names are {sum} together: more than 1")));
    }
    if out.len() > POPULAR_MAX {
        return Err((first(raw), format!("{} names: give at most {POPULAR_MAX}, or a list", out.len())));
    }
    Ok(out)
}

fn arrivals(raw: &ArrivalsPart) -> Result<(Law, Option<f64>), Fault> {
    let rate = raw.rate.as_ref();
    if let Some(rate) = rate.filter(|rate| !(rate.get_ref().is_finite() && *rate.get_ref() > 0.0)) {
        let what = format!("{} is not a rate: give queries per second, above 0", rate.get_ref());
        return Err((rate.span().start, what));
    }
    let at = raw.law.as_ref().map_or(0, |law| law.span().start);
    let law = match (raw.law.as_ref().map(|law| *law.get_ref()), &raw.quantiles_us) {
        (Some(LawPart::Intervals), Some(quantiles)) => {
            let law = Law::Intervals(quantiles.get_ref().clone());
            let checked = law.arrivals(1.0, Seed(0)).check();
            checked.map_err(|what| (quantiles.span().start, what))?;
            law
        }
        (Some(LawPart::Intervals), None) => {
            return Err((at, "intervals, but no quantiles-us = [...] of them".into()));
        }
        (_, Some(quantiles)) => {
            let what = "quantiles of intervals are for law = \"intervals\"";
            return Err((quantiles.span().start, what.into()));
        }
        (Some(LawPart::Poisson), None) => Law::Poisson,
        (Some(LawPart::Even) | None, None) => Law::Even,
    };
    Ok((law, rate.map(|rate| *rate.get_ref())))
}

fn background(raw: &BackgroundPart) -> Result<Background, Fault> {
    let fallback = Background::default();
    let under = raw.under.as_ref().map_or(Ok(Under::default()), |under| {
        under.get_ref().parse().map_err(|what| (under.span().start, what))
    })?;
    let types = types(&raw.types)?;
    Ok(Background {
        share: share(raw.share.as_ref())?,
        under,
        label: number(raw.label.as_ref(), fallback.label, (1, MAX_LABEL as u8), "label")?,
        types: if types.is_empty() { fallback.types } else { types },
    })
}

/// Fuzz entry point: any octets as a profile; what is read must make sense, what is not has its place in the text, and
/// what is written again is the same profile.
///
/// # Panics
/// Where it does not: a bug.
pub fn fuzz_profile(text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    match Profile::parse(&text, "fuzz") {
        Ok(mut profile) => {
            assert!(profile.types_of_zone || !profile.types.is_empty());
            assert!(profile.classes.iter().all(|class| class.do_bit <= class.edns && class.clients > 0));
            let written = profile.to_toml();
            let mut again = Profile::parse(&written, "fuzz").unwrap_or_else(|e| panic!("{e}\n{written}"));
            profile.forget_places();
            again.forget_places();
            assert_eq!(profile, again, "{written}");
        }
        Err(Error::Profile { line, column, what, .. }) => {
            assert!(line > 0 && line <= text.lines().count() + 1 && column > 0 && !what.is_empty());
        }
        Err(other) => panic!("{other}"),
    }
}
