//! The greatest memory that a server takes while something is done with it.

use crate::Error;
use crate::request::{At, Request};
use rack::resource_counters;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often memory is looked at: the kernel walks all pages for it.
const PERIOD: Duration = Duration::from_millis(200);

/// A thread that looks at the memory of a server's processes.
struct Watching {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Begins to look at a server's memory.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StartPeak {
    pub server: u64,
}

impl Request for StartPeak {
    const NAME: &'static str = "StartPeak";
    type Answer = u64;

    fn act(self, at: &At<'_>) -> Result<u64, Error> {
        let leader =
            at.here.with(self.server, |server: &mut server::Server| server.pids().first().copied())?;
        let over = Arc::new(AtomicBool::new(false));
        let heeded = Arc::clone(&over);
        let thread = Some(std::thread::spawn(move || greatest(leader, &heeded)));
        Ok(at.here.keep(Watching { over, thread }))
    }
}

/// Ends a look at a server's memory: the greatest that was seen, in bytes of PSS.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EndPeak {
    pub watch: u64,
}

impl Request for EndPeak {
    const NAME: &'static str = "EndPeak";
    type Answer = u64;

    fn act(self, at: &At<'_>) -> Result<u64, Error> {
        let mut watching = at.here.take::<Watching>(self.watch)?;
        watching.over.store(true, Ordering::Relaxed);
        let thread = watching.thread.take().expect("it is joined once");
        Ok(thread.join().expect("reading /proc does not panic"))
    }
}

/// The greatest memory of the server that `leader` leads until `over` is set, looked at once more then.
fn greatest(leader: Option<u32>, over: &AtomicBool) -> u64 {
    let pids = || leader.map(server::processes).unwrap_or_default();
    // A look while a process ends gives nothing: the next one is soon.
    let look = || resource_counters::pss(Duration::ZERO, pids).unwrap_or(0);
    let mut peak = 0;
    while !over.load(Ordering::Relaxed) {
        peak = look().max(peak);
        std::thread::sleep(PERIOD);
    }
    look().max(peak)
}
