//! The capacity of a server: the most queries that it answers per second, sustained.
//!
//! A window of queries that wait for their answers keeps a server busy without a rate that could be wrong. Several such loads
//! are cut into stretches of [`STRETCH`]. The capacity is the answered rate that a tenth of all stretches reached or
//! exceeded ([`SUSTAINED`]), as whatever else happens on a machine can only make a server slower ([`measure::calm`]). docs/trust.md
//! says how well that repeats. Open loads far above the knee are a second witness: a server may answer more when it need not wait
//! for the generator.

use super::{Offered, Trial};
use crate::{LoadResult, LoadSpec};
use measure::calm::{CALM, STRETCH, quantile};
use measure::clock::SECOND;
use measure::{Nanos, Pace, Reason, Validity};
use serde::{Deserialize, Serialize};

/// The quantile of the stretches' answered rates that a server is said to sustain.
pub const SUSTAINED: f64 = 1.0 - CALM;

/// Where the server's cores had nothing to do for more than this share of the time, they are not what limits a window.
pub const IDLE_LIMIT: f64 = 0.1;

/// Where a worker computed for more than this share of the time, a window is limited by the generator.
const BUSY_LIMIT: f64 = 0.95;

/// Loads that are done again at most, where the machine disturbed one or the generator was not able to offer it.
const MOST_AGAIN: u32 = 3;

/// Open loads that offered at least this multiple of what a window got, and lost more than [`LOSSY`], are above the knee.
const ABOVE: f64 = 1.1;

/// See [`ABOVE`], as a share of the queries.
const LOSSY: f64 = 0.01;

/// How the capacity is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityGoal {
    /// Queries that wait for their answers.
    pub window: u32,
    /// The length of one load, in nanoseconds.
    pub load: Nanos,
    /// How many loads.
    pub loads: u32,
}

impl Default for CapacityGoal {
    /// Six loads of 1 s with a window of 250: as many queries fit into a socket with the kernel's default buffer of 208 KiB. Of a
    /// larger window the rest would be lost there, and its places stay empty until the deadline.
    fn default() -> Self {
        Self { window: 250, load: SECOND, loads: 6 }
    }
}

/// One load with a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowLoad {
    /// Answered queries per second in each of its stretches, in order.
    pub stretches: Vec<f64>,
    /// Answered queries per second: the quantile [`SUSTAINED`] of its stretches.
    pub sustained_qps: f64,
    /// Answered queries per second: the mean, pauses of the machine included.
    pub mean_qps: f64,
    /// The share (0 to 1) of the time that the server's cores had nothing to do.
    pub server_idle: Option<f64>,
    /// How the queries were sent, as in [`LoadResult::backend`].
    pub backend: String,
    /// Why the load does not count: the generator could not offer it, or the machine disturbed it.
    pub not_counted: Option<String>,
    /// The generator or the window was the limit, not the server.
    pub limited: bool,
}

/// The capacity that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// Answered queries per second: the quantile [`SUSTAINED`] of the stretches of all loads that count; none where none does.
    pub qps: Option<f64>,
    /// The median of the same stretches.
    #[serde(default)]
    pub median_qps: Option<f64>,
    /// The least and the most that a single load sustained.
    pub range: Option<(f64, f64)>,
    /// The generator was the limit: the server may answer more.
    pub at_least: bool,
    /// From open loads above the knee, which got more than the window.
    pub from_open_loads: bool,
    /// The window.
    pub window: u32,
    /// Every load, in order.
    pub loads: Vec<WindowLoad>,
}

/// Makes a warning of the reason that the generator waited for its core, where a load with a window kept the server busy all the
/// same. `server_idle` is as in [`Offered::server_idle`].
pub fn forgive_preemption(validity: &mut Validity, server_idle: Option<f64>) {
    if server_idle.is_some_and(|idle| idle <= IDLE_LIMIT) {
        validity.only_warn("generator_preempted", "the window kept the server's cores busy");
    }
}

/// Answered queries per second in each stretch of a load; the mean alone where it is shorter than two.
fn stretches(result: &LoadResult) -> Vec<f64> {
    let stretches = result.timeline.answered_qps(STRETCH, (result.duration_s * 1e9) as Nanos);
    if stretches.len() < 2 { vec![result.counts.answered_qps] } else { stretches }
}

/// Answered queries per second that a server sustained in a load: the quantile [`SUSTAINED`] of its stretches.
pub fn sustained_qps(result: &LoadResult) -> f64 {
    quantile(stretches(result), SUSTAINED).unwrap_or_default()
}

