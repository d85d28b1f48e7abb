//! The way to a target, asked of the kernel over netlink: interface, next hop, their hardware addresses, and the
//! source address that the kernel would choose. For packets that we write ourselves, which no routing helps.
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourFlags, NeighbourMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType, RouteVia};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// How packets get to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The interface's number.
    pub index: u32,
    /// The interface's name.
    pub interface: String,
    /// Its largest packet in octets, without the Ethernet header.
    pub mtu: u32,
    /// Its own address.
    pub mac: Mac,
    /// The router, or the target where it is on link.
    pub next_hop: IpAddr,
    /// The next hop's address.
    pub next_mac: Mac,
    /// The route's preferred source address.
    pub source: IpAddr,
}

/// Why there is no way to a target.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has none.
    #[error("no route to {0}: {1}")]
    NoRoute(IpAddr, io::Error),
    /// The target is this machine itself.
    #[error("{0} is an address of this host, reached over loopback, where there are no Ethernet packets")]
    Loopback(IpAddr),
    /// The interface has no Ethernet addresses.
    #[error("interface {0} is no Ethernet interface")]
    NotEthernet(String),
    /// The next hop does not answer ARP or neighbour solicitation.
    #[error("{next_hop} does not answer on {interface}: its hardware address is not known after {waited:?}")]
    Neighbour {
        /// The destination of the request.
        next_hop: IpAddr,
        /// On which interface.
        interface: String,
        /// For how long.
        waited: Duration,
    },
    /// Netlink did not work.
    #[error("{doing}: {source}")]
    System {
        /// The request that failed.
        doing: &'static str,
        /// Its error.
        source: io::Error,
    },
}

/// How long a next hop may take to tell its hardware address.
const PATIENCE: Duration = Duration::from_secs(3);

/// The states of a neighbour in which its address can be used: reachable, stale, delay, probe, no ARP, permanent (linux/neighbour.h).
const NUD_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;

