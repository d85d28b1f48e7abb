//! Memory: its latency by a random pointer chase, as Manegold's calibrator and lmbench's `lat_mem_rd` measure it, copies, and the four
//! kernels of McCalpin's STREAM.

use crate::{Bench, Measured, Point, on_first_core};
use measure::metrics::{BANDWIDTH, OPERATION_TIME};
use measure::seed::Seed;
use memmap2::{Advice, MmapMut};
use net::scheduling::settle;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// For how long each point is measured.
const TIME: Duration = Duration::from_millis(10);

/// Octets of a cache line: each is one element of the chase.
const LINE: usize = 64;

/// The smallest working set in octets.
const SMALLEST: usize = 4 << 10;

/// Of the largest working set, and of each array of STREAM: at least and at most.
const LARGEST: (u64, u64) = (64 << 20, 512 << 20);

/// The working sets of the short form, but for the largest one: in the first, second and third cache of most machines.
const BRIEF: [usize; 3] = [16 << 10, 192 << 10, 3 << 20];

/// The largest working set: four times the last cache, so that nearly every access misses it, and STREAM's rule for its arrays; but no more
/// than can be laid out in a second.
fn largest(bench: &Bench<'_>) -> usize {
    let wanted = (4 * bench.facts.last_cache.unwrap_or(0)).clamp(LARGEST.0, LARGEST.1);
    // STREAM has three arrays, and others need memory, too.
    wanted.min(bench.facts.available / 8).max(SMALLEST as u64) as usize
}

/// Powers of two and the sizes halfway between them.
fn sizes(largest: usize) -> impl Iterator<Item = usize> {
    (0..)
        .flat_map(|power| [SMALLEST << power, (SMALLEST << power) / 2 * 3])
        .take_while(move |size| *size <= largest)
}

/// The time of a load that depends on the one before, by the size of the memory that it goes through in random order, with pages of 4 KB and
/// with huge ones.
pub(crate) fn latency(bench: &Bench<'_>) -> Measured {
    on_first_core(bench, "memory latency", |measured| {
        let never = bench.facts.huge_pages.as_deref().is_none_or(|setting| setting == "never");
        if never && !bench.brief {
            measured.left_out.push(
            "memory latency with huge pages: the kernel gives none (/sys/kernel/mm/transparent_hugepage/enabled)".into(),
        );
        }
        let ways = [("4 KB pages", Advice::NoHugePage), ("huge pages", Advice::HugePage)];
        for (case, advice) in ways.into_iter().take(if never || bench.brief { 1 } else { 2 }) {
            let all: Vec<usize> = match bench.brief {
                true => BRIEF.into_iter().chain([largest(bench)]).collect(),
                false => sizes(largest(bench)).collect(),
            };
            for size in all {
                // Less than a huge page is on one page of either kind.
                if advice == Advice::HugePage && size < 2 << 20 {
                    continue;
                }
                match chased(size, advice) {
                    Ok(ns) => measured.points.push(Point::new(case, OPERATION_TIME, ns).of(size as u64)),
                    Err(e) => {
                        measured.left_out.push(format!("memory latency with {case}: {e}"));
                        break;
                    }
                }
            }
        }
    })
}

/// Nanoseconds of each load in a chase through `size` octets.
fn chased(size: usize, advice: Advice) -> std::io::Result<f64> {
    let mut memory = MmapMut::map_anon(size)?;
    memory.advise(advice)?;
    chain(&mut memory);
    let lines = size / LINE;
    // Small sets are in the cache before they are timed; of large ones no part stays there.
    let mut at = if size <= 16 << 20 { chase(&memory, 0, lines) } else { 0 };
    let (began, mut loads) = (Instant::now(), 0);
    while began.elapsed() < TIME {
        at = chase(&memory, at, 4096);
        loads += 4096;
    }
    let took = began.elapsed();
    black_box(at);
    Ok(took.as_nanos() as f64 / f64::from(loads))
}

/// Lays a random cycle through all lines (Sattolo's algorithm), so that none is left out and no prefetcher knows the next: each line begins
/// with the offset of the next.
fn chain(memory: &mut [u8]) {
    let lines = memory.len() / LINE;
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut draw = Seed(memory.len() as u64).draw("chase", 0);
    for i in (1..lines).rev() {
        order.swap(i, draw.below(i as u64) as usize);
    }
    for (line, next) in order.iter().enumerate() {
        let at = line * LINE;
        memory[at..at + 4].copy_from_slice(&(next * LINE as u32).to_ne_bytes());
    }
}

fn chase(memory: &[u8], mut at: u32, loads: usize) -> u32 {
    for _ in 0..loads {
        let here = at as usize;
        at = u32::from_ne_bytes(memory[here..here + 4].try_into().expect("four octets"));
    }
    at
}

/// Octets that are copied between two looks at the clock, at least.
const AT_ONCE: usize = 4 << 20;

/// Octets that are copied in a second, by the size of what is copied.
pub(crate) fn copy(bench: &Bench<'_>) -> Measured {
    on_first_core(bench, "copies", |measured| {
        for size in sizes(largest(bench)).step_by(2) {
            let (from, mut to) = (vec![1_u8; size], vec![0_u8; size]);
            to.copy_from_slice(&from);
            // Small copies are over before the clock is read.
            let times = (AT_ONCE / size).max(1);
            let (began, mut copied) = (Instant::now(), 0_u64);
            while began.elapsed() < TIME {
                for _ in 0..times {
                    black_box(&mut to[..]).copy_from_slice(black_box(&from[..]));
                }
                copied += (size * times) as u64;
            }
            let rate = copied as f64 / began.elapsed().as_secs_f64() / 1e6;
            measured.points.push(Point::new("memcpy", BANDWIDTH, rate).of(size as u64));
        }
    })
}

