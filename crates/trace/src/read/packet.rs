//! Headers of a packet, from its link to its transport: where things are, nothing copied.

use super::Skip;
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use wire::checksum::{fold, pseudo_header, sum};

/// Tags before the EtherType: QinQ has two.
const TAGS_MAX: usize = 4;
/// Extension headers of an IPv6 packet.
const EXTENSIONS_MAX: usize = 16;

pub(crate) const UDP: u8 = 17;
pub(crate) const TCP: u8 = 6;
pub(crate) const ICMP: u8 = 1;
pub(crate) const ICMPV6: u8 = 58;

/// An IP packet, or a fragment of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ip {
    pub from: IpAddr,
    pub to: IpAddr,
    /// The protocol of the payload: a number of IANA's.
    pub protocol: u8,
    /// "Don't fragment" (IPv4).
    pub df: bool,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Where the payload is in the packet, as far as it was captured.
    pub payload: Range<usize>,
    /// How long the payload was.
    pub length: usize,
    /// Octets of the IP header and its extensions.
    pub header: usize,
    pub fragment: Option<Fragment>,
    /// Of how many fragments it was put together; 1 of a packet that came whole.
    pub pieces: u64,
}

/// Which part of a packet a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub id: u32,
    /// In octets.
    pub offset: usize,
    /// It is not the last.
    pub more: bool,
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Where the IP header of a packet begins.
pub(crate) fn ip_at(link: u16, bytes: &[u8]) -> Result<usize, Skip> {
    let ether = |mut at: usize| {
        for _ in 0..=TAGS_MAX {
            match be16(bytes, at).ok_or(Skip::CutPacket)? {
                0x0800 | 0x86dd => return Ok(at + 2),
                // IEEE 802.1Q, 802.1ad, and what was in use before that.
                0x8100 | 0x88a8 | 0x9100 => at += 4,
                _ => return Err(Skip::NotIp),
            }
        }
        Err(Skip::NotIp)
    };
    match link {
        1 => ether(12),
        // Raw IP: LINKTYPE_RAW, what some systems call DLT_RAW, LINKTYPE_IPV4, LINKTYPE_IPV6.
        101 | 12 | 14 | 228 | 229 => Ok(0),
        // Linux cooked capture v1, v2.
        113 => ether(14),
        // The latter's header of 20 octets has the EtherType first; a tag's own follows the header.
        276 => match be16(bytes, 0).ok_or(Skip::CutPacket)? {
            0x0800 | 0x86dd => Ok(20),
            0x8100 | 0x88a8 | 0x9100 => ether(22),
            _ => Err(Skip::NotIp),
        },
        // BSD loopback: an address family in some byte order, all of which leave three octets zero.
        0 | 108 => match bytes.first_chunk::<4>().ok_or(Skip::CutPacket)? {
            [2 | 10 | 24 | 28 | 30, 0, 0, 0] | [0, 0, 0, 2 | 10 | 24 | 28 | 30] => Ok(4),
            _ => Err(Skip::NotIp),
        },
        _ => Err(Skip::Link),
    }
}

/// Reads the IP header at `at` and its extensions.
pub(crate) fn ip(bytes: &[u8], at: usize) -> Result<Ip, Skip> {
    match bytes.get(at).ok_or(Skip::CutPacket)? >> 4 {
        4 => ipv4(bytes, at),
        6 => ipv6(bytes, at),
        _ => Err(Skip::BadIp),
    }
}

