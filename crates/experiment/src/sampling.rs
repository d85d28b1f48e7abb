//! CPU time, memory and drops of both sides, second by second, and the rows of the series.

use crate::Error;
use crate::run_context::RunContext;
use agent::{Agent, Meter, Reading, Readings, Server, Watched};
use measure::clock::SECOND;
use measure::metrics::{self, Family};
use measure::{Definition, Metric, Nanos, series};
use rack::resource_counters::{Core, Counters, Usage};
use results::SeriesRow;
use serde_json::Value;
use std::time::Duration;

/// Reads the counters of each machine at each second of a trial and gives what changed.
pub struct Sampling {
    machines: Vec<Machine>,
}

/// A machine with hosts of ours.
struct Machine {
    readings: Readings,
    first: Reading,
    last: Reading,
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

/// The processes of one side in a reading; none where they are on another machine.
type UsageOf = fn(&Reading) -> Option<&Usage>;

/// The hosts of one side in a reading.
type CountersOf = fn(&Reading) -> Option<Counters>;

impl Sampling {
    /// From now on. `asking` are processes on the generators' hosts, with the names of these. The server's machine is the first.
    ///
    /// # Errors
    /// The agents'.
    pub fn start(context: &RunContext, server: &Server, asking: &[(&str, u32)]) -> Result<Self, Error> {
        let mut all: Vec<(&Agent, Watched)> = Vec::new();
        if server.is_ours() {
            let mut watched = Watched::default();
            watched.server(server, context.experiment.second_count);
            all.push((server.agent(), watched));
        }
        for agent in context.generators {
            let known = all.iter().position(|(one, _)| one.is_beside(agent));
            let at = known.unwrap_or_else(|| {
                all.push((agent, Watched::default()));
                all.len() - 1
            });
            let here = asking.iter().filter(|(host, _)| *host == agent.host.name);
            all[at].1.generator(agent, here.map(|(_, pid)| *pid));
        }
        let machine = |(agent, watched): (&Agent, Watched)| -> Result<Machine, Error> {
            let readings = Readings::open(agent, watched)?;
            let first = readings.read()?;
            Ok(Machine { readings, last: first.clone(), first })
        };
        Ok(Self { machines: all.into_iter().map(machine).collect::<Result<_, _>>()? })
    }

    /// Meters a load whose first query is due at `base` (wall clock), for `length`, on the server's machine.
    ///
    /// # Errors
    /// The agent's.
    pub fn meter(&self, base: Nanos, length: Nanos) -> Result<Meter, Error> {
        Ok(Meter::start(&self.machines[0].readings, base, length)?)
    }

    /// Datagrams lost inside each host since the start, by place.
    ///
    /// # Errors
    /// The agents'.
    pub fn drops(&self) -> Result<Vec<Metric>, Error> {
        let now: Vec<Reading> = self.machines.iter().map(|m| m.readings.read()).collect::<Result<_, _>>()?;
        let pairs = now.iter().zip(&self.machines).map(|(now, machine)| (now, &machine.first));
        Ok(dropped(pairs))
    }

    /// The rows of the time since the last call.
    ///
    /// # Errors
    /// The agents'.
    pub fn rows(&mut self, second: u32) -> Result<Vec<SeriesRow>, Error> {
        let mut before = Vec::new();
        for machine in &mut self.machines {
            let now = machine.readings.read()?;
            before.push(std::mem::replace(&mut machine.last, now));
        }
        let pairs = || self.machines.iter().map(|machine| &machine.last).zip(&before);
        let mut rows = Vec::new();
        let mut add = |figure: Metric| rows.push(SeriesRow::new(second, figure));
        // Ours: what this sampling costs, among little else.
        add(metrics::COORDINATOR_CPU
            .of(pairs().map(|(now, last)| percent(now, last, |r| Some(r.own.cpu()))).sum()));
        let sides: [(series::Processes, UsageOf); 2] = [
            (series::SERVER, |reading| reading.server.as_ref().map(|side| &side.usage)),
            (series::GENERATOR, |reading| Some(&reading.generators.usage)),
        ];
        for (side, usage) in sides {
            let here: Vec<_> = pairs().filter(|(now, _)| usage(now).is_some()).collect();
            if here.is_empty() {
                continue;
            }
            let sum = |of: &dyn Fn(&Reading, &Reading) -> f64| -> f64 {
                here.iter().map(|(now, last)| of(now, last)).sum()
            };
            let count = |reading: &Reading, of: Counter| usage(reading).map_or(0, of);
            add(side.cpu.of(sum(&|now, last| percent(now, last, |r| usage(r).map(Usage::cpu)))));
            add(side.rss.of(sum(&|now, _| count(now, |usage| usage.rss) as f64)));
            for (figure, of) in SPENT {
                let rate = |now: &Reading, last: &Reading| {
                    count(now, of).saturating_sub(count(last, of)) as f64 / wall(now, last)
                };
                add(figure(side).of(sum(&rate)));
            }
        }
        // The server's machine is the first.
        let (now, last) = (&self.machines[0].last, &before[0]);
        if now.server.is_some() {
            add(metrics::SERVER_WAITED.of(percent(now, last, |r| Some(r.server?.usage.waited))));
        }
        // By number: a core that goes offline or comes online does not shift the others.
        for core in &now.cores {
            let Some(before) = last.cores.iter().find(|c| c.core == core.core) else { continue };
            let spent = core.since(before);
            for (figure, part) in CORE_PARTS {
                add(figure.of(&core.core.to_string(), spent.percent(part(&spent))));
            }
        }
        dropped(pairs()).into_iter().for_each(&mut add);
        add(series::BACKLOG_DROPS.count(now.backlog.saturating_sub(last.backlog)));
        Ok(rows)
    }
}

/// Seconds between two readings.
fn wall(now: &Reading, last: &Reading) -> f64 {
    (now.at.saturating_sub(last.at) as f64 / SECOND as f64).max(1e-3)
}

/// Time that was spent between two readings, in percent of it.
fn percent(now: &Reading, last: &Reading, of: impl Fn(&Reading) -> Option<Duration>) -> f64 {
    let spent = of(now).unwrap_or_default().saturating_sub(of(last).unwrap_or_default());
    100.0 * spent.as_secs_f64() / wall(now, last)
}

/// Datagrams lost between two readings of each machine, by kind of host and place.
fn dropped<'a>(pairs: impl Iterator<Item = (&'a Reading, &'a Reading)> + Clone) -> Vec<Metric> {
    let kinds: [(&str, CountersOf); 2] = [
        ("server", |reading| reading.server.map(|side| side.hosts)),
        ("generator", |reading| Some(reading.generators.hosts)),
    ];
    let mut metrics = Vec::new();
    for (name, hosts) in kinds {
        for (place, count) in PLACES {
            let lost = |(now, last): (&Reading, &Reading)| {
                Some(count(&hosts(now)?).saturating_sub(hosts(last).map_or(0, |hosts| count(&hosts))))
            };
            let all: Vec<u64> = pairs.clone().filter_map(lost).collect();
            if !all.is_empty() {
                metrics.push(place.of(name, all.iter().sum::<u64>() as f64));
            }
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
