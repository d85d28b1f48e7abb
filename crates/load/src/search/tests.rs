use super::*;
use measure::{Reason, Seed, Validity};
use proptest::prelude::*;

/// A server that answers `peak` queries per second, disturbed in some share of its trials; and a generator that
/// offers up to `ceiling`.
struct Simulated {
    peak: f64,
    /// Share of trials with a loss spike although the load is low.
    spikes: f64,
    ceiling: f64,
    /// Between these loads it loses everything: not monotonic.
    hole: (f64, f64),
    /// Share of trials that something else disturbs on the generator's side.
    disturbed: f64,
    draw: measure::Draw,
}

impl Simulated {
    fn new(peak: f64) -> Self {
        Self {
            peak,
            spikes: 0.0,
            ceiling: f64::INFINITY,
            hole: (0.0, 0.0),
            disturbed: 0.0,
            draw: Seed(1).draw("sim", 0),
        }
    }

    fn trial(&mut self, rate: f64) -> (f64, bool) {
        let mut loss: f64 = if rate > self.peak { 1.0 - self.peak / rate } else { 0.0 };
        if self.draw.share(self.spikes) {
            loss = loss.max(0.01);
        }
        if rate > self.hole.0 && rate < self.hole.1 {
            loss = 0.5;
        }
        (loss, rate <= self.ceiling && !self.draw.share(self.disturbed))
    }

    fn search(&mut self, mut search: Search) -> SearchResult {
        let mut n = 0;
        while let Next::Measure { rate, duration } = search.next() {
            let (loss, valid) = self.trial(rate);
            search.record(Trial { rate, duration, loss_ratio: loss, valid, disturbed: false, seen: None });
            n += 1;
            assert!(n <= MOST_TRIALS, "it never ends");
        }
        assert_eq!(search.next(), Next::Done);
        search.result()
    }
}

const HOUR: Nanos = 3600 * SECOND;

fn goal() -> Goal {
    Goal::default()
}

#[test]
fn a_steady_server_is_found_quickly() {
    for peak in [150.0, 3_000.0, 19_999.0, 20_000.0, 123_456.0, 2_000_000.0] {
        let r = Simulated::new(peak).search(Search::new(goal(), HOUR));
        assert_eq!(r.ended, End::Width, "{peak}: {r:?}");
        let (lower, upper) = (r.lower.unwrap(), r.upper.unwrap());
        // 0.1 % loss is within the goal.
        assert!(
            lower <= peak * 1.0011 && upper > peak && (upper - lower) / upper <= 0.02,
            "{peak}: {lower} {upper}"
        );
        assert!(r.spent_s < 90.0, "{peak}: {} trials in {} s", r.trials.len(), r.spent_s);
        assert!(r.peak_qps.unwrap() <= lower && r.peak_qps.unwrap() >= lower * 0.998);
        assert_eq!(r.validity(), Validity::default());
    }
}

#[test]
fn the_edges_of_the_range_end_it() {
    let r = Simulated::new(1e9).search(Search::new(goal(), HOUR).range(100.0, 500_000.0));
    assert_eq!((r.ended, r.lower, r.upper), (End::MaxLoad, Some(500_000.0), None));
    assert_eq!(r.validity().warnings[0].code, "limited_by_max_load");
    let r = Simulated::new(0.0).search(Search::new(goal(), HOUR).range(100.0, 500_000.0));
    assert_eq!((r.ended, r.lower, r.upper, r.peak_qps), (End::MinLoad, None, Some(100.0), None));
    assert_eq!(r.validity().reasons[0].code, "no_lower_bound");
    assert_eq!(r.metrics().len(), 1);
}

