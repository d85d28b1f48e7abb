//! `dnsrack role NAME`: what runs on a host other than the coordinator's.
//!
//! One JSON specification on the first line of standard input, `{"start_at": WALL}` on the second; JSON-lines
//! events on standard output; the end of the input means stop.

use crate::output::{self, Failure, Status};
use measure::clock::{self, SECOND, Wall};
use measure::{Event, Nanos};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use trace::import::apart::Task;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    start_at: Nanos,
}

/// A further line of the role 'pairs': the server was started so often again.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Life {
    life: u32,
}

/// Within what time from now a start may be named.
const NEAR: Nanos = 30 * SECOND;

impl Start {
    /// The instant on this machine's monotonic clock. Where the wall clock was stepped between the coordinator's look at it
    /// and ours, the offset from before that step is the right one; the instant is never far.
    fn instant(&self, before: Wall) -> Result<Nanos, Failure> {
        let now = clock::now();
        let given = [Wall::read(), before].map(|wall| wall.to_monotonic(self.start_at));
        let at = given[usize::from(given[1].abs_diff(now) < given[0].abs_diff(now))];
        if at.abs_diff(now) <= NEAR {
            return Ok(at);
        }
        let message = format!(
            "the start that was named is {:.1} s away by this host's wall clock: set the clocks of all hosts right, and run \
             it again",
            at.abs_diff(now) as f64 / SECOND as f64
        );
        Err(Failure { code: 1, message })
    }
}

/// Runs a role until it is done or told to stop; its failure is an event.
pub fn run(name: &str, folder: Option<&Path>) -> output::Result {
    let result = match name {
        "host" => return host(folder),
        "load" => play(&|spec, start, stop, events| ::load::run(spec, start, stop, events)),
        "update" => play(&|spec, start, stop, events| ::update::send::run(spec, start, stop, events)),
        "watch" => play(&|spec, start, stop, events| ::update::watch(spec, start, stop, events)),
        "batches" => play(&|spec, start, stop, events| ::update::batches(spec, start, stop, events)),
        "pairs" => pairs(),
        "path" => path(),
        "import" => import(),
        other => Err(Failure::usage(format!(
            "no role '{other}': there are 'host', 'load', 'update', 'watch', 'batches', 'pairs', 'path' and \
             'import'"
        ))),
    };
    if let Err(failure) = &result {
        say(&Event::Error { message: failure.message.clone() })?;
    }
    result
}

/// An agent without an order for so long has lost its coordinator, and ends. ssh takes 45 s to find that out at the other end.
const SILENCE: Duration = Duration::from_secs(60);

/// The agent of a host: it acts on orders until its input ends, and leaves nothing behind.
fn host(folder: Option<&Path>) -> output::Result {
    let folder = folder.ok_or_else(|| Failure::usage("role host: give --folder"))?;
    // Before any thread exists: nothing that it starts outlives it.
    ::rack::confine_processes()?;
    // When this process ends, its PID namespace ends, and with it everything that it started.
    fn lost() {
        std::process::exit(1);
    }
    agent::serve(folder, std::io::stdin().lock(), std::io::stdout(), SILENCE, lost)?;
    Ok(Status::Done)
}

fn say(event: &Event) -> Result<(), Failure> {
    output::print(&(serde_json::to_string(event)? + "\n"))
}

/// One line of standard input; none at its end.
fn line() -> Result<Option<String>, Failure> {
    let mut line = String::new();
    Ok((std::io::stdin().lock().read_line(&mut line)? > 0).then_some(line))
}

/// The first line of standard input; none at its end.
fn specification<S: DeserializeOwned>() -> Result<Option<S>, Failure> {
    let Some(first) = line()? else { return Ok(None) };
    serde_json::from_str(&first)
        .map(Some)
        .map_err(|e| Failure::usage(format!("the role's specification: {e}")))
}

/// Takes a further line of the input. False: it means stop, as the input's end does.
type Told = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// From here on anything on the input that is not `told`, its end above all, means stop.
fn stop_with_input(stop: &Arc<AtomicBool>, told: &Told) {
    let (watched, told) = (stop.clone(), Arc::clone(told));
    std::thread::spawn(move || {
        while line().ok().flatten().is_some_and(|text| told(&text)) {}
        watched.store(true, Ordering::Relaxed);
    });
}

