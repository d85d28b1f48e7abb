//! `dnsrack-query`, which `dnsrack query` starts: SQL over run directories, imported traces and captures.

mod messages;
mod prompt;

use clap::{CommandFactory, Parser, ValueEnum};
use futures_util::StreamExt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use measure::Aside;
use query::output::{Format, Output};
use query::shipped::{self, Shipped};
use query::storage::Settings;
use query::{Error, Options, Progress, Session, cluster, sources};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ask run directories, imported traces and captures in SQL
///
/// Run directories are the tables runs, trials, metrics, latency, series, servers and environment; captures and imported traces are the
/// table queries. Without a statement there is a prompt.
#[derive(Parser)]
#[command(
    name = "dnsrack query",
    bin_name = "dnsrack query",
    version,
    args_conflicts_with_subcommands = true
)]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,
    /// SQL; a file of SQL whose name ends in .sql; or @NAME, a query that comes with dnsrack
    #[arg(value_name = "SQL")]
    statement: Option<String>,
    /// Run directories, folders of them, folders of 'dnsrack trace import', Parquet files, captures
    ///
    /// The last three may be in storage with Amazon's S3 protocol: s3://BUCKET/KEY. The environment says where it is, and who reads:
    /// AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY.
    #[arg(value_name = "SOURCE")]
    sources: Vec<PathBuf>,
    /// Form of the rows
    #[arg(long, value_enum, default_value = "table")]
    format: Form,
    /// Print exactly one JSON object on standard output: columns and rows
    #[arg(long, conflicts_with_all = ["format", "output"])]
    json: bool,
    /// Write the rows to this file; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Value of a parameter: $NAME in the statement
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = set)]
    set: Vec<(String, String)>,
    /// Each capture, and each imported trace, is a trace of its own; the column source says which
    #[arg(long)]
    apart: bool,
    /// Port of the servers, in captures; several are possible
    #[arg(long = "port", value_name = "PORT", default_value = "53")]
    ports: Vec<u16>,
    /// Threads [default: the number of cores]; with --cluster: parts that the work is divided into [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Let the cluster of this scheduler (see 'dnsrack query scheduler') run the statement. All its machines must see the sources at the
    /// same paths
    #[arg(long, value_name = "HOST[:PORT]", value_parser = cluster::scheduler_address, conflicts_with_all = ["memory", "spill"])]
    cluster: Option<String>,
    /// Octets that sorts, joins and groups may take in memory before they go on in files
    #[arg(long, value_name = "OCTETS", default_value = "1G", value_parser = measure::units::count)]
    memory: u64,
    /// Folder of these files [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    spill: Option<PathBuf>,
    /// Name the queries that come with dnsrack
    #[arg(long)]
    list: bool,
    /// Print the SQL of a query that comes with dnsrack
    #[arg(long, value_name = "NAME")]
    show: Option<String>,
    /// Name the functions of DNS
    #[arg(long)]
    functions: bool,
}

/// Roles in a cluster, for --cluster.
#[derive(clap::Subcommand)]
enum Role {
    /// Divide the statements of --cluster among executors
    Scheduler {
        /// Address to listen on
        #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
        address: IpAddr,
        /// Port to listen on; 0: any that is free
        #[arg(long, value_name = "PORT", default_value_t = cluster::PORT)]
        port: u16,
        /// The address may be one that other machines reach: whoever does can read every file that you can read
        #[arg(long)]
        allow_external: bool,
    },
    /// Work for a scheduler
    Executor {
        /// The scheduler
        #[arg(long, value_name = "HOST[:PORT]", value_parser = cluster::scheduler_address)]
        scheduler: String,
        /// Address of this machine, at which the other executors and the asking machine fetch rows
        #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
        address: IpAddr,
        /// Port for it; tasks come at the next one. 0: any two that are free
        #[arg(long, value_name = "PORT", default_value_t = 0)]
        port: u16,
        /// The address may be one that other machines reach: whoever does can read every file that you can read
        #[arg(long)]
        allow_external: bool,
        /// Threads [default: the number of cores]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
        threads: Option<u32>,
        /// Octets that sorts, joins and groups of all threads may take in memory before they go on in files [default: 70 % of the
        /// machine's, or of the control group's]
        #[arg(long, value_name = "OCTETS", value_parser = measure::units::count)]
        memory: Option<u64>,
        /// Folder of these files, and of the rows that others fetch [default: the system's for temporary files]
        #[arg(long, value_name = "DIR")]
        spill: Option<PathBuf>,
        /// Give up when the scheduler is silent for so long
        #[arg(long, value_name = "TIME", default_value = "60s", value_parser = patience)]
        wait: Duration,
    },
}

