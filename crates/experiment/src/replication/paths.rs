//! Paths between a primary and its secondaries: what an experiment file says of them, and the emulator at work in a trial.
//!
//! A path joins a secondary with the server that it has the zone from, and nothing else: updates to the primary and queries at the
//! secondaries go the short way. Where any trial of a run has a path between two hosts, all trials lead these two through the router;
//! where nothing is said of it, the router does nothing to the packets.

use crate::config::Distribution;
use crate::hosts::{PRIMARY, SERVER};
use crate::run_context::RunContext;
use crate::{Error, Experiment, Trial};
use agent::{Agent, Capture, StartCapture};
use measure::metrics;
use measure::{Metric, Outcome, Parameter, Reason, Seed, params};
use rack::path::{Bursts, Counts, Delay, Loss, PathSpec, Rate, Report};
use rack::{HostSpec, Local, Paths, RackSpec};
use results::TrialRecord;
use std::path::Path;
use std::time::Duration;
use trace::{Event, Options, Reader};

/// The file of the emulator's counts, direction by direction, in a trial's folder.
const REPORT: &str = "path.json";

/// A loss outside of this interval (two-sided) of what was asked for is reported: one trial in a thousand by chance.
const SURPRISE: f64 = 3.29;
/// The interval that is reported: 95 %.
const TOLD: f64 = 1.96;

/// The hosts of each secondary: the one that it has the zone from, and its own. `peers` are the names of all hosts beside the
/// measured server's.
pub fn links(plan: &Distribution, peers: &[String]) -> Vec<(String, String)> {
    let measured = plan.primary.iter().map(|_| SERVER.to_owned());
    let others = peers.iter().filter(|name| *name != PRIMARY).cloned();
    let all: Vec<String> = measured.chain(others).take(plan.secondaries as usize).collect();
    let primary = if plan.primary.is_some() { PRIMARY } else { SERVER };
    let direct = all.len() - (plan.chained as usize).min(all.len());
    let from = |n: usize| if n < direct { primary.to_owned() } else { all[0].clone() };
    all.iter().enumerate().map(|(n, own)| (from(n), own.clone())).collect()
}

/// The pairs of hosts that are joined through the router in this run.
fn joined(e: &Experiment, peers: &[String]) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for plan in e.distributions().into_iter().filter(|d| !d.path.is_empty()) {
        for link in links(plan, peers) {
            if !all.contains(&link) && !all.iter().any(|(a, b)| (b, a) == (&link.0, &link.1)) {
                all.push(link);
            }
        }
    }
    all
}

/// The path of the router in a trial of this distribution, between all hosts that it joins. Where no seed is given, every
/// repeat draws again.
fn specified(e: &Experiment, plan: &Distribution, peers: &[String], repeat: u32) -> Vec<PathSpec> {
    let own = links(plan, peers);
    let drawn = Seed(Seed(e.seed).draw("path", repeat.into()).bits());
    let one = |(from, to): (String, String)| {
        let at = own.iter().position(|(a, b)| (*a == from && *b == to) || (*a == to && *b == from));
        let given = at.and_then(|at| plan.path.of(at)).cloned().unwrap_or_default();
        let seed = if given.seed == Seed::default() { drawn } else { given.seed };
        PathSpec { between: Some([from, to]), seed, ..given }
    };
    joined(e, peers).into_iter().map(one).collect()
}

/// The paths that the rack is built for: those of the first distribution with any.
pub fn of_rack(e: &Experiment, peers: &[String]) -> Vec<PathSpec> {
    let first = e.distributions().into_iter().find(|d| !d.path.is_empty());
    first.map_or_else(Vec::new, |plan| specified(e, plan, peers, 1))
}

