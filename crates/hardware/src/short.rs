//! The short form of the measurement, which every run keeps in `environment.json`: figures of memory and kernel, measured once after each boot
//! of the machine, in a few seconds.

use crate::{Bench, Facts, Measured, Options, memory, system};
use crate::{Point, quiet::Quiet};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// After this time a measurement that was disturbed is made again.
const AGAIN: Duration = Duration::from_mins(10);

/// Figures of a machine. What cannot be measured there is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Short {
    /// When they were measured, in seconds since 1970.
    pub unix_time: u64,
    /// Nanoseconds of a load from memory that depends on the one before, by the octets that are gone through in random order: of each cache,
    /// and in the end of memory. With pages of 4 KB, on the first core.
    pub latency_ns: BTreeMap<u64, f64>,
    /// The last one of these.
    pub memory_latency_ns: Option<f64>,
    /// Megaoctets per second of STREAM's triad, by the number of threads.
    pub triad_mb_s: BTreeMap<usize, f64>,
    /// The last one of these: of all cores.
    pub memory_bandwidth_mb_s: Option<f64>,
    /// Nanoseconds of a system call that does nothing.
    pub system_call_ns: Option<f64>,
    /// Nanoseconds of a message to another thread by a pipe, on one core: a context switch, a read and a write.
    pub message_ns: Option<f64>,
    /// The same to a thread on another core, which is woken.
    pub message_to_other_core_ns: Option<f64>,
    /// Why the figures are not to be trusted: other programs ran.
    pub disturbed: Option<String>,
    /// What was left out, and why.
    pub left_out: Vec<String>,
}

/// What is in the user's cache.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// The boot that the figures were measured after, as the kernel names it.
    boot: String,
    /// The CPUs that the process which measured them could use.
    cpus: Vec<usize>,
    short: Short,
}

impl Kept {
    /// Whether they are the figures of the machine at `now`, after `boot`, for a process that may use `cpus`. A process that was confined to a
    /// part of the machine has measured that part alone.
    fn are_true(&self, now: u64, boot: &str, cpus: &[usize]) -> bool {
        let again = self.short.disturbed.is_some() && now >= self.short.unix_time + AGAIN.as_secs();
        self.boot == boot && cpus.iter().all(|cpu| self.cpus.contains(cpu)) && !again
    }
}

/// The figures of this machine: those that are kept in the user's cache, or else measured now. It takes a few seconds: the first time after a boot,
/// ten minutes after a time when the machine was not quiet, and where the process may use CPUs that the one which measured could not.
pub fn short() -> Short {
    let file = place();
    // Of several processes one measures, and the others wait for it.
    let _lock = file.as_ref().and_then(|file| {
        fs::create_dir_all(file.parent()?).ok()?;
        let lock = File::options().create(true).append(true).open(file.with_extension("lock")).ok()?;
        lock.lock().ok().map(|()| lock)
    });
    let text = file.as_ref().and_then(|file| fs::read(file).ok());
    let (now, boot, cpus) = (unix_time(), boot(), rack::allowed_cpus());
    let kept = text.and_then(|text| serde_json::from_slice::<Kept>(&text).ok());
    if let Some(kept) = kept.filter(|kept| kept.are_true(now, &boot, &cpus)) {
        return kept.short;
    }
    let kept = Kept { short: Short { unix_time: now, ..measured() }, boot, cpus };
    if let Some(file) = file {
        // A cache that cannot be written costs time the next time.
        let _ = measure::aside::write(&file, serde_json::to_vec(&kept).expect("plain data"));
    }
    kept.short
}

/// This machine's part of `environment.json`: [`rack::Environment`], and under `hardware` the figures of [`short`].
pub fn environment(machine: &rack::Environment) -> Value {
    let mut environment = json!(machine);
    environment["hardware"] = json!(short());
    environment
}

/// The file that keeps them.
fn place() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("dnsrack/hardware.json"))
}

fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Measures this machine.
fn measured() -> Short {
    // One hardware thread of each core.
    let cpus = rack::topology::cores().iter().map(|core| core.cpus[0]).collect();
    let options = Options { repeats: 1, cpus, folder: PathBuf::new() };
    let bench = Bench { options: &options, facts: &Facts::read(), brief: true };
    let quiet = Quiet::begin(&options.cpus);
    let tests = [memory::latency, memory::stream, system::calls, system::switches];
    // Each on a thread of its own, so that ours is left where it is.
    let done: Vec<Measured> = std::thread::scope(|scope| {
        let bench = &bench;
        let one = |test: fn(&Bench<'_>) -> Measured| scope.spawn(move || test(bench)).join();
        tests.into_iter().map(|test| one(test).expect("a test does not panic")).collect()
    });
    let all = || done.iter().flat_map(|measured| &measured.points);
    let case = |name: &str| all().find(|point| point.case == name).map(|point| point.value.value);
    let latency = |point: &Point| Some((point.working_set?, point.value.value));
    let latency_ns: BTreeMap<_, _> = done[0].points.iter().filter_map(latency).collect();
    let triads = done[1].points.iter().filter(|point| point.case == memory::TRIAD);
    let triad_mb_s: BTreeMap<_, _> = triads.map(|point| (point.threads, point.value.value)).collect();
    Short {
        memory_latency_ns: latency_ns.last_key_value().map(|(_, ns)| *ns),
        latency_ns,
        memory_bandwidth_mb_s: triad_mb_s.last_key_value().map(|(_, rate)| *rate),
        triad_mb_s,
        system_call_ns: case(system::CALL),
        message_ns: case(system::ON_ONE_CORE),
        message_to_other_core_ns: case(system::TO_ANOTHER_CORE),
        disturbed: quiet.disturbed().map(|reason| reason.text),
        left_out: done.iter().flat_map(|measured| measured.left_out.clone()).collect(),
        ..Short::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_figures_are_measured_again_after_a_boot_a_disturbance_or_with_fewer_cpus() {
        let quiet = Short { unix_time: 1_000, ..Short::default() };
        let kept = Kept { boot: "a".into(), cpus: vec![0, 2], short: quiet.clone() };
        assert!(kept.are_true(1_000_000, "a", &[0, 2]) && kept.are_true(1_000, "a", &[2]));
        assert!(!kept.are_true(1_000, "b", &[0, 2]), "another boot");
        assert!(!kept.are_true(1_000, "a", &[0, 1]), "CPU 1 was not measured");
        let kept = Kept { short: Short { disturbed: Some("busy".into()), ..quiet }, ..kept };
        assert!(kept.are_true(1_599, "a", &[0]) && !kept.are_true(1_600, "a", &[0]));
    }

    #[test]
    fn the_short_form_has_what_the_long_one_has_and_is_kept_in_json() {
        let short = measured();
        assert!(short.latency_ns.len() >= 3 || !short.left_out.is_empty(), "{short:?}");
        assert_eq!(short.memory_latency_ns, short.latency_ns.values().next_back().copied());
        assert!(short.system_call_ns.is_some_and(|ns| ns > 1.0), "{short:?}");
        assert!(short.memory_bandwidth_mb_s.is_some_and(|rate| rate > 1.0), "{short:?}");
        let text = serde_json::to_string(&short).unwrap();
        assert_eq!(serde_json::from_str::<Short>(&text).unwrap(), short);
    }
}
