//! How a load tells of itself while it runs: a live view, lines, events, a page for Prometheus.

use super::show;
use crate::output::{self, Common, Failure};
use ::load::LoadSpec;
use ::report::live::{About, CoreUse, Limits, Live, Machine, Screen, Trial, exposition};
use ::serve::Exporter;
use clap::{Args, ValueEnum};
use measure::clock::{self, SECOND};
use measure::units::grouped;
use measure::{Arrivals, Event, Nanos, Outcome, Pace};
use std::io::{IsTerminal, Stderr};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

/// The flags of what is shown while a load runs.
#[derive(Debug, Args)]
pub struct Show {
    /// Show a live view on standard error instead of lines; auto does if it is a terminal
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = When::Auto, help_heading = "Output", hide_short_help = true)]
    live: When,
    /// Serve the figures for Prometheus at http://ADDR:PORT/metrics meanwhile; ADDR must be on loopback
    #[arg(long, value_name = "ADDR:PORT", help_heading = "Output", hide_short_help = true)]
    prometheus: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    Auto,
    Always,
    Never,
}

impl Show {
    /// Whether there is to be a view: not where the lines of --events would break it.
    fn view(&self, common: &Common) -> bool {
        match self.live {
            When::Always => true,
            When::Never => false,
            When::Auto => {
                std::io::stderr().is_terminal()
                    && !(common.events && std::io::stdout().is_terminal())
                    && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
            }
        }
    }

    /// Begins to tell. `about` says of what.
    pub fn start(&self, about: About, common: &Common) -> Result<Teller, Failure> {
        let view = self.view(common);
        let live = Arc::new(Mutex::new(Live::new(about)));
        let mut teller = Teller { lines: !view, events: common.events, ..Teller::default() };
        if !view && self.prometheus.is_none() {
            return Ok(teller);
        }
        if let Some(at) = self.prometheus {
            let shown = live.clone();
            let exporter =
                Exporter::start(at, move |format| exposition(&lock(&shown), clock::wall(), format))
                    .map_err(|e| Failure::usage(format!("--prometheus {at}: {e}")))?;
            if !view {
                eprintln!("metrics at {}", exporter.url());
            }
            lock(&live).served_at(exporter.url());
            teller.exporter = Some(exporter);
        }
        let (wake, woken) = channel();
        let (shown, screen) = (live.clone(), view.then(|| Screen::new(std::io::stderr(), colour())));
        let thread =
            std::thread::Builder::new().name("live".into()).spawn(move || watch(&shown, screen, &woken))?;
        teller.watching = Some(Watching { live, wake: Some(wake), thread: Some(thread) });
        Ok(teller)
    }
}

/// See <https://no-color.org>.
fn colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The description of a load for the live view.
pub fn about(title: &str, spec: &LoadSpec) -> About {
    About {
        title: title.into(),
        targets: spec.targets.iter().map(ToString::to_string).collect(),
        pace: pace(&spec.pace),
        duration: spec.duration,
        count: spec.count,
        generator: spec.cpus.clone(),
        limits: Limits {
            unsent: ::load::UNSENT_LIMIT,
            pacing: spec.pacing_limit,
            stall: ::load::STALL_LIMIT,
            steal: ::load::STEAL_LIMIT,
        },
        paced: matches!(spec.pace, Pace::Open(_) | Pace::Recorded { .. }),
        search: false,
    }
}

/// A pace in words.
fn pace(pace: &Pace) -> String {
    let qps = |rate: f64| format!("{}/s", grouped(rate.round() as u64));
    match pace {
        Pace::Open(Arrivals::Fixed { rate }) => qps(*rate),
        Pace::Open(Arrivals::Ramp { from, to, .. }) => format!("ramp from {} to {}", qps(*from), qps(*to)),
        Pace::Open(Arrivals::Steps { rates, .. }) => {
            format!("{} steps from {} to {}", rates.len(), qps(rates[0]), qps(rates[rates.len() - 1]))
        }
        Pace::Open(Arrivals::Poisson { rate, .. }) => format!("Poisson, {}", qps(*rate)),
        Pace::Open(Arrivals::Gaps { rate, .. }) => format!("fitted gaps, {}", qps(*rate)),
        Pace::Recorded { speed } if *speed == 1.0 => "as recorded".into(),
        Pace::Recorded { speed } => format!("recorded, {speed} times as fast"),
        Pace::Closed { window } => format!("{} in flight", grouped((*window).into())),
        Pace::Flood => "flood".into(),
    }
}

/// Takes in what happens and tells it.
#[derive(Default)]
pub struct Teller {
    lines: bool,
    events: bool,
    watching: Option<Watching>,
    exporter: Option<Exporter>,
}

impl Teller {
    /// Tells an event.
    pub fn event(&mut self, happened: &Event) {
        // First, so that whoever reads a line finds its figures served.
        self.change(|live| live.event(happened));
        if self.events {
            // Nobody reads the lines any more where this fails; the result is still reported.
            let _ = output::event(happened);
        }
        if let (true, Event::Progress { second, values }) = (self.lines, happened) {
            eprintln!("{}", show::second(*second, values));
        }
    }

