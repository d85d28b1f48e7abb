//! The outcome of each message, decided without a clock or a socket: who calls says what happened and when.

use super::tally::{Second, Tally};
use crate::tsig::Mac;
use engine::in_flight::{Entry, State, Window};
use measure::Nanos;
use std::collections::HashMap;

/// A message that was sent, or is in the batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    pub state: State,
    pub id: u16,
    /// The message's number, from 0, in the order of sending.
    pub number: u64,
    pub intended: Nanos,
    /// When it was first sent; until then, never.
    pub sent: Nanos,
    pub transactions: u32,
    pub records: u32,
    pub sends: u32,
    /// The marker's place in the list, where it is one.
    pub marker: Option<u32>,
    pub mac: Mac,
    /// Kept for retries: the message as it was sent, and hashes of its owners.
    pub bytes: Vec<u8>,
    pub names: Vec<u64>,
}

impl Entry for Slot {
    fn id(&self) -> u16 {
        self.id
    }

    fn state(&self) -> State {
        self.state
    }

    fn sent(&self) -> Nanos {
        self.sent
    }

    fn begin(&mut self, id: u16) {
        (self.id, self.state) = (id, State::Flight);
        (self.sent, self.sends, self.marker) = (Nanos::MAX, 0, None);
        self.names.clear();
        self.bytes.clear();
    }

    fn lose(&mut self) {
        self.state = State::Lost;
    }
}

/// A message that may be repeated soon.
#[derive(Clone, Copy, Debug)]
struct Repeat {
    at: Nanos,
    client: u32,
    id: u16,
    number: u64,
}

/// The messages of an owner that are in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Owner {
    /// The last one that was sent.
    last: u64,
    in_flight: u32,
}

/// A message to be sent again.
#[derive(Debug)]
pub(super) struct Again<'a> {
    pub client: u32,
    pub id: u16,
    pub bytes: &'a [u8],
}

/// All messages in flight.
#[derive(Debug)]
pub(super) struct Flight {
    windows: Vec<Window<Slot>>,
    deadline: Nanos,
    /// Time between two sends of a message; none: it is sent once.
    repeat: Option<Nanos>,
    retries: u32,
    repeats: std::collections::VecDeque<Repeat>,
    owners: HashMap<u64, Owner>,
    in_flight: u64,
    next: u64,
    paced: bool,
    pub tally: Tally,
    pub second: Second,
}

/// A message that is done with: for the file of latencies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    pub number: u64,
    pub client: u32,
    pub intended: Nanos,
    pub sent: Nanos,
    /// When it was answered, and by which code; none: it is lost.
    pub answered: Option<(Nanos, u16)>,
    pub sends: u32,
    pub transactions: u32,
    pub records: u32,
    pub marker: Option<u32>,
}

impl Fate {
    fn of(slot: &Slot, client: u32, answered: Option<(Nanos, u16)>) -> Self {
        let Slot { number, intended, sent, sends, transactions, records, marker, .. } = *slot;
        Self { number, client, intended, sent, answered, sends, transactions, records, marker }
    }
}

impl Flight {
    /// Windows of so many ids for each client, which begin where `ids` says; where there is no pace, the intended time of a message
    /// is that of its sending.
    pub fn new(windows: &[(usize, u16)], deadline: Nanos, retries: u32, paced: bool) -> Self {
        Self {
            windows: windows
                .iter()
                .map(|&(slots, start)| Window::new(slots, start, Slot::default()))
                .collect(),
            deadline,
            repeat: (retries > 0).then(|| (deadline / u64::from(retries + 1)).max(1)),
            retries,
            repeats: std::collections::VecDeque::new(),
            owners: HashMap::new(),
            in_flight: 0,
            next: 0,
            paced,
            tally: Tally::default(),
            second: Second::default(),
        }
    }

    /// Messages that wait for their answers.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Memory of the windows in bytes; what retries keep comes on top.
    pub fn table_bytes(&self) -> usize {
        self.windows.iter().map(Window::bytes).sum()
    }

