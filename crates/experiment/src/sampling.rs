//! What both sides used, second by second, and the rows that series are made of.

use crate::trial::Bench;
use measure::Metric;
use rack::Host;
use rack::sample::{self, Core, HostCounters, Processes, Usage};
use results::SeriesRow;
use serde_json::Value;
use std::time::Instant;

/// Reads /proc at each second of a trial and gives what changed.
pub struct Sampling {
    server: Vec<u32>,
    generators: Vec<u32>,
    hosts: Vec<(&'static str, Vec<HostCounters>)>,
    first: Vec<u64>,
    last: Reading,
}

/// One look at the machine.
struct Reading {
    at: Instant,
    cores: Vec<Core>,
    server: Usage,
    generator: Usage,
    own: Usage,
    /// Of each kind of host, since it is there.
    drops: Vec<u64>,
}

/// A counter of processes.
type Counter = fn(&Usage) -> u64;

/// What processes did in a second beside computing.
const SPENT: [(&str, &str, Counter); 4] = [
    ("switches", "1/s", |usage| usage.voluntary_switches),
    ("preemptions", "1/s", |usage| usage.involuntary_switches),
    ("disk_read", "B/s", |usage| usage.disk_read),
    ("disk_written", "B/s", |usage| usage.disk_written),
];

impl Sampling {
    /// From now on. What cannot be read here gives no rows: the trial's figures do not depend on it. Nor does a server without
    /// processes here, an external one.
    pub fn start(bench: &Bench, server: Vec<u32>, generators: Vec<u32>) -> Self {
        let open = |hosts: &[Host]| hosts.iter().filter_map(|host| HostCounters::open(host).ok()).collect();
        let mut hosts = vec![("generator", open(bench.generators))];
        if !server.is_empty() {
            hosts.insert(0, ("server", open(std::slice::from_ref(bench.server))));
        }
        let last = read(&server, &generators, &hosts);
        Self { server, generators, hosts, first: last.drops.clone(), last }
    }

    /// Datagrams lost inside each host since the start: at its devices and at full socket buffers.
    pub fn drops(&self) -> Vec<Metric> {
        let lost = |((name, counters), first): (&(&str, Vec<HostCounters>), &u64)| {
            Metric::new(format!("{name}_drops"), "1", dropped(counters).saturating_sub(*first) as f64)
        };
        self.hosts.iter().zip(&self.first).map(lost).collect()
    }