fn patience(text: &str) -> Result<Duration, String> {
    let time = Duration::from_nanos(measure::units::duration(text)?);
    // A scheduler is asked every three seconds.
    match time >= Duration::from_secs(5) && time <= Duration::from_secs(3600) {
        true => Ok(time),
        false => Err("it is from 5s to 1h".into()),
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Form {
    Table,
    Csv,
    Json,
    Parquet,
}

impl From<Form> for Format {
    fn from(form: Form) -> Self {
        match form {
            Form::Table => Self::Table,
            Form::Csv => Self::Csv,
            Form::Json => Self::Json,
            Form::Parquet => Self::Parquet,
        }
    }
}

fn set(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it has the form NAME=VALUE")?;
    Ok((name.trim_start_matches('$').to_owned(), value.to_owned()))
}

/// A statement, with what it is called and the values of its parameters.
struct Statement {
    name: String,
    sql: String,
    parameters: BTreeMap<String, String>,
}

impl Statement {
    /// Whether this is a statement rather than a source.
    fn looks_like_one(text: &str) -> bool {
        text.starts_with('@') || text.ends_with(".sql") || text.contains(char::is_whitespace)
    }

    /// Of the command line, or of the prompt.
    fn of(text: &str, set: &[(String, String)]) -> Result<Self, Error> {
        let mut parameters = BTreeMap::new();
        let (name, sql) = if let Some(name) = text.strip_prefix('@') {
            let shipped = Shipped::find(name)?;
            parameters.extend(shipped.parameters().map(|p| (p.name.to_owned(), p.value.to_owned())));
            (text.to_owned(), shipped.sql.to_owned())
        } else if text.ends_with(".sql") && !text.contains(char::is_whitespace) || Path::new(text).is_file() {
            (text.to_owned(), sources::read(Path::new(text))?)
        } else {
            ("SQL".to_owned(), text.to_owned())
        };
        parameters.extend(set.iter().cloned());
        Ok(Self { name, sql, parameters })
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Stopped) => {
            eprintln!("dnsrack query: stopped");
            ExitCode::from(130)
        }
        Err(error) => {
            eprintln!("dnsrack query: {error}");
            ExitCode::from(if matches!(error, Error::External(_)) { 2 } else { 1 })
        }
    }
}

fn run(mut cli: Cli) -> Result<(), Error> {
    if let Some(role) = cli.role {
        return run_role(role);
    }
    if cli.list || cli.functions {
        return print(&if cli.list { list() } else { functions() });
    }
    if let Some(name) = &cli.show {
        return print(Shipped::find(name.trim_start_matches('@'))?.sql);
    }
    if cli.statement.as_ref().is_some_and(|text| !Statement::looks_like_one(text)) {
        cli.sources.insert(0, cli.statement.take().expect("it was just looked at").into());
    }
    if cli.sources.is_empty() {
        let usage =
            "what is to be asked? Give a run directory, a folder of 'dnsrack trace import' or a capture";
        Cli::command().error(clap::error::ErrorKind::MissingRequiredArgument, usage).exit();
    }
    let spill = spill_folder(cli.spill)?;
    let options = Options {
        threads: threads(cli.threads.or(cli.cluster.as_ref().map(|_| PARTS))),
        cluster: cli.cluster,
        memory: cli.memory,
        spill: Some(spill.path().to_owned()),
        ports: cli.ports,
        apart: cli.apart,
        storage: Settings::from_env(),
    };
    let statement = cli.statement.map(|text| Statement::of(&text, &cli.set)).transpose()?;
    let runtimes = Runtimes { work: runtime(options.threads)?, signals: runtime_of_signals()? };
    let opened = runtimes.work.block_on(Session::open(&cli.sources, &options)).map(Arc::new);
    let done = opened.and_then(|session| match statement {
        Some(statement) => {
            let format = if cli.json { Format::Object } else { cli.format.into() };
            answer(&runtimes, &session, statement, format, &cli.output)
        }
        None => prompt::run(&runtimes, &session, &cli.set),
    });
    // Threads that read a capture notice after their next batch that nobody wants its rows.
    runtimes.work.shutdown_timeout(Duration::from_secs(5));
    drop(spill);
    done
}

/// Parts that the work is divided into on a cluster.
const PARTS: u32 = 16;

fn threads(wanted: Option<u32>) -> usize {
    wanted.map_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()), |n| n as usize)
}

