//! Warnings of the libraries that a scheduler and an executor are made of, on standard error.

use log::{Log, Metadata, Record};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A message that comes again and again is written once in this time.
const AGAIN: Duration = Duration::from_secs(30);

/// Executors give no metrics, on purpose (`query::cluster`), and the scheduler says of each stage that they are missing.
const EXPECTED: &str = "The metrics for stage";

/// Writes messages to standard error.
pub struct ToStderr {
    last: Mutex<Option<(String, Instant)>>,
}

/// The only one.
pub static TO_STDERR: ToStderr = ToStderr { last: Mutex::new(None) };

impl Log for ToStderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let said = record.args().to_string();
        if said.starts_with(EXPECTED) {
            return;
        }
        let text = format!("{}: {said}", record.level().as_str().to_lowercase());
        let mut last = self.last.lock().expect("no one panics with it");
        if last.as_ref().is_some_and(|(said, at)| *said == text && at.elapsed() < AGAIN) {
            return;
        }
        eprintln!("{text}");
        *last = Some((text, Instant::now()));
    }

    fn flush(&self) {}
}
