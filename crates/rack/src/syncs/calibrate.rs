//! How many syncs a second a disk can do.

use crate::Error;
use measure::{Histogram, Nanos, clock};
use rustix::fs::{OFlags, statfs};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The size of the block that is written before each sync, in bytes.
const BLOCK: usize = 4096;

/// The blocks of each thread's file, which are written one after another.
const BLOCKS: u64 = 256;

/// The type of a file system in memory (statfs(2)).
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

/// How far above the disk's own rate acknowledgements may be: the disk was not measured in the same second.
const MARGIN: f64 = 2.0;

/// The rate and the time of a disk's syncs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// Threads that synced side by side, each a file of its own.
    pub threads: usize,
    /// Syncs of all of them.
    pub syncs: u64,
    /// How long they did.
    pub elapsed: Nanos,
    /// How long each write with its sync took.
    pub latency: Histogram,
    /// The file system is in memory (tmpfs): its syncs do nothing, and say nothing of a disk.
    pub in_memory: bool,
}

impl Calibration {
    /// Syncs a second of all threads.
    pub fn rate(&self) -> f64 {
        self.syncs as f64 * 1e9 / self.elapsed.max(1) as f64
    }

    /// How many times above this disk's syncs a second a rate is, where that is more than twice; `rate` is of updates a
    /// second acknowledged to as many clients as there were threads, each waiting for its answer before it sends the next. No
    /// server reaches such a rate with a sync before each answer; with many clients one sync may cover many answers.
    pub fn beyond(&self, rate: f64) -> Option<f64> {
        let times = rate / self.rate().max(f64::MIN_POSITIVE);
        (times > MARGIN).then_some(times)
    }
}

/// How each block is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The data, and of the file's length and place what is needed to read it.
    Fdatasync,
    /// The times of the file as well.
    Fsync,
    /// The write itself syncs (O_DSYNC).
    Dsync,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fdatasync, Self::Fsync, Self::Dsync];

    /// Its name in the manual.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fdatasync => "fdatasync",
            Self::Fsync => "fsync",
            Self::Dsync => "O_DSYNC",
        }
    }
}

/// Writes blocks of 4 KiB into files that are there in full length already, with a sync after each. With fdatasync that is the least that a
/// server can do, so the most it can reach. The files are below `folder`, without a name.
///
/// # Errors
/// [`Error::Disk`]: a file that cannot be made, written or synced.
pub fn calibrate(folder: &Path, way: Way, duration: Duration, threads: usize) -> Result<Calibration, Error> {
    let failed = |doing, source| Error::Disk { at: folder.into(), doing, source, hint: "" };
    let files = (0..threads.max(1)).map(|_| prepared(folder, way)).collect::<io::Result<Vec<File>>>();
    let files = files.map_err(|e| failed("make a file to calibrate with", e))?;
    let stop = AtomicBool::new(false);
    let began = clock::now();
    let outcomes = std::thread::scope(|scope| {
        let workers: Vec<_> =
            files.iter().map(|file| scope.spawn(|| work(file, way, duration, &stop))).collect();
        workers.into_iter().map(|w| w.join().expect("a worker does not panic")).collect::<Vec<_>>()
    });
    let elapsed = clock::now() - began;
    let mut latency = Histogram::default();
    for outcome in outcomes {
        latency.merge(&outcome.map_err(|e| failed("sync", e))?);
    }
    let in_memory = statfs(folder).is_ok_and(|stat| stat.f_type == TMPFS);
    Ok(Calibration { threads: files.len(), syncs: latency.count(), elapsed, latency, in_memory })
}

fn prepared(folder: &Path, way: Way) -> io::Result<File> {
    let mut file = tempfile::tempfile_in(folder)?;
    for block in 0..BLOCKS {
        file.write_all_at(&[0; BLOCK], block * BLOCK as u64)?;
    }
    file.sync_all()?;
    if way == Way::Dsync {
        // The kernel takes the flag at an open only, and the file has no name any more.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        file = File::options().write(true).custom_flags(OFlags::DSYNC.bits() as i32).open(path)?;
    }
    Ok(file)
}

fn work(file: &File, way: Way, duration: Duration, stop: &AtomicBool) -> io::Result<Histogram> {
    let end = clock::now() + duration.as_nanos() as Nanos;
    let mut latency = Histogram::default();
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let before = clock::now();
        if before >= end {
            break;
        }
        let block = [number as u8; BLOCK];
        let written = file.write_all_at(&block, number % BLOCKS * BLOCK as u64);
        let done = written.and_then(|()| match way {
            Way::Fdatasync => file.sync_data(),
            Way::Fsync => file.sync_all(),
            Way::Dsync => Ok(()),
        });
        if let Err(e) = done {
            stop.store(true, Ordering::Relaxed);
            return Err(e);
        }
        latency.record(clock::now() - before);
        number += 1;
    }
    Ok(latency)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_no_disk_reaches_names_itself() {
        let folder = tempfile::tempdir().unwrap();
        for way in Way::ALL {
            let disk = calibrate(folder.path(), way, Duration::from_millis(20), 1).unwrap();
            assert!(disk.syncs > 0, "{}", way.name());
        }
        let disk = calibrate(folder.path(), Way::Fdatasync, Duration::from_millis(200), 2).unwrap();
        assert_eq!((disk.threads, disk.latency.count()), (2, disk.syncs));
        assert!(disk.syncs > 0);
        assert_eq!(disk.beyond(disk.rate()), None);
        assert!(disk.beyond(disk.rate() * 10.0).is_some_and(|times| (9.9..10.1).contains(&times)));
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
        let gone = calibrate(Path::new("/nowhere"), Way::Fdatasync, Duration::from_millis(1), 1).unwrap_err();
        assert!(gone.to_string().contains("/nowhere: make a file to calibrate with"), "{gone}");
    }
}
