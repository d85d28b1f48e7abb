//! Who sends: the clients of a profile, their addresses and ports, seeded.
//!
//! Client `n`, from 1, sends as often as 1/n to the power of [`Profile::zipf`] (0: all alike). The first
//! [`EXACT`] have their shares exactly; the others share those of ranges whose width is 1/32 of their rank, within
//! which each is as likely. In captures, clients are in 10.0.0.0/8 or fd53:c11e::/96, their numbers scattered over
//! the range; a client's port is random for each query (1024 to 65535), its own, or a stated one ([`Port`]).
//! IDs are uniform over all numbers.
//!
//! Senders have flows, each one address and port: see [`Sender::flow`].

use crate::Profile;
use crate::random::{Keys, Table, mix, threshold};
use measure::Seed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The most clients of a profile: those of 10.0.0.0/8 without its first address.
pub const CLIENTS_MAX: u32 = (1 << 24) - 1;

/// The greatest exponent: beyond, the first client sends all but a thousandth.
pub const ZIPF_MAX: f64 = 10.0;

/// Clients with exact shares.
const EXACT: u64 = 64;

/// From which port a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Port {
    /// A random one for each query (RFC 5452, section 9.2).
    Random,
    /// One of its own for all.
    Own,
    /// This one for all, such as 53.
    Number(u16),
}

/// Kinds of ports with their weights, by client; as text `random=7,own=2,53=1` (1 where no weight is given).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ports(pub BTreeMap<Port, f64>);

/// How many clients there are and how unlike they are; as text `COUNT` or `COUNT:EXPONENT`, such as `10K:0.9`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Crowd {
    /// How many, at most.
    pub count: u32,
    /// The exponent of [`Profile::zipf`]; `None` leaves the profile's.
    pub zipf: Option<f64>,
}

/// Draws clients.
#[derive(Clone, Debug)]
pub struct Clients {
    keys: Keys,
    /// Ranges of ranks: the first of each and how many.
    ranks: Table<(u32, u32)>,
    ipv6: u64,
    /// `None` where all have random ports.
    ports: Option<Table<Port>>,
    /// Turns a rank into the bits of what is a client's own.
    own: u64,
}

/// Who sends a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The client, from 0; the lower, the more it sends.
    pub rank: u32,
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
        self.one_port.then_some(self.rank)
    }

    /// Its address and port in a capture.
    pub fn address(&self) -> SocketAddr {
        // An odd factor permutes the numbers below 2^24 and keeps zero, which no client has, where it is.
        let host = ((u64::from(self.rank) + 1) * 0x9e_3779) as u32 & CLIENTS_MAX;
        let address = if self.ipv6 {
            IpAddr::V6(Ipv6Addr::from_bits(0xfd53_c11e << 96 | u128::from(host)))
        } else {
            IpAddr::V4(Ipv4Addr::from_bits(10 << 24 | host))
        };
        SocketAddr::new(address, self.port)
    }
}

impl Clients {
    /// The clients of a profile.
    pub fn new(profile: &Profile, seed: Seed) -> Self {
        let fixed = profile.ports.keys().any(|p| *p != Port::Random);
        Self {
            keys: Keys::new(seed, "clients"),
            ranks: ranks(profile.clients.clamp(1, CLIENTS_MAX), profile.zipf),
            ipv6: threshold(profile.ipv6),
            ports: fixed.then(|| Table::new(profile.ports.iter().map(|(&p, &w)| (p, w)))),
            own: seed.draw("ports", 0).bits(),
        }
    }

    /// The address and port of query `index` in a capture, and the ID that it has there.
    pub fn get(&mut self, index: u64) -> (SocketAddr, u16) {
        let sender = self.sender(index);
        (sender.address(), sender.id)
    }

    /// The sender of query `index`.
    pub fn sender(&mut self, index: u64) -> Sender {
        let mut draws = self.keys.draws(index);
        let bits = draws.bits();
        let (first, width) = self.ranks.get(bits as u32);
        let rank = first + ((u64::from(width) * (bits >> 32)) >> 32) as u32;
        let bits = draws.bits();
        let own = mix(self.own ^ u64::from(rank));
        let kind = self.ports.as_ref().map_or(Port::Random, |ports| ports.get(own as u32));
        let port = |bits: u64| 1024 + (((bits >> 32) * 64_512) >> 32) as u16;
        Sender {
            rank,
            ipv6: bits & 0xffff_ffff < self.ipv6,
            port: match kind {
                Port::Random => port(bits),
                Port::Own => port(own),
                Port::Number(number) => number,
            },
            one_port: kind != Port::Random,
            id: draws.bits() as u16,
        }
    }
}

