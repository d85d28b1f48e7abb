//! The loop of a sending thread. It sends what is due, receives what there is time for before the next deadline, and rests.
//!
//! Queries (the crate `load`) and updates (the crate `update`) go through the same [`Engine`]; what is sent, and what an answer
//! means, is an [`Exchange`]. When nothing is due for longer than [`Settings::spin`], the thread sleeps until that long before the next
//! deadline; in the last stretch it polls, as a sleeping thread wakes tens of microseconds late. Where the machine wakes it later than
//! that, it polls for longer. Answers may wait meanwhile: the kernel has stamped them.

pub mod in_flight;

use measure::Nanos;
use measure::clock::{self, SECOND, Wall};
use measure::limits::WAKING_LIMIT;
use measure::schedule::{Due, Schedule, Step};
use net::scheduling::WaitMeter;
use std::sync::atomic::{AtomicBool, Ordering};

/// No run sends for longer than this, whatever it was asked.
pub const LONGEST: Nanos = 24 * 3600 * SECOND;

/// How long before a deadline a thread polls by default: longer than a virtual machine's cores usually take to wake, and than the gaps
/// at RZAIA's 5,000 queries/s, so that such a trial never sleeps while it sends.
pub const SPIN: Nanos = 250_000;

/// The longest time for which a thread polls before a deadline by default. The core of a virtual machine whose host is busy may take
/// milliseconds to wake.
pub const LONGEST_SPIN: Nanos = 50_000_000;

/// One late awakening of so many is accepted: half of what [`measure::limits::PACING_LIMIT`] allows.
const SLEEPS_PER_LATE: u64 = 200;

/// Datagrams looked at in one turn, so that a flood of answers cannot keep us from sending.
const RECEIVE_MAX: usize = 256;

/// The time that looking for a datagram takes at most. A deadline that is nearer is waited for first.
const LOOK_COST: Nanos = 10_000;

/// Where deadlines are never further apart, answers are looked for as often as this all the same.
const LOOK_EVERY: Nanos = 50_000;

/// For how long the thread sleeps without looking for answers: what arrives meanwhile fits into the receive buffers, and to be woken
/// by each answer would cost more than the answer itself.
pub const BLIND: Nanos = 1_000_000;

/// No sleep is longer, so that Ctrl-C and the seconds are noticed.
pub const LONGEST_SLEEP: Nanos = 20_000_000;

/// How long the thread listens for duplicates after the last answer.
pub const LINGER: Nanos = 50_000_000;

/// How long it listens for answers when it is stopped.
const LAST_CHANCE: Nanos = 200_000_000;

/// How often messages without an answer are given up where nothing else is done.
const EXPIRE_EVERY: Nanos = 1_000_000;

/// How often the wall clock is read again. Receive stamps and signatures are in its time.
const WALL_EVERY: Nanos = SECOND / 4;

/// The clocks at the begin of a turn.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// The monotonic clock.
    pub now: Nanos,
    /// The wall clock beside it.
    pub wall: Wall,
}

/// Why a message was offered and not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// Its time had passed by more than [`measure::schedule::LATE_LIMIT`]. A message that was `recorded` goes with its time; of others the
    /// stream stays where it is.
    Overdue {
        /// The message brought its time with it.
        recorded: bool,
    },
    /// No id was free.
    NoId,
}

/// The messages that a thread sends, and their answers.
pub trait Exchange {
    /// An error after which the thread cannot go on.
    type Error;

    /// The time that receiving a datagram takes at most, in nanoseconds.
    const RECEIVE_COST: Nanos;

    /// Makes the next message ready, where none is; false where there are no more.
    ///
    /// # Errors
    /// Those of the source.
    fn prepare(&mut self) -> Result<bool, Self::Error>;

    /// When the ready message was recorded, in nanoseconds after the first.
    fn recorded_at(&self) -> Nanos {
        0
    }

    /// Puts the ready message into the batch and counts it as offered; false, and nothing counted, where no id is free.
    ///
    /// # Errors
    /// Those of the transport.
    fn put(&mut self, due: Due) -> Result<bool, Self::Error>;

    /// Counts a message that was due as offered and not sent.
    fn not_sent(&mut self, due: Due, why: NotSent);

    /// Sends the batch.
    ///
    /// # Errors
    /// Those of the transport.
    fn flush(&mut self) -> Result<(), Self::Error>;

