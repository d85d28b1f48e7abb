//! A load from its specification to its result: prepare everything, start all workers at one instant, add up.

use crate::check::{self, CheckResult};
use crate::findings::{self, Known};
use crate::lane::{Checksums, Lane};
use crate::plan::Plan;
use crate::recorder::{Class, Recorder, Tally};
use crate::result::{Part, TcpResult};
use crate::second::Second;
use crate::source::SourceFacts;
use crate::validity::{self, Evidence};
use crate::worker::{Report, Worker};
use crate::{Backend, Error, LoadResult, LoadSpec};
use engine::Stall;
use measure::clock::{self, SECOND, Wall};
use measure::{Event, Histogram, Nanos, Pace, Seed, Timeline};
use net::scheduling::{Machine, Scheduling};
use net::tcp::TcpFlows;
use net::transport::{Transport, Troubles};
use net::udp::{Flow, UdpFlows};
use net::xdp::XdpFlows;
use rack::server_watch::{Seen, ServerWatch};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use traffic::QuerySource;

/// Queries per second of a worker up to which sockets are exact enough and cost little more.
const SOCKET_RATE: f64 = 100_000.0;

/// Runs a load in the calling thread's network namespace.
///
/// Everything is checked, opened and allocated first; then `start` is called, which may wait, and names the instant
/// (monotonic) at which the first query is due. `stop` ends the run early: the result is then marked as cut short.
/// `events` gets `Started` and, once a second, `Progress` with that second's `offered_qps`, `sent_qps`, `answered_qps`,
/// `unsent`, `lost` (those given up in it), `truncated`, `wrong` (mismatched, duplicate and unexpected), `drops` (on
/// our side), `latency_p50`, `latency_p99`, `latency_max`, `pacing_error_p99` and `stall_max` (microseconds, to 1.6 %),
/// its answers by latency ([`measure::Cumulative`]) and, at its end, `in_flight` and `open` (TCP connections).
///
/// # Errors
/// Before `start` is called: whatever is wrong with the specification, its queries, targets, sockets and cores. After
/// it: only where the transport or the queries break.
pub fn run(
    spec: &LoadSpec,
    start: impl FnOnce() -> Nanos,
    stop: &AtomicBool,
    events: &mut dyn FnMut(Event),
) -> Result<LoadResult, Error> {
    spec.check_numbers()?;
    if let Some(check) = &spec.check {
        check.check()?;
    }
    net::target::check(&spec.targets, &spec.allowed, spec.allow_external)?;
    let nature = spec.source.check()?;
    let plan = spec.plan(&nature)?;
    let spec = &LoadSpec { retry: spec.retry.or(nature.retry), ..spec.clone() };
    go(spec, plan, spec.source.open_all(plan.workers)?, start, stop, events)
}

/// As [`run`], with a source for each worker instead of the specification's.
pub(crate) fn run_from(
    spec: &LoadSpec,
    sources: Vec<Box<dyn QuerySource + Send>>,
    start: impl FnOnce() -> Nanos,
    stop: &AtomicBool,
    events: &mut dyn FnMut(Event),
) -> Result<LoadResult, Error> {
    let plan = spec.plan(&SourceFacts::default())?;
    net::target::check(&spec.targets, &spec.allowed, spec.allow_external)?;
    go(spec, plan, sources, start, stop, events)
}

