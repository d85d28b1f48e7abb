//! The registry of metrics: every figure of a trial has its name, its unit and its title here. Those who measure and those who read
//! use these items, so a name that is written wrong does not compile. `docs/metrics.md` is made of it.

use crate::{Latency, Metric};
use serde_json::Value;
use std::fmt::Write as _;

/// Which value of a metric a user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// A greater one.
    More,
    /// A smaller one.
    Less,
    /// It describes the trial, and no value of it is better.
    Neither,
}

/// The part of a trial that a metric is about. It stands before the metric's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The trial as a whole, and the queries that it is about.
    Trial,
    /// The queries of the background: an attack, beside the queries that count.
    Background,
    /// The queries that are asked again over TCP after a truncated answer.
    TcpRetries,
    /// The stream of updates.
    Updates,
    /// A load of a search, in the series of the trial.
    Search,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Trial, Self::Background, Self::TcpRetries, Self::Updates, Self::Search];

    /// The beginning of the metrics' names.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Trial => "",
            Self::Background => "background_",
            Self::TcpRetries => "tcp_retries_",
            Self::Updates => "update_",
            Self::Search => "search_",
        }
    }
}

/// The definition of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    name: &'static str,
    scope: Scope,
    /// `1/s`, `us`, `B`, `s`, `%`, `Mbit/s`, or `1` for counts and ratios.
    pub unit: &'static str,
    /// Which value is wanted.
    pub better: Better,
    /// A title for people.
    pub title: &'static str,
}

impl Definition {
    pub(crate) const fn new(
        name: &'static str,
        unit: &'static str,
        better: Better,
        title: &'static str,
    ) -> Self {
        Self { name, scope: Scope::Trial, unit, better, title }
    }

    /// The same figure of a part of the trial.
    pub const fn within(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// The name without that of the part: `answered_qps`, `accepted_ups`.
    pub const fn stem(self) -> &'static str {
        self.name
    }

    /// The name, in snake case: `answered_qps`, `update_accepted_ups`.
    pub fn name(self) -> String {
        format!("{}{}", self.scope.prefix(), self.name)
    }

    /// Whether this is its name.
    pub fn is(self, name: &str) -> bool {
        name.strip_prefix(self.scope.prefix()) == Some(self.name)
    }

    /// The metric with its value.
    pub fn of(self, value: f64) -> Metric {
        Metric::new(self.name(), self.unit, value)
    }

    /// Its value among the figures of an event; none where the event does not have it.
    pub fn among(self, values: &Value) -> Option<f64> {
        values.get(self.name())?.as_f64()
    }

    /// The metric of a count.
    pub fn count(self, count: u64) -> Metric {
        self.of(count as f64)
    }
}

/// The metrics of a latency's percentiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentiles {
    /// Median.
    pub p50: Definition,
    /// 90 % are at or below.
    pub p90: Definition,
    /// 99 % are at or below.
    pub p99: Definition,
    /// 99.9 % are at or below.
    pub p999: Definition,
    /// The greatest.
    pub max: Definition,
}

impl Percentiles {
    /// The same figures of a part of the trial.
    pub const fn within(self, scope: Scope) -> Self {
        Self {
            p50: self.p50.within(scope),
            p90: self.p90.within(scope),
            p99: self.p99.within(scope),
            p999: self.p999.within(scope),
            max: self.max.within(scope),
        }
    }

    /// The metrics with their values.
    pub fn of(self, latency: &Latency) -> [Metric; 5] {
        let values = [latency.p50, latency.p90, latency.p99, latency.p999, latency.max];
        let mut values = values.into_iter();
        self.all().map(|definition| definition.of(values.next().expect("as many values as percentiles")))
    }

    const fn all(self) -> [Definition; 5] {
        [self.p50, self.p90, self.p99, self.p999, self.max]
    }
}

/// The metrics of the answers in one phase of a server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Longest time without an answer.
    pub silent: Definition,
    /// Share of the queries that was answered.
    pub answered_share: Definition,
    /// Share of the queries that was answered with SERVFAIL or REFUSED.
    pub failed_share: Definition,
    /// Greatest 99th percentile of a second's latencies.
    pub latency_p99_worst: Definition,
}

impl Phase {
    const fn all(self) -> [Definition; 4] {
        [self.silent, self.answered_share, self.failed_share, self.latency_p99_worst]
    }
}

/// Metrics of one kind, one for each of several things: a response code, a secondary, a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    before: &'static str,
    after: &'static str,
    /// As [`Definition::unit`].
    pub unit: &'static str,
    /// Which value is wanted.
    pub better: Better,
    /// A title for people.
    pub title: &'static str,
}

impl Family {
    pub(crate) const fn new(
        before: &'static str,
        after: &'static str,
        unit: &'static str,
        better: Better,
        title: &'static str,
    ) -> Self {
        Self { before, after, unit, better, title }
    }

    /// The name of one of them. `which` stands in it with underscores for hyphens.
    pub fn name(self, which: &str) -> String {
        format!("{}{}{}", self.before, which.replace('-', "_"), self.after)
    }

    /// The metric of one of them with its value.
    pub fn of(self, which: &str, value: f64) -> Metric {
        Metric::new(self.name(which), self.unit, value)
    }