    /// Receives what is there, at most about `most` datagrams.
    ///
    /// # Errors
    /// Those of the transport.
    fn receive(&mut self, most: usize, clocks: Clocks) -> Result<(), Self::Error>;

    /// Waits for a datagram, for at most `time`.
    ///
    /// # Errors
    /// Those of the transport.
    fn wait(&mut self, time: Nanos) -> Result<(), Self::Error>;

    /// Messages that wait for an answer.
    fn in_flight(&self) -> u64;

    /// Messages that take a place in the window.
    fn in_window(&self) -> u64 {
        self.in_flight()
    }

    /// Gives up messages that were sent more than the deadline before `now`.
    fn expire(&mut self, now: Nanos);

    /// Messages offered so far, the warm-up's left out.
    fn offered(&self) -> u64;

    /// When the last message was sent, monotonic; 0 where none was.
    fn last_sent(&self) -> Nanos;

    /// Does what is due by itself: markers, messages that are sent again.
    ///
    /// # Errors
    /// Those of the transport.
    fn begin_turn(&mut self, _clocks: Clocks) -> Result<(), Self::Error> {
        Ok(())
    }

    /// When [`Self::begin_turn`] has something to do, monotonic.
    fn next_turn(&self) -> Nanos {
        Nanos::MAX
    }

    /// The longest sleep.
    fn longest_sleep(&self) -> Nanos {
        LONGEST_SLEEP
    }

    /// Even a short sleep must be ended by what arrives: connections want to be looked after.
    fn must_listen(&self) -> bool;

    /// There was no answer for too long: without a pace it is no use to go on.
    fn gives_up(&self, _now: Nanos) -> bool {
        false
    }

    /// When the wait for the last answers ends at the latest, monotonic.
    fn answers_until(&self) -> Nanos {
        Nanos::MAX
    }

    /// Takes the figures of the second `number`, from 0, which ends at about `now`; `stall` is the longest time in it for which the
    /// thread stood still.
    fn end_second(&mut self, number: u64, stall: Nanos, now: Nanos);
}

/// The longest time for which a thread stood still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// When it began, monotonic.
    pub at: Nanos,
    /// How long it was.
    pub length: Nanos,
}

/// How a thread sends. Instants are monotonic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// When the first message is due.
    pub start: Nanos,
    /// When the warm-up is over, and seconds begin to count.
    pub base: Nanos,
    /// When a load without a pace ends.
    pub end: Nanos,
    /// The most messages sent at once.
    pub burst: u32,
    /// For how long the thread polls before a deadline instead of sleeping. It begins with this, and needs more where the machine wakes it
    /// late.
    pub spin: Nanos,
    /// It never polls for longer than this.
    pub longest_spin: Nanos,
}

/// The state of the loop.
#[derive(Debug)]
pub struct Engine<'a> {
    settings: Settings,
    stops: Vec<&'a AtomicBool>,
    /// Sleeps before a deadline since [`Settings::spin`] changed, and those of them that ended after the deadline.
    sleeps: u64,
    late_sleeps: u64,
    meter: WaitMeter,
    /// The reading of `meter` after the last late sleep.
    waited: Nanos,
    wall: Wall,
    wall_at: Nanos,
    /// When the next turn is expected at the earliest.
    expected: Nanos,
    /// When answers were last looked for.
    looked: Nanos,
    next_expiry: Nanos,
    next_second: u64,
    /// Seconds from this one on are not ended by the loop.
    seconds: u64,
    second_stall: Nanos,
    /// The longest stall.
    pub stall: Stall,
    /// The greatest step of the wall clock between two readings, in nanoseconds.
    pub clock_step: i64,
    /// For how long a load without a pace was waking, in nanoseconds: from the instant at which an answer made the thread ready to
    /// run until it ran, where that took [`WAKING_LIMIT`] at most. The kernel receives packets meanwhile, on the same core.
    pub waking: Nanos,
    /// How often a load without a pace had to wait for an id.
    pub id_waits: u64,
    /// It was stopped before its end.
    pub cut_short: bool,
    /// It ended as [`Exchange::gives_up`] said so.
    pub gave_up: bool,
}