/// Where statements are run, and where signals and time are noticed: the threads of the former may all be in a join that gives nothing
/// for minutes.
struct Runtimes {
    work: Runtime,
    signals: Runtime,
}

fn runtime_of_signals() -> Result<Runtime, Error> {
    let made = tokio::runtime::Builder::new_current_thread().enable_all().build();
    made.map_err(|cause| Error::Engine(cause.to_string()))
}

fn runtime(threads: usize) -> Result<Runtime, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(|cause| Error::Engine(cause.to_string()))
}

/// A folder of our own, so that nothing of it is left where a statement was stopped.
fn spill_folder(inside: Option<PathBuf>) -> Result<tempfile::TempDir, Error> {
    let inside = inside.unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new().prefix("dnsrack-query-").tempdir_in(&inside);
    folder.map_err(|cause| Error::Io { path: inside, cause })
}

/// Runs a scheduler or an executor until a signal ends it.
fn run_role(role: Role) -> Result<(), Error> {
    let _ = log::set_logger(&messages::TO_STDERR).map(|()| log::set_max_level(log::LevelFilter::Warn));
    let runtime = runtime(threads(None))?;
    match role {
        Role::Scheduler { address, port, allow_external } => {
            cluster::check_address(address, allow_external)?;
            let scheduler = cluster::Scheduler { at: (address, port).into(), storage: Settings::from_env() };
            let ready = |at| eprintln!("dnsrack query scheduler: at {at}");
            runtime.block_on(until_signal(cluster::scheduler(&scheduler, ready)))
        }
        Role::Executor { scheduler, address, port, allow_external, threads: wanted, memory, spill, wait } => {
            cluster::check_address(address, allow_external)?;
            let folder = spill_folder(spill)?;
            let executor = cluster::Executor {
                scheduler,
                at: (address, port).into(),
                threads: threads(wanted),
                memory,
                folder: folder.path().to_owned(),
                patience: wait,
                storage: Settings::from_env(),
            };
            let ready = |at| {
                let (count, scheduler) =
                    (measure::units::counted(executor.threads as u64, "thread"), &executor.scheduler);
                eprintln!("dnsrack query executor: at {at}, {count}, for the scheduler {scheduler}");
            };
            let done = runtime.block_on(until_signal(cluster::executor(&executor, ready)));
            runtime.shutdown_timeout(Duration::from_secs(5));
            done
        }
    }
}

/// SIGINT and SIGTERM.
fn signals() -> Result<(Signal, Signal), Error> {
    let signal = |kind| signal(kind).map_err(|cause| Error::Engine(cause.to_string()));
    Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
}

