//! The clients of a profile, their addresses and ports, seeded.
//!
//! Client `n` of a class, from 1, sends as often as 1/n to the power of [`Class::zipf`] (0: all alike). The first
//! [`EXACT`] have their shares exactly; the others share those of ranges whose width is 1/32 of their rank, within
//! which each is as likely. In captures, clients are in 10.0.0.0/8 or fd53:c11e::/96, their numbers scattered over
//! the range, unless a file gives their addresses ([`Class::addresses`]); a client's port is random for each query (1024 to 65535), its own, or a stated one ([`Port`]).
//! IDs are uniform over all numbers.
//!
//! Senders have flows, each one address and port: see [`Sender::flow`].

use crate::addresses::Addresses;
use crate::random::{Keys, Table, threshold};
use crate::{CLIENTS_MAX, Error, Port, Profile, Query};
use measure::Seed;
use measure::seed::mix;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Clients with exact shares.
const EXACT: u64 = 64;

/// Draws clients. Their class is drawn here too, and nowhere else.
#[derive(Clone, Debug)]
pub struct Clients {
    keys: Keys,
    /// `None` where there is one.
    class: Option<Table<u16>>,
    classes: Vec<Crew>,
    /// `None` where all have random ports.
    ports: Option<Table<Port>>,
    /// Turns a client into the bits of what is its own.
    own: u64,
    /// Some send over TCP.
    tcp: bool,
}

/// The clients of a class.
#[derive(Clone, Debug)]
struct Crew {
    /// How many clients are of the classes before.
    before: u32,
    who: Who,
    ipv6: u64,
}

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "one a class, in the way of every query")]
enum Who {
    /// Ranges of ranks: the first of each and how many.
    Ranks(Table<(u32, u32)>),
    Addresses(Arc<Addresses>),
}

/// The sender of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Its class, as [`Profile::classes`] counts them.
    pub class: u16,
    /// The client, from 0: those of each class after those of the class before. Within a class of clients without a
    /// file of addresses: the lower, the more it sends.
    pub client: u32,
    /// It sends over IPv6.
    pub ipv6: bool,
    /// From this port.
    pub port: u16,
    /// It sends from this port always.
    pub one_port: bool,
    /// The ID of its query in a capture.
    pub id: u16,
}

impl Sender {
    /// The client where its queries belong on one flow (one address and port): `None` where its ports are random, as
    /// then any flow is as good.
    pub fn flow(&self) -> Option<u32> {
        self.one_port.then_some(self.client)
    }
}

impl Clients {
    /// The clients of a profile.
    ///
    /// # Errors
    /// A file of addresses that cannot be read, or with a bad line; more than [`CLIENTS_MAX`] clients.
    pub fn new(profile: &Profile, seed: Seed) -> Result<Self, Error> {
        let fixed = profile.ports.keys().any(|p| *p != Port::Random);
        let (mut classes, mut before) = (Vec::new(), 0u32);
        for class in &profile.classes {
            let (who, count) = match &class.addresses {
                Some(file) => {
                    let addresses = Addresses::open(file)?;
                    let count = addresses.len();
                    (Who::Addresses(Arc::new(addresses)), count)
                }
                None => {
                    let count = class.clients.clamp(1, CLIENTS_MAX);
                    (Who::Ranks(ranks(count, class.zipf)), count)
                }
            };
            classes.push(Crew { before, who, ipv6: threshold(class.ipv6) });
            before += count;
            if before > CLIENTS_MAX {
                return Err(Error::Spec(format!(
                    "the classes have more than {CLIENTS_MAX} clients together"
                )));
            }
        }
        let shares = || (0u16..).zip(&profile.classes).map(|(n, class)| (n, class.share));
        Ok(Self {
            keys: Keys::new(seed, "clients"),
            class: (classes.len() > 1).then(|| Table::new(shares())),
            classes,
            ports: fixed.then(|| Table::new(profile.ports.iter().map(|(&p, &w)| (p, w)))),
            own: seed.draw("ports", 0).bits(),
            tcp: profile.has_tcp(),
        })
    }

