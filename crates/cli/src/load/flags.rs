//! Flags that several verbs of `dnsrack load` share, and how their values are read.

use crate::output::Failure;
use crate::traffic::{NamesFlags, Shape};
use ::load::check::CheckSpec;
use ::load::{Connections, LoadSpec, Prefix, Source, parse_target};
use clap::{Args, ValueEnum};
use measure::clock::SECOND;
use measure::{Nanos, Pace, Seed, units};
use std::net::SocketAddr;
use std::path::PathBuf;
use traffic::{EdnsSpec, ProfileSpec, QueriesSpec, SourceSpec};

/// How long a run is where nothing else is said.
pub const DURATION: Nanos = 10 * SECOND;

/// Where queries come from, and how they are sent: common to `run` and `search`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Send the queries of this file in dnsperf's format: a name and a type on each line
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "profile",
        conflicts_with = "profile",
        help_heading = "Queries"
    )]
    queries: Option<PathBuf>,
    /// Make queries by a profile, for the names of --zone or --names: rzaia, isc, nominet, or a profile file
    #[arg(long, value_name = "P", help_heading = "Queries")]
    profile: Option<String>,
    #[command(flatten)]
    names: NamesFlags,
    #[command(flatten)]
    shape: Shape,
    /// Add an OPT record with this UDP size to the queries of --queries
    #[arg(long, value_name = "SIZE", requires = "queries", help_heading = "Queries", hide_short_help = true)]
    edns: Option<u16>,
    /// Set the DO bit in that OPT record
    #[arg(long = "do", requires = "edns", help_heading = "Queries", hide_short_help = true)]
    do_bit: bool,
    #[command(flatten)]
    sending: Sending,
}

/// Where queries go, and how: common to all verbs that send.
#[derive(Debug, Args)]
pub struct Sending {
    /// Servers to send to: ADDR, ADDR:PORT or [V6]:PORT
    #[arg(required = true, value_name = "TARGET", value_parser = parse_target)]
    targets: Vec<SocketAddr>,
    /// Count a query as lost when its answer takes longer than this
    #[arg(long, default_value = "4s", value_parser = positive, help_heading = "Checks", hide_short_help = true)]
    deadline: Nanos,
    /// Number of source ports [default: as many as the ids in flight need, at least 16]
    #[arg(
        long,
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "Clients",
        hide_short_help = true
    )]
    flows: u32,
    /// Send from these local addresses, or all addresses of these networks, in turn
    #[arg(
        long,
        value_name = "ADDR|NET",
        value_delimiter = ',',
        help_heading = "Clients",
        hide_short_help = true
    )]
    source: Vec<Prefix>,
    /// Send at most this many queries in one system call [default: those due within a millisecond, 1 to 32; flood: 512]
    #[arg(
        long,
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "Pace",
        hide_short_help = true
    )]
    burst: u32,
    /// Send queries in groups of N; the mean rate is unchanged
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Pace", hide_short_help = true)]
    group: u32,
    /// Busy-wait this long before each query is due; shorter frees the core but sends later [default: 250us, and up to 50ms where the machine wakes threads late; replay: 50ms]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Pace", hide_short_help = true)]
    spin: Option<Nanos>,
    /// Number of sending threads [default: one for each core of --cpus, or one]
    #[arg(
        long,
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "Generator",
        hide_short_help = true
    )]
    workers: u32,
    /// Pin the workers to these cores, such as 1 or 2,3 or 4-7
    #[arg(long, value_name = "LIST", value_parser = cpu_list, help_heading = "Generator", hide_short_help = true)]
    cpus: Option<Cpus>,
    /// Receive buffer of each source port's socket, in bytes
    #[arg(long, value_name = "BYTES", default_value = "4194304", value_parser = units::count, help_heading = "Generator", hide_short_help = true)]
    recv_buffer: u64,
    /// Verify a sample of the answers in full against this zone file, which the server must have
    #[arg(long, value_name = "ZONE", help_heading = "Checks")]
    check_against: Option<PathBuf>,
    /// Watch these processes of a server on this machine, to tell losses in the server from losses on the way to it
    #[arg(long, value_name = "PID", value_delimiter = ',', help_heading = "Checks")]
    server_pid: Vec<u32>,
    /// Verify at most this many answers
    #[arg(long, value_name = "N", default_value = "10K", value_parser = units::count, requires = "check_against", help_heading = "Checks", hide_short_help = true)]
    check_sample: u64,
    /// Seed of the queries and ids; the same seed gives the same
    #[arg(long, default_value_t = 1, help_heading = "Generator", hide_short_help = true)]
    seed: u64,
    /// Allow targets outside this machine; load only servers that are yours
    #[arg(long, help_heading = "Generator", hide_short_help = true)]
    allow_external: bool,
    /// Protocol of the queries
    #[arg(long, value_enum, default_value_t = Transport::Udp, help_heading = "Transport")]
    transport: Transport,
    /// Share of truncated answers that is asked again over TCP, with udp+tcp [default: the profile's, or 1]
    #[arg(long, value_name = "SHARE", help_heading = "Transport", hide_short_help = true)]
    retry: Option<f64>,
    /// Way to send packets; auto uses AF_XDP for rates that sockets do not reach, where possible
    #[arg(long, value_enum, default_value_t = Backend::Auto, help_heading = "Generator", hide_short_help = true)]
    backend: Backend,
    /// Open at most this many TCP connections for each worker [default: 64]
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "Transport",
        hide_short_help = true
    )]
    connections: u32,
    /// Close a TCP connection after this many queries [default: no limit]
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "Transport",
        hide_short_help = true
    )]
    queries_per_connection: u32,
    /// Leave at most this many queries unanswered on a TCP connection [default: no limit]
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "Transport",
        hide_short_help = true
    )]
    pipeline: u32,
    /// Close TCP connections with RST, so that no port stays in TIME_WAIT
    #[arg(long, help_heading = "Transport", hide_short_help = true)]
    tcp_reset: bool,
    /// Close a TCP connection that was idle for this long; 0: never
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration, help_heading = "Transport", hide_short_help = true)]
    idle: Nanos,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Transport {
    Udp,
    Tcp,
    /// UDP; truncated answers are asked again over TCP
    #[value(name = "udp+tcp")]
    UdpTcp,
}

