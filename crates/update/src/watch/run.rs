//! The watcher's loop: one thread, questions at absolute instants, servers staggered evenly over the interval.

use super::server::{Change, SLOTS, Server};
use super::{
    Forwards, MARKER_LABEL, OwnLoad, SERVERS_MAX, SerialSeen, Shown, Sighting, WatchResult, WatchSpec,
    WentBack,
};
use crate::Error;
use measure::clock::{self, SECOND, Wall};
use measure::limits::{CLOCK_LIMIT, LAG_LIMIT, UNCERTAIN_LIMIT};
use measure::{Event, Histogram, Nanos, Reason, Validity};
use net::transport::{Incoming, Stamp, Transport};
use net::udp::{Flow, UdpFlows};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::name::Name;
use wire::{query, rtype};

/// Room for the answers of a server that speaks up after a while: 4 KiB each in the kernel's accounting.
const RECEIVE_BUFFER: usize = 1 << 20;
/// Sightings and serials that are kept.
const KEPT_MAX: usize = 1 << 22;
/// Steps back that are kept.
const BACK_MAX: usize = 1000;
/// No sleep is longer, so that a stop is noticed.
const LONGEST_SLEEP: Nanos = SECOND / 20;

/// Watches until the duration is over or `stop` is set. `start` is asked, once everything is ready, for the monotonic instant to
/// begin at. `events` hears the beginning, and once a second what every server shows.
///
/// # Errors
/// [`Error::Spec`], [`Error::Target`], and [`Error::System`] where sockets cannot be had.
pub fn watch(
    spec: &WatchSpec,
    start: impl FnOnce() -> Nanos,
    stop: &AtomicBool,
    events: &mut dyn FnMut(Event),
) -> Result<WatchResult, Error> {
    let mut watch = Watch::open(spec)?;
    let start = start();
    watch.go(start, stop, events)?;
    Ok(watch.finish(start))
}

/// A watch that is ready to begin, and tells `shown` what it sees.
///
/// # Errors
/// As [`watch`], before it begins.
pub(crate) fn prepare<'a>(spec: &'a WatchSpec, shown: &'a Shown) -> Result<Watch<'a>, Error> {
    Ok(Watch { shown: Some(shown), ..Watch::open(spec)? })
}

/// The name of the markers.
fn marker_name(spec: &WatchSpec) -> Result<Name, Error> {
    let origin: Name =
        spec.origin.parse().map_err(|e| Error::Spec(format!("zone '{}': {e}", spec.origin)))?;
    let text = spec.marker.as_deref().unwrap_or(MARKER_LABEL);
    let name = Name::parse_text(text, Some(origin.as_wire()))
        .map_err(|e| Error::Spec(format!("marker '{text}': {e}")))?;
    match name.is_under(origin.as_wire()) {
        true => Ok(name),
        false => Err(Error::Spec(format!("marker {name} is not in the zone {origin}"))),
    }
}

fn check(spec: &WatchSpec) -> Result<(), Error> {
    let refuse = |what: String| Err(Error::Spec(what));
    let servers = spec.servers.len();
    if servers == 0 || servers > SERVERS_MAX {
        return refuse(format!("{servers} servers to watch: give 1 to {SERVERS_MAX}"));
    }
    if spec.interval < 100_000 || spec.interval > 10 * SECOND {
        return refuse("the interval between questions must be 100us to 10s".into());
    }
    if spec.duration == 0 || spec.deadline == 0 {
        return refuse("the duration and the deadline must be longer than zero".into());
    }
    // With the serial, two questions an interval at most.
    if spec.deadline / spec.interval * 2 >= SLOTS as u64 {
        return refuse(format!(
            "{} questions could wait for answers at one server: give a shorter deadline, or a longer interval",
            spec.deadline / spec.interval * 2
        ));
    }
    let addresses: Vec<_> = spec.servers.iter().map(|server| server.address).collect();
    Ok(net::target::check(&addresses, &[], spec.allow_external)?)
}

