//! This machine and its abilities: kept with every run as `environment.json`, and checked by `doctor`.

use crate::steering::Steering;
use crate::{Error, link};
use net::ns::{self, Namespaces};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The machine of a run. Sizes in bytes; texts as the kernel gives them; `None` where it does not say.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// When this was looked at, seconds since 1970 UTC.
    pub unix_time: u64,
    /// Name of the machine.
    pub hostname: String,
    /// The kernel's release and build.
    pub kernel: String,
    /// The distribution.
    pub os: Option<String>,
    /// The instruction set.
    pub architecture: String,
    /// The processor's model.
    pub cpu_model: Option<String>,
    /// How many CPUs are online.
    pub cpus: usize,
    /// The CPUs that this process may use.
    pub cpus_allowed: Vec<usize>,
    /// CPUs that share a core with another one, as the kernel lists them; one entry a core.
    pub cpu_siblings: Vec<String>,
    /// Memory.
    pub memory: u64,
    /// Memory that could be used now without swapping.
    pub memory_available: u64,
    /// Swap space.
    pub swap: u64,
    /// Limits that a container sets: the contents of cpu.max and memory.max.
    pub limits: BTreeMap<String, String>,
    /// The hypervisor, if the processor says that there is one.
    pub hypervisor: Option<String>,
    /// Share of all CPU time since boot that the hypervisor gave to others, in percent.
    pub steal_percent: f64,
    /// Processes that wanted a core, mean of the last minute.
    pub load_average: f64,
    /// The clock in use.
    pub clocksource: Option<String>,
    /// The frequency governor; none: the frequency is not ours to set.
    pub governor: Option<String>,
    /// Transparent huge pages.
    pub huge_pages: Option<String>,
    /// The kernel's mitigation of each processor fault; it costs time in each system call.
    pub mitigations: BTreeMap<String, String>,
    /// By how much the kernel may delay our timers, in nanoseconds.
    pub timer_slack_ns: Option<u64>,
    /// Settings that change figures; those of the machine, not of a namespace. Missing: not to be seen.
    pub sysctls: BTreeMap<String, String>,
    /// The abilities that can be used here.
    pub abilities: Abilities,
    /// How each host of the rack was made to receive on its own CPUs; empty without a rack.
    pub steering: Vec<Steering>,
}

/// Whether something can be used, and the reason.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Ability {
    /// Whether it was tried with success.
    pub available: bool,
    /// How, or why not.
    pub detail: String,
}

impl Ability {
    fn of<E: std::fmt::Display>(result: Result<impl Into<String>, E>) -> Self {
        match result {
            Ok(detail) => Self { available: true, detail: detail.into() },
            Err(e) => Self { available: false, detail: e.to_string() },
        }
    }
}

/// The abilities of this machine, each tried.
#[derive(Clone, Debug, Serialize)]
pub struct Abilities {
    /// Whether we are root where this was looked at; in a user namespace that is not root of the machine.
    pub root: bool,
    /// Whether we are in a user namespace of our own.
    pub user_namespace: bool,
    /// Making user namespaces (racks without root).
    pub user_namespaces: Ability,
    /// Making network namespaces, here and now.
    pub network_namespaces: Ability,
    /// The queueing discipline netem (impairments by the kernel).
    pub netem: Ability,
    /// The queueing discipline fq (pacing by the kernel).
    pub fq: Ability,
    /// Opening an AF_XDP socket; its program needs root too where `bpf_needs_root`.
    pub af_xdp: Ability,
    /// Whether loading BPF programs needs root (`kernel.unprivileged_bpf_disabled`).
    pub bpf_needs_root: bool,
}

