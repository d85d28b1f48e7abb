//! One load from several hosts of a rack: a role on each, started at one instant, added into one result.

use crate::{Error, LoadResult, LoadSpec, Prefix, Source};
use measure::clock::{self, SECOND};
use measure::{Arrivals, Cumulative, Event, Named, Nanos, Pace, Seed, metrics};
use rack::{Role, StandingRack};
use serde::Deserialize;
use serde_json::Value;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use traffic::SourceSpec;

/// How long a role may take to read its names and open its flows.
const PATIENCE: Duration = Duration::from_secs(120);

/// From the moment that all are ready to the start.
const START_DELAY: Nanos = SECOND / 5;

/// A generator of several.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The host that it is on.
    pub name: &'a str,
    /// Its CPUs; none: its part of the specification's.
    pub cpus: &'a [usize],
}

/// The part of the load that one generator sends.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its name: its host's where a load is divided, its server's where several have the same load.
    pub name: String,
    /// The host that it is on.
    pub host: String,
    /// Its load.
    pub spec: LoadSpec,
    /// Its first query is due so long after the common instant: each host's queries fall between the others'.
    offset: Nanos,
    /// Its seconds are not reported: it only goes on beside the others.
    beside: bool,
}

/// Runs a load from `hosts` of a kept rack together, each with an equal part of it, and adds up what came of it
/// ([`LoadResult::merge`]). Each runs on its host's CPUs, or on its part of the specification's where the host has
/// none. Targets that are hosts of the rack are allowed. What the roles write to standard error goes to a file for each
/// in `logs`. `stop` and `events` are as in [`crate::run`]; a second is reported when all hosts have reported it.
///
/// Queries of a profile differ from host to host; those of a file are the same on each, from its beginning.
///
/// # Errors
/// [`Error::Spec`] for what cannot be divided; [`Error::Rack`] where a role could not be started or failed.
pub fn run(
    spec: &LoadSpec,
    rack: &StandingRack,
    hosts: &[String],
    logs: &Path,
    stop: &AtomicBool,
    events: &mut dyn FnMut(Event),
) -> Result<LoadResult, Error> {
    let addresses = rack.hosts.iter().flat_map(|host| host.addresses.iter());
    let mut spec = spec.clone();
    spec.allowed.extend(addresses.map(|&ip| Prefix { ip, bits: if ip.is_ipv4() { 32 } else { 128 } }));
    let member = |name: &'_ String| -> &[usize] {
        rack.hosts.iter().find(|host| host.name == *name).map_or(&[][..], |host| &host.cpus)
    };
    let members: Vec<Member> = hosts.iter().map(|name| Member { name, cpus: member(name) }).collect();
    let mut generators = Generators::start(divide(&spec, &members)?, &mut |part| {
        Role::start_kept(rack, &part.host, "load", &part.spec, &logs.join(format!("{}.log", part.name)))
    })?;
    let at = clock::wall() + START_DELAY;
    generators.start_at(at)?;
    events(Event::Started { at: at + spec.warmup });
    let mut stopped = false;
    while !generators.are_done() {
        if stop.load(Ordering::Relaxed) && !stopped {
            generators.stop();
            stopped = true;
        }
        while let Some((second, values)) = generators.second()? {
            events(Event::Progress { second, values });
        }
    }
    Ok(LoadResult::merge(generators.results()))
}

/// Generators at work together, each a role on its host.
#[derive(Debug)]
pub struct Generators {
    ends: Vec<End>,
    /// Seconds reported so far.
    reported: u64,
}

/// A role, its part, and what it has said.
#[derive(Debug)]
struct End {
    role: Role,
    name: String,
    host: String,
    offset: Nanos,
    beside: bool,
    /// Seconds that are not reported yet.
    seconds: VecDeque<Value>,
    result: Option<LoadResult>,
}