impl From<Transport> for ::load::Transport {
    fn from(transport: Transport) -> Self {
        match transport {
            Transport::Udp => Self::Udp,
            Transport::Tcp => Self::Tcp,
            Transport::UdpTcp => Self::UdpTcp,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Backend {
    Auto,
    Xdp,
    Socket,
}

impl From<Backend> for ::load::Backend {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Auto => Self::Auto,
            Backend::Xdp => Self::Xdp,
            Backend::Socket => Self::Socket,
        }
    }
}

/// A list of cores.
#[derive(Clone, Debug)]
pub struct Cpus(pub Vec<usize>);

pub fn rate(text: &str) -> Result<f64, String> {
    match units::number(text)? {
        rate if rate > 0.0 => Ok(rate),
        _ => Err("a rate must be more than zero".into()),
    }
}

pub fn positive(text: &str) -> Result<Nanos, String> {
    match units::duration(text)? {
        0 => Err("it must be more than zero".into()),
        n => Ok(n),
    }
}

pub fn cpu_list(text: &str) -> Result<Cpus, String> {
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
            if self.names.any() {
                let what = "--zone and --names are for --profile: the queries of --queries have their names";
                return Err(Failure::usage(what));
            }
            if !self.shape.changes().is_empty() {
                let what =
                    format!("{} change a profile: they do nothing to the queries of --queries", Shape::FLAGS);
                return Err(Failure::usage(what));
            }
            let edns = self.edns.map(|udp_size| EdnsSpec { udp_size, do_bit: self.do_bit });
            return Ok(SourceSpec::Queries(QueriesSpec { path: path.clone(), edns, cycle: true }));
        }
        let profile = self.profile.clone().expect("clap wants one of the two");
        let (names, changes) = (self.names.lists(&profile)?, self.shape.changes());
        Ok(SourceSpec::Profile(ProfileSpec { profile, names, seed: self.seed(), changes }))
    }

    pub fn seed(&self) -> Seed {
        Seed(self.sending.seed)
    }

    /// The profile that is asked for.
    pub fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// The load that these flags ask for, with a pace.
    pub fn spec(&self, pace: Pace) -> Result<LoadSpec, Failure> {
        Ok(self.sending.spec(self.source()?, pace))
    }
}

impl Sending {
    /// A load of these queries at a pace.
    pub fn spec(&self, source: impl Into<Source>, pace: Pace) -> LoadSpec {
        let usual = LoadSpec::new(self.targets.clone(), source, pace, DURATION);
        LoadSpec {
            deadline: self.deadline,
            flows: self.flows,
            sources: self.source.clone(),
            workers: self.workers,
            cpus: self.cpus.clone().map(|c| c.0).unwrap_or_default(),
            burst: self.burst,
            group: self.group,
            spin: self.spin,
            check: self.check_against.as_ref().map(|zone| CheckSpec {
                sample: self.check_sample.min(1_000_000) as u32,
                seed: Seed(self.seed),
                ..CheckSpec::new(zone)
            }),
            server_pids: self.server_pid.clone(),
            transport: self.transport.into(),
            retry: self.retry,
            backend: self.backend.into(),
            connections: Connections {
                most: self.connections,
                queries: self.queries_per_connection,
                idle: self.idle,
                pipeline: self.pipeline,
                reset: self.tcp_reset,
            },
            recv_buffer: self.recv_buffer as usize,
            seed: Seed(self.seed),
            allow_external: self.allow_external,
            ..usual
        }
    }
}