fn ipv4(bytes: &[u8], at: usize) -> Result<Ip, Skip> {
    let header = bytes.get(at..at + 20).ok_or(Skip::CutPacket)?;
    let own = usize::from(header[0] & 15) * 4;
    let total = match usize::from(u16::from_be_bytes([header[2], header[3]])) {
        // Captured before the network card cut it to pieces: as long as it is.
        0 => bytes.len() - at,
        n => n,
    };
    if own < 20 || total < own {
        return Err(Skip::BadIp);
    }
    let flags = u16::from_be_bytes([header[6], header[7]]);
    let (more, offset) = (flags & 0x2000 != 0, usize::from(flags & 0x1fff) * 8);
    let id = u16::from_be_bytes([header[4], header[5]]);
    let octets = |at: usize| -> [u8; 4] { header[at..at + 4].try_into().expect("four octets") };
    Ok(Ip {
        from: Ipv4Addr::from(octets(12)).into(),
        to: Ipv4Addr::from(octets(16)).into(),
        protocol: header[9],
        df: flags & 0x4000 != 0,
        ttl: header[8],
        payload: (at + own).min(bytes.len())..(at + total).min(bytes.len()),
        length: total - own,
        header: own,
        fragment: (more || offset > 0).then_some(Fragment { id: id.into(), offset, more }),
        pieces: 1,
    })
}

fn ipv6(bytes: &[u8], at: usize) -> Result<Ip, Skip> {
    let header = bytes.get(at..at + 40).ok_or(Skip::CutPacket)?;
    let end = match usize::from(u16::from_be_bytes([header[4], header[5]])) {
        0 => bytes.len(),
        n => at + 40 + n,
    };
    let octets = |at: usize| -> [u8; 16] { header[at..at + 16].try_into().expect("sixteen octets") };
    let (start, mut next, mut at, mut fragment) = (at, header[6], at + 40, None);
    for _ in 0..EXTENSIONS_MAX {
        let length = match next {
            // Hop-by-hop options, routing, destination options, mobility, HIP, shim6 (RFC 8200, RFC 7045).
            0 | 43 | 60 | 135 | 139 | 140 => 8 + 8 * usize::from(*bytes.get(at + 1).ok_or(Skip::CutPacket)?),
            // Authentication (RFC 4302).
            51 => 8 + 4 * usize::from(*bytes.get(at + 1).ok_or(Skip::CutPacket)?),
            44 => {
                let flags = be16(bytes, at + 2).ok_or(Skip::CutPacket)?;
                let id = be32(bytes, at + 4).ok_or(Skip::CutPacket)?;
                let (offset, more) = (usize::from(flags & !7), flags & 1 != 0);
                // An atomic fragment is a whole packet (RFC 6946).
                fragment = (more || offset > 0).then_some(Fragment { id, offset, more });
                8
            }
            _ => break,
        };
        next = *bytes.get(at).ok_or(Skip::CutPacket)?;
        at += length;
        // The headers after the fragment header are in pieces.
        if fragment.is_some() {
            break;
        }
    }
    if at > end {
        return Err(Skip::BadIp);
    }
    Ok(Ip {
        from: Ipv6Addr::from(octets(8)).into(),
        to: Ipv6Addr::from(octets(24)).into(),
        protocol: next,
        df: false,
        ttl: header[7],
        payload: at.min(bytes.len())..end.min(bytes.len()),
        length: end - at,
        header: at - start,
        fragment,
        pieces: 1,
    })
}

/// The state of a UDP checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChecksumState {
    /// It matches.
    Right,
    /// Zero: none was computed (RFC 768).
    Absent,
    /// It does not match.
    Bad,
    /// It is the sum of the pseudo-header alone: the capture was made where the packet was sent, before the network card
    /// completed it. The checksum on the wire is not known.
    Offloaded,
    /// It is not known: the capture cut the packet short, or it is not of UDP.
    Unknown,
}

impl ChecksumState {
    /// Of the field in a datagram that is `whole` from its UDP header on.
    fn of(ip: &Ip, field: u16, whole: Option<&[u8]>) -> Self {
        if field == 0 {
            return Self::Absent;
        }
        let Some(whole) = whole else { return Self::Unknown };
        let pseudo = pseudo_header(ip.from, ip.to, UDP, whole.len());
        match fold(pseudo + sum(whole)) {
            0xffff => Self::Right,
            _ if field == fold(pseudo) => Self::Offloaded,
            _ => Self::Bad,
        }
    }
}

/// A datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Udp {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub checksum: ChecksumState,
    /// Where the payload is, as far as it was captured.
    pub payload: Range<usize>,
    /// How long it was.
    pub length: usize,
}

