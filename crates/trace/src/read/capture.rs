//! Capture files: classic pcap and pcapng.
//!
//! Classic pcap as in draft-ietf-opsawg-pcap, with microseconds or nanoseconds; pcapng as in
//! draft-ietf-opsawg-pcapng: sections, interfaces, enhanced, simple and obsolete packet blocks. Either byte order.

use super::input::Input;
use super::{Counts, Error, Skip, Skipped};
use measure::Nanos;
use measure::clock::SECOND;
use std::path::Path;

/// The longest packet: libpcap's own bound (MAXIMUM_SNAPLEN).
const PACKET_MAX: usize = 262_144;
/// The longest block that is looked into: a packet and its options.
const BLOCK_MAX: usize = 1 << 20;
/// The most interfaces of a section.
const INTERFACES_MAX: usize = 65_536;

const SECTION: u32 = 0x0a0d_0d0a;
const ORDER: u32 = 0x1a2b_3c4d;

/// One packet as captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    /// Nanoseconds since 1970.
    pub at: Nanos,
    /// The link type's number as tcpdump.org registers it.
    pub link: u16,
    /// Its captured octets.
    pub bytes: &'a [u8],
    /// How long it was.
    pub len: usize,
}

/// One capture file.
pub(crate) struct Capture {
    input: Input,
    format: Format,
    /// The packet in sight: the octets before it, its length, how much to go on by after it.
    packet: (usize, usize, usize),
    pub at: Nanos,
    link: u16,
    /// How long the packet in sight was.
    len: usize,
}

enum Format {
    Pcap { big: bool, unit: u64, link: u16 },
    Pcapng { big: bool, interfaces: Vec<Interface> },
}

/// An interface of a pcapng section.
struct Interface {
    link: u16,
    snap: usize,
    /// Ticks in a second.
    resolution: u64,
    /// Seconds added to every time.
    offset: i64,
}

fn u16_at(bytes: &[u8], at: usize, big: bool) -> u16 {
    let field = bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).unwrap_or_default();
    if big { u16::from_be_bytes(field) } else { u16::from_le_bytes(field) }
}

fn u32_at(bytes: &[u8], at: usize, big: bool) -> u32 {
    let field = bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).unwrap_or_default();
    if big { u32::from_be_bytes(field) } else { u32::from_le_bytes(field) }
}

impl Capture {
    /// Reads the beginning of a capture.
    pub fn open(mut input: Input) -> Result<Self, Error> {
        let not = |path: &Path, what: String| Error::NotACapture { path: path.to_owned(), what };
        if !input.need(24)? {
            let what = if input.bytes().is_empty() && !input.truncated {
                "it is empty"
            } else {
                "it ends within its first 24 octets"
            };
            return Err(not(&input.path, what.into()));
        }
        let bytes = input.bytes();
        let magic = u32_at(bytes, 0, true);
        let (big, unit) = match magic {
            SECTION => {
                let format = Format::Pcapng { big: false, interfaces: Vec::new() };
                return Ok(Self { input, format, packet: (0, 0, 0), at: 0, link: 0, len: 0 });
            }
            0xa1b2_c3d4 => (true, 1000),
            0xd4c3_b2a1 => (false, 1000),
            0xa1b2_3c4d => (true, 1),
            0x4d3c_b2a1 => (false, 1),
            0xa1b2_cd34 | 0x34cd_b2a1 => {
                let what = "it is of Kuznetzov's modified pcap: convert it with 'editcap -F pcap IN OUT'";
                return Err(not(&input.path, what.into()));
            }
            _ => {
                return Err(not(
                    &input.path,
                    format!(
                        "it begins with {magic:08x}: expected pcap or pcapng, plain or compressed with gzip, zstd, xz or lz4"
                    ),
                ));
            }
        };
        // The upper bits tell of frame check sequences, which come after what we look at.
        let link = u32_at(bytes, 20, big) as u16;
        input.pass(24);
        Ok(Self { input, format: Format::Pcap { big, unit, link }, packet: (0, 0, 0), at: 0, link, len: 0 })
    }

