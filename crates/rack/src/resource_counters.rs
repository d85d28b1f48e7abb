//! The machine's counters: time of each core, a server's CPU time and memory, and packets dropped on the way.
//!
//! Everything is a snapshot of counters since boot or start; `since` takes an earlier snapshot and gives the
//! difference. A round of all of them costs well below a millisecond per ten processes.

use crate::{Error, Host};
pub use net::counters::Counters;
use procfs::ProcError;
use procfs::process::Process;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

fn error(path: impl ToString, message: impl ToString) -> Error {
    Error::Sample { path: path.to_string(), message: message.to_string() }
}

fn ticks(n: u64) -> Duration {
    let per_second = procfs::ticks_per_second().max(1);
    Duration::from_nanos((u128::from(n) * 1_000_000_000 / u128::from(per_second)) as u64)
}

/// Time one core spent, since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Core {
    /// The core's number.
    pub core: usize,
    /// In programs, nice or not.
    pub user: Duration,
    /// In the kernel, for programs.
    pub system: Duration,
    /// In the kernel, for interrupts and softirqs: receiving packets is here.
    pub softirq: Duration,
    /// Taken by the hypervisor for others.
    pub steal: Duration,
    /// Doing nothing, or waiting for a disk.
    pub idle: Duration,
}

impl Core {
    /// The time spent since `earlier`.
    pub fn since(&self, earlier: &Core) -> Core {
        Core {
            core: self.core,
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            softirq: self.softirq.saturating_sub(earlier.softirq),
            steal: self.steal.saturating_sub(earlier.steal),
            idle: self.idle.saturating_sub(earlier.idle),
        }
    }

    /// Adds the time of another core.
    pub fn add(&mut self, other: &Core) {
        self.user += other.user;
        self.system += other.system;
        self.softirq += other.softirq;
        self.steal += other.steal;
        self.idle += other.idle;
    }

    /// All of it.
    pub fn total(&self) -> Duration {
        self.user + self.system + self.softirq + self.steal + self.idle
    }

    /// `part` (one of its fields) in percent of all; 0 when no time has passed.
    pub fn percent(&self, part: Duration) -> f64 {
        let total = self.total().as_secs_f64();
        if total > 0.0 { 100.0 * part.as_secs_f64() / total } else { 0.0 }
    }
}

/// The time of every core that is online. Resolution: 1/100 s on most kernels.
pub fn cores() -> Result<Vec<Core>, Error> {
    let text = std::fs::read_to_string("/proc/stat").map_err(|e| error("/proc/stat", e))?;
    let cores = net::scheduling::core_ticks(&text).map_err(|e| error("/proc/stat", e))?;
    let core = |c: net::scheduling::CoreTicks| Core {
        core: c.core,
        user: ticks(c.user),
        system: ticks(c.system),
        softirq: ticks(c.softirq),
        steal: ticks(c.steal),
        idle: ticks(c.idle),
    };
    Ok(cores.into_iter().map(core).collect())
}

/// The resources that processes and all their descendants use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// How many processes they are.
    pub processes: u32,
    /// How many threads.
    pub threads: u64,
    /// CPU time in programs, of children that were waited for too.
    pub user: Duration,
    /// CPU time in the kernel, of children that were waited for too.
    pub system: Duration,
    /// Resident memory in bytes; pages that several share count for each.
    pub rss: u64,
    /// Times a thread gave its core up.
    pub voluntary_switches: u64,
    /// Times a thread's core was taken.
    pub involuntary_switches: u64,
    /// Time that threads computed, to the nanosecond; of threads that are there.
    pub ran: Duration,
    /// Time that threads were ready to run while something else had the core.
    pub waited: Duration,
    /// Bytes that had to be read from storage.
    pub disk_read: u64,
    /// Bytes that were given to storage, or will be.
    pub disk_written: u64,
    /// Addresses of all maps, in bytes.
    pub virtual_size: u64,
}

