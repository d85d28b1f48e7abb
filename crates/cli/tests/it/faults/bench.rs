//! A rack with a real NSD, perhaps behind a proxy with a fault, and a generator; and what is done to them during a load.

use super::proxy::{Kind, Proxy};
use crate::rack::User;
use crate::write;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SERVER: &str = "10.53.0.1";

/// A process that is killed when dropped.
pub struct Running(pub Child);

impl Running {
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let all =
            rack::resource_counters::Processes::now().map(|p| p.tree(&[self.pid()])).unwrap_or_default();
        all.into_iter().for_each(|pid| send(pid, Signal::KILL));
        let _ = self.0.wait();
    }
}

fn send(pid: u32, signal: Signal) {
    let _ = Pid::from_raw(pid as i32).map(|pid| kill_process(pid, signal));
}

/// The zone that the server is configured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The zone.
    Zone,
    /// The zone, with an older serial.
    Stale,
    /// Another zone.
    Other,
    /// No server runs.
    Nothing,
}

/// A disturbance while the load runs, or around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    None,
    /// SIGSTOP to all of the server's processes, SIGCONT after 50 ms.
    Pause,
    /// The server is killed and started again.
    Restart,
    /// Two other programs compute on the generator's core.
    StarveGenerator,
    /// Two other programs compute on the server's core.
    ShareServerCore,
    /// A control group with less memory than its programs work with.
    Memory,
    /// The generator's wall clock is set forward by 50 ms.
    Clock,
}

/// Everything that a fault needs.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub served: Served,
    pub proxy: Option<Kind>,
    /// Keys of a `[[paths]]` table between both hosts; none: a cable.
    pub path: Option<&'static str>,
    /// Commands on the server's host before the server starts; `DEVICE` is its network device.
    pub on_server: &'static [&'static str],
    pub disturbance: Disturbance,
    /// Flags of `load run`, beside the usual ones.
    pub flags: &'static [&'static str],
}

/// A rack that is up, with its server.
pub struct Bench {
    user: User,
    setting: Setting,
    cpus: (usize, usize),
    server: Option<Running>,
    proxy: Option<Running>,
    clock: Option<PathBuf>,
}

impl Bench {
    /// Brings everything up; none, said loudly, where this machine cannot do it.
    pub fn up(setting: Setting) -> Option<Self> {
        let allowed = rack::allowed_cpus();
        let (&first, &last) = (allowed.first()?, allowed.last()?);
        if first == last {
            eprintln!("SKIPPED: server and generator need a core each");
            return None;
        }
        let user = User::all("f").into_iter().next()?;
        let mut text = format!(
            "[[hosts]]\nname = \"server\"\ncpus = [{first}]\n[[hosts]]\nname = \"generator\"\ncpus = [{last}]\n"
        );
        if let Some(path) = setting.path {
            write!(
                text,
                "[router]\ncpus = [{first}]\n[[paths]]\nbetween = [\"server\", \"generator\"]\n{path}\n"
            )
            .expect("a string");
        }
        user.up_with(&text);
        let mut bench = Self { user, setting, cpus: (first, last), server: None, proxy: None, clock: None };
        bench.files();
        for command in setting.on_server {
            let command = command.replace("DEVICE", &bench.device());
            let done = bench.on("server", &["sh", "-c", &command]).output().expect("it starts");
            assert!(done.status.success(), "{command}: {done:?}");
        }
        if setting.disturbance == Disturbance::Clock {
            bench.clock = Some(crate::luck::clock::library(bench.user.folder.path())?);
        }
        if setting.disturbance == Disturbance::Memory && Group::folder().is_none() {
            eprintln!("SKIPPED: no control group for memory can be made here");
            return None;
        }
        if setting.served != Served::Nothing {
            bench.server = Some(bench.nsd());
            bench.proxy = setting.proxy.map(|kind| {
                let at = |port: u16| format!("{SERVER}:{port}").parse().expect("an address");
                let proxy = Proxy { listen: at(53), server: at(5300), kind };
                let mut command = proxy.command(bench.on("server", &[]));
                Running(command.stderr(Stdio::null()).spawn().expect("the proxy starts"))
            });
            bench.ready();
        }
        Some(bench)
    }

