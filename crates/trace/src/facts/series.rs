//! Counts over time, in windows of equal length, in bounded memory.

use measure::Nanos;

/// The most windows: where a trace is longer, two become one, and again.
const WINDOWS_MAX: usize = 1 << 18;

/// The events that are counted in each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Queries over UDP.
    Udp,
    /// Queries over TCP.
    Tcp,
    /// Responses.
    Responses,
    /// Of them, with NXDOMAIN.
    Nxdomain,
    /// Of them, truncated.
    Truncated,
    /// Queries over TCP after a truncated answer.
    Retried,
    /// TCP connections that began.
    Connections,
    /// Of them, those of which there was a DNS message.
    WithDns,
}

/// How many lines there are.
const LINES: usize = 8;

/// Counts by window, from the first packet of the trace on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    origin: Nanos,
    window: Nanos,
    windows: Vec<[u32; LINES]>,
}

impl Series {
    /// Windows of `window` nanoseconds from `origin` on.
    pub fn new(origin: Nanos, window: Nanos) -> Self {
        Self { origin, window: window.max(1), windows: Vec::new() }
    }

    /// Makes windows long enough for a trace that ends at `last`, however little happens in it.
    pub fn cover(&mut self, last: Nanos) {
        while last.saturating_sub(self.origin) / self.window >= WINDOWS_MAX as u64 {
            self.coarsen();
        }
    }

    /// Counts one at a time; what was captured before the first packet counts in the first window.
    pub fn add(&mut self, line: Line, at: Nanos) {
        let mut index = at.saturating_sub(self.origin) / self.window;
        if index >= WINDOWS_MAX as u64 {
            self.cover(at);
            index = at.saturating_sub(self.origin) / self.window;
        }
        let index = index as usize;
        if index >= self.windows.len() {
            self.windows.resize(index + 1, [0; LINES]);
        }
        let count = &mut self.windows[index][line as usize];
        *count = count.saturating_add(1);
    }

    /// Makes one of each two windows.
    fn coarsen(&mut self) {
        let sum = |pair: &[[u32; LINES]]| {
            let mut sum = pair[0];
            pair[1..].iter().for_each(|w| sum.iter_mut().zip(w).for_each(|(s, n)| *s = s.saturating_add(*n)));
            sum
        };
        self.windows = self.windows.chunks(2).map(sum).collect();
        self.window *= 2;
    }

    /// Adds another part of the same trace.
    pub fn merge(&mut self, mut other: Self) {
        while self.window < other.window {
            self.coarsen();
        }
        while other.window < self.window {
            other.coarsen();
        }
        if self.windows.len() < other.windows.len() {
            self.windows.resize(other.windows.len(), [0; LINES]);
        }
        for (mine, theirs) in self.windows.iter_mut().zip(&other.windows) {
            mine.iter_mut().zip(theirs).for_each(|(sum, n)| *sum = sum.saturating_add(*n));
        }
    }

    /// When the first window begins, in nanoseconds since 1970.
    pub fn origin(&self) -> Nanos {
        self.origin
    }

    /// How long a window is, in nanoseconds: what was asked for, doubled while there were too many.
    pub fn window(&self) -> Nanos {
        self.window
    }

    /// The counts of a line, as long as there was anything.
    pub fn line(&self, line: Line) -> impl Iterator<Item = u32> + '_ {
        self.windows.iter().map(move |w| w[line as usize])
    }

    /// Queries over UDP and TCP in each window that was over when the trace ended at `last`, which is covered.
    pub fn queries(&self, last: Nanos) -> Vec<u64> {
        let mut all: Vec<u64> = self
            .line(Line::Udp)
            .zip(self.line(Line::Tcp))
            .map(|(a, b)| u64::from(a) + u64::from(b))
            .collect();
        all.resize((last.saturating_sub(self.origin) / self.window) as usize, 0);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_counted_and_joined() {
        let mut series = Series::new(1000, 10);
        for at in [1000, 1009, 1010, 1035, 7] {
            series.add(Line::Udp, at);
        }
        assert_eq!(series.queries(1045), [3, 1, 0, 1]);
        assert_eq!(series.queries(1039), [3, 1, 0], "the last window is not over");
        assert!(Series::new(0, 10).queries(5).is_empty());
        let mut other = Series::new(1000, 10);
        other.add(Line::Udp, 1000 + 10 * WINDOWS_MAX as u64);
        assert_eq!(other.window(), 20);
        series.merge(other);
        assert_eq!((series.window(), series.windows.len()), (20, WINDOWS_MAX / 2 + 1));
        assert_eq!(series.line(Line::Udp).take(2).collect::<Vec<_>>(), [4, 1]);
        // A time that is far off makes windows longer, not memory larger.
        series.add(Line::Udp, u64::MAX);
        assert!(series.windows.len() <= WINDOWS_MAX);
        assert_eq!(series.line(Line::Udp).map(u64::from).sum::<u64>(), 7);
        // Nor does an end that is far off, where nothing happens on the way.
        let mut short = Series::new(1000, 10);
        short.add(Line::Udp, 1000);
        short.cover(u64::MAX);
        assert!(short.queries(u64::MAX).len() < WINDOWS_MAX);
    }
}