/// The last one of STREAM's kernels, which is quoted most.
pub(crate) const TRIAD: &str = "triad";

/// A kernel of STREAM: its name, what it does to the three arrays a, b and c, and how many octets STREAM counts for each element.
type Kernel = (&'static str, fn(&mut Arrays), u64);

/// All of them, in STREAM's order.
const KERNELS: [Kernel; 4] = [
    ("copy", |arrays| each(&mut arrays.c, &arrays.a, &arrays.b, |a, _| a), 16),
    ("scale", |arrays| each(&mut arrays.b, &arrays.c, &arrays.a, |c, _| SCALAR * c), 16),
    ("add", |arrays| each(&mut arrays.c, &arrays.a, &arrays.b, |a, b| a + b), 24),
    (TRIAD, |arrays| each(&mut arrays.a, &arrays.b, &arrays.c, |b, c| b + SCALAR * c), 24),
];

const SCALAR: f64 = 3.0;

/// The number of times that each kernel goes through its arrays for one figure.
const PASSES: u32 = 3;

/// A thread's part of the three arrays.
struct Arrays {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}

fn each(to: &mut [f64], x: &[f64], y: &[f64], of: impl Fn(f64, f64) -> f64) {
    for ((to, x), y) in to.iter_mut().zip(x).zip(y) {
        *to = of(*x, *y);
    }
}

/// STREAM with 1, 2, 4 … threads up to one on every core, each with its part of the arrays, which it was the first to touch.
pub(crate) fn stream(bench: &Bench<'_>) -> Measured {
    let mut measured = Measured::default();
    let (cpus, elements) = (&bench.options.cpus, largest(bench) / size_of::<f64>());
    let mut counts: Vec<usize> = (0..).map(|power| 1 << power).take_while(|n| *n < cpus.len()).collect();
    counts.push(cpus.len());
    for threads in counts {
        match streamed(&cpus[..threads], elements) {
            Ok(rates) => {
                let points = KERNELS.iter().zip(rates);
                measured.points.extend(points.map(|((name, ..), rate)| {
                    Point::new(*name, BANDWIDTH, rate)
                        .of((elements * size_of::<f64>()) as u64)
                        .threads(threads)
                }));
            }
            Err(why) => measured.left_out.push(format!("STREAM with {threads} threads: {why}")),
        }
    }
    measured
}

/// Megaoctets per second of each kernel.
fn streamed(cpus: &[usize], elements: usize) -> Result<Vec<f64>, String> {
    let (threads, barrier) = (cpus.len(), Barrier::new(cpus.len()));
    let part = elements / threads;
    let work = |cpu: usize| -> Result<Vec<Duration>, String> {
        let settled = settle(Some(cpu)).map_err(|e| e.to_string());
        let mut arrays = Arrays { a: vec![1.0; part], b: vec![2.0; part], c: vec![0.0; part] };
        arrays.c.fill(0.5);
        let mut times = Vec::new();
        for (_, kernel, _) in KERNELS {
            // Once before it is timed.
            kernel(&mut arrays);
            barrier.wait();
            let began = Instant::now();
            for _ in 0..PASSES {
                kernel(black_box(&mut arrays));
            }
            barrier.wait();
            times.push(began.elapsed());
        }
        black_box(&arrays.a);
        settled.map(|()| times)
    };
    let all: Vec<Vec<Duration>> = std::thread::scope(|scope| {
        let running: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || work(cpu))).collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("it returns its errors"))
            .collect::<Result<_, _>>()
    })?;
    let rate = |(kernel, (_, _, octets)): (usize, &Kernel)| {
        let took = all.iter().map(|times| times[kernel]).max().unwrap_or_default();
        (part * threads) as f64 * *octets as f64 * f64::from(PASSES) / took.as_secs_f64() / 1e6
    };
    Ok(KERNELS.iter().enumerate().map(rate).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chase_goes_through_every_line_once() {
        for size in [SMALLEST, SMALLEST / 2 * 3, 1 << 20] {
            let mut memory = vec![0_u8; size];
            chain(&mut memory);
            let lines = size / LINE;
            let mut at = 0;
            let mut seen = vec![false; lines];
            for _ in 0..lines {
                assert!(!std::mem::replace(&mut seen[at as usize / LINE], true));
                at = chase(&memory, at, 1);
            }
            assert_eq!(at, 0);
        }
    }

    #[test]
    fn the_kernels_are_those_of_stream() {
        let mut arrays = Arrays { a: vec![1.0], b: vec![2.0], c: vec![0.0] };
        for (_, kernel, _) in KERNELS {
            kernel(&mut arrays);
        }
        // c = a = 1; b = 3c = 3; c = a + b = 4; a = b + 3c = 15.
        assert_eq!((arrays.a[0], arrays.b[0], arrays.c[0]), (15.0, 3.0, 4.0));
    }

    #[test]
    fn sizes_are_powers_of_two_and_those_between() {
        let all: Vec<usize> = sizes(64 << 10).map(|size| size >> 10).collect();
        assert_eq!(all, [4, 6, 8, 12, 16, 24, 32, 48, 64]);
    }
}
