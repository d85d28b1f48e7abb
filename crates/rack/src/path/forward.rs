//! The emulator's treatment of frames, without the socket: whose they are, where they wait, and when each is due.

use super::line::{Counts, Fate, Line};
use super::spec::directions;
use super::{ETHERNET, Plan};
use crate::Error;
use crate::link::{End, Mac, mac};
use measure::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Octets of frames that may be held at once: a second of 2 Gbit/s.
const HELD_MAX: usize = 256 << 20;

/// A frame that waits until it is due.
#[derive(Debug, Default)]
struct Slot {
    frame: Vec<u8>,
    line: usize,
}

/// A frame that is due: where it is kept, and since when it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub slot: u32,
    pub at: Nanos,
}

/// All directions, and the frames that are on their way.
#[derive(Debug)]
pub(crate) struct Forwarder {
    hosts: usize,
    /// The direction from each host to each, by `from * hosts + to`.
    table: Vec<Option<usize>>,
    lines: Vec<Line>,
    /// The Ethernet addresses that each direction's frames leave with: receiver, sender.
    addresses: Vec<(Mac, Mac)>,
    /// The longest frame.
    room: usize,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The heap of release times; frames that are due at the same instant leave in the order of their arrival.
    waiting: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    arrivals: u64,
    held: usize,
    held_max: usize,
    /// Frames that no path is for: multicast above all.
    pub ignored: u64,
    /// Frames longer than the MTU allows: a host's segmentation is not off.
    pub oversized: u64,
}

impl Forwarder {
    pub(crate) fn new(plan: &Plan) -> Result<Self, Error> {
        let hosts: Vec<&str> = plan.hosts.iter().map(String::as_str).collect();
        let all = directions(&hosts, &plan.paths)?;
        let mut table = vec![None; hosts.len() * hosts.len()];
        let (mut lines, mut addresses) = (Vec::new(), Vec::new());
        for direction in &all {
            let path = direction.path.map(|index| &plan.paths[index]);
            table[direction.from * hosts.len() + direction.to] = Some(lines.len());
            lines.push(Line::new(path, hosts[direction.from], hosts[direction.to]));
            addresses.push((mac(End::HOST, direction.to), mac(End::PATH, direction.from)));
        }
        Ok(Self {
            hosts: hosts.len(),
            table,
            lines,
            addresses,
            room: plan.room(),
            slots: Vec::new(),
            free: Vec::new(),
            waiting: BinaryHeap::new(),
            arrivals: 0,
            held: 0,
            held_max: HELD_MAX,
            ignored: 0,
            oversized: 0,
        })
    }

    /// The direction that a frame takes: from the host that it says it is from, to the one whose path it is sent to.
    fn line_of(&self, frame: &[u8]) -> Option<usize> {
        let (to, from) = (frame.get(..6)?, frame.get(6..12)?);
        let index = |address: &[u8], end: u8| -> Option<usize> {
            let [start @ .., high, low] = address else { return None };
            let index = usize::from(u16::from_be_bytes([*high, *low]));
            (*start == mac(end, 0)[..4] && index < self.hosts).then_some(index)
        };
        self.table[index(from, End::HOST)? * self.hosts + index(to, End::PATH)?]
    }

    /// A frame arrived; `length` is its true one, where `frame` is cut off.
    pub(crate) fn take(&mut self, frame: &[u8], length: usize, arrived: Nanos) {
        let Some(index) = self.line_of(frame).filter(|_| length >= ETHERNET) else {
            self.ignored += 1;
            return;
        };
        let octets = (length - ETHERNET) as u64;
        if length > self.room || frame.len() != length {
            self.oversized += 1;
            self.lines[index].refuse(octets);
            return;
        }
        let Fate::Due { at, twice, turns } = self.lines[index].take(arrived, octets) else { return };
        let bit = turns.filter(|_| octets > 0).map(|draw| draw % (octets * 8));
        for _ in 0..=u8::from(twice) {
            self.hold(frame, index, at, bit);
        }
    }

