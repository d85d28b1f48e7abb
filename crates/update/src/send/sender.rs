//! The thread that sends: a schedule or a window, retries and markers between, answers matched and checked.

use super::fates::Fates;
use super::flight::{Fate, Flight};
use super::gate::{Gate, SentBatch};
use super::markers::Markers;
use super::spec::{LONGEST, Plan, SendSpec, SendTransport};
use super::stream::{Prepared, Stream};
use super::tally::Second;
use crate::Error;
use crate::tsig::{Fault, Signer};
use engine::{Clocks, Engine, Exchange, NotSent, SPIN, Settings, Stall};
use measure::clock::{self, SECOND, Wall};
use measure::schedule::{Due, Schedule, Span};
use measure::{Nanos, Pace};
use net::scheduling::Scheduling;
use net::transport::{Incoming, Stamp, Transport};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender as Channel;
use wire::header::{self, Header};
use wire::question;

/// The sender's own part of the result, beside the counts.
#[derive(Debug, Default)]
pub(super) struct SenderReport {
    /// How long messages were offered.
    pub length: Nanos,
    pub scheduling: Scheduling,
    /// The longest time for which the loop stood still.
    pub stall: Stall,
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
    pub did: SenderReport,
    /// The next message, made ready while there is time.
    message: Prepared,
    ready: bool,
    ended: bool,
    /// The messages of the batch.
    pending: Vec<(u32, u16, u32)>,
    wall: Wall,
    /// Seconds since 1970, for signatures.
    time: u64,
    heard: Nanos,
    last: Nanos,
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
            did: SenderReport::default(),
            message: Prepared::default(),
            ready: false,
            ended: false,
            pending,
            wall: Wall::read(),
            time: clock::wall() / SECOND,
            heard: 0,
            last: 0,
        }
    }

    /// Sends everything from the instant `start` on, and waits for the answers.
    pub fn run(&mut self, start: Nanos) -> Result<(), Error> {
        let duration = self.spec.duration.unwrap_or(LONGEST);
        let settings = Settings {
            start,
            base: start,
            end: start + duration,
            burst: self.plan.burst,
            spin: SPIN,
            longest_spin: SPIN,
        };
        let engine = &mut Engine::new(settings, vec![self.stop]);
        self.heard = start;
        self.prepare()?;
        engine.wait_for_start();
        if let Some(markers) = &mut self.markers {
            markers.begin(start);
        }
        let before = Scheduling::read();
        let (gate, most) = (self.gate.take(), self.spec.count.unwrap_or(u64::MAX));
        self.did.length = match &self.spec.pace {
            Pace::Open(arrivals) => {
                let span = Span { warmup: 0, until: duration, most };
                let schedule = Schedule::arrivals(arrivals, 1, start, span, (0, 1), self.plan.burst);
                engine.open(self, schedule)?
            }
            Pace::Closed { window } => match &gate {
                Some(gate) => self.batches(engine, u64::from(*window), gate)?,
                None => engine.unpaced(self, u64::from(*window), most)?,
            },
            Pace::Flood | Pace::Recorded { .. } => engine.unpaced(self, u64::MAX, most)?,
        };
        self.did.scheduling = Scheduling::read().since(before).without(engine.waking);
        self.drain(engine)?;
        if !engine.cut_short && self.markers.is_some() && gate.is_none() {
            // By this one it can be seen that all before it has arrived.
            self.mark_at(clock::now())?;
            if let Some(markers) = &mut self.markers {
                markers.close();
            }
            self.drain(engine)?;
        }
        let now = clock::now();
        let (flight, fates, markers) = (&mut self.flight, &mut self.fates, &mut self.markers);
        flight.finish(now, &mut |fate| note(fate, fates, markers, self.wall));
        if engine.seconds_ended() == 0 {
            // The only one, and not complete: rates of a later one would be wrong.
            engine.end_second(self, now);
        }
        let did = &mut self.did;
        (did.stall, did.clock_step, did.id_waits) = (engine.stall, engine.clock_step, engine.id_waits);
        (did.cut_short, did.gave_up) = (engine.cut_short, engine.gave_up);
        Ok(())
    }

    /// Waits for the last answers. Markers come between updates, and once after all of them.
    fn drain(&mut self, engine: &mut Engine<'_>) -> Result<(), Error> {
        let next = self.markers.as_mut().map(|m| std::mem::replace(&mut m.next, Nanos::MAX));
        engine.drain(self)?;
        engine.cut_short |= engine.stopped() && self.flight.in_flight() > 0;
        if let (Some(markers), Some(next)) = (&mut self.markers, next) {
            markers.next = next;
        }
        Ok(())
    }

    /// When the last valid answer came, monotonic.
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
        self.mark_at(clock::now())?;
        self.hold_markers();
        Ok(self.markers.as_ref().and_then(|markers| markers.made.last()).map_or(0, |marker| marker.number))
    }

    fn mark_at(&mut self, now: Nanos) -> Result<(), Error> {
        if let Some(markers) = &mut self.markers {
            markers.next = now;
        }
        self.send_markers(now)
    }

    fn count_offered(&mut self) {
        self.flight.tally.offered += 1;
        self.flight.second.offered += 1;
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
}

