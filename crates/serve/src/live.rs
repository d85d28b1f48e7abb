//! What a run does, sent to a page as it happens.

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use results::{Progress, RunDir};
use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often it is looked for news.
const PERIOD: Duration = Duration::from_millis(250);

/// A connection ends after so many looks, an hour; the page asks again by itself.
const MOST: u32 = 14_400;

/// What was told last.
#[derive(Default)]
struct Told {
    progress: Option<Progress>,
    trials: Option<u64>,
    looks: u32,
    /// The run has ended, and that was told.
    over: bool,
}

/// The events of a run: `progress` with what it does as JSON, `trials` where its trials are others, `end` once nobody is at it.
pub fn events(folder: PathBuf, stop: Arc<AtomicBool>) -> Response {
    let told = Told { trials: trials(&folder), ..Told::default() };
    let news = stream::unfold((folder, stop, told), |(folder, stop, mut told)| async move {
        loop {
            if told.over || told.looks > MOST || stop.load(Ordering::Relaxed) {
                return None;
            }
            if told.looks > 0 {
                tokio::time::sleep(PERIOD).await;
            }
            told.looks += 1;
            // A few system calls on small files: shorter than handing them to another thread.
            if let Some(event) = next(&folder, &mut told) {
                return Some((Ok::<_, Infallible>(event), (folder, stop, told)));
            }
        }
    });
    Sse::new(news).keep_alive(KeepAlive::default()).into_response()
}

/// The next event, where there is any.
fn next(folder: &Path, told: &mut Told) -> Option<Event> {
    let now = trials(folder);
    if now != told.trials {
        told.trials = now;
        return Some(Event::default().event("trials").data("changed"));
    }
    if !RunDir::is_at_work(folder) {
        told.over = true;
        return Some(Event::default().event("end").data("nobody is at it"));
    }
    let progress = Progress::read(folder);
    if progress.is_some() && progress != told.progress {
        told.progress = progress;
        let text = serde_json::to_string(&told.progress).ok()?;
        return Some(Event::default().event("progress").data(text));
    }
    None
}

/// Which file has the trials now.
fn trials(folder: &Path) -> Option<u64> {
    fs::metadata(folder.join("trials.parquet")).ok().map(|m| m.ino())
}
