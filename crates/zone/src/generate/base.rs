//! The 280 TLDs of the root of 2009: real labels, synthesised name servers.
//!
//! Their counts are those that table 1.1 of the RZAIA report leaves for them: 1,552 NS records with
//! the apex's 13, 1,089 name servers (so NS − A = 463: servers that several TLDs share), 197 of them
//! with an IPv6 address (A − AAAA = 892).

use super::address;
use measure::{Draw, Seed};
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::name::Name;

/// Generic TLDs of 2009; COM, NET and ORG first, so that the smallest zones have them.
pub(super) const GENERIC: [&str; 21] = [
    "com", "net", "org", "arpa", "edu", "gov", "mil", "int", "info", "biz", "name", "pro", "aero", "asia",
    "cat", "coop", "jobs", "mobi", "museum", "tel", "travel",
];

/// The IDN test TLDs of 2007.
const TEST: [&str; 11] = [
    "xn--0zwm56d",
    "xn--11b5bs3a9aj6g",
    "xn--80akhbyknj4f",
    "xn--9t4b11yi5a",
    "xn--deba0ad",
    "xn--g6w251d",
    "xn--hgbk6aj7f53bba",
    "xn--hlcj6aya9esc7a",
    "xn--jxalpdlp",
    "xn--kgbechtv",
    "xn--zckzah",
];

const COUNTRY: &str = "
ac ad ae af ag ai al am an ao aq ar as at au aw ax az ba bb bd be bf bg bh bi bj bm bn bo br bs bt bv bw by bz ca cc cd
cf cg ch ci ck cl cm cn co cr cu cv cx cy cz de dj dk dm do dz ec ee eg er es et eu fi fj fk fm fo fr ga gb gd ge gf gg
gh gi gl gm gn gp gq gr gs gt gu gw gy hk hm hn hr ht hu id ie il im in io iq ir is it je jm jo jp ke kg kh ki km kn kp
kr kw ky kz la lb lc li lk lr ls lt lu lv ly ma mc md me mg mh mk ml mm mn mo mp mq mr ms mt mu mv mw mx my mz na nc ne
nf ng ni nl no np nr nu nz om pa pe pf pg ph pk pl pm pn pr ps pt pw py qa re ro rs ru rw sa sb sc sd se sg sh si sj sk
sl sm sn so sr st su sv sy sz tc td tf tg th tj tk tl tm tn to tp tr tt tv tw tz ua ug uk us uy uz va vc ve vg vi vn vu
wf ws ye yt yu za zm zw";

/// The root's servers and their addresses in 2009.
const ROOT_SERVERS: [(&str, &str); 13] = [
    ("198.41.0.4", "2001:503:ba3e::2:30"),
    ("192.228.79.201", ""),
    ("192.33.4.12", ""),
    ("128.8.10.90", ""),
    ("192.203.230.10", ""),
    ("192.5.5.241", "2001:500:2f::f"),
    ("192.112.36.4", ""),
    ("128.63.2.53", "2001:500:1::803f:235"),
    ("192.36.148.17", ""),
    ("192.58.128.30", "2001:503:c27::2:30"),
    ("193.0.14.129", "2001:7fd::1"),
    ("199.7.83.42", "2001:500:3::42"),
    ("202.12.27.33", "2001:dc3::35"),
];

/// TLDs of the base zone.
pub(super) const TLDS: u64 = 280;
/// NS records of the TLDs other than COM, NET (13 each) and ARPA (12).
const OTHER_NS: usize = 1501;
/// Name servers of those TLDs: 1,089 without the 13 of the root and the 13 of COM and NET.
const OTHER_SERVERS: usize = 1063;
/// Of these, servers of several TLDs.
const SHARED: usize = 110;
/// Servers with an IPv6 address besides seven of the root's.
const WITH_AAAA: usize = 190;

/// A name server's name with its addresses, at least one.
#[derive(Clone)]
pub(super) struct Server {
    pub name: Name,
    pub v4: Option<Ipv4Addr>,
    pub v6: Option<Ipv6Addr>,
}

/// A TLD of the base zone.
pub(super) struct Tld {
    pub label: &'static str,
    pub servers: Vec<Name>,
}

