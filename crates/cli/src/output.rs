//! What every command needs: where output goes, how it ends, how it fails.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// The flags that every command takes.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Common {
    /// Print exactly one JSON object on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Print JSON lines on standard output while it runs
    #[arg(long, global = true)]
    pub events: bool,
}

/// How a command ended that did what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Exit status 0.
    Done,
    /// Exit status 3: finished, but invalid, different or worse.
    Differs,
}

/// Why a command could not do what it was asked.
#[derive(Debug)]
pub struct Failure {
    /// 1, or 2 for wrong usage.
    pub code: u8,
    /// What happened, where, and what to do.
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

/// What a command returns.
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

/// Writes an output: regular files aside and renamed into place, so that a failure leaves nothing
/// half-made; `-` is standard output; devices and pipes are written directly.
pub fn write_output<T>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::result::Result<T, Failure>,
) -> std::result::Result<T, Failure> {
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
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut aside = tempfile::Builder::new()
        .prefix(".dnsrack-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)
        .map_err(at)?;
    let mut out = BufWriter::with_capacity(1 << 20, aside.as_file_mut());
    let value = write(&mut out)?;
    out.flush().map_err(at)?;
    drop(out);
    aside.persist(path).map_err(|e| at(e.error))?;
    Ok(value)
}

/// Now, for the name of a folder: `20261121-040506`, UTC.
pub fn time_stamp() -> String {
    let seconds = measure::clock::wall() / measure::clock::SECOND;
    let (year, month, day) = measure::units::date(seconds);
    let of_day = seconds % 86_400;
    format!("{year:04}{month:02}{day:02}-{:02}{:02}{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// Progress on standard error: a bar on a terminal, otherwise a plain line every ten seconds.
pub struct Progress {
    bar: ProgressBar,
    label: String,
    total: u64,
    plain: bool,
    last: Instant,
}

impl Progress {
    /// Progress of `total` steps.
    pub fn new(label: &str, total: u64) -> Self {
        let plain = !io::stderr().is_terminal();
        let target = if plain { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(5) };
        let style = ProgressStyle::with_template("{msg} [{wide_bar}] {human_pos}/{human_len} {eta}")
            .expect("a constant template is valid");
        let bar = ProgressBar::with_draw_target(Some(total), target)
            .with_style(style.progress_chars("=> "))
            .with_message(label.to_owned());
        Self { bar, label: label.to_owned(), total, plain, last: Instant::now() }
    }

    /// How many steps are done.
    pub fn set(&mut self, done: u64) {
        self.bar.set_position(done);
        if self.plain && self.last.elapsed() >= Duration::from_secs(10) {
            self.last = Instant::now();
            eprintln!("{}: {done} of {}", self.label, self.total);
        }
    }

    /// Takes the bar away.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