    /// Writes a line where lines are written.
    pub fn line(&self, line: &str) {
        if self.lines {
            eprintln!("{line}");
        }
    }

    /// Tells of a trial of a search, and its bounds after it.
    pub fn trial(&mut self, line: &str, trial: &Trial, bounds: (Option<f64>, Option<f64>)) {
        self.line(line);
        self.change(|live| live.trial(trial, bounds));
    }

    /// Shows the verdict in a last frame, which stays, and ends.
    pub fn end(mut self, outcome: &Outcome) {
        self.change(|live| live.end(outcome));
    }

    fn change(&mut self, change: impl FnOnce(&mut Live)) {
        if let Some(watching) = &self.watching {
            change(&mut lock(&watching.live));
            // It has ended only where it has failed; then there is nothing to show.
            let _ = watching.wake.as_ref().map(|wake| wake.send(()));
        }
    }
}

/// The state that is drawn, and the thread that samples the machine and draws.
struct Watching {
    live: Arc<Mutex<Live>>,
    wake: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(live: &Mutex<Live>) -> MutexGuard<'_, Live> {
    // A panic elsewhere does not make figures wrong.
    live.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Samples once a second, and draws at every change; ends, after a last frame, when nobody can wake it any more.
fn watch(live: &Mutex<Live>, mut screen: Option<Screen<Stderr>>, woken: &Receiver<()>) {
    // Whoever measures comes first; where that is not allowed, it is one frame a second.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 10);
    let mut machine = Sampler::new();
    loop {
        let ended = match woken.recv_timeout(Duration::from_secs(1)) {
            Ok(()) => {
                woken.try_iter().for_each(drop);
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        if let Some(now) = machine.sample() {
            lock(live).machine(now);
        }
        if screen.as_mut().is_some_and(|s| s.show(&lock(live), clock::wall(), size()).is_err()) {
            // The terminal is gone; the load is not.
            screen = None;
        }
        if ended {
            return;
        }
    }
}

/// Columns and rows of the terminal; without one, those of the environment, otherwise 80 by 24.
fn size() -> (u16, u16) {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    let env = |name| std::env::var(name).ok()?.parse().ok();
    let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    let (width, height) = size.map_or_else(
        || (env("COLUMNS").unwrap_or(80), env("LINES").unwrap_or(24)),
        |size| (size.ws_col, size.ws_row),
    );
    // A frame is a few kilobytes, whatever the environment says.
    (width.min(500), height.min(200))
}

/// Reads the machine's counters and says what happened between two readings.
struct Sampler {
    counters: Option<::rack::resource_counters::HostCounters>,
    first: Option<(u64, ::rack::resource_counters::Counters)>,
    cores: Vec<::rack::resource_counters::Core>,
    at: Nanos,
}

impl Sampler {
    fn new() -> Self {
        let counters = ::rack::resource_counters::HostCounters::open(&::rack::Host::loopback()).ok();
        let mut sampler = Self { counters, first: None, cores: Vec::new(), at: clock::now() };
        sampler.first = sampler.drops();
        sampler.cores = ::rack::resource_counters::cores().unwrap_or_default();
        sampler
    }

    /// Drops of the receive backlog, and the counters of our namespace.
    fn drops(&self) -> Option<(u64, ::rack::resource_counters::Counters)> {
        let backlog = ::rack::resource_counters::softnet().ok()?.iter().map(|core| core.dropped).sum();
        Some((backlog, self.counters.as_ref()?.read().ok()?))
    }

    /// The change since the last sample; none where that was just now: the kernel counts in hundredths of a second.
    fn sample(&mut self) -> Option<Machine> {
        if clock::now() < self.at + SECOND / 2 {
            return None;
        }
        self.at = clock::now();
        // A figure that the kernel does not give is not shown.
        let cores = ::rack::resource_counters::cores().unwrap_or_default();
        let used = cores.iter().filter_map(|core| {
            let spent = core.since(self.cores.iter().find(|c| c.core == core.core)?);
            Some(CoreUse {
                core: core.core,
                user: spent.percent(spent.user),
                system: spent.percent(spent.system),
                softirq: spent.percent(spent.softirq),
                steal: spent.percent(spent.steal),
            })
        });
        let mut machine = Machine { cores: used.collect(), drops: Vec::new() };
        self.cores = cores;
        if let (Some((backlog, counters)), Some((first_backlog, first))) = (self.drops(), &self.first) {
            let since = counters.since(first);
            machine.drops = vec![
                ("machine_receive_backlog", backlog.saturating_sub(*first_backlog)),
                ("namespace_receive_buffers", since.udp_receive_buffer_errors),
                ("namespace_send_buffers", since.udp_send_buffer_errors),
                ("namespace_devices", since.received_dropped + since.sent_dropped),
            ];
        }
        Some(machine)
    }
}
