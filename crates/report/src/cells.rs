//! A run's trials, gathered: one cell for each server, zone and rate, with all its repeats.

use crate::Error;
use measure::metrics::{self, Definition};
use measure::{Histogram, Nanos, Parameter, hardware, params, units};
use results::published::Table;
use results::{RunDir, TrialRecord};
use stats::{Basis, Interval};

/// The parameters of a cell: server, zone and traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The server's label.
    pub server: String,
    /// Its kind: `bind`, `nsd` …
    pub kind: String,
    /// `U-4-DS0` … or `own zone`.
    pub family: String,
    /// Delegations, where the trial says so.
    pub size: Option<u64>,
    /// The zone is a scenario of the run, and the family is its name.
    pub scenario: bool,
    /// Whether the zone is signed.
    pub signed: bool,
    /// Queries per second, as written; none for a peak.
    pub rate: Option<String>,
    /// Updates of the zone per second, as written; none where it does not change at a rate.
    pub updates: Option<String>,
    /// `latency`, `peak`, `memory` …
    pub measure: String,
    /// The CPUs of the server, where the experiment tries several numbers.
    pub workers: Option<u64>,
    /// The traffic, where the experiment has several.
    pub variant: Option<String>,
    /// How the zone is carried to secondaries.
    pub carried: Carried,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Column {
    /// Zones of this many delegations, where that is known.
    Size(Option<u64>),
    /// A scenario by its name.
    Scenario(String),
    /// Memory of so many octets that a test of the machine goes through.
    Octets(u64),
    /// Threads of a test of the machine.
    Threads(u64),
    /// The one column of tests of the machine that have neither.
    Machine,
}

impl Column {
    /// Its heading.
    pub fn name(&self) -> String {
        match self {
            Self::Size(size) => size.map_or_else(|| "zone".into(), units::short),
            Self::Scenario(name) => name.clone(),
            Self::Octets(size) => crate::hardware::octets(*size),
            Self::Threads(threads) => crate::format::plural(*threads as usize, "thread"),
            Self::Machine => "this machine".into(),
        }
    }
}

/// How a zone is carried from server to server, as a trial's parameters say; nothing where they say nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    /// The primary's kind.
    pub primary: Option<String>,
    /// `default` or `tuned`.
    pub timers: Option<String>,
    /// The round trip of the path in milliseconds, and the share of packets that it loses, where each way is constant.
    pub rtt_ms: Option<String>,
    /// As above.
    pub loss: Option<String>,
    /// How much of the zone changes, as a share of its records, and in how many batches that was to be.
    pub share: Option<String>,
    /// As above.
    pub batches: Option<String>,
}

impl Carried {
    fn of(trial: &TrialRecord) -> Self {
        let param = |parameter: Parameter| trial.param(parameter).map(str::to_owned);
        Self {
            primary: param(params::PRIMARY_KIND),
            timers: param(params::TIMERS),
            rtt_ms: param(params::PATH_RTT_MS),
            loss: param(params::PATH_LOSS),
            share: param(params::SHARE),
            batches: param(params::BATCHES),
        }
    }

    /// The share of packets that the path loses, where it is known.
    pub fn lost(&self) -> Option<f64> {
        self.loss.as_ref()?.parse().ok()
    }
}

impl Key {
    fn of(trial: &TrialRecord) -> Self {
        let param = |parameter: Parameter| trial.param(parameter).unwrap_or_default().to_owned();
        if trial.param(params::MEASURE) == Some(hardware::MEASURE) {
            return Self::of_machine(trial);
        }
        let measure = match trial.param(params::MEASURE) {
            Some(measure) => measure,
            None if trial
                .outcome
                .metric(metrics::PEAK_LOWER)
                .or(trial.outcome.metric(metrics::PEAK_QPS))
                .is_some() =>
            {
                "peak"
            }
            None => "latency",
        };
        Self {
            server: param(params::SERVER),
            kind: param(params::KIND),
            family: param(params::FAMILY),
            // A zone without delegations has none to speak of, and slices of one zone are about as large as each other.
            size: trial.param(params::ZONE_SIZE).and_then(|s| units::count(s).ok()).filter(|n| {
                *n > 0 && !trial.param(params::FAMILY).is_some_and(|family| family.contains('#'))
            }),
            scenario: trial.param(params::ZONE_MADE).is_some(),
            // `no`, or how: `yes RSASHA256`, `rzaia`, an algorithm.
            signed: trial.param(params::SIGNED).is_some_and(|s| !s.is_empty() && s != "no"),
            rate: (measure == "latency").then(|| param(params::RATE)),
            updates: trial.param(params::UPDATES).map(str::to_owned),
            measure: measure.to_owned(),
            workers: trial.param(params::WORKERS).and_then(|n| n.parse().ok()),
            variant: trial.param(params::VARIANT).map(str::to_owned),
            carried: Carried::of(trial),
        }
    }

