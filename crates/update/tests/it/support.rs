//! What the tests share: zones, streams, ports, programs.

use measure::{Arrivals, Pace, Seed};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use update::generate::{Made, Mix, Spec, generate};
use update::{SendResult, SendSpec};
use zone::Family;

pub const MS: u64 = 1_000_000;

/// A zone of a family in a folder.
pub fn zone_file(dir: &Path, family: Family, delegations: u64) -> PathBuf {
    let path = dir.join(format!("{family}-{delegations}.zone"));
    let mut text = Vec::new();
    zone::generate(family, delegations, Seed(1), &mut text, &mut |_| ()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

pub fn spec(zone: &Path, mix: Mix, count: u64) -> Spec {
    Spec { zone: zone.into(), mix, count, batch: 0, prerequisites: false, seed: Seed(1), sign: None }
}

pub fn stream(spec: &Spec) -> (Vec<u8>, Made) {
    let mut text = Vec::new();
    let made = generate(spec, &mut text, &mut |_| ()).unwrap();
    assert_eq!(made.bytes, text.len() as u64);
    (text, made)
}

/// A UDP and TCP port that nobody uses, below the range of which the kernel gives ports to clients, and each once.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 10_000 + (std::process::id() % 20_000) as u16;
    loop {
        let port = start + NEXT.fetch_add(1, Ordering::Relaxed) % 2_000;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok() {
            return port;
        }
    }
}

pub fn rate(rate: f64) -> Pace {
    Pace::Open(Arrivals::Fixed { rate })
}

pub fn send(spec: &SendSpec) -> SendResult {
    let result =
        update::send::run(spec, || measure::clock::now() + 10 * MS, &AtomicBool::new(false), &mut |_| ())
            .unwrap();
    check_sums(&result);
    result
}

/// What holds for every result.
pub fn check_sums(r: &SendResult) {
    assert_eq!(r.sent + r.unsent, r.offered, "{}", brief(r));
    assert_eq!(r.sent, r.acknowledged + r.lost + r.in_flight, "{}", brief(r));
    assert_eq!(r.rcodes.values().sum::<u64>(), r.acknowledged);
    assert_eq!(r.rcodes.get("NOERROR").copied().unwrap_or(0), r.accepted);
    assert_eq!(r.histograms.latency.count(), r.acknowledged);
    assert!(r.late <= r.lost && r.transactions.accepted <= r.transactions.sent);
}

/// A result in a line: all but the distributions, which are long.
pub fn brief(r: &SendResult) -> String {
    let r = SendResult { histograms: Default::default(), ..r.clone() };
    serde_json::to_string(&r).unwrap()
}

/// A file of updates of one name each.
pub fn updates(dir: &Path, count: usize) -> PathBuf {
    let path = dir.join("updates");
    let text: String = (0..count)
        .map(|n| format!("update add n{n}.example. 60 A 10.0.{}.{}\nsend\n", n / 256 % 256, n % 256))
        .collect();
    std::fs::write(&path, format!("zone example.\n{text}")).unwrap();
    path
}

/// The reasons that a noisy test machine may give to any run: they say that it was disturbed.
pub fn only_noise(r: &SendResult) {
    for reason in &r.validity.reasons {
        let noise = ["unsent", "pacing_error", "generator_stalled", "generator_preempted"];
        assert!(noise.contains(&reason.code.as_str()), "{:?}", r.validity);
    }
}
