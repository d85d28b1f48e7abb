//! Clients and what each of them does, in bounded memory.

use super::crowd::Seen;
use crate::facts::number;
use hashbrown::HashMap;
use measure::distinct::Distinct;
use std::collections::BTreeMap;

/// Clients that are known one by one; beyond, the half that asked least is added up by what they do.
pub(super) const CLIENTS_MAX: usize = 1 << 20;

/// Ways of using EDNS that are distinguished of one client; further ones count as the nearest.
const MANNERS_MAX: usize = 16;

/// A client's misses are distinguished from those of its like from so many known queries on, ...
const KNOWN_MIN: u64 = 30;
/// ... so many standard deviations and ...
const DEVIATIONS: f64 = 6.0;
/// ... such a share away.
const APART: f64 = 0.2;

/// How a query uses EDNS: `None` without, otherwise its UDP size in octets and DO.
pub(super) type Manner = Option<(u16, bool)>;

/// Counts of one client.
#[derive(Clone, Debug, Default)]
struct Client {
    manners: Vec<(Manner, u64)>,
    queries: u64,
    /// Of them, with a verdict about their names; of those, for names that do not exist.
    known: u64,
    misses: u64,
    rd: u64,
    df: u64,
    tcp: u64,
    /// The source port over UDP, while it is always the same.
    port: Option<u16>,
}

/// How a query travelled.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    Udp { port: u16, df: bool },
    Tcp,
}

/// The key of a class of clients: the family, how most queries of a client use EDNS, whether its misses are like those of its like,
/// and whether most of its queries go over TCP.
pub(super) type Kind = (bool, Manner, Misses, bool);

/// A client's misses, against those of its like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Misses {
    #[default]
    Usual,
    Few,
    Many,
}

/// Counts of all clients of a kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub seen: Seen,
    pub known: u64,
    pub misses: u64,
    pub rd: u64,
    pub df: u64,
    pub tcp: u64,
    pub manners: BTreeMap<Manner, u64>,
}

/// Clients by the kind of their source ports, of those with two queries at least.
#[derive(Clone, Debug, Default)]
pub(super) struct Ports {
    pub random: u64,
    /// Clients that always sent from one port, by that.
    pub fixed: BTreeMap<u16, u64>,
}

/// All clients.
#[derive(Default)]
pub(super) struct Crowd {
    clients: HashMap<u128, Client>,
    /// Clients that no longer fit into the table, by kind.
    pools: BTreeMap<Kind, Group>,
    ports: Ports,
    all: Option<Distinct>,
}

fn is_v6(key: u128) -> bool {
    key >> 32 != 0xffff
}

impl Client {
    /// Most of its queries go over TCP.
    fn is_tcp(&self) -> bool {
        2 * self.tcp > self.queries
    }

    /// How most of its queries use EDNS.
    fn manner(&self) -> Manner {
        self.manners.iter().max_by_key(|(manner, count)| (*count, *manner)).and_then(|m| m.0)
    }

    fn add_manner(&mut self, manner: Manner) {
        if let Some((_, count)) = self.manners.iter_mut().find(|m| m.0 == manner) {
            *count += 1;
        } else if self.manners.len() < MANNERS_MAX {
            self.manners.push((manner, 1));
        } else {
            let off = |other: Manner| match (other, manner) {
                (Some((a, ad)), Some((b, bd))) => (u32::from(ad != bd) << 16) + u32::from(a.abs_diff(b)),
                _ => u32::MAX,
            };
            let nearest = self.manners.iter_mut().min_by_key(|m| off(m.0)).expect("there are some");
            nearest.1 += 1;
        }
    }
}