/// Whether the paths of all distributions can be.
///
/// # Errors
/// [`Error::Plan`] naming the key.
pub fn check(e: &Experiment, peers: &[String]) -> Result<(), Error> {
    let hosts: Vec<HostSpec> =
        [SERVER].into_iter().chain(peers.iter().map(String::as_str)).map(|n| HostSpec::new(n, &[])).collect();
    for plan in e.distributions().into_iter().filter(|d| !d.path.is_empty()) {
        let refuse = |why: String| Err(e.refuse(format!("distribution.path: {why}")));
        if plan.secondaries == 0 {
            return refuse("it leads to secondaries: distribution.secondaries is 0".into());
        }
        if plan.path.0.len() > plan.secondaries as usize {
            let (paths, many) = (plan.path.0.len(), plan.secondaries);
            return refuse(format!("{paths} paths for {many} secondaries: at most one each"));
        }
        if plan.path.0.iter().any(|p| p.between.is_some() || p.from.is_some() || p.to.is_some()) {
            return refuse("it joins a secondary with its primary: leave out between, from and to".into());
        }
        let paths = specified(e, plan, peers, 1);
        let spec = RackSpec { paths, ..RackSpec::new(hosts.clone()) };
        if let Err(why) = spec.check() {
            return refuse(why.to_string());
        }
    }
    Ok(())
}

/// Seconds that one TCP connection takes for so many octets over the slowest path of a distribution, about. Where packets are
/// lost, the rate is that of Mathis, Semke, Mahdavi and Ott, "The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm"
/// (1997): a segment in each round trip, times the root of 3/2 over the share that is lost.
pub fn transfer_seconds(plan: &Distribution, octets: u64) -> f64 {
    /// Octets of a segment on Ethernet, with time stamps.
    const SEGMENT: f64 = 1448.0;
    /// Round trips until the window has grown: ten segments at first, twice as many in each.
    const GROWS: f64 = 10.0;
    let over = |path: &PathSpec| {
        let round_trip = 2.0 * path.delay.median() as f64 / 1e9;
        // A burst halves the window once.
        let by_loss = octets as f64 / SEGMENT * round_trip * (path.loss.bursts() / 1.5).sqrt();
        let by_rate = path.rate.map_or(0.0, |Rate(bits)| 8.0 * octets as f64 / bits as f64);
        GROWS * round_trip + by_loss.max(by_rate)
    };
    plan.path.0.iter().map(over).fold(0.0, f64::max)
}

/// The parameters of a distribution's paths, for tables: in words, and where each way takes a constant time the round trip in
/// milliseconds, and the share of packets lost at random.
pub fn params(plan: &Distribution) -> Vec<(Parameter, String)> {
    let words: Vec<String> = plan.path.0.iter().map(words).collect();
    let mut all = Vec::new();
    if !words.is_empty() {
        all.push((params::PATH, words.join("; ")));
    }
    if let [one] = plan.path.0.as_slice() {
        let Delay::Constant(way) = one.delay else { return all };
        let alone =
            PathSpec { delay: one.delay.clone(), loss: one.loss, seed: one.seed, ..PathSpec::default() };
        let lost = match one.loss {
            Loss::None => 0.0,
            Loss::Random(share) => share,
            Loss::Bursts(_) => return all,
        };
        if alone == *one {
            all.push((params::PATH_RTT_MS, (2.0 * way as f64 / 1e6).to_string()));
            all.push((params::PATH_LOSS, lost.to_string()));
        }
    }
    all
}

/// A path in words: the keys that are not as by default.
fn words(path: &PathSpec) -> String {
    let value = |path: &PathSpec| serde_json::to_value(path).unwrap_or_default();
    let (given, plain) = (value(path), value(&PathSpec::default()));
    let keys = given.as_object().into_iter().flatten();
    let said = keys.filter(|(key, value)| *key != "seed" && plain.get(key) != Some(value));
    let said: Vec<String> =
        said.map(|(key, v)| format!("{key} {}", v.to_string().replace('"', ""))).collect();
    if said.is_empty() { "as it is".into() } else { said.join(", ") }
}

/// Begins to capture what a host sends and receives: at the router's port of it where it has a path, otherwise at its own device.
///
/// # Errors
/// The errors of the capture.
pub fn capture(
    context: &RunContext<'_>,
    of: &Agent,
    filter: &str,
    file: &Path,
    said: &Path,
) -> Result<Capture, Error> {
    let router = context.rack.and_then(|rack| rack.router()).filter(|_| {
        joined(context.experiment, &context.peer_names()).iter().any(|(a, b)| [a, b].contains(&&of.host.name))
    });
    let (agent, device) = match router {
        Some(router) => (of.on(router)?, of.host.name.clone()),
        None => (of.clone(), of.host.device.clone()),
    };
    let (filter, cpus) = (filter.to_owned(), context.monitor_cpus.to_vec());
    Ok(Capture::start(&agent, StartCapture { device, filter, cpus, file: file.into(), said: said.into() })?)
}