/// Looks at this machine. `steering`: what [`crate::Rack::steering`] tells, or nothing.
pub fn environment(steering: &[Steering]) -> Environment {
    let (info, system) = (rustix::system::sysinfo(), rustix::system::uname());
    let text = |s: &std::ffi::CStr| s.to_string_lossy().into_owned();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = crate::resource_counters::cores().unwrap_or_default();
    let all: f64 = cores.iter().map(|c| c.total().as_secs_f64()).sum();
    let stolen: f64 = cores.iter().map(|c| c.steal.as_secs_f64()).sum();
    let available = fs::read_to_string("/proc/meminfo").ok().and_then(|t| {
        let line = t.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    });
    let unit = u64::from(info.mem_unit);
    Environment {
        unix_time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs()),
        hostname: text(system.nodename()),
        kernel: format!("{} {}", text(system.release()), text(system.version())),
        os: crate::root::release(Path::new("/etc/os-release")),
        architecture: text(system.machine()),
        cpu_model: cpuinfo_value(&cpuinfo, "model name"),
        cpus: cores.len(),
        cpus_allowed: crate::process::allowed_cpus(),
        cpu_siblings: siblings(),
        memory: info.totalram * unit,
        memory_available: available.map_or(info.freeram * unit, |kb| kb * 1024),
        swap: info.totalswap * unit,
        limits: limits(),
        hypervisor: hypervisor(&cpuinfo),
        steal_percent: if all > 0.0 { 100.0 * stolen / all } else { 0.0 },
        load_average: info.loads[0] as f64 / 65536.0,
        clocksource: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        huge_pages: line("/sys/kernel/mm/transparent_hugepage/enabled"),
        mitigations: mitigations(),
        timer_slack_ns: line("/proc/self/timerslack_ns").and_then(|t| t.parse().ok()),
        sysctls: SYSCTLS_BEFORE.get().cloned().unwrap_or_else(read_sysctls),
        abilities: abilities(),
        steering: steering.to_vec(),
    }
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

fn cpuinfo_value(cpuinfo: &str, key: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|l| l.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn siblings() -> Vec<String> {
    let lists = (0..4096)
        .map_while(|cpu| line(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")));
    let distinct: std::collections::BTreeSet<String> = lists.collect();
    distinct.into_iter().collect()
}

/// Limits of our control group and of those above it, where the hierarchy shows.
fn limits() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let Some(own) = fs::read_to_string("/proc/self/cgroup").ok() else { return found };
    let Some(path) = own.lines().find_map(|l| l.strip_prefix("0::/")) else { return found };
    for folder in Path::new(path).ancestors() {
        for file in ["cpu.max", "memory.max"] {
            let path = Path::new("/sys/fs/cgroup").join(folder).join(file);
            if let Some(value) = line(&path.to_string_lossy())
                && !value.starts_with("max")
            {
                found.entry(path.display().to_string()).or_insert(value);
            }
        }
    }
    found
}

fn hypervisor(cpuinfo: &str) -> Option<String> {
    let flagged = cpuinfo_value(cpuinfo, "flags")?.split(' ').any(|flag| flag == "hypervisor");
    let named = ["/sys/hypervisor/type", "/sys/class/dmi/id/product_name", "/sys/class/dmi/id/sys_vendor"];
    flagged.then(|| named.iter().find_map(|path| line(path)).unwrap_or_else(|| "unnamed".into()))
}

fn mitigations() -> BTreeMap<String, String> {
    let folder = Path::new("/sys/devices/system/cpu/vulnerabilities");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let read =
        entries.filter_map(|e| Some((e.file_name().into_string().ok()?, line(&e.path().to_string_lossy())?)));
    read.filter(|(_, state)| state != "Not affected").collect()
}

/// Settings of the machine that change figures.
const SYSCTLS: [&str; 20] = [
    "fs.file-max",
    "kernel.numa_balancing",
    "kernel.sched_autogroup_enabled",
    "kernel.timer_migration",
    "kernel.unprivileged_bpf_disabled",
    "net.core.busy_poll",
    "net.core.default_qdisc",
    "net.core.dev_weight",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.udp_mem",
    "user.max_net_namespaces",
    "user.max_user_namespaces",
    "vm.swappiness",
];

static SYSCTLS_BEFORE: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// Keeps the machine's settings for later: in a network namespace of our own most of `net.core` is hidden.
pub(crate) fn remember_sysctls() {
    let _ = SYSCTLS_BEFORE.set(read_sysctls());
}

fn read_sysctls() -> BTreeMap<String, String> {
    let read = |&key: &&str| Some((key.to_owned(), line(&format!("/proc/sys/{}", key.replace('.', "/")))?));
    SYSCTLS.iter().filter_map(read).collect()
}

/// Tries what can be used here.
pub fn abilities() -> Abilities {
    let bpf = line("/proc/sys/kernel/unprivileged_bpf_disabled");
    Abilities {
        root: rustix::process::geteuid().is_root(),
        user_namespace: in_user_namespace(),
        user_namespaces: Ability::of(try_user_namespace()),
        network_namespaces: Ability::of(ns::new_net_namespace().map(|_| "can be made")),
        netem: Ability::of(try_qdisc("netem")),
        fq: Ability::of(try_qdisc("fq")),
        af_xdp: Ability::of(ns::try_xdp_socket().map(|()| "a socket can be opened")),
        bpf_needs_root: bpf.is_none_or(|value| value != "0"),
    }
}

/// The machine's own user namespace maps all ids onto themselves.
pub(crate) fn in_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_ascii_whitespace().collect::<Vec<_>>() != ["0", "0", "4294967295"]
}

/// A child makes one for itself: we may have several threads, with which it is not allowed.
fn try_user_namespace() -> Result<&'static str, std::io::Error> {
    let mut command = Command::new("true");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let kinds = Namespaces::USER | Namespaces::NET | Namespaces::PID;
    ns::prepare(&mut command, ns::Entry { unshare: Some(kinds), ..Default::default() })?;
    command.status().map(|_| "can be made")
}

