//! The result of a load: the object that `load run --json` prints, a role sends back, and an experiment keeps.

use crate::check::CheckResult;
use crate::{Counts, Signs, Tally};
use measure::metrics::{self, Scope};
use measure::{Histogram, Latency, Metric, Named, Nanos, Outcome, PacingError, Reason, Timeline, Validity};
use net::transport::Connections;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The distributions behind the percentiles: nanoseconds, and octets of answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Histograms {
    /// From the intended time.
    pub latency: Histogram,
    /// From the send.
    pub service_latency: Histogram,
    /// From the intended time to the send.
    pub pacing_error: Histogram,
    /// Octets of DNS of the answers in time.
    #[serde(default)]
    pub answer_size: Histogram,
}

/// The octets of DNS of the answers in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AnswerSizes {
    /// Median.
    pub p50: u64,
    /// 90 % are at most as long.
    pub p90: u64,
    /// 99 % are at most as long.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

impl AnswerSizes {
    /// Of a distribution of octets; zeroes where it is empty.
    pub(crate) fn of(sizes: &Histogram) -> Self {
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|q| sizes.quantile(q));
        Self { p50, p90, p99, max: sizes.max() }
    }
}

/// Traffic beside the measured one: an attack, or retries over TCP. Counted by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Its queries by outcome.
    #[serde(flatten)]
    pub counts: Counts,
    /// From the intended time (of a retry: when the truncated answer came) to the answer.
    pub latency_us: Latency,
    /// From the send to the answer.
    pub service_latency_us: Latency,
    /// The distribution behind `latency_us`, nanoseconds.
    pub latency: Histogram,
    /// The distribution behind `service_latency_us`, nanoseconds.
    pub service_latency: Histogram,
}

impl Part {
    /// The counts of a tally over `length`.
    pub(crate) fn new(tally: &Tally, offered: u64, length: Nanos) -> Self {
        Self {
            counts: Counts::new(tally, offered, length),
            latency_us: Latency::of(&tally.latency),
            service_latency_us: Latency::of(&tally.service_latency),
            latency: tally.latency.clone(),
            service_latency: tally.service_latency.clone(),
        }
    }

    /// Adds another part, but for the rates: [`Counts::set_rates`] when all are added.
    pub(crate) fn merge(&mut self, other: Self) {
        let Self { counts, latency_us: _, service_latency_us: _, latency, service_latency } = other;
        self.counts.merge(counts);
        self.latency.merge(&latency);
        self.service_latency.merge(&service_latency);
        self.latency_us = Latency::of(&self.latency);
        self.service_latency_us = Latency::of(&self.service_latency);
    }
}

/// TCP connections by outcome, those of the warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpResult {
    /// The counts. Queries that were cut off are among the lost.
    #[serde(flatten)]
    pub counts: Connections,
    /// From the SYN to the end of the handshake.
    pub handshake_us: Latency,
    /// The distribution behind it, nanoseconds.
    pub handshake: Histogram,
}

impl TcpResult {
    pub(crate) fn new(counts: Connections, handshake: Histogram) -> Self {
        Self { counts, handshake_us: Latency::of(&handshake), handshake }
    }

    /// Adds the connections of another generator.
    pub(crate) fn merge(&mut self, other: Self) {
        let Self { counts, handshake_us: _, handshake } = other;
        self.counts += counts;
        self.handshake.merge(&handshake);
        self.handshake_us = Latency::of(&self.handshake);
    }
}

