//! Values of a profile's file, each refused at its place: the octet where it begins, and what is wrong.

use super::BELOW_MAX;
use std::collections::BTreeMap;
use toml::Spanned;
use wire::rtype;

/// Where something is wrong, in octets from the beginning, and what.
pub(super) type Fault = (usize, String);

/// Things with their weights, as they are written.
pub(super) type Weighted = BTreeMap<Spanned<String>, Spanned<f64>>;

pub(super) fn share(value: Option<&Spanned<f64>>) -> Result<f64, Fault> {
    let Some(value) = value else { return Ok(0.0) };
    let share = *value.get_ref();
    if (0.0..=1.0).contains(&share) {
        return Ok(share);
    }
    Err((value.span().start, format!("{share} is not a share: give a number from 0 to 1")))
}

/// A number within bounds, both included.
pub(super) fn number<N: PartialOrd + Copy + std::fmt::Display>(
    value: Option<&Spanned<N>>,
    default: N,
    (least, most): (N, N),
    name: &str,
) -> Result<N, Fault> {
    let Some(value) = value else { return Ok(default) };
    let number = *value.get_ref();
    if least <= number && number <= most {
        return Ok(number);
    }
    Err((value.span().start, format!("'{name}' must be between {least} and {most}")))
}

pub(super) fn types(raw: &Weighted) -> Result<BTreeMap<u16, f64>, Fault> {
    weights(raw, |t| rtype::from_text(t), "a type such as AAAA, or TYPE and a number")
}

pub(super) fn weights<K: Ord>(
    raw: &Weighted,
    key: impl Fn(&str) -> Option<K>,
    expected: &str,
) -> Result<BTreeMap<K, f64>, Fault> {
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
        return Err((first(raw), "all weights are zero".into()));
    }
    Ok(out)
}

/// Where the first of them is.
pub(super) fn first(raw: &Weighted) -> usize {
    raw.keys().map(|k| k.span().start).min().unwrap_or(0)
}

pub(super) fn check_weight(weight: f64, at: usize) -> Result<(), Fault> {
    // An upper bound, so that no sum overflows.
    if (0.0..=1e15).contains(&weight) {
        return Ok(());
    }
    Err((at, format!("{weight} is not a weight: give a number from 0 to 1e15")))
}

/// Weights of 0, 1, 2, … labels.
pub(super) fn labels(value: Option<&Spanned<Vec<f64>>>) -> Result<Vec<f64>, Fault> {
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