    /// Takes an id of a client for a message, whose slot is to be filled; `None` where all are in use. After it comes
    /// [`Self::sent`] or [`Self::refused`].
    pub fn claim(&mut self, client: u32, intended: Nanos, each: &mut dyn FnMut(&Fate)) -> Option<&mut Slot> {
        if self.windows[client as usize].is_full() {
            // The ids of answered messages are collected only when they are needed.
            self.collect(client, None, each);
        }
        let slot = self.windows[client as usize].take()?;
        (slot.number, slot.intended) = (self.next, intended);
        self.next += 1;
        Some(slot)
    }

    /// Whether messages are kept, to be sent again.
    pub fn keeps(&self) -> bool {
        self.repeat.is_some()
    }

    /// The message was handed to the kernel at `at`, `octets` long.
    pub fn sent(&mut self, client: u32, id: u16, at: Nanos, octets: usize) {
        let Some(slot) = self.windows[client as usize].get(id) else { return };
        self.tally.bytes_sent += octets as u64;
        slot.sends += 1;
        let number = slot.number;
        if slot.sends > 1 {
            self.tally.retried += 1;
            self.tally.applied_twice_possible += u64::from(slot.sends == 2);
        } else {
            slot.sent = at;
            if !self.paced && slot.marker.is_none() {
                slot.intended = at;
            }
            self.in_flight += 1;
            let behind = at.saturating_sub(slot.intended);
            if slot.marker.is_none() {
                self.tally.sent += 1;
                self.tally.transactions.sent += u64::from(slot.transactions);
                self.tally.records.sent += u64::from(slot.records);
                self.second.sent += 1;
                if self.paced {
                    self.tally.pacing_error.record(behind);
                    self.second.pacing.record(behind);
                }
            }
            for &name in &slot.names {
                let owner = self.owners.entry(name).or_default();
                *owner = Owner { last: number, in_flight: owner.in_flight + 1 };
            }
        }
        if let Some(wait) = self.repeat.filter(|_| !slot.bytes.is_empty() && slot.sends <= self.retries) {
            self.repeats.push_back(Repeat { at: at + wait, client, id, number });
        }
    }

    /// The kernel refused the message.
    pub fn refused(&mut self, client: u32, id: u16) {
        let Some(slot) = self.windows[client as usize].get(id).filter(|s| s.sends == 0) else { return };
        slot.state = State::Refused;
        self.tally.unsent_refused += u64::from(slot.marker.is_none());
        self.second.unsent += 1;
    }

    /// The slot of an id, where it was ever used.
    pub fn slot(&mut self, client: u32, id: u16) -> Option<&mut Slot> {
        self.windows[client as usize].get(id)
    }

    /// An answer with this code, known to be that of the slot's message, arrived at `at`.
    pub fn answered(&mut self, client: u32, id: u16, at: Nanos, code: u16, each: &mut dyn FnMut(&Fate)) {
        let Some(slot) = self.windows[client as usize].get(id) else { return };
        let service = at.saturating_sub(slot.sent);
        match slot.state {
            State::Flight if service <= self.deadline => {
                slot.state = State::Answered;
                self.in_flight -= 1;
                let latency = at.saturating_sub(slot.intended);
                let tally = &mut self.tally;
                if slot.marker.is_none() {
                    tally.acknowledged += 1;
                    tally.transactions.acknowledged += u64::from(slot.transactions);
                    tally.records.acknowledged += u64::from(slot.records);
                    if code == 0 {
                        tally.accepted += 1;
                        tally.transactions.accepted += u64::from(slot.transactions);
                        tally.records.accepted += u64::from(slot.records);
                        self.second.accepted += 1;
                    }
                    tally.codes[usize::from(code).min(tally.codes.len() - 1)] += 1;
                    tally.latency.record(latency);
                    tally.service_latency.record(service);
                    self.second.acknowledged += 1;
                    self.second.latency.record(latency);
                }
                let fate = Fate::of(slot, client, Some((at, code)));
                let names = std::mem::take(&mut slot.names);
                self.forget(&names);
                each(&fate);
            }
            State::Flight => {
                let fate = Fate::of(slot, client, None);
                slot.state = State::Late;
                let names = std::mem::take(&mut slot.names);
                self.give_up(&fate, &names, each);
                self.tally.late += u64::from(fate.marker.is_none());
            }
            State::Lost => {
                slot.state = State::Late;
                self.tally.late += u64::from(slot.marker.is_none());
            }
            State::Answered | State::Late => self.tally.duplicates += 1,
            State::Free | State::Refused => self.tally.unexpected += 1,
        }
    }