impl Generators {
    /// Starts a role for each part with `start`, and waits until all are ready.
    ///
    /// # Errors
    /// [`Error::Rack`] where a role could not be started or gave up.
    pub fn start(
        parts: Vec<Part>,
        start: &mut dyn FnMut(&Part) -> Result<Role, rack::Error>,
    ) -> Result<Self, Error> {
        let mut ends = Vec::new();
        for part in parts {
            let role = start(&part)?;
            let Part { name, host, offset, beside, .. } = part;
            ends.push(End { role, name, host, offset, beside, seconds: VecDeque::new(), result: None });
        }
        for end in &mut ends {
            end.role.ready(PATIENCE)?;
        }
        Ok(Self { ends, reported: 0 })
    }

    /// Names the instant (wall clock) at which they begin.
    ///
    /// # Errors
    /// [`Error::Rack`] where one is gone.
    pub fn start_at(&mut self, at: Nanos) -> Result<(), Error> {
        for end in &mut self.ends {
            end.role.start_at(at + end.offset)?;
        }
        Ok(())
    }

    /// The host and the process id of each.
    pub fn pids(&self) -> Vec<(&str, u32)> {
        self.ends.iter().map(|end| (end.host.as_str(), end.role.pid())).collect()
    }

    /// Asks all to stop.
    pub fn stop(&mut self) {
        self.ends.iter_mut().for_each(|end| end.role.stop());
    }

    /// Whether all have given their results.
    pub fn are_done(&self) -> bool {
        self.ends.iter().all(|end| end.result.is_some())
    }

    /// The next second of all together, by its number from 1, once all have reported it; none where nothing is heard for a
    /// tenth of a second.
    ///
    /// # Errors
    /// [`Error::Rack`] where one gave up or is gone.
    pub fn second(&mut self) -> Result<Option<(u64, Value)>, Error> {
        // Once around waits for a tenth of a second, however many there are.
        let patience = Duration::from_millis(100) / self.ends.len().max(1) as u32;
        for end in self.ends.iter_mut().filter(|end| end.result.is_none() && end.seconds.is_empty()) {
            end.hear(patience)?;
        }
        let second = next_second(&mut self.ends);
        self.reported += u64::from(second.is_some());
        Ok(second.map(|values| (self.reported, values)))
    }

    /// The result of each part, by its name.
    pub fn results(self) -> Vec<Named<LoadResult>> {
        self.ends.into_iter().filter_map(|end| Some(Named::new(end.name, end.result?))).collect()
    }
}

impl End {
    /// Waits a little for the next word.
    fn hear(&mut self, patience: Duration) -> Result<(), Error> {
        match self.role.next(patience)? {
            Some(Event::Progress { values, .. }) => self.seconds.push_back(values),
            Some(Event::Done { result }) => {
                self.result = Some(serde_json::from_value(result).map_err(|e| {
                    Error::Spec(format!("a generator's result is not of this version of dnsrack: {e}"))
                })?);
            }
            Some(_) | None => {}
        }
        Ok(())
    }
}

/// The next second, once every generator that still works has reported it.
fn next_second(ends: &mut [End]) -> Option<Value> {
    let waiting = ends.iter().any(|end| end.result.is_none() && end.seconds.is_empty());
    let seconds: Vec<(bool, Value)> = match waiting {
        true => Vec::new(),
        false => ends.iter_mut().filter_map(|end| Some((end.beside, end.seconds.pop_front()?))).collect(),
    };
    let reported: Vec<Value> =
        seconds.into_iter().filter(|(beside, _)| !beside).map(|(_, second)| second).collect();
    (!reported.is_empty()).then(|| merge_seconds(&reported))
}

/// One second of all generators. Counts and rates add. Of percentiles and maxima the greatest is reported, which for a
/// percentile is no less than the true one; medians are averaged, weighted by the answers. Results do not depend on
/// this: they add distributions.
fn merge_seconds(seconds: &[Value]) -> Value {
    let names = seconds.iter().filter_map(Value::as_object).flat_map(|s| s.keys().cloned());
    let one = |name: String| {
        if name == Cumulative::NAME {
            let mut all = Cumulative::default();
            let each = seconds.iter().filter_map(|s| Cumulative::deserialize(&s[&name]).ok());
            each.for_each(|one| all.add(&one));
            return (name, serde_json::json!(all));
        }
        let value_of = |s: &Value| s[&name].as_f64();
        let values = seconds.iter().filter_map(value_of);
        let value = if name.ends_with("_p50") {
            let weight = |s: &Value| metrics::ANSWERED_QPS.among(s).unwrap_or(0.0);
            let weights: f64 = seconds.iter().map(weight).sum();
            let sum: f64 = seconds.iter().map(|s| value_of(s).unwrap_or(0.0) * weight(s)).sum();
            if weights > 0.0 { sum / weights } else { 0.0 }
        } else if ["_p90", "_p99", "_p999", "_max"].iter().any(|end| name.ends_with(end)) {
            values.fold(0.0, f64::max)
        } else {
            values.sum()
        };
        (name, Value::from(value))
    };
    Value::Object(names.map(one).collect())
}