/// SIGINT and SIGTERM are how a scheduler or an executor is ended.
async fn until_signal(work: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let (mut interrupt, mut terminate) = signals()?;
    tokio::select! {
        done = work => done,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

/// Runs a statement, and writes its rows.
fn answer(
    runtimes: &Runtimes,
    session: &Arc<Session>,
    statement: Statement,
    format: Format,
    to: &Path,
) -> Result<(), Error> {
    let io = |cause| Error::Io { path: to.to_owned(), cause };
    if to == Path::new("-") {
        return rows(runtimes, session, statement, format, BufWriter::new(io::stdout())).map(drop);
    }
    // A device or a pipe is written directly.
    if to.metadata().is_ok_and(|m| !m.is_file()) {
        let out = File::options().write(true).open(to).map_err(io)?;
        return rows(runtimes, session, statement, format, BufWriter::new(out)).map(drop);
    }
    let mut aside = Aside::create(to).map_err(io)?;
    let out = BufWriter::new(aside.file().try_clone().map_err(io)?);
    let count = rows(runtimes, session, statement, format, out)?;
    aside.finish().map_err(io)?;
    eprintln!("{}: {}", measure::units::counted(count, "row"), to.display());
    Ok(())
}

/// Writes the rows of a statement, and gives their number. A closed pipe (`| head`) ends it, and is no error.
fn rows(
    runtimes: &Runtimes,
    session: &Arc<Session>,
    statement: Statement,
    format: Format,
    out: impl Write + Send + 'static,
) -> Result<u64, Error> {
    let broken = Arc::new(AtomicBool::new(false));
    let out = Pipe { out, broken: broken.clone() };
    let asked = session.clone();
    let mut work = runtimes.work.spawn(async move {
        let Statement { name, sql, parameters } = &statement;
        let mut stream = asked.ask(sql, name, parameters).await?;
        let mut output = Output::new(format, &stream.schema(), out)?;
        while let Some(batch) = stream.next().await {
            output.write(&batch.map_err(|e| Error::of(&e, name, sql))?)?;
        }
        output.finish()
    });
    let mut shown = Shown::new(session);
    runtimes.signals.block_on(async {
        let (mut interrupt, mut terminate) = signals()?;
        let done = loop {
            tokio::select! {
                done = &mut work => break done.unwrap_or_else(|cause| Err(Error::Engine(cause.to_string()))),
                _ = interrupt.recv() => break Err(Error::Stopped),
                _ = terminate.recv() => break Err(Error::Stopped),
                () = tokio::time::sleep(Duration::from_millis(100)) => shown.show(),
            }
        };
        work.abort();
        shown.bar.finish_and_clear();
        if done.is_err() || broken.load(Ordering::Relaxed) {
            session.cancel().await;
        }
        if broken.load(Ordering::Relaxed) { Ok(0) } else { done }
    })
}

/// Notices that nobody reads any more: those who write rows make a text of the error.
struct Pipe<W> {
    out: W,
    broken: Arc<AtomicBool>,
}

impl<W: Write> Pipe<W> {
    fn noticed<T>(&self, done: io::Result<T>) -> io::Result<T> {
        done.inspect_err(|e| {
            self.broken.fetch_or(e.kind() == io::ErrorKind::BrokenPipe, Ordering::Relaxed);
        })
    }
}

impl<W: Write> Write for Pipe<W> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let done = self.out.write(octets);
        self.noticed(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.out.flush();
        self.noticed(done)
    }
}

/// Packets and rows read: a line that is overwritten on a terminal, otherwise a line every ten seconds.
struct Shown<'a> {
    session: &'a Session,
    bar: ProgressBar,
    packets_before: u64,
    began: Instant,
    next: Instant,
}

impl<'a> Shown<'a> {
    fn new(session: &'a Session) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template("{msg}").expect("it is a template"));
        let began = Instant::now();
        let next = began + Duration::from_secs(10);
        Self { session, bar, packets_before: session.progress().packets, began, next }
    }

    fn show(&mut self) {
        let now = self.session.progress();
        let text = match self.session.is_on_cluster() {
            true => {
                let lost = match self.session.restarts() {
                    0 => String::new(),
                    count => format!("; an executor was lost, and the statement started again ({count})"),
                };
                Some(format!("{} s on the cluster{lost}", self.began.elapsed().as_secs()))
            }
            false => text(&Progress { packets: now.packets - self.packets_before, ..now }),
        };
        let Some(text) = text else { return };
        if io::stderr().is_terminal() {
            self.bar.set_message(text);
        } else if Instant::now() >= self.next {
            self.next += Duration::from_secs(10);
            eprintln!("{text}");
        }
    }
}

/// Nothing where nothing was read yet.
fn text(progress: &Progress) -> Option<String> {
    let grouped = measure::units::grouped;
    let packets = (progress.packets > 0).then(|| format!("{} packets", grouped(progress.packets)));
    let rows = (progress.rows > 0)
        .then(|| format!("{} of at most {} rows", grouped(progress.rows), grouped(progress.most_rows)));
    let parts: Vec<_> = packets.into_iter().chain(rows).collect();
    (!parts.is_empty()).then(|| format!("{} read", parts.join(", ")))
}

fn print(text: &str) -> Result<(), Error> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::Io { path: "standard output".into(), cause })
        }
        _ => Ok(()),
    }
}

/// The queries that come with the program, those of traces first.
fn list() -> String {
    let mut text = String::new();
    for (of_runs, title) in [(false, "Of captures and imported traces:"), (true, "Of run directories:")] {
        text += &format!("{title}\n");
        for query in shipped::ALL.iter().filter(|query| query.is_of_runs() == of_runs) {
            text += &format!("  @{:<24} {}\n", query.name, query.text());
            for p in query.parameters() {
                text += &format!("  {:<25}   --set {}={}: {}\n", "", p.name, p.value, p.text);
            }
        }
    }
    text
}

fn functions() -> String {
    query::functions::ALL.iter().map(|(call, text, _)| format!("{call:<30} {text}\n")).collect()
}