fn go(
    spec: &LoadSpec,
    plan: Plan,
    sources: Vec<Box<dyn QuerySource + Send>>,
    start: impl FnOnce() -> Nanos,
    stop: &AtomicBool,
    events: &mut dyn FnMut(Event),
) -> Result<LoadResult, Error> {
    let mut lanes = Vec::new();
    let mut note = None;
    for worker in 0..plan.workers {
        lanes.push(open(spec, &plan, worker, &mut note)?);
    }
    let abort = AtomicBool::new(false);
    let seconds = Mutex::new(Vec::new());
    let seconds = &seconds;

    std::thread::scope(|scope| {
        let (ready_in, ready) = channel();
        let (done_in, done) = channel();
        let mut starters = Vec::new();
        for (number, ((main, tcp), source)) in (0..).zip(lanes.into_iter().zip(sources)) {
            let worker = Worker {
                number,
                workers: plan.workers,
                spec,
                burst: plan.burst,
                span: plan.span,
                main,
                tcp,
                source,
                stop,
                abort: &abort,
                seconds,
            };
            let (starter, started) = channel::<Nanos>();
            starters.push(starter);
            let (ready, done, abort) = (ready_in.clone(), done_in.clone(), &abort);
            let cpu = (!spec.cpus.is_empty()).then(|| spec.cpus[number as usize % spec.cpus.len()]);
            scope.spawn(move || {
                let settled = net::scheduling::settle(cpu);
                let usable = settled.is_ok();
                let _ = ready.send(settled);
                // Without an instant to start at, the run was given up.
                if let (true, Ok(start)) = (usable, started.recv()) {
                    let result = worker.run(start);
                    if result.is_err() {
                        abort.store(true, Ordering::Relaxed);
                    }
                    let _ = done.send(result);
                }
            });
        }
        // Only the workers' own senders are left: should a worker panic, the wait for it ends.
        drop((ready_in, done_in));
        for _ in 0..plan.workers {
            // On an error the starters are dropped, and with them the workers.
            ready.recv().expect("every worker says whether it is ready")?;
        }
        let watch = watch(spec)?;
        let at = start();
        let before = Machine::read(&spec.cpus);
        for starter in &starters {
            let _ = starter.send(at);
        }
        let base = at + spec.warmup;
        events(Event::Started { at: Wall::read().to_wall(base) });

        let mut reports = Vec::new();
        let mut reported = 0;
        while reports.len() < plan.workers as usize {
            match done.recv_timeout(until_next_second(base, reported)) {
                Ok(report) => reports.push(report),
                Err(RecvTimeoutError::Timeout) => {
                    tell(seconds, plan.workers, &mut reported, false, events);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let after = Machine::read(&spec.cpus);
        let server = watch.map(|watch| watch.seen()).transpose()?;
        tell(seconds, plan.workers, &mut reported, true, events);
        let mut reports = reports.into_iter().collect::<Result<Vec<_>, _>>()?;
        let checked = checked(spec, &mut reports)?;
        let (result, known) = result(spec, &plan, base, reports, (&before, &after), server);
        let result = LoadResult { backend_note: note, checked, ..result };
        Ok(LoadResult { findings: findings::name(&result, &known), ..result })
    })
}

/// The server's processes, where they are known.
fn watch(spec: &LoadSpec) -> Result<Option<ServerWatch>, Error> {
    if spec.server_pids.is_empty() {
        return Ok(None);
    }
    let ours = if spec.cpus.is_empty() { rack::allowed_cpus() } else { spec.cpus.clone() };
    Ok(Some(ServerWatch::begin(&spec.server_pids, &ours)?))
}

/// The lanes of one worker: its main one, and the one over TCP beside it. `note` says why AF_XDP was not used where it
/// would have been.
fn open(
    spec: &LoadSpec,
    plan: &Plan,
    worker: u32,
    note: &mut Option<String>,
) -> Result<(Lane, Option<Lane>), Error> {
    let connections = plan.connections.map_or(0, |c| c.0);
    more_descriptors(u64::from(plan.flows_per_worker + connections) * u64::from(plan.workers) + 64);
    let paced = spec.is_paced();
    let recorder = |flows, slots, salt: u64| {
        let seed = Seed(spec.seed.0.wrapping_add(u64::from(worker) << 32 | salt << 56));
        Recorder::new(flows, slots, spec.deadline, paced, seed)
    };
    let flows = flows(spec, worker, plan.flows_per_worker);
    let refuse = |flows: &[Flow], error| Error::Open {
        flows: flows.len() as u32,
        source_address: flows[0].source,
        target: flows[0].target,
        error,
    };
    let over_tcp = |flows: &[Flow], slots| {
        TcpFlows::open(flows, &tcp_options(spec, slots)).map_err(|e| refuse(flows, e))
    };
    let main: Box<dyn Transport + Send> = if spec.transport == crate::Transport::Tcp {
        Box::new(over_tcp(&flows, plan.slots)?)
    } else if let Some(xdp) = past_the_stack(spec, plan, &flows, note)? {
        Box::new(xdp)
    } else {
        let udp = UdpFlows::open(&flows, spec.recv_buffer).map_err(|e| refuse(&flows, e))?;
        Box::new(if spec.pace == Pace::Flood { udp.for_floods() } else { udp })
    };
    let main = Lane::new(main, recorder(plan.flows_per_worker, plan.slots, 0), &spec.pace);
    let Some((most, slots)) = plan.connections else { return Ok((main, None)) };
    let beside = over_tcp(&self::flows(spec, worker, most), slots)?;
    Ok((main, Some(Lane::new(Box::new(beside), recorder(most, slots, 1), &spec.pace))))
}

/// AF_XDP where it is asked for, or where sockets would be too slow and it can be had.
fn past_the_stack(
    spec: &LoadSpec,
    plan: &Plan,
    flows: &[Flow],
    note: &mut Option<String>,
) -> Result<Option<XdpFlows>, Error> {
    let loopback = spec.targets.iter().any(|t| t.ip().is_loopback());
    let wanted = match spec.backend {
        Backend::Socket => false,
        Backend::Xdp => true,
        Backend::Auto => {
            let fast = matches!(spec.pace, Pace::Open(_) | Pace::Recorded { .. }) && plan.rate > SOCKET_RATE;
            (fast || spec.prefer_xdp) && plan.workers == 1 && !loopback
        }
    };
    if !wanted {
        return Ok(None);
    }
    let options = net::xdp::Options { batch: (plan.burst as usize).clamp(64, 512), ..Default::default() };
    match XdpFlows::open(flows, &options) {
        Ok(xdp) => Ok(Some(xdp)),
        Err(error) if spec.backend == Backend::Auto => {
            *note = Some(error.to_string());
            Ok(None)
        }
        Err(error) => Err(Error::Xdp(error)),
    }
}

/// The life of connections whose flows have `slots` ids each.
fn tcp_options(spec: &LoadSpec, slots: usize) -> net::tcp::Options {
    let c = &spec.connections;
    net::tcp::Options {
        queries: c.queries,
        idle: c.idle,
        pipeline: c.pipeline,
        waiting: slots as u32,
        connect_timeout: spec.deadline,
        patience: spec.deadline,
        reset: c.reset,
        ..net::tcp::Options::default()
    }
}

/// The flows of one worker, spread over targets and sources.
fn flows(spec: &LoadSpec, worker: u32, count: u32) -> Vec<Flow> {
    let first = worker * count;
    let flow = |n: u32| {
        let target = spec.targets[n as usize % spec.targets.len()];
        match spec.source_of(n, target) {
            None => Flow::to(target),
            Some(source) => Flow { source: SocketAddr::new(source, 0), target },
        }
    };
    (first..first + count).map(flow).collect()
}

/// Raises the limit of open files: as root to what is wanted, otherwise towards the hard limit; where that does not suffice,
/// opening says so.
fn more_descriptors(want: u64) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < want) {
        let most = limit.maximum.unwrap_or(want);
        let all = rustix::process::Rlimit { current: Some(want), maximum: Some(most.max(want)) };
        limit.current = Some(most.min(want));
        let _ = setrlimit(Resource::Nofile, all).or_else(|_| setrlimit(Resource::Nofile, limit));
    }
    // The kernel doubles the table of open files when it is full, and then a process with several threads waits
    // in that call, often for 10 ms or more. Taking a number near the end once, before any query is due, keeps a
    // connection that is opened during the load from paying for it.
    let highest = want.min(getrlimit(Resource::Nofile).current.unwrap_or(want)).saturating_sub(1);
    let _ = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), i32::try_from(highest).unwrap_or(i32::MAX));
}