    /// Of a test of the machine: its case stands where others have a server, and the test where they have a zone.
    fn of_machine(trial: &TrialRecord) -> Self {
        let param = |parameter: Parameter| trial.param(parameter).unwrap_or_default().to_owned();
        let number = |parameter: Parameter| trial.param(parameter).and_then(|n| n.parse().ok());
        let family = param(params::TEST);
        Self {
            server: param(params::CASE),
            kind: String::new(),
            size: number(params::WORKING_SET),
            scenario: false,
            signed: false,
            rate: None,
            updates: None,
            measure: hardware::MEASURE.into(),
            workers: number(params::THREADS).filter(|_| family == hardware::STREAM),
            family,
            variant: None,
            carried: Carried::default(),
        }
    }

    /// Whether it is of this measure.
    pub fn is(&self, measure: &str) -> bool {
        self.measure == measure
    }

    /// The words beside the server in a table: the zone's type, and the traffic. Scenarios are columns.
    pub fn row(&self) -> String {
        if self.scenario { self.traffic().collect::<Vec<_>>().join(", ") } else { self.family_and_row() }
    }

    /// The row with the family before it, or the name of the scenario: it tells a server's cells of one size apart.
    pub fn family_and_row(&self) -> String {
        self.traffic().fold(self.family.clone(), |row, part| format!("{row}, {part}"))
    }

    /// The words for the traffic: the variant, how fast the zone changes, and the CPUs that the server had.
    fn traffic(&self) -> impl Iterator<Item = String> {
        // Threads of a test of the machine are columns.
        let cpus = self
            .workers
            .filter(|_| !self.is(hardware::MEASURE))
            .map(|n| if n == 1 { "1 CPU".into() } else { format!("{n} CPUs") });
        self.variant.clone().into_iter().chain(self.changes()).chain(cpus)
    }

    /// The column in a table: a size, or a scenario.
    pub fn column(&self) -> Column {
        if self.is(hardware::MEASURE) {
            let octets = || self.size.map(Column::Octets).filter(|_| self.family != hardware::DISK);
            return self.workers.map(Column::Threads).or_else(octets).unwrap_or(Column::Machine);
        }
        if self.scenario { Column::Scenario(self.family.clone()) } else { Column::Size(self.size) }
    }

    /// The zone's type and size: `U-4-DS0, 10K`.
    pub fn zone(&self) -> String {
        let size = self.size.map_or_else(String::new, |size| format!(", {}", units::short(size)));
        let variant = self.variant.as_ref().map_or_else(String::new, |v| format!(" ({v})"));
        let changes = self.changes().map_or_else(String::new, |text| format!(" under {text}"));
        format!("{}{size}{variant}{changes}", self.family)
    }

    /// How fast the zone changes, in words.
    fn changes(&self) -> Option<String> {
        self.updates.as_ref().map(|rate| format!("{rate} updates/s"))
    }
}

/// Different values over some cells, in order of appearance.
pub(crate) fn distinct<'a, T: PartialEq>(
    cells: impl Iterator<Item = &'a Cell<'a>>,
    of: impl Fn(&Cell) -> T,
) -> Vec<T> {
    let mut all = Vec::new();
    for value in cells.map(of) {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// All repeats of one measurement.
#[derive(Debug)]
pub(crate) struct Cell<'a> {
    pub key: Key,
    pub trials: Vec<&'a TrialRecord>,
}

/// How far the figures of a cell may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// From valid trials.
    Valid,
    /// There are figures, but no valid trial gave them.
    Invalid,
    /// Every trial failed.
    Failed,
    /// No trial was tried, as none could fit.
    Skipped,
    /// There was no trial.
    Absent,
}

/// A figure over repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    /// The median over the trials.
    pub value: f64,
    /// Its interval; none for a single trial.
    pub interval: Option<Interval>,
    /// The number of trials that have this figure. A trial lacks it, for example, where a time was not certain and was left out.
    pub repeats: usize,
}

impl Figure {
    pub fn of(values: &[f64]) -> Option<Self> {
        let interval = stats::interval(values, stats::LEVEL).filter(|_| values.len() > 1);
        Some(Self { value: stats::median(values)?, interval, repeats: values.len() })
    }

