//! A server's processes while a load is at them, seen from beside: whether they ended, whether their cores had other work,
//! and what became of packets between their network stack and ours.

use crate::Error;
use crate::resource_counters::{Core, Counters, HostCounters, Processes, Usage, cores};
use measure::{Nanos, clock};
use serde::{Deserialize, Serialize};
use std::fs;
use std::time::Duration;

/// A server whose threads waited for their cores for less than this share of the time was not held up by others.
pub const WAITED_LIMIT: f64 = 0.01;

/// Other programs that used less of the server's cores did not hold it up, as a share of their time.
const OTHERS_LIMIT: f64 = 0.05;

/// The share of a server's cores that other programs took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OtherPrograms {
    /// Time that the server's threads waited for a core, as a share of the time that passed.
    pub waited: f64,
    /// Time that other programs ran on its cores, as a share of these cores' time; the kernel's own threads are not in it. It is
    /// the smaller of two figures. The kernel counts a core's time in programs by ticks, which is wrong by far where a server
    /// works in step with them: a query every 200 µs, with a tick every 4 ms. The time of all other programs of the machine
    /// is exact, and not of these cores alone.
    pub used: f64,
    /// All programs of the machine can be seen, so that no program of the rack counts as another one. Where they cannot, as in a
    /// container, [`Self::used`] is by ticks alone, and another server of the rack on the same cores counts.
    pub exact: bool,
}

impl OtherPrograms {
    /// Other programs were at work on the server's cores, and the server waited for them.
    pub fn disturbed(&self) -> bool {
        self.waited > WAITED_LIMIT && self.used > OTHERS_LIMIT
    }

    /// The same for a server that has other servers of the rack beside it. Where not all programs can be seen, these would count as other
    /// programs, so no program is said to have taken a core there.
    pub fn beside_servers_of_the_rack(self) -> Self {
        Self { used: if self.exact { self.used } else { 0.0 }, ..self }
    }

    /// Says what they took, as the text of a reason why a trial is invalid.
    pub fn text(&self) -> String {
        format!(
            "other programs had {:.1} % of the server's cores, and the server's threads waited for them for {:.1} % of the time",
            self.used * 100.0,
            self.waited * 100.0
        )
    }

    /// From two snapshots of a server's threads and user time and of the cores that it may use; `own` is the user time of
    /// further programs that may be there.
    pub fn between(before: &Snapshot, after: &Snapshot, own: Duration) -> Self {
        let spent = after.since(before);
        let share = |part: Duration, whole: f64| if whole > 0.0 { part.as_secs_f64() / whole } else { 0.0 };
        let by_ticks = spent.cores.user.saturating_sub(spent.user + own);
        let used = spent.others.map_or(by_ticks, |exact| exact.min(by_ticks));
        Self {
            waited: share(spent.waited, spent.passed.as_secs_f64()),
            used: share(used, spent.cores.total().as_secs_f64()),
            exact: spent.others.is_some(),
        }
    }
}

/// A server's processes and cores at an instant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// On the machine's monotonic clock.
    at: Nanos,
    pids: Vec<u32>,
    server: Usage,
    cores: Vec<Core>,
    others: Option<Duration>,
}

/// The difference between two snapshots of a server and its cores.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    /// Time that passed.
    pub passed: Duration,
    /// Time that the server's threads were on a core, the kernel's work for them included.
    pub ran: Duration,
    /// Time that they were ready to run while something else had the core.
    pub waited: Duration,
    /// Their time in programs.
    pub user: Duration,
    /// The time of its cores, added up.
    pub cores: Core,
    /// CPU time of all other programs on the machine, but ours; none where they cannot be seen.
    pub others: Option<Duration>,
}

impl Snapshot {
    /// Of these processes and their descendants, and of the cores with these numbers; the processes `ours` are no strangers.
    ///
    /// # Errors
    /// Where /proc cannot be read.
    pub fn of(roots: &[u32], cpus: &[usize], ours: &[u32]) -> Result<Self, Error> {
        let processes = Processes::now()?;
        let pids = processes.tree(roots);
        let (server, others) = (processes.usage(roots), processes.time_of_others(roots, ours));
        let mut cores = cores()?;
        cores.retain(|core| cpus.contains(&core.core));
        Ok(Self { at: clock::now(), pids, server, cores, others })
    }