impl Group {
    fn add(&mut self, client: &Client) {
        self.seen.queries += client.queries;
        self.seen.clients += 1;
        self.seen.pairs += client.queries as f64 * (client.queries as f64 - 1.0);
        self.known += client.known;
        self.misses += client.misses;
        self.rd += client.rd;
        self.df += client.df;
        self.tcp += client.tcp;
        for &(manner, count) in &client.manners {
            *self.manners.entry(manner).or_default() += count;
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.seen.queries += other.seen.queries;
        self.seen.clients += other.seen.clients;
        self.seen.pairs += other.seen.pairs;
        self.known += other.known;
        self.misses += other.misses;
        self.rd += other.rd;
        self.df += other.df;
        self.tcp += other.tcp;
        for (&manner, count) in &other.manners {
            *self.manners.entry(manner).or_default() += count;
        }
    }
}

impl Ports {
    fn add(&mut self, client: &Client) {
        match client.port {
            _ if client.queries - client.tcp < 2 => {}
            Some(port) => *self.fixed.entry(port).or_default() += 1,
            None => self.random += 1,
        }
    }
}

impl Crowd {
    /// A query.
    pub fn asked(&mut self, key: u128, how: How, manner: Manner, rd: bool) {
        if let Some(all) = &mut self.all {
            all.add(number(key));
        }
        let client = self.clients.entry(key).or_default();
        match how {
            How::Udp { port, df } => {
                if client.queries == client.tcp {
                    client.port = Some(port);
                }
                client.port = client.port.filter(|&first| first == port);
                client.df += u64::from(df);
            }
            How::Tcp => client.tcp += 1,
        }
        client.queries += 1;
        client.rd += u64::from(rd);
        client.add_manner(manner);
        if self.clients.len() > CLIENTS_MAX {
            self.give_up_half();
        }
    }

    /// The verdict about the name of one of its queries.
    pub fn learned(&mut self, key: u128, miss: bool) {
        // Whoever was given up in between is known as if by a query of its own.
        if let Some(client) = self.clients.get_mut(&key) {
            client.known += 1;
            client.misses += u64::from(miss);
        }
    }

    fn give_up_half(&mut self) {
        if self.all.is_none() {
            let mut all = Distinct::default();
            self.clients.keys().for_each(|&key| all.add(number(key)));
            self.all = Some(all);
        }
        let mut counts: Vec<u64> = self.clients.values().map(|client| client.queries).collect();
        let (_, &mut middle, _) = counts.select_nth_unstable(CLIENTS_MAX / 2);
        for (key, client) in self.clients.extract_if(|_, client| client.queries <= middle) {
            self.ports.add(&client);
            self.pools
                .entry((is_v6(key), client.manner(), Misses::Usual, client.is_tcp()))
                .or_default()
                .add(&client);
        }
    }

    /// How many clients there were.
    pub fn count(&self) -> u64 {
        self.all.as_ref().map_or(self.clients.len() as u64, Distinct::count)
    }

    /// Their number is an estimate, and those that asked little may be counted several times.
    pub fn is_sketch(&self) -> bool {
        self.all.is_some()
    }

    /// The addresses of clients, as numbers.
    pub fn keys(&self) -> impl Iterator<Item = u128> + '_ {
        self.clients.keys().copied()
    }

    /// The clients by kind, and their ports.
    pub fn groups(self) -> (BTreeMap<Kind, Group>, Ports) {
        let Self { clients, mut pools, mut ports, .. } = self;
        let mut usual: BTreeMap<(bool, Manner), (u64, u64)> = BTreeMap::new();
        for (&key, client) in &clients {
            let (known, misses) = usual.entry((is_v6(key), client.manner())).or_default();
            *known += client.known;
            *misses += client.misses;
        }
        for (key, client) in &clients {
            let (v6, manner) = (is_v6(*key), client.manner());
            let (known, misses) = usual[&(v6, manner)];
            let off = client.misses(misses as f64 / known.max(1) as f64);
            pools.entry((v6, manner, off, client.is_tcp())).or_default().add(client);
            ports.add(client);
        }
        (pools, ports)
    }
}

impl Client {
    /// Its misses against those of its like, of whose known queries this share are misses.
    fn misses(&self, usual: f64) -> Misses {
        let n = self.known as f64;
        let off = self.misses as f64 / n - usual;
        let deviation = (usual * (1.0 - usual) / n).sqrt();
        if self.known < KNOWN_MIN || off.abs() < APART || off.abs() < DEVIATIONS * deviation {
            Misses::Usual
        } else if off < 0.0 {
            Misses::Few
        } else {
            Misses::Many
        }
    }
}