    /// Keeps a frame until it is due; `bit` of its IP packet is turned.
    fn hold(&mut self, frame: &[u8], line: usize, at: Nanos, bit: Option<u64>) {
        if self.held + frame.len() > self.held_max {
            self.lines[line].dropped();
            return;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let kept = &mut self.slots[slot as usize];
        kept.line = line;
        kept.frame.clear();
        kept.frame.extend_from_slice(frame);
        let (to, from) = self.addresses[line];
        kept.frame[..6].copy_from_slice(&to);
        kept.frame[6..12].copy_from_slice(&from);
        if let Some(bit) = bit {
            kept.frame[ETHERNET + (bit / 8) as usize] ^= 1 << (bit % 8);
        }
        self.held += frame.len();
        self.waiting.push(Reverse((at, self.arrivals, slot)));
        self.arrivals += 1;
    }

    /// When the next frame is due.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.waiting.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the frames that are due at `now` out of the heap, at most `most` of them, the earliest first. Each must be
    /// given back with [`Self::done`].
    pub(crate) fn due(&mut self, now: Nanos, most: usize, into: &mut Vec<Due>) {
        into.clear();
        while into.len() < most && self.next().is_some_and(|at| at <= now) {
            if let Some(Reverse((at, _, slot))) = self.waiting.pop() {
                into.push(Due { slot, at });
            }
        }
    }

    /// A frame that is due.
    pub(crate) fn frame(&self, due: Due) -> &[u8] {
        &self.slots[due.slot as usize].frame
    }

    /// It was sent, or could not be.
    pub(crate) fn done(&mut self, due: Due, sent: bool) {
        let slot = &self.slots[due.slot as usize];
        let line = &mut self.lines[slot.line];
        self.held -= slot.frame.len();
        if sent {
            line.delivered((slot.frame.len() - ETHERNET) as u64);
        } else {
            line.dropped();
        }
        self.free.push(due.slot);
    }

    /// The counters of each direction so far.
    pub(crate) fn counts(&self) -> impl Iterator<Item = &Counts> {
        self.lines.iter().map(|line| &line.counts)
    }
}

/// For fuzzing: octets as frames that arrive at a router with three hosts; everything must be accounted for.
///
/// # Panics
/// Where it is not, or where a frame changed beyond its Ethernet addresses.
pub fn fuzz_frames(octets: &[u8]) {
    let path = super::PathSpec {
        delay: super::Delay::Normal { mean: 100, deviation: 50 },
        loss: super::Loss::Random(0.1),
        duplicate: 0.1,
        rate: Some(super::Rate(1_000_000)),
        ..super::PathSpec::between("a", "*")
    };
    let hosts = ["a", "b", "c"].map(String::from).to_vec();
    let plan = Plan { hosts, paths: vec![path], mtu: 60, ..Plan::default() };
    let mut router = Forwarder::new(&plan).expect("a good plan");
    let (mut now, mut due, mut frames) = (0, Vec::new(), 0);
    // Each frame: its length, how much of it was cut off, and its octets.
    let mut rest = octets;
    while let [length, cut, more @ ..] = rest {
        let (frame, after) = more.split_at(usize::from(*length).min(more.len()));
        router.take(frame, frame.len() + usize::from(cut / 128), now);
        (rest, frames) = (after, frames + 1);
        now += u64::from(*cut);
        router.due(now, 3, &mut due);
        for (i, &one) in due.iter().enumerate() {
            let whole = router.frame(one);
            assert!(octets.windows(whole.len() - 12).any(|w| *w == whole[12..]), "its content changed");
            router.done(one, i != 1);
        }
    }
    let taken: u64 = router.counts().map(|c| c.packets_in).sum();
    assert_eq!(taken + router.ignored, frames);
    assert!(router.counts().all(Counts::balanced), "{:?}", router.counts().collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{Delay, PathSpec};

    fn plan(paths: Vec<PathSpec>) -> Plan {
        Plan { hosts: ["a", "b", "c"].map(String::from).to_vec(), paths, ..Plan::default() }
    }

    fn frame(from: usize, to: usize, length: usize) -> Vec<u8> {
        let mut frame = [mac(End::PATH, to), mac(End::HOST, from)].concat();
        frame.resize(length, 7);
        frame
    }

    #[test]
    fn frames_leave_in_time_with_the_receivers_address() {
        let slow = PathSpec { delay: Delay::Constant(1000), ..PathSpec::one_way("a", "b") };
        let mut router = Forwarder::new(&plan(vec![slow])).unwrap();
        router.take(&frame(0, 1, 100), 100, 5);
        router.take(&frame(1, 0, 60), 60, 7);
        router.take(&frame(0, 1, 80), 80, 5);
        let mut due = Vec::new();
        router.due(6, 9, &mut due);
        assert_eq!((due.len(), router.next()), (0, Some(7)));
        router.due(1004, 9, &mut due);
        assert_eq!(due.iter().map(|d| d.at).collect::<Vec<_>>(), [7], "the way back does nothing");
        router.done(due[0], true);
        router.due(1005, 9, &mut due);
        assert_eq!(due.iter().map(|&d| router.frame(d).len()).collect::<Vec<_>>(), [100, 80], "in order");
        assert_eq!(router.frame(due[0])[..12], [mac(End::HOST, 1), mac(End::PATH, 0)].concat());
        router.done(due[0], true);
        router.done(due[1], false);
        let counts: Vec<&Counts> = router.counts().collect();
        let there = counts[0];
        assert_eq!((there.from.as_str(), there.to.as_str()), ("a", "b"));
        assert_eq!((there.packets_in, there.bytes_in, there.bytes_delivered), (2, 86 + 66, 86));
        assert_eq!((there.delivered, there.our_drops, there.held), (1, 1, 0));
        assert_eq!((counts[1].packets_in, counts[1].delivered), (1, 1));
    }

    #[test]
    fn a_corrupted_frame_differs_by_one_bit_of_its_ip_packet() {
        let bad = PathSpec { corrupt: 1.0, duplicate: 1.0, ..PathSpec::one_way("a", "b") };
        let mut router = Forwarder::new(&plan(vec![bad])).unwrap();
        let mut due = Vec::new();
        for _ in 0..200 {
            let sent = frame(0, 1, 60);
            router.take(&sent, 60, 1);
            router.due(1, 9, &mut due);
            assert_eq!(due.len(), 2, "the copy is as corrupted");
            for &one in &due {
                let got = router.frame(one);
                let turned: u32 = sent[12..].iter().zip(&got[12..]).map(|(a, b)| (a ^ b).count_ones()).sum();
                assert_eq!((turned, &got[12..ETHERNET]), (1, &sent[12..ETHERNET]));
                router.done(one, true);
            }
        }
        // A frame without a packet has no bit to turn.
        router.take(&frame(0, 1, ETHERNET), ETHERNET, 1);
        let there = router.counts().next().unwrap();
        assert_eq!((there.corrupted, there.duplicated, there.balanced()), (201, 201, true));
    }

    #[test]
    fn what_is_no_ones_is_left_and_what_is_too_long_is_told() {
        let mut router = Forwarder::new(&plan(vec![PathSpec::between("a", "b")])).unwrap();
        for other in
            [frame(0, 2, 60), frame(0, 0, 60), frame(0, 9, 60), vec![0xff; 60], vec![2, 0x53], vec![]]
        {
            router.take(&other, other.len(), 1);
        }
        assert_eq!((router.ignored, router.next()), (6, None));
        router.take(&frame(0, 1, 1515), 1515, 1);
        router.take(&frame(0, 1, 1514), 65_000, 1);
        router.take(&frame(0, 1, 1514), 1514, 1);
        assert_eq!((router.oversized, router.next()), (2, Some(1)));
        let there = router.counts().next().unwrap();
        assert_eq!((there.packets_in, there.our_drops, there.held), (3, 2, 1));
        assert!(there.balanced());
    }

    #[test]
    fn what_does_not_fit_into_memory_is_dropped_and_counted() {
        let far = PathSpec { delay: Delay::Constant(50_000_000_000), ..PathSpec::between("a", "b") };
        let mut router = Forwarder::new(&Plan { mtu: 65_535, ..plan(vec![far]) }).unwrap();
        router.held_max = 1 << 20;
        let large = frame(0, 1, 65_536);
        for _ in 0..16 + 3 {
            router.take(&large, large.len(), 1);
        }
        let there = router.counts().next().unwrap();
        assert_eq!((there.our_drops, there.held), (3, 16));
    }

    #[test]
    fn frames_damaged_anywhere_are_accounted_for() {
        let mut corpus = Vec::new();
        for (from, to) in [(0, 1), (1, 0), (2, 0), (1, 2)] {
            for length in [14, 40, 74, 75] {
                corpus.extend([length as u8, 3]);
                corpus.extend(frame(from, to, length));
            }
        }
        fuzz_frames(&corpus);
        for round in 0..5_000 {
            let mut draw = measure::Seed(5).draw("frames", round);
            let mut octets = corpus.clone();
            for _ in 0..=draw.below(20) {
                let at = draw.below(octets.len() as u64) as usize;
                octets[at] = draw.bits() as u8;
            }
            octets.truncate(draw.below(octets.len() as u64 + 1) as usize);
            fuzz_frames(&octets);
        }
    }
}
