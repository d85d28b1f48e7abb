//! How far from the truth does the search for the knee end, and how often does its interval hold it?
//!
//! Prints a Markdown table over simulated servers. Each is searched for many times with the goals of `demo` and of `load search`.
//! The truth is the rate at which half of many full trials of the same law lose more than the goal, by bisection.
//!
//! `cargo run --release -p dnsrack-load --example search-accuracy [SEARCHES]`

use load::search::{Goal, Next, Search, Trial};
use measure::clock::SECOND;
use measure::{Draw, Nanos, Seed};

/// Pauses: how many a second, and the least length in seconds. Lengths have a Pareto tail of exponent 1.5, cut at 150 ms.
type Pauses = (f64, f64);

/// A simulated server, and the machine that it is on.
#[derive(Clone, Copy)]
struct Law {
    name: &'static str,
    /// Queries per second at the beginning.
    capacity: f64,
    /// Queries that its socket holds.
    buffer: f64,
    /// Pauses of the server itself.
    pauses: Pauses,
    /// Pauses of the machine, and the share of them that the core watch sees.
    away: (Pauses, f64),
    /// By how much the capacity changes over the budget, as a share of it: evenly, and at once in its middle.
    change: (f64, f64),
    /// The share of queries that is lost at any rate.
    noise: f64,
}

const STEADY: Law = Law {
    name: "steady",
    capacity: 40_000.0,
    buffer: 270.0,
    pauses: (0.0, 0.0),
    away: ((0.0, 0.0), 1.0),
    change: (0.0, 0.0),
    noise: 0.0,
};

const LAWS: [Law; 8] = [
    STEADY,
    Law { name: "loses 0.05 % at any rate", noise: 0.0005, ..STEADY },
    Law { name: "pauses by itself, small buffer", pauses: (2.0, 0.005), ..STEADY },
    Law { name: "pauses by itself, buffer of 4 MiB", pauses: (2.0, 0.005), buffer: 5_400.0, ..STEADY },
    Law { name: "the machine pauses, and is seen to", away: ((1.0, 0.008), 1.0), ..STEADY },
    Law { name: "the machine pauses unseen", away: ((1.0, 0.008), 0.0), ..STEADY },
    Law { name: "becomes 10 % slower, evenly", change: (-0.1, 0.0), ..STEADY },
    Law { name: "becomes 20 % slower, at once", change: (0.0, -0.2), ..STEADY },
];

/// Uniform in (0, 1].
fn unit(draw: &mut Draw) -> f64 {
    (draw.bits() as f64 + 1.0) / (u64::MAX as f64 + 1.0)
}

/// The lengths of the pauses that fall into `seconds`.
fn lengths(draw: &mut Draw, (often, least): Pauses, seconds: f64) -> Vec<f64> {
    let mut all = Vec::new();
    if often <= 0.0 {
        return all;
    }
    let mut at = -unit(draw).ln() / often;
    while at <= seconds {
        all.push((least / unit(draw).powf(1.0 / 1.5)).min(0.15));
        at -= unit(draw).ln() / often;
    }
    all
}

impl Law {
    /// The loss ratio of a trial when the share `at` of the budget is spent, and whether it counts as disturbed by the machine.
    fn trial(&self, draw: &mut Draw, rate: f64, duration: Nanos, at: f64, goal: &Goal) -> (f64, bool) {
        let seconds = duration as f64 / SECOND as f64;
        let (evenly, at_once) = self.change;
        let capacity = self.capacity * (1.0 + evenly * at + if at > 0.5 { at_once } else { 0.0 });
        let sent = rate * seconds;
        // What arrives in a pause beyond the buffer is lost.
        let beyond = |length: f64| (rate * length - self.buffer).max(0.0);
        let mut server = ((rate - capacity) * seconds - self.buffer).max(0.0) + self.noise * sent;
        server += lengths(draw, self.pauses, seconds).into_iter().map(beyond).sum::<f64>();
        let mut seen = 0.0;
        for length in lengths(draw, self.away.0, seconds) {
            *(if draw.share(self.away.1) { &mut seen } else { &mut server }) += beyond(length);
        }
        let allowed = goal.loss_ratio * sent;
        (((server + seen) / sent).min(1.0), server + seen > allowed && server <= allowed)
    }

