//! An agent elsewhere: acts on a coordinator's orders until these end.

use crate::files::{self, Folder};
use crate::message::{Order, Word};
use crate::program::{BUILD, Program};
use crate::request::{At, Request};
use crate::{
    Error, Here, arrivals, capture, clock, describe, durability, idle, lock, meter, peak, readings, request,
    role, running_server, settle, tool,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Acts on the orders that come, each on a thread of its own, for hosts of this machine, with the coordinator's files in `folder`.
/// When the orders end, everything that was started is ended, and what was written is removed. `lost` is called where there was no
/// order for `silence`: then the network is gone, and the end of the orders may never be told.
///
/// # Errors
/// A folder that cannot be made; orders that cannot be read.
pub fn serve(
    folder: &Path,
    orders: impl BufRead,
    words: impl Write + Send + 'static,
    silence: Duration,
    lost: impl FnOnce() + Send,
) -> Result<(), Error> {
    let words = Arc::new(Mutex::new(words));
    let say = move |word: &Word| {
        let line = serde_json::to_string(word).expect("a word is plain data");
        let mut words = lock(&words);
        // A coordinator that is gone ends its orders as well.
        let _ = writeln!(words, "{line}").and_then(|()| words.flush());
    };
    let say = Arc::new(say);
    let program = Program::ours()?.sha256;
    let folder = Folder::open(folder)?;
    let run = folder.run.clone();
    let here = Here::in_folder(folder);
    let says = Arc::clone(&say);
    here.tell_lines(Arc::new(move |role, line| says(&Word::Role { role, line })));
    let version = env!("CARGO_PKG_VERSION").into();
    say(&Word::Hello { version, build: BUILD.into(), program, folder: run });
    let mut flags: BTreeMap<u64, Arc<AtomicBool>> = BTreeMap::new();
    let (heard, silent) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if watch(&silent, silence) {
                lost();
            }
        });
        let mut served = Ok(());
        for line in orders.lines().map_while(Result::ok) {
            let _ = heard.send(());
            match serde_json::from_str(&line) {
                Ok(Order::Host { host }) => {
                    here.add_host(&host);
                    // The CPUs of a host are for what is measured. Where the kernel refuses this, the agent shares them, as it does where
                    // there are no others.
                    let _ = rack::stay_off(&here.cpus());
                }
                Ok(Order::Alive) => {}
                Ok(Order::Stop { stop }) => flags.entry(stop).or_default().store(true, Ordering::Relaxed),
                Ok(Order::Act { number, stop, host, name, request }) => {
                    let stop = Arc::clone(flags.entry(stop).or_default());
                    let (here, say) = (&here, Arc::clone(&say));
                    scope.spawn(move || {
                        let done = here
                            .host(&host)
                            .and_then(|host| act(&name, request, &At { here, host: &host, stop: &stop }));
                        say(&match done {
                            Ok(answer) => Word::Answer { number, answer },
                            Err(error) => Word::Failed {
                                number,
                                zone_refused: error.is_zone_refused(),
                                message: error.to_string(),
                            },
                        });
                    });
                }
                Err(e) => {
                    served = Err(Error::Order { message: e.to_string() });
                    break;
                }
            }
        }
        drop(heard);
        // What still waits is given up.
        flags.values().for_each(|flag| flag.store(true, Ordering::Relaxed));
        served
    })
}

/// Whether nothing was heard for `silence`, before the orders ended.
fn watch(heard: &Receiver<()>, silence: Duration) -> bool {
    loop {
        match heard.recv_timeout(silence) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

/// Acts on the request of this name.
macro_rules! act {
    ($($request:ty,)*) => {
        fn act(name: &str, request: Value, at: &At<'_>) -> Result<Value, Error> {
            $(
                if name == <$request>::NAME {
                    return answer::<$request>(request, at);
                }
            )*
            Err(Error::Unknown { what: "request", name: name.into() })
        }

        #[cfg(test)]
        const NAMES: &[&str] = &[$(<$request>::NAME,)*];
    };
}

act! {
    arrivals::CountArrivals,
    arrivals::ReadArrivals,
    capture::FinishCapture,
    capture::StartCapture,
    clock::ReadClock,
    describe::Describe,
    describe::Installed,
    durability::CountSyncs,
    durability::CutDisk,
    durability::JudgeSyncs,
    durability::MountDisk,
    durability::PutDiskAway,
    durability::RemountDisk,
    durability::SyncDisk,
    durability::Try,
    files::Fetch,
    files::FinishReceiving,
    files::LinkFile,
    files::List,
    files::MakeFolder,
    files::Receive,
    files::RemoveFile,
    files::RemoveFolder,
    files::StartReceiving,
    idle::PollWhenIdle,
    meter::EndMeter,
    meter::StartMeter,
    peak::EndPeak,
    peak::StartPeak,
    readings::Read,
    readings::TakeSnapshot,
    readings::Watched,
    request::Forget,
    role::Close,
    role::LastWords,
    role::Say,
    role::StartRole,
    running_server::Alive,
    running_server::Back,
    running_server::Durable,
    running_server::End,
    running_server::Kill,
    running_server::Maps,
    running_server::Memory,
    running_server::Pss,
    running_server::Ready,
    running_server::ReceiveBuffer,
    running_server::Reload,
    running_server::Start,
    running_server::StartAgain,
    running_server::Stats,
    running_server::Stop,
    settle::Settle,
    tool::Axfr,
    tool::Counters,
    tool::FindAdditions,
    tool::Tool,
}

fn answer<R: Request>(request: Value, at: &At<'_>) -> Result<Value, Error> {
    let request: R = serde_json::from_value(request).map_err(|e| Error::Order { message: e.to_string() })?;
    serde_json::to_value(request.act(at)?).map_err(|e| Error::Order { message: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_requests_have_one_name() {
        let mut names = NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NAMES.len());
    }
}