    /// Which of them has this name; none where it is not of the family.
    pub fn which(self, name: &str) -> Option<&str> {
        let rest = name.strip_prefix(self.before)?.strip_suffix(self.after)?;
        (!rest.is_empty()).then_some(rest)
    }
}

macro_rules! registry {
    ($($id:ident $name:literal $unit:literal $better:ident $title:literal;)*) => {
        $(
            #[doc = concat!($title, ".")]
            pub const $id: Definition = Definition::new($name, $unit, Better::$better, $title);
        )*
        const SINGLE: &[Definition] = &[$($id),*];
    };
}
pub(crate) use registry;

macro_rules! percentiles {
    ($($id:ident $name:literal $title:literal;)*) => {
        $(
            #[doc = concat!($title, ".")]
            pub const $id: Percentiles = Percentiles {
                p50: Definition::new(concat!($name, "_p50"), "us", Better::Less, concat!($title, ": median")),
                p90: Definition::new(concat!($name, "_p90"), "us", Better::Less, concat!($title, ": 90 % within")),
                p99: Definition::new(concat!($name, "_p99"), "us", Better::Less, concat!($title, ": 99 % within")),
                p999: Definition::new(concat!($name, "_p999"), "us", Better::Less, concat!($title, ": 99.9 % within")),
                max: Definition::new(concat!($name, "_max"), "us", Better::Less, concat!($title, ": the longest")),
            };
        )*
        const PERCENTILES: &[Percentiles] = &[$($id),*];
    };
}

macro_rules! phases {
    ($($id:ident $name:literal $title:literal;)*) => {
        $(
            #[doc = concat!("Answers ", $title, ".")]
            pub const $id: Phase = Phase {
                silent: Definition::new(
                    concat!($name, "_silent"), "s", Better::Less, concat!($title, ": longest time without an answer")
                ),
                answered_share: Definition::new(
                    concat!($name, "_answered_share"), "%", Better::More, concat!($title, ": share of queries answered")
                ),
                failed_share: Definition::new(
                    concat!($name, "_failed_share"), "%", Better::Less,
                    concat!($title, ": share of queries answered with SERVFAIL or REFUSED")
                ),
                latency_p99_worst: Definition::new(
                    concat!($name, "_latency_p99_worst"), "us", Better::Less,
                    concat!($title, ": greatest 99th percentile of a second")
                ),
            };
        )*
        const PHASES: &[Phase] = &[$($id),*];
    };
}

macro_rules! families {
    ($($id:ident $before:literal $after:literal $unit:literal $better:ident $title:literal;)*) => {
        $(
            #[doc = concat!($title, ".")]
            pub const $id: Family = Family::new($before, $after, $unit, Better::$better, $title);
        )*
        const FAMILIES: &[Family] = &[$($id),*];
    };
}
pub(crate) use families;

percentiles! {
    LATENCY "latency" "latency from the intended send";
    SERVICE_LATENCY "service_latency" "latency from the actual send";
    WITNESS_LATENCY "witness_latency" "latency at the server's interface, by a capture";
    LAG "lag" "time from the sending of an update until a secondary serves it";
    BATCH "batch" "time from a batch's begin until the secondary serves it";
    BATCH_TAKEN "batch_taken" "time from a batch's begin until the primary took it";
}

phases! {
    LOADING "loading" "during the start";
    SERVED "served" "between start and reload";
    RELOADING "reloading" "during the reload";
}

