//! A zone profile from a real zone's facts.

use crate::conformance::{Sharers, usual_ttl};
use crate::profile::{Apex, Ds, Glue, Labels, Model, NameServers, Servers};
use crate::{Info, Profile};
use std::collections::BTreeMap;
use wire::name::Name;

/// Names that servers lie under which get a line of their own: in the zone at most so many, with at least
/// this share, out of it the most frequent.
const UNDER: usize = 24;
const UNDER_SHARE: f64 = 0.01;
const UNDER_OUTSIDE: usize = 64;
/// Labels of this length and more in the mean are made of words.
const WORDS_FROM: f64 = 8.0;

/// The profile of a zone with delegations; none where it has none. A signed zone gives the profile of the
/// zone before signing.
pub fn fit(info: &Info) -> Option<Profile> {
    if info.delegations == 0 {
        return None;
    }
    let mut lengths: BTreeMap<u8, f64> = BTreeMap::new();
    for (&length, &n) in &info.label_length {
        let plain = n - info.idn_label_length.get(&length).copied().unwrap_or(0);
        if plain > 0 {
            lengths.insert(length, plain as f64);
        }
    }
    if lengths.is_empty() {
        // IDNs alone: their lengths are the best guess.
        lengths = weights(&info.label_length);
    }
    let mean = lengths.iter().map(|(&l, w)| f64::from(l) * w).sum::<f64>() / lengths.values().sum::<f64>();
    let ttl = |name: &str, or: u32| usual_ttl(info, name).unwrap_or(or);
    let ns_ttl = ttl("NS", 86400);
    let signed: u64 = info.ds_per_delegation.values().sum();
    let known = |(&d, &n): (&u8, &u64)| matches!(d, 1 | 2 | 4).then_some((d, n as f64));
    let digests: BTreeMap<u8, f64> = info.ds_digests.iter().filter_map(known).collect();
    let ds = if signed == 0 || digests.is_empty() {
        Ds::default()
    } else {
        Ds {
            share: rounded(info.ds_share),
            counts: weights(&info.ds_per_delegation),
            algorithms: weights(&info.ds_algorithms),
            digests,
            ttl: ttl("DS", 86400),
        }
    };
    let g = &info.glue;
    let of_names = |n: u64| if g.names == 0 { 0.0 } else { rounded(n as f64 / g.names as f64) };
    let a = if g.names == 0 { 1.0 } else { of_names(g.names_with_a) };
    let apex = &info.apex;
    Some(Profile {
        about: format!(
            "Fitted from {}, serial {}: {} delegations",
            info.origin, info.serial, info.delegations
        ),
        delegations: info.delegations,
        apex: Apex {
            origin: info.origin.clone(),
            serial: info.serial,
            timers: apex.timers,
            soa_ttl: apex.soa_ttl,
            ns_ttl: if apex.servers.is_empty() { ns_ttl } else { apex.ns_ttl },
            mailbox: Some(apex.mailbox.clone()),
            servers: apex_servers(info),
        },
        labels: Labels {
            model: if mean < WORDS_FROM { Model::Letters } else { Model::Words },
            lengths,
            idn: rounded(info.idn_share),
        },
        ns: NameServers { counts: weights(&info.ns_per_delegation), ttl: ns_ttl },
        servers: servers(info),
        // Rounding must not leave a server without an address.
        glue: Glue { a, aaaa: of_names(g.names_with_aaaa).max(rounded(1.0 - a)), ttl: ttl("A", ns_ttl) },
        ds,
    })
}

fn weights<K: Ord + Copy>(counts: &BTreeMap<K, u64>) -> BTreeMap<K, f64> {
    counts.iter().map(|(&k, &n)| (k, n as f64)).collect()
}

/// To five places: what a person still reads.
fn rounded(share: f64) -> f64 {
    (share * 1e5).round() / 1e5
}

/// The SOA's primary first.
fn apex_servers(info: &Info) -> Vec<String> {
    let mut servers = info.apex.servers.clone();
    match servers.iter().position(|s| s.eq_ignore_ascii_case(&info.apex.primary)) {
        Some(at) => servers[..=at].rotate_right(1),
        // A hidden primary does not serve.
        None if servers.is_empty() => servers.push(info.apex.primary.clone()),
        None => {}
    }
    servers
}