    /// Another value that comes from the same trials. It has no interval.
    pub fn and(self, value: f64) -> Self {
        Self { value, interval: None, ..self }
    }

    /// The interval in words, its ends written by `range`; none where it is no wider than `text` says.
    pub fn interval_text(&self, text: &str, range: impl Fn(f64, f64) -> String) -> Option<String> {
        let i = self.interval?;
        let word = if i.basis == Basis::Range { "range " } else { "" };
        Some(range(i.low, i.high)).filter(|r| r != text).map(|r| format!("{word}{r}"))
    }
}

impl<'a> Cell<'a> {
    /// Believable, invalid or failed.
    pub fn state(&self) -> State {
        match self.trials.as_slice() {
            [] => State::Absent,
            all if all.iter().any(|t| t.is_valid()) => State::Valid,
            all if all.iter().all(|t| t.skipped.is_some()) => State::Skipped,
            all if all.iter().any(|t| t.error.is_none() && t.skipped.is_none()) => State::Invalid,
            _ => State::Failed,
        }
    }

    /// The trials that figures come from: the valid ones; where there are none, the invalid ones.
    pub fn used(&self) -> Vec<&'a TrialRecord> {
        let valid = self.state() == State::Valid;
        self.trials
            .iter()
            .copied()
            .filter(|t| if valid { t.is_valid() } else { t.error.is_none() && t.skipped.is_none() })
            .collect()
    }

    /// A metric over the repeats.
    pub fn metric(&self, which: Definition) -> Option<Figure> {
        self.metric_named(&which.name())
    }

    /// As [`metric`](Self::metric), of one of a family.
    pub fn metric_named(&self, name: &str) -> Option<Figure> {
        Figure::of(&self.used().iter().filter_map(|t| t.outcome.metric_named(name)).collect::<Vec<_>>())
    }

    /// The latency in nanoseconds within which the share `q` of all queries sent was answered, over
    /// the repeats. A query without an answer in time counts as slower than the deadline: a value
    /// above it stands for "not within the deadline".
    pub fn latency(&self, q: f64, deadline: Nanos) -> Option<Figure> {
        Figure::of(
            &self.used().iter().filter_map(|t| Sample::of(t)?.quantile(q, deadline)).collect::<Vec<_>>(),
        )
    }

    /// The latencies of all repeats together.
    pub fn sample(&self) -> Option<Sample> {
        Sample::of_all(&self.used())
    }

    /// Everything that a table cell must say besides its figure: invalid and failed trials.
    pub fn remarks(&self) -> Vec<String> {
        let failed = self.trials.iter().filter(|t| t.error.is_some()).count();
        let invalid = self.trials.iter().filter(|t| t.error.is_none() && !t.outcome.validity.valid).count();
        let skipped = self.trials.iter().find_map(|t| t.skipped.clone());
        let of = self.trials.len();
        let mut all: Vec<String> = skipped.into_iter().collect();
        if self.state() == State::Invalid {
            all.push("INVALID".to_owned());
        } else if invalid > 0 {
            all.push(format!("{invalid} of {of} invalid, left out"));
        }
        let wrong = self.used().iter().filter(|trial| trial.wrong_answers().is_some()).count();
        if wrong > 0 {
            all.push("wrong answers".to_owned());
        }
        if failed > 0 && self.state() != State::Failed {
            all.push(format!("{failed} of {of} failed"));
        }
        all
    }
}

/// The latencies of queries that were sent, answered or not.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Of the answered ones, from the intended time of sending.
    pub histogram: Histogram,
    /// How many were sent.
    pub sent: f64,
}

impl Sample {
    pub fn of(trial: &TrialRecord) -> Option<Self> {
        let histogram = trial.outcome.histogram("latency")?.clone();
        // A trial without the metric counts its answers: there is nothing else to go by.
        let count = histogram.count() as f64;
        let sent = trial.outcome.metric(metrics::SENT).unwrap_or(count).max(count);
        (sent > 0.0).then_some(Self { histogram, sent })
    }

    /// The latencies of some trials together; none where no trial has them.
    pub fn of_all(trials: &[&TrialRecord]) -> Option<Self> {
        let mut samples = trials.iter().filter_map(|trial| Self::of(trial));
        let mut all = samples.next()?;
        for sample in samples {
            all.histogram.merge(&sample.histogram);
            all.sent += sample.sent;
        }
        Some(all)
    }

