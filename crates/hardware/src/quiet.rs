//! Was the machine quiet while something was measured? What other programs took of the cores, and the hypervisor.

use measure::Reason;
use measure::limits::PREEMPTED_LIMIT_UNPACED;
use net::scheduling::{CoreTicks, core_ticks};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// The kernel counts in ticks of this length, and a test begins and ends within one on each core.
const TICK: Duration = Duration::from_millis(10);

/// The counters when something began.
pub struct Quiet {
    cpus: Vec<usize>,
    began: Instant,
    ticks: Vec<CoreTicks>,
    ours: Duration,
}

impl Quiet {
    /// Reads the counters of these CPUs.
    pub fn begin(cpus: &[usize]) -> Self {
        Self { cpus: cpus.to_vec(), began: Instant::now(), ticks: ticks(cpus), ours: ours() }
    }

    /// Why what was measured since then is invalid; none where the machine was quiet.
    pub fn disturbed(&self) -> Option<Reason> {
        let (mut busy, mut stolen) = (Duration::ZERO, Duration::ZERO);
        for now in ticks(&self.cpus) {
            let before = self.ticks.iter().find(|before| before.core == now.core)?;
            let more = |of: fn(&CoreTicks) -> u64| TICK * of(&now).saturating_sub(of(before)) as u32;
            busy += more(|ticks| ticks.user) + more(|ticks| ticks.system);
            stolen += more(|ticks| ticks.steal);
        }
        let others = busy.saturating_sub(ours().saturating_sub(self.ours));
        of(self.began.elapsed() * self.cpus.len() as u32, TICK * 2 * self.cpus.len() as u32, others, stolen)
    }
}

/// The reason, of so much time of all cores, what others took of it, and what the ticks may be wrong by.
fn of(all: Duration, doubt: Duration, others: Duration, stolen: Duration) -> Option<Reason> {
    let limit = all.mul_f64(PREEMPTED_LIMIT_UNPACED) + doubt;
    let percent = |part: Duration| 100.0 * part.as_secs_f64() / all.as_secs_f64();
    if others > limit {
        Some(Reason::new(
            "others_ran",
            format!(
                "other programs took {:.0} % of the cores meanwhile: measure again when the machine is quiet",
                percent(others)
            ),
        ))
    } else if stolen > limit {
        Some(Reason::new(
            "stolen",
            format!("the hypervisor took {:.0} % of the cores meanwhile: measure again", percent(stolen)),
        ))
    } else {
        None
    }
}

fn ticks(cpus: &[usize]) -> Vec<CoreTicks> {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let mut all = core_ticks(&text).unwrap_or_default();
    all.retain(|core| cpus.contains(&core.core));
    all
}

/// The CPU time of this process.
fn ours() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_and_the_hypervisor_make_it_invalid() {
        let ms = Duration::from_millis;
        let code = |others, stolen| of(ms(2_000), ms(40), ms(others), ms(stolen)).map(|reason| reason.code);
        assert_eq!(code(99, 99), None);
        assert_eq!(code(101, 0).as_deref(), Some("others_ran"));
        assert_eq!(code(0, 101).as_deref(), Some("stolen"));
        assert!(Quiet::begin(&[]).disturbed().is_none());
    }
}