/// The result of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// The queries by outcome; their rates are over `duration_s`.
    #[serde(flatten)]
    pub counts: Counts,
    /// Datagrams with a query's id that are not its answer.
    pub mismatched: u64,
    /// Further answers to answered queries.
    pub duplicates: u64,
    /// Datagrams that belong to no query.
    pub unexpected: u64,
    /// ICMP errors that came back.
    pub icmp: u64,
    /// From the intended time to the answer: answered queries only, a lost one has no latency.
    pub latency_us: Latency,
    /// From the send to the answer: answered queries only.
    pub service_latency_us: Latency,
    /// As `latency_us`, with each lost query counted at the deadline: what a client that gives up then has waited.
    pub latency_with_lost_us: Latency,
    /// How late queries were sent.
    pub pacing_error_us: PacingError,
    /// How long the answers were.
    #[serde(default)]
    pub answer_size: AnswerSizes,
    /// Datagrams dropped or refused on our own side, by place: `socket` (our receive buffers), `send_no_buffers`,
    /// `send_again`, `send_other`; and in our whole network namespace, other programs included,
    /// `namespace_receive_buffers` and `namespace_send_buffers`.
    pub drops: BTreeMap<String, u64>,
    /// Whether all this may be believed.
    pub validity: Validity,
    /// Faults of the server, or of the way to it: none where it answered everything rightly and in time.
    #[serde(default)]
    pub findings: Vec<Reason>,
    /// Observations in the answers beside their counts.
    #[serde(default)]
    pub signs: Signs,
    /// The measured part in seconds: of the schedule where the loop is open, otherwise until the last query was sent.
    pub duration_s: f64,
    /// The deadline in seconds.
    pub deadline_s: f64,
    /// The most queries sent at once by a worker.
    pub burst: u32,
    /// Queries due together.
    pub group: u32,
    /// For how long a worker polled before each deadline, in microseconds. This is the value at the end, of the worker that polled
    /// longest.
    pub spin_us: f64,
    /// Flows.
    pub flows: u32,
    /// Sending threads.
    pub workers: u32,
    /// `udp`, `tcp` or `udp+tcp`.
    pub transport: String,
    /// How packets went: `socket`, `socket+gso`, `xdp-native`, `xdp-generic`, `xdp-zero-copy`, `tcp`.
    pub backend: String,
    /// Why AF_XDP was not used, where the rate asked for it and it could not be had.
    pub backend_note: Option<String>,
    /// TCP connections, where there were any.
    pub tcp: Option<TcpResult>,
    /// Traffic that was offered beside the measured one.
    pub background: Option<Part>,
    /// Truncated answers asked again over TCP.
    pub tcp_retries: Option<Part>,
    /// The result of checking a sample of the answers in full.
    pub checked: Option<CheckResult>,
    /// The receive buffer of each flow as granted, in bytes of the kernel's accounting.
    pub recv_buffer: u64,
    /// Memory of the tables of queries in flight, in bytes.
    pub table_bytes: u64,
    /// Memory that the transports kept for packets, flows and connections when the last query had been sent, in bytes; the
    /// kernel's is not in it.
    pub transport_bytes: u64,
    /// The run was stopped before its end.
    pub cut_short: bool,
    /// The distributions.
    pub histograms: Histograms,
    /// The share (0 to 1) of the time that the workers computed while the schedule went on. A paced one polls, and a window waits.
    #[serde(default)]
    pub worker_busy: f64,
    /// When queries were sent, answered and lost.
    #[serde(default)]
    pub timeline: Timeline,
}

impl LoadResult {
    /// The counts and distributions of a tally, over `duration`.
    pub(crate) fn new(tally: Tally, offered: u64, duration: Nanos, deadline: Nanos) -> Self {
        Self {
            counts: Counts::new(&tally, offered, duration),
            mismatched: tally.mismatched,
            duplicates: tally.duplicates,
            unexpected: tally.unexpected,
            latency_us: Latency::of(&tally.latency),
            service_latency_us: Latency::of(&tally.service_latency),
            latency_with_lost_us: Latency::of_sent(&tally.latency, tally.lost, deadline),
            pacing_error_us: PacingError::of(&tally.pacing_error),
            answer_size: AnswerSizes::of(&tally.answer_size),
            duration_s: duration as f64 / 1e9,
            deadline_s: deadline as f64 / 1e9,
            histograms: Histograms {
                latency: tally.latency,
                service_latency: tally.service_latency,
                pacing_error: tally.pacing_error,
                answer_size: tally.answer_size,
            },
            ..Self::default()
        }
    }

    /// The share (0 to 1) of the sent queries that was lost.
    pub fn loss_ratio(&self) -> f64 {
        if self.counts.sent == 0 { 0.0 } else { self.counts.lost as f64 / self.counts.sent as f64 }
    }