    /// Zones and queries.
    fn files(&self) {
        let zone = |serial: u32| {
            let mut text = format!(
                "$ORIGIN example.\n@ 3600 SOA ns.example. h.example. {serial} 1800 900 604800 3600\n@ 3600 NS ns\n\
                 ns 3600 A {SERVER}\n"
            );
            for n in 0..200 {
                writeln!(text, "name{n} 3600 A 192.0.2.{n}").expect("a string");
            }
            for n in 0..5 {
                writeln!(text, "big 3600 TXT \"{n}{}\"", "x".repeat(180)).expect("a string");
            }
            text
        };
        let folder = &self.user.folder;
        write(folder, "zone", &zone(2));
        write(folder, "stale", &zone(1));
        write(folder, "other", &zone(2).replace("example.", "other."));
        let names = (0..200).map(|n| format!("name{n}.example. A\n"));
        let soas = std::iter::repeat_n("example. SOA\n".to_owned(), 20);
        write(folder, "queries", &names.chain(soas).collect::<String>());
        write(folder, "large", "big.example. TXT\n");
        for (name, zone, origin) in [
            ("zone.conf", "zone", "example."),
            ("stale.conf", "stale", "example."),
            ("other.conf", "other", "other."),
        ] {
            let port = if self.setting.proxy.is_some() { 5300 } else { 53 };
            let config = format!(
                "server:\n username: \"\"\n database: \"\"\n zonesdir: \"{}\"\n pidfile: \"\"\n xfrdfile: \"\"\n \
                 zonelistfile: \"\"\n ip-address: {SERVER}@{port}\n server-count: 1\n \
                 rrl-ratelimit: 0\n rrl-whitelist-ratelimit: 0\nremote-control:\n control-enable: no\n\
                 zone:\n name: \"{origin}\"\n zonefile: \"{zone}\"\n",
                folder.path().display()
            );
            write(folder, name, &config);
        }
    }

    fn path(&self, name: &str) -> String {
        self.user.folder.path().join(name).display().to_string()
    }

    /// A command on a host of the rack.
    fn on(&self, host: &str, command: &[&str]) -> Command {
        self.user.command(&[&["exec", "--rack", &self.user.name, host], command].concat())
    }

    /// The network device of host server.
    fn device(&self) -> String {
        let devices = self.on("server", &["cat", "/proc/net/dev"]).output().expect("cat");
        let lines = String::from_utf8_lossy(&devices.stdout).into_owned();
        let names = lines.lines().skip(2).filter_map(|line| line.split(':').next()).map(str::trim);
        names.into_iter().find(|name| *name != "lo").expect("a device").to_owned()
    }

    fn nsd(&self) -> Running {
        let config = match self.setting.served {
            Served::Stale => "stale.conf",
            Served::Other => "other.conf",
            _ => "zone.conf",
        };
        let mut command = self.on("server", &["nsd", "-d", "-c", &self.path(config)]);
        let log = std::fs::File::create(self.path("nsd.log")).expect("a file");
        Running(command.stdout(Stdio::null()).stderr(log).spawn().expect("nsd starts"))
    }

    /// Waits until something is answered.
    fn ready(&self) {
        let until = Instant::now() + Duration::from_secs(30);
        let flags = ["--rate", "200", "--duration", "100ms", "--deadline", "100ms"];
        while self.load(&flags, |_| ())["answered"] == 0 {
            let log = std::fs::read_to_string(self.path("nsd.log")).unwrap_or_default();
            assert!(Instant::now() < until, "NSD does not answer: {log}");
        }
    }