/// Asks for the way to `target`; where the next hop's hardware address is not yet known, asks for that too and waits
/// for it (at most 3 seconds).
///
/// # Errors
/// As [`Error`] says.
pub fn path_to(target: IpAddr) -> Result<Path, Error> {
    let mut netlink = Netlink::open().map_err(|source| Error::System { doing: "open netlink", source })?;
    let mut question = RouteMessage::default();
    question.header.address_family = AddressFamily::from(target);
    question.header.destination_prefix_length = if target.is_ipv4() { 32 } else { 128 };
    question.attributes.push(RouteAttribute::Destination(target.into()));
    let reply =
        netlink.ask(RouteNetlinkMessage::GetRoute(question), 0).map_err(|e| Error::NoRoute(target, e))?;
    let bad = |doing| Error::System { doing, source: io::ErrorKind::InvalidData.into() };
    let Some(RouteNetlinkMessage::NewRoute(route)) = reply else { return Err(bad("read a route")) };
    if route.header.kind == RouteType::Local {
        return Err(Error::Loopback(target));
    }
    let (mut index, mut next_hop, mut source) = (None, target, None);
    for attribute in route.attributes {
        match attribute {
            RouteAttribute::Oif(interface) => index = Some(interface),
            RouteAttribute::Gateway(gateway) => next_hop = address(gateway).unwrap_or(next_hop),
            RouteAttribute::Via(RouteVia::Inet(gateway)) => next_hop = gateway.into(),
            RouteAttribute::Via(RouteVia::Inet6(gateway)) => next_hop = gateway.into(),
            RouteAttribute::PrefSource(preferred) => source = address(preferred),
            _ => (),
        }
    }
    let index = index.ok_or_else(|| bad("read a route's interface"))?;
    let source = source.ok_or_else(|| bad("read a route's source address"))?;

    let mut question = LinkMessage::default();
    question.header.index = index;
    let reply = netlink
        .ask(RouteNetlinkMessage::GetLink(question), 0)
        .map_err(|source| Error::System { doing: "ask for an interface", source })?;
    let Some(RouteNetlinkMessage::NewLink(link)) = reply else { return Err(bad("read an interface")) };
    let (mut mac, mut interface, mut mtu) = (None, String::new(), 0);
    for attribute in link.attributes {
        match attribute {
            LinkAttribute::Address(octets) => mac = Mac::try_from(octets).ok(),
            LinkAttribute::IfName(name) => interface = name,
            LinkAttribute::Mtu(octets) => mtu = octets,
            _ => (),
        }
    }
    let Some(mac) = mac else { return Err(Error::NotEthernet(interface)) };
    let begun = Instant::now();
    let mut asked = false;
    let next_mac = loop {
        match netlink.neighbour(index, next_hop) {
            Ok(Some(mac)) => break mac,
            Ok(None) => (),
            Err(source) => return Err(Error::System { doing: "ask for a neighbour", source }),
        }
        if !asked {
            asked = true;
            netlink
                .resolve(index, next_hop)
                .map_err(|source| Error::System { doing: "have a neighbour resolved", source })?;
        }
        let waited = begun.elapsed();
        if waited > PATIENCE {
            return Err(Error::Neighbour { next_hop, interface, waited });
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    Ok(Path { index, interface, mtu, mac, next_hop, next_mac, source })
}

fn address(address: RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some(ip.into()),
        RouteAddress::Inet6(ip) => Some(ip.into()),
        _ => None,
    }
}

struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    fn open() -> io::Result<Self> {
        let socket = Socket::new(NETLINK_ROUTE)?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends one request and returns the one answer to it; none where that is a bare acknowledgement.
    fn ask(&mut self, question: RouteNetlinkMessage, flags: u16) -> io::Result<Option<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(question));
        message.finalize();
        let mut octets = vec![0; message.buffer_len()];
        message.serialize(&mut octets);
        self.socket.send(&octets, 0)?;
        let (reply, _) = self.socket.recv_from_full()?;
        let wrong = |e| io::Error::new(io::ErrorKind::InvalidData, e);
        match NetlinkMessage::<RouteNetlinkMessage>::deserialize(&reply).map_err(wrong)?.payload {
            NetlinkPayload::InnerMessage(answer) => Ok(Some(answer)),
            NetlinkPayload::Error(error) if error.raw_code() != 0 => Err(error.to_io()),
            _ => Ok(None),
        }
    }

    /// The hardware address of a neighbour, if the kernel knows one that can be used.
    fn neighbour(&mut self, index: u32, ip: IpAddr) -> io::Result<Option<Mac>> {
        let question = RouteNetlinkMessage::GetNeighbour(neighbour(index, ip));
        let reply = match self.ask(question, 0) {
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            other => other?,
        };
        let Some(RouteNetlinkMessage::NewNeighbour(found)) = reply else { return Ok(None) };
        if u16::from(found.header.state) & NUD_VALID == 0 {
            return Ok(None);
        }
        Ok(found.attributes.into_iter().find_map(|attribute| match attribute {
            NeighbourAttribute::LinkLayerAddress(octets) => Mac::try_from(octets).ok(),
            _ => None,
        }))
    }

    /// Has the kernel send ARP requests or neighbour solicitations.
    fn resolve(&mut self, index: u32, ip: IpAddr) -> io::Result<()> {
        let mut question = neighbour(index, ip);
        question.header.flags = NeighbourFlags::Use;
        self.ask(RouteNetlinkMessage::NewNeighbour(question), NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE)
            .map(drop)
    }
}

fn neighbour(index: u32, ip: IpAddr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::from(ip);
    message.header.ifindex = index;
    message.attributes.push(NeighbourAttribute::Destination(ip.into()));
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_reached_over_loopback() {
        assert!(matches!(path_to("127.0.0.1".parse().unwrap()), Err(Error::Loopback(_))));
    }
}