/// In a namespace that is thrown away; without privilege the answer is that it cannot be tried.
pub(crate) fn try_qdisc(kind: &str) -> Result<&'static str, Error> {
    let namespace = ns::new_net_namespace().map_err(|e| Error::Link {
        doing: format!("try {kind}: make a network namespace"),
        message: e.to_string(),
        hint: "",
    })?;
    link::try_qdisc(namespace.as_fd(), link::LOOPBACK, kind)?;
    Ok("can be used")
}

/// How late the kernel wakes us.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Jitter {
    /// Half of the wake-ups were no later than this, in µs.
    pub median_us: f64,
    /// 99 % were no later.
    pub p99_us: f64,
    /// The latest.
    pub max_us: f64,
    /// How many wake-ups were looked at.
    pub rounds: usize,
}

/// Sleeps until every next millisecond, for `duration` (at least 10 ms), and looks how late it wakes up.
pub fn jitter(duration: Duration) -> Jitter {
    let step = Duration::from_millis(1);
    let rounds = duration.as_millis().max(10) as u32;
    let start = Instant::now();
    let mut late: Vec<f64> = (1..=rounds)
        .map(|round| {
            let until = start + step * round;
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            Instant::now().saturating_duration_since(until).as_secs_f64() * 1e6
        })
        .collect();
    late.sort_by(f64::total_cmp);
    let at = |share: f64| late[((late.len() as f64 * share).ceil() as usize).clamp(1, late.len()) - 1];
    Jitter { median_us: at(0.5), p99_us: at(0.99), max_us: at(1.0), rounds: late.len() }
}

/// Memory in bytes that could be used now without swapping.
pub fn memory_available() -> Result<u64, Error> {
    use procfs::Current;
    let error = |message: String| Error::Sample { path: "/proc/meminfo".into(), message };
    let info = procfs::Meminfo::current().map_err(|e| error(e.to_string()))?;
    info.mem_available.ok_or_else(|| error("it does not say what is available".into()))
}

/// Bytes that we may still write on the file system of `path`.
pub fn disk_available(path: &Path) -> Result<u64, Error> {
    let stat = rustix::fs::statvfs(path).map_err(|e| Error::Sample {
        path: path.display().to_string(),
        message: std::io::Error::from(e).to_string(),
    })?;
    Ok(stat.f_bavail * stat.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described_in_full() {
        let seen = environment(&[]);
        assert!(seen.cpus >= 1 && !seen.cpus_allowed.is_empty() && !seen.cpu_siblings.is_empty());
        assert!(seen.memory > 0 && seen.memory_available <= seen.memory);
        assert!(seen.kernel.contains('.') && seen.clocksource.is_some());
        assert!((0.0..=100.0).contains(&seen.steal_percent));
        let json = serde_json::to_value(&seen).unwrap();
        for key in ["netem", "fq", "af_xdp", "user_namespaces", "network_namespaces"] {
            assert!(
                json["abilities"][key]["detail"].as_str().is_some_and(|t| !t.is_empty()),
                "{key}: {json}"
            );
        }
    }

    #[test]
    fn a_made_up_queueing_discipline_is_not_there() {
        if let Err(e) = ns::new_net_namespace() {
            eprintln!("SKIPPED: no privilege to make a network namespace: {e}");
            return;
        }
        assert!(try_qdisc("pfifo").is_ok());
        let reason = try_qdisc("nosuch").unwrap_err().to_string();
        assert!(reason.contains("nosuch"), "{reason}");
    }

    #[test]
    fn wake_ups_are_in_order() {
        let seen = jitter(Duration::from_millis(30));
        assert_eq!(seen.rounds, 30);
        assert!(seen.median_us <= seen.p99_us && seen.p99_us <= seen.max_us, "{seen:?}");
        assert!(disk_available(Path::new("/")).unwrap() > 0);
    }
}