registry! {
    // A load's queries.
    OFFERED_QPS "offered_qps" "1/s" Neither "queries due a second";
    SENT_QPS "sent_qps" "1/s" Neither "queries sent a second";
    ANSWERED_QPS "answered_qps" "1/s" More "queries answered a second";
    LOAD_SECONDS "load_seconds" "s" Neither "length of the measured part of a load";
    OFFERED "offered" "1" Neither "queries or updates due";
    SENT "sent" "1" Neither "queries or updates sent";
    SENT_NO_CHECKSUM "sent_no_checksum" "1" Neither "queries sent without a UDP checksum";
    SENT_BAD_CHECKSUM "sent_bad_checksum" "1" Neither "queries sent with a wrong UDP checksum";
    UNSENT "unsent" "1" Less "queries or updates due that could not be sent";
    ANSWERED "answered" "1" More "queries answered before the deadline";
    LOST "lost" "1" Less "queries or updates without an answer before the deadline";
    LATE "late" "1" Less "answers after the deadline, which count as lost";
    MISMATCHED "mismatched" "1" Less "answers to another question than asked";
    DUPLICATES "duplicates" "1" Less "answers to a query that was answered already";
    UNEXPECTED "unexpected" "1" Less "packets that answer no query";
    TRUNCATED "truncated" "1" Less "answers with TC set";
    ICMP "icmp" "1" Less "ICMP errors";
    LOSS_RATIO "loss_ratio" "1" Less "share of the sent that was lost, 0 to 1";
    ANSWERED_IN_DEADLINE_SHARE "answered_in_deadline_share" "%" More "share of the sent queries that was answered before the deadline";
    ALL_ANSWERED_QPS "all_answered_qps" "1/s" More "queries answered a second, by all secondaries together";
    ALL_ANSWER_RATE "all_answer_rate" "Mbit/s" More "DNS octets of the answers of all secondaries together, as a rate";
    BYTES_SENT "bytes_sent" "B" Neither "DNS octets sent";
    BYTES_RECEIVED "bytes_received" "B" Neither "DNS octets received";
    ANSWER_SIZE_P50 "answer_size_p50" "B" Neither "DNS octets of an answer: median";
    ANSWER_SIZE_P90 "answer_size_p90" "B" Neither "DNS octets of an answer: 90 % are at most as long";
    ANSWER_SIZE_P99 "answer_size_p99" "B" Neither "DNS octets of an answer: 99 % are at most as long";
    ANSWER_SIZE_MAX "answer_size_max" "B" Neither "DNS octets of an answer: the longest";
    REFERRALS "referrals" "1" Neither "answers that are referrals: no error, no AA, no answer, and records in the authority section";
    REFERRAL_SIZE_MEAN "referral_size_mean" "B" Neither "DNS octets of a referral: mean";
    PACING_ERROR_P50 "pacing_error_p50" "us" Less "time from the intended to the actual send: median";
    PACING_ERROR_P99 "pacing_error_p99" "us" Less "time from the intended to the actual send: 99 % within";
    PACING_ERROR_MAX "pacing_error_max" "us" Less "time from the intended to the actual send: the longest";
    CALM_LATENCY_P50 "calm_latency_p50" "us" Less "median latency in the calmest stretches of 100 ms";
    CALM_LATENCY_P99 "calm_latency_p99" "us" Less "latency of 99 % in the calmest stretches of 100 ms";
    CHECKED "checked" "1" Neither "answers whose content was checked";
    CHECKED_WRONG "checked_wrong" "1" Less "checked answers that were wrong";
    CHECKED_LACKING_GLUE "checked_lacking_glue" "1" Less "checked answers that lacked glue, although TC was clear";
    SUSTAINED_QPS "sustained_qps" "1/s" More "queries answered a second, without the machine's pauses";

    // TCP.
    TCP_BEGUN "tcp_begun" "1" Neither "TCP connections begun";
    TCP_ESTABLISHED "tcp_established" "1" Neither "TCP connections established";
    TCP_REFUSED "tcp_refused" "1" Less "TCP connections refused";
    TCP_RESET "tcp_reset" "1" Less "TCP connections reset";
    TCP_CLOSED_BY_SERVER "tcp_closed_by_server" "1" Neither "TCP connections that the server closed";
    TCP_QUERIES_CUT_OFF "tcp_queries_cut_off" "1" Less "queries whose TCP connection ended before the answer";
    TCP_OPEN_MAX "tcp_open_max" "1" Neither "most TCP connections open at one time";

    // A search.
    CAPACITY_QPS "capacity_qps" "1/s" More "capacity: most queries answered a second, sustained";
    CAPACITY_MEDIAN "capacity_median" "1/s" More "capacity: median of its loads";
    CAPACITY_LOW "capacity_low" "1/s" More "capacity: least of its loads";
    CAPACITY_HIGH "capacity_high" "1/s" More "capacity: most of its loads";
    CAPACITY_AT_LEAST "capacity_at_least" "1" Neither "1: the generator was the limit, so the capacity is at least this";
    PEAK_QPS "peak_qps" "1/s" More "knee: highest offered rate within the loss goal (RFC 9971)";
    PEAK_LOWER "peak_lower" "1/s" More "knee: lower bound, which it is above with a probability of 95 %";
    PEAK_UPPER "peak_upper" "1/s" More "knee: upper bound, which it is below with a probability of 95 %";

    // The zone.
    ZONE_SIGNING_SECONDS "zone_signing_seconds" "s" Less "time that dnsrack took to sign the zone for the run, with reading and writing";

    // The server.
    SERVER_READY "server_ready" "s" Less "start of the server until its first right answer";
    SERVER_RSS "server_rss" "B" Less "resident set size (RSS) of the server's processes";
    SERVER_VIRTUAL "server_virtual" "B" Less "virtual size of the server's processes";
    SERVER_PSS "server_pss" "B" Less "proportional set size (PSS) of the server's processes";
    SERVER_PSS_AT_FIRST_ANSWER "server_pss_at_first_answer" "B" Less "PSS at the first right answer, before it settled";
    SERVER_CPU "server_cpu" "s" Less "CPU time of the server's processes since they began";
    SERVER_PROCESSES "server_processes" "1" Neither "the server's processes";
    SETTLED_AFTER "settled_after" "s" Less "first right answer until the memory had settled";
    PSS_PER_DELEGATION "pss_per_delegation" "B" Less "PSS divided by the zone's delegations";
    SERVER_CPU_PER_QUERY "server_cpu_per_query" "us" Less "the server's own CPU time a query";
    CALM_SERVER_CPU_PER_QUERY "calm_server_cpu_per_query" "us" Less "the server's own CPU time a query in the calmest stretches of 100 ms";
    SERVER_CORE_TIME_PER_QUERY "server_core_time_per_query" "us" Less "time a query that the server's cores were not idle, the kernel's work included";
    SERVER_INSTRUCTIONS_PER_QUERY "server_instructions_per_query" "1" Less "the server's instructions in user mode a query";
    SERVER_CYCLES_PER_QUERY "server_cycles_per_query" "1" Less "the server's cycles in user mode a query";
    SERVER_RECEIVE_BUFFER "server_receive_buffer" "B" Neither "least receive buffer of the server's UDP sockets";
    SERVER_COUNTED_QUERIES "server_counted_queries" "1" Neither "queries by the server's own counters";
    SERVER_COUNTED_UDP "server_counted_udp" "1" Neither "queries over UDP by the server's own counters";
    SERVER_COUNTED_TCP "server_counted_tcp" "1" Neither "queries over TCP by the server's own counters";
    SERVER_COUNTED_ANSWERS "server_counted_answers" "1" Neither "answers by the server's own counters";
    SERVER_COUNTED_TRUNCATED "server_counted_truncated" "1" Neither "truncated answers by the server's own counters";
    SERVER_COUNTED_DROPPED "server_counted_dropped" "1" Less "queries dropped by the server's own counters";
    OTHERS_RSS "others_rss" "B" Less "RSS of the other servers of the rack";
    OTHERS_VIRTUAL "others_virtual" "B" Less "virtual size of the other servers of the rack";
    OTHERS_PSS "others_pss" "B" Less "PSS of the other servers of the rack";
    OTHERS_CPU "others_cpu" "s" Less "CPU time of the other servers of the rack since they began";
    ANSWERS_VALIDATED "answers_validated" "1" More "answers that delv validated from the trust anchor";
    ANSWERS_NOT_VALIDATED "answers_not_validated" "1" Less "answers that delv could not validate";

    // The machine during a load.
    CORE_AWAY_SHARE "core_away_share" "%" Less "share of the time in which a core of the trial was away";
    CORE_AWAY_INSTANTS "core_away_instants" "%" Less "share of instants, 4 ms apart, at which a core of the trial was away";
    CORE_AWAY_LONGEST "core_away_longest" "us" Less "longest time that a core of the trial was away";
    CORE_WATCH_COST "core_watch_cost" "%" Less "share of a core that the watch on the cores takes";
    CORE_WATCH_FIRST "core_watch_first" "1" Neither "1: the watch on the cores had real-time priority";
    SERVER_IDLE "server_idle" "%" Neither "share of the time in which the server's cores were idle";
    SERVER_WAITED "server_waited" "%" Less "share of the time in which the server's threads could run and did not";
    SERVERS_WAITED "servers_waited" "%" Less "share of the time in which threads of the servers could run and did not, added up";
    SERVER_CORES_OTHERS "server_cores_others" "%" Less "share of the server's cores that other programs took";
    COORDINATOR_CPU "coordinator_cpu" "%" Less "share of a core that the coordinator takes for sampling";
    LOST_CORE_AWAY "lost_core_away" "1" Less "queries lost while a core of the server's was away";
    LOST_OTHER_PROGRAM "lost_other_program" "1" Less "queries lost while another program ran on the server's cores";
    LOST_SOCKET_FULL "lost_socket_full" "1" Less "queries lost as the server's socket was full";
    LOST_BACKLOG_FULL "lost_backlog_full" "1" Less "queries lost as a core's backlog was full";
    LOST_INTERFACE "lost_interface" "1" Less "queries lost at an interface of the server's host";
    LOST_BAD_CHECKSUM "lost_bad_checksum" "1" Neither "queries lost as the server's host found their UDP checksum wrong";
    LOST_NOT_ANSWERED "lost_not_answered" "1" Less "queries that reached the server and were not answered";
    ARRIVED "arrived" "1" Neither "messages that arrived at the server's host, counted by its kernel";
    WITNESS_QUERIES "witness_queries" "1" Neither "queries seen at the server's interface";
    WITNESS_ANSWERS "witness_answers" "1" Neither "answers seen at the server's interface";
    WITNESS_DROPPED "witness_dropped" "1" Less "packets that the capture at the server lacks";

    // Start and reload.
    LOADING_PEAK_PSS "loading_peak_pss" "B" Less "greatest PSS during the start";
    RELOADING_PEAK_PSS "reloading_peak_pss" "B" Less "greatest PSS during a reload";
    RELOAD_SECONDS "reload_seconds" "s" Less "command to reload until the changed zone is served";

    // Updates.
    OFFERED_UPS "offered_ups" "1/s" Neither "updates due a second";
    SENT_UPS "sent_ups" "1/s" Neither "updates sent a second";
    ACKNOWLEDGED_UPS "acknowledged_ups" "1/s" More "updates answered a second, whatever the response code";
    ACCEPTED_UPS "accepted_ups" "1/s" More "updates accepted a second (NOERROR)";
    ACCEPTED_TRANSACTIONS_PER_S "accepted_transactions_per_s" "1/s" More "transactions accepted a second";
    ACKNOWLEDGED "acknowledged" "1" More "updates answered";
    ACCEPTED "accepted" "1" More "updates accepted (NOERROR)";
    BAD_TSIG "bad_tsig" "1" Less "answers whose TSIG was wrong";
    RETRIED "retried" "1" Less "updates sent again";
    APPLIED_TWICE_POSSIBLE "applied_twice_possible" "1" Less "updates that may have been applied twice";
    TRANSACTIONS_ACCEPTED "transactions_accepted" "1" More "transactions accepted";
    RECORDS_ACCEPTED "records_accepted" "1" More "records in accepted updates";

    // How soon secondaries serve them.
    MARKERS_SEEN "markers_seen" "1" More "updates seen at a secondary";
    MARKERS_COALESCED "markers_coalesced" "1" Neither "updates seen together with a later one";
    MARKERS_LOST "markers_lost" "1" Less "updates not seen at a secondary";
    MARKERS_CUT_OFF "markers_cut_off" "1" Less "updates not seen as the trial ended";
    MARKERS_UNCERTAIN "markers_uncertain" "1" Less "updates whose lag is not certain";
    LAG_MEAN "lag_mean" "us" Less "time from the sending of an update until a secondary serves it: mean";
    LAG_ERROR_MAX "lag_error_max" "us" Less "greatest error of a lag";
    SERIAL_WENT_BACK "serial_went_back" "1" Less "times that a secondary's serial went back";
    MARKER_WENT_BACK "marker_went_back" "1" Less "times that a secondary served an older update again";
    WATCH_QPS_PER_SERVER "watch_qps_per_server" "1/s" Neither "queries a second that the watcher asks each server";
    WATCH_LOST "watch_lost" "1" Less "the watcher's queries that were lost";
    WATCH_CPU "watch_cpu" "%" Less "share of a core that the watcher takes";
    LAGS_UNEXPLAINED "lags_unexplained" "1" Less "lags whose steps the capture does not show";
    LAG_UNTIL_NOTIFY_MEAN "lag_until_notify_mean" "us" Less "lag: the sending of the update until NOTIFY, mean";
    LAG_UNTIL_REQUEST_MEAN "lag_until_request_mean" "us" Less "lag: NOTIFY until the request for the transfer, mean";
    LAG_TRANSFER_MEAN "lag_transfer_mean" "us" Less "lag: the transfer, mean";
    LAG_UNTIL_SERVED_MEAN "lag_until_served_mean" "us" Less "lag: the transfer's end until it is served, mean";
    SERIAL_AFTER_NOTIFY_P50 "serial_after_notify_p50" "us" Less "NOTIFY until the secondary serves its serial: median";
    SERIAL_AFTER_NOTIFY_P99 "serial_after_notify_p99" "us" Less "NOTIFY until the secondary serves its serial: 99 % within";
    AWAY_SECONDS "away_seconds" "s" Neither "time for which a secondary was stopped";
    AWAY_MARKERS_MISSED "away_markers_missed" "1" Neither "updates made while the secondary was stopped";
    AWAY_CAUGHT_UP "away_caught_up" "s" Less "restart of the secondary until it served the newest update";
    AWAY_BYTES "away_bytes" "B" Less "TCP payload by which the secondary caught up";
    AWAY_IXFR "away_ixfr" "1" Neither "IXFRs by which the secondary caught up";
    AWAY_AXFR "away_axfr" "1" Neither "AXFRs by which the secondary caught up";

    // Zone transfers.
    IXFR_TRANSFERS "ixfr_transfers" "1" Neither "IXFRs to secondaries";
    AXFR_TRANSFERS "axfr_transfers" "1" Neither "whole transfers to secondaries";
    AXFR_INSTEAD_OF_IXFR "axfr_instead_of_ixfr" "1" Less "whole transfers where IXFR was asked for";
    TRANSFERS_BEGUN "transfers_begun" "1" Neither "transfers begun";
    TRANSFERS_BROKEN "transfers_broken" "1" Less "transfers that ended before they were whole";
    NOTIFIES "notifies" "1" Neither "NOTIFY messages";
    VERSIONS_PER_TRANSFER "versions_per_transfer" "1" Neither "versions of the zone in each IXFR";
    TRANSFER_BYTES "transfer_bytes" "B" Less "octets of IP packets both ways of transfers";
    TRANSFER_BYTES_OUT "transfer_bytes_out" "B" Less "octets of IP packets from the primary";
    TRANSFER_BYTES_BACK "transfer_bytes_back" "B" Less "octets of IP packets to the primary";
    TRANSFER_BYTES_PER_UPDATE "transfer_bytes_per_update" "B" Less "octets of transfers for each update";
    TRANSFER_SERVED "transfer_served" "s" Less "start of the secondary until it serves the zone";
    TRANSFER_SECONDS "transfer_seconds" "s" Less "time of the transfer";
    TRANSFER_MESSAGES "transfer_messages" "1" Neither "DNS messages of the transfer";
    TRANSFER_RECORDS "transfer_records" "1" Neither "records of the transfer";
    TRANSFER_DNS_BYTES "transfer_dns_bytes" "B" Less "DNS octets of the transfer";
    TRANSFER_TCP_BYTES "transfer_tcp_bytes" "B" Less "TCP payload of the transfer";
    TRANSFER_RATE "transfer_rate" "Mbit/s" More "rate of the transfer";
    TRANSFER_TO_FILE "transfer_to_file" "%" Less "octets of the transfer against those of the zone file";
    TRANSFER_TO_UNSIGNED_FILE "transfer_to_unsigned_file" "%" Less "octets of the transfer against those of the zone file before it was signed";
    PATH_RTT "path_rtt" "us" Neither "round trip of the path, by TCP's handshake";
    PATH_PACKETS "path_packets" "1" Neither "packets that came to the path";
    PATH_BYTES "path_bytes" "B" Neither "octets that came to the path";
    PATH_DELIVERED "path_delivered" "1" Neither "packets that the path delivered";
    PATH_LOST "path_lost" "1" Neither "packets that the path lost on purpose";
    PATH_QUEUE_DROPPED "path_queue_dropped" "1" Neither "packets dropped at the path's full queue";
    PATH_DUPLICATED "path_duplicated" "1" Neither "packets that the path delivered twice";
    PATH_CORRUPTED "path_corrupted" "1" Neither "packets that the path corrupted";
    PATH_REORDERED "path_reordered" "1" Neither "packets that the path delivered out of order";
    PATH_DELAY_ERROR_P50 "path_delay_error_p50" "us" Less "how late the path delivered: median";
    PATH_DELAY_ERROR_P99 "path_delay_error_p99" "us" Less "how late the path delivered: 99 % within";
    PATH_DELAY_ERROR_MAX "path_delay_error_max" "us" Less "how late the path delivered: the latest";
    PATH_LOSS "path_loss" "%" Neither "share of packets lost on the path";
    PATH_LOSS_LOW "path_loss_low" "%" Neither "share of packets lost on the path: low end of its interval";
    PATH_LOSS_HIGH "path_loss_high" "%" Neither "share of packets lost on the path: high end of its interval";
    PATH_LOSS_ASKED "path_loss_asked" "%" Neither "share of packets that the path was to lose";

    // Batches of updates.
    BATCHES_PLANNED "batches_planned" "1" Neither "batches of updates planned";
    BATCHES "batches" "1" Neither "batches of updates begun";
    BATCHES_SERVED "batches_served" "1" More "batches that the secondary served in time";
    BATCHES_LOST "batches_lost" "1" Less "batches that the secondary did not serve in time";
    BATCHES_RECORDS "batches_records" "1" Neither "records in accepted updates of batches";
    BATCHES_MESSAGES "batches_messages" "1" Neither "accepted updates of batches";
    BATCHES_BYTES "batches_bytes" "B" Less "octets of IP packets of all batches";
    BATCHES_BYTES_OUT "batches_bytes_out" "B" Less "octets of IP packets of all batches, from the primary";
    BATCHES_BYTES_BACK "batches_bytes_back" "B" Less "octets of IP packets of all batches, to the primary";
    BATCH_BYTES_P50 "batch_bytes_p50" "B" Less "octets of IP packets of a batch: median";
    BATCHES_SECONDS "batches_seconds" "s" Less "first batch's begin until the last is served";

    // A zone's real versions.
    VERSIONS "versions" "1" Neither "versions of the zone";
    VERSIONS_TAKEN "versions_taken" "1" More "versions that the primary took";
    VERSION_RECORDS "version_records" "1" Neither "records that a version changes, mean";
    VERSION_IXFR_RECKONED "version_ixfr_reckoned" "B" Less "octets of an IXFR that carries a version, calculated, mean";
    IXFR_BYTES_PER_VERSION "ixfr_bytes_per_version" "B" Less "TCP payload of IXFRs a version and secondary";
    IXFR_RECORDS_PER_VERSION "ixfr_records_per_version" "1" Less "records of IXFRs a version and secondary";
    IXFR_SECONDARIES "ixfr_secondaries" "1" Neither "secondaries that followed by IXFR";
    AXFR_BYTES "axfr_bytes" "B" Less "TCP payload of a whole transfer";
    VERSION_TO_AXFR "version_to_axfr" "%" Less "octets of a version's IXFR against those of a whole transfer";

    // The machine without a server.
    OPERATION_TIME "operation_time" "ns" Less "time of an operation of the machine";
    OPERATION_RATE "operation_rate" "1/s" More "operations of the machine a second";
    BANDWIDTH "bandwidth" "MB/s" More "octets that the machine moves in a second";

    // Durability.
    DISK_SYNCS_BEFORE "disk_syncs_before" "1/s" Neither "syncs a second that the disk did before the updates";
    DISK_SYNCS_AFTER "disk_syncs_after" "1/s" Neither "syncs a second that the disk did after the updates";
    UPDATES_PER_DISK_SYNC "updates_per_disk_sync" "1" Neither "updates accepted for each sync that the disk could do";
    BEYOND_DISK "beyond_disk" "1" Neither "how many times faster the updates were than the disk syncs, or 0";
    DISK_SYNC_P50 "disk_sync_p50" "us" Neither "the disk's time for a sync: median";
    DISK_SYNC_P99 "disk_sync_p99" "us" Neither "the disk's time for a sync: 99 % within";
    TRACED "traced" "1" Neither "answers decided by the trace of system calls";
    TRACED_COVERED "traced_covered" "1" More "answers after a sync of what they acknowledge";
    TRACED_NOT_COVERED "traced_not_covered" "1" Less "answers before a sync of what they acknowledge";
    TRACED_NOTHING_WRITTEN "traced_nothing_written" "1" Less "answers before anything was written";
    TRACED_REFUSED "traced_refused" "1" Neither "updates refused";
    TRACED_UNANSWERED "traced_unanswered" "1" Neither "updates not answered";
    TRACED_BY_ORDER "traced_by_order" "1" Neither "answers decided by the first write after the update";
    TRACED_SYNCS "traced_syncs" "1" Neither "syncs in the trace";
    TRACED_SYNCS_FAILED "traced_syncs_failed" "1" Less "syncs in the trace that failed";
    SYNCS_PER_ANSWER "syncs_per_answer" "1" Neither "syncs for each acknowledged update";
    CUTS "cuts" "1" Neither "power cuts";
    CUTS_WITH_SURVIVORS "cuts_with_survivors" "1" Neither "power cuts in which processes outlived the cut";
    CUT_ACKNOWLEDGED "cut_acknowledged" "1" Neither "updates acknowledged before the cuts";
    CUT_FOUND "cut_found" "1" More "acknowledged updates found after the cuts";
    CUT_LOST "cut_lost" "1" Less "acknowledged updates lost in the cuts";
    CUT_GONE_WITH_SERVER "cut_gone_with_server" "1" Less "acknowledged updates of servers that did not come back";
    CUT_HALF "cut_half" "1" Less "updates of which a half was there after the cuts";
    CUT_NEAR "cut_near" "1" Neither "updates on their way when the power was cut";
    CUT_REFUSED "cut_refused" "1" Neither "updates refused";
    CUTS_WITH_LOSS "cuts_with_loss" "1" Less "power cuts that lost an acknowledged update";
    CUTS_NOT_BACK "cuts_not_back" "1" Less "power cuts after which the server did not serve again";
    CUTS_ZONE_REFUSED "cuts_zone_refused" "1" Less "power cuts after which the server refused its own zone";
    CUT_SYNCS "cut_syncs" "1" Neither "syncs before the cuts";
    CUT_LOST_PAGES "cut_lost_pages" "1" Neither "pages that the cuts took";
    CUT_BACK_MAX "cut_back_max" "s" Less "longest time until the server served again after a cut";
    KILLS "kills" "1" Neither "kills of the secondary";
    KILLS_BACK "kills_back" "1" More "kills after which it served again";
    KILL_BACK_MAX "kill_back_max" "s" Less "longest time until it served again after a kill";
    SERIAL_BACK_RUNNING "serial_back_running" "1" Less "times that its serial went back while it ran";
    SERIAL_BACK_RESTARTED "serial_back_restarted" "1" Less "times that its serial went back with a restart";
    SERIAL_BACK_MOST "serial_back_most" "1" Less "most versions that its serial went back";
    SERIALS_SEEN "serials_seen" "1" Neither "serials seen";
    PAIRS_ASKED "pairs_asked" "1" Neither "pairs of names asked that change together";
    MIXED_BY_QUERY "mixed_by_query" "1" Less "pairs of which one name was new and the other old";
    ZONES_TRANSFERRED "zones_transferred" "1" Neither "whole zones transferred from it";
    ZONES_BROKEN_OFF "zones_broken_off" "1" Neither "zone transfers from it that broke off";
    HALF_BY_TRANSFER "half_by_transfer" "1" Less "transferred zones with a half of a change";
    CAUGHT_UP "caught_up" "1" More "1: it served the newest version in the end";
}