/// Reads the UDP header of a whole packet (RFC 768).
pub(crate) fn udp(bytes: &[u8], ip: &Ip) -> Result<Udp, Skip> {
    let at = ip.payload.start;
    let header = bytes[..ip.payload.end].get(at..at + 8);
    let header = header.ok_or(if ip.length < 8 { Skip::BadUdp } else { Skip::CutPacket })?;
    let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let length = match usize::from(field(4)) {
        // Captured before the network card cut it to pieces.
        0 => ip.length,
        n => n,
    };
    if length < 8 || length > ip.length {
        return Err(Skip::BadUdp);
    }
    // The checksum covers the length that the header states.
    let whole = bytes.get(at..at + length).filter(|_| ip.payload.len() >= length);
    Ok(Udp {
        from: SocketAddr::new(ip.from, field(0)),
        to: SocketAddr::new(ip.to, field(2)),
        checksum: ChecksumState::of(ip, field(6), whole),
        payload: at + 8..(at + length).min(ip.payload.end),
        length: length - 8,
    })
}

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tcp {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub seq: u32,
    pub ack: Option<u32>,
    pub syn: bool,
    pub fin: bool,
    pub rst: bool,
    /// Where the data are, as far as they were captured.
    pub data: Range<usize>,
    /// How long they were.
    pub length: usize,
}

/// Reads the TCP header of a whole packet (RFC 9293, section 3.1).
pub(crate) fn tcp(bytes: &[u8], ip: &Ip) -> Result<Tcp, Skip> {
    let at = ip.payload.start;
    let header = bytes[..ip.payload.end].get(at..at + 20);
    let header = header.ok_or(if ip.length < 20 { Skip::BadTcp } else { Skip::CutPacket })?;
    let own = usize::from(header[12] >> 4) * 4;
    if own < 20 || own > ip.length {
        return Err(Skip::BadTcp);
    }
    let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let number = |at: usize| be32(header, at).expect("within twenty octets");
    let flag = |bit: u8| header[13] & bit != 0;
    Ok(Tcp {
        from: SocketAddr::new(ip.from, port(0)),
        to: SocketAddr::new(ip.to, port(2)),
        seq: number(4),
        ack: flag(0x10).then(|| number(8)),
        syn: flag(0x02),
        fin: flag(0x01),
        rst: flag(0x04),
        data: (at + own).min(ip.payload.end)..ip.payload.end,
        length: ip.length - own,
    })
}

/// An ICMP error that quotes a packet, as far as it is about a server's port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IcmpError {
    pub kind: u8,
    pub code: u8,
    pub quoted: Ip,
    pub ports: (u16, u16),
    /// Where the quoted DNS message is, as far as it was quoted; empty over TCP.
    pub message: Range<usize>,
}

/// Reads an ICMP error (RFC 792, RFC 4443) and the packet that it quotes; `None` where it is no error, or quotes
/// something else than UDP and TCP.
pub(crate) fn icmp_error(bytes: &[u8], ip: &Ip) -> Option<IcmpError> {
    let at = ip.payload.start;
    let body = bytes.get(..ip.payload.end)?;
    let (&kind, &code) = (body.get(at)?, body.get(at + 1)?);
    let is_error =
        if ip.protocol == ICMP { matches!(kind, 3..=5 | 11 | 12) } else { (1..=4).contains(&kind) };
    if !is_error {
        return None;
    }
    let quoted = self::ip(body, at + 8).ok()?;
    let ports = body.get(quoted.payload.clone())?;
    let ports = (be16(ports, 0)?, be16(ports, 2)?);
    let message = match quoted.protocol {
        UDP => (quoted.payload.start + 8).min(quoted.payload.end)..quoted.payload.end,
        TCP => quoted.payload.end..quoted.payload.end,
        _ => return None,
    };
    // Of a later fragment there are no ports.
    quoted.fragment.is_none_or(|f| f.offset == 0).then_some(IcmpError { kind, code, quoted, ports, message })
}
