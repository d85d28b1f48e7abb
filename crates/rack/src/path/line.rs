//! One direction of a path: what becomes of each packet, decided by its index and the seed, and when it is due. Pure: it
//! knows no clock and no socket.

use super::delay::Sampler;
use super::spec::{Bursts, Loss, PathSpec, Rate};
use measure::{Draw, Nanos};
use serde::{Deserialize, Serialize};

/// Counters of one direction. Octets are those of IP packets, without Ethernet headers, as RZAIA counted them.
///
/// `packets_in + duplicated = delivered + lost + queue_dropped + held + our_drops`; corrupted packets are delivered too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// Packets that the sender gave.
    pub packets_in: u64,
    /// Their octets.
    pub bytes_in: u64,
    /// Packets handed to the receiver, copies too.
    pub delivered: u64,
    /// Their octets.
    pub bytes_delivered: u64,
    /// Packets lost as asked.
    pub lost: u64,
    /// Packets that found the queue before the path's rate full.
    pub queue_dropped: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Packets in which one bit was turned, a packet and its copy counted once.
    #[serde(default)]
    pub corrupted: u64,
    /// Packets that were due before one that came earlier.
    pub reordered: u64,
    /// Packets on their way.
    pub held: u64,
    /// Packets that the emulator itself had no room for or could not send: any of them makes a trial invalid.
    pub our_drops: u64,
}

impl Counts {
    /// Whether every packet is accounted for.
    pub fn balanced(&self) -> bool {
        let out = self.delivered + self.lost + self.queue_dropped + self.held + self.our_drops;
        self.packets_in + self.duplicated == out
    }
}

/// The decision about the next packet of a direction, whatever it is and whenever it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub lost: bool,
    pub twice: bool,
    /// Says which bit is turned, by its remainder.
    pub turns: Option<u64>,
    pub overtakes: bool,
    pub delay: Nanos,
}

/// Random loss, with the state of a path that is bad now and then.
#[derive(Clone, Debug)]
enum Losing {
    Never,
    Random(f64),
    Bursts { begin: f64, end: f64, bad: bool },
}

/// Decides. Each matter has draws of its own, one a packet: decisions depend on the seed, the hosts' names, the matter
/// and the packet's index, and on nothing else.
#[derive(Clone, Debug)]
pub(crate) struct Decider {
    losing: Losing,
    loss: Draw,
    duplicate: f64,
    copies: Draw,
    corrupt: f64,
    bits: Draw,
    reorder: f64,
    overtaking: Draw,
    sampler: Sampler,
    delays: Draw,
    /// For how long a delay holds; since when which one does.
    hold: Nanos,
    held: Option<(Nanos, Nanos)>,
}

impl Decider {
    pub(crate) fn new(path: &PathSpec, from: &str, to: &str) -> Self {
        let draw = |what: &str| path.seed.draw(&format!("path {from} to {to}: {what}"), 0);
        let mut loss = draw("loss");
        let losing = match path.loss {
            Loss::None => Losing::Never,
            Loss::Random(share) => Losing::Random(share),
            Loss::Bursts(Bursts { share, burst }) => {
                let end = 1.0 / burst;
                // In the long run: begin / (begin + end) = share.
                Losing::Bursts { begin: end * share / (1.0 - share), end, bad: loss.share(share) }
            }
        };
        Self {
            losing,
            loss,
            duplicate: path.duplicate,
            copies: draw("duplicate"),
            corrupt: path.corrupt,
            bits: draw("corrupt"),
            reorder: path.reorder,
            overtaking: draw("reorder"),
            sampler: Sampler::new(&path.delay),
            delays: draw("delay"),
            hold: path.hold,
            held: None,
        }
    }

    /// The decision about the next packet, which came at `arrived`.
    pub(crate) fn next(&mut self, arrived: Nanos) -> Decision {
        let delay = match self.held {
            Some((since, delay)) if arrived < since + self.hold => delay,
            _ => self.sampler.next(&mut self.delays),
        };
        if self.hold > 0 && self.held.is_none_or(|(since, _)| arrived >= since + self.hold) {
            self.held = Some((arrived, delay));
        }
        let lost = match &mut self.losing {
            Losing::Never => false,
            Losing::Random(share) => self.loss.share(*share),
            Losing::Bursts { begin, end, bad } => {
                let lost = *bad;
                *bad ^= self.loss.share(if lost { *end } else { *begin });
                lost
            }
        };
        Decision {
            lost,
            twice: self.duplicate > 0.0 && self.copies.share(self.duplicate),
            turns: (self.corrupt > 0.0 && self.bits.share(self.corrupt)).then(|| self.bits.bits()),
            overtakes: self.reorder > 0.0 && self.overtaking.share(self.reorder),
            delay,
        }
    }
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes nowhere: lost, or the queue was full.
    Gone,
    /// It is delivered at an instant, perhaps twice, perhaps with a bit turned.
    Due { at: Nanos, twice: bool, turns: Option<u64> },
}

