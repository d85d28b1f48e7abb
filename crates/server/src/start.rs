//! Starting a server.

mod again;
mod life;
mod processes;

pub use processes::processes;

use crate::driver::{NameServer, Prepared, Site};
use crate::error::{Error, Problem};
use crate::kind::Kind;
use crate::log::Watch;
use crate::servers::driver;
use crate::spec::ServerSpec;
use crate::tool::{self, Tools};
use crate::{check, found};
use rack::{Cmd, Host, Launcher, Output, Process, Root};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// A server as it was started. On drop it is killed, with all its processes.
pub struct Server {
    launcher: Box<dyn Launcher>,
    host: Host,
    driver: &'static dyn NameServer,
    place: Place,
    /// The command that starts it; none: external.
    cmd: Option<Cmd>,
    /// None: external.
    process: Option<Process>,
    watch: Watch,
    /// The start, or the last reload.
    since: Instant,
    reloaded: bool,
    stats: u32,
    urged: u32,
    /// Ends a wait for readiness.
    stop: Option<Arc<AtomicBool>>,
    /// [`rack::memory::kills`] before the start.
    kills: Option<u64>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("place", &self.place).field("process", &self.process).finish()
    }
}

/// The values that a [`Site`] borrows.
#[derive(Debug)]
struct Place {
    spec: ServerSpec,
    dir: PathBuf,
    zone_file: PathBuf,
    listen: Vec<SocketAddr>,
    program: PathBuf,
    root: Option<Root>,
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
            root: self.root.as_ref(),
            version: &self.version,
            control: self.control,
            secret: &self.secret,
            package: driver(self.spec.kind).facts().package,
        }
    }
}

/// Starts a server on a host with everything it writes in `dir`, which is made, or empty.
///
/// Checked before anything is started: the specification, the zone file, the program and its tools, the addresses and
/// ports, and the configuration by the server's own checker. For [`Kind::EXTERNAL`] nothing is started or written;
/// something must answer at its address.
///
/// # Errors
/// A problem with any of these; [`Problem::Rack`] where the host's launcher fails.
pub fn start(
    launcher: impl Launcher + 'static,
    host: &Host,
    spec: &ServerSpec,
    dir: &Path,
) -> Result<Server, Error> {
    start_heeding(None, launcher, host, spec, dir)
}

/// As [`start`]; but neither the start's tools nor what is waited for later goes on once `stop` is set.
///
/// # Errors
/// The errors of [`start`]; [`Problem::Stopped`].
pub fn start_heeding(
    stop: Option<Arc<AtomicBool>>,
    launcher: impl Launcher + 'static,
    host: &Host,
    spec: &ServerSpec,
    dir: &Path,
) -> Result<Server, Error> {
    check::spec(spec)?;
    let root = found::root(spec)?;
    let tools =
        Tools { launcher: &launcher, host, label: &spec.label, root: root.as_ref(), stop: stop.as_deref() };
    let driver = driver(spec.kind);
    let mut place = Place {
        spec: spec.clone(),
        dir: dir.into(),
        zone_file: spec.zone.file.clone(),
        listen: spec.targets(host),
        program: PathBuf::new(),
        root: root.clone(),
        version: "external".into(),
        control: SocketAddr::from(([127, 0, 0, 1], 0)),
        secret: String::new(),
    };
    if let Some(keys) = place.spec.distribution.as_mut().and_then(|part| part.keys.as_mut()) {
        // Relative to us, not to the server's folder.
        *keys = fs::canonicalize(&*keys)
            .map_err(|e| Error::file(&spec.label, "find the folder of keys", keys, e))?;
    }
    let cmd = if spec.kind == Kind::EXTERNAL {
        None
    } else {
        let zone_file = match &spec.distribution {
            Some(part) if part.is_secondary() => None,
            _ => Some(check::zone_file(spec)?),
        };
        place.program = found::program(spec, root.as_ref())?;
        place.version = found::version(tools, driver, &place.program)?;
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
        Some(prepare(tools, driver, &place)?)
    };
    let watch = Watch::new(place.dir.join(driver.facts().log));
    let kills = rack::memory::kills();
    let since = Instant::now();
    let process = cmd.as_ref().map(|cmd| launcher.spawn(host, cmd)).transpose();
    let process = process.map_err(|e| Error::new(&spec.label, Problem::Rack(e)))?;
    let mut server = Server {
        launcher: Box::new(launcher),
        host: host.clone(),
        driver,
        place,
        cmd,
        process,
        watch,
        since,
        reloaded: false,
        stats: 0,
        urged: 0,
        stop,
        kills,
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
fn prepare(tools: Tools<'_>, driver: &dyn NameServer, place: &Place) -> Result<Cmd, Error> {
    let (label, dir) = (&place.spec.label, &place.dir);
    let Prepared { files, folders, check, before, start } = driver.prepare(&place.site())?;
    for (name, text) in &files {
        let path = dir.join(name);
        // Anyone who can read the secret can control the server.
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
    if let Some(check) = check.map(|check| check.cwd(dir)) {
        let (status, said) = tools.outcome(&check)?;
        if !driver.accepted(status.is_some_and(|status| status.success()), &said) {
            let path = dir.join(files[0].0);
            let said = tool::last_lines(&said);
            return Err(Error::new(label, Problem::Config { checker: tool::line(&check), path, said }));
        }
    }
    let secret = place.spec.distribution.as_ref().map_or("", |part| &part.key.secret);
    for cmd in before {
        tools.run(&cmd.cwd(dir)).map_err(|e| e.hiding(secret))?;
    }
    let output = dir.join("output.log");
    let mut cmd = start.cwd(dir).cpus(&place.spec.cpus).stdout(Output::File(output.clone()));
    cmd.root = place.root.clone();
    cmd.env.extend(place.spec.env.iter().map(|(name, value)| (name.into(), value.into())));
    if cmd.stderr == Output::Null {
        cmd.stderr = Output::File(output);
    }
    if check::confined(&cmd.program, Path::new("/")) {
        let copy = dir.join(driver.facts().program);
        let program = cmd.root.as_ref().map_or_else(|| cmd.program.clone(), |root| root.find(&cmd.program));
        fs::copy(program, &copy).map_err(|e| Error::file(label, "copy the program to", &copy, e))?;
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

impl Server {
    fn tools(&self) -> Tools<'_> {
        let Self { launcher, host, stop, place, .. } = self;
        let (label, root) = (&place.spec.label, place.root.as_ref());
        Tools { launcher: launcher.as_ref(), host, label, root, stop: stop.as_deref() }
    }

    /// Its label.
    pub fn label(&self) -> &str {
        &self.place.spec.label
    }

    /// The specification that it was started from.
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

    /// How often [`Server::ready`] had to tell it to ask its primary for the zone: what a secondary does by itself.
    pub fn urged(&self) -> u32 {
        self.urged
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.place.dir
    }

    /// Its log.
    pub fn log_path(&self) -> PathBuf {
        self.place.dir.join(self.driver.facts().log)
    }

    fn error(&self, problem: Problem) -> Error {
        Error::new(&self.place.spec.label, problem)
    }
}