/// Ranges of ranks with their weights.
fn ranks(count: u32, zipf: f64) -> Table<(u32, u32)> {
    let count = u64::from(count);
    let mut ranges = Vec::new();
    let mut first = 1;
    while first <= count {
        let width = if first < EXACT { 1 } else { 1 << (first / 32).ilog2() };
        let width = width.min(count + 1 - first);
        let middle = first as f64 + (width - 1) as f64 / 2.0;
        // Rounded, so that another machine's last bit of a power makes no other client.
        let weight = (middle.powf(-zipf) * width as f64) as f32;
        ranges.push((((first - 1) as u32, width as u32), f64::from(weight)));
        first += width;
    }
    Table::new(ranges)
}

impl FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "random" => Ok(Self::Random),
            "own" => Ok(Self::Own),
            _ => match text.parse() {
                Ok(number) if number > 0 => Ok(Self::Number(number)),
                _ => Err(format!("'{text}' is not random, own or a port's number")),
            },
        }
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Random => f.write_str("random"),
            Self::Own => f.write_str("own"),
            Self::Number(number) => number.fmt(f),
        }
    }
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        crate::changes::weighted(text, Port::from_str).map(Self)
    }
}

impl FromStr for Crowd {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (count, zipf) = text.split_once(':').map_or((text, None), |(count, zipf)| (count, Some(zipf)));
        let count = measure::units::count(count)?;
        if !(1..=u64::from(CLIENTS_MAX)).contains(&count) {
            return Err(format!("{count} clients: give 1 to {CLIENTS_MAX}"));
        }
        let zipf = zipf.map(|z| {
            let zipf = z.trim().parse().ok().filter(|zipf| (0.0..=ZIPF_MAX).contains(zipf));
            zipf.ok_or_else(|| {
                format!("'{z}' is no exponent: give a number from 0 (all alike) to {ZIPF_MAX}")
            })
        });
        Ok(Self { count: count as u32, zipf: zipf.transpose()? })
    }
}

impl TryFrom<String> for Ports {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Ports> for String {
    fn from(ports: Ports) -> Self {
        ports.0.iter().map(|(port, weight)| format!("{port}={weight}")).collect::<Vec<_>>().join(",")
    }
}

impl TryFrom<String> for Crowd {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Crowd> for String {
    fn from(crowd: Crowd) -> Self {
        crowd.zipf.map_or_else(|| crowd.count.to_string(), |zipf| format!("{}:{zipf}", crowd.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const COUNT: u64 = 200_000;

    /// How often each client sends.
    fn hits(profile: &Profile) -> HashMap<u32, u64> {
        let mut clients = Clients::new(profile, Seed(1));
        let mut hits = HashMap::new();
        (0..COUNT).for_each(|n| *hits.entry(clients.sender(n).rank).or_default() += 1);
        hits
    }

    fn crowd(count: u32, zipf: f64) -> Profile {
        Profile { clients: count, zipf, ..Profile::load("rzaia").unwrap() }
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
        let mut clients = Clients::new(&Profile { ipv6: 0.25, ..crowd(10_000, 1.0) }, Seed(1));
        let mut ranks: HashMap<IpAddr, u32> = HashMap::new();
        let mut v6 = 0;
        for index in 0..COUNT {
            let sender = clients.sender(index);
            let address = sender.address();
            assert!(address.port() >= 1024 && sender.flow().is_none());
            match address.ip() {
                IpAddr::V4(a) => assert_eq!((a.octets()[0], sender.ipv6), (10, false)),
                IpAddr::V6(a) => {
                    assert_eq!(a.segments()[..6], [0xfd53, 0xc11e, 0, 0, 0, 0]);
                    v6 += 1;
                }
            }
            assert_eq!(*ranks.entry(address.ip()).or_insert(sender.rank), sender.rank);
        }
        assert!(near(v6, 0.25), "{v6}");
    }

    #[test]
    fn ports_are_by_client() {
        let ports = [(Port::Random, 1.0), (Port::Own, 2.0), (Port::Number(53), 1.0)].into();
        let mut clients = Clients::new(&Profile { ports, ..crowd(4_000, 0.0) }, Seed(1));
        let mut seen: HashMap<u32, Vec<u16>> = HashMap::new();
        for index in 0..COUNT {
            let sender = clients.sender(index);
            assert_eq!(sender.flow().is_some(), sender.one_port);
            seen.entry(sender.rank).or_default().push(sender.port);
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

    #[test]
    fn texts_go_there_and_back() {
        for text in ["10000", "10000:0.9", "1:0"] {
            assert_eq!(String::from(text.parse::<Crowd>().unwrap()), text);
        }
        assert_eq!("10K:1".parse(), Ok(Crowd { count: 10_000, zipf: Some(1.0) }));
        for bad in ["", "0", "17M", "10:", "10:-1", "10:nan", "10:11", "x"] {
            assert!(bad.parse::<Crowd>().is_err(), "{bad}");
        }
        assert_eq!(String::from("53,own=2,random=0.5".parse::<Ports>().unwrap()), "random=0.5,own=2,53=1");
        for bad in ["", "0", "65536", "own=-1", "own,own", "any", "random=0"] {
            assert!(bad.parse::<Ports>().is_err(), "{bad}");
        }
    }
}