/// Divides a load among generators, evenly.
///
/// # Errors
/// [`Error::Spec`] for what cannot be divided.
pub fn divide(spec: &LoadSpec, members: &[Member]) -> Result<Vec<Part>, Error> {
    let refuse = |text: String| Err(Error::Spec(text));
    let n = members.len();
    let Some(many) = u32::try_from(n).ok().filter(|n| *n > 0) else {
        return refuse("no host to send from: give --host".into());
    };
    let twice = |(i, member): &(usize, &Member)| members[..*i].iter().any(|m| m.name == member.name);
    if let Some((_, member)) = members.iter().enumerate().find(twice) {
        return refuse(format!("host {} is named twice: one generator a host", member.name));
    }
    if n > 1 && !spec.sources.is_empty() {
        return refuse("--source names addresses of one host: leave it out where several send".into());
    }
    let divided = |whole: u64, i: usize, what: &str| match whole / n as u64
        + u64::from((i as u64) < whole % n as u64)
    {
        0 => Err(Error::Spec(format!("{what} {whole} for {n} hosts: at least one for each"))),
        part => Ok(part),
    };
    let part = |(i, member): (usize, &Member)| {
        let mut spec = spec.clone();
        spec.cpus = match (member.cpus, spec.cpus.len()) {
            ([], cpus) if cpus > n => spec.cpus.iter().copied().skip(i).step_by(n).collect(),
            // Fewer than generators: some share one.
            ([], _) => spec.cpus.iter().copied().cycle().skip(i).take(1).collect(),
            (own, _) => own.to_vec(),
        };
        spec.flows = spec.flows.div_ceil(many);
        spec.count = spec.count.map(|count| divided(count, i, "a count of")).transpose()?;
        own_seeds(&mut spec, i);
        let mut offset = 0;
        if n > 1 {
            // Packets of the other generators would be missing in what each of them counts.
            spec.server_pids.clear();
            offset = match &spec.pace {
                Pace::Open(arrivals) if arrivals.is_even() => {
                    (i as f64 * SECOND as f64 / arrivals.peak()) as Nanos
                }
                _ => 0,
            };
            spec.pace = match spec.pace {
                Pace::Open(arrivals) => Pace::Open(share(arrivals, many, i)?),
                Pace::Closed { window } => {
                    Pace::Closed { window: divided(u64::from(window), i, "a window of")? as u32 }
                }
                Pace::Flood => Pace::Flood,
                Pace::Recorded { .. } => {
                    return Err(Error::Spec("a capture is replayed by one host: give one --host".into()));
                }
            };
        }
        let name = member.name.to_owned();
        Ok(Part { host: name.clone(), name, spec, offset, beside: false })
    };
    let parts = members.iter().enumerate().map(part).collect::<Result<Vec<Part>, Error>>()?;
    Ok(mark_shared_cpus(parts))
}

/// The whole load for each of several servers at once: `servers` are their names and addresses, and the generators take them in turn.
/// The first server is the one that is measured: the seconds that are reported are its own.
pub fn repeat(spec: &LoadSpec, servers: &[(String, Vec<SocketAddr>)], members: &[Member]) -> Vec<Part> {
    let part = |(i, (name, targets)): (usize, &(String, Vec<SocketAddr>))| {
        let member = &members[i % members.len()];
        let mut spec = LoadSpec { targets: targets.clone(), ..spec.clone() };
        if !member.cpus.is_empty() {
            spec.cpus = member.cpus.to_vec();
        }
        own_seeds(&mut spec, i);
        // Packets of the other generators would be missing in what each of them counts.
        spec.server_pids.clear();
        Part { name: name.clone(), host: member.name.into(), spec, offset: 0, beside: i > 0 }
    };
    mark_shared_cpus(servers.iter().enumerate().map(part).collect())
}

