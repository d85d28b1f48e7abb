//! `dnsrack load`: queries at servers, and what came back.

mod show;

use crate::output::{self, Common, Failure, Status};
use crate::traffic::Shape;
use ::load::calibrate::{CalibrateSpec, calibrate};
use ::load::echo::{DEFAULT_DURATION, Echo, EchoResult, EchoSpec};
use ::load::search::{Goal, Search, drive};
use ::load::{Error, LoadSpec, parse_target};
use clap::{Args, Subcommand, ValueEnum};
use measure::clock::{self, SECOND};
use measure::{Arrivals, Event, Nanos, Pace, Seed, units};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use traffic::{EdnsSpec, ProfileSpec, QueriesSpec, SourceSpec};

/// How long a run is where nothing else is said.
const DURATION: Nanos = 10 * SECOND;

/// What `dnsrack load` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Offer queries at a rate (or by a window, or as a flood) and time every answer
    Run(Run),
    /// Find the peak query rate by RFC 9971
    Search(SearchArgs),
    /// What this machine can claim: send and echo rates, clock, jitter, drops
    Calibrate(Calibrate),
    /// Answer every query with itself, as the other end of a calibration
    Echo(EchoArgs),
}

/// Where queries go and come from, and how they are sent: common to `run` and `search`.
#[derive(Debug, Args)]
struct Flags {
    /// ADDR, ADDR:PORT or [V6]:PORT
    #[arg(required = true, value_name = "TARGET", value_parser = parse_target)]
    targets: Vec<SocketAddr>,
    /// A file of "name type" lines, as dnsperf's
    #[arg(long, value_name = "FILE", required_unless_present = "profile", conflicts_with = "profile")]
    queries: Option<PathBuf>,
    /// rzaia, isc, nominet, or the path of a profile file: queries over the names of --zone or --names
    #[arg(long, value_name = "P")]
    profile: Option<String>,
    /// Ask for names of this zone file
    #[arg(long, value_name = "Z", requires = "profile", conflicts_with = "names")]
    zone: Option<PathBuf>,
    /// Ask for the names of this file, one a line
    #[arg(long, value_name = "F", requires = "profile")]
    names: Option<PathBuf>,
    #[command(flatten)]
    shape: Shape,
    /// Put an OPT record with this UDP size into the queries of --queries
    #[arg(long, value_name = "SIZE", requires = "queries")]
    edns: Option<u16>,
    /// Set DO in that OPT record
    #[arg(long = "do", requires = "edns")]
    do_bit: bool,
    /// An answer later than this after its query is lost
    #[arg(long, default_value = "4s", value_parser = positive)]
    deadline: Nanos,
    /// Source ports [default: as many as the ids in flight need, at least 16]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    flows: u32,
    /// Send from these local addresses in turn
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    source: Vec<IpAddr>,
    /// The most queries sent at once by a worker [default: what is due in a millisecond, 1 to 32]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    burst: u32,
    /// Sending threads [default: one for each of --cpus, or one]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    workers: u32,
    /// Pin the workers to these cores, such as 1 or 2,3 or 4-7
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<Cpus>,
    /// Receive buffer of each flow, in bytes
    #[arg(long, value_name = "BYTES", default_value = "4194304", value_parser = units::count)]
    recv_buffer: u64,
    /// The same seed gives the same queries and ids
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The targets are not on this machine, and yours to load
    #[arg(long)]
    allow_external: bool,
    /// How queries travel
    #[arg(long, value_enum, default_value_t = Transport::Udp)]
    transport: Transport,
    /// How packets are sent
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    backend: Backend,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Transport {
    Udp,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Backend {
    Auto,
    Socket,
}

/// A list of cores.
#[derive(Clone, Debug)]
struct Cpus(Vec<usize>);

/// The flags of `load run`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("pace").required(true).args(["rate", "window", "flood"]))]
pub struct Run {
    #[command(flatten)]
    common: Flags,
    /// Queries per second, whatever the answers
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
    /// So many queries in flight: a closed loop, only to compare with dnsperf
    #[arg(long, value_name = "W")]
    window: Option<u32>,
    /// As fast as this machine can, whatever the answers
    #[arg(long)]
    flood: bool,
    /// For how long [default: 10s, or until --count]
    #[arg(long, value_parser = positive)]
    duration: Option<Nanos>,
    /// At most this many queries
    #[arg(long, value_name = "N", value_parser = units::count)]
    count: Option<u64>,
    /// Offer queries for so long before they count
    #[arg(long, default_value = "0", value_parser = units::duration)]
    warmup: Nanos,
}

/// The flags of `load search`.
#[derive(Debug, Args)]
pub struct SearchArgs {
    #[command(flatten)]
    common: Flags,
    /// A trial that loses more than this share of its queries is a high-loss trial
    #[arg(long, default_value_t = 0.001)]
    loss: f64,
    /// The most time for trials
    #[arg(long, default_value = "60s", value_parser = positive)]
    budget: Nanos,
    /// Length of a full trial
    #[arg(long, default_value = "2s", value_parser = positive)]
    trial: Nanos,
    /// Length of a first look at a load
    #[arg(long, default_value = "500ms", value_parser = positive)]
    initial: Nanos,
    /// Enough time at one load
    #[arg(long, default_value = "4s", value_parser = positive)]
    duration_sum: Nanos,
    /// The share of high-loss time that a lower bound may have
    #[arg(long, default_value_t = 0.5)]
    exceed: f64,
    /// Done when the bounds are this near, relative to the upper one
    #[arg(long, default_value_t = 0.02)]
    width: f64,
    /// The smallest load
    #[arg(long, default_value = "100", value_parser = rate)]
    min: f64,
    /// The greatest load: what the generator can offer, by 'load calibrate'
    #[arg(long, default_value = "10M", value_parser = rate)]
    max: f64,
    /// The first load
    #[arg(long, default_value = "20K", value_parser = rate)]
    start: f64,
}

/// The flags of `load calibrate`.
#[derive(Debug, Args)]
pub struct Calibrate {
    /// An echo that already runs ('load echo'); none: one of our own, on loopback
    #[arg(value_name = "TARGET", value_parser = parse_target)]
    target: Option<SocketAddr>,
    /// Cores of the generator [default: the last]
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<Cpus>,
    /// Core of our own echo [default: the first]
    #[arg(long, value_name = "CPU")]
    echo_cpu: Option<usize>,
    /// Length of each trial
    #[arg(long, default_value = "1s", value_parser = positive)]
    trial: Nanos,
    /// The most time for the search of the echo's rate
    #[arg(long, default_value = "30s", value_parser = positive)]
    budget: Nanos,
    /// The target is not on this machine, and yours to load
    #[arg(long)]
    allow_external: bool,
}

/// The flags of `load echo`.
#[derive(Debug, Args)]
pub struct EchoArgs {
    /// Where to answer: ADDR, ADDR:PORT or [V6]:PORT
    #[arg(value_name = "ADDR", value_parser = parse_target)]
    addr: SocketAddr,
    /// For how long [default: 1h]
    #[arg(long, value_parser = positive)]
    duration: Option<Nanos>,
    /// Pin it to this core
    #[arg(long)]
    cpu: Option<usize>,
}

fn rate(text: &str) -> Result<f64, String> {
    match units::number(text)? {
        rate if rate > 0.0 => Ok(rate),
        _ => Err("a rate must be more than zero".into()),
    }
}

fn positive(text: &str) -> Result<Nanos, String> {
    match units::duration(text)? {
        0 => Err("it must be more than zero".into()),
        n => Ok(n),
    }
}

fn cpu_list(text: &str) -> Result<Cpus, String> {
    let wrong = || format!("'{text}' is not a list of cores: give numbers and ranges, such as 0,2-3");
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let from: usize = from.parse().map_err(|_| wrong())?;
        let to: usize = to.parse().map_err(|_| wrong())?;
        if from > to || to > 4095 {
            return Err(wrong());
        }
        cpus.extend(from..=to);
    }
    Ok(Cpus(cpus))
}

impl Flags {
    fn source(&self) -> Result<SourceSpec, Failure> {
        if let Some(path) = &self.queries {
            if !self.shape.changes().is_empty() {
                let flags = "--nonexistent, --types, --below and --order change a profile";
                return Err(Failure::usage(format!("{flags}: they do nothing to the queries of --queries")));
            }
            let edns = self.edns.map(|udp_size| EdnsSpec { udp_size, do_bit: self.do_bit });
            return Ok(SourceSpec::Queries(QueriesSpec { path: path.clone(), edns, cycle: true }));
        }
        let profile = self.profile.clone().expect("clap wants one of the two");
        let names = self.zone.as_ref().or(self.names.as_ref());
        let names = names.ok_or_else(|| Failure::usage("--profile needs names: give --zone or --names"))?;
        let changes = self.shape.changes();
        Ok(SourceSpec::Profile(ProfileSpec { profile, names: names.clone(), seed: Seed(self.seed), changes }))
    }