    /// A load from the generator; `disturb` is called with the generator's process id when its measured part begins.
    fn load(&self, flags: &[&str], disturb: impl FnOnce(u32)) -> Value {
        let program = self.user.program_path();
        let mut command = self.on("generator", &[&program, "--events", "load", "run", SERVER]);
        command.args(flags).stdout(Stdio::piped()).stderr(Stdio::piped());
        if !flags.contains(&"--queries") {
            command.args(["--queries", &self.path("queries")]);
        }
        command.args(["--cpus", &self.cpus.1.to_string()]);
        if let Some(library) = &self.clock {
            command.env("LD_PRELOAD", library).env("CLOCK_STEP", self.path("page"));
        }
        let mut child = command.spawn().expect("the generator starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let (mut disturb, mut last) = (Some(disturb), Value::Null);
        for line in lines {
            last = serde_json::from_str(&line).expect("JSON");
            if last["event"] == "started" {
                disturb.take().into_iter().for_each(|disturb| disturb(child.id()));
            }
        }
        let done = child.wait_with_output().expect("it ends");
        assert!(
            matches!(done.status.code(), Some(0 | 3)) && last["result"].is_object(),
            "{last} {}",
            String::from_utf8_lossy(&done.stderr)
        );
        last["result"].clone()
    }

    /// One trial with the fault: its result.
    pub fn trial(&mut self) -> Value {
        let pids: Vec<String> =
            [&self.server, &self.proxy].into_iter().flatten().map(|p| p.pid().to_string()).collect();
        let (pids, zone, large) = (pids.join(","), self.path("zone"), self.path("large"));
        let mut flags = vec!["--check-against", &zone];
        if !pids.is_empty() {
            flags.extend(["--server-pid", &pids]);
        }
        for (flag, value) in
            [("--rate", "1000"), ("--duration", "1s"), ("--deadline", "300ms"), ("--warmup", "100ms")]
        {
            if !self.setting.flags.contains(&flag) {
                flags.extend([flag, value]);
            }
        }
        flags.extend(self.setting.flags.iter().map(|flag| if *flag == "LARGE" { &large } else { *flag }));
        let hogs = match self.setting.disturbance {
            Disturbance::StarveGenerator => vec![hog(self.cpus.1), hog(self.cpus.1)],
            Disturbance::ShareServerCore => vec![hog(self.cpus.0), hog(self.cpus.0)],
            _ => Vec::new(),
        };
        let group = (self.setting.disturbance == Disturbance::Memory).then(|| Group::squeeze(self));
        let mut again = None;
        let result = self.load(&flags, |_| {
            std::thread::sleep(Duration::from_millis(400));
            match self.setting.disturbance {
                Disturbance::Pause => self.pause(Duration::from_millis(50)),
                Disturbance::Restart => again = Some(self.restart()),
                Disturbance::Clock => self.step_clock(),
                _ => {}
            }
        });
        drop((hogs, group));
        if let Some(server) = again {
            self.server = Some(server);
            self.ready();
        }
        result
    }

    /// Polls on the generator's core for a second. True where the core was away for so long that 1 % of all messages would leave too late.
    pub fn generator_core_is_taken(&self) -> bool {
        const SECOND: Duration = Duration::from_secs(1);
        let cpu = self.cpus.1;
        let polling = std::thread::spawn(move || {
            net::scheduling::settle(Some(cpu)).expect("a core that is allowed");
            let began = Instant::now();
            let (mut last, mut taken) = (began, Duration::ZERO);
            while last < began + SECOND {
                let now = Instant::now();
                taken += (now - last).saturating_sub(Duration::from_nanos(measure::limits::PACING_LIMIT));
                last = now;
            }
            taken
        });
        polling.join().expect("it polls") > SECOND / 100
    }

    fn pause(&self, length: Duration) {
        let server = self.server.as_ref().expect("it runs").pid();
        let all = rack::resource_counters::Processes::now().expect("/proc").tree(&[server]);
        all.iter().for_each(|pid| send(*pid, Signal::STOP));
        std::thread::sleep(length);
        all.iter().for_each(|pid| send(*pid, Signal::CONT));
    }

    /// Kills the server and starts another; the old one is reaped when the bench takes the new one.
    fn restart(&self) -> Running {
        let server = self.server.as_ref().expect("it runs").pid();
        let all = rack::resource_counters::Processes::now().expect("/proc").tree(&[server]);
        all.iter().for_each(|pid| send(*pid, Signal::KILL));
        // Its port is free when its last process is gone; a restart takes a moment anyway.
        std::thread::sleep(Duration::from_millis(50));
        self.nsd()
    }

    fn step_clock(&self) {
        use std::os::unix::fs::FileExt;
        let page = std::fs::File::options().write(true).open(self.path("page")).expect("the clock's page");
        let before: i64 = {
            let mut bytes = [0; 8];
            let read = std::fs::File::open(self.path("page")).expect("the clock's page");
            read.read_exact_at(&mut bytes, 0).expect("read");
            i64::from_ne_bytes(bytes)
        };
        page.write_all_at(&(before + 50_000_000).to_ne_bytes(), 0).expect("written");
    }
}

/// A program that computes on a core.
pub fn hog(cpu: usize) -> Running {
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"]);
    Running(command.stdout(Stdio::null()).spawn().expect("taskset of util-linux"))
}

/// A control group with too little memory for the programs in it; gone with them when dropped.
struct Group {
    folder: PathBuf,
    worker: Option<Running>,
}

/// The memory that the programs of a group may use, and the size of the file that they read over and over.
const LIMIT: u64 = 24 << 20;
const FILE: usize = 64 << 20;

impl Group {
    /// The parent folder for a control group of memory, and the name of its limit.
    fn folder() -> Option<(PathBuf, &'static str)> {
        let first = Path::new("/sys/fs/cgroup/memory");
        let (parent, limit) = if first.is_dir() {
            (first, "memory.limit_in_bytes")
        } else {
            (Path::new("/sys/fs/cgroup"), "memory.max")
        };
        let probe = parent.join(format!("dnsrack-fault-{}", std::process::id()));
        let made = std::fs::create_dir(&probe).is_ok() && probe.join(limit).exists();
        let _ = std::fs::remove_dir(&probe);
        made.then(|| (parent.to_owned(), limit))
    }