    /// Goes on to the next packet; false at the end.
    ///
    /// # Errors
    /// [`Error::Damaged`] where the rest cannot be a capture. A capture that is cut short just ends, and that is counted.
    pub fn advance(&mut self, counts: &mut Counts, skipped: &mut Skipped) -> Result<bool, Error> {
        self.input.pass(self.packet.2);
        self.packet = (0, 0, 0);
        let here = match self.format {
            Format::Pcap { big, unit, link } => self.pcap(big, unit, link)?,
            Format::Pcapng { .. } => self.pcapng(counts, skipped)?,
        };
        if !here && (self.input.truncated || !self.input.bytes().is_empty()) {
            skipped.add(Skip::FileEnd);
            let left = self.input.bytes().len();
            self.input.pass(left);
            self.input.truncated = false;
        }
        Ok(here)
    }

    /// The packet in sight.
    pub fn packet(&self) -> Packet<'_> {
        let (before, length, _) = self.packet;
        let bytes = &self.input.bytes()[before..before + length];
        Packet { at: self.at, link: self.link, bytes, len: self.len.max(length) }
    }

    fn damaged(&self, what: String) -> Error {
        Error::Damaged { path: self.input.path.clone(), offset: self.input.offset(), what }
    }

    fn pcap(&mut self, big: bool, unit: u64, link: u16) -> Result<bool, Error> {
        if !self.input.need(16)? {
            return Ok(false);
        }
        let header = self.input.bytes();
        let [seconds, part, length, len] = [0, 4, 8, 12].map(|at| u32_at(header, at, big));
        let (length, len) = (length as usize, len as usize);
        if length > PACKET_MAX {
            return Err(self.damaged(format!("a packet of {length} octets, where {PACKET_MAX} are the most")));
        }
        if !self.input.need(16 + length)? {
            return Ok(false);
        }
        self.at = u64::from(seconds) * SECOND + u64::from(part) * unit;
        (self.link, self.len) = (link, len);
        self.packet = (16, length, 16 + length);
        Ok(true)
    }

    fn pcapng(&mut self, counts: &mut Counts, skipped: &mut Skipped) -> Result<bool, Error> {
        loop {
            if !self.input.need(12)? {
                return Ok(false);
            }
            let Format::Pcapng { big, interfaces } = &mut self.format else {
                unreachable!("asked for pcapng only")
            };
            let head = self.input.bytes();
            // The type of a section header reads the same in either order.
            let section = u32_at(head, 0, true) == SECTION;
            if section {
                *big = match u32_at(head, 8, true) {
                    ORDER => true,
                    order if order.swap_bytes() == ORDER => false,
                    order => {
                        return Err(self.damaged(format!("a section of no known byte order ({order:08x})")));
                    }
                };
                interfaces.clear();
            }
            let big = *big;
            let (kind, length) = (u32_at(head, 0, big), u32_at(head, 4, big) as usize);
            if length < 12 || length % 4 != 0 {
                return Err(self.damaged(format!("a block of {length} octets")));
            }
            let known = !section && matches!(kind, 1..=3 | 6);
            if !known {
                if !self.input.skip(length)? {
                    self.input.truncated = true;
                    return Ok(false);
                }
                continue;
            }
            if length > BLOCK_MAX {
                return Err(
                    self.damaged(format!("a block of {length} octets, where {BLOCK_MAX} are the most"))
                );
            }
            if !self.input.need(length)? {
                return Ok(false);
            }
            // Without the length at the end.
            let block = &self.input.bytes()[..length - 4];
            if kind == 1 {
                let Format::Pcapng { interfaces, .. } = &mut self.format else { unreachable!("as above") };
                if interfaces.len() == INTERFACES_MAX {
                    return Err(self.damaged(format!("more than {INTERFACES_MAX} interfaces")));
                }
                match Interface::read(block, big) {
                    Ok(interface) => interfaces.push(interface),
                    Err(what) => return Err(self.damaged(what)),
                }
                self.input.pass(length);
                continue;
            }
            if self.pcapng_packet(kind, length, big, counts, skipped)? {
                return Ok(true);
            }
            self.input.pass(length);
        }
    }

    /// Looks at a block with a packet; false where its packet cannot be used.
    fn pcapng_packet(
        &mut self,
        kind: u32,
        length: usize,
        big: bool,
        counts: &mut Counts,
        skipped: &mut Skipped,
    ) -> Result<bool, Error> {
        let block = &self.input.bytes()[..length - 4];
        let Format::Pcapng { interfaces, .. } = &self.format else { unreachable!("asked for pcapng only") };
        // Where the packet is, how much of it is there, how long it was, whose it is.
        let length_at = |at: usize| u32_at(block, at, big) as usize;
        let (before, captured, len, interface) = match kind {
            6 => (28, length_at(20), length_at(24), u32_at(block, 8, big)),
            2 => (28, length_at(20), length_at(24), u16_at(block, 8, big).into()),
            _ => (12, length_at(8), length_at(8), 0),
        };
        let Some(interface) = interfaces.get(interface as usize) else {
            counts.packets += 1;
            skipped.add(Skip::NoInterface);
            return Ok(false);
        };
        // A simple packet says how long it was; what was kept of it is bounded by the interface and the block.
        let captured = if kind == 3 {
            captured.min(interface.snap).min(block.len().saturating_sub(before))
        } else {
            captured
        };
        if before + captured > block.len() || captured > PACKET_MAX {
            return Err(self.damaged(format!("a packet of {captured} octets in a block of {length}")));
        }
        if kind == 3 {
            // It has no time: the last one's is the nearest.
            counts.untimed += 1;
        } else {
            let ticks = u64::from(u32_at(block, 12, big)) << 32 | u64::from(u32_at(block, 16, big));
            self.at = interface.time(ticks);
        }
        (self.link, self.len) = (interface.link, len);
        self.packet = (before, captured, length);
        Ok(true)
    }
}