/// The base zone's delegations and all addresses, each in canonical order.
pub(super) struct Base {
    pub tlds: Vec<Tld>,
    pub servers: Vec<Server>,
}

/// The root's name servers.
pub(super) fn root_servers() -> Vec<Server> {
    let server = |(i, (v4, v6)): (usize, &(&str, &str))| Server {
        name: name(&format!("{}.root-servers.net", letter(i))),
        v4: Some(v4.parse().expect("a constant address")),
        v6: v6.parse().ok(),
    };
    ROOT_SERVERS.iter().enumerate().map(server).collect()
}

fn letter(i: usize) -> char {
    char::from(b'a' + i as u8)
}

pub(super) fn name(text: &str) -> Name {
    text.parse().expect("a constant, or checked before")
}

impl Base {
    /// The base zone of a seed, cut to its first `count` TLDs: the generic ones, the test ones, countries.
    pub fn new(seed: Seed, count: usize) -> Self {
        let mut draw = seed.draw("base zone", 0);
        let labels: Vec<&'static str> =
            GENERIC.into_iter().chain(TEST).chain(COUNTRY.split_whitespace()).collect();
        let mut servers = root_servers();
        let gtld: Vec<Name> = (0..13).map(|i| name(&format!("{}.gtld-servers.net", letter(i)))).collect();
        let mut tlds: Vec<Tld> = labels.iter().map(|&label| Tld { label, servers: Vec::new() }).collect();
        tlds[0].servers.clone_from(&gtld);
        tlds[1].servers.clone_from(&gtld);
        // ARPA was served by the root's servers, J apart.
        tlds[3].servers = servers.iter().map(|s| s.name.clone()).filter(|n| *n != servers[9].name).collect();

        let others: Vec<usize> = (0..tlds.len()).filter(|i| ![0, 1, 3].contains(i)).collect();
        let mut free = ns_counts(&mut draw, others.len());
        let mut new = shared_servers(&mut draw, &mut tlds, &others, &mut free);
        own_servers(&mut draw, &mut tlds, &others, &free, &mut new);
        debug_assert_eq!(new.len(), OTHER_SERVERS);

        // Addresses: IPv6 for two of COM's, for most shared servers, and for own ones as they come.
        let mut own: Vec<usize> = (SHARED..new.len()).collect();
        shuffle(&mut draw, &mut own);
        let with_aaaa: std::collections::HashSet<usize> =
            (0..SHARED * 3 / 5).chain(own).take(WITH_AAAA - 2).collect();
        let addresses = gtld.into_iter().enumerate().map(|(i, n)| (n, i < 2));
        let addresses =
            addresses.chain(new.into_iter().enumerate().map(|(i, n)| (n, with_aaaa.contains(&i))));
        for (name, v6) in addresses.collect::<Vec<_>>() {
            let (a, b) = (draw.bits(), draw.bits());
            servers.push(Server { name, v4: Some(address::v4(a)), v6: v6.then(|| address::v6(b)) });
        }

        tlds.truncate(count);
        if count < labels.len() {
            let used = |s: &Server| {
                let root = s.name.to_string().ends_with(".root-servers.net.");
                root || tlds.iter().any(|t| t.servers.contains(&s.name))
            };
            servers = servers.iter().filter(|s| used(s)).cloned().collect();
        }
        tlds.sort_by_key(|t| t.label);
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        Self { tlds, servers }
    }
}

fn shuffle(draw: &mut Draw, items: &mut [usize]) {
    for i in (1..items.len()).rev() {
        items.swap(i, draw.below(i as u64 + 1) as usize);
    }
}

/// How many NS records each of the other TLDs has; [`OTHER_NS`] in all.
fn ns_counts(draw: &mut Draw, tlds: usize) -> Vec<usize> {
    // From 2 on, about as the root's today.
    let mut counts: Vec<usize> = (0..tlds).map(|_| 2 + draw.weighted(&[5, 8, 30, 22, 20, 9, 4, 2])).collect();
    let mut sum: usize = counts.iter().sum();
    while sum != OTHER_NS {
        let i = draw.below(tlds as u64) as usize;
        if sum < OTHER_NS && counts[i] < 9 {
            counts[i] += 1;
            sum += 1;
        } else if sum > OTHER_NS && counts[i] > 3 {
            counts[i] -= 1;
            sum -= 1;
        }
    }
    counts
}