    /// The server's processes that were there.
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// The difference to `before`. Threads and cores that are not in both add nothing.
    pub fn since(&self, before: &Self) -> Spent {
        let mut sum = Core::default();
        for core in &self.cores {
            let Some(earlier) = before.cores.iter().find(|c| c.core == core.core) else { continue };
            sum.add(&core.since(earlier));
        }
        Spent {
            passed: Duration::from_nanos(self.at.saturating_sub(before.at)),
            ran: self.server.ran.saturating_sub(before.server.ran),
            waited: self.server.waited.saturating_sub(before.server.waited),
            user: self.server.user.saturating_sub(before.server.user),
            cores: sum,
            others: self.others.zip(before.others).map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

/// The observations of a server during a load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// One of the processes ended.
    pub ended: bool,
    /// The share of its cores that other programs took.
    pub others: OtherPrograms,
    /// Packets that our network stack sent and the server's did not receive; 0 where both have the same.
    pub missing_there: u64,
    /// Packets that its stack sent and ours did not receive.
    pub missing_back: u64,
    /// Packets with a wrong checksum at its stack; 0 where both have the same.
    pub corrupted: u64,
    /// Datagrams that full socket buffers of its stack dropped; 0 where both have the same.
    pub buffer_drops: u64,
}

/// The network stacks of both sides.
#[derive(Debug)]
struct Stacks {
    theirs: HostCounters,
    ours: HostCounters,
    before: (Counters, Counters),
}

impl Stacks {
    /// None where the server has our stack.
    fn open(pid: u32) -> Result<Option<Self>, Error> {
        let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).ok();
        let theirs = namespace(&pid.to_string());
        if theirs.is_none() || theirs == namespace("thread-self") {
            return Ok(None);
        }
        let (theirs, ours) = (HostCounters::of(&pid.to_string())?, HostCounters::of("thread-self")?);
        let before = (theirs.read()?, ours.read()?);
        Ok(Some(Self { theirs, ours, before }))
    }

    fn tell(&self, seen: &mut Seen) -> Result<(), Error> {
        let theirs = self.theirs.read()?.since(&self.before.0);
        let ours = self.ours.read()?.since(&self.before.1);
        seen.missing_there = ours.sent_packets.saturating_sub(theirs.received_packets);
        seen.missing_back = theirs.sent_packets.saturating_sub(ours.received_packets);
        seen.corrupted = theirs.spoiled();
        seen.buffer_drops = theirs.udp_receive_buffer_errors;
        Ok(())
    }
}

/// Watches a server's processes, from now on.
#[derive(Debug)]
pub struct ServerWatch {
    roots: Vec<u32>,
    cpus: Vec<usize>,
    /// Our own program may use them too.
    near: bool,
    before: Snapshot,
    own: Duration,
    stacks: Option<Stacks>,
}

impl ServerWatch {
    /// Of these processes and their descendants, for a load from the cores `ours`.
    ///
    /// # Errors
    /// Where one of them is not there, or /proc cannot be read.
    pub fn begin(roots: &[u32], ours: &[usize]) -> Result<Self, Error> {
        for pid in roots {
            let path = format!("/proc/{pid}");
            if let Err(e) = fs::metadata(&path) {
                return Err(Error::Sample { path, message: format!("there is no such process: {e}") });
            }
        }
        let mut cpus: Vec<usize> = roots.iter().flat_map(|&pid| cpus_of(&pid.to_string())).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let near = ours.iter().any(|cpu| cpus.contains(cpu));
        let stacks = roots.first().map_or(Ok(None), |&pid| Stacks::open(pid))?;
        Ok(Self {
            before: Snapshot::of(roots, &cpus, &[std::process::id()])?,
            own: own()?,
            cpus,
            near,
            stacks,
            roots: roots.to_vec(),
        })
    }

