//! Decides what became of every query. It has no clock and no socket: the caller says what happened and when.
//!
//! A query that was sent is *answered* (within the deadline, which counts from the send), or *lost*; an answer after
//! the deadline makes it *late* too, and late ones are among the lost. A datagram that arrives is an answer, *late*, a
//! *duplicate* (its query was answered before), *mismatched* (it has the id of a query of that flow but another
//! question or source, or is not an answer at all), or *unexpected*. A mismatched datagram leaves its query waiting:
//! the right answer may still come.

use crate::second::Second;
use crate::signs::{Gather, Stray};
use engine::in_flight::{Entry, State, Window};
use measure::{Histogram, Nanos, Seed, Timeline};
use wire::header::Header;
use wire::{Checksum, question};

/// Response codes by which a server may answer without repeating the question (it could not read it, or would not):
/// FORMERR, SERVFAIL, NOTIMP, REFUSED.
const WITHOUT_QUESTION: [u8; 4] = [1, 2, 4, 5];

/// Which traffic a query belongs to: each is counted by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// The traffic that is measured.
    #[default]
    Measured,
    /// Traffic that is offered beside it: an attack.
    Background,
    /// A truncated answer's query, asked again over TCP.
    Retry,
}

impl Class {
    /// How many there are.
    pub const COUNT: usize = 3;
}

/// Counts of one class of traffic. Tallies add.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Handed to the kernel.
    pub sent: u64,
    /// Those of them without a UDP checksum.
    pub no_checksum: u64,
    /// Those of them with a wrong one.
    pub bad_checksum: u64,
    /// Answered within the deadline.
    pub answered: u64,
    /// Not answered within the deadline, the late ones included.
    pub lost: u64,
    /// Answered after the deadline.
    pub late: u64,
    /// Waiting within their deadline when the run was cut short: neither answered nor lost.
    pub in_flight: u64,
    /// Further answers to queries that had one.
    pub duplicates: u64,
    /// Datagrams with a query's id, but another question or source, or no answers at all.
    pub mismatched: u64,
    /// Datagrams that belong to no query.
    pub unexpected: u64,
    /// Answers with TC.
    pub truncated: u64,
    /// Answers that are referrals.
    pub referrals: u64,
    /// Answers by RCODE.
    pub rcodes: [u64; 16],
    /// DNS payload sent, in octets.
    pub bytes_sent: u64,
    /// DNS payload received, in octets, of whatever arrived.
    pub bytes_received: u64,
    /// DNS payload of the referrals, in octets.
    pub bytes_of_referrals: u64,
    /// Not sent because their time had passed by more than the limit.
    pub unsent_overdue: u64,
    /// Not sent because no id was free.
    pub unsent_ids: u64,
    /// Not sent because the kernel refused.
    pub unsent_refused: u64,
    /// From the intended time to the answer; answered queries only.
    pub latency: Histogram,
    /// From the send to the answer; answered queries only.
    pub service_latency: Histogram,
    /// From the intended time to the send.
    pub pacing_error: Histogram,
    /// Octets of DNS of the answers in time.
    pub answer_size: Histogram,
    /// Observations in the answers; of the measured class alone.
    pub signs: Gather,
}

impl Tally {
    /// Adds another tally.
    pub fn merge(&mut self, other: &Self) {
        for (a, b) in [
            (&mut self.sent, other.sent),
            (&mut self.no_checksum, other.no_checksum),
            (&mut self.bad_checksum, other.bad_checksum),
            (&mut self.answered, other.answered),
            (&mut self.lost, other.lost),
            (&mut self.late, other.late),
            (&mut self.in_flight, other.in_flight),
            (&mut self.duplicates, other.duplicates),
            (&mut self.mismatched, other.mismatched),
            (&mut self.unexpected, other.unexpected),
            (&mut self.truncated, other.truncated),
            (&mut self.referrals, other.referrals),
            (&mut self.bytes_sent, other.bytes_sent),
            (&mut self.bytes_received, other.bytes_received),
            (&mut self.bytes_of_referrals, other.bytes_of_referrals),
            (&mut self.unsent_overdue, other.unsent_overdue),
            (&mut self.unsent_ids, other.unsent_ids),
            (&mut self.unsent_refused, other.unsent_refused),
        ] {
            *a += b;
        }
        self.rcodes.iter_mut().zip(other.rcodes).for_each(|(a, b)| *a += b);
        self.latency.merge(&other.latency);
        self.service_latency.merge(&other.service_latency);
        self.pacing_error.merge(&other.pacing_error);
        self.answer_size.merge(&other.answer_size);
        self.signs.merge(&other.signs);
    }