    /// The address and port of a query in a capture, and the ID that it has there. Over TCP ports are random: no
    /// system opens two connections from one.
    pub fn get(&mut self, query: &Query) -> (SocketAddr, u16) {
        let mut sender = self.sender(query.index);
        if query.tcp && sender.one_port {
            sender.port = random_port(mix(self.own ^ query.index));
        }
        (self.address(&sender), sender.id)
    }

    /// The sender of query `index`.
    pub fn sender(&mut self, index: u64) -> Sender {
        let mut draws = self.keys.draws(index);
        let (whose, how, other) = (draws.bits(), draws.bits(), draws.bits());
        let class = self.class.as_ref().map_or(0, |table| table.get((other >> 32) as u32));
        let crew = &self.classes[usize::from(class)];
        let (client, ipv6) = match &crew.who {
            Who::Ranks(ranks) => {
                let (first, width) = ranks.get(whose as u32);
                let rank = first + ((u64::from(width) * (whose >> 32)) >> 32) as u32;
                (rank, how & 0xffff_ffff < crew.ipv6)
            }
            Who::Addresses(addresses) => {
                let n = addresses.draw(whose);
                (n, addresses.get(n).is_ipv6())
            }
        };
        let client = crew.before + client;
        let own = mix(self.own ^ u64::from(client));
        let kind = self.ports.as_ref().map_or(Port::Random, |ports| ports.get(own as u32));
        Sender {
            class,
            client,
            ipv6,
            port: match kind {
                Port::Random => random_port(how),
                Port::Own => random_port(own),
                Port::Number(number) => number,
            },
            one_port: kind != Port::Random,
            id: other as u16,
        }
    }

    /// A sender's address and port in a capture.
    pub fn address(&self, sender: &Sender) -> SocketAddr {
        let crew = &self.classes[usize::from(sender.class)];
        let address = match &crew.who {
            Who::Addresses(addresses) => addresses.get(sender.client - crew.before),
            Who::Ranks(_) => {
                // An odd factor permutes the numbers below 2^24 and keeps zero, which no client has, where it is.
                let host = ((u64::from(sender.client) + 1) * 0x9e_3779) as u32 & CLIENTS_MAX;
                if sender.ipv6 {
                    IpAddr::V6(Ipv6Addr::from_bits(0xfd53_c11e << 96 | u128::from(host)))
                } else {
                    IpAddr::V4(Ipv4Addr::from_bits(10 << 24 | host))
                }
            }
        };
        SocketAddr::new(address, sender.port)
    }

    /// The families over which queries go are said.
    pub(crate) fn says_families(&self) -> bool {
        self.classes.iter().any(|crew| crew.ipv6 > 0 || matches!(crew.who, Who::Addresses(_)))
    }

    /// It matters to senders, and to the queries' bytes, who sends.
    pub(crate) fn matters(&self) -> bool {
        self.tcp || self.classes.len() > 1 || self.ports.is_some() || self.says_families()
    }
}

/// A port above those of services.
fn random_port(bits: u64) -> u16 {
    1024 + (((bits >> 32) * 64_512) >> 32) as u16
}

/// Clients that send about alike: how many, and the weight of all of them together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// How many.
    pub width: u32,
    /// How often they send, together.
    pub weight: f64,
}

/// The ranges of clients that are drawn from, from the one that sends most on.
pub fn ranges(count: u32, zipf: f64) -> impl Iterator<Item = Range> {
    let count = u64::from(count);
    let mut first = 1;
    std::iter::from_fn(move || {
        if first > count {
            return None;
        }
        let width = if first < EXACT { 1 } else { 1 << (first / 32).ilog2() };
        let width = width.min(count + 1 - first);
        let middle = first as f64 + (width - 1) as f64 / 2.0;
        // Rounded, so that another machine's last bit of a power makes no other client.
        let weight = (middle.powf(-zipf) * width as f64) as f32;
        first += width;
        Some(Range { width: width as u32, weight: weight.into() })
    })
}

