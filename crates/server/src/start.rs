//! Starting a server, and what can be asked of it while it runs.

use crate::driver::{Control, NameServer, Prepared, Site, driver};
use crate::error::{Error, Problem};
use crate::log::{self, Watch, Which};
use crate::ready::{Asker, Client, Seen};
use crate::spec::{Kind, ServerSpec};
use crate::{check, found, tool};
use rack::{Cmd, Host, Launcher, Output, Process};
use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, sched_setaffinity};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::rtype;
use zone::Probe;

/// How long a server may take to end by itself: it gives back the memory of millions of records first.
const GRACE: Duration = Duration::from_secs(30);

/// How long the kernel may take to end killed processes: it frees their memory.
const KILLED: Duration = Duration::from_secs(60);

/// How long a server may take to tell its counters: NSD's never comes where its disk is full.
const COUNTERS: Duration = Duration::from_secs(20);

/// How long an external server may take to answer, and how often it is asked.
const EXTERNAL: (Duration, u32) = (Duration::from_millis(700), 3);

/// A server as it was started. On drop it is killed, with all its processes.
pub struct Server<'a> {
    launcher: &'a dyn Launcher,
    host: &'a Host,
    driver: &'static dyn NameServer,
    place: Place,
    /// None: external.
    process: Option<Process>,
    watch: Watch,
    /// The start, or the last reload.
    since: Instant,
    reloaded: bool,
    stats: u32,
    /// Ends a wait for readiness.
    stop: Option<&'a AtomicBool>,
}

impl std::fmt::Debug for Server<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("place", &self.place).field("process", &self.process).finish()
    }
}

/// What a [`Site`] borrows from.
#[derive(Debug)]
struct Place {
    spec: ServerSpec,
    dir: PathBuf,
    zone_file: PathBuf,
    listen: Vec<SocketAddr>,
    program: PathBuf,
    version: String,
    control: SocketAddr,
    secret: String,
}

impl Place {
    fn site(&self) -> Site<'_> {
        Site {
            spec: &self.spec,
            dir: &self.dir,
            zone_file: &self.zone_file,
            listen: &self.listen,
            program: &self.program,
            version: &self.version,
            control: self.control,
            secret: &self.secret,
        }
    }
}

/// Starts a server on a host with everything it writes in `dir`, which is made, or empty.
///
/// Checked before anything is started: the specification, the zone file, the program and its tools, the addresses and
/// ports, and the configuration by the server's own checker. For [`Kind::External`] nothing is started or written;
/// something must answer at its address.
///
/// # Errors
/// A problem with any of these; [`Problem::Rack`] where the host's launcher fails.
pub fn start<'a>(
    launcher: &'a dyn Launcher,
    host: &'a Host,
    spec: &ServerSpec,
    dir: &Path,
) -> Result<Server<'a>, Error> {
    spec.check()?;
    let driver = driver(spec.kind);
    let mut place = Place {
        spec: spec.clone(),
        dir: dir.into(),
        zone_file: spec.zone.file.clone(),
        listen: spec.targets(host),
        program: PathBuf::new(),
        version: "external".into(),
        control: SocketAddr::from(([127, 0, 0, 1], 0)),
        secret: String::new(),
    };
    let cmd = if spec.kind == Kind::External {
        None
    } else {
        let zone_file = match &spec.distribution {
            Some(part) if part.is_secondary() => None,
            _ => Some(check::zone_file(spec)?),
        };
        place.program = found::program(spec)?;
        place.version = found::version(launcher, host, &spec.label, driver, &place.program)?;
        check::ports_free(spec, host, &place.listen)?;
        place.control = check::control_address(spec, host)?;
        place.secret = secret(spec)?;
        place.dir = check::folder(spec, dir)?;
        place.zone_file = match zone_file {
            // It may be written, and it is the caller's.
            Some(file) if spec.distribution.is_some() => own_copy(spec, &file, &place.dir)?,
            Some(file) => file,
            None => place.dir.join(ZONE_FILE),
        };
        Some(prepare(launcher, host, driver, &place)?)
    };
    let watch = Watch::new(place.dir.join(driver.log()));
    let since = Instant::now();
    let process = cmd.map(|cmd| launcher.spawn(host, &cmd)).transpose();
    let process = process.map_err(|e| Error::new(&spec.label, Problem::Rack(e)))?;
    let mut server = Server {
        launcher,
        host,
        driver,
        place,
        process,
        watch,
        since,
        reloaded: false,
        stats: 0,
        stop: None,
    };
    server.alive()?;
    Ok(server)
}