/// Waits until what is still on its way over a distribution's paths has come: a capture that ends before lacks it.
///
/// # Errors
/// As [`RunContext::pause`].
pub fn come_to_rest(context: &RunContext<'_>, plan: &Distribution) -> Result<(), Error> {
    let way = plan.path.0.iter().map(|path| path.delay.greatest()).max().unwrap_or(0);
    context.pause(Duration::from_nanos(3 * way))
}

/// How long the way there and back took, in the median over the handshakes of the connections that were captured beside their
/// server; none where there were none, or nothing but a cable is between the hosts. Between other machines there may be an emulator of the
/// user's.
///
/// # Errors
/// A capture that cannot be read.
pub fn round_trip(context: &RunContext<'_>, capture: &Path) -> Result<Option<Metric>, Error> {
    let mut all = Vec::new();
    if context.server.is_elsewhere() || context.rack.is_some_and(|rack| rack.router().is_some()) {
        let mut reader = Reader::open(&[capture.to_owned()], &Options::default())?;
        while let Some(event) = reader.next_event()? {
            if let Event::Connection(connection) = event {
                all.extend(connection.handshake.map(|ns| ns as f64 / 1e3));
            }
        }
    }
    Ok(stats::median(&all).map(|us| metrics::PATH_RTT.of(us)))
}

/// Does a trial of a distribution with its paths open, where the run has any: their counters are reported also of a trial that failed.
///
/// # Errors
/// The trial's; those of the emulator.
pub fn around(
    context: &RunContext<'_>,
    trial: &Trial,
    dir: &Path,
    record: &mut TrialRecord,
    measure: &mut dyn FnMut(&mut TrialRecord) -> Result<(), Error>,
) -> Result<(), Error> {
    let e = context.experiment;
    let Some(rack) = context.rack.filter(|rack| rack.router().is_some()) else { return measure(record) };
    let plan = e.distribution_of(trial.variant.as_deref());
    let asked = specified(e, plan, &context.peer_names(), trial.repeat);
    let open = Paths::start(&Local, rack, &asked, &dir.join("path.log"))?;
    let measured = measure(record);
    let report = open.finish();
    if measured.is_err() && report.is_err() {
        return measured;
    }
    let report = report?;
    tell(&report, &asked, &mut record.outcome);
    let file = dir.join(REPORT);
    let text = serde_json::to_string_pretty(&report).map_err(|e| Error::Machine(e.to_string()))?;
    std::fs::write(&file, text).map_err(Error::io(&file))?;
    measured
}

/// Adds what the emulator did to an outcome.
fn tell(report: &Report, asked: &[PathSpec], outcome: &mut Outcome) {
    let all = &report.directions;
    let sum = |of: fn(&Counts) -> u64| all.iter().map(of).sum::<u64>() as f64;
    let late = report.delay_error_us;
    for (metric, value) in [
        (metrics::PATH_PACKETS, sum(|c| c.packets_in)),
        (metrics::PATH_BYTES, sum(|c| c.bytes_in)),
        (metrics::PATH_DELIVERED, sum(|c| c.delivered)),
        (metrics::PATH_LOST, sum(|c| c.lost)),
        (metrics::PATH_QUEUE_DROPPED, sum(|c| c.queue_dropped)),
        (metrics::PATH_DUPLICATED, sum(|c| c.duplicated)),
        (metrics::PATH_CORRUPTED, sum(|c| c.corrupted)),
        (metrics::PATH_REORDERED, sum(|c| c.reordered)),
        (metrics::PATH_DELAY_ERROR_P50, late.p50),
        (metrics::PATH_DELAY_ERROR_P99, late.p99),
        (metrics::PATH_DELAY_ERROR_MAX, late.max),
    ] {
        outcome.metrics.push(metric.of(value));
    }
    let counts_of = |path: &PathSpec| -> Vec<&Counts> {
        let Some([a, b]) = &path.between else { return Vec::new() };
        all.iter().filter(|c| (&c.from, &c.to) == (a, b) || (&c.from, &c.to) == (b, a)).collect()
    };
    // Bursts of one loss are no independent draws: they count for fewer packets.
    let (mut packets, mut lost, mut counting, mut expected) = (0.0, 0.0, 0.0, 0.0);
    for path in asked {
        let (share, weight) = match path.loss {
            Loss::None => (0.0, 1.0),
            Loss::Random(share) => (share, 1.0),
            Loss::Bursts(bursts) => (bursts.share, weight(bursts)),
        };
        for counts in counts_of(path) {
            let n = counts.packets_in as f64;
            packets += n;
            lost += counts.lost as f64;
            counting += n * weight;
            expected += n * share;
        }
    }
    if packets > 0.0 {
        let (measured, asked) = (lost / packets, expected / packets);
        let (low, high) = stats::share_interval(measured, counting, TOLD);
        for (metric, value) in [
            (metrics::PATH_LOSS, measured),
            (metrics::PATH_LOSS_LOW, low),
            (metrics::PATH_LOSS_HIGH, high),
            (metrics::PATH_LOSS_ASKED, asked),
        ] {
            outcome.metrics.push(metric.of(100.0 * value));
        }
        let (low, high) = stats::share_interval(measured, counting, SURPRISE);
        if asked < low || asked > high {
            outcome.validity.warn(Reason::new(
                "path_loss_off",
                format!(
                    "the path lost {:.3} % of {packets:.0} packets where {:.3} % were asked for: less than one time in a thousand by chance",
                    100.0 * measured,
                    100.0 * asked
                ),
            ));
        }
    }
    outcome.validity.merge(report.validity.clone());
}

