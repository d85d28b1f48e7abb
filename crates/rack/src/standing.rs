//! Racks that stay up for work by hand, until they are taken down.
//!
//! Each has a folder with its record, `rack.json`, written last: `/run/dnsrack/NAME` for root, else
//! `$XDG_RUNTIME_DIR/dnsrack/NAME` or `/tmp/dnsrack-UID/NAME`. What keeps the namespaces alive:
//!
//! - root: each is mounted on a file in the folder (a pin). They stay until taken down, or until a restart.
//! - without root a mount would not be seen outside its user namespace: there a *holder* does it, a background
//!   process that has a descriptor of each and sleeps. The record has its process id and when it started.
//!
//! Where there are paths, a background process on the router emulates them ([`crate::path::keep`]), and writes what they did
//! to `paths.json` beside the record, once a second.

use crate::path::{Emulation, PathSpec, Plan, Report, keep};
use crate::spec::{ROUTER, SWITCH, check_name};
use crate::steering::Steering;
use crate::{Error, Rack, RackSpec, confine, environment};
use net::ns;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A host of a standing rack.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StandingHost {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The CPUs of its programs; empty: any.
    pub cpus: Vec<usize>,
    /// The file that stands for its network namespace.
    pub namespace: PathBuf,
}

/// A process that belongs to a rack: its holder without root, its emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot: tells it from a later process with its id.
    pub started: u64,
}

impl Holder {
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let stat =
            procfs::process::Process::new(pid as i32).and_then(|p| p.stat()).map_err(io::Error::other)?;
        Ok(Self { pid, started: stat.starttime })
    }

    /// Whether it still runs.
    pub fn alive(self) -> bool {
        Self::of(self.pid).is_ok_and(|now| now == self)
    }
}

/// A rack that stands until `rack down`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StandingRack {
    /// Its name.
    pub name: String,
    /// Its hosts.
    pub hosts: Vec<StandingHost>,
    /// How each host was made to receive on its own CPUs.
    pub steering: Vec<Steering>,
    /// The file that stands for the switch's network namespace, where there is a switch.
    pub switch: Option<PathBuf>,
    /// The process that keeps it; none: pins do.
    pub holder: Option<Holder>,
    /// Its paths, where it has any.
    #[serde(default)]
    pub paths: Option<Box<StandingPaths>>,
}

/// The paths of a standing rack.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StandingPaths {
    /// Their specifications.
    pub paths: Vec<PathSpec>,
    /// How they are made.
    pub emulation: Emulation,
    /// The CPUs of the emulator; empty: any.
    pub cpus: Vec<usize>,
    /// The process that emulates them.
    pub emulator: Option<Holder>,
}

/// A process in a standing rack.
#[derive(Clone, Debug, Serialize)]
pub struct Inside {
    /// The host that it is on.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// Its command line.
    pub command: String,
}

const RECORD: &str = "rack.json";
const REPORT: &str = "paths.json";

/// Where the user's racks are kept.
pub fn folder() -> PathBuf {
    let uid = rustix::process::geteuid();
    if uid.is_root() && !environment::in_user_namespace() {
        return "/run/dnsrack".into();
    }
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| p.is_dir());
    own.map_or_else(|| format!("/tmp/dnsrack-{}", uid.as_raw()).into(), |p| p.join("dnsrack"))
}

pub(crate) fn failed<'a>(rack: &'a str, doing: impl Into<String>) -> impl FnOnce(io::Error) -> Error + 'a {
    let doing = doing.into();
    move |source| Error::StandingRack { rack: rack.into(), doing, source }
}

/// Makes a rack and keeps it under `name`. On an error nothing is left of it.
pub fn up(spec: &RackSpec, name: &str) -> Result<StandingRack, Error> {
    spec.check()?;
    check_name("rack", name)?;
    let all = folder();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&all)
        .map_err(failed(name, all.display().to_string()))?;
    let owner = fs::symlink_metadata(&all).map_err(failed(name, all.display().to_string()))?.uid();
    if owner != rustix::process::geteuid().as_raw() {
        let doing = format!("{} belongs to user {owner}; set XDG_RUNTIME_DIR", all.display());
        return Err(failed(name, doing)(io::ErrorKind::PermissionDenied.into()));
    }
    let own = all.join(name);
    // Whichever process makes the folder first takes the name.
    fs::create_dir(&own).map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => Error::Taken { name: name.into() },
        _ => failed(name, own.display().to_string())(e),
    })?;
    let privileged = rustix::process::geteuid().is_root()
        && !environment::in_user_namespace()
        && ns::new_net_namespace().is_ok();
    let made = if privileged { pin(spec, name, &own) } else { hold_apart(spec, name, &own) };
    if made.is_err() {
        let _ = remove(name, &own);
    }
    made
}

