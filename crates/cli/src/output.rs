//! Helpers of every command: where output goes, how it ends, how it fails.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use measure::units::grouped;
use measure::{Aside, Event, Nanos};
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The flags that every command takes.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Common {
    /// Print exactly one JSON object on standard output
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,
    /// Print JSON lines on standard output while it runs
    #[arg(long, global = true, help_heading = "Output")]
    pub events: bool,
}

/// Set by Ctrl-C and SIGTERM; a second one ends the program at once.
pub fn stop_flag() -> std::result::Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// How a command ended that did what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Exit status 0.
    Done,
    /// Exit status 3: finished, but invalid, different or worse.
    Differs,
    /// Exit status 4: a comparison is finished, and does not know whether the candidate is worse.
    NotKnown,
    /// Exit status 5: the candidate of a comparison failed where the base did not.
    CandidateFailed,
    /// Exit status 6: a run was ended (Ctrl-C) before all of it was done.
    CutShort,
}

impl Status {
    /// The exit status.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Differs => 3,
            Self::NotKnown => 4,
            Self::CandidateFailed => 5,
            Self::CutShort => 6,
        }
    }
}

/// Why a command could not do what it was asked.
#[derive(Debug)]
pub struct Failure {
    /// 1, or 2 for wrong usage.
    pub code: u8,
    /// A sentence: what happened, where, and what to do.
    pub message: String,
}

impl Failure {
    /// Wrong usage: names the flag, exit status 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: 2, message: message.into() }
    }
}

/// Any library error: exit status 1, with the causes that its own sentence does not already quote.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            source = cause.source();
        }
        Self { code: 1, message }
    }
}

/// The result of a command.
pub type Result = std::result::Result<Status, Failure>;

/// Prints text on standard output; a closed pipe (`| head`) is not an error.
pub fn print(text: &str) -> std::result::Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Failure::from(e)),
        _ => Ok(()),
    }
}

/// Prints one JSON object on one line, its `schema` first.
pub fn json(schema: &str, value: &impl Serialize) -> std::result::Result<(), Failure> {
    #[derive(Serialize)]
    struct Tagged<'a, T> {
        schema: String,
        #[serde(flatten)]
        value: &'a T,
    }
    let tagged = Tagged { schema: format!("dnsrack.{schema}/1"), value };
    print(&(serde_json::to_string(&tagged)? + "\n"))
}

/// Endings of compressed files. Outputs are not compressed, so a file with such a name would be what its name does not say.
const COMPRESSED: [&str; 5] = ["gz", "bz2", "xz", "zst", "lz4"];

/// Writes an output: regular files aside and renamed into place, so that a failure leaves nothing
/// half-made; `-` is standard output; devices and pipes are written directly. Names of compressed files are refused.
pub fn write_output<T>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::result::Result<T, Failure>,
) -> std::result::Result<T, Failure> {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    if COMPRESSED.contains(&extension) {
        return Err(Failure::usage(format!(
            "{}: the name ends in .{extension}, but outputs are not compressed: write to standard output (-) and compress that",
            path.display()
        )));
    }
    let at = |e: io::Error| Failure { code: 1, message: format!("{}: {e}", path.display()) };
    if path == Path::new("-") {
        let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
        let value = write(&mut out)?;
        out.flush().map_err(at)?;
        return Ok(value);
    }
    if path.metadata().is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        let mut out = BufWriter::with_capacity(1 << 20, File::options().write(true).open(path).map_err(at)?);
        let value = write(&mut out)?;
        out.flush().map_err(at)?;
        return Ok(value);
    }
    let mut aside = Aside::create(path).map_err(at)?;
    let mut out = BufWriter::with_capacity(1 << 20, &mut aside);
    let value = write(&mut out)?;
    out.flush().map_err(at)?;
    drop(out);
    aside.finish().map_err(at)?;
    Ok(value)
}

/// An instant of the wall clock, nanoseconds since 1970, UTC.
pub fn time(wall: Nanos) -> Timestamp {
    Timestamp::from_nanosecond(wall.into()).expect("64 bits end in the year 2554")
}

/// Now, for the name of a folder: `20261121-040506`, UTC.
pub fn time_stamp() -> String {
    time(measure::clock::wall()).strftime("%Y%m%d-%H%M%S").to_string()
}

/// One JSON line of `--events`.
pub fn event(event: &Event) -> std::result::Result<(), Failure> {
    print(&(serde_json::to_string(event)? + "\n"))
}

impl Common {
    /// Progress of `total` steps (0: nobody knows how many), reported as these flags say.
    pub fn progress(&self, label: &str, total: u64) -> Progress {
        Progress { events: self.events, ..Progress::new(label, total) }
    }

