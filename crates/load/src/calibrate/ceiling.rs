//! The ceiling between two hosts of a rack: a generator and an echo on cores of their own, joined by veth.

use super::{CalibrateSpec, SendingMethod, dropped};
use crate::echo::{Echo, EchoSpec};
use crate::search::SearchResult;
use crate::{Backend, Error};
use rack::{HostSpec, Rack, RackSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most that one way of sending reaches between two hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ceiling {
    /// How the generator sends: `socket`, `socket+gso`, `xdp-native`, `xdp-generic`, `xdp-zero-copy`.
    pub backend: String,
    /// How the echo answers: `socket`, `xdp-native`, `xdp-generic`.
    pub echo: String,
    /// Queries per second sent in a flood at a socket that nobody reads.
    pub flood_qps: f64,
    /// Queries per second sent and answered by the echo within 0.1 % loss, in valid trials. None where no trial was
    /// valid.
    pub echo_qps: Option<f64>,
    /// The search behind it.
    pub echo_search: SearchResult,
    /// Pacing error in the best trial.
    pub pacing_error_us: crate::PacingError,
    /// Pacing error at 5,000 queries/s.
    pub pacing_error_5000_us: crate::PacingError,
    /// Latency of the echo at 5,000 queries/s.
    pub echo_latency_us: crate::Latency,
    /// Datagrams dropped on our side over all trials, by place.
    pub drops: BTreeMap<String, u64>,
}

/// The names of the hosts.
const ECHO: &str = "echo";
const GENERATOR: &str = "generator";

/// Measures over sockets, then over AF_XDP; what is found until something fails stays in `found`.
pub(super) fn measure(
    spec: &CalibrateSpec,
    found: &mut Vec<Ceiling>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let echo_cpus: Vec<usize> = spec.echo_cpu.into_iter().collect();
    let hosts = vec![HostSpec::new(ECHO, &echo_cpus), HostSpec::new(GENERATOR, &spec.cpus)];
    let rack = Rack::up(&RackSpec::new(hosts))?;
    for backend in [Backend::Socket, Backend::Xdp] {
        found.push(one(&rack, SendingMethod { spec, backend, stop }, progress)?);
    }
    Ok(())
}

fn one(rack: &Rack, way: SendingMethod<'_>, progress: &mut dyn FnMut(&str)) -> Result<Ceiling, Error> {
    let host = |name| rack.host(name).expect("made above");
    let (there, here) = (host(ECHO), host(GENERATOR));
    let addr = |port| SocketAddr::new(there.v4.into(), port);
    let hole = there.udp_socket(addr(5300))?;
    let flood = here.run_in(|| way.flood(addr(5300)))??;
    drop(hole);
    progress(&format!("flood between hosts, {}: {:.0} queries/s", flood.backend, flood.counts.sent_qps));
    let echo_spec = EchoSpec { cpu: way.spec.echo_cpu, backend: way.backend, ..EchoSpec::new(addr(53)) };
    let echo = there.run_in(|| Echo::open(&echo_spec))??;
    let answers = echo.backend();
    let ended = AtomicBool::new(false);
    let (search, best, steady) = std::thread::scope(|scope| {
        let running = scope.spawn(|| echo.run(&ended, &mut |_| ()));
        // `progress` may not be used on another thread: the sentences are said when they have all been made.
        let result = here.run_in(|| {
            let mut said = Vec::new();
            let result = way.with_echo(addr(53), &mut |text| said.push(text.to_owned()));
            (result, said)
        });
        ended.store(true, Ordering::Relaxed);
        running.join().expect("an echo does not panic")?;
        let (result, said) = result?;
        said.iter().for_each(|text| progress(text));
        result
    })?;
    Ok(Ceiling {
        backend: flood.backend.clone(),
        echo: answers.into(),
        flood_qps: flood.counts.sent_qps,
        echo_qps: super::proven_or_best(&search, &best),
        echo_search: search,
        pacing_error_us: best.pacing_error_us,
        pacing_error_5000_us: steady.pacing_error_us,
        echo_latency_us: steady.latency_us,
        drops: dropped([&flood, &best, &steady]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::clock::SECOND;

    #[test]
    fn both_ways_are_measured_between_two_hosts() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: AF_XDP needs root");
            return;
        }
        let spec = CalibrateSpec { trial: SECOND / 4, budget: SECOND / 2, ..CalibrateSpec::default() };
        let (mut found, mut said) = (Vec::new(), 0);
        measure(&spec, &mut found, &AtomicBool::new(false), &mut |_| said += 1).unwrap();
        let ways: Vec<_> = found.iter().map(|c| (c.backend.as_str(), c.echo.as_str())).collect();
        assert!(matches!(ways[0], ("socket" | "socket+gso", "socket")), "{ways:?}");
        assert_eq!(ways[1..], [("xdp-native", "xdp-native")]);
        for c in &found {
            assert!(
                c.flood_qps > 0.0 && c.echo_latency_us.p50 > 0.0 && !c.echo_search.trials.is_empty(),
                "{c:?}"
            );
        }
        assert!(said >= 4);
    }
}