/// A direction with what it has done.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    decider: Decider,
    jitter_reorders: bool,
    /// Bits a second, and octets that may wait.
    rate: Option<(u64, u64)>,
    /// When the last packet that was let through has passed the narrow place.
    free_at: Nanos,
    /// The latest instant at which a packet so far is due.
    latest: Nanos,
    pub counts: Counts,
}

impl Line {
    /// A direction between two hosts; nothing said of it: it does nothing to packets.
    pub(crate) fn new(path: Option<&PathSpec>, from: &str, to: &str) -> Self {
        let nothing = PathSpec::default();
        let path = path.unwrap_or(&nothing);
        let rate = path.rate.map(|Rate(rate)| (rate, path.queue.unwrap_or_default().octets(rate)));
        Self {
            decider: Decider::new(path, from, to),
            jitter_reorders: path.jitter_reorders,
            rate,
            free_at: 0,
            latest: 0,
            counts: Counts { from: from.into(), to: to.into(), ..Counts::default() },
        }
    }

    /// A packet of `octets` came at `arrived`. It is lost first; then it queues for the narrow place, where there is a rate;
    /// then it is on its way for as long as it draws.
    pub(crate) fn take(&mut self, arrived: Nanos, octets: u64) -> Fate {
        self.counts.packets_in += 1;
        self.counts.bytes_in += octets;
        let decision = self.decider.next(arrived);
        if decision.lost {
            self.counts.lost += 1;
            return Fate::Gone;
        }
        let mut through = arrived;
        if let Some((rate, bound)) = self.rate {
            let wait = u128::from(self.free_at.saturating_sub(arrived));
            let waiting = (wait * u128::from(rate) / 8_000_000_000) as u64;
            if waiting > 0 && waiting + octets > bound {
                self.counts.queue_dropped += 1;
                return Fate::Gone;
            }
            let passes = (u128::from(octets) * 8_000_000_000).div_ceil(u128::from(rate)) as Nanos;
            self.free_at = self.free_at.max(arrived) + passes;
            through = self.free_at;
        }
        let mut at = through + if decision.overtakes { 0 } else { decision.delay };
        if !decision.overtakes && !self.jitter_reorders {
            at = at.max(self.latest);
        }
        self.counts.reordered += u64::from(at < self.latest);
        self.latest = self.latest.max(at);
        self.counts.duplicated += u64::from(decision.twice);
        self.counts.corrupted += u64::from(decision.turns.is_some());
        self.counts.held += 1 + u64::from(decision.twice);
        Fate::Due { at, twice: decision.twice, turns: decision.turns }
    }

    /// A packet of `octets` came that we cannot take.
    pub(crate) fn refuse(&mut self, octets: u64) {
        self.counts.packets_in += 1;
        self.counts.bytes_in += octets;
        self.counts.our_drops += 1;
    }

    /// A packet of `octets` was delivered.
    pub(crate) fn delivered(&mut self, octets: u64) {
        self.counts.held -= 1;
        self.counts.delivered += 1;
        self.counts.bytes_delivered += octets;
    }

