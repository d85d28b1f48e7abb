//! A run from its specification to its result.

use super::fates::Fates;
use super::flight::Flight;
use super::gate::{Gate, SentBatch};
use super::markers::Markers;
use super::result::SendResult;
use super::sender::Sender;
use super::spec::{Plan, SendSpec, SendTransport};
use super::stream::{Shape, compile};
use super::validity::{self, Evidence};
use crate::Error;
use crate::tsig::Signer;
use measure::clock::{SECOND, Wall};
use measure::{Event, Nanos, Seed};
use net::scheduling::Machine;
use net::tcp::TcpFlows;
use net::transport::Transport;
use net::udp::{Flow, UdpFlows};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;

/// Sends a file of updates from the calling thread's network namespace.
///
/// Everything is checked, read, opened and allocated first; then `start` is called, which may wait, and names the instant (monotonic)
/// at which the first message is due. `stop` ends the run early: the result is then marked as cut short. `events` gets `Started` and,
/// once a second, `Progress` with that second's `offered_ups`, `sent_ups`, `acknowledged_ups`, `accepted_ups` (messages), `unsent`,
/// `lost`, `latency_p50`, `latency_p99`, `latency_max`, `pacing_error_p99`, `stall_max` (microseconds) and, at its end, `in_flight`.
///
/// # Errors
/// Before `start` is called: whatever is wrong with the specification, the file, the target, sockets and cores. After it: only where
/// the sockets or the file of latencies break.
pub fn run(
    spec: &SendSpec,
    start: impl FnOnce() -> Nanos,
    stop: &AtomicBool,
    events: &mut dyn FnMut(Event),
) -> Result<SendResult, Error> {
    run_gated(spec, None, start, stop, events).map(|(result, _)| result)
}