impl Exchange for Sender<'_> {
    type Error = Error;
    /// More than a query's answer takes: its signature is checked.
    const RECEIVE_COST: Nanos = 4_000;

    fn prepare(&mut self) -> Result<bool, Error> {
        if !self.ready && !self.ended {
            self.ready = self.stream.next(&mut self.message)?;
            self.ended = !self.ready;
        }
        Ok(self.ready)
    }

    fn put(&mut self, due: Due) -> Result<bool, Error> {
        let client = self.message.client;
        let Self { flight, fates, markers, wall, .. } = self;
        let keeps = flight.keeps();
        let Some(slot) = flight.claim(client, due.intended, &mut |fate| note(fate, fates, markers, *wall))
        else {
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
        self.count_offered();
        lent.map(|()| true)
    }

    fn not_sent(&mut self, _due: Due, why: NotSent) {
        // The stream stays where it is: what was not sent must not be missing from it.
        self.count_offered();
        let tally = &mut self.flight.tally;
        match why {
            NotSent::Overdue { .. } => tally.unsent_overdue += 1,
            NotSent::NoId => tally.unsent_ids += 1,
        }
        self.flight.second.unsent += 1;
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

    fn receive(&mut self, most: usize, _clocks: Clocks) -> Result<(), Error> {
        let Self { transport, flight, fates, markers, signer, did, wall, time, heard, spec, .. } = self;
        let target = spec.target;
        let received = transport.receive(most, &mut |m| {
            let at = match m.stamp {
                Stamp::Wall(at) => wall.to_monotonic(at),
                Stamp::Monotonic(at) => at,
            };
            flight.tally.bytes_received += m.len as u64;
            match identify(
                m,
                flight,
                signer,
                *time,
                m.from.ip() == target.ip() && m.from.port() == target.port(),
                did,
            ) {
                Identified::Answer(id, code) => {
                    *heard = (*heard).max(at);
                    flight.answered(m.flow, id, at, code, &mut |fate| note(fate, fates, markers, *wall));
                }
                Identified::Mismatched => flight.tally.mismatched += 1,
                Identified::Unexpected => flight.tally.unexpected += 1,
                Identified::Unsigned => flight.tally.bad_tsig += 1,
            }
        });
        received.map(drop).map_err(broken)
    }

    fn wait(&mut self, time: Nanos) -> Result<(), Error> {
        self.transport.wait(time).map_err(broken)
    }

    fn in_flight(&self) -> u64 {
        self.flight.in_flight()
    }

    fn expire(&mut self, now: Nanos) {
        let (flight, fates, markers) = (&mut self.flight, &mut self.fates, &mut self.markers);
        flight.expire(now, &mut |fate| note(fate, fates, markers, self.wall));
    }

    fn offered(&self) -> u64 {
        self.flight.tally.offered
    }

    fn last_sent(&self) -> Nanos {
        self.last
    }

    fn begin_turn(&mut self, clocks: Clocks) -> Result<(), Error> {
        let Clocks { now, wall } = clocks;
        (self.wall, self.time) = (wall, wall.to_wall(now) / SECOND);
        if self.markers.as_ref().is_some_and(|m| m.next <= now) {
            self.send_markers(now)?;
        }
        if self.flight.next_repeat().is_some_and(|at| at <= now) {
            self.send_again(now)?;
        }
        Ok(())
    }

    fn next_turn(&self) -> Nanos {
        let marker = self.markers.as_ref().map_or(Nanos::MAX, |m| m.next);
        marker.min(self.flight.next_repeat().unwrap_or(Nanos::MAX))
    }

    fn must_listen(&self) -> bool {
        self.spec.transport == SendTransport::Tcp
    }

    fn gives_up(&self, now: Nanos) -> bool {
        self.flight.in_flight() > 0 && now.saturating_sub(self.heard) > self.spec.patience
    }

    fn end_second(&mut self, _number: u64, stall: Nanos, now: Nanos) {
        self.expire(now);
        let mut second = std::mem::take(&mut self.flight.second);
        (second.in_flight, second.stall) = (self.flight.in_flight(), stall);
        // Nobody reads them any more where this fails.
        let _ = self.seconds.send(second);
    }
}

/// The verdict on a message that arrived.
enum Identified {
    /// An answer to the message with this id, with this code.
    Answer(u16, u16),
    Mismatched,
    Unexpected,
    /// It would be an answer, but is not signed as it must be.
    Unsigned,
}

/// Says what a datagram is. What should be signed and is not is no answer (RFC 8945, section 5.3), unless it has an error code:
/// then whoever runs this must see it, and it is counted among the badly signed ones too.
fn identify(
    m: &Incoming<'_>,
    flight: &mut Flight,
    signer: &mut Option<Signer>,
    time: u64,
    from_target: bool,
    did: &mut SenderReport,
) -> Identified {
    let Some(header) = Header::new(m.bytes) else { return Identified::Unexpected };
    let Some(slot) = flight.slot(m.flow, header.id()) else { return Identified::Unexpected };
    let zone = header.qdcount() == 0 || question::parse(m.bytes).is_some_and(|q| q.qtype == wire::rtype::SOA);
    if !from_target || !header.qr() || !crate::message::is_update(m.bytes) || !zone {
        return Identified::Mismatched;
    }
    let code = u16::from(header.rcode());
    let Some(signer) = signer else { return Identified::Answer(header.id(), code) };
    let mac = slot.mac;
    match signer.check(m.bytes, time, &mac) {
        Ok(()) => Identified::Answer(header.id(), code),
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
                return Identified::Unsigned;
            }
            flight.tally.bad_tsig += 1;
            Identified::Answer(header.id(), code)
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
