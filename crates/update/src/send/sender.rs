//! The thread that sends: a schedule or a window, retries and markers between, answers matched and checked.

use super::fates::Fates;
use super::flight::{Fate, Flight};
use super::gate::{Gate, SentBatch};
use super::markers::Markers;
use super::spec::{LONGEST, Plan, SendSpec, Transport as Way};
use super::stream::{Prepared, Stream};
use super::tally::Second;
use crate::Error;
use crate::tsig::{Fault, Signer};
use measure::clock::{self, SECOND, Wall};
use measure::schedule::{Schedule, Span, Step};
use measure::{Nanos, Pace};
use net::own::Scheduling;
use net::transport::{Incoming, Stamp, Transport};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender as Channel;
use wire::header::{self, Header};
use wire::question;

/// Datagrams looked at in one turn.
const RECEIVE_MAX: usize = 256;
/// The time that receiving a datagram takes at most, or looking for one.
const RECEIVE_COST: Nanos = 4_000;
const LOOK_COST: Nanos = 10_000;
/// Answers are looked for as often as this, however near the deadlines are.
const LOOK_EVERY: Nanos = 50_000;
/// A shorter sleep is not ended by answers.
const BLIND: Nanos = 1_000_000;
const LONGEST_SLEEP: Nanos = 20_000_000;
/// How long duplicates are listened for after the last answer, and answers when it is told to stop.
const LINGER: Nanos = 50_000_000;
const LAST_CHANCE: Nanos = 200_000_000;

/// The sender's own part of the result, beside the counts.
#[derive(Debug, Default)]
pub(super) struct Did {
    /// How long messages were offered.
    pub length: Nanos,
    pub scheduling: Scheduling,
    /// When the loop stood still for the longest time, and for how long.
    pub stall: (Nanos, Nanos),
    pub clock_step: i64,
    pub id_waits: u64,
    pub cut_short: bool,
    /// It gave up, as there was no answer for as long as its patience lasts.
    pub gave_up: bool,
    /// Signatures that were wrong, by what was wrong.
    pub tsig_faults: BTreeMap<String, u64>,
    /// The batches that were sent behind a gate.
    pub batches: Vec<SentBatch>,
}

/// Everything that it works with.
pub(super) struct Sender<'a> {
    pub spec: &'a SendSpec,
    pub plan: Plan,
    pub transport: Box<dyn Transport + Send>,
    pub stream: Stream,
    pub flight: Flight,
    pub signer: Option<Signer>,
    pub markers: Option<Markers>,
    pub fates: Option<Fates>,
    pub stop: &'a AtomicBool,
    pub seconds: Channel<Second>,
    /// The gate that holds batches back, where there is one.
    pub gate: Option<Gate<'a>>,
    pub did: Did,
    /// The next message, made ready while there is time.
    message: Prepared,
    ready: bool,
    ended: bool,
    /// The messages of the batch.
    pending: Vec<(u32, u16, u32)>,
    wall: Wall,
    wall_at: Nanos,
    /// Seconds since 1970, for signatures.
    time: u64,
    start: Nanos,
    next_second: Nanos,
    expected: Nanos,
    looked: Nanos,
    heard: Nanos,
    last: Nanos,
    next_expiry: Nanos,
}

impl<'a> Sender<'a> {
    #[allow(clippy::too_many_arguments, reason = "one call")]
    pub fn new(
        spec: &'a SendSpec,
        plan: Plan,
        mut transport: Box<dyn Transport + Send>,
        stream: Stream,
        flight: Flight,
        signer: Option<Signer>,
        markers: Option<Markers>,
        fates: Option<Fates>,
        stop: &'a AtomicBool,
        seconds: Channel<Second>,
    ) -> Self {
        let pending = Vec::with_capacity(transport.batch().size());
        Self {
            spec,
            plan,
            transport,
            stream,
            flight,
            signer,
            markers,
            fates,
            stop,
            seconds,
            gate: None,
            did: Did::default(),
            message: Prepared::default(),
            ready: false,
            ended: false,
            pending,
            wall: Wall::read(),
            wall_at: 0,
            time: clock::wall() / SECOND,
            start: 0,
            next_second: 0,
            expected: 0,
            looked: 0,
            heard: 0,
            last: 0,
            next_expiry: 0,
        }
    }

