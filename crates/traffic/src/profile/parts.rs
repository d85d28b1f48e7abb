//! Classes of clients as a file says them, and places in it.

use super::values::{Fault, Weighted, check_weight, first, number, share, weights};
use super::{AddressFile, CLASSES_MAX, Class};
use super::{CLIENTS_MAX, ZIPF_MAX};
use measure::line_column;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// A class of clients, and what the rest of the file says of those that have no other.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ClassPart {
    pub(super) share: Option<Spanned<f64>>,
    pub(super) count: Option<Spanned<u32>>,
    pub(super) zipf: Option<Spanned<f64>>,
    pub(super) addresses: Option<Spanned<PathBuf>>,
    pub(super) ipv6: Option<Spanned<f64>>,
    pub(super) edns: Option<Spanned<f64>>,
    #[serde(rename = "do")]
    pub(super) do_bit: Option<Spanned<f64>>,
    pub(super) sizes: Option<Weighted>,
    pub(super) sizes_do: Option<Weighted>,
    pub(super) nonexistent: Option<Spanned<f64>>,
    pub(super) rd: Option<Spanned<f64>>,
    pub(super) df: Option<Spanned<f64>>,
    pub(super) tcp: Option<Spanned<f64>>,
}

/// The file's name and text: places in it are said with line and column.
pub(super) struct Place<'a> {
    pub(super) text: &'a str,
    pub(super) file: &'a str,
}

impl Place<'_> {
    pub(super) fn said(&self, at: usize) -> String {
        let (line, column) = line_column(self.text, at);
        format!("{}:{line}:{column}", self.file)
    }

    /// A file that the profile names is beside it.
    pub(super) fn beside(&self, file: &Path) -> PathBuf {
        Path::new(self.file).parent().unwrap_or(Path::new("")).join(file)
    }
}

impl ClassPart {
    /// The class that begins at `at`; what it does not say is as in `all`.
    fn class(&self, at: usize, all: &Self, place: &Place<'_>) -> Result<Class, Fault> {
        fn start<T>(value: &Option<Spanned<T>>) -> Option<usize> {
            value.as_ref().map(|value| value.span().start)
        }
        /// Its own value, or that of all.
        macro_rules! own {
            ($field:ident) => {
                self.$field.as_ref().or(all.$field.as_ref())
            };
        }
        let sizes = |raw: Option<&Weighted>| {
            let expected = "a size in octets, up to 65535";
            raw.map_or(Ok(BTreeMap::new()), |raw| weights(raw, |t| t.parse().ok(), expected))
        };
        if let Some(share) = &self.share {
            check_weight(*share.get_ref(), share.span().start)?;
        }
        if let (Some(at), Some(_)) =
            (start(&self.addresses), start(&self.count).or(start(&self.zipf)).or(start(&self.ipv6)))
        {
            let what = "'addresses' say how many clients there are, how often each sends and over which family: \
                        leave out 'count', 'zipf' and 'ipv6'";
            return Err((at, what.into()));
        }
        // Clients are said one way or the other: what a class says of them takes the place of addresses for all.
        let counted = self.count.is_some() || self.zipf.is_some() || self.ipv6.is_some();
        let addresses = if counted { None } else { own!(addresses) };
        let mut class = Class {
            share: self.share.as_ref().map_or(1.0, |share| *share.get_ref()),
            clients: number(own!(count), 1, (1, CLIENTS_MAX), "count")?,
            zipf: number(own!(zipf), 1.0, (0.0, ZIPF_MAX), "zipf")?,
            addresses: addresses.map(|file| AddressFile {
                file: place.beside(file.get_ref()),
                said: place.said(file.span().start),
            }),
            ipv6: share(own!(ipv6))?,
            edns: share(own!(edns))?,
            do_bit: share(own!(do_bit))?,
            edns_sizes: sizes(own!(sizes))?,
            edns_sizes_do: sizes(own!(sizes_do))?,
            nonexistent: share(own!(nonexistent))?,
            rd: share(own!(rd))?,
            df: share(own!(df))?,
            tcp: share(own!(tcp))?,
        };
        if class.addresses.is_some() {
            let Class { clients, zipf, ipv6, .. } = Class::default();
            (class.clients, class.zipf, class.ipv6) = (clients, zipf, ipv6);
        }
        if let Some(what) = class.do_without_edns() {
            return Err((start(&self.do_bit).or(start(&self.edns)).unwrap_or(at), what));
        }
        if class.edns > 0.0 && class.edns_sizes.is_empty() {
            let at = start(&self.edns).unwrap_or(at);
            return Err((at, "queries with EDNS, but no [edns.sizes]".into()));
        }
        if let Some(sizes) = self.sizes_do.as_ref().filter(|sizes| class.do_bit == 0.0 && !sizes.is_empty()) {
            let what = "sizes of queries with DO, but 'do' is 0: they would not be used";
            return Err((first(sizes), what.into()));
        }
        Ok(class)
    }
}

/// The classes of a file: at least one.
pub(super) fn classes(
    all: &ClassPart,
    parts: &[Spanned<ClassPart>],
    place: &Place<'_>,
) -> Result<Vec<Class>, Fault> {
    let Some(last) = parts.last().map(|part| part.span().start) else {
        return Ok(vec![all.class(0, &ClassPart::default(), place)?]);
    };
    if parts.len() > CLASSES_MAX {
        return Err((last, format!("{} classes: give at most {CLASSES_MAX}", parts.len())));
    }
    let mut classes = Vec::new();
    for part in parts {
        let at = part.span().start;
        let class = part.get_ref().class(at, all, place)?;
        if part.get_ref().share.is_none() {
            return Err((at, "a class without its 'share': give its weight among all queries".into()));
        }
        if class.addresses.is_some() && part.get_ref().addresses.is_none() && parts.len() > 1 {
            let what = "clients of different classes have different addresses: give this class 'addresses' of its own, \
                        or 'count'";
            return Err((at, what.into()));
        }
        classes.push(class);
    }
    if classes.iter().map(|class| class.share).sum::<f64>() <= 0.0 {
        return Err((parts[0].span().start, "the shares of all classes are zero".into()));
    }
    if classes.iter().map(|class| u64::from(class.clients)).sum::<u64>() > CLIENTS_MAX.into() {
        return Err((last, format!("the classes have more than {CLIENTS_MAX} clients together")));
    }
    if let [class] = &mut classes[..] {
        class.share = 1.0;
    }
    Ok(classes)
}