    /// The latency at the share `q` of all queries sent; just above `deadline` where it is not within it.
    pub fn quantile(&self, q: f64, deadline: Nanos) -> Option<f64> {
        self.histogram.quantile_of_sent(self.sent, q, Some(deadline))
    }

    /// The share (0 to 1) of all queries sent that was answered within `latency`.
    pub fn share_within(&self, latency: Nanos) -> f64 {
        if self.histogram.count() == 0 {
            return 0.0;
        }
        self.histogram.share_below(latency) * self.histogram.count() as f64 / self.sent
    }
}

/// A duration among a trial's parameters.
pub(crate) fn duration(trial: &TrialRecord, parameter: Parameter) -> Option<Nanos> {
    units::duration(trial.param(parameter)?).ok()
}

/// A run, ready to be shown.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub dir: &'a RunDir,
    pub plan: toml::Table,
    pub cells: Vec<Cell<'a>>,
    /// Labels in order of appearance: the order of rows, and of colours.
    pub servers: Vec<String>,
    pub deadline: Nanos,
}

impl<'a> Run<'a> {
    pub fn new(dir: &'a RunDir) -> Result<Self, Error> {
        let plan: toml::Table = toml::from_str(dir.run_toml())
            .map_err(|e| Error::Plan { path: dir.dir().join("run.toml"), cause: e.to_string() })?;
        let mut cells: Vec<Cell> = Vec::new();
        let mut servers: Vec<String> = Vec::new();
        for trial in dir.trials() {
            let key = Key::of(trial);
            if !servers.contains(&key.server) {
                servers.push(key.server.clone());
            }
            match cells.iter_mut().find(|c| c.key == key) {
                Some(cell) => cell.trials.push(trial),
                None => cells.push(Cell { key, trials: vec![trial] }),
            }
        }
        let deadline = dir.trials().iter().find_map(|t| duration(t, params::DEADLINE));
        Ok(Self { dir, plan, cells, servers, deadline: deadline.unwrap_or(4_000_000_000) })
    }

    /// Text at `section.key` of the plan (`key` alone: at the top).
    pub fn planned(&self, key: &str) -> Option<String> {
        let mut at = self.plan.get(key.split('.').next()?)?;
        for part in key.split('.').skip(1) {
            at = at.get(part)?;
        }
        Some(at.as_str().map_or_else(|| at.to_string(), str::to_owned))
    }

    /// Whether the experiment asks for a published table.
    pub fn wants(&self, id: &str) -> bool {
        self.published().iter().any(|p| p == id)
    }

    /// The published table `id`, where the experiment asks for it.
    pub fn published_table(&self, id: &str) -> Option<&'static Table> {
        results::published::find(id).filter(|_| self.wants(id))
    }

    /// The identifiers of the published tables that the experiment names, in its plan or in its trials.
    pub fn published(&self) -> Vec<String> {
        let planned = self.plan.get("published").and_then(|p| p.as_array());
        let planned = planned.into_iter().flatten().filter_map(|p| p.as_str());
        let params = self.dir.trials().iter().filter_map(|t| t.param(params::PUBLISHED));
        let params = params.flat_map(|p| p.split([',', ' ', ';'])).map(str::trim);
        let mut all: Vec<String> = Vec::new();
        for id in planned.chain(params).filter(|p| !p.is_empty()) {
            if !all.iter().any(|p| p == id) {
                all.push(id.to_owned());
            }
        }
        all
    }

    /// Different values of `of` among cells, in order of appearance.
    pub fn distinct<T: PartialEq>(&self, measure: &str, of: impl Fn(&Key) -> T) -> Vec<T> {
        distinct(self.cells.iter().filter(|c| c.key.is(measure)), |c| of(&c.key))
    }

    /// The kind of each server, in the order of [`Run::servers`].
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        let cell_of = |s: &String| self.cells.iter().find(|c| c.key.server == *s);
        self.servers.iter().map(move |s| cell_of(s).map_or("", |c| c.key.kind.as_str()))
    }

    /// The index of a server, for its colour.
    pub fn style(&self, server: &str) -> usize {
        self.servers.iter().position(|s| s == server).unwrap_or(0)
    }

    /// Valid, invalid, failed and skipped trials.
    pub fn counts(&self) -> (usize, usize, usize, usize) {
        let all = self.dir.trials();
        let valid = all.iter().filter(|t| t.is_valid()).count();
        let failed = all.iter().filter(|t| t.error.is_some()).count();
        let skipped = all.iter().filter(|t| t.skipped.is_some()).count();
        (valid, all.len() - valid - failed - skipped, failed, skipped)
    }
}