/// As [`run`]; with a gate in batches, which are reported too.
pub(crate) fn run_gated(
    spec: &SendSpec,
    gate: Option<Gate<'_>>,
    start: impl FnOnce() -> Nanos,
    stop: &AtomicBool,
    events: &mut dyn FnMut(Event),
) -> Result<(SendResult, Vec<SentBatch>), Error> {
    let plan = spec.plan()?;
    net::target::check(&[spec.target], &spec.allowed, spec.allow_external)?;
    let signer = spec.key.as_ref().map(Signer::new).transpose()?;
    let stream =
        compile(&spec.file, Shape { merge: spec.merge, clients: plan.clients, names: spec.retries > 0 })?;
    let markers = spec.marker.as_ref().map(|marker| Markers::new(marker, &stream.zone)).transpose()?;
    let fates = spec.latencies.as_deref().map(Fates::create).transpose()?;
    let transport = open(spec, &plan)?;
    let mut draw = Seed::default().draw("update/ids", std::process::id().into());
    let mut windows: Vec<_> = (0..plan.clients).map(|_| (plan.slots, draw.bits() as u16)).collect();
    windows.push((plan.marker_slots, draw.bits() as u16));
    let flight = Flight::new(&windows, spec.deadline, spec.retries, spec.is_paced());
    let (contents, backend, recv_buffer) =
        (stream.contents.clone(), transport.backend(), transport.receive_buffer());
    let (seconds_in, seconds) = channel();
    let mut sender =
        Sender::new(spec, plan, transport, stream, flight, signer, markers, fates, stop, seconds_in);
    sender.gate = gate;
    let cpus: Vec<usize> = spec.cpu.into_iter().collect();

    let (at, before, mut sent) = std::thread::scope(|scope| {
        let (starter_in, starter) = channel::<Nanos>();
        let (ready_in, ready) = channel();
        let at_work = scope.spawn(move || {
            let settled = net::scheduling::settle(spec.cpu);
            let usable = settled.is_ok();
            let _ = ready_in.send(settled);
            // Without an instant to start at, the run was given up.
            let result = match starter.recv() {
                Ok(at) if usable => {
                    if let Some(fates) = &mut sender.fates {
                        fates.begin(at);
                    }
                    sender.run(at)
                }
                _ => Ok(()),
            };
            // No more seconds: whoever waits for them goes on.
            sender.seconds = channel().0;
            result.map(|()| sender)
        });
        let settled = ready.recv().expect("the sender says whether it is ready");
        settled?;
        let at = start();
        let before = Machine::read(&cpus);
        let _ = starter_in.send(at);
        events(Event::Started { at: Wall::read().to_wall(at) });
        for (n, second) in (1..).zip(seconds.iter()) {
            events(Event::Progress { second: n, values: second.values() });
        }
        let sent = at_work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok::<_, Error>((at, before, sent))
    })?;
    let steal = Machine::read(&cpus).stolen_since(&before);
    if let Some(fates) = sent.fates.take() {
        fates.finish()?;
    }
    let troubles = sent.transport.troubles();
    let tally = std::mem::take(&mut sent.flight.tally);
    let validity = validity::decide(&Evidence {
        spec,
        tally: &tally,
        did: &sent.did,
        troubles,
        start: at,
        steal,
        recv_buffer,
        across_clients: contents.across_clients,
    });
    let drops = [
        ("socket", troubles.socket_drops),
        ("send_no_buffers", troubles.send_no_buffers),
        ("send_again", troubles.send_again),
        ("send_other", troubles.send_other),
    ];
    let batches = std::mem::take(&mut sent.did.batches);
    let result = SendResult {
        file: contents,
        tsig_faults: std::mem::take(&mut sent.did.tsig_faults),
        icmp: troubles.icmp,
        drops: drops.map(|(place, n)| (place.into(), n)).into(),
        tcp: sent.transport.connections(),
        marker_name: sent.markers.as_ref().map(|m| m.name.to_string()),
        markers: sent.markers.take().map(|m| m.made).unwrap_or_default(),
        validity,
        deadline_s: spec.deadline as f64 / SECOND as f64,
        clients: plan.clients,
        burst: plan.burst,
        transport: spec.transport.to_string(),
        backend: backend.into(),
        signed: spec.key.is_some(),
        recv_buffer: recv_buffer as u64,
        table_bytes: sent.flight.table_bytes() as u64,
        cut_short: sent.did.cut_short,
        ..SendResult::new(tally, sent.did.length)
    };
    Ok((result, batches))
}

/// Opens a flow for each client, and one for markers.
fn open(spec: &SendSpec, plan: &Plan) -> Result<Box<dyn Transport + Send>, Error> {
    let fitting: Vec<_> = spec.sources.iter().filter(|s| s.ip.is_ipv4() == spec.target.is_ipv4()).collect();
    let flow = |n: u32| match fitting.get(n as usize % fitting.len().max(1)) {
        None => Flow::to(spec.target),
        Some(source) => {
            let address = source.host(u64::from(n) / fitting.len() as u64);
            Flow { source: SocketAddr::new(address, 0), target: spec.target }
        }
    };
    let flows: Vec<_> = (0..=plan.clients).map(flow).collect();
    let opened: std::io::Result<Box<dyn Transport + Send>> = match spec.transport {
        SendTransport::Udp => {
            UdpFlows::open(&flows, spec.recv_buffer).map(|udp| -> Box<dyn Transport + Send> {
                Box::new(if spec.pace == measure::Pace::Flood { udp.for_floods() } else { udp })
            })
        }
        SendTransport::Tcp => {
            let options = net::tcp::Options {
                idle: 10 * SECOND,
                pipeline: 0,
                waiting: plan.slots as u32,
                connect_timeout: spec.deadline,
                patience: spec.deadline,
                ..net::tcp::Options::default()
            };
            TcpFlows::open(&flows, &options).map(|tcp| -> Box<dyn Transport + Send> { Box::new(tcp) })
        }
    };
    opened.map_err(|error| Error::Open { clients: plan.clients, target: spec.target, error })
}