    /// What happened since the last call.
    pub fn rows(&mut self, second: u32) -> Vec<SeriesRow> {
        let now = read(&self.server, &self.generators, &self.hosts);
        let last = std::mem::replace(&mut self.last, now);
        let now = &self.last;
        let wall = (now.at - last.at).as_secs_f64().max(1e-3);
        let mut rows = Vec::new();
        let mut row = |metric: String, unit: &str, value: f64| {
            rows.push(SeriesRow { second, metric, unit: unit.into(), value });
        };
        let percent =
            |now: &Usage, last: &Usage| now.cpu().saturating_sub(last.cpu()).as_secs_f64() / wall * 100.0;
        // Ours: what this sampling costs, among little else.
        row("coordinator_cpu".into(), "%", percent(&now.own, &last.own));
        let here = (!self.server.is_empty()).then_some(("server", &now.server, &last.server));
        for (name, now, last) in here.into_iter().chain([("generator", &now.generator, &last.generator)]) {
            row(format!("{name}_cpu"), "%", percent(now, last));
            row(format!("{name}_rss"), "B", now.rss as f64);
            for (what, unit, of) in SPENT {
                row(format!("{name}_{what}"), unit, of(now).saturating_sub(of(last)) as f64 / wall);
            }
        }
        for (core, before) in now.cores.iter().zip(&last.cores) {
            let spent = core.since(before);
            for (word, part) in [
                ("user", spent.user),
                ("system", spent.system),
                ("softirq", spent.softirq),
                ("steal", spent.steal),
            ] {
                row(format!("{word}_core{}", core.core), "%", spent.percent(part));
            }
        }
        for (((name, _), drops), before) in self.hosts.iter().zip(&now.drops).zip(&last.drops) {
            row(format!("{name}_drops"), "1", drops.saturating_sub(*before) as f64);
        }
        rows
    }
}

/// Datagrams lost in hosts since they are there.
fn dropped(hosts: &[HostCounters]) -> u64 {
    hosts.iter().filter_map(|host| Some(host.read().ok()?.drops())).sum()
}

fn read(server: &[u32], generators: &[u32], hosts: &[(&'static str, Vec<HostCounters>)]) -> Reading {
    let all = Processes::now().ok();
    let usage = |roots: &[u32]| all.as_ref().map(|all| all.usage(roots)).unwrap_or_default();
    Reading {
        at: Instant::now(),
        cores: sample::cores().unwrap_or_default(),
        server: usage(server),
        generator: usage(generators),
        own: all.as_ref().map(|all| all.usage_of_one(std::process::id())).unwrap_or_default(),
        drops: hosts.iter().map(|(_, hosts)| dropped(hosts)).collect(),
    }
}

/// The server's memory at the end of a trial; nothing of an external one, which has no processes here.
pub fn memory(pids: &[u32]) -> Vec<Metric> {
    let mut metrics = Vec::new();
    if let (false, Ok(all)) = (pids.is_empty(), Processes::now()) {
        metrics.push(Metric::new("server_rss", "B", all.usage(pids).rss as f64));
        metrics.push(Metric::new("server_virtual", "B", all.usage(pids).virtual_size as f64));
        metrics.push(Metric::new("server_cpu", "s", all.usage(pids).cpu().as_secs_f64()));
        if let Ok(pss) = sample::pss(&all.tree(pids)) {
            metrics.push(Metric::new("server_pss", "B", pss as f64));
        }
    }
    metrics
}

/// Seconds of CPU time that a server spent while a series went on.
pub fn server_seconds(series: &[SeriesRow]) -> f64 {
    series.iter().filter(|row| row.metric == "server_cpu").map(|row| row.value / 100.0).sum()
}

/// The mean of a metric over the seconds of a series.
pub fn mean(series: &[SeriesRow], metric: &str) -> Option<f64> {
    let values: Vec<f64> = series.iter().filter(|row| row.metric == metric).map(|row| row.value).collect();
    results::stats::mean(&values)
}

/// How busy cores were over a series, softirq and what the hypervisor took included, in percent.
pub fn busy(series: &[SeriesRow], cores: &[usize]) -> f64 {
    let of_core = |core: &usize| -> f64 {
        let parts = ["user", "system", "softirq", "steal"];
        parts.iter().filter_map(|part| mean(series, &format!("{part}_core{core}"))).sum()
    };
    cores.iter().map(of_core).sum::<f64>() / cores.len().max(1) as f64
}

/// The unit of a figure, from the ending of its name.
fn unit(name: &str) -> &'static str {
    match name.rsplit('_').next() {
        Some("qps") => "1/s",
        Some("p50" | "p90" | "p99" | "p999" | "max") => "us",
        Some("ratio") => "1",
        _ if name.starts_with("bytes") => "B",
        _ => "1",
    }
}

/// The generator's own figures of a second.
pub fn rows(second: u32, values: &Value) -> Vec<SeriesRow> {
    let mut rows = Vec::new();
    for (name, value) in values.as_object().into_iter().flatten() {
        if let Some(value) = value.as_f64() {
            rows.push(SeriesRow { second, metric: name.clone(), unit: unit(name).into(), value });
        }
    }
    rows
}

/// The same for a person.
pub fn sentence(values: &Value) -> String {
    let of = |name: &str| values.get(name).and_then(Value::as_f64);
    let rate = of("answered_qps").or_else(|| of("answered")).unwrap_or_default();
    let mut text = format!("{} answered/s", measure::units::grouped(rate.round() as u64));
    for (name, label) in [("latency_p50", "median"), ("latency_p99", "p99"), ("latency_max", "max")] {
        if let Some(us) = of(name) {
            text += &format!(", {label} {us:.0} µs");
        }
    }
    text
}
