//! Addresses that are not in the header: in options, in DNS messages (RFC 7871), in what ICMP errors quote.

use super::dropped::Drop;
use super::ends;
use crate::anonymize::{Anonymizer, Key};
use crate::read::packet::{ICMP, ICMPV6, Ip, TCP, UDP};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use wire::header::{Header, LEN};
use wire::opt;

/// Pieces of messages whose ends are remembered.
const TAILS_MAX: usize = 4096;
/// EDNS option: the client's subnet (RFC 7871).
const SUBNET: u16 = 8;
/// The longest such option with its code and length, without its last octet.
const TAIL: usize = 4 + 4 + 16 - 1;

/// The options of an IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// They give a route: the sum of the transport is not over the addresses in the header.
    pub routed: bool,
    /// There are some that may have addresses.
    pub strange: bool,
}

/// Looks at the options of IPv4 and the extension headers of IPv6; `packet` is from its IP header on, which was at `at`
/// where `ip` was read.
pub(super) fn options(packet: &[u8], ip: &Ip, at: usize) -> Options {
    let end = ip.payload.start - at;
    let mut found = Options::default();
    if ip.from.is_ipv4() {
        let mut at = 20;
        while at < end {
            let length = match packet[at] {
                0 => break,
                1 => 1,
                kind => {
                    found.routed |= matches!(kind, 131 | 137);
                    // Router alert (RFC 2113) has none; record route and timestamp have.
                    found.strange |= kind != 148;
                    packet.get(at + 1).map_or(end, |&length| usize::from(length).max(2))
                }
            };
            at += length;
        }
        return found;
    }
    let (mut next, mut at) = (packet[6], 40);
    while at < end {
        let Some(&[after, length]) = packet.get(at..).and_then(|p| p.first_chunk()) else { break };
        let (kind, begin) = (next, at);
        next = after;
        at += match kind {
            44 => 8,
            51 => 8 + 4 * usize::from(length),
            _ => 8 + 8 * usize::from(length),
        };
        match kind {
            44 | 51 => {}
            // Hop-by-hop and destination options: padding, router alert, jumbo and timing have no addresses.
            0 | 60 => {
                let mut option = begin + 2;
                while option < at.min(end) {
                    let kind = packet[option];
                    found.strange |= !matches!(kind, 0 | 1 | 5 | 0xc2 | 0x0f);
                    let length = packet.get(option + 1).map_or(0, |&length| usize::from(length));
                    option += if kind == 0 { 1 } else { 2 + length };
                }
            }
            43 => found.routed = true,
            _ => found.strange = true,
        }
    }
    found
}

/// Which piece comes next: of a datagram, from an octet on; of a connection, from a sequence number on.
type Next = (IpAddr, IpAddr, u32, u32);

/// Anonymises what packets carry.
pub(super) struct Scrubber {
    pub anonymizer: Anonymizer,
    ports: Vec<u16>,
    /// The last octets of pieces, by what comes after them: an option may lie across.
    tails: HashMap<Next, ([u8; TAIL], usize)>,
    scratch: Vec<u8>,
    /// Client subnets that were anonymised.
    pub subnets: u64,
}

impl Scrubber {
    pub fn new(key: &Key, ports: &[u16]) -> Self {
        Self {
            anonymizer: Anonymizer::new(key),
            ports: ports.to_vec(),
            tails: HashMap::new(),
            scratch: Vec::new(),
            subnets: 0,
        }
    }

    fn is_dns(&self, (from, to): (u16, u16)) -> bool {
        self.ports.contains(&from) || self.ports.contains(&to)
    }

    /// Anonymises what an IP packet carries, whose payload is at `region` of `packet`; `ip` has the old addresses.
    pub fn payload(&mut self, packet: &mut [u8], ip: &Ip, region: Range<usize>) -> Result<(), Drop> {
        let here = Ip { payload: region.clone(), ..ip.clone() };
        let later = ip.fragment.filter(|f| f.offset > 0);
        match ip.protocol {
            UDP if later.is_none() => {
                let Some(ports) = ends::ports(packet, &here).filter(|_| region.len() >= 8) else {
                    return Err(Drop::Content);
                };
                if !self.is_dns(ports) && region.len() > 8 {
                    return Err(Drop::Content);
                }
                let data = region.start + 8..region.end;
                match ip.fragment {
                    Some(f) => {
                        let next = |n| (ip.from, ip.to, f.id, n);
                        self.piece(&mut packet[data], None, next(region.len() as u32));
                    }
                    None => {
                        let declared =
                            u16::from_be_bytes([packet[region.start + 4], packet[region.start + 5]]);
                        if !matches!(usize::from(declared), 0 | 8..) || usize::from(declared) > ip.length {
                            return Err(Drop::Content);
                        }
                        // Octets behind the datagram are in the packet, but not in the datagram.
                        let end = match usize::from(declared) {
                            0 => data.end,
                            n => (region.start + n).min(data.end),
                        };
                        packet[end..data.end].fill(0);
                        self.message(&mut packet[data.start..end]);
                    }
                }
                Ok(())
            }
            TCP if later.is_none() => self.segment(packet, &here),
            UDP | TCP => {
                let f = later.expect("a later fragment");
                let next = |n| (ip.from, ip.to, f.id, n);
                let (before, after) = (f.offset as u32, (f.offset + region.len()) as u32);
                self.piece(&mut packet[region], Some(next(before)), next(after));
                Ok(())
            }
            ICMP | ICMPV6 if ip.fragment.is_none() => self.icmp(packet, &here),
            _ if region.is_empty() => Ok(()),
            _ => Err(Drop::Content),
        }
    }

