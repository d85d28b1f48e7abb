//! Hardware counters of a server's threads: instructions and cycles in user mode, without the kernel's work. Unlike times they hardly
//! depend on what else the machine does. Most virtual machines have no such counters.

use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter};
use serde::{Deserialize, Serialize};

/// Counters of some events of all threads of a server, from their opening on.
pub struct HardwareCounters {
    instructions: Vec<Counter>,
    cycles: Vec<Counter>,
}

/// Counts since the counters were opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Instructions that were executed.
    pub instructions: u64,
    /// Cycles of the processor's clock meanwhile.
    pub cycles: u64,
}

impl HardwareCounters {
    /// Begins to count for the processes `pids`, and the threads that they start from now on. None where the
    /// processor has no such counters, or the kernel does not let us read them (`kernel.perf_event_paranoid`).
    pub fn begin(pids: &[u32]) -> Option<Self> {
        let threads = threads(pids);
        let instructions = open(&threads, Hardware::INSTRUCTIONS.into())?;
        Some(Self { instructions, cycles: open(&threads, Hardware::CPU_CYCLES.into())? })
    }

    /// Reads the counters. None if the processor has too few of them, so that they took turns: the kernel then only estimates.
    pub fn read(&mut self) -> Option<Counted> {
        Some(Counted { instructions: sum(&mut self.instructions)?, cycles: sum(&mut self.cycles)? })
    }
}

fn threads(pids: &[u32]) -> Vec<i32> {
    let tasks = |pid: &u32| procfs::process::Process::new(*pid as i32).and_then(|p| p.tasks());
    pids.iter().filter_map(|pid| tasks(pid).ok()).flatten().flatten().map(|task| task.tid).collect()
}

/// A counter of `event` for each thread, begun; none where one of them cannot be had.
fn open(threads: &[i32], event: Event) -> Option<Vec<Counter>> {
    let one = |thread: &i32| {
        let mut builder = Builder::new().kind(event.clone()).observe_pid(*thread).any_cpu();
        builder.inherit(true);
        let mut counter = builder.build().ok()?;
        counter.enable().ok()?;
        Some(counter)
    };
    let all: Option<Vec<Counter>> = threads.iter().map(one).collect();
    all.filter(|all| !all.is_empty())
}

fn sum(counters: &mut [Counter]) -> Option<u64> {
    let one = |counter: &mut Counter| {
        let seen = counter.read_count_and_time().ok()?;
        (seen.time_running == seen.time_enabled).then_some(seen.count)
    };
    counters.iter_mut().map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event::events::Software;

    #[test]
    fn what_threads_do_is_counted_and_what_cannot_be_counted_is_left_out() {
        let me = [std::process::id()];
        // The kernel's own counters are there without the processor's.
        let Some(mut faults) = open(&threads(&me), Software::PAGE_FAULTS.into()) else {
            eprintln!("SKIPPED: the kernel does not let us count (kernel.perf_event_paranoid)");
            return;
        };
        let before = sum(&mut faults).unwrap();
        let touched = vec![1u8; 16 << 20];
        let in_thread = std::thread::spawn(|| vec![1u8; 16 << 20].len()).join().unwrap();
        let after = sum(&mut faults).unwrap();
        assert!(after > before, "{before} {after} {} {in_thread}", touched.len());
        match HardwareCounters::begin(&me) {
            Some(mut counters) => {
                let first = counters.read();
                let spun = (0..1_000_000u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
                let more = counters.read().zip(first).map(|(b, a)| b.instructions - a.instructions);
                assert!(more.is_none_or(|more| more > 1_000_000), "{more:?} {spun}");
            }
            None => eprintln!("SKIPPED: this machine has no hardware counters"),
        }
        assert!(open(&[i32::MAX], Software::PAGE_FAULTS.into()).is_none());
        assert!(open(&[], Software::PAGE_FAULTS.into()).is_none());
    }
}