    fn spec(&self, pace: Pace) -> Result<LoadSpec, Failure> {
        let (Transport::Udp, Backend::Auto | Backend::Socket) = (self.transport, self.backend);
        Ok(LoadSpec {
            deadline: self.deadline,
            flows: self.flows,
            sources: self.source.clone(),
            workers: self.workers,
            cpus: self.cpus.clone().map(|c| c.0).unwrap_or_default(),
            burst: self.burst,
            recv_buffer: self.recv_buffer as usize,
            seed: Seed(self.seed),
            allow_external: self.allow_external,
            ..LoadSpec::new(self.targets.clone(), self.source()?, pace, DURATION)
        })
    }
}

/// Wrong flags are wrong usage; everything else failed.
fn failure(error: Error) -> Failure {
    match error {
        Error::Spec(_) | Error::External { .. } => Failure::usage(error.to_string()),
        other => other.into(),
    }
}

/// Set by Ctrl-C and SIGTERM; a second one ends the program at once.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Runs the command.
pub fn run(command: Command, common: &Common) -> output::Result {
    match command {
        Command::Run(args) => load(&args, common),
        Command::Search(args) => search(&args, common),
        Command::Calibrate(args) => calibration(&args, common),
        Command::Echo(args) => echo(&args, common),
    }
}

fn load(args: &Run, common: &Common) -> output::Result {
    let pace = match (args.rate, args.window) {
        (Some(rate), _) => Pace::Open(Arrivals::Fixed { rate }),
        (None, Some(window)) => Pace::Closed { window },
        (None, None) => Pace::Flood,
    };
    let mut spec = args.common.spec(pace)?;
    spec.duration = args.duration.or(args.count.is_none().then_some(DURATION));
    (spec.count, spec.warmup) = (args.count, args.warmup);
    let stop = stop_flag()?;
    let result = ::load::run(&spec, || clock::now() + SECOND / 100, &stop, &mut |happened| {
        if common.events {
            // Nobody listens any more where this fails; the result is told all the same.
            let _ = output::event(&happened);
        }
        if let Event::Progress { second, values } = &happened {
            eprintln!("{}", show::second(*second, values));
        }
    })
    .map_err(failure)?;
    common.tell("load.run", &result, || show::run(&spec, &result))?;
    Ok(if result.validity.valid { Status::Done } else { Status::Differs })
}

fn search(args: &SearchArgs, common: &Common) -> output::Result {
    let goal = Goal {
        loss_ratio: args.loss,
        exceed_ratio: args.exceed,
        initial_trial: args.initial,
        final_trial: args.trial,
        duration_sum: args.duration_sum,
        width: args.width,
    };
    goal.check().map_err(Failure::usage)?;
    if args.min > args.max {
        return Err(Failure::usage(format!("--min {} is above --max {}", args.min, args.max)));
    }
    let spec = args.common.spec(Pace::Open(Arrivals::Fixed { rate: args.start }))?;
    let stop = stop_flag()?;
    let plan = Search::new(goal, args.budget).range(args.min, args.max).start(args.start);
    let found = drive(&spec, plan, &stop, &mut |number, rate, duration, result| {
        if common.events {
            let values = serde_json::json!({
                "search_offered_qps": rate, "search_duration": duration as f64 / SECOND as f64,
                "search_loss_ratio": result.loss_ratio(), "search_valid": result.validity.valid,
            });
            let _ = output::event(&Event::Progress { second: number as u64, values });
        }
        eprintln!("{}", show::trial(number, rate, duration, result));
    })
    .map_err(failure)?;
    let validity = found.validity();
    if common.events {
        output::event(&Event::Done { result: serde_json::to_value(&found)? })?;
    } else if common.json {
        let mut value = serde_json::to_value(&found)?;
        value["validity"] = serde_json::to_value(&validity)?;
        output::json("load.search", &value)?;
    } else {
        output::print(&show::search(&found))?;
    }
    Ok(if validity.valid { Status::Done } else { Status::Differs })
}

fn calibration(args: &Calibrate, common: &Common) -> output::Result {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cpus = args.cpus.clone().map_or_else(|| vec![cores - 1], |c| c.0);
    let spec = CalibrateSpec {
        target: args.target,
        echo_cpu: args.echo_cpu.or(Some(0)),
        cpus,
        trial: args.trial,
        budget: args.budget,
        allow_external: args.allow_external,
    };
    let stop = stop_flag()?;
    let found = calibrate(&spec, &stop, &mut |text| eprintln!("{text}")).map_err(failure)?;
    if common.json {
        output::json("load.calibrate", &found)?;
    } else {
        output::print(&show::calibration(&spec, &found))?;
    }
    Ok(if found.echo_qps.is_some() { Status::Done } else { Status::Differs })
}

fn echo(args: &EchoArgs, common: &Common) -> output::Result {
    let duration = args.duration.unwrap_or(DEFAULT_DURATION);
    let spec = EchoSpec { duration, cpu: args.cpu, ..EchoSpec::new(args.addr) };
    let stop = stop_flag()?;
    let echo = Echo::open(&spec).map_err(failure)?;
    eprintln!("answering at {} for {} s; Ctrl-C ends it", echo.addr(), duration as f64 / SECOND as f64);
    let mut before = EchoResult::default();
    let result = echo
        .run(&stop, &mut |now| {
            if now.received > before.received {
                let per_second = now.answered - before.answered;
                eprintln!(
                    "{} answered in a second, {} in all",
                    units::grouped(per_second),
                    units::grouped(now.answered)
                );
            }
            before = *now;
        })
        .map_err(failure)?;
    if common.json {
        output::json("load.echo", &result)?;
    } else {
        output::print(&format!(
            "received {}, answered {}, ignored {}, dropped by the kernel {}\n",
            units::grouped(result.received),
            units::grouped(result.answered),
            units::grouped(result.ignored),
            units::grouped(result.drops),
        ))?;
    }
    Ok(Status::Done)
}
