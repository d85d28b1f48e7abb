//! `dnsrack role NAME`: what runs on a host other than the coordinator's.
//!
//! One JSON specification on the first line of standard input, `{"start_at": WALL}` on the second; JSON-lines
//! events on standard output; the end of the input means stop.

use crate::output::{self, Failure, Status};
use measure::{Event, Nanos};
use serde::Deserialize;
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    start_at: Nanos,
}

/// Runs a role until it is done or told to stop; its failure is an event.
pub fn run(name: &str) -> output::Result {
    let result = match name {
        "load" => load(),
        other => Err(Failure::usage(format!("no role '{other}': there is 'load'"))),
    };
    if let Err(failure) = &result {
        say(&Event::Error { message: failure.message.clone() })?;
    }
    result
}

fn say(event: &Event) -> Result<(), Failure> {
    output::print(&(serde_json::to_string(event)? + "\n"))
}

/// One line of standard input; none at its end.
fn line() -> Result<Option<String>, Failure> {
    let mut line = String::new();
    Ok((std::io::stdin().lock().read_line(&mut line)? > 0).then_some(line))
}

fn load() -> output::Result {
    let Some(first) = line()? else { return Ok(Status::Done) };
    let spec: ::load::LoadSpec =
        serde_json::from_str(&first).map_err(|e| Failure::usage(format!("the role's specification: {e}")))?;
    let stop = Arc::new(AtomicBool::new(false));
    let result = ::load::run(
        &spec,
        || {
            let _ = say(&Event::Ready);
            let start = line().ok().flatten().and_then(|text| serde_json::from_str::<Start>(&text).ok());
            let watched = stop.clone();
            // From here on anything on the input, its end above all, means stop.
            std::thread::spawn(move || {
                let _ = line();
                watched.store(true, Ordering::Relaxed);
            });
            match start {
                Some(start) => measure::clock::Wall::read().to_monotonic(start.start_at),
                None => {
                    stop.store(true, Ordering::Relaxed);
                    measure::clock::now()
                }
            }
        },
        &stop,
        &mut |event| {
            let _ = say(&event);
        },
    )?;
    say(&Event::Done { result: serde_json::to_value(&result)? })?;
    Ok(Status::Done)
}