/// Where servers lie, and who shares them.
fn servers(info: &Info) -> Servers {
    let (s, sharing) = (&info.servers, &info.servers.sharing);
    let records = (s.inside + s.in_zone + s.out_of_zone) as f64;
    let d = info.delegations as f64;
    let size = records / d;
    let all = &sharing.delegations_per_server;
    let inside_of = |k: u32, n: u64| n - sharing.elsewhere.get(&k).copied().unwrap_or(0).min(n);
    // Servers that serve several delegations, and the NS records that name them.
    let shared: f64 = all.range(2..).map(|(_, &n)| n as f64).sum();
    // (From those of one delegation: a sample may miss the few that serve most.)
    let named = (records - all.get(&1).copied().unwrap_or(0) as f64).max(0.0);
    // Those of them that lie in one of the delegations: that delegation is the provider, and its own NS records
    // are none of a user.
    let lodged: f64 = all.range(2..).map(|(&k, &n)| inside_of(k, n) as f64).sum();
    let inside = s.inside as f64 / records;
    let outside = 1.0 - inside;
    let largest = sharing.largest.values().max().copied().unwrap_or(0) as f64;
    let mut best = (f64::INFINITY, 0.0, 0.0, 1.0);
    if shared > 0.0 {
        let share_lodged = lodged / shared;
        for exponent in (0..=40).map(|i| f64::from(i) * 0.05) {
            for step in 0..=160 {
                let providers = (shared / size) * 2f64.powf(f64::from(step) / 40.0 - 0.5);
                // Providers' NS records: those of servers with one user count too.
                let mut part = outside;
                let mut sharers = Sharers::default();
                for _ in 0..12 {
                    let (apart, lodged) = (providers * (1.0 - share_lodged), providers * share_lodged);
                    sharers = Sharers::new(part * d, apart, lodged, exponent);
                    let single = sharers.apart * sharers.alone * size;
                    part = ((named - lodged * size * (1.0 - sharers.alone) + single) / records)
                        .clamp(0.0, outside);
                }
                let several = (sharers.apart + sharers.lodged) * (1.0 - sharers.alone) * size;
                let distinct = inside + (outside - part) + sharers.apart / d;
                // Pairs that differ most clearly count most.
                let error = 25.0 * off(distinct, sharing.servers as f64 / records)
                    + off(several, shared)
                    + off(sharers.largest, largest);
                if error < best.0 {
                    best = (error, part, providers, exponent);
                }
            }
        }
    }
    let (_, part, providers, exponent) = best;
    let own = (outside - part).max(0.0);
    let share = |x: f64| rounded(x).clamp(0.0, 1.0);
    // A rounding error must not look like a share of providers where there are none.
    let inside = if shared > 0.0 { share(inside) } else { 1.0 - share(own) };
    Servers {
        inside,
        own: share(own).min(1.0 - inside),
        providers: if shared > 0.0 { share((providers / d).max(1e-5)) } else { 0.0 },
        exponent: if shared > 0.0 { rounded(exponent) } else { 1.0 },
        under: under(info, lodged),
    }
}

/// How far a figure is from what was found: the square of the logarithm of their ratio.
fn off(expected: f64, found: f64) -> f64 {
    (expected.max(1e-9) / found.max(1e-9)).ln().powi(2)
}

/// The names that servers lie under, the frequent ones by themselves.
fn under(info: &Info, lodged: f64) -> BTreeMap<String, f64> {
    let sharing = &info.servers.sharing;
    let origin = info.origin.parse::<Name>().unwrap_or_else(|_| Name::root());
    let in_zone = |text: &str| text.parse::<Name>().is_ok_and(|n| n.is_under(origin.as_wire()));
    let sum = sharing.under.values().sum::<u64>() as f64 + lodged;
    let mut names: Vec<(&String, u64)> = sharing.under.iter().map(|(name, &n)| (name, n)).collect();
    names.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let (mut weights, mut rest, mut outside) = (BTreeMap::new(), lodged, 0);
    for (i, (name, n)) in names.into_iter().enumerate() {
        if !in_zone(name) {
            // Without glue: what is rare does not matter.
            outside += 1;
            if outside <= UNDER_OUTSIDE {
                weights.insert(name.clone(), n as f64);
            }
        } else if i < UNDER && n as f64 >= UNDER_SHARE * sum {
            weights.insert(name.clone(), n as f64);
        } else {
            rest += n as f64;
        }
    }
    if rest > 0.0 {
        *weights.entry(info.origin.clone()).or_default() += rest;
    }
    weights
}