/// For how much of an independent draw each packet counts where losses come in bursts (Gilbert's model): the states of
/// neighbours correlate by 1 − begin − end of a burst, which makes the variance of their mean (1 + ρ)/(1 − ρ) times as large.
fn weight(Bursts { share, burst }: Bursts) -> f64 {
    let end = 1.0 / burst;
    let begin = end * share / (1.0 - share);
    let correlation = 1.0 - begin - end;
    (1.0 - correlation) / (1.0 + correlation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Definition;

    fn read(distribution: &str) -> Result<Experiment, Error> {
        let (path, text) = crate::named("rzaia-axfr").unwrap();
        let base: String = text.split("[[variant]]").next().unwrap_or_default().to_owned();
        crate::load(&path, &format!("{base}\n{distribution}"), &[])
    }

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn loss_and_rate_make_a_transfer_longer() {
        let of = |path: &str| {
            let e = read(&format!("[distribution]\nsecondaries = 1\n[distribution.path]\n{path}")).unwrap();
            transfer_seconds(&e.distribution, 36_000_000).round()
        };
        let plain = read("[distribution]\nsecondaries = 1").unwrap();
        assert_eq!(transfer_seconds(&plain.distribution, 36_000_000), 0.0);
        assert_eq!(of("delay = \"50ms\""), 1.0);
        assert_eq!(of("delay = \"50ms\"\nloss = 0.01"), 204.0);
        assert_eq!(of("delay = \"50ms\"\nloss = { share = 0.04, burst = 4 }"), 204.0);
        assert_eq!(of("delay = \"50ms\"\nrate = \"8M\""), 37.0);
        assert_eq!(of("delay = { like = \"rzaia-5.6\" }"), 2.0);
    }

    #[test]
    fn a_path_is_one_for_all_or_a_list_and_is_written_as_it_was_read() {
        let one = read("[distribution]\nsecondaries = 3\n[distribution.path]\ndelay = \"50ms\"\nloss = 0.01")
            .unwrap();
        assert_eq!(one.distribution.path.0.len(), 1);
        let two = read(
            "[distribution]\nsecondaries = 2\n[[distribution.path]]\ndelay = { like = \"rzaia-5.6\" }\nhold = \"1s\"\n\
             [[distribution.path]]\nloss = { share = 0.1, burst = 3 }\nduplicate = 0.01",
        )
        .unwrap();
        assert_eq!(two.distribution.path.0.len(), 2);
        for e in [&one, &two] {
            let text = e.to_toml().unwrap();
            let again: Experiment = toml::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
            assert_eq!(again, *e, "{text}");
        }
        let params_of = |e: &Experiment| params(&e.distribution);
        let expected = [
            (params::PATH, "delay 50ms, loss 0.01"),
            (params::PATH_RTT_MS, "100"),
            (params::PATH_LOSS, "0.01"),
        ];
        assert_eq!(params_of(&one), expected.map(|(k, v)| (k, v.to_owned())));
        assert_eq!(
            params_of(&two),
            [(
                params::PATH,
                "delay {like:rzaia-5.6}, hold 1s; duplicate 0.01, loss {burst:3.0,share:0.1}".to_owned()
            )]
        );
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_starts() {
        for (text, reason) in [
            ("path = { loss = 0.1 }", "distribution.secondaries is 0"),
            ("secondaries = 1\npath = { loss = 1.5 }", "loss = 1.5: a share is 0 to 1"),
            ("secondaries = 1\npath = { los = 1.5 }", "unknown key 'los'; nearest: 'loss'"),
            ("secondaries = 1\npath = { between = [\"a\", \"b\"] }", "leave out between"),
            (
                "secondaries = 1\npath = [{ delay = \"1ms\" }, { delay = \"2ms\" }]",
                "2 paths for 1 secondaries",
            ),
            ("secondaries = 1\npath = { delay = \"2m1\" }", "2m1"),
        ] {
            let error = read(&format!("[distribution]\n{text}")).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_path_joins_each_secondary_with_whom_it_has_the_zone_from() {
        let e = read(
            "[distribution]\nprimary = \"bind\"\nsecondaries = 3\nchained = 1\npath = [{ delay = \"1ms\" }, { delay = \"2ms\" }]",
        );
        let e = e.unwrap();
        let peers = names(&["primary", "secondary-2", "secondary-3"]);
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let expected =
            [pair("primary", "server"), pair("primary", "secondary-2"), pair("server", "secondary-3")];
        assert_eq!(links(&e.distribution, &peers), expected);
        let all = specified(&e, &e.distribution, &peers, 1);
        let delays: Vec<u64> = all.iter().map(|p| p.delay.least() / 1_000_000).collect();
        assert_eq!(delays, [1, 2, 1], "in turn");
        let again = specified(&e, &e.distribution, &peers, 2);
        assert_ne!(all[0].seed, again[0].seed, "each repeat draws again");
        // Where a distribution says nothing, its packets pass as they are.
        let plain = Distribution { path: Default::default(), ..e.distribution.clone() };
        let plain = specified(&e, &plain, &peers, 1);
        assert!(plain.iter().all(|p| words(p)
            == format!("between [{},{}]", p.between.as_ref().unwrap()[0], p.between.as_ref().unwrap()[1])));
        let none = read("[distribution]\nsecondaries = 1").unwrap();
        assert_eq!(of_rack(&none, &names(&["secondary-1"])), []);
    }

    #[test]
    fn loss_is_told_with_its_interval_and_a_surprise_is_a_warning() {
        let counts = |from: &str, to: &str, packets_in, lost| Counts {
            from: from.into(),
            to: to.into(),
            packets_in,
            lost,
            ..Counts::default()
        };
        let after = |loss: Loss, lost: u64| {
            let report = Report {
                directions: vec![counts("a", "b", 600, lost), counts("b", "a", 400, 0)],
                ..Report::default()
            };
            let asked = PathSpec { loss, ..PathSpec::between("a", "b") };
            let mut outcome = Outcome::default();
            tell(&report, &[asked], &mut outcome);
            let value_of = |which: Definition| outcome.metric(which).unwrap();
            let warned = outcome.validity.warnings.iter().any(|r| r.code == "path_loss_off");
            (
                value_of(metrics::PATH_LOSS),
                value_of(metrics::PATH_LOSS_LOW),
                value_of(metrics::PATH_LOSS_HIGH),
                warned,
            )
        };
        let (loss, low, high, warned) = after(Loss::Random(0.1), 103);
        assert!(
            (loss - 10.3).abs() < 1e-9 && low > 8.0 && low < loss && high > loss && high < 13.0 && !warned
        );
        assert!(after(Loss::Random(0.1), 190).3, "19 % where 10 % were asked for");
        let bursts = Loss::Bursts(Bursts { share: 0.1, burst: 8.0 });
        let (_, wide, _, warned) = after(bursts, 103);
        assert!(wide < low && !warned, "bursts tell less: {wide} {low}");
        assert!(!after(bursts, 150).3 && after(Loss::Random(0.1), 150).3, "15 % in bursts may be chance");
        assert!(after(Loss::None, 1).3);
    }
}