impl<'a> Engine<'a> {
    /// A loop that has not begun, of the calling thread. Any of `stops` ends it early.
    pub fn new(settings: Settings, stops: Vec<&'a AtomicBool>) -> Self {
        let start = settings.start;
        Self {
            settings,
            stops,
            sleeps: 0,
            late_sleeps: 0,
            meter: WaitMeter::of_this_thread(),
            waited: 0,
            wall: Wall::read(),
            wall_at: start,
            expected: start,
            looked: start,
            next_expiry: 0,
            next_second: 0,
            seconds: u64::MAX,
            second_stall: 0,
            stall: Stall::default(),
            clock_step: 0,
            waking: 0,
            id_waits: 0,
            cut_short: false,
            gave_up: false,
        }
    }

    /// Sleeps until shortly before the start.
    pub fn wait_for_start(&mut self) {
        let before = self.settings.start.saturating_sub(self.settings.spin);
        while clock::now() < before && !self.stopped() {
            clock::sleep_until(before.min(clock::now() + LONGEST_SLEEP));
        }
        self.wall = Wall::read();
    }

    /// For how long the thread polls before a deadline now, in nanoseconds.
    pub fn spin(&self) -> Nanos {
        self.settings.spin
    }

    /// Whether it is to end early.
    pub fn stopped(&self) -> bool {
        self.stops.iter().any(|stop| stop.load(Ordering::Relaxed))
    }

    /// When the first message is due, monotonic.
    pub fn start(&self) -> Nanos {
        self.settings.start
    }

    /// The wall clock as it was read last.
    pub fn wall(&self) -> Wall {
        self.wall
    }

    /// Seconds that have ended.
    pub fn seconds_ended(&self) -> u64 {
        self.next_second
    }

    /// The measured part was `length` long: the wait for the last answers ends no further seconds.
    pub fn end_seconds_after(&mut self, length: Nanos) {
        self.seconds = length.div_ceil(SECOND);
    }

    fn clocks(&self) -> Clocks {
        Clocks { now: self.expected, wall: self.wall }
    }

    /// Sends messages when the schedule says so, until it ends; how long the schedule was.
    ///
    /// # Errors
    /// Those of the exchange.
    pub fn open<X: Exchange>(&mut self, x: &mut X, mut schedule: Schedule) -> Result<Nanos, X::Error> {
        loop {
            let now = self.begin(x)?;
            if self.stopped() {
                self.cut_short = true;
                return Ok(schedule.length());
            }
            let mut put = 0;
            let wait = loop {
                match schedule.step(now) {
                    Step::Tell => match x.prepare()? {
                        true => schedule.recorded(x.recorded_at()),
                        false => schedule.end(),
                    },
                    Step::Skip => {
                        let why = NotSent::Overdue { recorded: schedule.is_recorded() };
                        let due = schedule.take(false);
                        x.not_sent(due, why);
                    }
                    Step::Send => {
                        if !x.prepare()? {
                            schedule.end();
                            continue;
                        }
                        let due = schedule.take(true);
                        if !x.put(due)? {
                            x.not_sent(due, NotSent::NoId);
                        }
                        put += 1;
                        if put >= self.settings.burst {
                            break now;
                        }
                    }
                    Step::Wait(until) => break until,
                    Step::End => {
                        x.flush()?;
                        return Ok(schedule.length());
                    }
                }
            };
            if put > 0 {
                x.flush()?;
            }
            x.prepare()?;
            self.rest(x, wait)?;
        }
    }

    /// Sends as much as fits into the window, until the time is over, `count` messages were offered in all, or there are no more. How
    /// long the measured part was, to the last message sent.
    ///
    /// # Errors
    /// Those of the exchange.
    pub fn unpaced<X: Exchange>(&mut self, x: &mut X, window: u64, count: u64) -> Result<Nanos, X::Error> {
        let Settings { start, base, end, burst, .. } = self.settings;
        loop {
            let now = self.begin(x)?;
            x.receive(RECEIVE_MAX, self.clocks())?;
            if now < start {
                continue;
            }
            self.gave_up = x.gives_up(now);
            self.cut_short |= self.gave_up || self.stopped();
            let offered = x.offered();
            if self.cut_short || now >= end || offered >= count {
                return Ok(x.last_sent().max(base) - base);
            }
            let quiet = now < base;
            let mut want = window.saturating_sub(x.in_window()).min(burst.into());
            if !quiet {
                want = want.min(count - offered);
            }
            let mut blocked = want == 0;
            for _ in 0..want {
                if !x.prepare()? {
                    x.flush()?;
                    return Ok(x.last_sent().max(base) - base);
                }
                if !x.put(Due { intended: now, quiet })? {
                    self.id_waits += 1;
                    blocked = true;
                    break;
                }
            }
            x.flush()?;
            if blocked {
                self.expire(x, now);
                x.prepare()?;
                let before = self.meter.waited();
                self.sleep(x, now, now + SECOND / 1000)?;
                let waited = self.meter.waited().saturating_sub(before);
                self.waking += if waited <= WAKING_LIMIT { waited } else { 0 };
            }
        }
    }