    /// Sends everything from the instant `start` on, and waits for the answers.
    pub fn run(&mut self, start: Nanos) -> Result<(), Error> {
        (self.start, self.next_second, self.expected) = (start, start + SECOND, start);
        (self.looked, self.heard, self.last) = (start, start, start);
        self.prepare()?;
        while clock::now() < start.saturating_sub(self.spec.spin) && !self.stopped() {
            clock::sleep_until((start - self.spec.spin).min(clock::now() + LONGEST_SLEEP));
        }
        self.wall = Wall::read();
        self.wall_at = clock::now();
        if let Some(markers) = &mut self.markers {
            markers.begin(start);
        }
        let before = Scheduling::read();
        let (gate, most) = (self.gate.take(), self.spec.count.unwrap_or(u64::MAX));
        self.did.length = match &self.spec.pace {
            Pace::Open(arrivals) => {
                let span = Span {
                    warmup: 0,
                    until: self.spec.duration.unwrap_or(LONGEST),
                    most: self.spec.count.unwrap_or(u64::MAX),
                };
                self.open(Schedule::arrivals(arrivals, 1, start, span, (0, 1), self.plan.burst))?
            }
            Pace::Closed { window } => match &gate {
                Some(gate) => self.batches(u64::from(*window), gate)?,
                None => self.unpaced(u64::from(*window), most)?,
            },
            Pace::Flood | Pace::Recorded { .. } => self.unpaced(u64::MAX, most)?,
        };
        self.did.scheduling = Scheduling::read().since(before);
        self.drain()?;
        if !self.did.cut_short && self.markers.is_some() && gate.is_none() {
            // By this one it can be seen that all before it has arrived.
            let now = clock::now();
            if let Some(markers) = &mut self.markers {
                markers.next = now;
            }
            self.send_markers(now)?;
            self.drain()?;
        }
        let now = clock::now();
        let (flight, fates, markers) = (&mut self.flight, &mut self.fates, &mut self.markers);
        flight.finish(now, &mut |fate| note(fate, fates, markers, self.wall));
        if self.next_second == start + SECOND {
            // The only one, and not complete: rates of a later one would be wrong.
            self.end_second();
        }
        Ok(())
    }

    /// Open loop: a message whenever the schedule says so, until it or the file ends. How long that was.
    fn open(&mut self, mut schedule: Schedule) -> Result<Nanos, Error> {
        loop {
            let now = self.begin()?;
            if self.stopped() {
                self.did.cut_short = true;
                return Ok(schedule.length());
            }
            let mut put = 0;
            let wait = loop {
                match schedule.step(now) {
                    Step::Skip => {
                        // The stream stays where it is: what was not sent must not be missing from it.
                        schedule.take(false);
                        self.count_offered();
                        self.flight.tally.unsent_overdue += 1;
                        self.flight.second.unsent += 1;
                    }
                    Step::Send => {
                        if !self.prepare()? {
                            schedule.end();
                            continue;
                        }
                        let due = schedule.take(true);
                        self.count_offered();
                        if !self.put(due.intended)? {
                            self.flight.tally.unsent_ids += 1;
                            self.flight.second.unsent += 1;
                        }
                        put += 1;
                        if put >= self.plan.burst {
                            break now;
                        }
                    }
                    Step::Wait(until) => break until,
                    Step::End | Step::Tell => {
                        self.flush()?;
                        return Ok(schedule.length());
                    }
                }
            };
            self.flush()?;
            if !self.prepare()? {
                schedule.end();
            }
            self.rest(wait)?;
        }
    }

