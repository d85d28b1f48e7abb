//! The disk as a role: on a host, mounted until told to stop, its power cut at the instant at which roles start.

use super::{Cut, Disk, Options};
use crate::Error;
use measure::{Event, Nanos, clock};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The disk's folder and options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// The folder with what is durable.
    pub backing: PathBuf,
    /// The folder to mount it at.
    pub at: PathBuf,
    /// How it behaves.
    #[serde(default)]
    pub options: Options,
}

/// How often it is looked at whether to stop.
const LOOK: Duration = Duration::from_millis(5);

/// Mounts the disk; calls `start` when it can be used, which waits for the instant of the cut and returns it (monotonic); cuts
/// the power then and says so; refuses everything until `stop` is set; unmounts it. None: it was told to stop before.
///
/// # Errors
/// [`Error::Disk`].
pub fn serve(
    spec: &DiskSpec,
    start: &mut dyn FnMut() -> Nanos,
    stop: &AtomicBool,
    events: &mut dyn FnMut(Event),
) -> Result<Option<Cut>, Error> {
    let disk = Disk::mount(&spec.backing, &spec.at, spec.options)?;
    let at = start();
    let stopped = || stop.load(Ordering::Relaxed);
    while !stopped() && clock::now() + (LOOK.as_nanos() as Nanos) < at {
        std::thread::sleep(LOOK);
    }
    let mut cut = None;
    if !stopped() {
        clock::sleep_until(at);
        cut = Some(disk.cut()?);
        events(Event::Started { at: clock::wall() });
    }
    while !stopped() {
        std::thread::sleep(LOOK);
    }
    disk.unmount()?;
    Ok(cut)
}