    /// Receives until every message is answered or given up, and a little longer for duplicates.
    ///
    /// # Errors
    /// Those of the exchange.
    pub fn drain<X: Exchange>(&mut self, x: &mut X) -> Result<(), X::Error> {
        let mut chance = if self.cut_short { clock::now() + LAST_CHANCE } else { Nanos::MAX };
        let mut quiet_since = None;
        loop {
            let now = self.turn(x)?;
            if x.in_flight() > 0 {
                quiet_since = None;
            } else if x.last_sent() == 0 || now >= *quiet_since.get_or_insert(now) + LINGER {
                return Ok(());
            }
            let end = x.answers_until().min(chance);
            if now >= end {
                return Ok(());
            }
            if chance == Nanos::MAX && self.stopped() {
                chance = now + LAST_CHANCE;
            }
            self.sleep(x, now, end)?;
        }
    }

    /// A turn without anything to send: receives, and gives up what has waited for too long. The time of its begin.
    ///
    /// # Errors
    /// Those of the exchange.
    pub fn turn<X: Exchange>(&mut self, x: &mut X) -> Result<Nanos, X::Error> {
        let now = self.begin(x)?;
        x.receive(RECEIVE_MAX, self.clocks())?;
        self.expire(x, now);
        Ok(now)
    }

    /// Sleeps until `until` or a datagram.
    ///
    /// # Errors
    /// Those of the exchange.
    pub fn sleep<X: Exchange>(&mut self, x: &mut X, now: Nanos, until: Nanos) -> Result<(), X::Error> {
        let until = until.min(x.next_turn()).min(now + x.longest_sleep()).max(now);
        self.expected = until;
        x.wait(until - now)
    }

    /// Ends the second that goes on.
    pub fn end_second<X: Exchange>(&mut self, x: &mut X, now: Nanos) {
        x.end_second(self.next_second, std::mem::take(&mut self.second_stall), now);
        self.next_second += 1;
    }

    /// Notices whether the wall clock was set since the last look.
    pub fn watch_clock(&mut self, now: Nanos) {
        let wall = Wall::read();
        let step = self.wall.drift(wall);
        if step.abs() > self.clock_step.abs() {
            self.clock_step = step;
        }
        (self.wall, self.wall_at) = (wall, now);
    }

    /// Begins a turn: stalls, clocks, seconds. The time of its begin.
    fn begin<X: Exchange>(&mut self, x: &mut X) -> Result<Nanos, X::Error> {
        let now = clock::now();
        let stood = now.saturating_sub(self.expected);
        self.second_stall = self.second_stall.max(stood);
        if stood > self.stall.length {
            self.stall = Stall { at: self.expected, length: stood };
        }
        self.expected = now;
        if now >= self.wall_at + WALL_EVERY {
            self.watch_clock(now);
        }
        while self.next_second < self.seconds && now >= self.settings.base + (self.next_second + 1) * SECOND {
            self.end_second(x, now);
        }
        x.begin_turn(self.clocks())?;
        Ok(now)
    }

    fn expire<X: Exchange>(&mut self, x: &mut X, now: Nanos) {
        if now >= self.next_expiry {
            x.expire(now);
            self.next_expiry = now + EXPIRE_EVERY;
        }
    }

    /// Receives until `until` comes near, and sleeps where that is far.
    fn rest<X: Exchange>(&mut self, x: &mut X, until: Nanos) -> Result<(), X::Error> {
        let mut now = clock::now();
        let until = until.min(x.next_turn());
        let time = until.saturating_sub(now);
        if time > LOOK_COST || now > self.looked + LOOK_EVERY {
            let most = (time / X::RECEIVE_COST).clamp(8, RECEIVE_MAX as u64);
            x.receive(most as usize, self.clocks())?;
            now = clock::now();
            self.looked = now;
        }
        let wake = until.saturating_sub(self.settings.spin);
        if wake <= now {
            std::hint::spin_loop();
            return Ok(());
        }
        if wake > now + BLIND || x.must_listen() {
            self.sleep(x, now, wake)?;
        } else {
            self.expected = wake;
            clock::sleep_until(wake);
        }
        self.woke(wake, clock::now());
        Ok(())
    }