    /// Sends as much as fits into the window, until the file or the time is over, or `count` are offered in all. Returns how long it took.
    pub(super) fn unpaced(&mut self, window: u64, count: u64) -> Result<Nanos, Error> {
        let end = self.start + self.spec.duration.unwrap_or(LONGEST);
        loop {
            let now = self.begin()?;
            self.receive(RECEIVE_MAX)?;
            if now < self.start {
                continue;
            }
            let length = self.last.max(self.start) - self.start;
            if self.stopped() {
                self.did.cut_short = true;
                return Ok(length);
            }
            if self.flight.in_flight() > 0 && now.saturating_sub(self.heard) > self.spec.patience {
                (self.did.cut_short, self.did.gave_up) = (true, true);
                return Ok(length);
            }
            let offered = self.flight.tally.offered;
            if now >= end || offered >= count {
                return Ok(length);
            }
            let room = window.saturating_sub(self.flight.in_flight());
            let want = room.min(self.plan.burst.into()).min(count - offered);
            let mut blocked = want == 0;
            for _ in 0..want {
                if !self.prepare()? {
                    self.flush()?;
                    return Ok(self.last.max(self.start) - self.start);
                }
                if !self.put(now)? {
                    self.did.id_waits += 1;
                    blocked = true;
                    break;
                }
                self.count_offered();
            }
            self.flush()?;
            if blocked {
                if now >= self.next_expiry {
                    self.expire(now);
                    self.next_expiry = now + SECOND / 1000;
                }
                self.prepare()?;
                self.sleep(now, now + SECOND / 1000)?;
            }
        }
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// When it began, monotonic.
    pub(super) fn start(&self) -> Nanos {
        self.start
    }

    /// The wall clock as it was read last.
    pub(super) fn wall(&self) -> Wall {
        self.wall
    }

    /// When anything was heard last, monotonic.
    pub(super) fn heard(&self) -> Nanos {
        self.heard
    }

    /// Silence counts from then on.
    pub(super) fn heard_at(&mut self, at: Nanos) {
        self.heard = at;
    }

    /// No marker is due until one is asked for.
    pub(super) fn hold_markers(&mut self) {
        if let Some(markers) = &mut self.markers {
            markers.next = Nanos::MAX;
        }
    }

    /// Sends a marker now; its number.
    pub(super) fn mark(&mut self) -> Result<u64, Error> {
        let now = clock::now();
        if let Some(markers) = &mut self.markers {
            markers.next = now;
        }
        self.send_markers(now)?;
        self.hold_markers();
        Ok(self.markers.as_ref().and_then(|markers| markers.made.last()).map_or(0, |marker| marker.number))
    }

    /// A turn without anything to send: what is heard, and what is given up. The time of its begin.
    pub(super) fn turn(&mut self) -> Result<Nanos, Error> {
        let now = self.begin()?;
        self.receive(RECEIVE_MAX)?;
        self.expire(now);
        Ok(now)
    }

    fn count_offered(&mut self) {
        self.flight.tally.offered += 1;
        self.flight.second.offered += 1;
    }

    /// Begins a turn: stalls, clocks, seconds, markers and retries. The time of its begin.
    fn begin(&mut self) -> Result<Nanos, Error> {
        let now = clock::now();
        let stood = now.saturating_sub(self.expected);
        self.flight.second.stall = self.flight.second.stall.max(stood);
        if stood > self.did.stall.1 {
            self.did.stall = (self.expected, stood);
        }
        self.expected = now;
        if now >= self.wall_at + SECOND / 4 {
            let wall = Wall::read();
            let step = self.wall.drift(wall);
            if step.abs() > self.did.clock_step.abs() {
                self.did.clock_step = step;
            }
            (self.wall, self.wall_at) = (wall, now);
            self.time = wall.to_wall(now) / SECOND;
        }
        while now >= self.next_second {
            self.expire(now);
            self.end_second();
        }
        if self.markers.as_ref().is_some_and(|m| m.next <= now) {
            self.send_markers(now)?;
        }
        if self.flight.next_repeat().is_some_and(|at| at <= now) {
            self.send_again(now)?;
        }
        Ok(now)
    }

    fn end_second(&mut self) {
        let mut second = std::mem::take(&mut self.flight.second);
        second.in_flight = self.flight.in_flight();
        // Nobody listens any more where this fails.
        let _ = self.seconds.send(second);
        self.next_second += SECOND;
    }

    fn expire(&mut self, now: Nanos) {
        let (flight, fates, markers) = (&mut self.flight, &mut self.fates, &mut self.markers);
        flight.expire(now, &mut |fate| note(fate, fates, markers, self.wall));
    }

    /// Makes the next message ready; false where there are no more.
    fn prepare(&mut self) -> Result<bool, Error> {
        if !self.ready && !self.ended {
            self.ready = self.stream.next(&mut self.message)?;
            self.ended = !self.ready;
        }
        Ok(self.ready)
    }

    /// Puts the message that is ready into the batch; false where its client has no free id: it stays ready.
    fn put(&mut self, intended: Nanos) -> Result<bool, Error> {
        let client = self.message.client;
        let Self { flight, fates, markers, wall, .. } = self;
        let keeps = flight.keeps();
        let Some(slot) = flight.claim(client, intended, &mut |fate| note(fate, fates, markers, *wall)) else {
            return Ok(false);
        };
        (slot.transactions, slot.records) = (self.message.transactions, self.message.records);
        let id = slot.id;
        header::set_id(&mut self.message.bytes, id);
        slot.mac = match &mut self.signer {
            Some(signer) => signer.sign(&mut self.message.bytes, self.time, None),
            None => Default::default(),
        };
        if keeps {
            slot.names.extend_from_slice(&self.message.names);
            if self.message.repeatable {
                slot.bytes.extend_from_slice(&self.message.bytes);
            }
        }
        self.ready = false;
        let bytes = std::mem::take(&mut self.message.bytes);
        let lent = self.lend(client, id, &bytes);
        self.message.bytes = bytes;
        lent.map(|()| true)
    }

    /// Copies a message into the batch, which is flushed where it is full.
    fn lend(&mut self, client: u32, id: u16, bytes: &[u8]) -> Result<(), Error> {
        if self.pending.len() == self.transport.batch().size() {
            self.flush()?;
        }
        let frame = self.transport.lend(client).expect("the batch is flushed when it is full");
        frame.bytes.extend_from_slice(bytes);
        self.pending.push((client, id, bytes.len() as u32));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let Self { transport, flight, pending, last, markers, wall, .. } = self;
        let flushed = transport.flush(&mut |i, at| {
            let (client, id, len) = pending[i];
            match at {
                Some(at) => {
                    *last = at;
                    flight.sent(client, id, at, len as usize);
                    if let (Some(markers), Some(slot)) = (&mut *markers, flight.slot(client, id))
                        && let Some(marker) = slot.marker
                    {
                        markers.sent(marker, wall.to_wall(at));
                    }
                }
                None => flight.refused(client, id),
            }
        });
        self.pending.clear();
        flushed.map_err(broken)
    }

    /// Sends the markers that are due, on a client of their own. One that is overdue by more than a period is left out.
    fn send_markers(&mut self, now: Nanos) -> Result<(), Error> {
        self.flush()?;
        let client = self.plan.clients;
        let Self { flight, fates, markers, wall, signer, time, .. } = self;
        let Some(mut due) = markers.take() else { return Ok(()) };
        let mut bytes = Vec::new();
        let (number, intended) = due.make(now, *wall, &mut bytes);
        let slot = flight.claim(client, intended, &mut |fate| note(fate, fates, &mut Some(&mut due), *wall));
        let id = slot.map(|slot| {
            slot.marker = Some(number);
            (slot.transactions, slot.records) = (1, 2);
            header::set_id(&mut bytes, slot.id);
            slot.mac = signer.as_mut().map_or_else(Default::default, |s| s.sign(&mut bytes, *time, None));
            slot.id
        });
        *markers = Some(due);
        let Some(id) = id else { return Ok(()) };
        self.lend(client, id, &bytes)?;
        self.flush()
    }

    /// Sends what is due to be sent again.
    fn send_again(&mut self, now: Nanos) -> Result<(), Error> {
        self.flush()?;
        let room = self.transport.batch().size();
        for _ in 0..room {
            let Some(again) = self.flight.again(now) else { break };
            let frame = self.transport.lend(again.client).expect("the batch was flushed");
            frame.bytes.extend_from_slice(again.bytes);
            self.pending.push((again.client, again.id, again.bytes.len() as u32));
        }
        self.flush()
    }

    fn receive(&mut self, most: usize) -> Result<(), Error> {
        let Self { transport, flight, fates, markers, signer, did, wall, time, heard, spec, .. } = self;
        let target = spec.target;
        let received = transport.receive(most, &mut |m| {
            let at = match m.stamp {
                Stamp::Wall(at) => wall.to_monotonic(at),
                Stamp::Monotonic(at) => at,
            };
            *heard = (*heard).max(at);
            flight.tally.bytes_received += m.len as u64;
            match judge(
                m,
                flight,
                signer,
                *time,
                m.from.ip() == target.ip() && m.from.port() == target.port(),
                did,
            ) {
                Judged::Answer(id, code) => {
                    flight.answered(m.flow, id, at, code, &mut |fate| note(fate, fates, markers, *wall));
                }
                Judged::Mismatched => flight.tally.mismatched += 1,
                Judged::Unexpected => flight.tally.unexpected += 1,
                Judged::Unsigned => flight.tally.bad_tsig += 1,
            }
        });
        received.map(drop).map_err(broken)
    }

    /// Receives until `until` comes near, and sleeps where that is far.
    fn rest(&mut self, until: Nanos) -> Result<(), Error> {
        let mut now = clock::now();
        let until = self.soonest(until);
        let time = until.saturating_sub(now);
        if time > LOOK_COST || now > self.looked + LOOK_EVERY {
            self.receive((time / RECEIVE_COST).clamp(8, RECEIVE_MAX as u64) as usize)?;
            now = clock::now();
            self.looked = now;
        }
        let wake = until.saturating_sub(self.spec.spin);
        if wake <= now {
            std::hint::spin_loop();
        } else if wake > now + BLIND || self.spec.transport == Way::Tcp {
            self.sleep(now, wake)?;
        } else {
            self.expected = wake;
            clock::sleep_until(wake);
        }
        Ok(())
    }

    /// The first of an instant, the next marker and the next retry.
    fn soonest(&self, until: Nanos) -> Nanos {
        let marker = self.markers.as_ref().map_or(Nanos::MAX, |m| m.next);
        until.min(marker).min(self.flight.next_repeat().unwrap_or(Nanos::MAX))
    }

    pub(super) fn sleep(&mut self, now: Nanos, until: Nanos) -> Result<(), Error> {
        let until = self.soonest(until).min(now + LONGEST_SLEEP).max(now);
        self.expected = until;
        self.transport.wait(until - now).map_err(broken)
    }

    /// Receives until every message is answered or given up.
    fn drain(&mut self) -> Result<(), Error> {
        let chance = if self.did.cut_short { clock::now() + LAST_CHANCE } else { Nanos::MAX };
        // Markers come between updates, and once after all of them.
        let next = self.markers.as_mut().map(|m| std::mem::replace(&mut m.next, Nanos::MAX));
        let mut quiet = None;
        loop {
            let now = self.begin()?;
            self.receive(RECEIVE_MAX)?;
            self.expire(now);
            if self.flight.in_flight() == 0 {
                let since = *quiet.get_or_insert(now);
                if now >= since + LINGER || self.flight.tally.sent == 0 {
                    break;
                }
            } else {
                quiet = None;
            }
            if self.stopped() && !self.did.cut_short {
                self.did.cut_short = true;
                break;
            }
            if now >= chance {
                break;
            }
            self.sleep(now, now + BLIND)?;
        }
        if let (Some(markers), Some(next)) = (&mut self.markers, next) {
            markers.next = next;
        }
        Ok(())
    }
}

/// The verdict on a message that arrived.
enum Judged {
    /// An answer to the message with this id, with this code.
    Answer(u16, u16),
    Mismatched,
    Unexpected,
    /// It would be an answer, but is not signed as it must be.
    Unsigned,
}

/// Says what a datagram is. What should be signed and is not is no answer (RFC 8945, section 5.3), unless it has an error code:
/// then whoever runs this must see it, and it is counted among the badly signed ones too.
fn judge(
    m: &Incoming<'_>,
    flight: &mut Flight,
    signer: &mut Option<Signer>,
    time: u64,
    from_target: bool,
    did: &mut Did,
) -> Judged {
    let Some(header) = Header::new(m.bytes) else { return Judged::Unexpected };
    let Some(slot) = flight.slot(m.flow, header.id()) else { return Judged::Unexpected };
    let zone = header.qdcount() == 0 || question::parse(m.bytes).is_some_and(|q| q.qtype == wire::rtype::SOA);
    if !from_target || !header.qr() || !crate::message::is_update(m.bytes) || !zone {
        return Judged::Mismatched;
    }
    let code = u16::from(header.rcode());
    let Some(signer) = signer else { return Judged::Answer(header.id(), code) };
    let mac = slot.mac;
    match signer.check(m.bytes, time, &mac) {
        Ok(()) => Judged::Answer(header.id(), code),
        Err(fault) => {
            let (name, code) = match fault {
                Fault::Refused(error) => (crate::tsig::code_name(error), error),
                Fault::Missing => ("missing".to_owned(), code),
                Fault::Key => ("other_key".to_owned(), 0),
                Fault::Signature => ("wrong_signature".to_owned(), 0),
                Fault::Time => ("wrong_time".to_owned(), 0),
                Fault::Damaged => ("damaged".to_owned(), 0),
            };
            *did.tsig_faults.entry(name).or_default() += 1;
            if code == 0 {
                return Judged::Unsigned;
            }
            flight.tally.bad_tsig += 1;
            Judged::Answer(header.id(), code)
        }
    }
}

/// Takes note of what became of a message.
fn note(
    fate: &Fate,
    fates: &mut Option<Fates>,
    markers: &mut Option<impl std::borrow::BorrowMut<Markers>>,
    wall: Wall,
) {
    match (fate.marker, markers) {
        (Some(number), Some(markers)) => {
            if let Some((at, code)) = fate.answered {
                markers.borrow_mut().answered(number, wall.to_wall(at), code);
            }
        }
        _ => {
            if let Some(fates) = fates {
                fates.write(fate);
            }
        }
    }
}

fn broken(error: io::Error) -> Error {
    Error::System { what: "the sockets cannot be used any more", error }
}
