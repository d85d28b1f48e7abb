//! Servers with one fault each, and loads to find it.

use load::{LoadResult, LoadSpec};
use measure::clock::SECOND;
use measure::{Arrivals, Nanos, Pace};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

pub const MS: Nanos = 1_000_000;

/// A server on loopback: a closure says for each query which datagrams go back. Gone when dropped.
pub struct Faulty {
    pub addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Faulty {
    /// `reply` gets the socket, the number of the query, its bytes (QR already set) and whence it came.
    pub fn start(mut reply: impl FnMut(&UdpSocket, u64, &mut [u8], SocketAddr) + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let addr = socket.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut buf = [0; 4096];
            let mut n = 0;
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut buf) {
                    wire::header::set_qr(&mut buf[..len]);
                    reply(&socket, n, &mut buf[..len], from);
                    n += 1;
                }
            }
        });
        Self { addr, stop, thread: Some(thread) }
    }

    /// A server without fault.
    pub fn good() -> Self {
        Self::start(|socket, _, msg, from| {
            let _ = socket.send_to(msg, from);
        })
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A socket that takes everything and answers nothing.
pub fn black_hole() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

/// A file of queries; it lives as long as the folder.
pub fn queries(dir: &tempfile::TempDir) -> PathBuf {
    let path = dir.path().join("queries");
    let text: String =
        (0..5000).map(|n| format!("name{n}.example. {}\n", ["A", "NS", "AAAA"][n % 3])).collect();
    std::fs::write(&path, text).unwrap();
    path
}

/// An open load at loopback with a short deadline.
pub fn spec(dir: &tempfile::TempDir, target: SocketAddr, rate: f64, duration: Nanos) -> LoadSpec {
    let source: load::Source =
        serde_json::from_value(serde_json::json!({"traffic": {"queries": {"path": queries(dir)}}})).unwrap();
    let pace = Pace::Open(Arrivals::Fixed { rate });
    LoadSpec { deadline: SECOND / 2, ..LoadSpec::new(vec![target], source, pace, duration) }
}

pub fn run(spec: &LoadSpec) -> LoadResult {
    let result =
        load::run(spec, || measure::clock::now() + 10 * MS, &AtomicBool::new(false), &mut |_| ()).unwrap();
    check_sums(&result);
    result
}

/// What holds for every result.
pub fn check_sums(r: &LoadResult) {
    let c = &r.counts;
    assert_eq!(c.sent + c.unsent, c.offered, "{r:?}");
    assert_eq!(c.sent, c.answered + c.lost + c.in_flight, "{r:?}");
    assert_eq!(c.rcodes.values().sum::<u64>(), c.answered);
    assert_eq!(r.histograms.latency.count(), c.answered);
    assert!(c.late <= c.lost);
    assert!(r.cut_short || c.in_flight == 0);
}

/// A result in a line: all but the distributions, which are long.
pub fn brief(r: &LoadResult) -> String {
    let c = &r.counts;
    let counts = (c.offered, c.sent, c.answered, c.lost, c.late, c.in_flight);
    let tcp = r.tcp.as_ref().map(|tcp| {
        let t = &tcp.counts;
        let ends = (t.refused, t.unreachable, t.reset, t.closed_by_server, t.closed_by_us);
        format!(
            "; connections begun, established, most, local failures {:?}, refused, unreachable, reset, closed by server, \
             by us {ends:?}, {} queries cut off",
            (t.begun, t.established, t.open_max, t.local_failures),
            t.queries_cut_off
        )
    });
    let strays = (r.duplicates, r.mismatched, r.unexpected, r.icmp);
    format!(
        "offered, sent, answered, lost, late, in flight {counts:?}; duplicates, mismatched, unexpected, icmp {strays:?}{}; \
         {:?} {:?} {:?} {:?}",
        tcp.unwrap_or_default(),
        r.counts.rcodes,
        r.drops,
        r.latency_us,
        r.validity
    )
}

pub fn reasons(r: &LoadResult) -> Vec<&str> {
    r.validity.reasons.iter().map(|r| r.code.as_str()).collect()
}

/// The reasons that a noisy test machine may give to any trial: they say that it was disturbed.
pub fn is_noise(code: &str) -> bool {
    ["unsent", "pacing_error", "generator_stalled", "generator_preempted"].contains(&code)
}

/// Fails where a reason is neither `wanted` nor noise of the machine.
pub fn only_noise_besides(r: &LoadResult, wanted: &[&str]) {
    for code in reasons(r) {
        assert!(wanted.contains(&code) || is_noise(code), "{:?}", r.validity);
    }
}