    fn forget(&mut self, names: &[u64]) {
        for name in names {
            if let Some(owner) = self.owners.get_mut(name) {
                owner.in_flight -= 1;
                if owner.in_flight == 0 {
                    self.owners.remove(name);
                }
            }
        }
    }

    fn give_up(&mut self, fate: &Fate, names: &[u64], each: &mut dyn FnMut(&Fate)) {
        self.in_flight -= 1;
        self.tally.lost += u64::from(fate.marker.is_none());
        self.second.lost += u64::from(fate.marker.is_none());
        self.forget(names);
        each(fate);
    }

    /// Frees a client's oldest ids up to the first that still waits; those sent at `expired` or before are given up.
    fn collect(&mut self, client: u32, expired: Option<Nanos>, each: &mut dyn FnMut(&Fate)) {
        let mut lost = Vec::new();
        self.windows[client as usize].advance(expired, &mut |slot| {
            lost.push((Fate::of(slot, client, None), std::mem::take(&mut slot.names)));
        });
        lost.iter().for_each(|(fate, names)| self.give_up(fate, names, each));
    }

    /// Gives up what was sent more than the deadline before `now`.
    pub fn expire(&mut self, now: Nanos, each: &mut dyn FnMut(&Fate)) {
        let Some(expired) = now.checked_sub(self.deadline + 1) else { return };
        (0..self.windows.len() as u32).for_each(|client| self.collect(client, Some(expired), each));
    }

    /// When the next message is to be sent again, if it is not answered.
    pub fn next_repeat(&self) -> Option<Nanos> {
        self.repeats.front().map(|r| r.at)
    }

