//! CPU time, memory and drops of both sides, second by second, and the rows of the series.

use crate::run_context::RunContext;
use measure::metrics::{self, Family};
use measure::{Definition, Metric, series};
use rack::Host;
use rack::resource_counters::{self, Core, Counters, HostCounters, Processes, Usage};
use rack::server_watch::Snapshot;
use rack::sockets::{self, Socket};
use results::SeriesRow;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The files to read on both sides while a trial goes on.
pub struct Sources {
    server: Vec<u32>,
    generators: Vec<u32>,
    hosts: Vec<(&'static str, Vec<HostCounters>)>,
    /// The server's cores.
    pub server_cpus: Vec<usize>,
    /// The generators may use the server's cores.
    shared: bool,
}

/// Reads /proc at each second of a trial and gives what changed.
pub struct Sampling {
    sources: std::sync::Arc<Sources>,
    first: Vec<Vec<u64>>,
    last: Reading,
}

/// One look at the machine.
struct Reading {
    at: Instant,
    cores: Vec<Core>,
    server: Usage,
    generator: Usage,
    own: Usage,
    /// Of each kind of host, since it is there, by [`PLACES`].
    drops: Vec<Vec<u64>>,
    /// Of the whole machine.
    backlog: u64,
}

/// Where a host drops packets.
type Place = (Family, fn(&Counters) -> u64);

/// `drops` is all of them.
const PLACES: [Place; 4] = [
    (metrics::HOST_DROPS, Counters::drops),
    (metrics::HOST_INTERFACE_DROPS, |c| c.received_dropped + c.sent_dropped),
    (metrics::HOST_SOCKET_DROPS, |c| c.udp_receive_buffer_errors),
    (metrics::HOST_SEND_BUFFER_DROPS, |c| c.udp_send_buffer_errors),
];

/// A counter of processes.
type Counter = fn(&Usage) -> u64;

/// A figure of one side's processes by the second.
type Spent = (fn(series::Processes) -> Definition, Counter);

/// Counters of processes besides CPU time and memory, and where each is read.
const SPENT: [Spent; 4] = [
    (|side| side.switches, |usage| usage.voluntary_switches),
    (|side| side.preemptions, |usage| usage.involuntary_switches),
    (|side| side.disk_read, |usage| usage.disk_read),
    (|side| side.disk_written, |usage| usage.disk_written),
];

/// A part of a core's time.
type CorePart = (Family, fn(&Core) -> Duration);

const CORE_PARTS: [CorePart; 4] = [
    (series::USER_OF_CORE, |core| core.user),
    (series::SYSTEM_OF_CORE, |core| core.system),
    (series::SOFTIRQ_OF_CORE, |core| core.softirq),
    (series::STEAL_OF_CORE, |core| core.steal),
];

impl Sources {
    /// A file that cannot be read here gives no rows: the trial's figures do not depend on it. Nor does a server without
    /// processes here, an external one.
    pub fn open(context: &RunContext, server: Vec<u32>, generators: Vec<u32>) -> Self {
        let open = |hosts: &[Host]| hosts.iter().filter_map(|host| HostCounters::open(host).ok()).collect();
        let mut hosts = vec![("generator", open(context.generators))];
        if !server.is_empty() {
            hosts.insert(0, ("server", open(std::slice::from_ref(context.server))));
        }
        let server_cpus = context.server.cpus.clone();
        let asks_on = |core: &usize| context.generators.iter().any(|host| host.cpus.contains(core));
        let shared = server_cpus.iter().any(asks_on);
        Self { server, generators, hosts, server_cpus, shared }
    }

    /// Whether the server runs on this machine, as ours.
    pub fn server_is_here(&self) -> bool {
        !self.server.is_empty()
    }

    /// The server's processes and cores as they are; none of an external server.
    pub fn server(&self) -> Option<Snapshot> {
        let mut ours = self.generators.clone();
        ours.push(std::process::id());
        let here = self.server_is_here().then(|| Snapshot::of(&self.server, &self.server_cpus, &ours).ok());
        here.flatten()
    }

    /// Time of programs of ours on the server's cores: of the generators, where they share them, since they are there.
    pub fn own(&self) -> Duration {
        if !self.shared {
            return Duration::ZERO;
        }
        Processes::now().map(|all| all.usage(&self.generators).user).unwrap_or_default()
    }

    /// Datagrams that each socket in the server's network stack dropped since it was opened; none of an external server.
    pub fn socket_drops(&self) -> BTreeMap<Socket, u64> {
        self.server.first().and_then(|&pid| sockets::dropped(pid).ok()).unwrap_or_default()
    }

    /// The counters of the server's host, since it was made.
    pub fn server_counters(&self) -> Counters {
        let server = self.hosts.iter().find(|(name, _)| *name == "server");
        server.and_then(|(_, hosts)| hosts.first()?.read().ok()).unwrap_or_default()
    }
}

impl Sampling {
    /// From now on.
    pub fn start(context: &RunContext, server: Vec<u32>, generators: Vec<u32>) -> Self {
        Self::of(std::sync::Arc::new(Sources::open(context, server, generators)))
    }

    /// From now on, of these sources.
    pub fn of(sources: std::sync::Arc<Sources>) -> Self {
        let last = read(&sources);
        Self { first: last.drops.clone(), sources, last }
    }

