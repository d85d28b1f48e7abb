//! Is the machine quiet before a trial begins?

use crate::Error;
use crate::request::{At, Request};
use measure::{Nanos, Reason};
use rack::resource_counters::{self, Core};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A core that is busier than this, in percent, disturbs what is measured on it.
const BUSY: f64 = 10.0;

/// Over which time cores are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Waits until these cores are quiet, or for so long; then the reason why they are not.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settle {
    /// The cores.
    pub cores: Vec<usize>,
    /// The longest wait; 0: none.
    pub patience: Nanos,
}

impl Request for Settle {
    const NAME: &'static str = "Settle";
    type Answer = Option<Reason>;

    fn act(self, at: &At<'_>) -> Result<Option<Reason>, Error> {
        Ok(wait(&self.cores, self.patience, at.stop))
    }
}

fn wait(cores: &[usize], patience: Nanos, stop: &AtomicBool) -> Option<Reason> {
    let patience = Duration::from_nanos(patience);
    if patience.is_zero() {
        return None;
    }
    let began = Instant::now();
    loop {
        // Where the kernel does not tell there is nothing to wait for.
        let before = resource_counters::cores().ok()?;
        std::thread::sleep(LOOK);
        let busiest = busiest(&before, &resource_counters::cores().ok()?, cores)?;
        if busiest.1 <= BUSY || stop.load(Ordering::Relaxed) {
            return None;
        }
        if began.elapsed() >= patience {
            return Some(Reason::new(
                "unsettled",
                format!(
                    "core {} was {:.0} % busy with something else before the trial began, and for {} s",
                    busiest.0,
                    busiest.1,
                    patience.as_secs()
                ),
            ));
        }
    }
}

/// The core that did most, and how much of its time in percent.
fn busiest(before: &[Core], after: &[Core], cores: &[usize]) -> Option<(usize, f64)> {
    let busy = |core: &usize| {
        let find = |all: &[Core]| all.iter().find(|c| c.core == *core).copied();
        let spent = find(after)?.since(&find(before)?);
        Some((*core, 100.0 - spent.percent(spent.idle)))
    };
    cores.iter().filter_map(busy).max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_core_is_found() {
        let core = |core, user, idle| Core {
            core,
            user: Duration::from_millis(user),
            idle: Duration::from_millis(idle),
            ..Core::default()
        };
        let before = [core(0, 100, 100), core(1, 0, 0), core(2, 0, 0)];
        let after = [core(0, 110, 290), core(1, 150, 50), core(2, 200, 0)];
        assert_eq!(busiest(&before, &after, &[0, 1]), Some((1, 75.0)));
        assert_eq!(busiest(&before, &after, &[0]), Some((0, 5.0)));
        assert_eq!(busiest(&before, &after, &[7]), None);
    }
}