    /// Not sent, whatever the reason.
    pub fn unsent(&self) -> u64 {
        self.unsent_overdue + self.unsent_ids + self.unsent_refused
    }
}

/// The verdict on a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// The answer, in time.
    Answered,
    /// The answer, after the deadline.
    Late,
    /// One more answer.
    Duplicate,
    /// The id of a query, but not its answer.
    Mismatched,
    /// Belongs to no query.
    Unexpected,
}

/// A datagram as the recorder wants to know it.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The flow at which it arrived.
    pub flow: u32,
    /// Whether it came from that flow's target, address and port.
    pub from_target: bool,
    /// Its payload, or the beginning of it.
    pub bytes: &'a [u8],
    /// The payload's true length in octets.
    pub len: usize,
    /// When the kernel received it, monotonic.
    pub at: Nanos,
}

/// Why a query was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// Its time had passed by more than the limit.
    Overdue,
    /// No id was free.
    Ids,
    /// The kernel refused.
    Refused,
}

/// One query.
#[derive(Clone, Copy, Debug, Default)]
struct Query {
    /// When it was sent; until then, when it was intended.
    sent: Nanos,
    /// How long after its intended time it was sent, in nanoseconds.
    behind: u32,
    /// The lower half of the question's hash.
    hash: u32,
    id: u16,
    state: State,
    /// Part of the warm-up: not counted.
    quiet: bool,
    class: Class,
}

impl Entry for Query {
    #[inline]
    fn id(&self) -> u16 {
        self.id
    }

    #[inline]
    fn state(&self) -> State {
        self.state
    }

    #[inline]
    fn sent(&self) -> Nanos {
        self.sent
    }

    #[inline]
    fn begin(&mut self, id: u16) {
        (self.id, self.state) = (id, State::Flight);
    }

    #[inline]
    fn lose(&mut self) {
        self.state = State::Lost;
    }
}

/// Records what one worker sends and receives.
pub struct Recorder {
    windows: Vec<Window<Query>>,
    /// By flow: when the latest query was sent that was answered.
    newest: Vec<Nanos>,
    deadline: Nanos,
    paced: bool,
    in_flight: u64,
    measuring: bool,
    /// By [`Class`].
    tallies: Box<[Tally; Class::COUNT]>,
    /// Of the measured traffic alone.
    second: Second,
    /// Of the measured traffic alone, from `base` on.
    timeline: Timeline,
    /// When the measured part begins.
    base: Nanos,
}

impl Recorder {
    /// A recorder for `flows` flows with windows of `slots` ids each, a power of two up to 65,536. Where the load is
    /// not `paced`, the intended time of a query is the time of its sending.
    pub fn new(flows: u32, slots: usize, deadline: Nanos, paced: bool, seed: Seed) -> Self {
        let mut draw = seed.draw("load/ids", 0);
        let windows = (0..flows)
            .map(|_| Window::new(slots, draw.bits() as u16, Query { sent: 1, ..Query::default() }))
            .collect();
        Self {
            windows,
            newest: vec![0; flows as usize],
            deadline,
            paced,
            in_flight: 0,
            measuring: false,
            tallies: Box::default(),
            second: Second::default(),
            timeline: Timeline::default(),
            base: Nanos::MAX,
        }
    }

    /// The measured part begins at `base`.
    pub fn begins_at(&mut self, base: Nanos) {
        self.base = base;
    }

    /// Memory of the windows, in bytes: all that grows with rate and deadline; nothing grows with time.
    pub fn table_bytes(&self) -> usize {
        self.windows.iter().map(Window::bytes).sum()
    }

    /// From now on stray datagrams count too: the warm-up is over.
    pub fn start_measuring(&mut self) {
        self.measuring = true;
    }

    /// Queries waiting for an answer, those of the warm-up included.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Takes an id on a flow for a query whose message hashes to `hash`; `None` where all are in use. After it comes
    /// [`Self::sent`] or [`Self::refused`]. A `quiet` query is part of the warm-up and not counted.
    pub fn claim(&mut self, flow: u32, intended: Nanos, hash: u64, quiet: bool, class: Class) -> Option<u16> {
        if self.windows[flow as usize].is_full() {
            // The ids of answered and lost queries are collected only when they are needed.
            self.give_up(flow as usize, intended.checked_sub(self.deadline + 1));
        }
        let query = self.windows[flow as usize].take()?;
        *query = Query { sent: intended, behind: 0, hash: hash as u32, quiet, class, ..*query };
        Some(query.id)
    }

