//! Packets made from nothing: IP, UDP and TCP headers with their checksums.

use crate::read::packet::{TCP, UDP};
use std::net::{IpAddr, SocketAddr};
use wire::checksum::{fold, pseudo_header, sum};

/// Time to live, or hop limit, of packets that are made.
pub(crate) const HOPS: u8 = 64;

/// The fields of an IP header apart from its addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpFields {
    /// IPv4's identification.
    pub id: u16,
    /// IPv4's "don't fragment".
    pub df: bool,
    /// Time to live, or hop limit.
    pub ttl: u8,
}

/// The EtherType of an address's family.
pub(crate) fn ether_type(address: IpAddr) -> [u8; 2] {
    if address.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] }
}

/// Appends an IP header for a payload of `length` octets.
fn ip(
    out: &mut Vec<u8>,
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    length: usize,
    fields: IpFields,
) -> Result<(), String> {
    let too_long = || format!("{length} octets do not fit into an IP packet");
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let total = u16::try_from(20 + length).map_err(|_| too_long())?;
            let mut header = [0x45, 0, 0, 0, 0, 0, 0, 0, fields.ttl, protocol, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            header[2..4].copy_from_slice(&total.to_be_bytes());
            header[4..6].copy_from_slice(&fields.id.to_be_bytes());
            header[6] = if fields.df { 0x40 } else { 0 };
            header[12..16].copy_from_slice(&from.octets());
            header[16..].copy_from_slice(&to.octets());
            let checksum = !fold(sum(&header));
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            out.extend_from_slice(&header);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let payload = u16::try_from(length).map_err(|_| too_long())?;
            let mut header = [0; 40];
            header[0] = 0x60;
            header[4..6].copy_from_slice(&payload.to_be_bytes());
            (header[6], header[7]) = (protocol, fields.ttl);
            header[8..24].copy_from_slice(&from.octets());
            header[24..].copy_from_slice(&to.octets());
            out.extend_from_slice(&header);
        }
        _ => return Err(format!("{from} and {to} are not of one address family")),
    }
    Ok(())
}

/// Appends an IP packet with a message over UDP. Gives where the message is.
pub(crate) fn udp(
    out: &mut Vec<u8>,
    (from, to): (SocketAddr, SocketAddr),
    fields: IpFields,
    message: &[u8],
) -> Result<usize, String> {
    let Some(length) = u16::try_from(8 + message.len()).ok() else {
        return Err(format!("a message of {} octets does not fit into a UDP packet", message.len()));
    };
    ip(out, from.ip(), to.ip(), UDP, length.into(), fields)?;
    let at = out.len();
    let mut header = [0; 8];
    header[..2].copy_from_slice(&from.port().to_be_bytes());
    header[2..4].copy_from_slice(&to.port().to_be_bytes());
    header[4..6].copy_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(message);
    Ok(at + 8)
}

/// Computes the UDP checksum of the last packet, whose message is at `message`; never zero, which means "absent".
pub(crate) fn udp_checksum(out: &mut [u8], (from, to): (IpAddr, IpAddr), message: usize) -> u16 {
    let datagram = &mut out[message - 8..];
    datagram[6..8].fill(0);
    match !fold(pseudo_header(from, to, UDP, datagram.len()) + sum(datagram)) {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub seq: u32,
    /// Zero where ACK is not set.
    pub ack: u32,
    /// As in the header: FIN 1, SYN 2, PSH 8, ACK 16.
    pub flags: u8,
    pub options: &'a [u8],
    pub data: &'a [u8],
}

/// Appends an IP packet with a TCP segment.
pub(crate) fn tcp(out: &mut Vec<u8>, segment: Segment<'_>, fields: IpFields) -> Result<(), String> {
    let Segment { from, to, seq, ack, flags, options, data } = segment;
    let length = 20 + options.len() + data.len();
    ip(out, from.ip(), to.ip(), TCP, length, fields)?;
    let at = out.len();
    let mut header = [0; 20];
    header[..2].copy_from_slice(&from.port().to_be_bytes());
    header[2..4].copy_from_slice(&to.port().to_be_bytes());
    header[4..8].copy_from_slice(&seq.to_be_bytes());
    header[8..12].copy_from_slice(&ack.to_be_bytes());
    header[12] = ((20 + options.len()) / 4) as u8 * 16;
    header[13] = flags;
    header[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(options);
    out.extend_from_slice(data);
    let checksum = !fold(pseudo_header(from.ip(), to.ip(), TCP, length) + sum(&out[at..]));
    out[at + 16..at + 18].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}
