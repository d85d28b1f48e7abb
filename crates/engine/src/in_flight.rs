//! Which messages of a flow are in flight: a window over its ids, sized once.
//!
//! Ids go up by one from a random start, so the place of an id is its offset from the start modulo the window, and no search or hashing is
//! needed. An id is free again only when all older ones are answered or lost; a window that holds twice what a flow sends within the
//! deadline therefore never runs full at the planned rate.

use measure::Nanos;

/// The state of the message in one place of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
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

/// A message in a window.
pub trait Entry: Clone {
    /// Its id.
    fn id(&self) -> u16;

    /// Its state.
    fn state(&self) -> State;

    /// When it was sent. Until it is sent, an instant that is not yet over.
    fn sent(&self) -> Nanos;

    /// It has this id from now on, and is in flight.
    fn begin(&mut self, id: u16);

    /// It is lost.
    fn lose(&mut self);
}

/// The window of one flow.
#[derive(Debug)]
pub struct Window<E> {
    entries: Box<[E]>,
    start: u16,
    head: u64,
    tail: u64,
}

impl<E: Entry> Window<E> {
    /// A window of `slots` ids, a power of two up to 65,536, the first of which is `start`. An `empty` entry that is not all zeroes makes
    /// the memory be touched now, not by page faults while it runs.
    pub fn new(slots: usize, start: u16, empty: E) -> Self {
        assert!(slots.is_power_of_two() && slots <= 1 << 16, "ids wrap at a multiple of the window");
        Self { entries: vec![empty; slots].into(), start, head: 0, tail: 0 }
    }

    fn place(&self, n: u64) -> usize {
        (n & (self.entries.len() as u64 - 1)) as usize
    }

    /// Whether all ids are in use.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.head - self.tail == self.entries.len() as u64
    }

    /// Takes the next id, where there is a free one; the caller fills the entry.
    #[inline]
    pub fn take(&mut self) -> Option<&mut E> {
        if self.is_full() {
            return None;
        }
        let id = self.start.wrapping_add(self.head as u16);
        let place = self.place(self.head);
        self.head += 1;
        let entry = &mut self.entries[place];
        entry.begin(id);
        Some(entry)
    }

    /// The message that has this id, or last had it.
    #[inline]
    pub fn get(&mut self, id: u16) -> Option<&mut E> {
        let place = self.place(u64::from(id.wrapping_sub(self.start)));
        Some(&mut self.entries[place]).filter(|e| e.id() == id && e.state() != State::Free)
    }

    /// Frees the oldest ids up to the first that still waits. Those sent at `expired` or before are given up as lost,
    /// and shown to `lost`.
    pub fn advance(&mut self, expired: Option<Nanos>, lost: &mut impl FnMut(&mut E)) {
        while self.tail < self.head {
            let place = self.place(self.tail);
            let entry = &mut self.entries[place];
            if entry.state() == State::Flight {
                if expired.is_none_or(|t| entry.sent() > t) {
                    return;
                }
                entry.lose();
                lost(entry);
            }
            self.tail += 1;
        }
    }

    /// The messages still in flight, in the order of sending.
    pub fn in_flight(&self) -> impl Iterator<Item = &E> {
        (self.tail..self.head).map(|n| &self.entries[self.place(n)]).filter(|e| e.state() == State::Flight)
    }

    /// Memory of the window in bytes.
    pub fn bytes(&self) -> usize {
        std::mem::size_of_val(&*self.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, Default)]
    struct Message {
        id: u16,
        state: State,
        sent: Nanos,
    }

    impl Entry for Message {
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
        }
        fn lose(&mut self) {
            self.state = State::Lost;
        }
    }

    fn take(w: &mut Window<Message>, at: Nanos) -> Option<u16> {
        let entry = w.take()?;
        entry.sent = at;
        Some(entry.id)
    }

    #[test]
    fn ids_wrap_and_a_full_window_gives_none() {
        let mut w = Window::new(4, 65_534, Message::default());
        let ids: Vec<_> = (0..5).map(|n| take(&mut w, n)).collect();
        assert_eq!(ids, [Some(65_534), Some(65_535), Some(0), Some(1), None]);
        w.get(65_534).unwrap().state = State::Answered;
        w.get(0).unwrap().state = State::Answered;
        w.advance(None, &mut |_| ());
        assert_eq!([take(&mut w, 9), take(&mut w, 9)], [Some(2), None], "an older id still waits");
        assert!(w.get(65_534).is_none(), "its place belongs to another id now");
        assert!(w.get(7).is_none());
    }

    #[test]
    fn what_waits_too_long_is_lost_once() {
        let mut w = Window::new(8, 0, Message::default());
        for n in 0..6 {
            take(&mut w, n * 10).unwrap();
        }
        w.get(1).unwrap().state = State::Answered;
        let mut lost = Vec::new();
        w.advance(Some(30), &mut |e| lost.push(e.id));
        w.advance(Some(30), &mut |e| lost.push(e.id));
        assert_eq!(lost, [0, 2, 3]);
        assert_eq!(w.in_flight().map(|e| e.id).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(w.bytes(), 8 * size_of::<Message>());
    }
}
