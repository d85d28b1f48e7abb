//! A run directory with MADE-UP figures, for the layout of tables and page alone. Nothing here was
//! measured; the plan's title says so, and no figure of it may be quoted.

use measure::{Histogram, Metric, Named, Outcome, Reason, Seed, Validity};
use results::{RunDir, SeriesRow, TrialRecord};
use serde_json::{Value, json};
use std::path::Path;

const PLAN: &str = r#"name = "layout-fixture"
title = "MADE-UP figures for the layout of this page: nothing here was measured"
about = "Four servers on root-like zones, as an experiment would measure them."
published = ["rzaia-3.1", "rzaia-3.2", "isc-6.3.1"]
measure = ["latency", "peak"]
servers = ["bind", "nsd", "knot", "powerdns"]
repeats = 3
seed = 1

[zone]
families = ["U-4-DS0", "S-6-DS100"]
delegations = [1000, 100000]

[latency]
rates = [5000]
duration = "60s"
warmup = "2s"
deadline = "4s"

[peak]
loss = 0.001
trial = "1s"
duration_sum = "5s"
width = 0.02
budget = "60s"
"#;

pub fn environment() -> Value {
    json!({
        "dnsrack": "0.1.0",
        "command": "dnsrack experiment run layout-fixture -o runs/fixture --set note='<b>not markup</b>'",
        "seed": 1,
        "machine": {
            "cpu": "Made-up CPU @ 2.50GHz", "cores": 2, "memory": 8_254_955_520_u64, "kernel": "6.1.0-18-amd64",
            "hypervisor": "kvm", "governor": null, "steal_percent": 0.4, "netem": false, "rootless": false,
            "sysctls": {"net.core.rmem_max": "212992", "net.core.netdev_max_backlog": "1000"},
        },
        "co_located": true, "server_cpus": [0], "generator_cpus": [1], "cores_shared": false,
        "servers": [
            {"label": "bind", "kind": "bind", "version": "9.18.33", "program": null, "workers": 1},
            {"label": "nsd", "kind": "nsd", "version": "4.6.1", "program": null, "workers": 1},
            {"label": "knot", "kind": "knot", "version": "3.2.6", "program": null, "workers": 1},
            {"label": "powerdns", "kind": "powerdns", "version": "4.7.3", "program": null, "workers": 1},
        ],
    })
}

/// What makes one made-up server differ from another: label, microseconds, peak, memory in MiB per 100K.
const SERVERS: [(&str, f64, f64, f64); 4] = [
    ("bind", 118.0, 61_000.0, 190.0),
    ("nsd", 61.0, 174_000.0, 160.0),
    ("knot", 66.0, 181_000.0, 240.0),
    ("powerdns", 240.0, 38_000.0, 420.0),
];

fn series(metric: &str, unit: &str, values: impl Iterator<Item = f64>) -> Vec<SeriesRow> {
    (1..)
        .zip(values)
        .map(|(second, value)| SeriesRow { second, metric: metric.into(), unit: unit.into(), value })
        .collect()
}

fn params(id: (&str, &str, u64), measure: &str) -> Vec<(String, String)> {
    let (server, family, size) = id;
    let signed = if family.starts_with('S') { "rzaia" } else { "no" };
    let mut all = vec![
        ("experiment", "layout-fixture".to_owned()),
        ("server", server.to_owned()),
        ("kind", server.to_owned()),
        ("family", family.to_owned()),
        ("zone_size", size.to_string()),
        ("signed", signed.to_owned()),
        ("measure", measure.to_owned()),
    ];
    if measure == "latency" {
        all.extend([("rate", "5000".to_owned()), ("duration", "60s".to_owned())]);
    }
    all.push(("deadline", "4s".to_owned()));
    all.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
}

