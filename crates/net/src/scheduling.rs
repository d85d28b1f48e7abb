//! Our own side: a thread that sends, and what the kernel says about it: time that it could not run, stolen time, drops.

use crate::counters::Counters;
use crate::sys::check;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

/// A thread's scheduling, from its start: `/proc/thread-self/schedstat` and `status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// Nanoseconds that it was ready to run while something else had the core.
    pub waited: u64,
    /// How often the core was taken from it.
    pub involuntary: u64,
}

impl Scheduling {
    /// Of the calling thread; zeroes where the kernel does not tell.
    pub fn read() -> Self {
        let waited = WaitMeter::of_this_thread().waited();
        let involuntary = fs::read_to_string("/proc/thread-self/status")
            .ok()
            .and_then(|s| {
                s.lines().find_map(|l| l.strip_prefix("nonvoluntary_ctxt_switches:")?.trim().parse().ok())
            })
            .unwrap_or(0);
        Self { waited, involuntary }
    }

    /// The difference to `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            waited: self.waited.saturating_sub(before.waited),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
        }
    }

    /// Without so many nanoseconds of waiting.
    pub fn without(self, waiting: u64) -> Self {
        Self { waited: self.waited.saturating_sub(waiting), ..self }
    }

    /// Adds that of another thread.
    pub fn merge(&mut self, other: Self) {
        self.waited += other.waited;
        self.involuntary += other.involuntary;
    }
}

/// The time that one thread was ready to run while something else had its core, for a thread that asks often.
#[derive(Debug)]
pub struct WaitMeter(Option<File>);

impl WaitMeter {
    /// Of the calling thread, whoever asks.
    pub fn of_this_thread() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    /// Nanoseconds since the thread began; 0 where the kernel does not tell.
    pub fn waited(&self) -> u64 {
        let mut text = [0; 64];
        let length = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
        text.split_ascii_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

/// Clock ticks that one core spent since boot: its line `cpuN` of `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreTicks {
    /// The core's number, as the kernel gives it.
    pub core: usize,
    /// In programs, nice or not.
    pub user: u64,
    /// In the kernel, for programs.
    pub system: u64,
    /// Idle, or waiting for a disk.
    pub idle: u64,
    /// In the kernel, for interrupts and softirqs.
    pub softirq: u64,
    /// Taken by the hypervisor for others.
    pub steal: u64,
}

impl CoreTicks {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.user + self.system + self.idle + self.softirq + self.steal
    }
}

/// The cores in a text of `/proc/stat`, each with its number: a core that is offline has no line there, so the position of
/// a line does not say which core it is.
///
/// # Errors
/// The line that is not as the kernel writes it.
pub fn core_ticks(stat: &str) -> Result<Vec<CoreTicks>, String> {
    let mut cores = Vec::new();
    // The lines "cpuN" come first, after the total.
    for line in stat.lines().skip(1).map_while(|line| line.strip_prefix("cpu")) {
        let numbers: Vec<u64> = line.split_ascii_whitespace().map_while(|n| n.parse().ok()).collect();
        let [core, user, nice, system, idle, iowait, irq, softirq, steal, ..] = numbers[..] else {
            return Err(format!("unknown line 'cpu{line}'"));
        };
        cores.push(CoreTicks {
            core: core as usize,
            user: user + nice,
            system,
            idle: idle + iowait,
            softirq: irq + softirq,
            steal,
        });
    }
    Ok(cores)
}

/// Counters of the machine and of our network namespace.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Clock ticks that the hypervisor took from our cores (from all where we are not pinned), and ticks in all.
    steal: u64,
    ticks: u64,
    /// Of our namespace.
    counters: Counters,
    /// Time for which some program of the machine waited for memory, in microseconds.
    memory_stall_us: u64,
}

impl Machine {
    /// Reads the counters; what the kernel does not tell is zero.
    pub fn read(cpus: &[usize]) -> Self {
        let mut machine = Self::default();
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let cores = core_ticks(&stat).unwrap_or_default();
        for core in cores.iter().filter(|c| cpus.is_empty() || cpus.contains(&c.core)) {
            machine.steal += core.steal;
            machine.ticks += core.total();
        }
        machine.counters = Counters::read();
        machine.memory_stall_us =
            memory_stall(&fs::read_to_string("/proc/pressure/memory").unwrap_or_default());
        machine
    }