/// For roles that take no further lines.
fn nothing() -> Told {
    Arc::new(|_| false)
}

/// The work of a role: from its specification, the wait for the instant at which it starts (monotonic), the flag that stops it,
/// and where its events go, to its result.
type Doing<'a, S, R, E> =
    dyn Fn(&S, &mut dyn FnMut() -> Nanos, &AtomicBool, &mut dyn FnMut(Event)) -> Result<R, E> + 'a;

/// Reads the specification, says that it is ready when `doing` waits for its start, and tells the result.
fn play<S: DeserializeOwned, R: Serialize, E>(doing: &Doing<'_, S, R, E>) -> output::Result
where
    Failure: From<E>,
{
    play_told(doing, nothing())
}

/// The same of a role that takes further lines.
fn play_told<S: DeserializeOwned, R: Serialize, E>(doing: &Doing<'_, S, R, E>, told: Told) -> output::Result
where
    Failure: From<E>,
{
    let Some(spec) = specification::<S>()? else { return Ok(Status::Done) };
    let stop = Arc::new(AtomicBool::new(false));
    let mut failure = None;
    let before = Wall::read();
    let mut start = || {
        let _ = say(&Event::Ready);
        let start = line().ok().flatten().and_then(|text| serde_json::from_str::<Start>(&text).ok());
        stop_with_input(&stop, &told);
        match start.map(|start| start.instant(before)) {
            Some(Ok(at)) => return at,
            Some(Err(far)) => failure = Some(far),
            None => {}
        }
        stop.store(true, Ordering::Relaxed);
        clock::now()
    };
    let result = doing(&spec, &mut start, &stop, &mut |event| {
        let _ = say(&event);
    })?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    say(&Event::Done { result: serde_json::to_value(&result)? })?;
    Ok(Status::Done)
}

/// The watcher of a secondary is told of each new life of it, and says that it knows.
fn pairs() -> output::Result {
    let life = Arc::new(AtomicU32::new(0));
    let told = Arc::clone(&life);
    let watch = move |text: &str| {
        let Ok(Life { life }) = serde_json::from_str(text) else { return false };
        told.store(life, Ordering::SeqCst);
        say(&Event::Progress { second: life.into(), values: serde_json::Value::Null }).is_ok()
    };
    play_told(&|spec, start, stop, events| ::update::pairs(spec, start, &life, stop, events), Arc::new(watch))
}

/// The path emulator begins when it is ready: nothing can start before it.
fn path() -> output::Result {
    let Some(plan) = specification::<::rack::path::Plan>()? else { return Ok(Status::Done) };
    let stop = Arc::new(AtomicBool::new(false));
    let ready = || {
        let _ = say(&Event::Ready);
        stop_with_input(&stop, &nothing());
    };
    let result = ::rack::path::run(&plan, ready, &stop, &mut |second, report| {
        if let Ok(values) = serde_json::to_value(report) {
            let _ = say(&Event::Progress { second, values });
        }
    })?;
    say(&Event::Done { result: serde_json::to_value(&result)? })?;
    Ok(Status::Done)
}

/// An import begins at once. A capture that cannot be imported is a result: the role is able to do the next one.
fn import() -> output::Result {
    let Some(task) = specification::<Task>()? else { return Ok(Status::Done) };
    let stop = Arc::new(AtomicBool::new(false));
    stop_with_input(&stop, &nothing());
    let (began, mut reported) = (Instant::now(), 0);
    let imported = task.run(&stop, &mut |packets| {
        let second = began.elapsed().as_secs();
        if second > reported {
            reported = second;
            let _ = say(&Event::Progress { second, values: serde_json::json!({ "packets": packets }) });
        }
    });
    let imported = imported.map_err(|e| Failure::from(e).message);
    say(&Event::Done { result: serde_json::to_value(&imported)? })?;
    Ok(Status::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_is_far_away_is_refused() {
        let in_time = |ahead: i64| {
            let start_at = clock::wall().saturating_add_signed(ahead * SECOND as i64);
            Start { start_at }.instant(Wall::read())
        };
        assert!(in_time(1).is_ok_and(|at| at.abs_diff(clock::now()) < 20 * SECOND));
        for ahead in [-3600, 3600] {
            let refused = in_time(ahead).expect_err("an hour");
            assert!(refused.message.contains("away by this host's wall clock"), "{}", refused.message);
        }
    }
}