    /// Tells the result of a command on standard output: a `done` event, the JSON object, or the text for people.
    pub fn tell(
        &self,
        schema: &str,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> std::result::Result<(), Failure> {
        if self.events {
            event(&Event::Done { result: serde_json::to_value(value)? })
        } else if self.json {
            json(schema, value)
        } else {
            print(&text())
        }
    }

    /// Refuses an output on standard output where these flags want that for themselves.
    pub fn no_two_outputs(&self, path: &Path) -> std::result::Result<(), Failure> {
        if (self.json || self.events) && path == Path::new("-") {
            return Err(Failure::usage(
                "--json, --events and '--output -' all want standard output: give -o a file",
            ));
        }
        Ok(())
    }
}

/// A shorter command reports no progress where progress goes in lines.
const FIRST: Duration = Duration::from_secs(2);
/// Time between two plain lines.
const PLAIN: Duration = Duration::from_secs(10);
/// Time between two events.
const EVENTS: Duration = Duration::from_secs(1);

/// Progress: a bar on a terminal, otherwise a plain line after two seconds and then every ten, both on standard
/// error; with `--events` a JSON line a second on standard output beside them.
pub struct Progress {
    bar: ProgressBar,
    label: String,
    total: u64,
    plain: bool,
    events: bool,
    start: Instant,
    next_line: Duration,
    next_event: Duration,
}

impl Progress {
    /// Progress of `total` steps.
    pub fn new(label: &str, total: u64) -> Self {
        let plain = !io::stderr().is_terminal();
        let target = if plain { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(5) };
        let template = match total {
            0 => "{msg} {spinner} {human_pos}, {per_sec}",
            _ => "{msg} [{wide_bar}] {human_pos}/{human_len} {per_sec} {eta}",
        };
        let style = ProgressStyle::with_template(template).expect("a constant template is valid");
        let bar = ProgressBar::with_draw_target((total > 0).then_some(total), target)
            .with_style(style.progress_chars("=> "))
            .with_message(label.to_owned());
        Self {
            bar,
            label: label.to_owned(),
            total,
            plain,
            events: false,
            start: Instant::now(),
            next_line: FIRST,
            next_event: EVENTS,
        }
    }

    /// How many steps are done.
    pub fn set(&mut self, done: u64) {
        self.bar.set_position(done);
        let elapsed = self.start.elapsed();
        if self.plain && elapsed >= self.next_line {
            self.next_line = elapsed + PLAIN;
            eprintln!("{}", plain_line(&self.label, done, self.total, elapsed));
        }
        if self.events && elapsed >= self.next_event {
            self.next_event = elapsed + EVENTS;
            let values = serde_json::json!({
                "what": self.label, "done": done, "total": self.total,
                "per_second": per_second(done, elapsed), "remaining_s": remaining(done, self.total, elapsed),
            });
            // Nobody reads the lines any more where this fails; the result is still reported.
            let _ = event(&Event::Progress { second: elapsed.as_secs(), values });
        }
    }

    /// Takes the bar away.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

fn per_second(done: u64, elapsed: Duration) -> f64 {
    done as f64 / elapsed.as_secs_f64().max(1e-9)
}

/// Seconds that the rest takes at the rate so far; `None` where that is not known.
fn remaining(done: u64, total: u64, elapsed: Duration) -> Option<f64> {
    (done > 0 && total > 0).then(|| total.saturating_sub(done) as f64 / per_second(done, elapsed))
}

/// `label: 12,000 of 48,000 (25 %), 4,000 a second, 9 s left`.
fn plain_line(label: &str, done: u64, total: u64, elapsed: Duration) -> String {
    let mut line = format!("{label}: {}", grouped(done));
    if total > 0 {
        let percent = done as f64 * 100.0 / total as f64;
        line += &format!(" of {} ({percent:.0} %)", grouped(total));
    }
    line += &format!(", {} a second", grouped(per_second(done, elapsed) as u64));
    if let Some(seconds) = remaining(done, total, elapsed) {
        line += &format!(", {} s left", grouped(seconds.ceil() as u64));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_tell_rate_and_what_is_left() {
        let line = |done, total| plain_line("octets", done, total, Duration::from_secs(3));
        assert_eq!(line(12_000, 48_000), "octets: 12,000 of 48,000 (25 %), 4,000 a second, 9 s left");
        assert_eq!(line(12_000, 0), "octets: 12,000, 4,000 a second");
        assert_eq!(line(0, 48_000), "octets: 0 of 48,000 (0 %), 0 a second");
        // A zone with $INCLUDE is longer than its own file.
        assert_eq!(line(60_000, 48_000), "octets: 60,000 of 48,000 (125 %), 20,000 a second, 0 s left");
    }
}