fn describe(rack: &Rack, name: &str, holder: Option<Holder>, file: impl Fn(&str) -> PathBuf) -> StandingRack {
    let host = |host: &crate::Host| StandingHost {
        name: host.name.clone(),
        addresses: host.addresses(),
        cpus: host.cpus.clone(),
        namespace: file(&host.name),
    };
    StandingRack {
        name: name.into(),
        hosts: rack.hosts().iter().map(host).collect(),
        steering: rack.steering().to_vec(),
        switch: rack.has_switch().then(|| file(if rack.router().is_some() { ROUTER } else { SWITCH })),
        holder,
        paths: rack.emulation().map(|emulation| {
            Box::new(StandingPaths {
                paths: Vec::new(),
                emulation: emulation.clone(),
                cpus: rack.router().map(|router| router.cpus.clone()).unwrap_or_default(),
                emulator: None,
            })
        }),
    }
}

/// Starts the emulator where there are paths, and keeps the record: the emulator ends if we do before this.
fn complete(mut standing: StandingRack, spec: &RackSpec, own: &Path) -> Result<StandingRack, Error> {
    let mut emulator = None;
    if let Some(paths) = &mut standing.paths {
        paths.paths = spec.paths.clone();
    }
    if standing.paths.is_some() {
        let plan = Plan::of(spec);
        let started = keep::start(standing.entry(ROUTER)?, &standing.name, &plan, &own.join(REPORT))?;
        if let Some(paths) = &mut standing.paths {
            paths.emulator = Some(started.process());
        }
        emulator = Some(started);
    }
    record(&standing, own)?;
    emulator.map_or(Ok(()), |emulator| emulator.keep(&standing.name))?;
    Ok(standing)
}

fn pin(spec: &RackSpec, name: &str, own: &Path) -> Result<StandingRack, Error> {
    let rack = Rack::up(spec)?;
    for (what, fd) in rack.namespaces() {
        let file = own.join(what);
        let from = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        File::create(&file)
            .and_then(|_| ns::bind_mount(&from, &file))
            .map_err(failed(name, format!("pin {}", file.display())))?;
    }
    complete(describe(&rack, name, None, |what| own.join(what)), spec, own)
}

fn record(standing: &StandingRack, own: &Path) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(standing).expect("a record is plain data") + "\n";
    let written = measure::aside::write(&own.join(RECORD), text);
    written.map_err(failed(&standing.name, "write its record"))
}

/// Starts this program again as holder (see [`hold`]) and waits for its word.
fn hold_apart(spec: &RackSpec, name: &str, own: &Path) -> Result<StandingRack, Error> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["rack", "hold"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.current_dir("/");
    let entry = ns::Entry { session: true, ..Default::default() };
    ns::prepare(&mut command, entry).map_err(failed(name, "start its holder"))?;
    let mut child = command.spawn().map_err(failed(name, "start its holder"))?;
    let made = talk(&mut child, spec, name, own);
    if made.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    made
}

fn talk(child: &mut Child, spec: &RackSpec, name: &str, own: &Path) -> Result<StandingRack, Error> {
    let (mut to, from) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let mut spec = spec.clone();
    spec.name = Some(name.into());
    let text = serde_json::to_string(&spec).expect("a specification is plain data");
    let mut line = String::new();
    writeln!(to, "{text}")
        .and_then(|()| BufReader::new(from).read_line(&mut line))
        .map_err(failed(name, "talk with its holder"))?;
    let answer: Result<StandingRack, String> = serde_json::from_str(&line)
        .map_err(|_| Error::Holder(format!("rack {name}: its holder ended without a word")))?;
    let standing = complete(answer.map_err(Error::Holder)?, &spec, own)?;
    // The holder ends if we do before this.
    writeln!(to, "kept").map_err(failed(name, "talk with its holder"))?;
    Ok(standing)
}