impl Usage {
    /// User and system time.
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }
}

/// The flag of a thread of the kernel's own (`PF_KTHREAD`), of `/proc/PID/stat`.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// The process table of the machine, and our number in it, from before a run was confined: afterwards /proc has the run's own
/// processes alone.
static OUTSIDE: OnceLock<(File, u32)> = OnceLock::new();

/// Keeps the machine's process table, so that [`Processes::time_of_others`] works in a confined run.
pub(crate) fn remember_processes() {
    if let Ok(table) = File::open("/proc") {
        let _ = OUTSIDE.set((table, std::process::id()));
    }
}

/// All processes that can be seen (in a confined run: its own), as the base for [`Processes::usage`].
pub struct Processes(Vec<(Process, procfs::process::Stat)>);

impl Processes {
    /// Reads the process table.
    pub fn now() -> Result<Self, Error> {
        Self::in_table("/proc")
    }

    fn in_table(path: &str) -> Result<Self, Error> {
        let all = procfs::process::all_processes_with_root(path).map_err(|e| error(path, e))?;
        // A process may end while we look: then it is not one of them.
        Ok(Self(all.flatten().filter_map(|p| p.stat().ok().map(|stat| (p, stat))).collect()))
    }

    /// CPU time of all programs of the machine but the processes `roots` with their descendants, and the processes `others`
    /// without theirs; of a confined run, but everything that belongs to the run. Children that were waited for are in it. None
    /// where not all processes can be seen, as in a container.
    pub fn time_of_others(&self, roots: &[u32], others: &[u32]) -> Option<Duration> {
        match OUTSIDE.get() {
            None => self.time_of_all_but(roots, others),
            Some((table, run)) => {
                let path = format!("/proc/self/fd/{}", table.as_raw_fd());
                Self::in_table(&path).ok()?.time_of_all_but(&[*run], &[])
            }
        }
    }

    /// The processes `roots` and their descendants (those whose parent has ended belong to nobody).
    pub fn tree(&self, roots: &[u32]) -> Vec<u32> {
        let mut found: Vec<i32> = roots.iter().map(|&pid| pid as i32).collect();
        found.retain(|pid| self.0.iter().any(|(_, stat)| stat.pid == *pid));
        let mut next = 0;
        while next < found.len() {
            for (_, stat) in &self.0 {
                if stat.ppid == found[next] && !found.contains(&stat.pid) {
                    found.push(stat.pid);
                }
            }
            next += 1;
        }
        found.into_iter().map(|pid| pid as u32).collect()
    }

    /// The usage of these processes and their descendants. All zero when none of them is there any more.
    pub fn usage(&self, roots: &[u32]) -> Usage {
        let mut sum = Usage::default();
        for pid in self.tree(roots) {
            self.add(pid, &mut sum);
        }
        sum
    }

    fn time_of_all_but(&self, roots: &[u32], others: &[u32]) -> Option<Duration> {
        // The parent of the kernel's own threads.
        self.0.iter().find(|(_, stat)| stat.pid == 2 && stat.flags & KERNEL_THREAD != 0)?;
        let mut left_out = self.tree(roots);
        left_out.extend(others);
        let counts = |stat: &procfs::process::Stat| {
            stat.flags & KERNEL_THREAD == 0 && !left_out.contains(&(stat.pid as u32))
        };
        let all = self.0.iter().map(|(_, stat)| stat).filter(|stat| counts(stat));
        Some(all.map(|stat| cpu_times(stat).into_iter().sum::<Duration>()).sum())
    }

    /// The usage of one process by itself.
    pub fn usage_of_one(&self, pid: u32) -> Usage {
        let mut sum = Usage::default();
        self.add(pid, &mut sum);
        sum
    }