/// Ranges of ranks with their weights.
fn ranks(count: u32, zipf: f64) -> Table<(u32, u32)> {
    let mut first = 0;
    Table::new(ranges(count, zipf).map(|range| {
        first += range.width;
        ((first - range.width, range.width), range.weight)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const COUNT: u64 = 200_000;

    /// How often each client sends.
    fn hits(profile: &Profile) -> HashMap<u32, u64> {
        let mut clients = Clients::new(profile, Seed(1)).unwrap();
        let mut hits = HashMap::new();
        (0..COUNT).for_each(|n| *hits.entry(clients.sender(n).client).or_default() += 1);
        hits
    }

    fn crowd(count: u32, zipf: f64) -> Profile {
        let mut profile = Profile::load("rzaia").unwrap();
        (profile.classes[0].clients, profile.classes[0].zipf) = (count, zipf);
        profile
    }

    /// Within six standard deviations of a share, and a rounding.
    fn near(count: u64, share: f64) -> bool {
        let n = COUNT as f64;
        (count as f64 - n * share).abs() <= 6.0 * (n * share * (1.0 - share)).sqrt() + 1.0
    }

    #[test]
    fn clients_send_by_the_law() {
        for (count, zipf) in [(10_000u32, 1.0), (10_000, 0.0), (1_000, 0.5), (50, 2.0), (100_000, 1.3)] {
            let hits = hits(&crowd(count, zipf));
            assert!(hits.keys().all(|&rank| rank < count));
            let sum: f64 = (1..=count).map(|n| f64::from(n).powf(-zipf)).sum();
            // Single ones, and ranges up to the last, which the steps of 1/32 must not show in.
            for n in [1u32, 2, 3, 10, 40] {
                let expected = f64::from(n).powf(-zipf) / sum;
                let got = hits.get(&(n - 1)).copied().unwrap_or(0);
                assert!(near(got, expected), "{count} {zipf}: client {n}: {got}, expected {expected}");
            }
            for (from, to) in [(1, count / 100), (count / 100 + 1, count / 7), (count / 7 + 1, count)] {
                let expected = (from..=to).map(|n| f64::from(n).powf(-zipf)).sum::<f64>() / sum;
                let got: u64 =
                    hits.iter().filter(|(r, _)| (from..=to).contains(&(*r + 1))).map(|h| h.1).sum();
                assert!(near(got, expected), "{count} {zipf}: {from} to {to}: {got}, expected {expected}");
            }
        }
    }

    #[test]
    fn addresses_are_the_clients_own() {
        let mut profile = crowd(10_000, 1.0);
        profile.classes[0].ipv6 = 0.25;
        let mut clients = Clients::new(&profile, Seed(1)).unwrap();
        let mut ranks: HashMap<IpAddr, u32> = HashMap::new();
        let mut v6 = 0;
        for index in 0..COUNT {
            let sender = clients.sender(index);
            let address = clients.address(&sender);
            assert!(address.port() >= 1024 && sender.flow().is_none());
            match address.ip() {
                IpAddr::V4(a) => assert_eq!((a.octets()[0], sender.ipv6), (10, false)),
                IpAddr::V6(a) => {
                    assert_eq!(a.segments()[..6], [0xfd53, 0xc11e, 0, 0, 0, 0]);
                    v6 += 1;
                }
            }
            assert_eq!(*ranks.entry(address.ip()).or_insert(sender.client), sender.client);
        }
        assert!(near(v6, 0.25), "{v6}");
    }

    #[test]
    fn ports_are_by_client() {
        let ports = [(Port::Random, 1.0), (Port::Own, 2.0), (Port::Number(53), 1.0)].into();
        let mut clients = Clients::new(&Profile { ports, ..crowd(4_000, 0.0) }, Seed(1)).unwrap();
        let mut seen: HashMap<u32, Vec<u16>> = HashMap::new();
        for index in 0..COUNT {
            let sender = clients.sender(index);
            assert_eq!(sender.flow().is_some(), sender.one_port);
            seen.entry(sender.client).or_default().push(sender.port);
        }
        let (mut own, mut fixed) = (0, 0);
        for ports in seen.values() {
            let one = ports.iter().all(|p| *p == ports[0]);
            assert!(one || ports.len() > 2);
            fixed += u32::from(one && ports[0] == 53);
            own += u32::from(one && ports[0] != 53);
        }
        assert!((850..1150).contains(&fixed) && (1800..2200).contains(&own), "{fixed} {own}");
    }
}