    /// The sleep that was to end at `wake` ended at `now`. Where more than a few sleeps end after the deadline that followed, later
    /// ones end earlier: the thread polls from twice as long before. Where another thread had the core, that would be no help.
    fn woke(&mut self, wake: Nanos, now: Nanos) {
        if now < wake {
            return; // An answer ended it, or it was one of several.
        }
        self.sleeps += 1;
        if now <= wake + self.settings.spin {
            return;
        }
        let before = std::mem::replace(&mut self.waited, self.meter.waited());
        if now <= wake + self.settings.spin + self.waited.saturating_sub(before) {
            return;
        }
        self.late_sleeps += 1;
        if self.late_sleeps * SLEEPS_PER_LATE > self.sleeps {
            self.settings.spin = (2 * self.settings.spin).min(self.settings.longest_spin);
            (self.sleeps, self.late_sleeps) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Arrivals;
    use measure::schedule::Span;
    use std::collections::VecDeque;
    use std::convert::Infallible;

    const MS: Nanos = 1_000_000;

    /// A peer that answers every message after `delay`, or never those with a number in `silent`.
    #[derive(Default)]
    struct Peer {
        delay: Nanos,
        silent: std::ops::Range<u64>,
        left: u64,
        ready: bool,
        batch: u64,
        /// Numbers and times of sending.
        flying: VecDeque<(u64, Nanos)>,
        sent: u64,
        offered: u64,
        unsent: u64,
        answered: u64,
        given_up: u64,
        most: usize,
        last: Nanos,
        seconds: Vec<u64>,
    }

    impl Exchange for Peer {
        type Error = Infallible;
        const RECEIVE_COST: Nanos = 1_000;

        fn prepare(&mut self) -> Result<bool, Infallible> {
            if !self.ready && self.left > 0 {
                self.left -= 1;
                self.ready = true;
            }
            Ok(self.ready)
        }

        fn put(&mut self, due: Due) -> Result<bool, Infallible> {
            self.ready = false;
            self.offered += u64::from(!due.quiet);
            self.batch += 1;
            Ok(true)
        }

        fn not_sent(&mut self, due: Due, _why: NotSent) {
            self.offered += u64::from(!due.quiet);
            self.unsent += u64::from(!due.quiet);
        }

        fn flush(&mut self) -> Result<(), Infallible> {
            for _ in 0..std::mem::take(&mut self.batch) {
                self.last = clock::now();
                self.flying.push_back((self.sent, self.last));
                self.sent += 1;
            }
            self.most = self.most.max(self.flying.len());
            Ok(())
        }

        fn receive(&mut self, most: usize, clocks: Clocks) -> Result<(), Infallible> {
            let before = self.flying.len();
            let (delay, silent) = (self.delay, self.silent.clone());
            let mut room = most;
            self.flying.retain(|(number, at)| {
                let here = room > 0 && !silent.contains(number) && at + delay <= clocks.now;
                room -= usize::from(here);
                !here
            });
            self.answered += (before - self.flying.len()) as u64;
            Ok(())
        }

        fn wait(&mut self, time: Nanos) -> Result<(), Infallible> {
            clock::sleep_until(clock::now() + time.min(MS / 10));
            Ok(())
        }

        fn in_flight(&self) -> u64 {
            self.flying.len() as u64
        }

        fn expire(&mut self, now: Nanos) {
            let before = self.flying.len();
            self.flying.retain(|(_, at)| at + 30 * MS >= now);
            self.given_up += (before - self.flying.len()) as u64;
        }

        fn offered(&self) -> u64 {
            self.offered
        }

        fn last_sent(&self) -> Nanos {
            self.last
        }

        fn must_listen(&self) -> bool {
            false
        }

        fn end_second(&mut self, number: u64, _stall: Nanos, _now: Nanos) {
            self.seconds.push(number);
        }
    }

    fn settings(length: Nanos) -> Settings {
        let start = clock::now() + MS;
        Settings { start, base: start, end: start + length, burst: 4, spin: MS / 4, longest_spin: MS }
    }

    #[test]
    fn an_open_loop_sends_its_schedule_and_accounts_for_all_of_it() {
        let (stop, mut peer) =
            (AtomicBool::new(false), Peer { left: u64::MAX, delay: MS, ..Peer::default() });
        let settings = settings(0);
        let mut engine = Engine::new(settings, vec![&stop]);
        let span = Span { warmup: 0, until: 100 * MS, most: u64::MAX };
        let arrivals = Arrivals::Fixed { rate: 2000.0 };
        engine.wait_for_start();
        let schedule = Schedule::arrivals(&arrivals, 1, settings.start, span, (0, 1), settings.burst);
        assert_eq!(engine.open(&mut peer, schedule), Ok(100 * MS));
        engine.drain(&mut peer).unwrap();
        assert_eq!((peer.offered, peer.sent + peer.unsent, peer.answered), (200, 200, peer.sent));
        assert!(!engine.cut_short && peer.in_flight() == 0);
    }

    #[test]
    fn a_window_is_never_exceeded_and_ends_by_its_count() {
        let silent = 5..9;
        let (stop, mut peer) =
            (AtomicBool::new(false), Peer { left: u64::MAX, delay: MS / 2, silent, ..Peer::default() });
        let mut engine = Engine::new(settings(10 * SECOND), vec![&stop]);
        engine.wait_for_start();
        engine.unpaced(&mut peer, 8, 300).unwrap();
        engine.drain(&mut peer).unwrap();
        assert_eq!((peer.offered, peer.sent, peer.answered, peer.given_up), (300, 300, 296, 4));
        assert_eq!(peer.most, 8);
    }

    #[test]
    fn it_ends_with_its_messages_and_where_it_is_stopped() {
        let (stop, mut peer) = (AtomicBool::new(false), Peer { left: 10, ..Peer::default() });
        let mut engine = Engine::new(settings(SECOND), vec![&stop]);
        engine.unpaced(&mut peer, 100, u64::MAX).unwrap();
        assert_eq!((peer.sent, engine.cut_short), (10, false));
        stop.store(true, Ordering::Relaxed);
        peer.left = 10;
        engine.unpaced(&mut peer, 100, u64::MAX).unwrap();
        assert_eq!((peer.sent, engine.cut_short), (10, true));
    }

    #[test]
    fn seconds_end_one_by_one_and_not_after_the_load() {
        let (stop, mut peer) = (AtomicBool::new(false), Peer { left: u64::MAX, ..Peer::default() });
        // As if it had begun three seconds ago.
        let start = clock::now() - 3 * SECOND - SECOND / 2;
        let settings = Settings { start, base: start, end: start, burst: 1, spin: 0, longest_spin: 0 };
        let mut engine = Engine::new(settings, vec![&stop]);
        engine.end_seconds_after(2 * SECOND);
        engine.unpaced(&mut peer, 1, 1).unwrap();
        assert_eq!((&peer.seconds[..], engine.seconds_ended()), (&[0, 1][..], 2));
        engine.end_second(&mut peer, clock::now());
        assert_eq!(peer.seconds, [0, 1, 2]);
    }

    #[test]
    fn a_thread_that_wakes_late_polls_for_longer() {
        let mut engine = Engine::new(settings(0), vec![]);
        let sleeps = |engine: &mut Engine<'_>, count: u64, late: Nanos| {
            for _ in 0..count {
                engine.woke(SECOND, SECOND + late);
            }
            engine.spin()
        };
        assert_eq!(sleeps(&mut engine, 1_000, MS / 4), MS / 4, "in time, if only just");
        assert_eq!(sleeps(&mut engine, 5, SECOND), MS / 4, "one in 200 is accepted");
        assert_eq!(sleeps(&mut engine, 1, SECOND), MS / 2);
        assert_eq!(sleeps(&mut engine, 1, MS / 2), MS / 2, "that is in time now");
        assert_eq!(sleeps(&mut engine, 2, SECOND), MS);
        assert_eq!(sleeps(&mut engine, 10, SECOND), MS, "not longer than it may");
        engine.woke(SECOND, SECOND / 2);
        assert_eq!(engine.sleeps, 0, "an answer ended that sleep");

        let still = Settings { spin: 0, ..settings(0) };
        let mut engine = Engine::new(still, vec![]);
        assert_eq!(sleeps(&mut engine, 10, SECOND), 0, "it never polls");
    }
}
