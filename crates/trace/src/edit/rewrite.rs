//! A packet rewritten: link header, addresses, sums.
//!
//! Sums are updated by what changed (RFC 1624), so that fragments and packets that the capture cut short come out with
//! sums as right or wrong as they were; where a packet is whole, a wrong sum of UDP or TCP is made right unless it is
//! to be kept. A UDP checksum of IPv4 that is absent stays absent.

use super::clients::Clients;
use super::dropped::Drop;
use super::ends::{self, Direction, Ends};
use super::scrub::{self, Scrubber};
use super::{Edit, Error, Summary};
use crate::read::packet::{self, ICMP, ICMPV6, Ip, TCP, UDP};
use crate::read::{Frame, Skip};
use crate::write::build::{self, IpFields, Segment};
use crate::write::{CLIENT_MAC, ETHERNET, SERVER_MAC};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use wire::checksum::{fold, pseudo_header, sum};

/// Where the IP packet of a frame is, and what it says.
#[derive(Clone, Debug)]
pub(super) struct Parsed {
    pub at: usize,
    pub ip: Ip,
}

impl Parsed {
    pub fn new(frame: &Frame<'_>) -> Result<Self, Skip> {
        let at = packet::ip_at(frame.link, frame.bytes)?;
        Ok(Self { at, ip: packet::ip(frame.bytes, at)? })
    }
}

/// The state of rewriting packets.
pub(super) struct Rewriter {
    set_dst: [Option<IpAddr>; 2],
    clients: Clients,
    set_mac: Option<[[u8; 6]; 2]>,
    set_edns_size: Option<u16>,
    scrubber: Option<Scrubber>,
    keep: bool,
    made_right: u64,
    sizes_set: u64,
    /// The packet that was rewritten last.
    pub out: Vec<u8>,
}

/// The sum after words were taken out of what it covers and others put in (RFC 1624, equation 3).
fn updated(checksum: u16, out: u16, into: u16) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!out) + u64::from(into))
}