    /// A program in it reads a file larger than its limit over and over, so that the kernel reclaims pages all the time and
    /// reads them again.
    fn squeeze(bench: &Bench) -> Self {
        let (parent, limit) = Self::folder().expect("looked for before");
        let folder = parent.join(format!("dnsrack-fault-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a control group");
        let mut group = Self { folder, worker: None };
        std::fs::write(group.folder.join(limit), LIMIT.to_string()).expect("its limit");
        let file = bench.path("pages");
        if !Path::new(&file).exists() {
            std::fs::write(&file, vec![7; FILE]).expect("a file");
            let _ = Command::new("sync").arg(&file).status();
        }
        // What is in the page cache already is charged to nobody in the group.
        let input = format!("if={file}");
        let _ = Command::new("dd").args([&input, "iflag=nocache", "count=0", "status=none"]).status();
        let tasks = group.folder.join("cgroup.procs");
        let script = format!(
            "echo $$ > {} && for n in 1 2 3 4; do (while :; do cat {file} > /dev/null; done) & done; wait",
            tasks.display()
        );
        let worker = Command::new("taskset")
            .args(["-c", &bench.cpus.0.to_string(), "sh", "-c", &script])
            .stdout(Stdio::null())
            .spawn()
            .expect("sh");
        group.worker = Some(Running(worker));
        std::thread::sleep(Duration::from_millis(300));
        group
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.worker = None;
        for _ in 0..100 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