pub(crate) struct Watch<'a> {
    spec: &'a WatchSpec,
    /// Shown to others while it runs.
    shown: Option<&'a Shown>,
    name: Name,
    transport: UdpFlows,
    servers: Vec<Server>,
    /// For a marker, for the SOA.
    questions: [Vec<u8>; 2],
    /// The queries lent in this batch.
    lent: Vec<(usize, u16, Forwards)>,
    wall: Wall,
    sightings: Vec<Sighting>,
    serials: Vec<SerialSeen>,
    went_back: Vec<WentBack>,
    not_kept: u64,
    latency: Histogram,
    own: OwnLoad,
    validity: Validity,
    ended: Nanos,
    cpu: Nanos,
}

impl<'a> Watch<'a> {
    fn open(spec: &'a WatchSpec) -> Result<Self, Error> {
        check(spec)?;
        let name = marker_name(spec)?;
        let origin: Name = spec.origin.parse().map_err(|e| Error::Spec(format!("{e}")))?;
        net::scheduling::settle(spec.cpu)?;
        // It shares its core with what sends, and what the machine does beside: a question that leaves late makes a lag uncertain. Where
        // it may not, it does without, and tells its stalls.
        let _ = net::scheduling::run_first();
        let flows: Vec<Flow> = spec.servers.iter().map(|server| Flow::to(server.address)).collect();
        // So that whoever counts a load at a server can leave these out.
        let transport = UdpFlows::open(&flows, RECEIVE_BUFFER)
            .and_then(|flows| flows.with_class(net::arrivals::WATCHING))
            .map_err(|error| Error::System { what: "cannot open a socket for each server", error })?;
        let mut questions = [Vec::new(), Vec::new()];
        query::write(&mut questions[0], 0, name.as_wire(), rtype::TXT, None);
        query::write(&mut questions[1], 0, origin.as_wire(), rtype::SOA, None);
        Ok(Self {
            spec,
            shown: None,
            name,
            transport,
            servers: spec.servers.iter().map(|server| Server::new(&server.name)).collect(),
            questions,
            lent: Vec::new(),
            wall: Wall::read(),
            sightings: Vec::new(),
            serials: Vec::new(),
            went_back: Vec::new(),
            not_kept: 0,
            latency: Histogram::default(),
            own: OwnLoad::default(),
            validity: Validity::default(),
            ended: 0,
            cpu: 0,
        })
    }

    /// Watches from an instant on, as [`watch`] does, and tells no events.
    pub fn run(mut self, start: Nanos, stop: &AtomicBool) -> Result<WatchResult, Error> {
        self.go(start, stop, &mut |_| {})?;
        Ok(self.finish(start))
    }

    /// When questions may be apart before it counts as a stall, and how well a sighting should be known.
    fn limit(&self) -> Nanos {
        LAG_LIMIT.max(2 * self.spec.interval)
    }

    fn go(&mut self, start: Nanos, stop: &AtomicBool, events: &mut dyn FnMut(Event)) -> Result<(), Error> {
        let cpu = clock::cpu();
        let (interval, many) = (u128::from(self.spec.interval), self.servers.len() as u128);
        let at = |slot: u64| start + (u128::from(slot) * interval / many) as Nanos;
        let end = start.saturating_add(self.spec.duration);
        self.wall = Wall::read();
        let mut begun = false;
        let (mut slot, mut second) = (0u64, 1u64);
        while !stop.load(Ordering::Relaxed) {
            let due = at(slot);
            if due >= end {
                break;
            }
            let now = clock::now();
            if due > now {
                clock::sleep_until(due.min(now + LONGEST_SLEEP).min(start + second * SECOND));
            }
            let now = clock::now();
            if !begun && now >= start {
                begun = true;
                events(Event::Started { at: self.wall.to_wall(start) });
            }
            self.receive()?;
            while at(slot) <= now {
                // After a stall each server is asked once, and what was due meanwhile is left out.
                if now - at(slot) > self.spec.interval {
                    self.own.skipped += 1;
                } else {
                    self.ask((slot % many as u64) as usize, slot / many as u64)?;
                }
                slot += 1;
            }
            self.flush()?;
            if now >= start + second * SECOND {
                let wall = Wall::read();
                let moved = self.wall.drift(wall);
                if moved.unsigned_abs() > CLOCK_LIMIT {
                    let text = format!(
                        "the wall clock was stepped by {:.1} ms in second {second}, and receive times are taken from it",
                        moved as f64 / 1e6
                    );
                    self.validity.reject(Reason::new("clock_stepped", text));
                }
                self.wall = wall;
                // Seconds that passed in a stall are not reported.
                second = (now - start) / SECOND;
                events(Event::Progress { second, values: self.values() });
                second += 1;
            }
        }
        self.ended = clock::now().max(start);
        let until = self.ended + self.spec.deadline;
        loop {
            self.receive()?;
            let now = clock::now();
            let since = now.saturating_sub(self.spec.deadline);
            if now >= until || !self.servers.iter().any(|server| server.waits(since)) {
                break;
            }
            clock::sleep_until((now + 1_000_000).min(until));
        }
        self.cpu = clock::cpu().saturating_sub(cpu);
        Ok(())
    }