#[test]
fn a_generators_limit_is_not_the_servers() {
    let mut sim = Simulated { ceiling: 80_000.0, ..Simulated::new(200_000.0) };
    let r = sim.search(Search::new(goal(), HOUR));
    assert!(r.upper_is_ours, "{r:?}");
    assert!(r.lower.unwrap() <= 80_000.0 && r.upper.unwrap() > 80_000.0);
    assert_eq!(r.validity().warnings[0].code, "limited_by_generator");
    assert!(r.validity().valid, "the lower bound is proven");
    let mut sim = Simulated { ceiling: 1.0, ..Simulated::new(200_000.0) };
    let r = sim.search(Search::new(goal(), HOUR));
    assert_eq!((r.lower, r.validity().valid), (None, false));
}

#[test]
fn a_disturbed_machine_still_finds_the_server() {
    let mut sim = Simulated { disturbed: 0.25, ..Simulated::new(123_456.0) };
    let r = sim.search(Search::new(goal(), HOUR));
    let (lower, upper) = (r.lower.unwrap(), r.upper.unwrap());
    assert!(lower > 100_000.0 && upper < 150_000.0, "{lower} {upper}: {:?}", r.loads);
}

#[test]
fn a_small_budget_ends_it_and_is_named() {
    let r = Simulated::new(77_000.0).search(Search::new(goal(), 10 * SECOND));
    assert_eq!(r.ended, End::Budget);
    assert!(r.spent_s <= 10.0);
    let v = r.validity();
    assert!(v.reasons.iter().chain(&v.warnings).any(|r| r.text.contains("10 s")), "{v:?}");
    // At least one trial always runs.
    let r = Simulated::new(77_000.0).search(Search::new(goal(), 0));
    assert_eq!(r.trials.len(), 1);
}

#[test]
fn a_hole_below_the_peak_is_the_upper_bound() {
    let mut sim = Simulated { hole: (60_000.0, 90_000.0), ..Simulated::new(200_000.0) };
    let r = sim.search(Search::new(goal(), HOUR).start(70_000.0));
    assert!(r.upper.unwrap() <= 90_000.0 && r.lower.unwrap() <= 60_000.0, "RFC 9971 is conservative: {r:?}");
}

#[test]
fn a_result_goes_there_and_back() {
    let r = Simulated::new(5000.0).search(Search::new(goal(), HOUR));
    let again: SearchResult = serde_json::from_str(&serde_json::to_string(&r).unwrap()).unwrap();
    // Ratios may differ in the last bit: JSON is decimal.
    assert_eq!((again.loads, again.lower, again.upper, again.goal), (r.loads, r.lower, r.upper, r.goal));
    assert_eq!(again.trials.len(), r.trials.len());
}

/// The result of a simulated load, as far as a search looks at it.
fn result(rate: f64, loss: f64, valid: bool) -> crate::LoadResult {
    let offered = rate as u64;
    let lost = (offered as f64 * loss) as u64;
    let counts = crate::Counts {
        offered,
        sent: offered,
        lost,
        answered: offered - lost,
        answered_qps: (offered - lost) as f64,
        ..Default::default()
    };
    let mut r = crate::LoadResult { counts, ..Default::default() };
    if !valid {
        r.validity.reject(Reason::new("pacing_error", "late"));
    }
    r
}

