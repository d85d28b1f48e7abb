//! Clients of many kinds as few classes that a person can read.

use super::clients::{Group, Kind, Manner};
use super::crowd::law;
use std::collections::BTreeMap;
use traffic::Class;
use traffic::{CLIENTS_MAX, Port};

/// The most classes, of which two are for those of each family that are of no other.
pub(super) const CLASSES: usize = 12;

/// A class of its own has this share of the queries at least, ...
const SHARE_MIN: f64 = 0.01;
/// ... and so many.
const QUERIES_MIN: u64 = 20;

/// A number with six significant digits: more than a sample knows.
pub(super) fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().expect("a number")
}

/// The share of `part` in `of`; `otherwise` where `of` is zero.
fn share(part: u64, of: u64, otherwise: f64) -> f64 {
    if of == 0 { otherwise } else { rounded(part as f64 / of as f64) }
}

/// The classes, the greatest first. Where no query of a class was known, `misses` is its share of misses.
pub(super) fn classes(groups: BTreeMap<Kind, Group>, misses: f64) -> Vec<Class> {
    let total: u64 = groups.values().map(|group| group.seen.queries).sum();
    let mut sorted: Vec<(Kind, Group)> = groups.into_iter().collect();
    sorted.sort_by(|a, b| b.1.seen.queries.cmp(&a.1.seen.queries).then(a.0.cmp(&b.0)));
    let is_own = |(n, (_, group)): (usize, &(Kind, Group))| {
        let queries = group.seen.queries;
        n < CLASSES - 2 && queries >= QUERIES_MIN && queries as f64 >= SHARE_MIN * total as f64
    };
    let own = sorted.iter().enumerate().take_while(|&(n, kind)| is_own((n, kind))).count();
    let mut others: BTreeMap<bool, Group> = BTreeMap::new();
    for ((v6, ..), group) in sorted.drain(own..) {
        others.entry(v6).or_default().merge(&group);
    }
    let mut all: Vec<(bool, Group)> = sorted.into_iter().map(|((v6, ..), group)| (v6, group)).collect();
    for (v6, group) in others {
        let like = all.iter_mut().find(|(other, _)| *other == v6);
        match like {
            // Too few for a class of their own: of the greatest class of their family.
            Some((_, greatest)) if (group.seen.queries as f64) < SHARE_MIN * total as f64 => {
                greatest.merge(&group)
            }
            _ => all.push((v6, group)),
        }
    }
    let most = CLIENTS_MAX / all.len().max(1) as u32;
    let mut classes: Vec<Class> =
        all.iter().map(|(v6, group)| class(*v6, group, total, misses, most)).collect();
    if let [class] = &mut classes[..] {
        class.share = 1.0;
    }
    classes
}

fn class(v6: bool, group: &Group, total: u64, misses: f64, most: u32) -> Class {
    let queries = group.seen.queries;
    let (clients, zipf) = law(group.seen, most);
    let sum = |which: &dyn Fn(Manner) -> bool| {
        group.manners.iter().filter(|(manner, _)| which(**manner)).map(|(_, count)| count).sum::<u64>()
    };
    let sizes = |with_do: bool| {
        let size_and_count = |(manner, &count): (&Manner, &u64)| {
            manner.filter(|&(_, do_bit)| do_bit == with_do).map(|(size, _)| (size, count as f64))
        };
        group.manners.iter().filter_map(size_and_count).collect::<BTreeMap<u16, f64>>()
    };
    let mut class = Class {
        share: rounded(queries as f64 / total as f64),
        clients,
        zipf,
        addresses: None,
        ipv6: if v6 { 1.0 } else { 0.0 },
        edns: share(sum(&|manner| manner.is_some()), queries, 0.0),
        do_bit: share(sum(&|manner| manner.is_some_and(|m| m.1)), queries, 0.0),
        edns_sizes: sizes(false),
        edns_sizes_do: sizes(true),
        nonexistent: share(group.misses, group.known, misses),
        rd: share(group.rd, queries, 0.0),
        df: if v6 { 0.0 } else { share(group.df, queries - group.tcp, 0.0) },
        tcp: share(group.tcp, queries, 0.0),
    };
    if class.edns_sizes.is_empty() {
        // All have DO: a profile says their sizes as those of all.
        class.edns_sizes = std::mem::take(&mut class.edns_sizes_do);
    }
    class
}

/// Kinds of source ports: a port that many send from is one of its own.
pub(super) fn ports(ports: &super::clients::Ports) -> BTreeMap<Port, f64> {
    let fixed: u64 = ports.fixed.values().sum();
    let mut out = BTreeMap::new();
    let mut add = |port: Port, count: u64| {
        if count > 0 {
            *out.entry(port).or_default() += count as f64;
        }
    };
    add(Port::Random, ports.random);
    for (&port, &count) in &ports.fixed {
        let many = count >= 3 && count * 20 >= fixed;
        add(if port > 0 && (port < 1024 || many) { Port::Number(port) } else { Port::Own }, count);
    }
    out
}
