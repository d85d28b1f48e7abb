//! IP packets put together from their fragments (RFC 791 section 3.2, RFC 8200 section 4.5), in bounded memory.

use super::packet::{Fragment, Ip};
use super::{Skip, Skipped};
use measure::Nanos;
use measure::clock::SECOND;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Packets of which fragments are kept at once; the oldest is given up for a newer one.
const PACKETS_MAX: usize = 1024;
/// How long a packet's fragments are waited for: what RFC 8200 says, and Linux's default for IPv4 doubled.
const PATIENCE: Nanos = 60 * SECOND;
/// The longest payload of an IP packet.
const PAYLOAD_MAX: usize = 65_535;
/// Pieces of one packet: as many as a path with an MTU of 68 octets (RFC 791) makes of the longest.
const PIECES_MAX: usize = 1400;

/// The key of the fragments of one packet; IPv6 leaves the protocol out.
type Key = (IpAddr, IpAddr, u32, u8);

/// Packets in pieces.
#[derive(Default)]
pub(super) struct Fragments {
    packets: HashMap<Key, Pieces>,
    /// In the order of their first fragments, which number tells from an earlier packet of the same key.
    order: VecDeque<(Key, u64, Nanos)>,
    begun: u64,
    /// The payload of the packet that became whole last.
    whole: Vec<u8>,
}

#[derive(Default)]
struct Pieces {
    number: u64,
    payload: Vec<u8>,
    /// Where there are octets, in order.
    here: Vec<(usize, usize)>,
    /// How long the payload is, once the last fragment is there.
    length: Option<usize>,
    fragments: u64,
    /// The protocol that the first fragment names, and whether any has DF.
    protocol: u8,
    df: bool,
    /// Fragments overlapped: nothing of this packet counts (RFC 5722).
    spoilt: bool,
}

impl Fragments {
    /// Takes a fragment of which `payload` is all; where it makes a packet whole, that packet, whose payload is then
    /// [`Self::whole`].
    pub fn add(
        &mut self,
        at: Nanos,
        ip: &Ip,
        fragment: Fragment,
        payload: &[u8],
        skipped: &mut Skipped,
    ) -> Option<Ip> {
        self.expire(at, skipped);
        let end = fragment.offset + payload.len();
        if payload.is_empty() || end > PAYLOAD_MAX || (fragment.more && !payload.len().is_multiple_of(8)) {
            skipped.add(Skip::BadIp);
            return None;
        }
        let protocol = if ip.from.is_ipv4() { ip.protocol } else { 0 };
        let key = (ip.from, ip.to, fragment.id, protocol);
        if !self.packets.contains_key(&key) {
            if self.packets.len() == PACKETS_MAX {
                self.give_up_oldest(skipped);
            }
            self.begun += 1;
            self.order.push_back((key, self.begun, at));
            self.packets.insert(key, Pieces { number: self.begun, ..Pieces::default() });
        }
        let pieces = self.packets.get_mut(&key)?;
        pieces.fragments += 1;
        if !pieces.add(ip, fragment, payload) {
            if !pieces.spoilt {
                // Kept, without its octets, so that later fragments are known for what they are.
                pieces.spoilt = true;
                skipped.add_many(Skip::FragmentsOverlap, pieces.fragments);
                (pieces.payload, pieces.here) = (Vec::new(), Vec::new());
            } else {
                skipped.add(Skip::FragmentsOverlap);
            }
            return None;
        }
        if pieces.length.is_none() || pieces.here[..] != [(0, pieces.length?)] {
            return None;
        }
        let pieces = self.packets.remove(&key)?;
        self.whole = pieces.payload;
        let length = self.whole.len();
        Some(Ip {
            protocol: pieces.protocol,
            df: pieces.df,
            payload: 0..length,
            length,
            fragment: None,
            pieces: pieces.fragments,
            ..ip.clone()
        })
    }

    /// The payload of the packet that became whole last.
    pub fn whole(&self) -> &[u8] {
        &self.whole
    }

    /// Gives up what has waited for too long.
    fn expire(&mut self, now: Nanos, skipped: &mut Skipped) {
        while self.order.front().is_some_and(|&(_, _, since)| now.saturating_sub(since) > PATIENCE) {
            self.give_up_oldest(skipped);
        }
        // Those that became whole stay in the order until they are the oldest: not too many.
        if self.order.len() > 4 * PACKETS_MAX {
            let packets = &self.packets;
            self.order.retain(|(key, number, _)| packets.get(key).is_some_and(|p| p.number == *number));
        }
    }

    fn give_up_oldest(&mut self, skipped: &mut Skipped) {
        while let Some((key, number, _)) = self.order.pop_front() {
            if self.packets.get(&key).is_some_and(|p| p.number == number) {
                let pieces = self.packets.remove(&key).expect("just seen");
                if !pieces.spoilt {
                    skipped.add_many(Skip::FragmentsAlone, pieces.fragments);
                }
                return;
            }
        }
    }

    /// Gives up everything: the trace is over.
    pub fn finish(&mut self, skipped: &mut Skipped) {
        while !self.packets.is_empty() {
            self.give_up_oldest(skipped);
        }
    }
}

impl Pieces {
    /// Puts a fragment into its place; false where it contradicts the others.
    fn add(&mut self, ip: &Ip, fragment: Fragment, payload: &[u8]) -> bool {
        let (start, end) = (fragment.offset, fragment.offset + payload.len());
        if self.spoilt {
            return false;
        }
        let place = self.here.partition_point(|&(_, e)| e <= start);
        if let Some(&(s, e)) = self.here.get(place).filter(|&&(s, _)| s < end) {
            // A repeated fragment is harmless; one that says otherwise is not.
            return s <= start && end <= e && self.payload[start..end] == *payload;
        }
        if self.here.len() == PIECES_MAX {
            return false;
        }
        match self.length {
            Some(length) if end > length || (!fragment.more && end != length) => return false,
            _ if !fragment.more && self.payload.len() > end => return false,
            None if !fragment.more => self.length = Some(end),
            _ => {}
        }
        if fragment.offset == 0 {
            self.protocol = ip.protocol;
        }
        self.df |= ip.df;
        if self.payload.len() < end {
            self.payload.resize(end, 0);
        }
        self.payload[start..end].copy_from_slice(payload);
        self.here.insert(place, (start, end));
        // Join what touches.
        if self.here.get(place + 1).is_some_and(|next| next.0 == end) {
            self.here[place].1 = self.here.remove(place + 1).1;
        }
        if place > 0 && self.here[place - 1].1 == start {
            self.here[place - 1].1 = self.here.remove(place).1;
        }
        true
    }
}