    /// The query was handed to the kernel at `at`, `len` octets long, with this UDP checksum.
    pub fn sent(&mut self, flow: u32, id: u16, at: Nanos, len: usize, checksum: Checksum) {
        let Some(entry) = self.windows[flow as usize].get(id) else { return };
        let behind = if self.paced { at.saturating_sub(entry.sent) } else { 0 };
        (entry.sent, entry.behind) = (at, u32::try_from(behind).unwrap_or(u32::MAX));
        self.in_flight += 1;
        if entry.quiet {
            return;
        }
        let tally = &mut self.tallies[entry.class as usize];
        tally.sent += 1;
        tally.no_checksum += u64::from(checksum == Checksum::Absent);
        tally.bad_checksum += u64::from(checksum == Checksum::Bad);
        tally.bytes_sent += len as u64;
        if self.paced {
            tally.pacing_error.record(behind);
        }
        if entry.class == Class::Measured {
            self.timeline.sent(at.saturating_sub(self.base));
            tally.signs.sent(at);
            self.second.sent += 1;
            if self.paced {
                self.second.pacing.record(behind);
            }
        }
    }

    /// The kernel refused the query.
    pub fn refused(&mut self, flow: u32, id: u16) {
        let Some(entry) = self.windows[flow as usize].get(id) else { return };
        entry.state = State::Refused;
        if !entry.quiet {
            let class = entry.class;
            self.unsent(Unsent::Refused, 1, class);
        }
    }

    /// Queries that were due but not sent.
    pub fn unsent(&mut self, why: Unsent, count: u64, class: Class) {
        let tally = &mut self.tallies[class as usize];
        let counter = match why {
            Unsent::Overdue => &mut tally.unsent_overdue,
            Unsent::Ids => &mut tally.unsent_ids,
            Unsent::Refused => &mut tally.unsent_refused,
        };
        *counter += count;
        self.second.unsent += if class == Class::Measured { count } else { 0 };
    }

    /// A datagram arrived.
    pub fn received(&mut self, r: Received<'_>) -> AnswerKind {
        let entry = match r.bytes.first_chunk() {
            Some(id) => self.windows[r.flow as usize].get(u16::from_be_bytes(*id)),
            None => None,
        };
        let Some(entry) = entry else {
            if self.measuring {
                let tally = &mut self.tallies[0];
                tally.unexpected += 1;
                tally.bytes_received += r.len as u64;
                self.second.wrong += 1;
            }
            return AnswerKind::Unexpected;
        };
        let loud = u64::from(!entry.quiet);
        let measured = !entry.quiet && entry.class == Class::Measured;
        let tally = &mut self.tallies[entry.class as usize];
        tally.bytes_received += loud * r.len as u64;
        let Some(header) = Header::new(r.bytes).filter(|h| r.from_target && answers(*h, r.bytes, entry.hash))
        else {
            if entry.class == Class::Measured {
                tally.signs.stray(stray(&r), r.at, entry.sent, entry.quiet);
            }
            tally.mismatched += loud;
            self.second.wrong += u64::from(measured);
            return AnswerKind::Mismatched;
        };
        let service = r.at.saturating_sub(entry.sent);
        if entry.class == Class::Measured && matches!(entry.state, State::Flight | State::Lost) {
            // That an answer is late says already that it came after others.
            let quiet = entry.quiet || entry.state == State::Lost || service > self.deadline;
            tally.signs.answered(r.at, entry.sent, &mut self.newest[r.flow as usize], quiet);
        }
        match entry.state {
            State::Flight if service <= self.deadline => {
                entry.state = State::Answered;
                self.in_flight -= 1;
                if !entry.quiet {
                    let latency = service + Nanos::from(entry.behind);
                    tally.answered += 1;
                    tally.truncated += u64::from(header.tc());
                    let referral = u64::from(header.is_referral());
                    tally.referrals += referral;
                    tally.bytes_of_referrals += referral * r.len as u64;
                    tally.rcodes[usize::from(header.rcode())] += 1;
                    tally.latency.record(latency);
                    tally.service_latency.record(service);
                    tally.answer_size.record(r.len as u64);
                    if measured {
                        self.timeline.answered(r.at.saturating_sub(self.base), latency);
                        self.second.answered += 1;
                        self.second.truncated += u64::from(header.tc());
                        self.second.failed += u64::from(cannot(header.rcode()));
                        self.second.latency.record(latency);
                    }
                }
                AnswerKind::Answered
            }
            State::Flight | State::Lost => {
                if entry.state == State::Flight {
                    self.in_flight -= 1;
                    lose(entry, &mut self.tallies, &mut self.second, &mut self.timeline, self.base);
                }
                entry.state = State::Late;
                self.tallies[entry.class as usize].late += loud;
                AnswerKind::Late
            }
            State::Answered | State::Late => {
                tally.duplicates += loud;
                self.second.wrong += u64::from(measured);
                AnswerKind::Duplicate
            }
            State::Free | State::Refused => {
                tally.unexpected += loud;
                self.second.wrong += u64::from(measured);
                AnswerKind::Unexpected
            }
        }
    }

