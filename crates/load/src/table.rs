//! Which queries of a flow are in flight: a window over its ids, sized once.
//!
//! Ids go up by one from a random start, so the place of an id is its offset from the start modulo the window, and no
//! search or hashing is needed. An id is free again only when all older ones are answered or lost; a window that
//! holds twice what a flow sends within the deadline therefore never runs full at the planned rate.

use crate::recorder::Class;
use measure::Nanos;

/// The state of the query in one place of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// None was sent here yet.
    #[default]
    Free,
    /// Waiting for its answer.
    Flight,
    /// Answered within the deadline.
    Answered,
    /// Answered after the deadline.
    Late,
    /// Not answered within the deadline.
    Lost,
    /// The kernel refused to send it.
    Refused,
}

/// One query.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    /// When it was sent; until then, when it was intended.
    pub sent: Nanos,
    /// How long after its intended time it was sent, in nanoseconds.
    pub behind: u32,
    /// The lower half of the question's hash.
    pub hash: u32,
    pub id: u16,
    pub state: State,
    /// Part of the warm-up: not counted.
    pub quiet: bool,
    pub class: Class,
}

/// The window of one flow.
pub(crate) struct Window {
    entries: Box<[Entry]>,
    start: u16,
    head: u64,
    tail: u64,
}

impl Window {
    /// A window of `slots` ids, a power of two up to 65,536.
    pub(crate) fn new(slots: usize, start: u16) -> Self {
        assert!(slots.is_power_of_two() && slots <= 1 << 16, "ids wrap at a multiple of the window");
        // An entry that is not all zeroes makes the memory be touched now, not by page faults while it runs.
        let entry = Entry { sent: 1, ..Entry::default() };
        Self { entries: vec![entry; slots].into(), start, head: 0, tail: 0 }
    }

    fn place(&self, n: u64) -> usize {
        (n & (self.entries.len() as u64 - 1)) as usize
    }

    /// Takes the next id, where there is a free one.
    pub(crate) fn take(&mut self, intended: Nanos, hash: u32, quiet: bool, class: Class) -> Option<u16> {
        if self.head - self.tail == self.entries.len() as u64 {
            return None;
        }
        let id = self.start.wrapping_add(self.head as u16);
        let place = self.place(self.head);
        self.entries[place] =
            Entry { sent: intended, behind: 0, hash, id, state: State::Flight, quiet, class };
        self.head += 1;
        Some(id)
    }

    /// The query that has this id, or last had it.
    pub(crate) fn get(&mut self, id: u16) -> Option<&mut Entry> {
        let place = self.place(u64::from(id.wrapping_sub(self.start)));
        Some(&mut self.entries[place]).filter(|e| e.id == id && e.state != State::Free)
    }

    /// Frees the oldest ids up to the first that still waits. Those sent at `expired` or before are given up as lost,
    /// and shown to `lost`.
    pub(crate) fn advance(&mut self, expired: Option<Nanos>, lost: &mut impl FnMut(&Entry)) {
        while self.tail < self.head {
            let place = self.place(self.tail);
            let entry = &mut self.entries[place];
            if entry.state == State::Flight {
                if expired.is_none_or(|t| entry.sent > t) {
                    return;
                }
                entry.state = State::Lost;
                lost(entry);
            }
            self.tail += 1;
        }
    }

    /// The queries still in flight, in the order of sending.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = &Entry> {
        (self.tail..self.head).map(|n| &self.entries[self.place(n)]).filter(|e| e.state == State::Flight)
    }

    /// Memory of the window in bytes.
    pub(crate) fn bytes(&self) -> usize {
        std::mem::size_of_val(&*self.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_wrap_and_a_full_window_gives_none() {
        let mut w = Window::new(4, 65_534);
        let ids: Vec<_> = (0..5).map(|n| w.take(n, 0, false, Class::Measured)).collect();
        assert_eq!(ids, [Some(65_534), Some(65_535), Some(0), Some(1), None]);
        w.get(65_534).unwrap().state = State::Answered;
        w.get(0).unwrap().state = State::Answered;
        w.advance(None, &mut |_| ());
        assert_eq!(
            [w.take(9, 0, false, Class::Measured), w.take(9, 0, false, Class::Measured)],
            [Some(2), None],
            "an older id still waits"
        );
        assert!(w.get(65_534).is_none(), "its place belongs to another id now");
        assert!(w.get(7).is_none());
    }

    #[test]
    fn what_waits_too_long_is_lost_once() {
        let mut w = Window::new(8, 0);
        for n in 0..6 {
            w.take(n * 10, 0, false, Class::Measured).unwrap();
        }
        w.get(1).unwrap().state = State::Answered;
        let mut lost = Vec::new();
        w.advance(Some(30), &mut |e| lost.push(e.id));
        w.advance(Some(30), &mut |e| lost.push(e.id));
        assert_eq!(lost, [0, 2, 3]);
        assert_eq!(w.in_flight().map(|e| e.id).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(w.bytes(), 8 * std::mem::size_of::<Entry>());
    }
}