    /// The observations until now.
    ///
    /// # Errors
    /// Where /proc cannot be read.
    pub fn seen(&self) -> Result<Seen, Error> {
        let after = Snapshot::of(&self.roots, &self.cpus, &[std::process::id()])?;
        // A generator that may use the server's cores is no stranger there.
        let own = if self.near { own()?.saturating_sub(self.own) } else { Duration::ZERO };
        let mut seen = Seen {
            ended: self.roots.iter().any(|pid| !lives(*pid)),
            others: OtherPrograms::between(&self.before, &after, own),
            ..Seen::default()
        };
        if let Some(stacks) = &self.stacks {
            stacks.tell(&mut seen)?;
        }
        Ok(seen)
    }
}

/// Our own user time.
fn own() -> Result<Duration, Error> {
    Ok(Processes::now()?.usage_of_one(std::process::id()).user)
}

/// Whether a process exists and has not ended.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().next());
    state.is_some_and(|state| !matches!(state, "Z" | "X"))
}

/// The cores that a process may use; none where the kernel does not tell.
fn cpus_of(process: &str) -> Vec<usize> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(number(from)?..=number(to)?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allowed_cpus;
    use std::process::{Child, Command, Stdio};

    /// A program that computes, pinned to the first of our cores.
    struct Busy(Child, usize);

    impl Busy {
        fn start() -> Self {
            let cpu = allowed_cpus()[0];
            let child = Command::new("taskset")
                .args(["-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"])
                .stdout(Stdio::null())
                .spawn()
                .expect("taskset of util-linux");
            Self(child, cpu)
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            let _ = self.0.kill().and_then(|()| self.0.wait());
        }
    }

    #[test]
    fn a_program_on_the_same_core_is_seen_and_the_end_of_a_process_too() {
        let server = Busy::start();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(cpus_of(&server.0.id().to_string()), [server.1]);
        let hog = Busy::start();
        let watch = ServerWatch::begin(&[server.0.id()], &[]).unwrap();
        std::thread::sleep(Duration::from_millis(600));
        let seen = watch.seen().unwrap();
        assert!(!seen.ended && seen.others.disturbed(), "{seen:?}");
        assert!(seen.others.waited > 0.2 && seen.others.used > 0.2, "{seen:?}");
        assert_eq!((seen.missing_there, seen.missing_back), (0, 0), "both have our stack");
        drop((server, hog));
        assert!(watch.seen().unwrap().ended);
    }

    #[test]
    fn a_tick_that_always_meets_the_server_is_not_another_program() {
        let second = Duration::from_secs(1);
        let snapshot = |user: Duration, others| Snapshot {
            at: user.as_nanos() as Nanos,
            pids: Vec::new(),
            server: Usage { user: user / 4, waited: user / 50, ..Usage::default() },
            cores: vec![Core { user, ..Core::default() }],
            others,
        };
        let between = |others: Option<Duration>| {
            OtherPrograms::between(
                &snapshot(Duration::ZERO, others.map(|_| second)),
                &snapshot(second, others),
                Duration::ZERO,
            )
        };
        let exact = between(Some(second + second / 100));
        assert!(exact.exact && !exact.disturbed() && (exact.used - 0.01).abs() < 1e-9, "{exact:?}");
        assert!(between(Some(3 * second)).disturbed());
        let unseen = between(None);
        assert!(!unseen.exact && unseen.disturbed() && (unseen.used - 0.75).abs() < 1e-9, "{unseen:?}");
        assert!(!unseen.beside_servers_of_the_rack().disturbed());
        assert_eq!(exact.beside_servers_of_the_rack(), exact);
    }

    #[test]
    fn a_process_that_is_not_there_is_refused() {
        let error = ServerWatch::begin(&[u32::MAX / 2], &[]).unwrap_err().to_string();
        assert!(error.contains("no such process"), "{error}");
    }

    #[test]
    fn time_of_threads_adds_up() {
        let me = [std::process::id()];
        let before = Snapshot::of(&me, &allowed_cpus(), &[]).unwrap();
        let until = clock::now() + 30_000_000;
        while clock::now() < until {
            std::hint::spin_loop();
        }
        let spent = Snapshot::of(&me, &allowed_cpus(), &[]).unwrap().since(&before);
        assert!(
            spent.ran > Duration::from_millis(1) && spent.passed >= Duration::from_millis(30),
            "{spent:?}"
        );
        let none = Snapshot::of(&[u32::MAX / 2], &[], &[]).unwrap();
        assert_eq!(none.since(&none).ran, Duration::ZERO);
    }
}