    fn segment(&mut self, packet: &mut [u8], ip: &Ip) -> Result<(), Drop> {
        let region = ip.payload.clone();
        let Some(ports) = ends::ports(packet, ip).filter(|_| region.len() >= 20) else {
            return Err(Drop::Content);
        };
        let header = usize::from(packet[region.start + 12] >> 4) * 4;
        if header < 20 || header > region.len() {
            return Err(Drop::Content);
        }
        if tells_addresses(&packet[region.start + 20..region.start + header]) {
            return Err(Drop::Routed);
        }
        let data = region.start + header..region.end;
        if data.is_empty() {
            return Ok(());
        }
        if !self.is_dns(ports) {
            return Err(Drop::Content);
        }
        let word = |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().expect("four octets"));
        // SYN takes a number.
        let syn = u32::from(packet[region.start + 13] & 2 != 0);
        let seq = word(region.start + 4).wrapping_add(syn);
        let next = |n: usize| (ip.from, ip.to, word(region.start), seq.wrapping_add(n as u32));
        let (before, after) = (next(0), next(data.len()));
        let data = &mut packet[data];
        if ip.fragment.is_none() && is_messages(data) {
            let mut at = 0;
            while at < data.len() {
                let end = at + 2 + usize::from(u16::from_be_bytes([data[at], data[at + 1]]));
                self.message(&mut data[at + 2..end]);
                at = end;
            }
            return Ok(());
        }
        self.piece(data, Some(before), after);
        Ok(())
    }

    fn icmp(&mut self, packet: &mut [u8], ip: &Ip) -> Result<(), Drop> {
        let body = packet.get_mut(ip.payload.clone()).filter(|b| b.len() >= 8).ok_or(Drop::Content)?;
        match (ip.protocol, body[0]) {
            // Errors: what they quote was changed. With an extension (RFC 4884) they may tell interfaces.
            (ICMP, 3 | 4 | 11 | 12) if body[5] == 0 => Ok(()),
            (ICMPV6, 1 | 3) if body[4] == 0 => Ok(()),
            (ICMPV6, 2 | 4) => Ok(()),
            (ICMP, 5) => {
                let gateway = Ipv4Addr::new(body[4], body[5], body[6], body[7]);
                body[4..8].copy_from_slice(&self.anonymizer.v4(gateway).octets());
                Ok(())
            }
            // Echo, and who asks for the time.
            (ICMP, 0 | 8 | 13 | 14) | (ICMPV6, 128 | 129) => Ok(()),
            _ => Err(Drop::Content),
        }
    }

    /// Anonymises what is quoted of a packet's payload; `bytes` end with the quotation.
    pub fn quoted(&mut self, bytes: &mut [u8], ip: &Ip) -> Result<(), Drop> {
        let region = ip.payload.clone();
        if bytes[region.end..].iter().any(|&octet| octet != 0) {
            return Err(Drop::Content);
        }
        let header = match (ip.protocol, ends::ports(bytes, ip)) {
            (UDP, Some(ports)) if self.is_dns(ports) => 8,
            (TCP, Some(ports)) if self.is_dns(ports) => 20,
            // The quotation that RFC 792 asks for: ports, a sum, a sequence number.
            (UDP | TCP, Some(_)) if region.len() <= 8 => 8,
            (ICMP | ICMPV6, _) if region.len() <= 8 => 8,
            _ if region.is_empty() => 0,
            _ => return Err(Drop::Content),
        };
        let data = &mut bytes[(region.start + header).min(region.end)..region.end];
        if ip.protocol == UDP {
            self.message(data);
        } else {
            self.scan(data);
        }
        Ok(())
    }

    /// Anonymises the client subnets of a message, or of as much of it as there is.
    pub fn message(&mut self, message: &mut [u8]) {
        if opt::locate(message).is_none() {
            // A message without OPT, or one that is damaged.
            if Header::new(message).is_some_and(|header| header.arcount() > 0) {
                self.scan(message);
            }
            return;
        }
        let places: Vec<_> =
            opt::options(message).filter(|(code, _)| *code == SUBNET).map(|(_, place)| place).collect();
        for place in places {
            self.subnet(&mut message[place], 0);
        }
    }

    /// Anonymises an option's data, but for the first `known` octets.
    fn subnet(&mut self, data: &mut [u8], known: usize) {
        let Some((&mut [high, low, source, _], address)) = data.split_first_chunk_mut::<4>() else { return };
        let mut octets = [0; 16];
        let here = address.len().min(16);
        octets[..here].copy_from_slice(&address[..here]);
        let octets = match (high, low) {
            (0, 1) => {
                let [a, b, c, d, ..] = octets;
                let bits = self.anonymizer.v4(Ipv4Addr::new(a, b, c, d)).to_bits();
                let kept = u32::MAX.checked_shl(32 - u32::from(source.min(32))).unwrap_or(0);
                u128::from(bits & kept) << 96
            }
            (0, 2) => {
                let bits = self.anonymizer.v6(Ipv6Addr::from(octets)).to_bits();
                bits & u128::MAX.checked_shl(128 - u32::from(source.min(128))).unwrap_or(0)
            }
            // Of no family that is known.
            _ => 0,
        };
        let new = octets.to_be_bytes();
        for (n, octet) in address.iter_mut().enumerate().skip(known.saturating_sub(4)) {
            *octet = new.get(n).copied().unwrap_or(0);
        }
        self.subnets += u64::from(known <= 4);
    }

    /// Anonymises what looks like a client's subnet, wherever it is.
    fn scan(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while let Some(place) = find(&bytes[at..]) {
            let data = at + place.start..at + place.end;
            at = data.start;
            let end = data.end.min(bytes.len());
            self.subnet(&mut bytes[data.start..end], 0);
        }
    }

    /// Anonymises a piece of a message of which nobody knows where its options are: they are known by their looks, also
    /// where one began in the piece before.
    fn piece(&mut self, bytes: &mut [u8], before: Option<Next>, after: Next) {
        let tail = before.and_then(|before| self.tails.get(&before).copied());
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        if let Some((octets, length)) = tail {
            scratch.extend_from_slice(&octets[..length]);
        }
        let old = scratch.len();
        scratch.extend_from_slice(bytes);
        let last = &scratch[scratch.len().saturating_sub(TAIL)..];
        let mut octets = [0; TAIL];
        octets[..last.len()].copy_from_slice(last);
        if self.tails.len() == TAILS_MAX {
            self.tails.clear();
        }
        self.tails.insert(after, (octets, last.len()));
        let mut at = 0;
        while let Some(place) = find(&scratch[at..]) {
            let data = at + place.start..(at + place.end).min(scratch.len());
            at = data.start;
            // Addresses in the piece before were anonymised there.
            let known = old.saturating_sub(data.start);
            if known < data.len() {
                self.subnet(&mut scratch[data], known);
            }
        }
        bytes.copy_from_slice(&scratch[old..]);
        self.scratch = scratch;
    }
}