    /// Gives up the oldest queries that were sent more than the deadline before `now`. On each flow it stops at the
    /// first query that may still be answered.
    pub fn expire(&mut self, now: Nanos) {
        let Some(expired) = now.checked_sub(self.deadline + 1) else { return };
        (0..self.windows.len()).for_each(|flow| self.give_up(flow, Some(expired)));
    }

    /// Frees the oldest ids of a flow, and gives up the queries that were sent at `expired` or before.
    fn give_up(&mut self, flow: usize, expired: Option<Nanos>) {
        let Self { windows, tallies, second, timeline, in_flight, base, .. } = self;
        windows[flow].advance(expired, &mut |entry| {
            *in_flight -= 1;
            lose(entry, tallies, second, timeline, *base);
        });
    }

    /// Takes what happened since the last call.
    pub(crate) fn take_second(&mut self) -> Second {
        std::mem::take(&mut self.second)
    }

    /// The longest time from the intended send to an answer of the measured traffic, in nanoseconds.
    pub(crate) fn latency_max(&self) -> Nanos {
        self.tallies[Class::Measured as usize].latency.max()
    }

    /// Ends at `now`: what waits within its deadline is in flight, the rest lost. The tallies are by [`Class`]; the timeline is of
    /// the measured traffic.
    pub fn finish(mut self, now: Nanos) -> ([Tally; Class::COUNT], Timeline) {
        let Self { windows, tallies, second, timeline, base, deadline, .. } = &mut self;
        for entry in windows.iter().flat_map(Window::in_flight) {
            if now.saturating_sub(entry.sent) > *deadline {
                lose(entry, tallies, second, timeline, *base);
            } else if !entry.quiet {
                tallies[entry.class as usize].in_flight += 1;
            }
        }
        self.tallies.iter_mut().for_each(|tally| tally.signs.end());
        (*self.tallies, self.timeline)
    }
}

/// Counts a query that is given up.
fn lose(
    entry: &Query,
    tallies: &mut [Tally; Class::COUNT],
    second: &mut Second,
    timeline: &mut Timeline,
    base: Nanos,
) {
    if entry.quiet {
        return;
    }
    tallies[entry.class as usize].lost += 1;
    if entry.class == Class::Measured {
        second.lost += 1;
        timeline.lost(entry.sent.saturating_sub(base));
    }
}

/// Whether a code says that the server has nothing to answer from: SERVFAIL (RFC 1035), REFUSED.
fn cannot(rcode: u8) -> bool {
    matches!(rcode, 2 | 5)
}

/// How a datagram that is not its query's answer differs from it.
fn stray(r: &Received<'_>) -> Stray {
    match Header::new(r.bytes) {
        Some(header) if header.qr() && !r.from_target => Stray::Address,
        Some(header) if header.qr() && question::hash(r.bytes).is_some() => Stray::Question,
        _ => Stray::Other,
    }
}

/// Whether a message is an answer to the question with this hash.
fn answers(header: Header<'_>, msg: &[u8], hash: u32) -> bool {
    header.qr()
        && match question::hash(msg) {
            Some(h) => h as u32 == hash,
            None => header.qdcount() == 0 && WITHOUT_QUESTION.contains(&header.rcode()),
        }
}

#[cfg(test)]
mod tests;