    fn add(&self, pid: u32, sum: &mut Usage) {
        let Some((process, stat)) = self.0.iter().find(|(_, stat)| stat.pid == pid as i32) else { return };
        sum.processes += 1;
        sum.threads += stat.num_threads.max(0) as u64;
        let [user, system] = cpu_times(stat);
        sum.user += user;
        sum.system += system;
        sum.rss += stat.rss * procfs::page_size();
        sum.virtual_size += stat.vsize;
        if let Ok(io) = process.io() {
            sum.disk_read += io.read_bytes;
            sum.disk_written += io.write_bytes.saturating_sub(io.cancelled_write_bytes);
        }
        for task in process.tasks().into_iter().flatten().flatten() {
            if let Ok(s) = task.schedstat() {
                sum.ran += Duration::from_nanos(s.sum_exec_runtime);
                sum.waited += Duration::from_nanos(s.run_delay);
            }
            if let Ok(status) = task.status() {
                sum.voluntary_switches += status.voluntary_ctxt_switches.unwrap_or(0);
                sum.involuntary_switches += status.nonvoluntary_ctxt_switches.unwrap_or(0);
            }
        }
    }
}

/// Time in programs and in the kernel, of children that were waited for too.
fn cpu_times(stat: &procfs::process::Stat) -> [Duration; 2] {
    [(stat.utime, stat.cutime), (stat.stime, stat.cstime)]
        .map(|(own, children)| ticks(own + children.max(0) as u64))
}

/// Time that the threads of these processes were on a core since they began, to the nanosecond. Threads and processes that are not
/// there any more are not in it.
pub fn ran(pids: &[u32]) -> Duration {
    let tasks =
        pids.iter().filter_map(|&pid| Process::new(pid as i32).ok()?.tasks().ok()).flatten().flatten();
    tasks.filter_map(|task| task.schedstat().ok()).map(|s| Duration::from_nanos(s.sum_exec_runtime)).sum()
}

/// How long we wait before we read the memory of processes again.
const READ_AGAIN: Duration = Duration::from_millis(100);

/// Proportional memory (PSS) in bytes of the processes that `list` gives: a page shared by n counts 1/n for each. The kernel
/// walks all their pages: some 10 ms per GB, so ask once a trial rather than once a second.
///
/// We do not use a reading during which a process ends, because the pages that it shared with the others may still be counted as
/// shared. We then read again, for as long as `patience`: a process that gives back gigabytes can take seconds to end.
///
/// # Errors
/// If a process belongs to another user, or if processes ended during every reading.
pub fn pss(patience: Duration, list: impl Fn() -> Vec<u32>) -> Result<u64, Error> {
    let until = Instant::now() + patience;
    loop {
        match list().into_iter().map(pss_of_one).sum::<Result<u64, _>>() {
            Err(ProcError::NotFound(_)) if Instant::now() < until => std::thread::sleep(READ_AGAIN),
            Err(e) => return Err(error("/proc", e)),
            Ok(sum) => return Ok(sum),
        }
    }
}

/// `NotFound` is said of a process that is gone, and of one that is ending and has given up its memory.
fn pss_of_one(pid: u32) -> Result<u64, ProcError> {
    let process = Process::new(pid as i32)?;
    // A process that has ended and is not yet waited for has no memory.
    if process.stat()?.state == 'Z' {
        return Ok(0);
    }
    let rollup = process.smaps_rollup()?;
    let maps = rollup.memory_map_rollup.iter();
    Ok(maps.filter_map(|map| map.extension.map.get("Pss")).sum())
}

/// Packets that the machine dropped since a core's backlog was full, since boot; zero where the kernel does not tell.
pub fn backlog_dropped() -> u64 {
    softnet().map(|cores| cores.iter().map(|core| core.dropped).sum()).unwrap_or_default()
}

/// Per-core counters of the kernel's receive backlog, since boot, for the whole machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Softnet {
    /// The core's number.
    pub core: usize,
    /// Packets taken in.
    pub processed: u64,
    /// Packets dropped since the backlog (`net.core.netdev_max_backlog`) was full.
    pub dropped: u64,
    /// Times the budget ran out with packets left.
    pub squeezed: u64,
}

