//! Capture files: what goes around packets.
//!
//! Classic pcap (draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng), both with nanoseconds, little-endian on
//! every machine. Packets that were captured in part keep their length on the wire, which is written beside their octets.

use super::Error;
use crate::read::Frame;
use measure::Nanos;
use measure::clock::SECOND;
use serde::Serialize;
use std::io::Write;

/// Link type Ethernet; the numbers are those of tcpdump.org.
pub const ETHERNET: u16 = 1;

/// The longest packet that is written: libpcap's bound (MAXIMUM_SNAPLEN).
const SNAP: u32 = 262_144;
/// The first octets of pcap with nanoseconds.
const NANOSECONDS: u32 = 0xa1b2_3c4d;

/// How packets are put into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Classic pcap: one link type.
    Pcap,
    /// pcapng: an interface for each link type.
    Pcapng,
}

/// A capture in the making, apart from where its octets go: that may be opened and closed on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    format: Format,
    /// The longest packet that pcap's header promises.
    snap: u32,
    /// Of pcap the one, of pcapng in the order of its interfaces.
    links: Vec<u16>,
    packets: u64,
    octets: u64,
}

impl Layout {
    /// Of a capture of which nothing is written yet.
    pub fn new(format: Format) -> Self {
        Self { format, snap: SNAP, links: Vec::new(), packets: 0, octets: 0 }
    }

    /// With another longest packet in its header.
    pub(super) fn with_snap(self, snap: u32) -> Self {
        Self { snap, ..self }
    }

    /// How many packets there are.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// How long the capture is, in octets.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// Adds a packet that was captured at a time, in nanoseconds since 1970.
    ///
    /// # Errors
    /// The writer's; [`Error::Time`] and [`Error::Links`] where pcap cannot say it.
    #[inline]
    pub fn add(&mut self, at: Nanos, frame: Frame<'_>, out: &mut (impl Write + ?Sized)) -> Result<(), Error> {
        self.packets += 1;
        match self.format {
            Format::Pcap => self.pcap(at, frame, out),
            Format::Pcapng => self.pcapng(at, frame, out),
        }
    }

    /// Ends the capture: also one without packets has a header.
    ///
    /// # Errors
    /// The writer's.
    pub fn finish(&mut self, out: &mut (impl Write + ?Sized)) -> Result<(), Error> {
        if self.octets == 0 {
            self.begin(ETHERNET, out)?;
        }
        Ok(())
    }

    fn put(&mut self, octets: &[u8], out: &mut (impl Write + ?Sized)) -> Result<(), Error> {
        self.octets += octets.len() as u64;
        Ok(out.write_all(octets)?)
    }

    /// Writes the octets before the first packet.
    fn begin(&mut self, link: u16, out: &mut (impl Write + ?Sized)) -> Result<(), Error> {
        let words = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
        match self.format {
            // Version 2.4; no time zone, no accuracy.
            Format::Pcap => {
                self.links.push(link);
                self.put(&words(&[NANOSECONDS, 2 | 4 << 16, 0, 0, self.snap, u32::from(link)]), out)
            }
            // Version 1.0, a section of unknown length.
            Format::Pcapng => {
                self.put(&words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]), out)
            }
        }
    }

    fn pcap(&mut self, at: Nanos, frame: Frame<'_>, out: &mut (impl Write + ?Sized)) -> Result<(), Error> {
        let Frame { link, bytes, len } = frame;
        let Ok(seconds) = u32::try_from(at / SECOND) else {
            return Err(Error::Time { packet: self.packets, seconds: at / SECOND });
        };
        match self.links[..] {
            [first] if first == link => {}
            [first, ..] => return Err(Error::Links { packet: self.packets, first, link }),
            [] => self.begin(link, out)?,
        }
        let mut head = [0; 16];
        head[..4].copy_from_slice(&seconds.to_le_bytes());
        head[4..8].copy_from_slice(&((at % SECOND) as u32).to_le_bytes());
        head[8..12].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        head[12..].copy_from_slice(&(len.max(bytes.len()) as u32).to_le_bytes());
        self.put(&head, out)?;
        self.put(bytes, out)
    }

    fn pcapng(&mut self, at: Nanos, frame: Frame<'_>, out: &mut (impl Write + ?Sized)) -> Result<(), Error> {
        let Frame { link, bytes, len } = frame;
        if self.octets == 0 {
            self.begin(link, out)?;
        }
        let interface = match self.links.iter().position(|&l| l == link) {
            Some(interface) => interface,
            None => {
                self.interface(link, out)?;
                self.links.len() - 1
            }
        };
        let padding = bytes.len().wrapping_neg() % 4;
        let whole = (32 + bytes.len() + padding) as u32;
        let words = [
            6,
            whole,
            interface as u32,
            (at >> 32) as u32,
            at as u32,
            bytes.len() as u32,
            len.max(bytes.len()) as u32,
        ];
        let mut head = [0; 28];
        head.chunks_exact_mut(4).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        let mut tail = [0; 7];
        tail[padding..padding + 4].copy_from_slice(&whole.to_le_bytes());
        self.put(&head, out)?;
        self.put(bytes, out)?;
        self.put(&tail[..padding + 4], out)
    }

    /// Describes an interface of a link type; times in units of 10 to the power of -9.
    fn interface(&mut self, link: u16, out: &mut (impl Write + ?Sized)) -> Result<(), Error> {
        self.links.push(link);
        let mut block = Vec::with_capacity(32);
        // if_tsresol is option 9, of one octet; then the end of the options.
        for word in [1, 32, u32::from(link), SNAP, 9 | 1 << 16, 9, 0, 32] {
            block.extend_from_slice(&word.to_le_bytes());
        }
        self.put(&block, out)
    }
}