/// Until a little after the end of the second that is reported next: workers may be asleep at its end.
fn until_next_second(base: Nanos, reported: u64) -> Duration {
    let at = base + (reported + 1) * SECOND + 50_000_000;
    Duration::from_nanos(at.saturating_sub(clock::now()).clamp(1_000_000, SECOND))
}

/// Tells the seconds that all workers have finished; at the end also those that some workers have, where later ones follow.
fn tell(
    seconds: &Mutex<Vec<(u64, Second)>>,
    workers: u32,
    reported: &mut u64,
    end: bool,
    events: &mut dyn FnMut(Event),
) {
    loop {
        let mut all = seconds.lock().expect("no one panics with it");
        let here = all.iter().filter(|(n, _)| n == reported).count();
        let later = all.iter().any(|(n, _)| n > reported);
        if here < workers as usize && !(end && here > 0 && later) {
            return;
        }
        let mut sum = Second::default();
        all.retain(|(n, second)| {
            if n == reported {
                sum.merge(second);
            }
            n != reported
        });
        drop(all);
        *reported += 1;
        events(Event::Progress { second: *reported, values: sum.values() });
    }
}

/// Judges what the workers sampled.
fn checked(spec: &LoadSpec, reports: &mut [Report]) -> Result<Option<CheckResult>, Error> {
    let Some(check) = &spec.check else { return Ok(None) };
    let mut samplers = reports.iter_mut().filter_map(|r| r.samples.take());
    let Some(mut all) = samplers.next() else { return Ok(None) };
    samplers.for_each(|sampler| all.merge(sampler));
    check::verify(check, all.finish()).map(Some)
}