fn spec() -> crate::LoadSpec {
    let source: traffic::SourceSpec = serde_json::from_str(r#"{"queries": {"path": "q"}}"#).unwrap();
    crate::LoadSpec {
        pacing_limit: 7,
        ..crate::LoadSpec::new(vec!["127.0.0.1:53".parse().unwrap()], source, measure::Pace::Flood, SECOND)
    }
}

fn rate_of(load: &crate::LoadSpec) -> f64 {
    match &load.pace {
        measure::Pace::Open(arrivals) => arrivals.peak(),
        other => panic!("a search offers rates, not {other:?}"),
    }
}

#[test]
fn a_search_drives_loads_and_then_measures_below_the_peak() {
    let mut sim = Simulated::new(50_000.0);
    let mut numbers = Vec::new();
    let found = drive(
        &spec(),
        Search::new(goal(), HOUR),
        &mut |load| {
            assert_eq!((load.pacing_limit, load.count), (PACING_LIMIT, None));
            assert_eq!(load.warmup, load.duration.unwrap() / 10);
            let (loss, valid) = sim.trial(rate_of(load));
            Ok::<_, ()>(result(rate_of(load), loss, valid).into())
        },
        &mut |n, trial, r| {
            assert_eq!(trial.seen.unwrap().answered_qps, r.counts.answered_qps);
            numbers.push(n);
        },
    );
    let found = found.unwrap();
    assert_eq!(found.ended, End::Width);
    assert_eq!(numbers, (1..=found.trials.len()).collect::<Vec<_>>());
    let peak = found.peak_qps.unwrap();
    let at = Fractions { fractions: vec![0.1, 0.5, 0.9], duration: 3 * SECOND, warmup: SECOND };
    let trials = latency_at(
        &spec(),
        peak,
        &at,
        &mut |load| {
            // These are of latency: as strict as asked for.
            assert_eq!((load.pacing_limit, load.duration, load.warmup), (7, Some(3 * SECOND), SECOND));
            Ok::<_, ()>(result(rate_of(load), 0.0, rate_of(load) < 0.8 * peak))
        },
        &mut |_| (),
    );
    let found = SearchResult { latency_at: trials.unwrap(), ..found };
    let rates: Vec<_> = found.latency_at.iter().map(|t| t.rate).collect();
    assert_eq!(rates, [0.1, 0.5, 0.9].map(|f| (peak * f).round()));
    let v = found.validity();
    assert!(v.valid && v.warnings.len() == 1, "{v:?}");
    assert!(v.warnings[0].code == "latency_trial_invalid" && v.warnings[0].text.contains("90 %"), "{v:?}");
}

#[test]
fn a_trial_that_was_cut_short_ends_it_and_does_not_count() {
    let mut left = 3;
    let mut measure = |load: &crate::LoadSpec| {
        left -= 1;
        Ok::<_, ()>(crate::LoadResult { cut_short: left == 0, ..result(rate_of(load), 0.0, true) }.into())
    };
    let found = drive(&spec(), Search::new(goal(), HOUR), &mut measure, &mut |_, _, _| ()).unwrap();
    assert_eq!((found.trials.len(), found.ended), (2, End::Unfinished));
    let none = latency_at(
        &spec(),
        1e4,
        &Fractions::default(),
        &mut |l| Ok::<_, ()>(crate::LoadResult { cut_short: true, ..result(rate_of(l), 0.0, true) }),
        &mut |_| (),
    );
    assert_eq!(none.unwrap(), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_server_gets_an_honest_answer(
        peak in 50.0f64..3e6, spikes in 0.0f64..0.7, ceiling in 1e3f64..4e6, low in 1e2f64..1e6, width in 0.0f64..1e5,
        disturbed in 0.0f64..0.5, seed in any::<u64>(),
    ) {
        let mut sim = Simulated { peak, spikes, ceiling, hole: (low, low + width), disturbed, draw: Seed(seed).draw("sim", 0) };
        let r = sim.search(Search::new(goal(), HOUR));
        prop_assert!(r.ended != End::Unfinished);
        let (lower, upper) = (r.lower.unwrap_or(0.0), r.upper.unwrap_or(f64::INFINITY));
        prop_assert!(lower < upper);
        if r.ended == End::Width {
            prop_assert!((upper - lower) / upper <= 0.02 || upper - lower <= 1.0);
        }
        // Classes are the RFC's, by each load's own trials; bounds are loads that were measured.
        for (load, class) in &r.loads {
            let trials: Vec<_> = r.trials.iter().copied().filter(|t| t.rate == *load).collect();
            prop_assert_eq!(*class, classify(&r.goal, &trials));
        }
        let measured = |bound: Option<f64>| bound.is_none_or(|bound| r.loads.iter().any(|(load, _)| *load == bound));
        prop_assert!(measured(r.lower) && measured(r.upper));
        // A lower bound has at least one full-length trial within the goal.
        prop_assert!(lower <= peak * 1.0011, "{lower} for a peak of {peak}");
        prop_assert!(lower <= ceiling);
    }
}