fn latency(id: u32, repeat: u32, of: (&str, &str, u64), us: f64, memory: f64) -> TrialRecord {
    let mut draw = Seed(7).draw("fixture", u64::from(id));
    let slow = if of.1.starts_with('S') { 1.2 } else { 1.0 };
    // One server loses two thirds of its queries on one zone, as the seed saw it of another.
    let lossy = of == ("powerdns", "S-6-DS100", 100_000);
    let mut histogram = Histogram::default();
    let (mut answered, sent) = (0u64, 300_000u64);
    for _ in 0..30_000 {
        if lossy && draw.chance(2, 3) {
            continue;
        }
        let mut x = 0.0;
        (0..4).for_each(|_| x += draw.below(1_000_000) as f64 / 1e6 - 0.5);
        let mut ns = us * slow * 1000.0 * (0.35 * x).exp();
        if draw.chance(1, 400) {
            ns *= 3.0 + draw.below(40) as f64;
        }
        if lossy {
            ns *= 1.0 + draw.below(9000) as f64;
        }
        histogram.record_n(ns as u64, 10);
        answered += 10;
    }
    let share = histogram.share_below(4_000_000_000) * answered as f64 / sent as f64 * 100.0;
    let p = |q: f64| histogram.quantile(q) as f64 / 1e3;
    let metrics = vec![
        Metric::new("offered_qps", "1/s", 5000.0),
        Metric::new("answered_qps", "1/s", answered as f64 / 60.0),
        Metric::new("sent", "1", sent as f64),
        Metric::new("unsent", "1", 0.0),
        Metric::new("answered", "1", answered as f64),
        Metric::new("lost", "1", (sent - answered) as f64),
        Metric::new("latency_p50", "us", p(0.5)),
        Metric::new("latency_p99", "us", p(0.99)),
        Metric::new("latency_max", "us", histogram.max() as f64 / 1e3),
        Metric::new("pacing_error_p99", "us", 31.5),
        Metric::new("answered_in_deadline_share", "%", share),
        // With warm-up and probes, as a server's counters have them.
        Metric::new("server_counted_queries", "1", 310_017.0),
        Metric::new("server_counted_truncated", "1", 310.0),
        Metric::new("truncated", "1", 300.0),
        Metric::new("server_ready", "s", 0.11 + of.2 as f64 / 400_000.0),
        Metric::new("server_pss", "B", (12.0 + memory * of.2 as f64 / 100_000.0 * slow) * 1_048_576.0),
    ];
    let mut wobble = |base: f64, by: f64| {
        (0..60).map(|_| base + by * (draw.below(1000) as f64 / 500.0 - 1.0)).collect::<Vec<_>>()
    };
    let mut rows = series("sent_qps", "1/s", wobble(5000.0, 2.0).into_iter());
    rows.extend(series("answered_qps", "1/s", wobble(answered as f64 / 60.0, 30.0).into_iter()));
    rows.extend(series("latency_p99", "us", wobble(p(0.99), p(0.99) * 0.2).into_iter()));
    rows.extend(series("server_cpu", "%", wobble(us / 5.0, 3.0).into_iter()));
    rows.extend(series("generator_cpu", "%", wobble(22.0, 2.0).into_iter()));
    rows.extend(series("server_rss", "B", wobble((14.0 + memory) * 1_048_576.0, 50_000.0).into_iter()));
    for core in 0..2 {
        for (part, base) in [("user", 11.0), ("system", 16.0), ("softirq", 9.0), ("steal", 1.0)] {
            rows.extend(series(&format!("{part}_core{core}"), "%", wobble(base, base * 0.4).into_iter()));
        }
    }
    let mut validity = Validity::default();
    validity.warn(Reason::new("co_located", "generator and server share a machine: compare by ratios only"));
    if (of.0, of.2, repeat) == ("knot", 1000, 2) {
        validity.reject(Reason::new(
            "generator_stalled",
            "the generator stood still for 212 ms at second 31; free its core",
        ));
    }
    let histograms = vec![Named::new("latency", histogram)];
    TrialRecord {
        id,
        params: params(of, "latency"),
        repeat,
        outcome: Outcome { metrics, histograms, validity },
        error: None,
        skipped: None,
        series: rows,
    }
}

fn peak(id: u32, repeat: u32, of: (&str, &str, u64), qps: f64) -> TrialRecord {
    let mut draw = Seed(7).draw("fixture peak", u64::from(id));
    let mut at = |by: f64| qps * (1.0 + by * (draw.below(1000) as f64 / 500.0 - 1.0));
    let value = at(0.03);
    let mut metrics = vec![
        Metric::new("peak_qps", "1/s", value),
        Metric::new("peak_lower", "1/s", value),
        Metric::new("peak_upper", "1/s", value * 1.02),
        Metric::new("capacity_qps", "1/s", value * 1.3),
        Metric::new("capacity_low", "1/s", value * 1.28),
        Metric::new("capacity_high", "1/s", value * 1.35),
    ];
    if (of.0, of.1) == ("nsd", "S-6-DS100") {
        // The generator was the limit there.
        metrics.push(Metric::new("capacity_at_least", "1", 1.0));
    }
    let offered: Vec<f64> = (0..14).map(|i| value * (0.4 + 0.06 * f64::from(i))).collect();
    let loss = offered.iter().map(|o| if *o <= value { 0.0 } else { 0.002 + (o - value) / o });
    let mut rows = series("search_loss_ratio", "1", loss);
    rows.extend(series("search_answered_qps", "1/s", offered.iter().map(|o| o.min(value * 1.3))));
    rows.extend(series("search_offered_qps", "1/s", offered.into_iter()));
    let stalled = (1..=14).map(|i| f64::from(u8::from(i != 13)));
    rows.extend(series("search_valid", "1", stalled));
    let mut validity = Validity::default();
    if (of.0, of.1) == ("powerdns", "S-6-DS100") {
        validity.reject(Reason::new(
            "generator_limited",
            "the generator could not offer more than 39,000 queries/s; give it a core",
        ));
    }
    TrialRecord {
        id,
        params: params(of, "peak"),
        repeat,
        outcome: Outcome { metrics, histograms: Vec::new(), validity },
        error: None,
        skipped: None,
        series: rows,
    }
}

/// Writes the made-up run: 3 repeats × 2 families × 2 sizes × (latency, peak) × 4 servers.
pub fn write(folder: &Path) -> RunDir {
    let mut run = RunDir::create(folder, PLAN, &environment()).unwrap();
    let mut id = 0;
    for repeat in 1..=3 {
        for size in [1000, 100_000] {
            for family in ["U-4-DS0", "S-6-DS100"] {
                for measure in ["latency", "peak"] {
                    for (server, us, qps, memory) in SERVERS {
                        id += 1;
                        let of = (server, family, size);
                        let drift = 1.0 + f64::from(repeat) * 0.01;
                        let trial = match measure {
                            _ if server == "bind" && size == 100_000 && family == "S-6-DS100" && repeat < 3 => TrialRecord {
                                id,
                                params: params(of, measure),
                                repeat,
                                error: Some("server 'bind' ended with exit status 1; its log says: <zone> root.zone:7: unknown RR type 'NSS'".into()),
                                ..TrialRecord::default()
                            },
                            "latency" => latency(id, repeat, of, us * drift, memory),
                            _ => peak(id, repeat, of, qps * drift),
                        };
                        run.append(trial).unwrap();
                    }
                }
            }
        }
    }
    run
}
