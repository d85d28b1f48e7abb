//! Ethernet, IP and UDP headers, written from templates and read in place.

use crate::route::Mac;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wire::Checksum;
use wire::checksum::{fold, pseudo_header, sum};

pub(super) const ETHERNET: usize = 14;
pub(super) const IPV4: usize = 20;
pub(super) const IPV6: usize = 40;
pub(super) const UDP: usize = 8;
/// The most that a template has: Ethernet, IPv6, UDP.
const LONGEST: usize = ETHERNET + IPV6 + UDP;

const UDP_PROTOCOL: u8 = 17;
const HOP_LIMIT: u8 = 64;

/// The headers of all packets from one address to one target.
#[derive(Clone, Debug)]
pub(super) struct Template {
    bytes: [u8; LONGEST],
    len: usize,
    pub source: IpAddr,
    pub target: SocketAddr,
    /// Sums of what does not change: of the IPv4 header, of the UDP pseudo-header and the target port.
    ip_sum: u32,
    udp_sum: u32,
}

impl Template {
    pub fn new(from: Mac, to: Mac, source: IpAddr, target: SocketAddr) -> Self {
        let mut bytes = [0; LONGEST];
        bytes[..6].copy_from_slice(&to);
        bytes[6..12].copy_from_slice(&from);
        let (kind, len) = match (source, target.ip()) {
            (IpAddr::V4(s), IpAddr::V4(t)) => {
                let ip = &mut bytes[ETHERNET..];
                (ip[0], ip[8], ip[9]) = (0x45, HOP_LIMIT, UDP_PROTOCOL);
                ip[12..16].copy_from_slice(&s.octets());
                ip[16..20].copy_from_slice(&t.octets());
                ([0x08, 0x00], ETHERNET + IPV4 + UDP)
            }
            (IpAddr::V6(s), IpAddr::V6(t)) => {
                let ip = &mut bytes[ETHERNET..];
                (ip[0], ip[6], ip[7]) = (0x60, UDP_PROTOCOL, HOP_LIMIT);
                ip[8..24].copy_from_slice(&s.octets());
                ip[24..40].copy_from_slice(&t.octets());
                ([0x86, 0xdd], LONGEST)
            }
            _ => unreachable!("flows are of one family"),
        };
        bytes[12..14].copy_from_slice(&kind);
        bytes[len - 6..len - 4].copy_from_slice(&target.port().to_be_bytes());
        let ip_sum = if source.is_ipv4() { fold(sum(&bytes[ETHERNET..ETHERNET + IPV4])) } else { 0 };
        let udp_sum = fold(pseudo_header(source, target.ip(), UDP_PROTOCOL, 0) + u64::from(target.port()));
        Self { bytes, len, source, target, ip_sum: ip_sum.into(), udp_sum: udp_sum.into() }
    }

    /// Octets before the payload.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Writes a packet into `to`, which must have room for it: how long it is. `number` becomes the IPv4
    /// identification. An IPv6 packet without checksum would be thrown away (RFC 8200, 8.1): it gets the right one.
    pub fn write(
        &self,
        to: &mut [u8],
        port: u16,
        number: u16,
        payload: &[u8],
        df: bool,
        checksum: Checksum,
    ) -> usize {
        let total = self.len + payload.len();
        let to = &mut to[..total];
        let (head, body) = to.split_at_mut(self.len);
        body.copy_from_slice(payload);
        let udp_len = (UDP + payload.len()) as u16;
        let v4 = self.len == ETHERNET + IPV4 + UDP;
        if v4 {
            const LEN: usize = ETHERNET + IPV4 + UDP;
            head.copy_from_slice(&self.bytes[..LEN]);
            let ip = &mut head[ETHERNET..];
            let (len, flags) = (IPV4 as u16 + udp_len, if df { 0x4000u16 } else { 0 });
            ip[2..4].copy_from_slice(&len.to_be_bytes());
            ip[4..6].copy_from_slice(&number.to_be_bytes());
            ip[6..8].copy_from_slice(&flags.to_be_bytes());
            let sum: u64 = [len, number, flags].map(u64::from).iter().sum();
            ip[10..12].copy_from_slice(&(!fold(sum + u64::from(self.ip_sum))).to_be_bytes());
        } else {
            head.copy_from_slice(&self.bytes);
            head[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&udp_len.to_be_bytes());
        }
        let udp = &mut head[self.len - UDP..];
        udp[..2].copy_from_slice(&port.to_be_bytes());
        udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
        if checksum == Checksum::Absent && v4 {
            return total;
        }
        // The length is there twice: in the header and in the pseudo-header.
        let mut value =
            !fold(u64::from(port) + 2 * u64::from(udp_len) + u64::from(self.udp_sum) + sum(payload));
        if value == 0 {
            value = 0xffff; // zero says that there is none (RFC 768)
        }
        if checksum == Checksum::Bad {
            value = if value == 0x5555 { 0x1234 } else { value ^ 0x5555 };
        }
        udp[6..8].copy_from_slice(&value.to_be_bytes());
        total
    }
}

/// A received UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Datagram<'a> {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub payload: &'a [u8],
    /// The payload's length as the UDP header has it.
    pub len: usize,
}

