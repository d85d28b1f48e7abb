//! Pages as a client has them: over HTTP, from run directories on the disk.

mod hostile;
mod http;
mod pages;

use http::{Answer, get};
use measure::{metrics, params};
use results::{RunDir, TrialRecord};
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

/// A server of pages, ended when dropped.
struct Pages {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pages {
    fn of(dirs: &[&Path]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let options = serve::Options {
            dirs: dirs.iter().map(|dir| dir.to_path_buf()).collect(),
            at: "127.0.0.1:0".parse().unwrap(),
            allow_external: false,
        };
        let (tell, told) = channel();
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            serve::serve(&options, |page| tell.send(page.to_owned()).unwrap(), &stopped).unwrap();
        });
        let page = told.recv().expect("it listens");
        let at = page.trim_start_matches("http://").trim_end_matches('/').parse().expect("an address");
        Self { at, stop, thread: Some(thread) }
    }

    /// The page at a path, which is there.
    fn page(&self, path: &str) -> String {
        let answer = self.answer(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    fn answer(&self, path: &str) -> Answer {
        get(self.at, path, &format!("{}", self.at))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().expect("it was started").join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// A run with so many trials of each server, all with this rate, about.
fn run(dir: &Path, day: i64, servers: &[&str], repeats: u32, rate: f64) -> RunDir {
    let machine = json!({
        "machine": { "cpu_model": "Z80", "cpus": 2, "kernel": "6.1", "unix_time": 1_780_000_000 + day * 86_400 },
        "dnsrack": "0.1.0",
    });
    let mut run = RunDir::create(dir, "name = \"tiny\"\ntitle = \"Tiny\"\n", &machine).expect("a run");
    let mut id = 0;
    for repeat in 1..=repeats {
        for server in servers {
            id += 1;
            run.append(trial(id, server, repeat, rate * (1.0 + f64::from(id % 7) * 0.002))).expect("a trial");
        }
    }
    run
}

fn trial(id: u32, server: &str, repeat: u32, rate: f64) -> TrialRecord {
    let mut trial = TrialRecord { id, repeat, ..TrialRecord::default() };
    for (parameter, value) in [
        (params::EXPERIMENT, "tiny"),
        (params::MEASURE, "throughput"),
        (params::SERVER, server),
        (params::KIND, "nsd"),
        (params::VERSION, "4.6.1"),
        (params::FAMILY, "U-4-DS0"),
        (params::ZONE_SIZE, "1000"),
    ] {
        trial.add_param(parameter, value);
    }
    trial.outcome.metrics.push(metrics::ANSWERED_QPS.of(rate));
    trial.outcome.validity.valid = true;
    trial
}