families! {
    RCODE "rcode_" "" "1" Neither "answers with a response code";
    FINDING "finding_" "" "1" Neither "1: the load has this finding";
    DROPS "drops_" "" "1" Less "packets of the generator's that were dropped, by place";
    ANSWERED_BY_GENERATOR "" "_answered_qps" "1/s" More "queries answered a second, of one generator";
    ANSWERED_BY_SECONDARY "answered_" "_qps" "1/s" More "queries answered a second, by one secondary of several that were asked";
    LAG_OF_SECONDARY_P50 "lag_" "_p50" "us" Less "lag of one secondary: median";
    LAG_OF_SECONDARY_MAX "lag_" "_max" "us" Less "lag of one secondary: the longest";
    LAG_OF_KIND_P50 "lag_of_" "_p50" "us" Less "lag of the secondaries of one kind: median";
    LAG_OF_KIND_MAX "lag_of_" "_max" "us" Less "lag of the secondaries of one kind: the longest";
    VIRTUAL_OF_MAPS "virtual_" "" "B" Less "virtual size of one kind of memory map";
    PSS_OF_MAPS "pss_" "" "B" Less "PSS of one kind of memory map";
    HOST_DROPS "" "_drops" "1" Less "packets dropped on a host";
    HOST_INTERFACE_DROPS "" "_interface_drops" "1" Less "packets dropped at a host's interface";
    HOST_SOCKET_DROPS "" "_socket_drops" "1" Less "packets dropped at a host's full sockets";
    HOST_SEND_BUFFER_DROPS "" "_send_buffer_drops" "1" Less "packets dropped at a host's full send buffers";
}