    /// Share of the time that was stolen since `before`, 0 to 1.
    pub fn stolen_since(&self, before: &Self) -> f64 {
        let ticks = self.ticks.saturating_sub(before.ticks);
        if ticks == 0 { 0.0 } else { self.steal.saturating_sub(before.steal) as f64 / ticks as f64 }
    }

    /// The counters of our namespace since `before`.
    pub fn counted_since(&self, before: &Self) -> Counters {
        self.counters.since(&before.counters)
    }

    /// Nanoseconds since `before` for which some program of the machine waited for memory.
    pub fn memory_stall_since(&self, before: &Self) -> u64 {
        self.memory_stall_us.saturating_sub(before.memory_stall_us) * 1000
    }
}

/// A core that a thread cannot be kept on.
#[derive(Debug, thiserror::Error)]
#[error("cannot run on cpu {cpu}: {error}: name one that is online and allowed to this process")]
pub struct Unpinned {
    /// The core.
    pub cpu: usize,
    /// The system's reason.
    pub error: io::Error,
}

/// Pins the calling thread, where a core is named, and makes its timers exact.
///
/// # Errors
/// The core is not online, or not allowed to this process.
pub fn settle(cpu: Option<usize>) -> Result<(), Unpinned> {
    if let Some(cpu) = cpu {
        let refused = |error: rustix::io::Errno| Unpinned { cpu, error: error.into() };
        if cpu >= rustix::thread::CpuSet::MAX_CPU {
            return Err(refused(rustix::io::Errno::INVAL));
        }
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        rustix::thread::sched_setaffinity(None, &set).map_err(refused)?;
    }
    // The kernel may otherwise delay a wake-up by 50 us to join it with others.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    Ok(())
}

/// Has the scheduler run the calling thread before all ordinary ones (`SCHED_FIFO`, the lowest such priority), so that it
/// is woken on time on a busy core.
///
/// # Errors
/// Without the privilege (root of the machine, or `RLIMIT_RTPRIO`).
pub fn run_first() -> io::Result<()> {
    run_at_priority(1)
}

/// As [`run_first`], before those that did so as well: for a thread that computes for microseconds alone.
///
/// # Errors
/// Without the privilege.
pub fn run_before_all() -> io::Result<()> {
    run_at_priority(2)
}

fn run_at_priority(sched_priority: i32) -> io::Result<()> {
    let priority = libc::sched_param { sched_priority };
    #[allow(unsafe_code)]
    // SAFETY: 0 is the calling thread; the structure outlives the call.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) }).map(drop)
}

/// The time for which some program waited for memory, in microseconds, of `/proc/pressure/memory`; 0 without that file.
fn memory_stall(text: &str) -> u64 {
    let some = text.lines().find_map(|l| l.strip_prefix("some "));
    some.and_then(|l| l.split(' ').find_map(|w| w.strip_prefix("total=")?.parse().ok())).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_memory_is_read() {
        let pressure = "some avg10=0.00 avg60=0.00 avg300=0.12 total=4711\nfull avg10=0.00 total=5\n";
        assert_eq!((memory_stall(pressure), memory_stall("")), (4711, 0));
    }

    #[test]
    fn a_core_that_is_offline_does_not_shift_the_others() {
        let text = "cpu  60 6 30 600 12 3 9 15 0 0\n\
                    cpu0 10 1 5 100 2 1 2 3 0 0\n\
                    cpu2 20 2 10 200 4 1 3 5 0 0\n\
                    cpu3 30 3 15 300 6 1 4 7 0 0\n\
                    intr 567760 0 0\nctxt 1\n";
        let cores = core_ticks(text).unwrap();
        assert_eq!(cores.iter().map(|c| (c.core, c.steal)).collect::<Vec<_>>(), [(0, 3), (2, 5), (3, 7)]);
        let two = cores[1];
        assert_eq!((two.user, two.system, two.idle, two.softirq, two.total()), (22, 10, 204, 4, 245));
        assert!(core_ticks("cpu 1\ncpu0 1 2\n").unwrap_err().contains("cpu0 1 2"));
        assert_eq!(core_ticks(""), Ok(Vec::new()));
    }

    #[test]
    fn this_machine_tells() {
        let machine = Machine::read(&[]);
        assert!(machine.ticks > 0);
        assert!(Machine::read(&[0]).ticks < machine.ticks || online() == 1);
        let before = Scheduling::read();
        std::thread::yield_now();
        assert!(Scheduling::read().since(before).waited < 60_000_000_000);
    }

    fn online() -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }
}