    /// The values that every server shows now, for a progress event.
    fn values(&self) -> serde_json::Value {
        let servers: Vec<_> = self
            .servers
            .iter()
            .map(|server| {
                json!({
                    "name": server.counts.name, "marker": server.marker.value, "serial": server.serial.value,
                    "sent": server.counts.sent, "answered": server.counts.answered,
                })
            })
            .collect();
        json!({ "servers": servers })
    }

    /// Puts a question for the marker into the batch, and one for the serial where it is time.
    fn ask(&mut self, server: usize, round: u64) -> Result<(), Error> {
        self.put(server, Forwards::Marker)?;
        let every = u64::from(self.spec.serial_every);
        if every > 0 && round.is_multiple_of(every) {
            self.put(server, Forwards::Serial)?;
        }
        Ok(())
    }

    fn put(&mut self, server: usize, what: Forwards) -> Result<(), Error> {
        if self.lent.len() == self.transport.batch().size() {
            self.flush()?;
        }
        let id = self.servers[server].id();
        let question = &self.questions[usize::from(what == Forwards::Serial)];
        let Some(frame) = self.transport.lend(server as u32) else { return Ok(()) };
        frame.bytes.extend_from_slice(question);
        wire::header::set_id(&mut frame.bytes, id);
        self.lent.push((server, id, what));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.lent.is_empty() {
            return Ok(());
        }
        let limit = self.limit();
        let Self { lent, servers, questions, own, .. } = self;
        let sent = self.transport.flush(&mut |i, at| {
            let (Some(&(server, id, what)), Some(at)) = (lent.get(i), at) else { return };
            servers[server].asked(id, what, at, limit);
            own.sent += 1;
            own.bytes_sent += questions[usize::from(what == Forwards::Serial)].len() as u64;
        });
        self.lent.clear();
        sent.map_err(|error| Error::System { what: "the sockets cannot be used any more", error })
    }