/// Measures the capacity with `spec` in all but pace, length and deadline. `each` sees every load. Where the generator is the
/// limit over sockets, the loads go on over AF_XDP, if that can be had.
///
/// # Errors
/// The errors of `measure`.
pub fn capacity<E>(
    spec: &LoadSpec,
    goal: &CapacityGoal,
    measure: &mut dyn FnMut(&LoadSpec) -> Result<Offered, E>,
    each: &mut dyn FnMut(&WindowLoad, &LoadResult),
) -> Result<Capacity, E> {
    let base = LoadSpec {
        pace: Pace::Closed { window: goal.window },
        duration: Some(goal.load),
        count: None,
        warmup: goal.load / 4,
        // A query that waits in the socket's queue of a slow server is not lost.
        deadline: spec.deadline.max(SECOND),
        ..spec.clone()
    };
    let mut found = Capacity { window: goal.window, ..Capacity::default() };
    let (mut good, mut again, mut prefer_xdp) = (0, 0, base.prefer_xdp);
    while good < goal.loads && again <= MOST_AGAIN {
        let source = base.source.nth(found.loads.len() as u64);
        let load = LoadSpec { source, prefer_xdp, ..base.clone() };
        let Offered { result, server_idle, disturbed } = measure(&load)?;
        if result.cut_short {
            break;
        }
        let mut validity = result.validity.clone();
        forgive_preemption(&mut validity, server_idle);
        let invalid = validity.reasons.first().map(|reason| reason.text.clone());
        let busy = result.worker_busy > BUSY_LIMIT;
        let seen = WindowLoad {
            stretches: stretches(&result),
            sustained_qps: sustained_qps(&result),
            mean_qps: result.counts.answered_qps,
            server_idle,
            backend: result.backend.clone(),
            limited: server_idle.map_or(busy, |idle| idle > IDLE_LIMIT),
            not_counted: invalid.or(disturbed),
        };
        each(&seen, &result);
        let counts = seen.not_counted.is_none();
        if counts && seen.limited && good == 0 && load.can_go_past_sockets() {
            prefer_xdp = true;
        } else if counts {
            good += 1;
        } else {
            again += 1;
        }
        found.loads.push(seen);
    }
    found.take_window();
    Ok(found)
}

impl Capacity {
    /// From the loads with a window: those of the way of sending that got the most.
    fn take_window(&mut self) {
        let counted_loads = |xdp: bool| {
            let fits =
                |load: &&WindowLoad| load.not_counted.is_none() && load.backend.starts_with("xdp") == xdp;
            self.loads.iter().filter(fits).collect::<Vec<_>>()
        };
        let all = |loads: &[&WindowLoad]| loads.iter().flat_map(|l| l.stretches.clone()).collect::<Vec<_>>();
        let rate = |loads: &[&WindowLoad]| quantile(all(loads), SUSTAINED);
        let (sockets, xdp) = (counted_loads(false), counted_loads(true));
        let loads = if rate(&sockets) >= rate(&xdp) { sockets } else { xdp };
        (self.qps, self.median_qps) = (rate(&loads), quantile(all(&loads), 0.5));
        self.range = range(loads.iter().map(|load| load.sustained_qps));
        self.at_least = loads.iter().filter(|load| load.limited).count() * 2 > loads.len();
    }

    /// Takes the open loads of a search into account: where at least two above the knee were answered faster, at their median,
    /// than the best load with a window, that median is the capacity.
    pub fn take_open(&mut self, trials: &[Trial]) {
        let Some((qps, (_, most))) = self.qps.zip(self.range) else { return };
        let above = |t: &&Trial| t.is_evidence() && t.rate >= qps * ABOVE && t.loss_ratio > LOSSY;
        let sustained = trials.iter().filter(above).filter_map(|t| Some(t.seen?.sustained_qps));
        let open: Vec<f64> = sustained.filter(|qps| *qps > 0.0).collect();
        let middle = quantile(open.clone(), 0.5).filter(|middle| open.len() >= 2 && *middle > most);
        if middle.is_some() {
            (self.qps, self.median_qps) = (middle, middle);
            (self.range, self.from_open_loads, self.at_least) = (range(open.into_iter()), true, false);
        }
    }

    /// The reason why the figure is limited, if it is.
    pub fn warning(&self) -> Option<Reason> {
        let Some(qps) = self.qps else {
            let why = self.loads.iter().find_map(|load| load.not_counted.clone());
            let why = why.unwrap_or_else(|| "it was cut short".into());
            return Some(Reason::new(
                "capacity_not_known",
                format!(
                    "the capacity is not known: none of {} loads counts, the first since {why}",
                    self.loads.len()
                ),
            ));
        };
        self.at_least.then(|| {
            Reason::new(
                "capacity_limited_by_generator",
                format!(
                    "the capacity is at least {qps:.0}/s and may be higher: the generator, or its window of {}, was the limit; give the \
                     generator more cores, or a larger window",
                    self.window
                ),
            )
        })
    }
}