fn addresses_sum(from: IpAddr, to: IpAddr) -> u16 {
    fold(pseudo_header(from, to, 0, 0))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Both of ones' complement's zeros are one value.
fn same(a: u16, b: u16) -> bool {
    a == b || matches!((a, b), (0, 0xffff) | (0xffff, 0))
}

/// Writes addresses into the IP header at the beginning of `bytes`.
fn put_addresses(bytes: &mut [u8], from: IpAddr, to: IpAddr) {
    for (address, at) in [(from, 0), (to, 1)] {
        match address {
            IpAddr::V4(a) => bytes[12 + 4 * at..16 + 4 * at].copy_from_slice(&a.octets()),
            IpAddr::V6(a) => bytes[8 + 16 * at..24 + 16 * at].copy_from_slice(&a.octets()),
        }
    }
}

impl Rewriter {
    pub fn new(edit: &Edit) -> Self {
        Self {
            set_dst: [edit.set_dst_v4.map(IpAddr::V4), edit.set_dst_v6.map(IpAddr::V6)],
            clients: Clients::new(&edit.set_src_nets),
            set_mac: edit.set_mac.map(|(client, server)| [client, server]),
            set_edns_size: edit.set_edns_size,
            scrubber: edit.anonymize.as_ref().map(|key| Scrubber::new(key, &edit.ports)),
            keep: edit.keep_checksums,
            made_right: 0,
            sizes_set: 0,
            out: Vec::with_capacity(2048),
        }
    }

    /// Packets are changed by which end is whose.
    pub fn needs_ends(&self) -> bool {
        self.sets_addresses() || self.set_mac.is_some()
    }

    fn sets_addresses(&self) -> bool {
        self.set_dst != [None; 2] || !self.clients.is_idle()
    }

    /// Something is changed but sums.
    fn changes(&self) -> bool {
        self.needs_ends() || self.scrubber.is_some()
    }

    /// Says what was done.
    pub fn finish(&self, summary: &mut Summary) -> Result<(), Error> {
        summary.clients = self.clients.count();
        summary.checksums_made_right = self.made_right;
        summary.subnets = self.scrubber.as_ref().map_or(0, |s| s.subnets);
        summary.edns_sizes_set = self.sizes_set;
        self.clients.check()
    }

    /// Takes a packet that cannot be read: as it is, where nothing would have to be changed.
    pub fn unread(&mut self, frame: Frame<'_>) -> Result<(u16, usize), Drop> {
        if self.changes() {
            return Err(Drop::Unread);
        }
        self.out.clear();
        self.out.extend_from_slice(frame.bytes);
        Ok((frame.link, frame.len))
    }

    /// The new address of an end.
    fn address(&mut self, address: IpAddr, server: bool) -> Result<IpAddr, Drop> {
        if server && self.set_dst != [None; 2] {
            return self.set_dst[usize::from(address.is_ipv6())].ok_or(Drop::Family);
        }
        if !server && !self.clients.is_idle() {
            return self.clients.get(address).ok_or(Drop::Family);
        }
        Ok(self.scrubber.as_mut().map_or(address, |s| s.anonymizer.ip(address)))
    }

    /// The new addresses of a packet's sender and receiver.
    fn addresses(&mut self, from: IpAddr, to: IpAddr, ends: Option<Ends>) -> Result<(IpAddr, IpAddr), Drop> {
        let Some(ends) = ends else {
            if self.needs_ends() {
                return Err(Drop::NoClient);
            }
            return Ok((self.address(from, true)?, self.address(to, true)?));
        };
        let back = ends.way == Direction::FromServer;
        let from = self.address(from, back && !ends.router)?;
        Ok((from, self.address(to, !back)?))
    }

    /// Rewrites a packet into [`Self::out`]; gives its link type and length.
    pub fn packet(
        &mut self,
        frame: Frame<'_>,
        parsed: &Parsed,
        ends: Option<Ends>,
    ) -> Result<(u16, usize), Drop> {
        let Parsed { at, ip } = parsed;
        let options = scrub::options(&frame.bytes[*at..], ip, *at);
        if options.routed && self.changes() || options.strange && self.scrubber.is_some() {
            return Err(Drop::Routed);
        }
        let (from, to) = self.addresses(ip.from, ip.to, ends)?;
        self.out.clear();
        let way = ends.map_or(Direction::FromClient, |ends| ends.way);
        let link = self.link_header(frame.link, &frame.bytes[..*at], way, ip.from);
        let start = self.out.len();
        self.out.extend_from_slice(&frame.bytes[*at..]);
        let moved = |place: usize| place - at + start;
        let region = moved(ip.payload.start)..moved(ip.payload.end);
        let before = self.changes_content(ip).then(|| fold(sum(&self.out[region.clone()])));
        self.content(frame.bytes, ip, ends, start, region.clone())?;
        // The checksum of the content before and after the edit.
        let content = before.map_or((0, 0), |before| (before, fold(sum(&self.out[region.clone()]))));

        put_addresses(&mut self.out[start..], from, to);
        let pseudo = (addresses_sum(ip.from, ip.to), addresses_sum(from, to));
        if ip.from.is_ipv4() {
            self.header_sum(start, region.start, pseudo);
        }
        self.transport_sum(ip, (from, to), region, pseudo, content, options.routed);
        Ok((link, frame.len - at + start))
    }

    fn changes_content(&self, ip: &Ip) -> bool {
        self.scrubber.is_some() || self.set_edns_size.is_some() || matches!(ip.protocol, ICMP | ICMPV6)
    }

    /// Appends the link header; gives the link type.
    fn link_header(&mut self, link: u16, header: &[u8], way: Direction, family: IpAddr) -> u16 {
        let out = &mut self.out;
        let macs = self.set_mac.or(self.scrubber.is_some().then_some([CLIENT_MAC, SERVER_MAC]));
        let ordered = |[client, server]: [[u8; 6]; 2]| match way {
            Direction::FromClient => (client, server),
            Direction::FromServer => (server, client),
        };
        if let Some(macs) = self.set_mac {
            let (source, destination) = ordered(macs);
            out.extend_from_slice(&destination);
            out.extend_from_slice(&source);
            match link {
                ETHERNET => out.extend_from_slice(&header[12..]),
                // Tags come after the protocol of cooked captures.
                113 => out.extend_from_slice(&header[14..]),
                276 => {
                    out.extend_from_slice(&header[..2]);
                    out.extend_from_slice(&header[20..]);
                }
                _ => out.extend_from_slice(&build::ether_type(family)),
            }
            return ETHERNET;
        }
        let start = out.len();
        out.extend_from_slice(header);
        if let Some((source, destination)) = macs.map(ordered) {
            let header = &mut out[start..];
            match link {
                ETHERNET => {
                    header[..6].copy_from_slice(&destination);
                    header[6..12].copy_from_slice(&source);
                }
                113 => header[6..14].copy_from_slice(&[&source[..], &[0; 2]].concat()),
                276 => header[12..20].copy_from_slice(&[&source[..], &[0; 2]].concat()),
                _ => {}
            }
        }
        link
    }

    /// Changes what comes after the IP header; `region` is where its payload is now.
    fn content(
        &mut self,
        before: &[u8],
        ip: &Ip,
        ends: Option<Ends>,
        start: usize,
        region: Range<usize>,
    ) -> Result<(), Drop> {
        if let Some(size) = self.set_edns_size
            && ip.protocol == UDP
            && ip.fragment.is_none()
            && region.len() > 8
            && self.out[region.start + 8..region.end].get(2).is_some_and(|flags| flags & 0x80 == 0)
        {
            self.sizes_set +=
                u64::from(wire::opt::set_udp_size(&mut self.out[region.start + 8..region.end], size));
        }
        if self.changes() && ends::is_error(before, ip) {
            let quoted = ends::quoted(before, ip).ok_or(Drop::Content)?;
            let back = ends.map(|ends| Ends { way: ends.way.back(), router: false, ..ends });
            self.quoted(&quoted, back, region.start + 8, region.end)?;
        }
        let Some(scrubber) = &mut self.scrubber else { return Ok(()) };
        // The link may have appended anything.
        self.out[region.end..].fill(0);
        scrubber.payload(&mut self.out[start..], ip, region.start - start..region.end - start)
    }

    /// Changes the packet that an ICMP error quotes, which is at `start`.
    fn quoted(&mut self, quoted: &Ip, ends: Option<Ends>, start: usize, end: usize) -> Result<(), Drop> {
        let (from, to) = self.addresses(quoted.from, quoted.to, ends)?;
        // Read again: here it is somewhere else.
        let Ok(ip) = packet::ip(&self.out[..end], start) else { return Err(Drop::Content) };
        let options = scrub::options(&self.out[start..end], &ip, start);
        if options.routed || options.strange && self.scrubber.is_some() {
            return Err(Drop::Routed);
        }
        let region = ip.payload.clone();
        let before = fold(sum(&self.out[region.clone()]));
        if let Some(scrubber) = &mut self.scrubber {
            scrubber.quoted(&mut self.out[..end], &ip)?;
        }
        let content = (before, fold(sum(&self.out[region.clone()])));
        put_addresses(&mut self.out[start..end], from, to);
        let pseudo = (addresses_sum(ip.from, ip.to), addresses_sum(from, to));
        if ip.from.is_ipv4() {
            let checksum = updated(u16_at(&self.out, start + 10), pseudo.0, pseudo.1);
            put(&mut self.out, start + 10, checksum);
        }
        if let Some(place) = checksum_at(&ip, &region) {
            let old = u16_at(&self.out, place);
            if !(ip.protocol == UDP && old == 0) {
                let kept = updated(updated(old, content.0, content.1), pseudo.0, pseudo.1);
                put(&mut self.out, place, if ip.protocol == UDP && kept == 0 { 0xffff } else { kept });
            }
        }
        Ok(())
    }

    /// The sum of the IPv4 header, whose end is where the payload begins.
    fn header_sum(&mut self, start: usize, end: usize, pseudo: (u16, u16)) {
        let own = usize::from(self.out[start] & 15) * 4;
        let old = u16_at(&self.out, start + 10);
        let mut checksum = updated(old, pseudo.0, pseudo.1);
        if !self.keep && end - start == own {
            put(&mut self.out, start + 10, 0);
            checksum = !fold(sum(&self.out[start..end]));
        }
        put(&mut self.out, start + 10, checksum);
    }

    /// The sum of UDP, TCP and ICMP.
    fn transport_sum(
        &mut self,
        ip: &Ip,
        (from, to): (IpAddr, IpAddr),
        region: Range<usize>,
        pseudo: (u16, u16),
        content: (u16, u16),
        routed: bool,
    ) {
        let Some(place) = checksum_at(ip, &region) else { return };
        let old = u16_at(&self.out, place);
        let udp = ip.protocol == UDP;
        if udp && old == 0 && (from.is_ipv4() || self.keep) {
            return;
        }
        let over_addresses = ip.protocol != ICMP;
        let mut checksum = updated(old, content.0, content.1);
        if over_addresses {
            checksum = updated(checksum, pseudo.0, pseudo.1);
        }
        if content.0 == content.1 && pseudo.0 == pseudo.1 {
            checksum = old;
        }
        // A zero length of UDP is that of a packet captured before the network card cut it to pieces.
        let length = match udp.then(|| usize::from(u16_at(&self.out, region.start + 4))) {
            None | Some(0) => ip.length,
            Some(length) => length,
        };
        let whole = ip.fragment.is_none() && region.len() == ip.length && length <= ip.length && !routed;
        if whole && !self.keep && !(udp && length < 8) {
            put(&mut self.out, place, 0);
            let own = if over_addresses { pseudo_header(from, to, ip.protocol, length) } else { 0 };
            let right = !fold(own + sum(&self.out[region.start..region.start + length]));
            self.made_right += u64::from(!same(right, checksum));
            checksum = right;
        }
        put(&mut self.out, place, if udp && checksum == 0 { 0xffff } else { checksum });
    }

    /// Begins a packet made from nothing in [`Self::out`], with a link header; gives the link type and the ends' new
    /// addresses.
    pub fn begin(
        &mut self,
        link: u16,
        (from, to): (SocketAddr, SocketAddr),
        way: Direction,
    ) -> Result<(u16, SocketAddr, SocketAddr), Drop> {
        let client = if way == Direction::FromClient { from.ip() } else { to.ip() };
        let ends = Ends { way, client, router: false };
        let addresses = self.addresses(from.ip(), to.ip(), Some(ends))?;
        self.out.clear();
        let kind = build::ether_type(from.ip());
        let macs =
            if way == Direction::FromClient { [SERVER_MAC, CLIENT_MAC] } else { [CLIENT_MAC, SERVER_MAC] };
        let mac = macs[1];
        let header = match link {
            ETHERNET => [&macs.concat()[..], &kind].concat(),
            // Sent to us, Ethernet, an address of six octets.
            113 => [&[0, 0, 0, 1, 0, 6], &mac[..], &[0; 2], &kind].concat(),
            276 => [&kind[..], &[0; 6], &[0, 1, 0, 6], &mac, &[0; 2]].concat(),
            0 => if from.is_ipv4() { 2u32 } else { 30 }.to_le_bytes().to_vec(),
            108 => if from.is_ipv4() { 2u32 } else { 30 }.to_be_bytes().to_vec(),
            _ => Vec::new(),
        };
        let link = self.link_header(link, &header, way, from.ip());
        Ok((link, SocketAddr::new(addresses.0, from.port()), SocketAddr::new(addresses.1, to.port())))
    }

    /// Changes a message that gets a packet of its own.
    pub fn message(&mut self, message: &mut [u8]) {
        let response = message.get(2).is_some_and(|flags| flags & 0x80 != 0);
        if let Some(size) = self.set_edns_size.filter(|_| !response) {
            self.sizes_set += u64::from(wire::opt::set_udp_size(message, size));
        }
        if let Some(scrubber) = &mut self.scrubber {
            scrubber.message(message);
        }
    }

    /// Ends a packet that was begun with a message over UDP.
    pub fn udp(
        &mut self,
        (from, to): (SocketAddr, SocketAddr),
        fields: IpFields,
        message: &[u8],
    ) -> Result<(), Drop> {
        let at = build::udp(&mut self.out, (from, to), fields, message).map_err(|_| Drop::Length)?;
        let checksum = build::udp_checksum(&mut self.out, (from.ip(), to.ip()), at);
        put(&mut self.out, at - 2, checksum);
        Ok(())
    }

    /// Ends a packet that was begun with a TCP segment.
    pub fn tcp(&mut self, segment: Segment<'_>, fields: IpFields) -> Result<(), Drop> {
        build::tcp(&mut self.out, segment, fields).map_err(|_| Drop::Length)
    }
}

/// Where the checksum of UDP, TCP or ICMP is, if it is in this piece and all of its header too.
fn checksum_at(ip: &Ip, region: &Range<usize>) -> Option<usize> {
    let (place, header) = match ip.protocol {
        UDP => (6, 8),
        TCP => (16, 20),
        ICMP | ICMPV6 => (2, 4),
        _ => return None,
    };
    let here = ip.fragment.is_none_or(|f| f.offset == 0) && region.len() >= header;
    here.then_some(region.start + place)
}