    fn receive(&mut self) -> Result<(), Error> {
        let Self { spec, servers, questions, wall, latency, own, .. } = self;
        let questions = [&questions[0][..], &questions[1][..]];
        let (sightings, serials, went_back) = (&mut self.sightings, &mut self.serials, &mut self.went_back);
        let (not_kept, shown) = (&mut self.not_kept, self.shown);
        let limit = LAG_LIMIT.max(2 * spec.interval);
        let mut each = |incoming: &Incoming<'_>| {
            let number = incoming.flow as usize;
            let (server, target) = (&mut servers[number], spec.servers[number].address);
            own.bytes_received += incoming.len as u64;
            if incoming.from != target {
                server.counts.mismatched += 1;
                return;
            }
            let (seen, seen_at) = match incoming.stamp {
                Stamp::Wall(at) => (wall.to_monotonic(at), at),
                Stamp::Monotonic(at) => (at, wall.to_wall(at)),
            };
            let stalled = server.stalled;
            let got = server.answer(incoming.bytes, seen, spec.deadline, questions);
            let Some((what, seen_as, took)) = got else { return };
            own.answered += 1;
            latency.record(took);
            let room = sightings.len() + serials.len() < KEPT_MAX;
            let marker = match (what, seen_as) {
                (
                    Forwards::Marker,
                    Change::First(now) | Change::Grown { now, .. } | Change::Back { now, .. },
                ) => Some(now),
                _ => None,
            };
            if let (Some(shown), Some(now)) = (shown, marker) {
                shown.set(number, now);
            }
            let number = number as u16;
            match (what, seen_as) {
                (_, Change::Nothing) | (Forwards::Marker, Change::First(_)) => {}
                (_, Change::Back { before: from, now: to }) => {
                    if went_back.len() < BACK_MAX {
                        went_back.push(WentBack { server: number, what, from, to, at: seen_at });
                    }
                }
                (Forwards::Marker, Change::Grown { before, now, hidden }) => {
                    if seen.saturating_sub(hidden) > limit {
                        match stalled.is_some_and(|at| at >= hidden) {
                            true => server.counts.uncertain_by_us += 1,
                            false => server.counts.uncertain_by_server += 1,
                        }
                    }
                    let (first, hidden_at) = (before + 1, wall.to_wall(hidden));
                    match room {
                        true => {
                            sightings.push(Sighting { server: number, first, last: now, hidden_at, seen_at })
                        }
                        false => *not_kept += 1,
                    }
                }
                (Forwards::Serial, Change::First(now)) => {
                    serials.push(SerialSeen { server: number, serial: now as u32, hidden_at: None, seen_at });
                }
                (Forwards::Serial, Change::Grown { now, hidden, .. }) => {
                    let hidden_at = Some(wall.to_wall(hidden));
                    match room {
                        true => serials.push(SerialSeen {
                            server: number,
                            serial: now as u32,
                            hidden_at,
                            seen_at,
                        }),
                        false => *not_kept += 1,
                    }
                }
            }
        };
        // As long as there is something, but not for ever.
        for _ in 0..16 {
            let got = self.transport.receive(256, &mut each);
            let got =
                got.map_err(|error| Error::System { what: "nothing can be received any more", error })?;
            if got < 64 {
                break;
            }
        }
        Ok(())
    }

    fn finish(mut self, start: Nanos) -> WatchResult {
        let duration_ns = self.ended.saturating_sub(start);
        for server in &mut self.servers {
            let counts = &mut server.counts;
            counts.lost = counts.sent - counts.answered;
            counts.marker_last = server.marker.value;
            counts.serial_last = server.serial.value.map(|serial| serial as u32);
        }
        self.decide_validity();
        let seconds = (duration_ns as f64 / SECOND as f64).max(1e-9);
        let own = OwnLoad {
            qps_per_server: self.own.sent as f64 / seconds / self.servers.len() as f64,
            lost: self.own.sent - self.own.answered,
            cpu: self.cpu as f64 / SECOND as f64 / seconds,
            ..self.own
        };
        WatchResult {
            start_ns: self.wall.to_wall(start),
            duration_ns,
            marker: self.name.to_string(),
            servers: self.servers.into_iter().map(|server| server.counts).collect(),
            sightings: self.sightings,
            serials: self.serials,
            went_back: self.went_back,
            not_kept: self.not_kept,
            latency: self.latency,
            own,
            validity: self.validity,
        }
    }

    /// Whether we did what the lags need.
    fn decide_validity(&mut self) {
        let sum =
            |what: fn(&super::ServerResult) -> u64| self.servers.iter().map(|s| what(&s.counts)).sum::<u64>();
        let (stalls, by_us) = (sum(|c| c.stalls), sum(|c| c.uncertain_by_us));
        let (all, limit) = (self.sightings.len() as u64 + self.not_kept, self.limit() as f64 / 1e6);
        let troubles = self.transport.troubles();
        let validity = &mut self.validity;
        if by_us > 0 {
            let text = format!(
                "{by_us} of {all} sightings are known worse than to {limit:.0} ms, as the watcher stood still: {stalls} times; give it \
                 a core of its own (--cpu)"
            );
            let reason = Reason::new("watcher_stalled", text);
            match by_us as f64 > UNCERTAIN_LIMIT * all as f64 {
                true => validity.reject(reason),
                false => validity.warn(reason),
            }
        } else if stalls > 0 {
            let text = format!(
                "the watcher stood still for more than {limit:.0} ms {stalls} times, while nothing became visible"
            );
            validity.warn(Reason::new("watcher_stalled", text));
        }
        if troubles.socket_drops > 0 {
            let text =
                format!("{} answers were dropped as our receive buffers were full", troubles.socket_drops);
            validity.reject(Reason::new("answers_dropped", text));
        }
        if troubles.refused() > 0 {
            let text = format!("{} questions were refused by our own kernel", troubles.refused());
            validity.warn(Reason::new("sends_refused", text));
        }
        if self.not_kept > 0 {
            let text = format!("{} sightings were not kept: watch for a shorter time", self.not_kept);
            validity.reject(Reason::new("sightings_lost", text));
        }
    }
}