    /// A packet that was held is dropped by us.
    pub(crate) fn dropped(&mut self) {
        self.counts.held -= 1;
        self.counts.our_drops += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{Delay, Queue};
    use measure::Seed;
    use proptest::prelude::*;

    const MS: Nanos = 1_000_000;

    fn decisions(path: &PathSpec, count: usize) -> Vec<Decision> {
        let mut decider = Decider::new(path, "a", "b");
        (0..count).map(|_| decider.next(0)).collect()
    }

    /// Half the width of the 99 % interval of a share of `n` independent trials.
    fn width(share: f64, n: usize) -> f64 {
        2.576 * (share * (1.0 - share) / n as f64).sqrt()
    }

    #[test]
    fn the_same_seed_decides_the_same_for_each_index() {
        let path = PathSpec {
            delay: Delay::Normal { mean: 50 * MS, deviation: 5 * MS },
            loss: Loss::Bursts(Bursts { share: 0.1, burst: 3.0 }),
            duplicate: 0.1,
            reorder: 0.1,
            seed: Seed(4),
            ..PathSpec::default()
        };
        let all = decisions(&path, 2000);
        assert_eq!(all, decisions(&path, 2000));
        let shares = |f: fn(&Decision) -> bool| all.iter().filter(|d| f(d)).count();
        assert_eq!([shares(|d| d.lost), shares(|d| d.twice), shares(|d| d.overtakes)], GOLDEN);
        // One matter does not change another's draws, and another seed or direction has others.
        let only = PathSpec { duplicate: 0.1, seed: Seed(4), ..PathSpec::default() };
        assert!(decisions(&only, 2000).iter().zip(&all).all(|(a, b)| a.twice == b.twice));
        let other = PathSpec { seed: Seed(5), ..path.clone() };
        assert_ne!(decisions(&other, 2000), all);
        let mut back = Decider::new(&path, "b", "a");
        assert!(all.iter().any(|d| *d != back.next(0)));
    }

    const GOLDEN: [usize; 3] = [197, 201, 185];

    #[test]
    fn loss_and_copies_come_in_the_share_asked_for() {
        let (n, seeds) = (20_000, 200);
        for share in [0.01, 0.3] {
            let mut within = [0; 4];
            for seed in 0..seeds {
                let path = PathSpec {
                    loss: Loss::Random(share),
                    duplicate: share,
                    reorder: share,
                    corrupt: share,
                    seed: Seed(seed),
                    ..PathSpec::default()
                };
                let all = decisions(&path, n);
                let counts: [fn(&Decision) -> bool; 4] =
                    [|d| d.lost, |d| d.twice, |d| d.overtakes, |d| d.turns.is_some()];
                for (within, f) in within.iter_mut().zip(counts) {
                    let got = all.iter().filter(|d| f(d)).count() as f64 / n as f64;
                    *within += u64::from((got - share).abs() < width(share, n));
                }
            }
            // Of 200 tries 198 lie in the 99 % interval, give or take four.
            assert!(within.iter().all(|&w| w >= seeds - 6), "{share}: {within:?} of {seeds}");
        }
    }

    #[test]
    fn bursts_have_the_share_and_the_mean_length_asked_for() {
        let n = 400_000;
        for (share, burst) in [(0.01, 4.0), (0.3, 10.0), (0.05, 1.0)] {
            let path = PathSpec {
                loss: Loss::Bursts(Bursts { share, burst }),
                seed: Seed(2),
                ..PathSpec::default()
            };
            let lost: Vec<bool> = decisions(&path, n).iter().map(|d| d.lost).collect();
            let (total, bursts) = (
                lost.iter().filter(|&&l| l).count() as f64,
                lost.chunk_by(|a, b| a == b).filter(|run| run[0]).count() as f64,
            );
            // The states are a chain with this correlation from one packet to the next.
            let correlation: f64 = 1.0 - 1.0 / burst - share / (1.0 - share) / burst;
            let wider = ((1.0 + correlation) / (1.0 - correlation)).sqrt();
            let got = total / n as f64;
            assert!((got - share).abs() < width(share, n) * wider, "{share} {burst}: {got}");
            // Lengths are geometric: their variance is burst (burst - 1).
            let mean = total / bursts;
            let bound = 2.576 * (burst * (burst - 1.0) / bursts).sqrt() + 1e-9;
            assert!((mean - burst).abs() < bound, "{share} {burst}: {mean}");
        }
    }

    #[test]
    fn a_rate_spreads_packets_and_its_queue_is_bounded() {
        // 1 Mbit/s: 1,250 octets take 10 ms; 3,000 octets may wait.
        let path = PathSpec {
            delay: Delay::Constant(5 * MS),
            rate: Some(Rate(1_000_000)),
            queue: Some(Queue::Octets(3000)),
            ..PathSpec::default()
        };
        let mut line = Line::new(Some(&path), "a", "b");
        let fates: Vec<Fate> = [0, 0, 0, 20 * MS].iter().map(|&at| line.take(at, 1250)).collect();
        let due = |ms| Fate::Due { at: ms * MS, twice: false, turns: None };
        assert_eq!(fates, [due(15), due(25), Fate::Gone, due(35)]);
        assert_eq!((line.counts.queue_dropped, line.counts.lost, line.counts.held), (1, 0, 3));
        // A packet larger than the queue passes where nothing waits.
        assert_eq!(line.take(1000 * MS, 12_500), due(1105));
        let by_time = PathSpec { rate: Some(Rate(1_000_000)), ..PathSpec::default() };
        assert_eq!(Line::new(Some(&by_time), "a", "b").rate, Some((1_000_000, 12_500)));
    }

    #[test]
    fn packets_overtake_only_where_it_was_asked_for() {
        let jitter = Delay::Normal { mean: 50 * MS, deviation: 5 * MS };
        let run = |path: PathSpec| {
            let mut line = Line::new(Some(&path), "a", "b");
            for i in 0..10_000 {
                line.take(i * 50_000, 100);
            }
            line.counts.reordered
        };
        assert_eq!(run(PathSpec { delay: jitter.clone(), ..PathSpec::default() }), 0);
        assert!(run(PathSpec { delay: jitter, jitter_reorders: true, ..PathSpec::default() }) > 5_000);
        let constant = PathSpec { delay: Delay::Constant(MS), reorder: 0.05, ..PathSpec::default() };
        let expected = decisions(&constant, 10_000).iter().skip(1).filter(|d| d.overtakes).count() as u64;
        assert_eq!(run(constant), expected);
    }

    #[test]
    fn a_long_tail_that_holds_keeps_order_and_distribution() {
        let path = PathSpec { delay: Delay::Like("rzaia-5.6".into()), hold: 500 * MS, ..PathSpec::default() };
        // Shares of 200,000 packets, 200 in a second, that take no longer than the shares asked for.
        let below = |path: &PathSpec| -> Vec<f64> {
            let mut line = Line::new(Some(path), "a", "b");
            let took: Vec<Nanos> = (0..200_000)
                .map(|i| match line.take(i * 5 * MS, 100) {
                    Fate::Due { at, .. } => at - i * 5 * MS,
                    Fate::Gone => unreachable!("nothing is lost"),
                })
                .collect();
            assert_eq!(line.counts.reordered, 0);
            let wanted = path.delay.quantiles();
            [3, 5, 6].map(|i| took.iter().filter(|&&t| t <= wanted[i].1).count() as f64 / 2e5).to_vec()
        };
        for (got, asked) in below(&path).iter().zip([0.5, 0.9, 0.95]) {
            assert!((got - asked).abs() < 0.04, "{asked}: {got}");
        }
        let each = PathSpec { hold: 0, ..path };
        let half = below(&each)[0];
        assert!(half < 0.25, "where each packet draws its own, most wait for another: {half}");
    }

    proptest! {
        /// Whatever a path is asked for: everything is accounted for, order is kept, nothing is early.
        #[test]
        fn nothing_is_early_and_nothing_is_forgotten(
            gaps in prop::collection::vec((0u64..3_000_000, 20u64..1500), 1..200),
            delay in (0u64..20_000_000, 0u64..5_000_000),
            lost in 0.0f64..0.5, duplicate in 0.0f64..0.5, rate in prop::option::of(10_000u64..100_000_000),
            seed in any::<u64>(),
        ) {
            let path = PathSpec {
                delay: Delay::Normal { mean: delay.0, deviation: delay.1 },
                loss: Loss::Random(lost), duplicate, rate: rate.map(Rate), seed: Seed(seed),
                ..PathSpec::default()
            };
            let mut line = Line::new(Some(&path), "a", "b");
            let mut decider = Decider::new(&path, "a", "b");
            let (mut now, mut last, mut through) = (0, 0, 0u64);
            for (gap, octets) in gaps {
                now += gap;
                let decision = decider.next(now);
                match line.take(now, octets) {
                    Fate::Gone => prop_assert!(decision.lost || rate.is_some()),
                    Fate::Due { at, twice, .. } => {
                        prop_assert!(!decision.lost && twice == decision.twice);
                        prop_assert!(at >= now + decision.delay && at >= last, "early, or before another");
                        last = at;
                        through += octets;
                        if let Some(rate) = rate {
                            // Until now nothing passed faster than the rate.
                            prop_assert!(u128::from(at) * u128::from(rate) >= u128::from(through) * 8_000_000_000);
                        }
                        line.delivered(octets);
                        if twice {
                            line.dropped();
                        }
                    }
                }
                prop_assert!(line.counts.balanced(), "{:?}", line.counts);
            }
            prop_assert_eq!(line.counts.held, 0);
            prop_assert_eq!(line.counts.reordered, 0);
        }
    }
}