    /// The trial's outcome: metrics by their names everywhere, distributions, validity.
    pub fn outcome(&self) -> Outcome {
        let mut metrics: Vec<Metric> = [
            (metrics::OFFERED_QPS, self.counts.offered_qps),
            (metrics::SENT_QPS, self.counts.sent_qps),
            (metrics::ANSWERED_QPS, self.counts.answered_qps),
            (metrics::LOAD_SECONDS, self.duration_s),
            (metrics::OFFERED, self.counts.offered as f64),
            (metrics::SENT, self.counts.sent as f64),
            (metrics::UNSENT, self.counts.unsent as f64),
            (metrics::ANSWERED, self.counts.answered as f64),
            (metrics::LOST, self.counts.lost as f64),
            (metrics::LATE, self.counts.late as f64),
            (metrics::MISMATCHED, self.mismatched as f64),
            (metrics::DUPLICATES, self.duplicates as f64),
            (metrics::UNEXPECTED, self.unexpected as f64),
            (metrics::TRUNCATED, self.counts.truncated as f64),
            (metrics::ICMP, self.icmp as f64),
            (metrics::LOSS_RATIO, self.loss_ratio()),
            (metrics::ANSWERED_IN_DEADLINE_SHARE, 100.0 * (1.0 - self.loss_ratio())),
            (metrics::BYTES_SENT, self.counts.bytes.sent as f64),
            (metrics::BYTES_RECEIVED, self.counts.bytes.received as f64),
            (metrics::PACING_ERROR_P50, self.pacing_error_us.p50),
            (metrics::PACING_ERROR_P99, self.pacing_error_us.p99),
            (metrics::PACING_ERROR_MAX, self.pacing_error_us.max),
        ]
        .map(|(metric, value)| metric.of(value))
        .into();
        metrics.extend(metrics::LATENCY.of(&self.latency_us));
        metrics.extend(metrics::SERVICE_LATENCY.of(&self.service_latency_us));
        if let Some([p50, p99]) = self.timeline.latencies.calm() {
            metrics.push(metrics::CALM_LATENCY_P50.of(p50 / 1e3));
            metrics.push(metrics::CALM_LATENCY_P99.of(p99 / 1e3));
        }
        if self.counts.answered > 0 {
            let AnswerSizes { p50, p90, p99, max } = self.answer_size;
            metrics.extend([
                metrics::ANSWER_SIZE_P50.count(p50),
                metrics::ANSWER_SIZE_P90.count(p90),
                metrics::ANSWER_SIZE_P99.count(p99),
                metrics::ANSWER_SIZE_MAX.count(max),
            ]);
        }
        let sent_otherwise = [
            (metrics::SENT_NO_CHECKSUM, self.counts.no_checksum),
            (metrics::SENT_BAD_CHECKSUM, self.counts.bad_checksum),
        ];
        metrics.extend(sent_otherwise.iter().filter(|(_, n)| *n > 0).map(|(metric, n)| metric.count(*n)));
        let (count, bytes) = (self.counts.referrals, self.counts.bytes.referrals);
        metrics.push(metrics::REFERRALS.count(count));
        if count > 0 {
            metrics.push(metrics::REFERRAL_SIZE_MEAN.of(bytes as f64 / count as f64));
        }
        metrics.extend(self.counts.rcodes.iter().map(|(code, n)| metrics::RCODE.of(code, *n as f64)));
        // Several generators may have the same one, with figures of their own.
        let codes: BTreeSet<&str> = self.findings.iter().map(|finding| finding.code.as_str()).collect();
        metrics.extend(codes.into_iter().map(|code| metrics::FINDING.of(code, 1.0)));
        metrics.extend(self.drops.iter().map(|(place, n)| metrics::DROPS.of(place, *n as f64)));
        let histograms = vec![
            Named::new("latency", self.histograms.latency.clone()),
            Named::new("service_latency", self.histograms.service_latency.clone()),
            Named::new("pacing_error", self.histograms.pacing_error.clone()),
            Named::new("answer_size", self.histograms.answer_size.clone()),
        ];
        for (scope, part) in [(Scope::Background, &self.background), (Scope::TcpRetries, &self.tcp_retries)] {
            let Some(p) = part else { continue };
            let counts = [
                (metrics::OFFERED, p.counts.offered),
                (metrics::SENT, p.counts.sent),
                (metrics::ANSWERED, p.counts.answered),
                (metrics::LOST, p.counts.lost),
                (metrics::TRUNCATED, p.counts.truncated),
                (metrics::BYTES_RECEIVED, p.counts.bytes.received),
            ];
            metrics.extend(counts.map(|(metric, count)| metric.within(scope).count(count)));
            metrics.extend(metrics::LATENCY.within(scope).of(&p.latency_us));
        }
        if let Some(c) = &self.checked {
            metrics.extend(c.metrics());
        }
        if let Some(tcp) = &self.tcp {
            metrics.extend([
                metrics::TCP_BEGUN.count(tcp.counts.begun),
                metrics::TCP_ESTABLISHED.count(tcp.counts.established),
                metrics::TCP_REFUSED.count(tcp.counts.refused),
                metrics::TCP_RESET.count(tcp.counts.reset),
                metrics::TCP_CLOSED_BY_SERVER.count(tcp.counts.closed_by_server),
                metrics::TCP_QUERIES_CUT_OFF.count(tcp.counts.queries_cut_off),
                metrics::TCP_OPEN_MAX.count(tcp.counts.open_max),
            ]);
        }
        Outcome { metrics, histograms, validity: self.validity.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::clock::SECOND;

    fn sample() -> LoadResult {
        let mut tally =
            Tally { sent: 90, answered: 80, lost: 10, late: 3, unsent_overdue: 10, ..Tally::default() };
        (1..=80).for_each(|n| tally.latency.record(n * 1000));
        tally.rcodes[0] = 50;
        tally.rcodes[3] = 30;
        let mut result = LoadResult::new(tally, 100, 2 * SECOND, 4 * SECOND);
        result.drops.insert("socket".into(), 7);
        result.validity.reject(Reason::new("unsent", "10 of 100"));
        result
    }

    #[test]
    fn a_result_goes_there_and_back() {
        let mut result = sample();
        let tally = Tally { sent: 7, lost: 7, ..Tally::default() };
        result.background = Some(Part::new(&tally, 9, SECOND));
        let counts = Connections { begun: 3, open_max: 2, ..Connections::default() };
        result.tcp = Some(TcpResult::new(counts, tally.latency));
        let text = serde_json::to_string(&result).unwrap();
        assert_eq!(serde_json::from_str::<LoadResult>(&text).unwrap(), result);
        // Shared counts stay flat.
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["sent"], &value["rcodes"]["NXDOMAIN"]), (&90.into(), &30.into()));
        assert_eq!((&value["background"]["offered"], &value["tcp"]["open_max"]), (&9.into(), &2.into()));
        for name in [
            "offered_qps",
            "sent_qps",
            "answered_qps",
            "sent",
            "unsent",
            "answered",
            "lost",
            "late",
            "mismatched",
            "duplicates",
            "rcodes",
            "truncated",
            "latency_us",
            "service_latency_us",
            "pacing_error_us",
            "bytes",
            "drops",
            "validity",
        ] {
            assert!(value.get(name).is_some(), "{name} is part of the contract");
        }
    }

    #[test]
    fn the_outcome_has_every_figure_once() {
        let outcome = sample().outcome();
        let mut names: Vec<_> = outcome.metrics.iter().map(|m| m.name.as_str()).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        for (name, want) in [
            ("offered_qps", 50.0),
            ("answered_qps", 40.0),
            ("rcode_NXDOMAIN", 30.0),
            ("drops_socket", 7.0),
            ("lost", 10.0),
        ] {
            assert_eq!(outcome.metric_named(name), Some(want), "{name}");
        }
        assert!((outcome.metric(metrics::LOSS_RATIO).unwrap() - 1.0 / 9.0).abs() < 1e-12);
        assert_eq!(outcome.histogram("latency").unwrap().count(), 80);
        assert!(!outcome.validity.valid);
    }

    #[test]
    fn lost_queries_are_in_the_percentiles_that_say_so() {
        let result = sample();
        assert!(result.latency_us.max < 81.0);
        assert!((result.latency_with_lost_us.max - 4e6).abs() < 4e3, "{:?}", result.latency_with_lost_us);
    }
}
