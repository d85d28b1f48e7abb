//! Every IP packet of a capture with its octets, link headers and padding not counted: as RZAIA counts what passes between servers.

use crate::read::files::Files;
use crate::read::{Counts, Error, Skipped, packet};
use measure::Nanos;
use std::net::IpAddr;
use std::path::PathBuf;

/// An IP packet, or a fragment of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it was captured: wall clock, nanoseconds since 1970.
    pub at: Nanos,
    /// The sender.
    pub from: IpAddr,
    /// Its destination.
    pub to: IpAddr,
    /// Octets from its IP header on, as it was on the wire.
    pub octets: u64,
}

/// Reads captures as one, in order of time; gives how many packets are no IP, or damaged.
///
/// # Errors
/// A file that cannot be read, or is no capture.
pub fn packets(paths: &[PathBuf], each: &mut dyn FnMut(Packet)) -> Result<u64, Error> {
    let mut files = Files::open(paths)?;
    let (mut counts, mut skipped, mut others) = (Counts::default(), Skipped::default(), 0);
    while files.advance(&mut counts, &mut skipped)? {
        let seen = files.current().packet();
        match packet::ip_at(seen.link, seen.bytes).and_then(|at| packet::ip(seen.bytes, at)) {
            Ok(ip) => {
                let octets = (ip.header + ip.length) as u64;
                each(Packet { at: seen.at, from: ip.from, to: ip.to, octets });
            }
            Err(_) => others += 1,
        }
    }
    Ok(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame in a capture with nanoseconds, padded as Ethernet does.
    fn frame(at: u32, ethertype: [u8; 2], payload: &[u8]) -> Vec<u8> {
        let mut frame = [&[0; 12][..], &ethertype, payload].concat();
        frame.resize(frame.len().max(60), 0);
        let length = (frame.len() as u32).to_le_bytes();
        [&7u32.to_le_bytes()[..], &at.to_le_bytes(), &length, &length, &frame].concat()
    }

    #[test]
    fn neither_ethernet_nor_its_padding_counts() {
        let mut v4 = vec![0x45, 0, 0, 29, 0, 0, 0, 0, 64, 17, 0, 0, 10, 53, 0, 1, 10, 53, 0, 2];
        v4.resize(29, 0);
        let mut v6 = [&[0x60, 0, 0, 0, 0, 9, 17, 64][..], &[0xfd; 16], &[0xfe; 16]].concat();
        v6.resize(49, 0);
        let head = [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
        let capture =
            [&head[..], &frame(5, [8, 0], &v4), &frame(6, [8, 6], &[0; 28]), &frame(8, [0x86, 0xdd], &v6)]
                .concat();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), capture).unwrap();
        let mut seen = Vec::new();
        let others = packets(&[file.path().to_owned()], &mut |packet| seen.push(packet)).unwrap();
        assert_eq!(others, 1, "ARP is no IP");
        let all: Vec<_> = seen.iter().map(|p| (p.at, p.octets)).collect();
        assert_eq!(all, [(7_000_000_005, 29), (7_000_000_008, 49)]);
        assert_eq!((seen[0].from, seen[0].to), ("10.53.0.1".parse().unwrap(), "10.53.0.2".parse().unwrap()));
    }
}