/// Gives the nth generator other draws than the first: above the bits that tell workers and lanes apart.
fn own_seeds(spec: &mut LoadSpec, n: usize) {
    spec.seed = Seed(spec.seed.0.wrapping_add((n as u64) << 44));
    if let Source::Traffic(SourceSpec::Profile(profile)) = &mut spec.source {
        profile.seed = Seed(profile.seed.0.wrapping_add((n as u64) << 44));
    }
}

/// Notes which parts have a CPU that another one has, too.
fn mark_shared_cpus(mut parts: Vec<Part>) -> Vec<Part> {
    let all: Vec<usize> = parts.iter().flat_map(|part| part.spec.cpus.iter().copied()).collect();
    let twice = |cpu: &usize| all.iter().filter(|other| *other == cpu).count() > 1;
    parts.iter_mut().for_each(|part| part.spec.shared_cpus = part.spec.cpus.iter().any(twice));
    parts
}

/// The arrivals of generator `i` of `n`.
fn share(arrivals: Arrivals, n: u32, i: usize) -> Result<Arrivals, Error> {
    let n = f64::from(n);
    Ok(match arrivals {
        Arrivals::Fixed { rate } => Arrivals::Fixed { rate: rate / n },
        Arrivals::Ramp { from, to, over } => Arrivals::Ramp { from: from / n, to: to / n, over },
        Arrivals::Steps { rates, each } => {
            Arrivals::Steps { rates: rates.into_iter().map(|rate| rate / n).collect(), each }
        }
        // Independent arrivals of several hosts are independent arrivals of all.
        Arrivals::Poisson { rate, seed } => {
            Arrivals::Poisson { rate: rate / n, seed: Seed(seed.0.wrapping_add((i as u64) << 44)) }
        }
        Arrivals::Gaps { .. } => {
            return Err(Error::Spec(
                "gaps of a given distribution come from one host: those of several, mixed, would have another".into(),
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn members<'a>(hosts: &'a [&'a str]) -> Vec<Member<'a>> {
        hosts.iter().map(|&name| Member { name, cpus: if name == "g1" { &[1] } else { &[] } }).collect()
    }

    fn spec(pace: Pace) -> LoadSpec {
        let source = json!({"profile": {"profile": "rzaia", "names": "z", "seed": 7}});
        let source: SourceSpec = serde_json::from_value(source).unwrap();
        LoadSpec {
            cpus: vec![4, 5],
            ..LoadSpec::new(vec!["10.53.0.1:53".parse().unwrap()], source, pace, SECOND)
        }
    }

    #[test]
    fn a_rate_is_divided_and_interleaved() {
        let whole =
            LoadSpec { count: Some(5), flows: 33, ..spec(Pace::Open(Arrivals::Fixed { rate: 1000.0 })) };
        let parts = divide(&whole, &members(&["g1", "g2"])).unwrap();
        assert!(parts.iter().all(|p| p.spec.pace == Pace::Open(Arrivals::Fixed { rate: 500.0 })));
        // Every other millisecond is the second's.
        assert_eq!((parts[0].offset, parts[1].offset), (0, 1_000_000));
        assert_eq!((parts[0].spec.count, parts[1].spec.count), (Some(3), Some(2)));
        assert_eq!(
            (&*parts[0].spec.cpus, &*parts[1].spec.cpus),
            (&[1][..], &[5][..]),
            "the host's, or a part"
        );
        assert_eq!(parts[0].spec.flows, 17);
        assert_ne!(parts[0].spec.seed, parts[1].spec.seed);
        assert_ne!(parts[0].spec.source, parts[1].spec.source, "they do not ask the same");
        let names: Vec<&str> = parts.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["g1", "g2"]);
    }

    #[test]
    fn few_cores_are_shared() {
        let whole = LoadSpec { cpus: vec![4, 5, 6], ..spec(Pace::Flood) };
        let cpus = |n: usize| -> Vec<Vec<usize>> {
            let names = ["a", "b", "c", "d"];
            divide(&whole, &members(&names[..n])).unwrap().into_iter().map(|p| p.spec.cpus).collect()
        };
        assert_eq!(cpus(2), [vec![4, 6], vec![5]]);
        assert_eq!(cpus(4), [vec![4], vec![5], vec![6], vec![4]]);
        let four = divide(&whole, &members(&["a", "b", "c", "d"])).unwrap();
        let shared: Vec<bool> = four.iter().map(|p| p.spec.shared_cpus).collect();
        assert_eq!(shared, [true, false, false, true]);
    }

    #[test]
    fn each_server_has_the_whole_load_and_the_generators_take_turns() {
        let whole = spec(Pace::Closed { window: 20 });
        let servers: Vec<(String, Vec<SocketAddr>)> =
            (1..=3).map(|n| (format!("s{n}"), vec![SocketAddr::from(([10, 53, 0, n], 53))])).collect();
        let parts = repeat(&whole, &servers, &members(&["g1", "g2"]));
        let hosts: Vec<_> = parts.iter().map(|p| (p.name.as_str(), p.host.as_str(), p.beside)).collect();
        assert_eq!(hosts, [("s1", "g1", false), ("s2", "g2", true), ("s3", "g1", true)]);
        assert!(parts.iter().all(|p| p.spec.pace == whole.pace));
        assert!(parts.iter().zip(&servers).all(|(p, (_, targets))| p.spec.targets == *targets));
        assert_ne!(parts[0].spec.source, parts[2].spec.source, "they do not ask the same");
        let shared: Vec<bool> = parts.iter().map(|p| p.spec.shared_cpus).collect();
        assert_eq!(shared, [true, false, true], "two are on the core of g1");
    }

    #[test]
    fn one_host_does_it_all() {
        let whole = spec(Pace::Recorded { speed: 2.0 });
        let parts = divide(&whole, &members(&["g2"])).unwrap();
        assert_eq!((&parts[0].spec.pace, parts[0].offset), (&whole.pace, 0));
        assert_eq!((&parts[0].spec.source, &parts[0].spec.cpus), (&whole.source, &whole.cpus));
    }

    #[test]
    fn what_cannot_be_divided_is_refused() {
        let both = ["g1", "g2"];
        let gaps = Arrivals::Gaps { rate: 1.0, quantiles: vec![1.0, 2.0], seed: Seed(1) };
        let fixed = Pace::Open(Arrivals::Fixed { rate: 10.0 });
        let cases: [(LoadSpec, &[&str], &str); 7] = [
            (spec(Pace::Closed { window: 1 }), &both, "window of 1"),
            (spec(Pace::Recorded { speed: 1.0 }), &both, "one --host"),
            (spec(Pace::Open(gaps)), &both, "one host"),
            (LoadSpec { count: Some(1), ..spec(Pace::Flood) }, &both, "count of 1"),
            (LoadSpec { sources: vec!["10.0.0.1".parse().unwrap()], ..spec(Pace::Flood) }, &both, "--source"),
            (spec(fixed.clone()), &["g1", "g1"], "twice"),
            (spec(fixed), &[], "--host"),
        ];
        for (bad, hosts, word) in cases {
            let error = divide(&bad, &members(hosts)).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn seconds_add_but_percentiles_do_not() {
        let second = |answered: f64, p50: f64, p99: f64| json!({"answered_qps": answered, "lost": 1.0, "latency_p50": p50, "latency_p99": p99, "stall_max": p99});
        let all = merge_seconds(&[second(300.0, 100.0, 900.0), second(100.0, 200.0, 400.0)]);
        assert_eq!(
            all,
            json!({"answered_qps": 400.0, "lost": 2.0, "latency_p50": 125.0, "latency_p99": 900.0, "stall_max": 900.0})
        );
        assert_eq!(merge_seconds(&[second(0.0, 0.0, 0.0)])["latency_p50"], 0.0);
    }
}