/// The backlog's counters, core by core.
pub fn softnet() -> Result<Vec<Softnet>, Error> {
    let path = "/proc/thread-self/net/softnet_stat";
    let text = std::fs::read_to_string(path).map_err(|e| error(path, e))?;
    backlogs(&text).map_err(|line| error(path, format!("unknown line '{line}'")))
}

/// The lines of `softnet_stat`. Only cores that are online have one; since Linux 5.10 its thirteenth number is the core's.
fn backlogs(text: &str) -> Result<Vec<Softnet>, &str> {
    let line = |(position, line): (usize, &str)| {
        let numbers: Option<Vec<u64>> =
            line.split_ascii_whitespace().map(|n| u64::from_str_radix(n, 16).ok()).collect();
        let numbers = numbers?;
        let [processed, dropped, squeezed, ..] = numbers[..] else { return None };
        let core = numbers.get(12).map_or(position, |&core| core as usize);
        Some(Softnet { core, processed, dropped, squeezed })
    };
    text.lines().enumerate().map(|l| line(l).ok_or(l.1)).collect()
}

/// The counters of one host, opened once: such a file stays with the namespace in which it was opened, so a
/// reading later needs no thread there.
#[derive(Debug)]
pub struct HostCounters {
    host: String,
    snmp: File,
    snmp6: File,
    devices: File,
}

impl HostCounters {
    /// Opens the host's counters.
    pub fn open(host: &Host) -> Result<Self, Error> {
        let open = |name: &str| File::open(format!("/proc/thread-self/net/{name}"));
        let files = host.run_in(|| Ok((open("snmp")?, open("snmp6")?, open("dev")?)))?;
        let (snmp, snmp6, devices) = files.map_err(|e| host.error("open its counters", e))?;
        Ok(Self { host: host.name.clone(), snmp, snmp6, devices })
    }

    /// Opens the counters of the network stack that a process has: its number, or `thread-self`.
    ///
    /// # Errors
    /// Where the process is gone, or another user's.
    pub fn of(process: &str) -> Result<Self, Error> {
        let open = |name: &str| {
            let path = format!("/proc/{process}/net/{name}");
            File::open(&path).map_err(|e| error(path, e))
        };
        let host = format!("of process {process}");
        Ok(Self { host, snmp: open("snmp")?, snmp6: open("snmp6")?, devices: open("dev")? })
    }

    /// Reads them.
    pub fn read(&self) -> Result<Counters, Error> {
        let text = |file: &File| {
            whole(file).map_err(|source| Error::Host {
                host: self.host.clone(),
                doing: "read its counters".into(),
                source,
            })
        };
        Counters::parse(&text(&self.snmp)?, &text(&self.snmp6)?, &text(&self.devices)?)
            .map_err(|file| error(format!("/proc/net/{file}"), "unknown shape"))
    }
}