/// The zone file's name in the folder of a server whose zone changes.
const ZONE_FILE: &str = "zone";

fn own_copy(spec: &ServerSpec, file: &Path, dir: &Path) -> Result<PathBuf, Error> {
    let copy = dir.join(ZONE_FILE);
    fs::copy(file, &copy).map_err(|e| Error::file(&spec.label, "copy the zone file to", &copy, e))?;
    Ok(copy)
}

/// Writes the configuration, has it checked, runs what comes before the start; returns the command of the start.
fn prepare(
    launcher: &dyn Launcher,
    host: &Host,
    driver: &dyn NameServer,
    place: &Place,
) -> Result<Cmd, Error> {
    let (label, dir) = (&place.spec.label, &place.dir);
    let Prepared { files, folders, check, before, start } = driver.prepare(&place.site())?;
    for (name, text) in &files {
        let path = dir.join(name);
        // Who can read the secret can control the server.
        let shared = place.spec.distribution.as_ref().is_some_and(|part| text.contains(&part.key.secret));
        let mode = if shared || text.contains(&place.secret) { 0o600 } else { 0o644 };
        File::options()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|e| Error::file(label, "write", &path, e))?;
    }
    for name in folders {
        let path = dir.join(name);
        fs::create_dir(&path).map_err(|e| Error::file(label, "make the folder", &path, e))?;
    }
    let check = check.cwd(dir);
    let (status, said) = tool::outcome(launcher, host, label, &check)?;
    if !driver.accepted(status.is_some_and(|status| status.success()), &said) {
        let path = dir.join(files[0].0);
        let said = tool::last_lines(&said);
        return Err(Error::new(label, Problem::Config { checker: tool::line(&check), path, said }));
    }
    let secret = place.spec.distribution.as_ref().map_or("", |part| &part.key.secret);
    for cmd in before {
        tool::run(launcher, host, label, &cmd.cwd(dir)).map_err(|e| e.hiding(secret))?;
    }
    let output = dir.join("output.log");
    let mut cmd = start.cwd(dir).cpus(&place.spec.cpus).stdout(Output::File(output.clone()));
    if cmd.stderr == Output::Null {
        cmd.stderr = Output::File(output);
    }
    if check::confined(&cmd.program, Path::new("/")) {
        let copy = dir.join(driver.program());
        fs::copy(&cmd.program, &copy).map_err(|e| Error::file(label, "copy the program to", &copy, e))?;
        cmd.program = copy;
    }
    Ok(cmd)
}

/// 32 random bytes as 64 hexadecimal digits, which are base64 too.
fn secret(spec: &ServerSpec) -> Result<String, Error> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; 32];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|e| Error::file(&spec.label, "read", path, e))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl<'a> Server<'a> {
    /// From now on [`Server::ready`] waits only as long as `stop` is not set.
    pub fn heeding(mut self, stop: &'a AtomicBool) -> Self {
        self.stop = Some(stop);
        self
    }
}

