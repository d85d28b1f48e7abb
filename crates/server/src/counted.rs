//! A server's own counters.

use measure::Metric;
use measure::metrics;

/// A server's own counters since its start; none of what it does not tell.
///
/// They hold every message it met: those of probes for readiness, of a warm-up and of a validation too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Queries received over UDP.
    pub udp: Option<u64>,
    /// Queries received over TCP.
    pub tcp: Option<u64>,
    /// Answers sent, over both.
    pub answers: Option<u64>,
    /// Answers sent with TC set.
    pub truncated: Option<u64>,
    /// Queries received and given up without an answer, for whatever reason it knows.
    pub dropped: Option<u64>,
}

impl Counted {
    /// Queries received over UDP and TCP together; none where it tells of neither.
    pub fn queries(&self) -> Option<u64> {
        match (self.udp, self.tcp) {
            (None, None) => None,
            (udp, tcp) => Some(udp.unwrap_or(0) + tcp.unwrap_or(0)),
        }
    }

    /// The counters that it has, as metrics.
    pub fn metrics(&self) -> impl Iterator<Item = Metric> {
        [
            (metrics::SERVER_COUNTED_QUERIES, self.queries()),
            (metrics::SERVER_COUNTED_UDP, self.udp),
            (metrics::SERVER_COUNTED_TCP, self.tcp),
            (metrics::SERVER_COUNTED_ANSWERS, self.answers),
            (metrics::SERVER_COUNTED_TRUNCATED, self.truncated),
            (metrics::SERVER_COUNTED_DROPPED, self.dropped),
        ]
        .into_iter()
        .filter_map(|(metric, value)| Some(metric.count(value?)))
    }
}

/// The sum of what is known of these; none where nothing is.
pub(crate) fn sum(parts: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    parts.into_iter().flatten().reduce(|a, b| a.saturating_add(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_told_becomes_a_metric() {
        let none = Counted::default();
        assert_eq!((none.queries(), none.metrics().count()), (None, 0));
        let some = Counted { udp: Some(3), tcp: Some(2), truncated: Some(0), ..none };
        let names = [
            "server_counted_queries",
            "server_counted_udp",
            "server_counted_tcp",
            "server_counted_truncated",
        ];
        let wanted: Vec<Metric> =
            names.into_iter().zip([5.0, 3.0, 2.0, 0.0]).map(|(name, n)| Metric::new(name, "1", n)).collect();
        assert_eq!(some.metrics().collect::<Vec<_>>(), wanted);
        assert_eq!(Counted { tcp: Some(7), ..none }.queries(), Some(7));
        assert_eq!((sum([None, Some(2), Some(3)]), sum([None, None])), (Some(5), None));
    }
}