/// A file of /proc from its start; the kernel writes it again for that.
fn whole(file: &File) -> io::Result<String> {
    let mut bytes = vec![0; 8192];
    let mut filled = 0;
    loop {
        match file.read_at(&mut bytes[filled..], filled as u64)? {
            0 => break,
            n => filled += n,
        }
        if filled == bytes.len() {
            bytes.resize(2 * filled, 0);
        }
    }
    bytes.truncate(filled);
    String::from_utf8(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_those_that_the_machine_has_and_time_goes_on() {
        let before = cores().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let after = cores().unwrap();
        assert!(!before.is_empty());
        assert_eq!(before.len(), after.len());
        let spent: Duration = after.iter().zip(&before).map(|(a, b)| a.since(b).total()).sum();
        assert!(spent > Duration::ZERO);
        let core = after[0];
        let parts = [core.user, core.system, core.softirq, core.steal, core.idle];
        let sum: f64 = parts.iter().map(|&part| core.percent(part)).sum();
        assert!((sum - 100.0).abs() < 1e-6, "{sum}");
    }

    #[test]
    fn a_process_that_has_ended_takes_no_memory() {
        let me = std::process::id();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let zombie = Process::new(ended.id() as i32).unwrap();
        while zombie.stat().unwrap().state != 'Z' {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(pss(Duration::ZERO, || vec![ended.id()]).unwrap(), 0);
        assert!(pss(Duration::ZERO, || vec![me, ended.id()]).unwrap() > 100_000);
        ended.wait().unwrap();
        // It is gone: the first lists that have it are not used, and one that always has it is an error.
        let lists = std::cell::Cell::new(0);
        let list = || {
            lists.set(lists.get() + 1);
            if lists.get() < 3 { vec![me, ended.id()] } else { vec![me] }
        };
        assert!(pss(Duration::from_secs(60), list).unwrap() > 100_000);
        assert_eq!(lists.get(), 3);
        let error = pss(Duration::from_millis(1), || vec![me, ended.id()]).unwrap_err().to_string();
        assert!(error.contains(&format!("/proc/{}", ended.id())), "{error}");
    }

    #[test]
    fn our_own_use_shows_work_and_memory() {
        let me = std::process::id();
        let before = Processes::now().unwrap().usage(&[me]);
        let mut memory = vec![1u8; 64 << 20];
        let until = Instant::now() + Duration::from_millis(60);
        while Instant::now() < until {
            memory.iter_mut().step_by(4096).for_each(|b| *b = b.wrapping_add(1));
        }
        let after = Processes::now().unwrap().usage(&[me]);
        assert!(after.cpu() > before.cpu(), "{before:?} {after:?}");
        assert!(after.rss > before.rss + (32 << 20), "{before:?} {after:?}");
        let pss = pss(Duration::ZERO, || vec![me]).unwrap();
        assert!(pss > 64 << 20 && pss <= after.rss + (32 << 20), "{pss} {after:?}");
        drop(memory);
        assert_eq!(Processes::now().unwrap().usage(&[u32::MAX / 2]), Usage::default());
    }

    #[test]
    fn counters_see_a_datagram_without_a_port_and_a_full_buffer() {
        let host = Host::loopback();
        let counters = HostCounters::open(&host).unwrap();
        let before = counters.read().unwrap();
        let receiver = host.udp_socket("127.0.0.1:0".parse().unwrap()).unwrap();
        let sender = host.udp_socket("127.0.0.1:0".parse().unwrap()).unwrap();
        for _ in 0..20_000 {
            sender.send_to(&[0; 512], receiver.local_addr().unwrap()).unwrap();
        }
        let seen = counters.read().unwrap().since(&before);
        assert!(seen.udp_sent >= 20_000, "{seen:?}");
        assert!(seen.udp_receive_buffer_errors > 0 && seen.drops() > 0, "{seen:?}");
    }

    #[test]
    fn the_backlog_has_a_line_for_each_core() {
        let backlogs = softnet().unwrap();
        assert!(backlogs.iter().any(|core| core.processed > 0));
        let numbers = |all: Vec<usize>| all.into_iter().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(
            numbers(backlogs.iter().map(|c| c.core).collect()),
            numbers(cores().unwrap().iter().map(|c| c.core).collect())
        );
    }

    #[test]
    fn the_backlog_of_a_core_is_found_by_its_number() {
        let text =
            "0000000a 1 2 0 0 0 0 0 0 0 0 0 00000000 0 0\n000012e2 3 4 0 0 0 0 0 0 0 0 0 00000002 0 0\n";
        let cores = backlogs(text).unwrap();
        assert_eq!(cores.iter().map(|c| (c.core, c.dropped)).collect::<Vec<_>>(), [(0, 1), (2, 3)]);
        assert_eq!(backlogs("1 2 3\n4 5 6\n").unwrap()[1].core, 1);
        assert_eq!(backlogs("1 2\n"), Err("1 2"));
    }
}
