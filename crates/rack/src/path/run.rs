//! The emulator at work: one thread, one packet socket, one heap of release times.

use super::forward::Forwarder;
use super::{Plan, Report};
use crate::Error;
use crate::spec::ROUTER;
use measure::clock::{SECOND, now};
use measure::{Histogram, Nanos};
use net::packet::{BATCH, PacketSocket};
use net::scheduling::run_first;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Octets (the kernel's bookkeeping included) that may wait to be received: more than 100 ms of 20,000 packets/s.
const BUFFER: usize = 64 << 20;

/// For how long frames that are due wait for a receiver whose core has not processed those before, at most.
const SEND_WAIT: Nanos = 20_000_000;

/// How often it looks whether it is to stop, at least.
const LOOK: Nanos = 50_000_000;

fn failed(doing: &str) -> impl FnOnce(io::Error) -> Error + '_ {
    move |source| Error::Host { host: ROUTER.into(), doing: doing.into(), source }
}

/// Emulates the paths of `plan` in the network namespace that we are in, the router's, from the call of `ready` on, until
/// `stop` is set; then what is still held is gone. Tells once a second what it did so far, with the delay errors of that
/// second.
///
/// # Errors
/// [`Error::Host`] from the system; those of the plan.
pub fn run(
    plan: &Plan,
    ready: impl FnOnce(),
    stop: &AtomicBool,
    tell: &mut dyn FnMut(u64, &Report),
) -> Result<Report, Error> {
    let mut router = Forwarder::new(plan)?;
    let mut socket = PacketSocket::open(&plan.device, plan.room(), BUFFER)
        .map_err(failed("open a packet socket on its device"))?;
    // By default the kernel wakes sleepers up to 50 us late, to wake several at once.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    // Where it waits busily it must leave its core to others now and then.
    let runs_first = plan.spin_us == 0 && run_first().is_ok();
    let dropped_before = port_drops(&plan.device)?;
    let spin = plan.spin_us * 1000;
    let begun = now();
    ready();
    let (mut total, mut second) = (Histogram::default(), Histogram::default());
    let mut due = Vec::with_capacity(BATCH);
    let report =
        |router: &Forwarder, socket: &mut PacketSocket, errors: &Histogram| -> Result<Report, Error> {
            Ok(Report::new(
                now() - begun,
                router,
                errors,
                socket.dropped().map_err(failed("ask for the drops of its socket"))?,
                port_drops(&plan.device)?.saturating_sub(dropped_before),
                runs_first,
            ))
        };
    let mut seconds = 1;
    while !stop.load(Ordering::Relaxed) {
        let mut time = now();
        router.due(time, BATCH, &mut due);
        while !due.is_empty() {
            let mut from = 0;
            let mut waited = false;
            while from < due.len() {
                let at = now();
                let sent = socket.send(due[from..].iter().map(|&one| router.frame(one)));
                // The receiver has not processed the frames before these, and may need our core for that. So sleep once, and
                // let it work. These frames are then late, and the delay error shows it. What still cannot be sent is dropped.
                if !waited && sent.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock) {
                    waited = true;
                    socket.wait_to_send(SEND_WAIT).map_err(failed("wait for its device"))?;
                    continue;
                }
                let (count, good) = sent.map_or((1, false), |n| (n.max(1), n > 0));
                for &one in &due[from..from + count] {
                    router.done(one, good);
                    second.record(at.saturating_sub(one.at));
                }
                from += count;
            }
            time = now();
            router.due(time, BATCH, &mut due);
        }
        let received = socket
            .receive(&mut |frame| router.take(frame.bytes, frame.length, frame.arrived))
            .map_err(failed("receive from its device"))?;
        if time >= begun + seconds * SECOND {
            tell(seconds, &report(&router, &mut socket, &second)?);
            total.merge(&second);
            second = Histogram::default();
            seconds = (time - begun) / SECOND + 1;
        }
        if received > 0 {
            continue;
        }
        let until = (begun + seconds * SECOND).min(time + LOOK).min(router.next().unwrap_or(Nanos::MAX));
        let left = until.saturating_sub(now());
        if left > spin {
            socket.wait(left - spin).map_err(failed("wait for its device"))?;
        }
    }
    total.merge(&second);
    report(&router, &mut socket, &total)
}

/// Packets dropped at the ports of the router, in either direction, because a backlog was full.
fn port_drops(device: &str) -> Result<u64, Error> {
    const FILE: &str = "/proc/thread-self/net/dev";
    let text = std::fs::read_to_string(FILE)
        .map_err(|e| Error::Sample { path: FILE.into(), message: e.to_string() })?;
    let devices = net::counters::devices(&text)
        .ok_or_else(|| Error::Sample { path: FILE.into(), message: "unknown shape".into() })?;
    // None of the bridge's own and of the loopback device's.
    let ports = devices.iter().filter(|port| ![device, "lo"].contains(&port.name));
    Ok(ports.map(|port| port.received_dropped + port.sent_dropped).sum())
}