impl Interface {
    /// Reads an interface description block, but for the length at its end.
    fn read(block: &[u8], big: bool) -> Result<Self, String> {
        if block.len() < 16 {
            return Err("an interface description of less than 20 octets".into());
        }
        let snap = match u32_at(block, 12, big) as usize {
            0 => PACKET_MAX,
            snap => snap,
        };
        let mut interface = Self { link: u16_at(block, 8, big), snap, resolution: 1_000_000, offset: 0 };
        let mut at = 16;
        while at + 4 <= block.len() {
            let (code, length) = (u16_at(block, at, big), usize::from(u16_at(block, at + 2, big)));
            let Some(value) = block.get(at + 4..at + 4 + length) else { break };
            match (code, value) {
                (0, _) => break,
                // if_tsresol: a power of ten, or of two where the upper bit is set.
                (9, [power]) => {
                    let base: u64 = if power & 0x80 != 0 { 2 } else { 10 };
                    interface.resolution = base.checked_pow(u32::from(power & 0x7f)).ok_or_else(|| {
                        format!("times in units of {base} to the power of -{}", power & 0x7f)
                    })?;
                }
                // if_tsoffset
                (14, value) if length == 8 => {
                    let halves = [u32_at(value, 0, big), u32_at(value, 4, big)].map(u64::from);
                    let [high, low] = if big { halves } else { [halves[1], halves[0]] };
                    interface.offset = (high << 32 | low) as i64;
                }
                _ => {}
            }
            at += 4 + length.next_multiple_of(4);
        }
        Ok(interface)
    }

    fn time(&self, ticks: u64) -> Nanos {
        let nanos = u128::from(ticks) * u128::from(SECOND) / u128::from(self.resolution);
        let nanos = nanos as i128 + i128::from(self.offset) * i128::from(SECOND);
        // Times before 1970 or after 2554 are cut to these bounds: no capture is from then.
        nanos.clamp(0, i128::from(u64::MAX)) as u64
    }
}
