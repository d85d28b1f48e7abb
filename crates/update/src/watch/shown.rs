//! The values that servers show now, for another thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The newest marker of each server; 0 where it has shown none.
#[derive(Debug)]
pub(crate) struct Shown {
    newest: Vec<AtomicU64>,
    left: AtomicBool,
}

impl Shown {
    pub fn of(servers: usize) -> Self {
        Self { newest: (0..servers).map(|_| AtomicU64::new(0)).collect(), left: AtomicBool::new(false) }
    }

    pub fn set(&self, server: usize, marker: u64) {
        if let Some(newest) = self.newest.get(server) {
            newest.store(marker, Ordering::Relaxed);
        }
    }

    /// The least value that all of them show.
    pub fn least(&self) -> u64 {
        self.newest.iter().map(|newest| newest.load(Ordering::Relaxed)).min().unwrap_or(0)
    }

    /// Ends the watch.
    pub fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Whether nobody looks any more.
    pub fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_servers_show_the_least_of_them() {
        let shown = Shown::of(2);
        shown.set(0, 7);
        assert_eq!(shown.least(), 0);
        shown.set(1, 5);
        shown.set(9, 1);
        assert_eq!((shown.least(), shown.has_left()), (5, false));
        shown.leave();
        assert!(shown.has_left() && Shown::of(0).least() == 0);
    }
}
