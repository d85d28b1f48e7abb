//! Reading captures in parts, side by side.

use super::{Collector, Facts, Rssac002};
use crate::read::{Error, Event, Options, Reader};
use measure::Nanos;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The number of packets between two progress reports.
const STEP: u64 = 1 << 16;

/// A collector of the events of a trace, or of a part of it.
pub(crate) trait Collect {
    /// The facts at the end.
    type Facts: Send;
    /// Takes the next event.
    fn add(&mut self, event: &Event<'_>);
    /// The facts, once the reader has come to its end.
    fn finish(self, reader: &Reader) -> Self::Facts;
    /// Adds another part of the same trace.
    fn merge(whole: &mut Self::Facts, part: Self::Facts);
}

/// Two things at once.
impl<A: Collect, B: Collect> Collect for (A, B) {
    type Facts = (A::Facts, B::Facts);

    fn add(&mut self, event: &Event<'_>) {
        self.0.add(event);
        self.1.add(event);
    }

    fn finish(self, reader: &Reader) -> Self::Facts {
        (self.0.finish(reader), self.1.finish(reader))
    }

    fn merge(whole: &mut Self::Facts, part: Self::Facts) {
        A::merge(&mut whole.0, part.0);
        B::merge(&mut whole.1, part.1);
    }
}

impl Collect for Collector {
    type Facts = Facts;

    fn add(&mut self, event: &Event<'_>) {
        Collector::add(self, event);
    }

    fn finish(self, reader: &Reader) -> Facts {
        Collector::finish(self, reader)
    }

    fn merge(whole: &mut Facts, part: Facts) {
        whole.merge(part);
    }
}

/// Collects the facts of captures, read as one trace by up to `threads` threads; one where a capture is no regular file,
/// as each of them reads all. `progress` hears the packets read so far.
///
/// # Errors
/// As the reader's.
pub fn collect(
    paths: &[PathBuf],
    ports: &[u16],
    window: Nanos,
    threads: u32,
    progress: &mut dyn FnMut(u64),
) -> Result<Facts, Error> {
    let new = |reader: &mut Reader| Ok(Collector::new(reader.origin()?, window));
    in_parts(paths, ports, threads, progress, new)
}

/// As [`collect`], what RSSAC002 asks for, and nothing else.
///
/// # Errors
/// As the reader's.
pub fn collect_rssac002(
    paths: &[PathBuf],
    ports: &[u16],
    threads: u32,
    progress: &mut dyn FnMut(u64),
) -> Result<Rssac002, Error> {
    in_parts(paths, ports, threads, progress, |_| Ok(Rssac002::default()))
}

/// Reads captures by up to `threads` threads, each of which collects a part; [`collect`] says how.
pub(crate) fn in_parts<C: Collect>(
    paths: &[PathBuf],
    ports: &[u16],
    threads: u32,
    progress: &mut dyn FnMut(u64),
    new: impl Fn(&mut Reader) -> Result<C, Error> + Sync,
) -> Result<C::Facts, Error> {
    let rereadable = |path: &PathBuf| path.metadata().is_ok_and(|m| m.is_file());
    let parts = if paths.iter().all(rereadable) { threads.max(1) } else { 1 };
    let (seen, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let collect = |part: u32| {
        let options = Options { ports: ports.to_vec(), part: (part, parts) };
        let facts = one(paths, &options, &new, &seen, &failed);
        failed.fetch_or(facts.is_err(), Ordering::Relaxed);
        facts
    };
    let all: Vec<Result<C::Facts, Error>> = thread::scope(|scope| {
        let collect = &collect;
        let workers: Vec<_> = (0..parts).map(|part| scope.spawn(move || collect(part))).collect();
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::park_timeout(Duration::from_millis(20));
            progress(seen.load(Ordering::Relaxed));
        }
        workers
            .into_iter()
            .map(|w| w.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut whole: Option<C::Facts> = None;
    for part in all {
        let part = part?;
        match &mut whole {
            None => whole = Some(part),
            Some(whole) => C::merge(whole, part),
        }
    }
    Ok(whole.expect("at least one part"))
}

fn one<C: Collect>(
    paths: &[PathBuf],
    options: &Options,
    new: &impl Fn(&mut Reader) -> Result<C, Error>,
    seen: &AtomicU64,
    failed: &AtomicBool,
) -> Result<C::Facts, Error> {
    let mut reader = Reader::open(paths, options)?;
    let mut collector = new(&mut reader)?;
    let mut reported = 0;
    while let Some(event) = reader.next_event()? {
        collector.add(&event);
        if reader.seen() >= reported + STEP {
            reported = reader.seen();
            if options.part.0 == 0 {
                seen.store(reported, Ordering::Relaxed);
            }
            if failed.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    Ok(collector.finish(&reader))
}