/// The holder's whole life (the program's hidden command `rack hold`): reads the specification, makes the rack,
/// tells how that went, and sleeps until it is killed. Must be called before the process has any threads.
pub fn hold() -> Result<(), Error> {
    let mut lines = io::stdin().lines();
    let mut next = || lines.next().and_then(Result::ok);
    let spec = next().and_then(|line| serde_json::from_str::<RackSpec>(&line).ok());
    let spec = spec.ok_or_else(|| Error::Holder("rack hold: no specification on standard input".into()))?;
    let made = confine::unshare_privileged(ns::Namespaces::NET).and_then(|_| {
        let rack = Rack::up(&spec)?;
        let name = spec.name.as_deref().unwrap_or("rack");
        let own = Holder::of(std::process::id()).map_err(failed(name, "read /proc"))?;
        let standing = describe(&rack, name, Some(own), |what| {
            let fd = rack.namespaces().find(|(n, _)| *n == what).map_or(-1, |(_, fd)| fd.as_raw_fd());
            format!("/proc/{}/fd/{fd}", own.pid).into()
        });
        Ok((rack, standing))
    });
    let word = made.as_ref().map(|(_, standing)| standing).map_err(ToString::to_string);
    let text = serde_json::to_string(&word).expect("plain data");
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    if written.is_err() || made.is_err() || next().is_none() {
        return Ok(());
    }
    loop {
        std::thread::park(); // with the rack in `made`
    }
}