/// Every metric that is not of a family.
fn single() -> impl Iterator<Item = Definition> {
    let percentiles = PERCENTILES.iter().flat_map(|p| p.all());
    SINGLE.iter().copied().chain(percentiles).chain(PHASES.iter().flat_map(|p| p.all()))
}

/// The metric of a name; none where no part of a trial has a single metric of that name.
pub fn find(name: &str) -> Option<Definition> {
    let scoped = single().flat_map(|definition| Scope::ALL.map(|scope| definition.within(scope)));
    scoped.filter(|definition| definition.is(name)).min_by_key(|definition| definition.scope as u8)
}

/// The unit and title of any metric by its name; none where the registry does not have it.
pub fn describe(name: &str) -> Option<(&'static str, &'static str)> {
    let scoped = single().flat_map(|definition| Scope::ALL.map(|scope| definition.within(scope)));
    let rest = |scope: Scope| name.strip_prefix(scope.prefix());
    let of_family = |name| describe_in(std::iter::empty(), FAMILIES.iter().copied(), name);
    describe_in(scoped, std::iter::empty(), name)
        .or_else(|| Scope::ALL.into_iter().filter_map(rest).find_map(of_family))
}

/// The unit and title of a figure among these, by its name.
pub(crate) fn describe_in(
    mut single: impl Iterator<Item = Definition>,
    mut families: impl Iterator<Item = Family>,
    name: &str,
) -> Option<(&'static str, &'static str)> {
    let one = single.find(|definition| definition.is(name)).map(|d| (d.unit, d.title));
    one.or_else(|| families.find(|family| family.which(name).is_some()).map(|f| (f.unit, f.title)))
}

