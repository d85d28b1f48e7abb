//! Which end of a packet is the client's.

use crate::read::packet::{self, ICMP, ICMPV6, Ip, TCP, UDP};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use wire::header::Header;

/// Servers' addresses, and first fragments, that are remembered.
const SERVERS_MAX: usize = 65_536;
const FRAGMENTS_MAX: usize = 4096;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    FromClient,
    FromServer,
}

impl Direction {
    pub fn back(self) -> Self {
        match self {
            Self::FromClient => Self::FromServer,
            Self::FromServer => Self::FromClient,
        }
    }
}

/// The addresses and ports of a packet, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub way: Direction,
    pub client: IpAddr,
    /// The sender is neither the client nor the server: an ICMP error of a router.
    pub router: bool,
}

/// Tells the ends of packets.
pub(super) struct Finder {
    ports: Vec<u16>,
    servers: HashSet<IpAddr>,
    /// The last one that was added: most captures have one.
    last: Option<IpAddr>,
    first_fragments: HashMap<(IpAddr, IpAddr, u32), Ends>,
}

/// The ports of UDP and TCP, where they are in this piece.
pub(super) fn ports(bytes: &[u8], ip: &Ip) -> Option<(u16, u16)> {
    if !matches!(ip.protocol, UDP | TCP) || ip.fragment.is_some_and(|f| f.offset > 0) {
        return None;
    }
    let four: &[u8; 4] = bytes.get(ip.payload.clone())?.first_chunk()?;
    Some((u16::from_be_bytes([four[0], four[1]]), u16::from_be_bytes([four[2], four[3]])))
}

impl Finder {
    pub fn new(ports: &[u16]) -> Self {
        let (servers, first_fragments) = (HashSet::new(), HashMap::new());
        Self { ports: ports.to_vec(), servers, last: None, first_fragments }
    }

    pub fn is_server(&self, port: u16) -> bool {
        self.ports.contains(&port)
    }

    /// The ends of a packet; none where nothing tells.
    pub fn find(&mut self, bytes: &[u8], ip: &Ip) -> Option<Ends> {
        let Some(fragment) = ip.fragment else { return self.whole(bytes, ip) };
        let key = (ip.from, ip.to, fragment.id);
        if fragment.offset > 0 {
            return self.first_fragments.get(&key).copied().or_else(|| self.by_address(ip));
        }
        let ends = self.whole(bytes, ip)?;
        if self.first_fragments.len() == FRAGMENTS_MAX {
            self.first_fragments.clear();
        }
        self.first_fragments.insert(key, ends);
        Some(ends)
    }

    /// Of a packet that is whole, or a first fragment.
    fn whole(&mut self, bytes: &[u8], ip: &Ip) -> Option<Ends> {
        if is_error(bytes, ip) {
            let quoted = quoted(bytes, ip)?;
            // Back to where the packet came from that it quotes; of the ends that packet tells.
            let ends = match quoted.protocol {
                ICMP | ICMPV6 => self.by_address(&quoted),
                _ => self.whole(bytes, &quoted),
            }?;
            return Some(Ends { way: ends.way.back(), router: ip.from != quoted.to, ..ends });
        }
        let Some((from, to)) = ports(bytes, ip) else { return self.by_address(ip) };
        let way = match (self.is_server(from), self.is_server(to)) {
            (false, true) => Direction::FromClient,
            (true, false) => Direction::FromServer,
            (true, true) => match between_servers(bytes, ip) {
                Some(way) => way,
                None => return self.by_address(ip),
            },
            (false, false) => return self.by_address(ip),
        };
        let (client, server) = if way == Direction::FromClient { (ip.from, ip.to) } else { (ip.to, ip.from) };
        if self.last != Some(server) {
            self.last = Some(server);
            if self.servers.len() < SERVERS_MAX {
                self.servers.insert(server);
            }
        }
        Some(Ends { way, client, router: false })
    }

    /// By who was a server before.
    fn by_address(&self, ip: &Ip) -> Option<Ends> {
        let [from, to] = [ip.from, ip.to].map(|address| self.servers.contains(&address));
        match (from, to) {
            (false, true) => Some(Ends { way: Direction::FromClient, client: ip.from, router: false }),
            (true, false) => Some(Ends { way: Direction::FromServer, client: ip.to, router: false }),
            _ => None,
        }
    }
}

/// An ICMP packet is an error, which quotes another packet (RFC 792, RFC 4443).
pub(super) fn is_error(bytes: &[u8], ip: &Ip) -> bool {
    let first = ip.fragment.is_none_or(|f| f.offset == 0);
    let Some(&kind) = bytes.get(ip.payload.clone()).and_then(|body| body.first()).filter(|_| first) else {
        return false;
    };
    match ip.protocol {
        ICMP => matches!(kind, 3..=5 | 11 | 12),
        ICMPV6 => (1..=4).contains(&kind),
        _ => false,
    }
}

/// The packet that an ICMP error quotes; none where it cannot be read.
pub(super) fn quoted(bytes: &[u8], ip: &Ip) -> Option<Ip> {
    packet::ip(bytes.get(..ip.payload.end)?, ip.payload.start + 8).ok()
}

/// Between two servers' ports: queries tell by QR, connections by SYN.
fn between_servers(bytes: &[u8], ip: &Ip) -> Option<Direction> {
    let payload = bytes.get(ip.payload.clone())?;
    if ip.protocol == UDP {
        let header = Header::new(payload.get(8..)?)?;
        return Some(if header.qr() { Direction::FromServer } else { Direction::FromClient });
    }
    match payload.get(13)? & 0x12 {
        0x02 => Some(Direction::FromClient),
        0x12 => Some(Direction::FromServer),
        _ => None,
    }
}
