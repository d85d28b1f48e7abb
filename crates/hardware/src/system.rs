//! The time that the kernel takes for system calls, reads of the clock, context switches, sleeps and wake-ups.

use crate::{Bench, Measured, Point, on_first_core};
use measure::clock;
use measure::metrics::OPERATION_TIME;
use net::scheduling::settle;
use rustix::pipe::{PipeFlags, pipe_with};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Cases of the tests.
pub(crate) const CALL: &str = "a system call (getppid)";
pub(crate) const ON_ONE_CORE: &str = "a message by a pipe, on one core";
pub(crate) const TO_ANOTHER_CORE: &str = "a message by a pipe, to another core";

/// Nanoseconds of each of `count` calls.
pub(crate) fn each(count: u32, mut call: impl FnMut()) -> f64 {
    let began = Instant::now();
    for _ in 0..count {
        call();
    }
    began.elapsed().as_nanos() as f64 / f64::from(count)
}

/// A system call that does nothing, and reading the clock, which needs none where the machine's clock can be read by programs.
pub(crate) fn calls(bench: &Bench<'_>) -> Measured {
    on_first_core(bench, "system calls", |measured| {
        let call = each(200_000, || {
            black_box(rustix::process::getppid());
        });
        let clock = each(1_000_000, || {
            black_box(clock::now());
        });
        // The shortest sleep that a generator's pace is made of, and how much too long it takes.
        let sleep = Duration::from_micros(200);
        let mut late: Vec<f64> = (0..200)
            .map(|_| {
                let began = Instant::now();
                std::thread::sleep(sleep);
                began.elapsed().saturating_sub(sleep).as_nanos() as f64
            })
            .collect();
        late.sort_by(f64::total_cmp);
        measured.points.extend([
            Point::new(CALL, OPERATION_TIME, call),
            Point::new("a read of the clock (clock_gettime)", OPERATION_TIME, clock),
            Point::new("a sleep of 200 µs: too late by", OPERATION_TIME, late[late.len() / 2]),
        ]);
    })
}

/// How often a message goes to and fro.
const ROUNDS: u32 = 20_000;

/// From a thread to another by a pipe, on one core, where each message is a switch between them, and on two cores, where the one that waits is
/// woken.
pub(crate) fn switches(bench: &Bench<'_>) -> Measured {
    let mut measured = Measured::default();
    let cpus = &bench.options.cpus;
    let pairs =
        [(ON_ONE_CORE, cpus.first().zip(cpus.first())), (TO_ANOTHER_CORE, cpus.first().zip(cpus.get(1)))];
    for (case, pair) in pairs {
        let Some((&one, &other)) = pair else {
            measured.left_out.push(format!("{case}: there is one core only"));
            continue;
        };
        match to_and_fro(one, other) {
            Ok(ns) => measured.points.push(Point::new(case, OPERATION_TIME, ns)),
            Err(why) => measured.left_out.push(format!("{case}: {why}")),
        }
    }
    measured
}

/// Nanoseconds of each message between two threads.
fn to_and_fro(one: usize, other: usize) -> Result<f64, String> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|e| e.to_string());
    let ((there_out, there_in), (back_out, back_in)) = (pipe()?, pipe()?);
    let pass = |from: &std::os::fd::OwnedFd, to: &std::os::fd::OwnedFd| -> Result<(), String> {
        let mut octet = [0];
        rustix::io::read(from, &mut octet)
            .and_then(|_| rustix::io::write(to, &octet))
            .map(drop)
            .map_err(|e| e.to_string())
    };
    std::thread::scope(|scope| {
        let answering = scope.spawn(|| {
            settle(Some(other)).map_err(|e| e.to_string())?;
            (0..ROUNDS).try_for_each(|_| pass(&there_out, &back_in))
        });
        let asking = scope.spawn(|| {
            settle(Some(one)).map_err(|e| e.to_string())?;
            rustix::io::write(&there_in, &[0]).map_err(|e| e.to_string())?;
            let began = Instant::now();
            for _ in 1..ROUNDS {
                pass(&back_out, &there_in)?;
            }
            Ok(began.elapsed().as_nanos() as f64 / f64::from(2 * (ROUNDS - 1)))
        });
        let asked = asking.join().expect("it returns its errors");
        if asked.is_err() {
            // Or the other waits for ever.
            let _ = (0..ROUNDS).try_for_each(|_| rustix::io::write(&there_in, &[0]).map(drop));
        }
        answering.join().expect("it returns its errors").and(asked)
    })
}

/// The time from the waking of a thread, from another core, until it runs, by how long it slept before.
pub(crate) fn wake_ups(bench: &Bench<'_>) -> Measured {
    let mut measured = Measured::default();
    let [sleeper, waker, ..] = bench.options.cpus[..] else {
        measured.left_out.push("wake-ups from another core: there is one core only".into());
        return measured;
    };
    match rack::wake_up::wake_ups(sleeper, waker) {
        Ok(all) => measured.points.extend(all.into_iter().map(|woken| {
            let case = format!("a thread that slept for {} ms runs, when it is woken", woken.slept_us / 1e3);
            Point::new(case, OPERATION_TIME, woken.p50_us * 1e3)
        })),
        Err(why) => measured.left_out.push(format!("wake-ups from another core: {why}")),
    }
    measured
}
