//! Our own side: a thread that sends, and what the kernel says about it: time that it could not run, stolen time, drops.

use crate::sys::check;
use procfs::CurrentSI;
use std::fs;
use std::io;

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
        let waited = fs::read_to_string("/proc/thread-self/schedstat")
            .ok()
            .and_then(|s| s.split_whitespace().nth(1)?.parse().ok())
            .unwrap_or(0);
        let involuntary = fs::read_to_string("/proc/thread-self/status")
            .ok()
            .and_then(|s| {
                s.lines().find_map(|l| l.strip_prefix("nonvoluntary_ctxt_switches:")?.trim().parse().ok())
            })
            .unwrap_or(0);
        Self { waited, involuntary }
    }

    /// What happened since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            waited: self.waited.saturating_sub(before.waited),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
        }
    }

    /// Adds that of another thread.
    pub fn merge(&mut self, other: Self) {
        self.waited += other.waited;
        self.involuntary += other.involuntary;
    }
}

/// Counters of the machine and of our network namespace.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Clock ticks that the hypervisor took from our cores (from all where we are not pinned), and ticks in all.
    steal: u64,
    ticks: u64,
    /// Datagrams that full receive buffers dropped anywhere in our namespace.
    receive_buffer_errors: u64,
    /// Datagrams that full send buffers dropped anywhere in our namespace.
    send_buffer_errors: u64,
}

impl Machine {
    /// Reads the counters; what the kernel does not tell is zero.
    pub fn read(cpus: &[usize]) -> Self {
        let mut machine = Self::default();
        if let Ok(stat) = procfs::KernelStats::current() {
            let all = stat.cpu_time.iter().enumerate();
            for (_, cpu) in all.filter(|(i, _)| cpus.is_empty() || cpus.contains(i)) {
                machine.steal += cpu.steal.unwrap_or(0);
                machine.ticks += cpu.user + cpu.nice + cpu.system + cpu.idle;
                machine.ticks +=
                    [cpu.iowait, cpu.irq, cpu.softirq, cpu.steal].into_iter().flatten().sum::<u64>();
            }
        }
        let v4 = fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
        let v6 = fs::read_to_string("/proc/thread-self/net/snmp6").unwrap_or_default();
        machine.receive_buffer_errors = snmp(&v4, "RcvbufErrors") + snmp6(&v6, "Udp6RcvbufErrors");
        machine.send_buffer_errors = snmp(&v4, "SndbufErrors") + snmp6(&v6, "Udp6SndbufErrors");
        machine
    }

    /// Share of the time that was stolen since `before`, 0 to 1.
    pub fn stolen_since(&self, before: &Self) -> f64 {
        let ticks = self.ticks.saturating_sub(before.ticks);
        if ticks == 0 { 0.0 } else { self.steal.saturating_sub(before.steal) as f64 / ticks as f64 }
    }

    /// Receive and send buffer errors of the namespace since `before`.
    pub fn buffer_errors_since(&self, before: &Self) -> (u64, u64) {
        (
            self.receive_buffer_errors.saturating_sub(before.receive_buffer_errors),
            self.send_buffer_errors.saturating_sub(before.send_buffer_errors),
        )
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
    let priority = libc::sched_param { sched_priority: 1 };
    #[allow(unsafe_code)]
    // SAFETY: 0 is the calling thread; the structure outlives the call.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) }).map(drop)
}

/// A UDP counter of `/proc/net/snmp`: a line of names, then a line of values.
fn snmp(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|l| l.starts_with("Udp:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let at = names.split_whitespace().position(|n| n == name);
    at.and_then(|at| values.split_whitespace().nth(at)?.parse().ok()).unwrap_or(0)
}

/// A counter of `/proc/net/snmp6`: `name value` a line.
fn snmp6(text: &str, name: &str) -> u64 {
    text.lines().find_map(|l| l.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let text =
            "Tcp: A B\nTcp: 1 2\nUdp: InDatagrams RcvbufErrors SndbufErrors\nUdp: 306 62 5\nUdpLite: X\n";
        assert_eq!((snmp(text, "RcvbufErrors"), snmp(text, "SndbufErrors"), snmp(text, "None")), (62, 5, 0));
        assert_eq!(snmp6("Udp6InErrors 1\nUdp6RcvbufErrors      \t 42\n", "Udp6RcvbufErrors"), 42);
        assert_eq!((snmp("", "x"), snmp6("", "x")), (0, 0));
    }

    #[test]
    fn this_machine_tells() {
        let machine = Machine::read(&[]);
        assert!(machine.ticks > 0);
        assert!(Machine::read(&[0]).ticks < machine.ticks || procfs_cores() == 1);
        let before = Scheduling::read();
        std::thread::yield_now();
        assert!(Scheduling::read().since(before).waited < 60_000_000_000);
    }

    fn procfs_cores() -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }
}