/// Reads an Ethernet frame that holds a whole UDP datagram over IPv4 without options or IPv6 without extension
/// headers. Checksums are not looked at: between virtual interfaces they are left to be computed by hardware that
/// is not there.
pub(super) fn parse(frame: &[u8]) -> Option<Datagram<'_>> {
    let (ethernet, packet) = frame.split_first_chunk::<ETHERNET>()?;
    let (source, target, rest): (IpAddr, IpAddr, _) = match [ethernet[12], ethernet[13]] {
        [0x08, 0x00] => {
            let (ip, rest) = packet.split_first_chunk::<IPV4>()?;
            let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff;
            if ip[0] != 0x45 || ip[9] != UDP_PROTOCOL || fragment != 0 {
                return None;
            }
            let (s, t) = (ip[12..16].first_chunk::<4>()?, ip[16..20].first_chunk::<4>()?);
            (Ipv4Addr::from(*s).into(), Ipv4Addr::from(*t).into(), rest)
        }
        [0x86, 0xdd] => {
            let (ip, rest) = packet.split_first_chunk::<IPV6>()?;
            if ip[0] >> 4 != 6 || ip[6] != UDP_PROTOCOL {
                return None;
            }
            let (s, t) = (ip[8..24].first_chunk::<16>()?, ip[24..40].first_chunk::<16>()?);
            (Ipv6Addr::from(*s).into(), Ipv6Addr::from(*t).into(), rest)
        }
        _ => return None,
    };
    let (udp, rest) = rest.split_first_chunk::<UDP>()?;
    let word = |at: usize| u16::from_be_bytes([udp[at], udp[at + 1]]);
    let len = usize::from(word(4)).checked_sub(UDP)?;
    let payload = rest.get(..len)?;
    let (from, to) = (SocketAddr::new(source, word(0)), SocketAddr::new(target, word(2)));
    Some(Datagram { from, to, payload, len })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACS: (Mac, Mac) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);

    /// The plain rule of RFC 1071, octet pair by octet pair.
    fn plain(parts: &[&[u8]]) -> u16 {
        let all = parts.concat();
        let words = all.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        sum as u16
    }

    fn template(source: &str, target: &str) -> Template {
        Template::new(MACS.0, MACS.1, source.parse().unwrap(), target.parse().unwrap())
    }

    fn pseudo(packet: &[u8], v6: bool) -> u16 {
        let at = if v6 { ETHERNET + IPV6 } else { ETHERNET + IPV4 };
        let addresses = if v6 { ETHERNET + 8..ETHERNET + 40 } else { ETHERNET + 12..ETHERNET + 20 };
        let len = ((packet.len() - at) as u16).to_be_bytes();
        plain(&[&packet[addresses], &[0, 17], &len, &packet[at..]])
    }

    #[test]
    fn checksums_hold_for_every_length_and_are_wrong_on_wish() {
        for (source, target, v6) in [
            ("10.53.0.2", "10.53.0.1:53", false),
            ("255.255.255.255", "255.255.255.254:65535", false),
            ("fd53::2", "[fd53::1]:53", true),
            ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "[fd53::1]:5353", true),
        ] {
            let t = template(source, target);
            let mut room = [0xaa; 2048];
            for len in 0..300usize {
                let payload: Vec<u8> =
                    (0..len).map(|i| (i * 7 + len * 13) as u8 | (len as u8 & 0xf0)).collect();
                let df = len % 2 == 0;
                let n =
                    t.write(&mut room, 20_000 + len as u16, len as u16 * 211, &payload, df, Checksum::Right);
                let packet = &room[..n];
                assert_eq!(pseudo(packet, v6), 0xffff, "{source} {len}");
                if !v6 {
                    assert_eq!(plain(&[&packet[ETHERNET..ETHERNET + IPV4]]), 0xffff);
                    assert_eq!(packet[ETHERNET + 6], if df { 0x40 } else { 0 });
                }
                let d = parse(packet).unwrap();
                assert_eq!((d.from.ip(), d.from.port()), (source.parse().unwrap(), 20_000 + len as u16));
                assert_eq!((d.to, d.payload, d.len), (target.parse().unwrap(), &payload[..], len));
                let n = t.write(&mut room, 20_000 + len as u16, 1, &payload, df, Checksum::Bad);
                let at = t.len() - 2;
                assert_ne!(pseudo(&room[..n], v6), 0xffff);
                assert_ne!(&room[at..at + 2], &[0, 0]);
                let n = t.write(&mut room, 20_000, 1, &payload, df, Checksum::Absent);
                assert_eq!(&room[at..at + 2] == [0, 0].as_slice(), !v6);
                assert!(!v6 || pseudo(&room[..n], v6) == 0xffff);
            }
        }
    }

    #[test]
    fn a_checksum_of_zero_is_sent_as_ones() {
        let t = template("10.53.0.2", "10.53.0.1:53");
        let mut room = [0; 64];
        let seen = (0..=u16::MAX).any(|w| {
            t.write(&mut room, 20_000, 0, &w.to_be_bytes(), false, Checksum::Right);
            assert_ne!(room[40..42], [0, 0]);
            room[40..42] == [0xff, 0xff]
        });
        assert!(seen, "one of all words makes the sum vanish");
    }

    #[test]
    fn what_is_no_whole_datagram_is_not_read() {
        let t = template("10.53.0.2", "10.53.0.1:53");
        let mut room = [0; 100];
        let n = t.write(&mut room, 20_000, 0, b"question", false, Checksum::Right);
        assert!(parse(&room[..n]).is_some() && parse(&room).is_some(), "padding of short frames is no harm");
        (0..n).for_each(|cut| assert!(parse(&room[..cut]).is_none(), "{cut}"));
        for (at, value) in [(12, 0x86), (14, 0x46), (20, 0x20), (21, 1), (23, 6), (39, 7), (39, 200)] {
            let mut broken = room;
            broken[at] = value;
            assert!(parse(&broken[..n]).is_none(), "octet {at} = {value}");
        }
    }
}