    /// Datagrams lost inside each host since the start, by place.
    pub fn drops(&self) -> Vec<Metric> {
        let mut metrics = Vec::new();
        for ((name, hosts), first) in self.sources.hosts.iter().zip(&self.first) {
            for (((place, _), now), first) in PLACES.iter().zip(dropped(hosts)).zip(first) {
                metrics.push(place.of(name, now.saturating_sub(*first) as f64));
            }
        }
        metrics
    }

    /// The rows of the time since the last call.
    pub fn rows(&mut self, second: u32) -> Vec<SeriesRow> {
        let now = read(&self.sources);
        let last = std::mem::replace(&mut self.last, now);
        let now = &self.last;
        let wall = (now.at - last.at).as_secs_f64().max(1e-3);
        let mut rows = Vec::new();
        let mut add = |figure: Metric| rows.push(SeriesRow::new(second, figure));
        let percent =
            |now: &Usage, last: &Usage| now.cpu().saturating_sub(last.cpu()).as_secs_f64() / wall * 100.0;
        // Ours: what this sampling costs, among little else.
        add(metrics::COORDINATOR_CPU.of(percent(&now.own, &last.own)));
        let here = self.sources.server_is_here().then_some((series::SERVER, &now.server, &last.server));
        let sides = here.into_iter().chain([(series::GENERATOR, &now.generator, &last.generator)]);
        for (side, now, last) in sides {
            add(side.cpu.of(percent(now, last)));
            add(side.rss.of(now.rss as f64));
            for (figure, count) in SPENT {
                add(figure(side).of(count(now).saturating_sub(count(last)) as f64 / wall));
            }
        }
        if self.sources.server_is_here() {
            let waited = now.server.waited.saturating_sub(last.server.waited).as_secs_f64();
            add(metrics::SERVER_WAITED.of(waited / wall * 100.0));
        }
        // By number: a core that goes offline or comes online does not shift the others.
        for core in &now.cores {
            let Some(before) = last.cores.iter().find(|c| c.core == core.core) else { continue };
            let spent = core.since(before);
            for (figure, part) in CORE_PARTS {
                add(figure.of(&core.core.to_string(), spent.percent(part(&spent))));
            }
        }
        for (((name, _), drops), before) in self.sources.hosts.iter().zip(&now.drops).zip(&last.drops) {
            for (((place, _), now), before) in PLACES.iter().zip(drops).zip(before) {
                add(place.of(name, now.saturating_sub(*before) as f64));
            }
        }
        add(series::BACKLOG_DROPS.count(now.backlog.saturating_sub(last.backlog)));
        rows
    }
}

/// Datagrams lost in hosts since they are there, by [`PLACES`].
fn dropped(hosts: &[HostCounters]) -> Vec<u64> {
    let counters: Vec<Counters> = hosts.iter().filter_map(|host| host.read().ok()).collect();
    PLACES.iter().map(|(_, of)| counters.iter().map(of).sum()).collect()
}

fn read(sources: &Sources) -> Reading {
    let all = Processes::now().ok();
    let usage = |roots: &[u32]| all.as_ref().map(|all| all.usage(roots)).unwrap_or_default();
    Reading {
        at: Instant::now(),
        cores: resource_counters::cores().unwrap_or_default(),
        server: usage(&sources.server),
        generator: usage(&sources.generators),
        own: all.as_ref().map(|all| all.usage_of_one(std::process::id())).unwrap_or_default(),
        drops: sources.hosts.iter().map(|(_, hosts)| dropped(hosts)).collect(),
        backlog: resource_counters::backlog_dropped(),
    }
}

/// The server's memory at the end of a trial; nothing of an external one, which has no processes here.
pub fn memory(pids: &[u32]) -> Vec<Metric> {
    let mut metrics = Vec::new();
    if let (false, Ok(all)) = (pids.is_empty(), Processes::now()) {
        metrics.push(metrics::SERVER_RSS.of(all.usage(pids).rss as f64));
        metrics.push(metrics::SERVER_VIRTUAL.of(all.usage(pids).virtual_size as f64));
        metrics.push(metrics::SERVER_CPU.of(all.usage(pids).cpu().as_secs_f64()));
        if let Ok(pss) = resource_counters::pss(&all.tree(pids)) {
            metrics.push(metrics::SERVER_PSS.of(pss as f64));
        }
    }
    metrics
}

/// The mean of a figure over the seconds of a series.
pub fn mean(series: &[SeriesRow], figure: Definition) -> Option<f64> {
    let values: Vec<f64> = series.iter().filter(|row| figure.is(&row.metric)).map(|row| row.value).collect();
    stats::mean(&values)
}

/// The generator's own figures of a second.
pub fn rows(second: u32, values: &Value) -> Vec<SeriesRow> {
    let row = |(name, value): (&String, &Value)| {
        let (unit, _) = series::describe(name)?;
        Some(SeriesRow { second, metric: name.clone(), unit: unit.into(), value: value.as_f64()? })
    };
    values.as_object().into_iter().flatten().filter_map(row).collect()
}

/// The same for a person.
pub fn sentence(values: &Value) -> String {
    let rate = metrics::ANSWERED_QPS.among(values).unwrap_or_default();
    let mut text = format!("{} answered/s", measure::units::grouped(rate.round() as u64));
    let latency = metrics::LATENCY;
    for (figure, label) in [(latency.p50, "median"), (latency.p99, "p99"), (latency.max, "max")] {
        if let Some(us) = figure.among(values) {
            text += &format!(", {label} {us:.0} µs");
        }
    }
    text
}