/// All kept racks of this user, by name. One that was interrupted while it was made has no hosts.
pub fn all() -> Vec<StandingRack> {
    let folder = folder();
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut found: Vec<StandingRack> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let text = fs::read_to_string(entry.path().join(RECORD)).unwrap_or_default();
            let broken = StandingRack {
                switch: Some(entry.path().join(SWITCH)),
                hosts: Vec::new(),
                steering: Vec::new(),
                holder: None,
                paths: None,
                name,
            };
            Some(serde_json::from_str(&text).unwrap_or(broken))
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The kept rack of this name; without a name, the only one.
pub fn find(name: Option<&str>) -> Result<StandingRack, Error> {
    let mut all = all();
    match name {
        Some(name) => {
            let found = all.into_iter().find(|standing| standing.name == name);
            found.ok_or_else(|| Error::NoRack { name: format!("{name} ") })
        }
        None if all.len() > 1 => Err(Error::Ambiguous { names: all.into_iter().map(|k| k.name).collect() }),
        None => all.pop().ok_or(Error::NoRack { name: String::new() }),
    }
}

impl StandingRack {
    /// Whether it is really there: not after a restart of the machine, or when its holder was killed.
    pub fn alive(&self) -> bool {
        let held = self.holder.is_none_or(Holder::alive);
        held && !self.hosts.is_empty() && self.hosts.iter().all(|host| is_namespace(&host.namespace))
    }

    /// Whether its paths are open: its emulator is there. Without one nothing passes between the hosts that they join.
    pub fn paths_open(&self) -> bool {
        self.paths.as_ref().is_some_and(|paths| paths.emulator.is_some_and(Holder::alive))
    }

    /// The report of its paths up to the last full second.
    pub fn paths_report(&self) -> Option<Report> {
        let text = fs::read_to_string(folder().join(&self.name).join(REPORT)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The processes in it (that we may look at).
    pub fn processes(&self) -> Vec<Inside> {
        let inodes: Vec<(u64, &str)> = if self.alive() || self.holder.is_none() {
            let hosts = self.hosts.iter().map(|host| (host.namespace.as_path(), host.name.as_str()));
            let name = if self.paths.is_some() { ROUTER } else { SWITCH };
            let switch = self.switch.iter().map(|path| (path.as_path(), name));
            let places = hosts.chain(switch).filter(|(path, _)| is_namespace(path));
            places.filter_map(|(path, name)| Some((fs::metadata(path).ok()?.ino(), name))).collect()
        } else {
            Vec::new()
        };
        inside(&inodes, self.holder)
    }

    /// Becomes `program` with `args` on a host of this rack, on that host's CPUs: returns only if that fails.
    /// Must be called before the process has any threads.
    pub fn exec(&self, host: &str, program: &OsString, args: &[OsString]) -> Error {
        match self.entry(host) {
            Err(error) => error,
            Ok(_) if !crate::process::found(program.as_ref(), Path::new("."), None) => {
                Error::NoProgram { program: program.to_string_lossy().into(), host: host.into() }
            }
            Ok(entry) => {
                let mut command = Command::new(program);
                if let Err(e) = ns::prepare(&mut command, entry) {
                    return failed(&self.name, format!("enter host {host}"))(e);
                }
                let source = command.args(args).exec();
                Error::Start { program: program.to_string_lossy().into(), host: host.into(), source }
            }
        }
    }

    fn entry(&self, host: &str) -> Result<ns::Entry, Error> {
        let router = self.paths.as_ref().filter(|_| host == ROUTER).zip(self.switch.as_ref());
        let router = router.map(|(paths, namespace)| (namespace, &paths.cpus));
        let found = self.hosts.iter().find(|h| h.name == host).map(|h| (&h.namespace, &h.cpus));
        let (namespace, cpus) = found.or(router).ok_or_else(|| Error::NoHost {
            rack: self.name.clone(),
            host: host.into(),
            hosts: self.hosts.iter().map(|h| h.name.clone()).collect(),
        })?;
        if !self.alive() {
            let doing =
                format!("it is gone (a restart?); `dnsrack rack down {}` clears its record", self.name);
            return Err(failed(&self.name, doing)(io::ErrorKind::NotFound.into()));
        }
        let open = |path: PathBuf| -> Result<OwnedFd, Error> {
            let file = File::open(&path).map_err(failed(&self.name, path.display().to_string()))?;
            Ok(file.into())
        };
        let user = match self.holder {
            Some(holder) => {
                let path = PathBuf::from(format!("/proc/{}/ns/user", holder.pid));
                // To enter the user namespace that we are in is an error.
                let same = fs::read_link(&path).ok() == fs::read_link("/proc/self/ns/user").ok();
                if same { None } else { Some(open(path)?) }
            }
            None => None,
        };
        let net = Some(open(namespace.clone())?);
        Ok(ns::Entry { user, net, cpus: cpus.clone(), ..Default::default() })
    }

    /// Takes it down: ends every process in it (SIGTERM, SIGKILL two seconds later), then its holder or its
    /// pins, then its record. Works on what is half there, too.
    pub fn down(&self) -> Result<(), Error> {
        let me = std::process::id();
        let ours = self.processes();
        if ours.iter().any(|process| process.pid == me) {
            let source = io::Error::from(io::ErrorKind::ResourceBusy);
            return Err(failed(&self.name, "we are inside it; take it down from outside")(source));
        }
        let grace = Instant::now() + Duration::from_secs(2);
        let end = grace + Duration::from_secs(10);
        let send = |list: &[Inside], signal| {
            for pid in list.iter().filter_map(|p| Pid::from_raw(p.pid as i32)) {
                let _ = kill_process(pid, signal);
            }
        };
        send(&ours, Signal::TERM);
        loop {
            let left = self.processes();
            let now = Instant::now();
            if left.is_empty() {
                break;
            }
            if now > end {
                let names: Vec<String> = left.iter().map(|p| format!("{} ({})", p.pid, p.command)).collect();
                let doing = format!("processes do not end: {}", names.join(", "));
                return Err(failed(&self.name, doing)(io::ErrorKind::TimedOut.into()));
            }
            if now > grace {
                send(&left, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if let Some(holder) = self.holder
            && holder.alive()
            && let Some(pid) = Pid::from_raw(holder.pid as i32)
        {
            kill_process(pid, Signal::KILL).map_err(|e| failed(&self.name, "end its holder")(e.into()))?;
        }
        remove(&self.name, &folder().join(&self.name))
    }
}

/// Removes a rack's folder with its pins.
fn remove(name: &str, own: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(own).into_iter().flatten().flatten() {
        while is_namespace(&entry.path()) {
            ns::unmount(&entry.path()).map_err(failed(name, format!("unpin {}", entry.path().display())))?;
        }
    }
    match fs::remove_dir_all(own) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed(name, own.display().to_string())(e)),
        _ => Ok(()),
    }
}

/// Whether the file stands for a namespace.
fn is_namespace(path: &Path) -> bool {
    const NSFS_MAGIC: i64 = 0x6e73_6673;
    rustix::fs::statfs(path).is_ok_and(|stat| stat.f_type == NSFS_MAGIC)
}

/// The processes in network namespaces with these inodes, but for the holder.
fn inside(inodes: &[(u64, &str)], holder: Option<Holder>) -> Vec<Inside> {
    let mut found = Vec::new();
    if inodes.is_empty() {
        return found;
    }
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(inode) = fs::metadata(entry.path().join("ns/net")).map(|m| m.ino()) else { continue };
        let Some((_, host)) = inodes.iter().find(|(i, _)| *i == inode) else { continue };
        if holder.is_some_and(|holder| holder.pid == pid) {
            continue;
        }
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if line.is_empty() {
            continue; // a zombie, or it has just ended
        }
        let words = line.split(|&b| b == 0).filter(|word| !word.is_empty());
        let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
        found.push(Inside { host: (*host).into(), pid, command: words.join(" ") });
    }
    found
}