/// Adds up what the workers did.
fn result(
    spec: &LoadSpec,
    plan: &Plan,
    base: Nanos,
    reports: Vec<Report>,
    (before, after): (&Machine, &Machine),
    server: Option<Seen>,
) -> (LoadResult, Known) {
    let mut tallies: [Tally; Class::COUNT] = Default::default();
    let mut offered = [0; Class::COUNT];
    let (mut length, mut id_waits, mut checksums) = (0, 0, Checksums::default());
    let (mut table_bytes, mut transport_bytes) = (0, 0);
    let (mut stall, mut clock_step, mut recv_buffer) = (Stall::default(), 0i64, usize::MAX);
    let mut troubles = Troubles::default();
    let mut scheduling = Scheduling::default();
    let (mut cut_short, mut backend) = (false, "");
    let (mut connections, mut handshakes) = (None, Histogram::default());
    let mut timeline = Timeline::default();
    let (mut computed, mut spin) = (0, 0);
    for r in reports {
        for class in 0..Class::COUNT {
            tallies[class].merge(&r.tallies[class]);
            offered[class] += r.offered[class];
        }
        id_waits += r.id_waits;
        checksums += r.checksums;
        table_bytes += r.table_bytes;
        transport_bytes += r.transport_bytes;
        length = length.max(r.length);
        cut_short |= r.cut_short;
        recv_buffer = recv_buffer.min(r.receive_buffer);
        scheduling.merge(r.scheduling);
        if r.stall.length > stall.length {
            stall = r.stall;
        }
        if r.clock_step.abs() > clock_step.abs() {
            clock_step = r.clock_step;
        }
        troubles.merge(&r.troubles);
        backend = r.backend;
        if let Some(c) = r.connections {
            *connections.get_or_insert_with(net::transport::Connections::default) += c;
        }
        handshakes.merge(&r.handshakes);
        timeline.merge(r.timeline);
        computed += r.computed;
        spin = spin.max(r.spin);
    }
    let flows = plan.flows_per_worker * plan.workers;
    // Background traffic must be sent on time as well.
    let mut sent = tallies[Class::Measured as usize].clone();
    sent.merge(&tallies[Class::Background as usize]);
    let counted = after.counted_since(before);
    // The kernel counts a datagram with a wrong checksum as dropped by its socket, whose buffer had room for it.
    troubles.socket_drops = troubles.socket_drops.saturating_sub(counted.udp_checksum_errors);
    let validity = validity::decide(&Evidence {
        tally: &sent,
        offered: offered[Class::Measured as usize] + offered[Class::Background as usize],
        paced: spec.is_paced(),
        pacing_limit: spec.pacing_limit,
        troubles,
        stall,
        base,
        scheduling,
        shared_cpus: spec.shared_cpus,
        worked: (spec.warmup + length) * Nanos::from(plan.workers),
        memory_stall: after.memory_stall_since(before),
        others: server.map(|seen| seen.others),
        passed: spec.warmup + length,
        steal: after.stolen_since(before),
        clock_step,
        id_waits,
        checksums_right: checksums.right,
        flows,
        slots: plan.slots,
        deadline: spec.deadline,
        // TCP waits where a buffer is full: nothing is dropped.
        recv_buffer_asked: if spec.transport == crate::Transport::Tcp { 0 } else { spec.recv_buffer },
        recv_buffer,
        cut_short,
    });
    let drops = [
        ("socket", troubles.socket_drops),
        ("send_no_buffers", troubles.send_no_buffers),
        ("send_again", troubles.send_again),
        ("send_other", troubles.send_other),
        ("namespace_receive_buffers", counted.udp_receive_buffer_errors),
        ("namespace_send_buffers", counted.udp_send_buffer_errors),
        ("namespace_checksums", counted.spoiled()),
        ("namespace_fragments", counted.incomplete),
    ];
    let known = Known {
        paced: spec.is_paced(),
        corrupted: counted.spoiled(),
        bad_checksums: checksums.bad,
        fragments: counted.fragments,
        incomplete: counted.incomplete,
        too_long: troubles.send_errno == rustix::io::Errno::MSGSIZE.raw_os_error(),
        server,
    };
    let [measured, background, retries] = tallies;
    let [offered, offered_background, offered_retries] = offered;
    let beside = |tally, offered| (offered > 0).then(|| Part::new(&tally, offered, length));
    let signs = measured.signs.signs(base, (stall.at, stall.length));
    let result = LoadResult {
        icmp: troubles.icmp,
        signs,
        drops: drops.into_iter().map(|(k, v)| (k.into(), v)).collect::<BTreeMap<_, _>>(),
        validity,
        transport: spec.transport.to_string(),
        backend: backend.into(),
        tcp: connections.map(|c| TcpResult::new(c, handshakes)),
        background: beside(background, offered_background),
        tcp_retries: beside(retries, offered_retries),
        burst: plan.burst,
        group: spec.group.max(1),
        spin_us: spin as f64 / 1e3,
        flows,
        workers: plan.workers,
        recv_buffer: recv_buffer as u64,
        table_bytes: table_bytes as u64,
        transport_bytes: transport_bytes as u64,
        cut_short,
        timeline,
        worker_busy: measure::sender_faults::share(
            computed,
            (spec.warmup + length) * u64::from(plan.workers),
        ),
        ..LoadResult::new(measured, offered, length, spec.deadline)
    };
    (result, known)
}