/// The least and the most; none of nothing.
fn range(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    Some((values.clone().min_by(f64::total_cmp)?, values.max_by(f64::total_cmp)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Seen;

    fn result(qps: f64, pause_ms: u64) -> LoadResult {
        let mut r = LoadResult { duration_s: 1.0, backend: "socket".into(), ..LoadResult::default() };
        let each = (SECOND as f64 / qps) as Nanos;
        for at in (0..SECOND).step_by(each as usize) {
            if at >= pause_ms * 1_000_000 {
                r.timeline.answered(at, 100_000);
                r.counts.answered += 1;
            }
        }
        r.counts.answered_qps = r.counts.answered as f64;
        r
    }

    fn spec() -> LoadSpec {
        let source: traffic::SourceSpec = serde_json::from_str(r#"{"queries": {"path": "q"}}"#).unwrap();
        LoadSpec::new(vec!["10.53.0.1:53".parse().unwrap()], source, Pace::Flood, SECOND)
    }

    fn run(goal: &CapacityGoal, mut next: impl FnMut(usize, &LoadSpec) -> Offered) -> Capacity {
        let mut n = 0;
        let mut measure = |load: &LoadSpec| {
            n += 1;
            Ok::<_, ()>(next(n, load))
        };
        capacity(&spec(), goal, &mut measure, &mut |_, _| ()).unwrap()
    }

    #[test]
    fn a_pause_of_the_machine_does_not_change_it() {
        let goal = CapacityGoal::default();
        let found = run(&goal, |n, load| {
            assert_eq!((&load.pace, load.duration), (&Pace::Closed { window: 250 }, Some(SECOND)));
            Offered { server_idle: Some(0.01), ..result(20_000.0, if n == 2 { 300 } else { 0 }).into() }
        });
        let (low, high) = found.range.unwrap();
        assert!(found.loads[1].mean_qps < 15_000.0);
        assert!(low > 19_900.0 && high < 20_100.0 && !found.at_least, "{found:?}");
        assert_eq!(found.warning(), None);
    }

    #[test]
    fn a_generator_that_waited_does_not_matter_to_a_server_that_was_busy() {
        let preempted = || {
            let mut validity = Validity::default();
            validity.reject(Reason::new("generator_preempted", "it waited"));
            validity.reject(Reason::new("other", "something else"));
            validity
        };
        for (idle, left) in [(Some(0.02), 1), (Some(0.4), 2), (None, 2)] {
            let mut validity = preempted();
            forgive_preemption(&mut validity, idle);
            assert_eq!((validity.reasons.len(), validity.warnings.len()), (left, 2 - left), "{idle:?}");
            assert!(!validity.valid);
        }
        let mut alone = Validity::default();
        alone.reject(Reason::new("generator_preempted", "it waited"));
        forgive_preemption(&mut alone, Some(0.02));
        assert!(alone.valid && alone.warnings.len() == 1, "{alone:?}");
    }

    #[test]
    fn what_does_not_count_is_done_again_and_shown() {
        let found = run(&CapacityGoal::default(), |n, _| {
            let disturbed = (n == 1).then(|| "core 0 was away".to_owned());
            Offered { disturbed, server_idle: Some(0.0), result: result(if n == 1 { 9e3 } else { 2e4 }, 0) }
        });
        assert_eq!(found.loads.len(), 7);
        assert!(found.range.unwrap().0 > 19_000.0, "{found:?}");
        let never = run(&CapacityGoal::default(), |_, _| Offered {
            disturbed: Some("busy".into()),
            ..result(1e4, 0).into()
        });
        assert_eq!((never.qps, never.loads.len()), (None, 4));
        assert_eq!(never.warning().unwrap().code, "capacity_not_known");
    }

    #[test]
    fn where_the_generator_is_the_limit_it_goes_past_the_sockets_and_says_so() {
        let idle = |share: f64| Offered { server_idle: Some(share), ..result(50_000.0, 0).into() };
        let found = run(&CapacityGoal::default(), |_, load| match load.prefer_xdp {
            false => idle(0.4),
            true => Offered {
                server_idle: Some(0.02),
                result: LoadResult { backend: "xdp-native".into(), ..result(80_000.0, 0) },
                ..Offered::default()
            },
        });
        assert!(found.qps.unwrap() > 79_000.0 && !found.at_least, "{found:?}");
        let found = run(&CapacityGoal::default(), |_, _| idle(0.4));
        assert!(found.at_least && found.warning().unwrap().code == "capacity_limited_by_generator");
    }

    #[test]
    fn open_loads_above_the_knee_count_where_there_are_several_and_they_got_more() {
        let idle = || Offered { server_idle: Some(0.0), ..result(20_000.0, 0).into() };
        let mut found = run(&CapacityGoal::default(), |_, _| idle());
        let seen = |qps| Some(Seen { sustained_qps: qps, ..Seen::default() });
        let trial = |rate, qps| Trial {
            rate,
            duration: SECOND,
            loss_ratio: 0.3,
            valid: true,
            disturbed: false,
            seen: seen(qps),
        };
        found.take_open(&[trial(30_000.0, 25_000.0), trial(20_500.0, 40_000.0)]);
        assert!(!found.from_open_loads, "one alone, and one that is not above");
        found.take_open(&[trial(30_000.0, 25_000.0), trial(40_000.0, 24_000.0)]);
        assert!(found.from_open_loads && found.qps == Some(24_500.0), "{found:?}");
    }
}