impl Server<'_> {
    /// Waits until every address serves the probe's serial and answers its question rightly, and returns the
    /// time from the start (or the last [`Server::reload`]) to the first right answer.
    ///
    /// The time is known to 10 ms, or 1 % of itself up to 100 ms: so often is asked.
    ///
    /// Threads that tied themselves to CPUs (YADIFA's, from CPU 0 on) are led back then to those of
    /// [`ServerSpec::cpus`], all of them to each, where some are named.
    ///
    /// # Errors
    /// [`Problem::Died`], [`Problem::Refused`] as soon as it is seen. [`Problem::WrongSerial`] and
    /// [`Problem::WrongAnswer`] as soon as they are seen after a start, at the end of `timeout` after a reload (the
    /// old zone is served until the new one is there). [`Problem::Stopped`] where it is told to. Else
    /// [`Problem::NotReady`] after `timeout`.
    pub fn ready(&mut self, probe: &Probe, timeout: Duration) -> Result<Duration, Error> {
        let began = Instant::now();
        let mut first = None;
        for target in self.place.listen.clone() {
            let mut asker = Asker::new(self.host, target, probe).map_err(|e| self.error(Problem::Rack(e)))?;
            loop {
                let asked = Instant::now();
                let pause = (self.since.elapsed() / 100)
                    .clamp(Duration::from_millis(10), Duration::from_millis(100))
                    .min(timeout.saturating_sub(began.elapsed()).max(Duration::from_millis(1)));
                let last = match asker.ask(pause) {
                    Seen::Right => break,
                    Seen::Wrong(problem) if !self.reloaded => return Err(self.error(problem)),
                    other => other,
                };
                self.still_trying()?;
                if began.elapsed() >= timeout {
                    return Err(self.error(match last {
                        Seen::Wrong(problem) => problem,
                        Seen::NotYet(last) => {
                            Problem::NotReady { after: began.elapsed(), last, cause: self.cause(Which::Last) }
                        }
                        Seen::Right => unreachable!("left the loop above"),
                    }));
                }
                std::thread::sleep(pause.saturating_sub(asked.elapsed()));
            }
            first.get_or_insert_with(|| self.since.elapsed());
        }
        self.pids().into_iter().try_for_each(|pid| pin(pid, &self.place.spec.cpus)).map_err(|source| {
            Error::file(&self.place.spec.label, "pin the threads listed in", Path::new("/proc"), source)
        })?;
        first.ok_or_else(|| {
            self.error(Problem::Spec { field: "addresses", why: "there is none to ask at".into() })
        })
    }

    /// Whether there is sense in waiting on: it lives, and its log does not say that it refused the zone.
    fn still_trying(&mut self) -> Result<(), Error> {
        if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(self.error(Problem::Stopped));
        }
        let Some(process) = &mut self.process else { return Ok(()) };
        let ended = process.try_wait().map_err(|e| Error::new(&self.place.spec.label, Problem::Rack(e)))?;
        if let Some(status) = ended {
            return Err(self.died(status.to_string()));
        }
        if self.watch.refused(self.driver) {
            return Err(self.error(Problem::Refused { cause: self.cause(Which::First) }));
        }
        Ok(())
    }

    /// Whether it still lives. An external server must answer a question, within 0.7 s in one of three attempts.
    ///
    /// # Errors
    /// [`Problem::Died`] with its log's cause; [`Problem::Silent`].
    pub fn alive(&mut self) -> Result<(), Error> {
        let Some(process) = &mut self.process else { return self.external_answers() };
        match process.try_wait().map_err(|e| Error::new(&self.place.spec.label, Problem::Rack(e)))? {
            None => Ok(()),
            Some(status) => Err(self.died(status.to_string())),
        }
    }

    fn external_answers(&self) -> Result<(), Error> {
        let spec = &self.place.spec;
        let origin = wire::name::Name::parse_text(&spec.zone.origin, None)
            .map_err(|e| self.error(Problem::Spec { field: "zone.origin", why: e.to_string() }))?;
        for &address in &self.place.listen {
            let mut client = Client::new(self.host, address).map_err(|e| self.error(Problem::Rack(e)))?;
            let mut last = String::new();
            let answered = (0..EXTERNAL.1).any(|_| {
                let asked = Instant::now();
                let answer = client.ask(0x5d5f, &origin, rtype::SOA, EXTERNAL.0);
                if let Err(why) = &answer {
                    last.clone_from(why);
                    std::thread::sleep(EXTERNAL.0.saturating_sub(asked.elapsed()));
                }
                answer.is_ok()
            });
            if !answered {
                return Err(self.error(Problem::Silent { address, last }));
            }
        }
        Ok(())
    }

    /// All its processes now, the one started first; of an external server none. NSD's change with each reload.
    pub fn pids(&self) -> Vec<u32> {
        let Some(process) = &self.process else { return Vec::new() };
        let mut pids = members(process.pid());
        pids.retain(|&pid| pid != process.pid());
        pids.insert(0, process.pid());
        pids
    }

    /// Its killed processes hold memory and ports until they are really gone.
    fn wait_until_gone(&self) {
        let Some(process) = &self.process else { return };
        let until = Instant::now() + KILLED;
        while !members(process.pid()).is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Has it serve the zone file as it is now. It may return before that is so: [`Server::ready`] with a probe of
    /// the new file waits for it, and gives the time from here.
    ///
    /// # Errors
    /// [`Problem::Unsupported`] for an external server, [`Problem::Died`], [`Problem::Tool`].
    pub fn reload(&mut self) -> Result<(), Error> {
        self.alive()?;
        let cmd = self.command(Control::Reload, "be reloaded: it is not ours")?;
        self.watch.skip();
        self.reloaded = true;
        self.since = Instant::now();
        match tool::run(self.launcher, self.host, &self.place.spec.label, &cmd) {
            Err(Error { problem, .. }) if matches!(&*problem, Problem::Tool { said, .. } if self.driver.still_works(said)) => {
                Ok(())
            }
            other => other.map(drop).map_err(|e| e.hiding(&self.place.secret)),
        }
    }

    /// Its own counters since its start as it tells them, kept in `stats-N.txt` in its folder as well.
    ///
    /// # Errors
    /// [`Problem::Unsupported`] for an external server, [`Problem::Died`], [`Problem::Tool`], [`Problem::File`].
    pub fn stats(&mut self) -> Result<String, Error> {
        self.alive()?;
        let label = &self.place.spec.label;
        let cmd = self.command(Control::Stats, "tell its counters: it is not ours")?;
        let mut text = tool::run_within(COUNTERS, self.launcher, self.host, label, &cmd)?;
        if let Some(name) = self.driver.stats_file() {
            let path = self.place.dir.join(name);
            text = fs::read_to_string(&path).map_err(|e| Error::file(label, "read", &path, e))?;
            fs::remove_file(&path).map_err(|e| Error::file(label, "remove", &path, e))?;
        }
        self.stats += 1;
        let path = self.place.dir.join(format!("stats-{}.txt", self.stats));
        fs::write(&path, &text).map_err(|e| Error::file(label, "write", &path, e))?;
        Ok(text)
    }

    fn command(&self, what: Control, unsupported: &'static str) -> Result<Cmd, Error> {
        match self.driver.control(&self.place.site(), what)? {
            Some(cmd) => Ok(cmd.cwd(&self.place.dir)),
            None => Err(self.error(Problem::Unsupported { kind: self.place.spec.kind, what: unsupported })),
        }
    }

    /// Asks it to end, and kills it after 30 s; none of its processes is left. Does nothing to an external server.
    ///
    /// # Errors
    /// [`Problem::Died`] where it had ended by itself before.
    pub fn stop(mut self) -> Result<(), Error> {
        if self.process.is_none() {
            return Ok(());
        }
        self.alive()?;
        let ended = self.process.as_mut().map(|process| process.terminate(GRACE));
        self.wait_until_gone();
        match ended {
            Some(Err(e)) => Err(self.error(Problem::Rack(e))),
            _ => Ok(()),
        }
    }

    /// Its label.
    pub fn label(&self) -> &str {
        &self.place.spec.label
    }

    /// What it was started from.
    pub fn spec(&self) -> &ServerSpec {
        &self.place.spec
    }

    /// The addresses and ports at which it answers.
    pub fn targets(&self) -> &[SocketAddr] {
        &self.place.listen
    }

    /// Its version, as its program says itself; `external` where there is none to ask.
    pub fn version(&self) -> &str {
        &self.place.version
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.place.dir
    }

    /// Its log.
    pub fn log_path(&self) -> PathBuf {
        self.place.dir.join(self.driver.log())
    }

    fn cause(&self, which: Which) -> crate::Cause {
        if self.process.is_none() {
            return crate::Cause::default();
        }
        let cause = log::cause(self.driver, &self.log_path(), self.watch.began(), which);
        if !cause.lines.is_empty() {
            return cause;
        }
        // Who dies before it opens its log speaks here; and who was killed after a reload has said nothing since.
        let output = log::cause(self.driver, &self.place.dir.join("output.log"), 0, which);
        if output.lines.is_empty() { log::cause(self.driver, &self.log_path(), 0, which) } else { output }
    }

    fn died(&self, status: String) -> Error {
        self.wait_until_gone();
        self.error(Problem::Died { status, cause: self.cause(Which::Last) })
    }

    fn error(&self, problem: Problem) -> Error {
        Error::new(&self.place.spec.label, problem)
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // There is nobody to tell of a failure; dropping the process tries again.
            let _ = process.kill();
            self.wait_until_gone();
        }
    }
}

/// Pins all threads of a process to these CPUs; empty: leaves them where they are. Threads that end meanwhile are no
/// error.
fn pin(pid: u32, cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    let threads = match fs::read_dir(format!("/proc/{pid}/task")) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        threads => threads?,
    };
    for thread in threads {
        let name = thread?.file_name();
        let Some(id) = name.to_str().and_then(|id| Pid::from_raw(id.parse().ok()?)) else { continue };
        match sched_setaffinity(Some(id), &set) {
            Ok(()) | Err(Errno::SRCH) => (),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// The processes, zombies apart, of the session that a server leads. Its children's parent may have ended, their
/// session stays (see the launcher).
fn members(leader: u32) -> Vec<u32> {
    let all = procfs::process::all_processes().into_iter().flatten();
    let mut pids: Vec<u32> = all
        .filter_map(|entry| {
            let stat = entry.ok()?.stat().ok()?;
            let ours = stat.session == leader as i32 || stat.pgrp == leader as i32;
            (ours && !matches!(stat.state, 'Z' | 'X')).then_some(stat.pid as u32)
        })
        .collect();
    pids.sort_unstable();
    pids
}