/// The registry as a table of Markdown.
pub fn markdown() -> String {
    table(single(), FAMILIES)
}

/// Figures as a table of Markdown. `…` stands for the thing that a figure of a family is of.
pub(crate) fn table(single: impl Iterator<Item = Definition>, families: &[Family]) -> String {
    let mut text = String::from("| metric | unit | better | what it is |\n|---|---|---|---|\n");
    let mut row = |name: String, unit: &str, better: Better, title: &str| {
        let better = match better {
            Better::More => "more",
            Better::Less => "less",
            Better::Neither => "",
        };
        writeln!(text, "| `{name}` | {unit} | {better} | {title} |").expect("a String takes it");
    };
    single.for_each(|d| row(d.name(), d.unit, d.better, d.title));
    families.iter().for_each(|f| row(f.name("…"), f.unit, f.better, f.title));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_metrics_have_one_name() {
        let names: Vec<String> =
            single().map(Definition::name).chain(FAMILIES.iter().map(|f| f.name("…"))).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn each_unit_is_known_to_be_of_times_or_rates_or_not_to_be() {
        let others = |metric: &Metric| ["1", "B", "%"].contains(&metric.unit.as_str());
        for metric in single().map(|definition| definition.of(1.0)) {
            assert_ne!(metric.is_time_or_rate(), others(&metric), "{metric:?}");
        }
    }

    #[test]
    fn a_name_is_found_in_the_part_that_it_is_of() {
        assert_eq!(find("sent"), Some(SENT));
        assert_eq!(find("background_sent"), Some(SENT.within(Scope::Background)));
        assert_eq!(find("tcp_retries_latency_p99"), Some(LATENCY.p99.within(Scope::TcpRetries)));
        assert_eq!(find("update_accepted_ups"), Some(ACCEPTED_UPS.within(Scope::Updates)));
        assert_eq!(find("sents"), None);
        assert_eq!(describe("rcode_NXDOMAIN").unwrap().0, "1");
        assert_eq!(describe("update_rcode_REFUSED").unwrap().0, "1");
        assert_eq!(describe("generator_2_answered_qps").unwrap().0, "1/s");
        assert_eq!(describe("rcode_"), None);
    }

    #[test]
    fn a_metric_has_its_name_and_unit() {
        assert_eq!(SENT.within(Scope::Background).count(3), Metric::new("background_sent", "1", 3.0));
        let of = LATENCY.of(&Latency { p50: 1.0, p90: 2.0, p99: 3.0, p999: 4.0, max: 5.0 });
        assert_eq!((of[0].name.as_str(), of[4].value), ("latency_p50", 5.0));
        assert_eq!(
            LAG_OF_SECONDARY_P50.of("secondary-2", 7.0),
            Metric::new("lag_secondary_2_p50", "us", 7.0)
        );
    }

    #[test]
    fn the_page_of_metrics_is_the_registry() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let text = std::fs::read_to_string(page).expect("the page");
        // Each table stands at the end of its section.
        let mut sections: Vec<String> = text.split("\n## ").map(str::to_owned).collect();
        let tables = [markdown(), crate::series::markdown(), crate::params::markdown()];
        assert_eq!(sections.len(), tables.len(), "a section for each registry");
        for (section, table) in sections.iter_mut().zip(tables) {
            let (before, _) = section.split_once("<!-- made -->").expect("where the table begins");
            *section = format!("{before}<!-- made -->\n\n{table}");
        }
        let wanted = sections.join("\n## ");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(page, &wanted).expect("it can be written");
        }
        assert!(text == wanted, "run this test with UPDATE_DOCS=1");
    }
}
