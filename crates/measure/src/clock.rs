//! One clock for everything: CLOCK_MONOTONIC in nanoseconds.
//!
//! The kernel stamps received packets with CLOCK_REALTIME; [`Wall`] turns those stamps, and the
//! absolute start instant that a coordinator names, into the monotonic clock.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds: an instant of the monotonic clock, or a duration.
pub type Nanos = u64;

/// Nanoseconds in a second.
pub const SECOND: Nanos = 1_000_000_000;

fn read(id: ClockId) -> i128 {
    let t = clock_gettime(id);
    i128::from(t.tv_sec) * i128::from(SECOND) + i128::from(t.tv_nsec)
}

/// Now, on the monotonic clock.
pub fn now() -> Nanos {
    read(ClockId::Monotonic) as Nanos
}

/// Now, on the wall clock: nanoseconds since 1970-01-01T00:00:00Z.
pub fn wall() -> Nanos {
    read(ClockId::Realtime) as Nanos
}

/// Sleeps until an instant of the monotonic clock; a signal may end it early. How late a thread wakes is the machine's
/// doing: microseconds, tens of them in a virtual machine.
pub fn sleep_until(at: Nanos) {
    let at = Timespec { tv_sec: (at / SECOND) as i64, tv_nsec: (at % SECOND) as i64 };
    let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &at);
}

/// Processor time of the calling thread.
pub fn cpu() -> Nanos {
    read(ClockId::ThreadCPUTime) as Nanos
}

/// The offset between wall clock and monotonic clock at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wall {
    offset: i128,
}

impl Wall {
    /// Reads both clocks; of five tries the one with the shortest window counts, so that a
    /// preemption between the two readings does not become an error in every latency.
    pub fn read() -> Self {
        let mut best = (u64::MAX, 0);
        for _ in 0..5 {
            let before = read(ClockId::Monotonic);
            let wall = read(ClockId::Realtime);
            let after = read(ClockId::Monotonic);
            let window = (after - before) as u64;
            if window < best.0 {
                best = (window, wall - (before + after) / 2);
            }
        }
        Self { offset: best.1 }
    }

    /// The monotonic instant of a wall-clock instant (zero where it lies before the boot).
    pub fn to_monotonic(self, wall: Nanos) -> Nanos {
        (i128::from(wall) - self.offset).max(0) as Nanos
    }

    /// The wall-clock instant of a monotonic one.
    pub fn to_wall(self, monotonic: Nanos) -> Nanos {
        (i128::from(monotonic) + self.offset) as Nanos
    }

    /// How far the wall clock was stepped or slewed between two readings, in nanoseconds.
    pub fn drift(self, later: Self) -> i64 {
        (later.offset - self.offset) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_goes_there_and_back() {
        let wall = Wall::read();
        let t = now();
        assert_eq!(wall.to_monotonic(wall.to_wall(t)), t);
        assert!(wall.drift(Wall::read()).abs() < 50_000_000, "two readings in a row disagree");
    }
}
