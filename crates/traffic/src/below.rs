//! Labels that go before a zone's names, and the lengths of names that are made.

use crate::label::push_label;
use crate::profile::Shape;
use crate::random::{Draws, Table};
use std::collections::BTreeMap;
use wire::name::MAX_LABEL;

/// First labels of names with two or more labels below a delegation (assumed: hosts' usual names), of one size in
/// memory: copying that is an instruction.
const HOSTS: [&[u8; 5]; 8] = [
    b"\x03www\0",
    b"\x03ns1\0",
    b"\x03ns2\0",
    b"\x04mail",
    b"\x03dns\0",
    b"\x04smtp",
    b"\x03ftp\0",
    b"\x03mx1\0",
];

/// Draws labels to go before a name.
#[derive(Clone)]
pub(crate) enum Below {
    /// The number of labels: a host's name first where there are two or more, labels of 3 to 15 octets otherwise.
    Counts(Table<u8>),
    /// Of these lengths.
    Shapes { table: Table<u16>, shapes: Vec<Shape> },
}

impl Below {
    /// By shapes where there are any, otherwise by counts.
    pub(crate) fn new(counts: &[f64], shapes: &BTreeMap<Shape, f64>) -> Self {
        if shapes.is_empty() {
            return Self::Counts(Table::new(counts.iter().enumerate().map(|(n, &w)| (n as u8, w))));
        }
        Self::Shapes {
            table: Table::new((0..).zip(shapes.values().copied())),
            shapes: shapes.keys().cloned().collect(),
        }
    }

    /// Appends the labels that `bits` draw.
    pub(crate) fn push(&self, out: &mut Vec<u8>, draws: &mut Draws, bits: u32) {
        match self {
            Self::Counts(counts) => push_hosts(counts.get(bits), out, draws),
            Self::Shapes { table, shapes } => {
                push_labels(shapes[usize::from(table.get(bits))].lengths(), out, draws);
            }
        }
    }

    /// Appends the labels that `bits` draw for a name that does not exist, and gives the length of the label that would
    /// have to exist first: the last of a shape.
    pub(crate) fn push_before(&self, out: &mut Vec<u8>, draws: &mut Draws, bits: u32) -> Option<u8> {
        let Self::Shapes { table, shapes } = self else {
            self.push(out, draws, bits);
            return None;
        };
        let (&last, before) = shapes[usize::from(table.get(bits))].lengths().split_last()?;
        push_labels(before, out, draws);
        Some(last)
    }
}

fn push_labels(lengths: &[u8], out: &mut Vec<u8>, draws: &mut Draws) {
    lengths.iter().for_each(|&length| push_label(out, draws, length.into()));
}

fn push_hosts(count: u8, out: &mut Vec<u8>, draws: &mut Draws) {
    for n in 0..count {
        if n == 0 && count > 1 {
            let host = HOSTS[draws.below(HOSTS.len() as u64) as usize];
            let end = out.len() + 1 + usize::from(host[0]);
            out.extend_from_slice(host);
            out.truncate(end);
        } else {
            let len = 3 + draws.below(13) as usize;
            push_label(out, draws, len);
        }
    }
}

/// Shares by the length of a label.
pub(crate) type ByLength = [f64; MAX_LABEL + 1];

/// Shares of shapes, and of their last labels' lengths, so that a name of each length can be drawn as often as `least`
/// says: where a length is too rare its shapes are made as frequent as that, and the others give way. A length without a
/// shape gets one of that label alone.
pub(crate) fn with_room(shapes: &BTreeMap<Shape, f64>, least: &ByLength) -> (BTreeMap<Shape, f64>, ByLength) {
    let total: f64 = shapes.values().sum();
    let mut shares = [0.0; MAX_LABEL + 1];
    shapes.iter().for_each(|(shape, weight)| shares[last(shape)] += weight / total);
    let mut raised = [false; MAX_LABEL + 1];
    // The factor for the other lengths; each turn raises at least one length.
    let scale = loop {
        let sum = |which: bool, of: &ByLength| {
            of.iter().zip(raised).filter(|(_, raised)| *raised == which).map(|(share, _)| share).sum::<f64>()
        };
        let others = sum(false, &shares);
        let scale = if others > 0.0 { (1.0 - sum(true, least)).max(0.0) / others } else { 0.0 };
        // Not for the rounding of a sum.
        let too_rare = |n: usize| !raised[n] && shares[n] * scale < least[n] * (1.0 - 1e-9);
        match (1..=MAX_LABEL).find(|&n| too_rare(n)) {
            Some(n) => raised[n] = true,
            None => break scale,
        }
    };
    let found: ByLength = std::array::from_fn(|n| if raised[n] { least[n] } else { shares[n] * scale });
    let share = |(shape, weight): (&Shape, &f64)| {
        let n = last(shape);
        (shape.clone(), weight / total / shares[n] * found[n])
    };
    let mut out: BTreeMap<Shape, f64> = shapes.iter().map(share).collect();
    for n in (1..=MAX_LABEL).filter(|&n| raised[n] && shares[n] == 0.0) {
        out.insert(Shape::new(&[n as u8]).expect("a label"), found[n]);
    }
    (out, found)
}

fn last(shape: &Shape) -> usize {
    shape.lengths().last().copied().unwrap_or(0).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_length_has_room(
            weights in prop::collection::btree_map(1u8..64, 0.001..10.0f64, 1..8),
            least in prop::collection::btree_map(1u8..64, 0.0..1.0f64, 0..8),
        ) {
            let shapes = weights.iter().map(|(&length, &w)| (Shape::new(&[3, length]).unwrap(), w)).collect();
            let sum = least.values().sum::<f64>().max(1.0);
            let mut shares = [0.0; MAX_LABEL + 1];
            least.iter().for_each(|(&length, share)| shares[usize::from(length)] = share / sum);
            let (with, found) = with_room(&shapes, &shares);
            prop_assert!((with.values().sum::<f64>() - 1.0).abs() < 1e-6);
            for (length, share) in shares.iter().enumerate() {
                prop_assert!(found[length] >= share * 0.999_999, "{length}: {} {share}", found[length]);
            }
        }
    }

    #[test]
    fn texts_go_there_and_back() {
        for text in ["none", "3", "3-8-63"] {
            assert_eq!(text.parse::<Shape>().unwrap().to_string(), text);
        }
        for bad in ["", "-", "0", "64", "3-", "x", "3.8", "63-63-63-63"] {
            assert_eq!(bad.parse::<Shape>(), Err(()), "{bad}");
        }
    }
}