/// Servers of several TLDs: few with many, many with few. Returns their names, most used first.
fn shared_servers(draw: &mut Draw, tlds: &mut [Tld], others: &[usize], free: &mut [usize]) -> Vec<Name> {
    let weights: Vec<u32> = (0..SHARED as u32).map(|i| 4000 / (i + 2)).collect();
    let mut uses = [2usize; SHARED];
    // Every NS record beyond the number of servers is one more use of a shared server.
    let mut surplus = OTHER_NS - OTHER_SERVERS - SHARED;
    while surplus > 0 {
        let i = draw.weighted(&weights);
        if uses[i] < 70 {
            uses[i] += 1;
            surplus -= 1;
        }
    }
    uses.sort_unstable_by(|a, b| b.cmp(a));
    let words = super::words::prefix_free(false);
    let mut names = Vec::new();
    for (i, &uses) in uses.iter().enumerate() {
        let word = words[(i * 389 + draw.below(389) as usize) % words.len()];
        let parent = parent(draw, others, tlds);
        let server = name(&format!("ns{}.dns-{word}{i}.{parent}", 1 + draw.below(3)));
        let mut order: Vec<usize> = (0..others.len()).filter(|&t| free[t] > 0).collect();
        shuffle(draw, &mut order);
        for &t in order.iter().take(uses) {
            tlds[others[t]].servers.push(server.clone());
            free[t] -= 1;
        }
        names.push(server);
    }
    names
}

/// Where a server's name lies that is not in its own TLD.
fn parent(draw: &mut Draw, others: &[usize], tlds: &[Tld]) -> &'static str {
    match draw.weighted(&[40, 25, 20, 15]) {
        0 => "net",
        1 => "org",
        2 => "com",
        _ => tlds[others[draw.below(others.len() as u64) as usize]].label,
    }
}

/// Servers of one TLD each, for the NS records that are left.
fn own_servers(draw: &mut Draw, tlds: &mut [Tld], others: &[usize], free: &[usize], names: &mut Vec<Name>) {
    for (&t, &free) in others.iter().zip(free) {
        let label = tlds[t].label;
        let style = draw.below(4);
        let elsewhere = parent(draw, others, tlds);
        for k in 0..free {
            let server = if draw.chance(45, 100) {
                format!("ns{}.nic-{label}.{elsewhere}", k + 1)
            } else {
                match style {
                    0 => format!("ns{}.nic.{label}", k + 1),
                    1 => format!("{}.ns.{label}", letter(k)),
                    2 => format!("ns{}.{label}", k + 1),
                    _ => format!("{}.dns.{label}", letter(k)),
                }
            };
            let server = name(&server);
            tlds[t].servers.push(server.clone());
            names.push(server);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_base_zone_is_that_of_2009_in_numbers() {
        for seed in 0..20 {
            let base = Base::new(Seed(seed), 280);
            assert_eq!(base.tlds.len() as u64, TLDS);
            assert_eq!(base.tlds.iter().map(|t| t.servers.len()).sum::<usize>() + 13, 1552);
            assert_eq!(base.servers.len(), 1089);
            assert_eq!(base.servers.iter().filter(|s| s.v6.is_some()).count(), 197);
            assert!(base.servers.windows(2).all(|w| w[0].name < w[1].name), "sorted and distinct");
            let known: HashSet<&Name> = base.servers.iter().map(|s| &s.name).collect();
            for tld in &base.tlds {
                let set: HashSet<&Name> = tld.servers.iter().collect();
                assert!((2..=13).contains(&set.len()) && set.len() == tld.servers.len(), "{}", tld.label);
                assert!(set.is_subset(&known));
            }
        }
    }

    #[test]
    fn small_zones_have_the_first_tlds() {
        let base = Base::new(Seed(1), 3);
        assert_eq!(base.tlds.iter().map(|t| t.label).collect::<Vec<_>>(), ["com", "net", "org"]);
        assert!(base.servers.len() < 50, "only what they use");
    }
}