/// The data of the first option that looks like a client's subnet: code, length, family, prefix and length agree. They
/// may end behind the octets that are there.
fn find(bytes: &[u8]) -> Option<Range<usize>> {
    // The octet that is rare: zeros are not.
    for code in memchr::memchr_iter(8, bytes) {
        let Some(at) = code.checked_sub(1) else { continue };
        let head: &[u8; 8] = bytes.get(at..)?.first_chunk()?;
        if let [0, 8, 0, length, 0, family @ (1 | 2), source, scope] = *head {
            let width = if family == 1 { 32 } else { 128 };
            if source > 0
                && source <= width
                && scope <= width
                && usize::from(length) == 4 + usize::from(source).div_ceil(8)
            {
                return Some(at + 4..at + 4 + usize::from(length));
            }
        }
    }
    None
}

/// The data of a segment are whole messages, each with its length before it.
fn is_messages(data: &[u8]) -> bool {
    let mut at = 0;
    while at < data.len() {
        let Some(&[high, low]) = data[at..].first_chunk() else { return false };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let Some(message) = data.get(at + 2..at + 2 + length) else { return false };
        if length < LEN || !Header::new(message).is_some_and(|h| h.qdcount() <= 1 && h.counts_fit(length)) {
            return false;
        }
        at += 2 + length;
    }
    true
}

/// TCP options that tell addresses: multipath TCP's ADD_ADDR (RFC 8684, section 3.4.1).
fn tells_addresses(mut options: &[u8]) -> bool {
    while let Some((&kind, rest)) = options.split_first() {
        options = match kind {
            0 => return false,
            1 => rest,
            30 if rest.get(1).is_some_and(|subtype| subtype >> 4 == 3) => return true,
            _ => match rest.first() {
                Some(&length) if length >= 2 => rest.get(usize::from(length) - 1..).unwrap_or_default(),
                _ => return false,
            },
        };
    }
    false
}
