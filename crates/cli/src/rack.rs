//! `dnsrack rack`: a rack for work by hand.

use crate::output::{self, Common, Failure, Status};
use comfy_table::{Table, presets};
use rack::{RackSpec, StandingRack, standing};
use serde::Serialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The commands of `dnsrack rack`.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Make a rack as FILE says (TOML, see examples/rack.toml) and keep it until `rack down`
    Up {
        /// Rack file: the hosts, their addresses and cores
        file: PathBuf,
        /// Name of the rack [default: the one in the file]
        #[arg(long)]
        name: Option<String>,
    },
    /// Run a command on a host of a rack; its exit status becomes ours
    Exec {
        /// Name of the rack; needed only if several are up
        #[arg(long)]
        rack: Option<String>,
        /// Name of the host
        host: String,
        /// Command and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Show the racks that are up, their hosts, and the processes on them
    List,
    /// Take a rack down, with every process on it
    Down {
        /// Name of the rack; needed only if several are up
        name: Option<String>,
        /// Take all racks down
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// Hold a rack without root (started by `rack up`)
    #[command(hide = true)]
    Hold,
    /// Emulate the paths of a rack (started by `rack up`)
    #[command(hide = true)]
    Emulate,
}

/// Runs the command. Before this no thread may have been started: `exec` and `hold` change namespaces.
pub fn run(command: Command, common: &Common) -> output::Result {
    match command {
        Command::Up { file, name } => up(&file, name, common),
        Command::Exec { rack, host, command } => {
            let (program, args) = command.split_first().expect("clap asks for one at least");
            Err(standing::find(rack.as_deref())?.exec(&host, program, args).into())
        }
        Command::List => list(common),
        Command::Down { name, all } => down(name, all, common),
        Command::Hold => {
            standing::hold()?;
            Ok(Status::Done)
        }
        Command::Emulate => {
            rack::path::keep::emulate()?;
            Ok(Status::Done)
        }
    }
}

fn up(file: &Path, name: Option<String>, common: &Common) -> output::Result {
    let spec = RackSpec::load(file)?;
    let stem = || file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = name.or_else(|| spec.name.clone()).or_else(stem).unwrap_or_default();
    let standing = standing::up(&spec, &name)?;
    if common.json {
        output::json("rack.up", &Listed::of(standing))?;
    } else {
        let first = standing.hosts.first().map_or("HOST", |h| &h.name).to_owned();
        output::print(&table(&[Listed::of(standing)]))?;
        output::print(&format!("try: dnsrack rack exec --rack {name} {first} ip addr\n"))?;
    }
    Ok(Status::Done)
}

/// A rack as `rack list` shows it.
#[derive(Serialize)]
struct Listed {
    name: String,
    alive: bool,
    hosts: Vec<standing::StandingHost>,
    steering: Vec<rack::Steering>,
    holder: Option<u32>,
    /// Its paths, where it has any.
    paths: Option<ListedPaths>,
    processes: Vec<standing::Inside>,
}

/// The paths of a rack.
#[derive(Serialize)]
struct ListedPaths {
    /// Whether they are: their emulator is there.
    open: bool,
    #[serde(flatten)]
    standing: Box<standing::StandingPaths>,
    /// The report up to the last full second.
    report: Option<rack::path::Report>,
}

impl Listed {
    fn of(standing: StandingRack) -> Self {
        let (alive, processes) = (standing.alive(), standing.processes());
        let holder = standing.holder.map(|holder| holder.pid);
        let (open, report) = (standing.paths_open(), standing.paths_report());
        let paths = standing.paths.map(|standing| ListedPaths { open, standing, report });
        Self {
            name: standing.name,
            alive,
            hosts: standing.hosts,
            steering: standing.steering,
            holder,
            paths,
            processes,
        }
    }
}

#[derive(Serialize)]
struct Racks {
    racks: Vec<Listed>,
}

fn list(common: &Common) -> output::Result {
    let racks: Vec<Listed> = standing::all().into_iter().map(Listed::of).collect();
    if common.json {
        output::json("rack.list", &Racks { racks })?;
    } else if racks.is_empty() {
        output::print("no rack is up\n")?;
    } else {
        output::print(&table(&racks))?;
        for rack in &racks {
            output::print(&counts(rack))?;
        }
    }
    Ok(Status::Done)
}

fn table(racks: &[Listed]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header([
        "rack",
        "host",
        "addresses",
        "CPUs",
        "receives",
        "processes",
    ]);
    let join = |items: Vec<String>, by| if items.is_empty() { "-".into() } else { items.join(by) };
    for rack in racks {
        if !rack.alive {
            table.add_row([&rack.name, "(gone; `rack down` clears it)"]);
            continue;
        }
        let processes = |host: &str| {
            let here = rack.processes.iter().filter(|p| p.host == host);
            join(here.map(|p| format!("{} {}", p.pid, p.command)).collect(), "\n")
        };
        let cpus = |cpus: &[usize]| {
            if cpus.is_empty() {
                "any".into()
            } else {
                join(cpus.iter().map(ToString::to_string).collect(), ",")
            }
        };
        for host in &rack.hosts {
            let steering = rack.steering.iter().find(|s| s.host == host.name);
            table.add_row([
                rack.name.clone(),
                host.name.clone(),
                join(host.addresses.iter().map(ToString::to_string).collect(), " "),
                cpus(&host.cpus),
                steering.map_or("-", |s| s.method.text()).into(),
                processes(&host.name),
            ]);
        }
        if let Some(paths) = &rack.paths {
            let gone = "the emulator is gone: paths are cut until `rack down` and `rack up`";
            table.add_row([
                rack.name.clone(),
                rack::ROUTER.into(),
                "-".into(),
                cpus(&paths.standing.cpus),
                if paths.open { "paths".into() } else { gone.into() },
                processes(rack::ROUTER),
            ]);
        }
    }
    table.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

/// The counters of a rack's paths up to the last full second.
fn counts(rack: &Listed) -> String {
    let Some(report) = rack.paths.as_ref().and_then(|paths| paths.report.as_ref()) else {
        return String::new();
    };
    let mut table = Table::new();
    let header = [
        "path",
        "packets",
        "bytes",
        "delivered",
        "lost",
        "queue full",
        "twice",
        "corrupted",
        "reordered",
        "held",
    ];
    table.load_preset(presets::NOTHING).set_header(header);
    for d in &report.directions {
        let numbers = [
            d.packets_in,
            d.bytes_in,
            d.delivered,
            d.lost,
            d.queue_dropped,
            d.duplicated,
            d.corrupted,
            d.reordered,
            d.held,
        ];
        let numbers = numbers.iter().map(|&n| measure::units::grouped(n));
        table.add_row([format!("{} → {}", d.from, d.to)].into_iter().chain(numbers));
    }
    let text = table.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n");
    let reasons = report.validity.reasons.iter().chain(&report.validity.warnings);
    reasons.fold(format!("\n{text}"), |text, reason| format!("{text}{reason}\n"))
}

#[derive(Serialize)]
struct Down {
    removed: Vec<String>,
}

fn down(name: Option<String>, all: bool, common: &Common) -> output::Result {
    let racks = if all { standing::all() } else { vec![standing::find(name.as_deref())?] };
    let mut removed = Vec::new();
    let mut failures = Vec::new();
    for rack in racks {
        match rack.down() {
            Ok(()) => removed.push(rack.name),
            Err(e) => failures.push(Failure::from(e).message),
        }
    }
    if common.json {
        output::json("rack.down", &Down { removed })?;
    } else {
        for name in removed {
            output::print(&format!("{name} is down\n"))?;
        }
    }
    if failures.is_empty() {
        Ok(Status::Done)
    } else {
        Err(Failure { code: 1, message: failures.join("\n") })
    }
}