    /// The next message that is to be sent again at `now`. One of whose owners another message was sent meanwhile is not: it would
    /// undo that.
    pub fn again(&mut self, now: Nanos) -> Option<Again<'_>> {
        loop {
            let repeat = *self.repeats.front().filter(|r| r.at <= now)?;
            self.repeats.pop_front();
            let window = &mut self.windows[repeat.client as usize];
            let Some(slot) = window.get(repeat.id) else { continue };
            if slot.state != State::Flight || slot.number != repeat.number {
                continue;
            }
            if slot
                .names
                .iter()
                .any(|name| self.owners.get(name).is_some_and(|owner| owner.last != repeat.number))
            {
                self.tally.superseded += 1;
                continue;
            }
            let slot = self.windows[repeat.client as usize].get(repeat.id)?;
            return Some(Again { client: repeat.client, id: repeat.id, bytes: &slot.bytes });
        }
    }

    /// Ends: what waits within its deadline at `now` is in flight, the rest lost.
    pub fn finish(&mut self, now: Nanos, each: &mut dyn FnMut(&Fate)) {
        self.expire(now, each);
        let waiting = self.windows.iter().flat_map(Window::in_flight);
        let waiting = waiting.filter(|slot| slot.sends > 0 && slot.marker.is_none());
        self.tally.in_flight = waiting.count() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn flight(retries: u32) -> Flight {
        Flight::new(&[(4, 65_534)], 100 * MS, retries, true)
    }

    fn send(f: &mut Flight, at: Nanos, names: &[u64]) -> Option<u16> {
        let slot = f.claim(0, at, &mut |_| ())?;
        (slot.transactions, slot.records) = (2, 3);
        slot.names.extend_from_slice(names);
        slot.bytes.push(1);
        let id = slot.id;
        f.sent(0, id, at, 50);
        Some(id)
    }

    #[test]
    fn each_message_has_one_fate() {
        let mut f = flight(0);
        let ids: Vec<_> = (0..5).map(|n| send(&mut f, n * MS, &[])).collect();
        assert_eq!(ids, [Some(65_534), Some(65_535), Some(0), Some(1), None], "ids wrap, and are bounded");
        let mut fates = Vec::new();
        f.answered(0, 65_534, 5 * MS, 0, &mut |fate| fates.push(fate.answered));
        f.answered(0, 65_534, 6 * MS, 0, &mut |_| panic!("a second answer"));
        f.answered(0, 65_535, 7 * MS, 5, &mut |fate| fates.push(fate.answered));
        f.answered(0, 0, 500 * MS, 0, &mut |fate| fates.push(fate.answered));
        f.expire(500 * MS, &mut |fate| fates.push(fate.answered));
        f.answered(0, 1, 501 * MS, 0, &mut |_| panic!("it was given up"));
        assert_eq!(fates, [Some((5 * MS, 0)), Some((7 * MS, 5)), None, None]);
        f.answered(0, 77, 501 * MS, 0, &mut |_| panic!("nobody sent it"));
        let t = &f.tally;
        assert_eq!((t.sent, t.acknowledged, t.accepted, t.lost, t.late, t.duplicates), (4, 2, 1, 2, 2, 1));
        assert_eq!((t.transactions.sent, t.transactions.accepted, t.records.acknowledged), (8, 2, 6));
        assert_eq!((t.codes[0], t.codes[5], t.latency.count(), f.in_flight()), (1, 1, 2, 0));
        assert!(send(&mut f, 600 * MS, &[]).is_some(), "ids are free again");
        f.finish(601 * MS, &mut |_| ());
        assert_eq!(f.tally.in_flight, 1);
    }

    #[test]
    fn what_is_not_answered_is_sent_again_unless_another_came_after_it() {
        let mut f = flight(3);
        let first = send(&mut f, 0, &[10]).unwrap();
        let second = send(&mut f, MS, &[20, 21]).unwrap();
        assert_eq!(f.next_repeat(), Some(25 * MS));
        assert!(f.again(24 * MS).is_none());
        let again = f.again(25 * MS).unwrap();
        assert_eq!((again.id, again.bytes), (first, &[1][..]));
        f.sent(0, first, 25 * MS, 50);
        // Of one of the second's owners something newer is under way.
        let third = send(&mut f, 20 * MS, &[21]).unwrap();
        assert!(f.again(40 * MS).is_none());
        assert_eq!((f.tally.superseded, f.tally.retried, f.tally.applied_twice_possible), (1, 1, 1));
        f.answered(0, third, 41 * MS, 0, &mut |_| ());
        f.answered(0, second, 42 * MS, 0, &mut |_| ());
        f.answered(0, first, 43 * MS, 0, &mut |_| ());
        assert!(f.again(1000 * MS).is_none() && f.owners.is_empty());
        assert_eq!((f.tally.sent, f.tally.acknowledged, f.tally.lost), (3, 3, 0));
    }

    #[test]
    fn retries_end() {
        let mut f = flight(3);
        let id = send(&mut f, 0, &[1]).unwrap();
        for n in 1..=3 {
            let at = n * 25 * MS;
            assert_eq!(f.again(at).map(|a| a.id), Some(id), "retry {n}");
            f.sent(0, id, at, 50);
        }
        assert!(f.again(10_000 * MS).is_none());
        f.expire(101 * MS, &mut |_| ());
        assert_eq!((f.tally.retried, f.tally.applied_twice_possible, f.tally.lost), (3, 1, 1));
    }
}