    /// The rate at which half of full trials lose more than the goal because of the server, in the middle of the budget.
    fn truth(&self, goal: &Goal) -> f64 {
        let mut draw = Seed(77).draw("truth", 0);
        let (mut low, mut high) = (100.0, 2.0 * self.capacity);
        for _ in 0..24 {
            let rate = f64::sqrt(low * high);
            let lossy = (0..2000).filter(|_| {
                let (loss, disturbed) = self.trial(&mut draw, rate, goal.final_trial, 0.5, goal);
                loss > goal.loss_ratio && !disturbed
            });
            if lossy.count() > 1000 { high = rate } else { low = rate }
        }
        low
    }

    /// The bounds that a search proves.
    fn search(&self, seed: u64, goal: &Goal, budget: Nanos) -> (Option<f64>, Option<f64>) {
        let mut draw = Seed(seed).draw("accuracy", 0);
        let mut search = Search::new(goal.clone(), budget).start(1.5 * self.capacity);
        let mut spent = 0;
        while let Next::Measure { rate, duration } = search.next() {
            let (loss_ratio, disturbed) =
                self.trial(&mut draw, rate, duration, spent as f64 / budget as f64, goal);
            search.record(Trial { rate, duration, loss_ratio, valid: true, disturbed, seen: None });
            spent += duration;
        }
        let found = search.result();
        (found.lower, found.proven_upper())
    }
}

fn percentile(values: &mut [f64], q: f64) -> String {
    values.sort_by(f64::total_cmp);
    let place = ((values.len().max(1) - 1) as f64 * q).round() as usize;
    values.get(place).map_or("–".into(), |v| format!("{:.1} %", 100.0 * v))
}

fn share(part: usize, of: usize) -> String {
    if of == 0 { "–".into() } else { format!("{:.0} %", 100.0 * part as f64 / of as f64) }
}

fn main() {
    let searches: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(500);
    let demo = Goal {
        initial_trial: SECOND / 4,
        final_trial: SECOND / 4,
        duration_sum: SECOND / 2,
        width: 0.1,
        ..Goal::default()
    };
    let goals = [("`demo`, 2 s", demo, 2 * SECOND), ("`load search`, 60 s", Goal::default(), 60 * SECOND)];
    println!(
        "| simulated server | search | both bounds | they hold the knee | a lower bound alone | it is below the knee | middle of the bounds off by, median | 95 % |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for law in LAWS {
        for (name, goal, budget) in &goals {
            let truth = law.truth(goal);
            let found: Vec<_> = (0..searches as u64).map(|seed| law.search(seed, goal, *budget)).collect();
            let both: Vec<(f64, f64)> = found.iter().filter_map(|(low, high)| low.zip(*high)).collect();
            let alone: Vec<f64> =
                found.iter().filter_map(|(low, high)| low.filter(|_| high.is_none())).collect();
            // A search gives whole queries per second.
            let is_below = |low: f64| low <= truth * 1.002;
            let held = both.iter().filter(|(low, high)| is_below(*low) && truth <= high * 1.002).count();
            let mut off: Vec<f64> =
                both.iter().map(|(low, high)| ((low + high) / 2.0 / truth - 1.0).abs()).collect();
            println!(
                "| {} | {name} | {} | {} | {} | {} | {} | {} |",
                law.name,
                share(both.len(), searches),
                share(held, both.len()),
                share(alone.len(), searches),
                share(alone.iter().filter(|low| is_below(**low)).count(), alone.len()),
                percentile(&mut off, 0.5),
                percentile(&mut off, 0.95),
            );
        }
    }
}
