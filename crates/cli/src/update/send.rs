//! `dnsrack update send`

use super::failure;
use crate::load::{positive, rate, us};
use crate::output::{self, Common, Status};
use ::load::{Prefix, parse_target};
use ::update::advice::{Asked, advice};
use ::update::{MarkerSpec, SendResult, SendSpec, SendTransport, TsigKey};
use clap::{Args, ValueEnum};
use measure::clock;
use measure::units::{self, counted, grouped};
use measure::{Arrivals, Definition, Event, Latency, Nanos, Pace, metrics, series};
use serde_json::Value;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The flags of `update send`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("pace").required(true).args(["rate", "window", "flood"]))]
pub struct Send {
    /// Server to send to: ADDR, ADDR:PORT or [V6]:PORT
    #[arg(value_name = "TARGET", value_parser = parse_target)]
    target: SocketAddr,
    /// File of updates, in nsupdate's format
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Send at this rate, in messages per second, whatever the server answers (open loop)
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
    /// Keep this many messages waiting for their answers (closed loop)
    #[arg(long, value_name = "W")]
    window: Option<u32>,
    /// Send as fast as this machine can
    #[arg(long)]
    flood: bool,
    /// Sign with the key in this file: as tsig-keygen writes it, or a line ALGORITHM:NAME:SECRET
    #[arg(long, value_name = "KEYFILE")]
    tsig: Option<PathBuf>,
    /// Protocol of the messages
    #[arg(long, value_enum, default_value_t = Transport::Udp)]
    transport: Transport,
    /// Number of sockets or connections, over which names are distributed [default: 1, or as many as the ids in flight need]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    clients: u32,
    /// Send from these local addresses, or all addresses of these networks, in turn
    #[arg(long, value_name = "ADDR|NET", value_delimiter = ',')]
    source: Vec<Prefix>,
    /// Merge this many transactions of the file into each message [default: 1]
    #[arg(long, value_name = "K", default_value_t = 1, hide_default_value = true)]
    per_transaction: u32,
    /// Count a message as lost when its answer takes longer than this
    #[arg(long, default_value = "4s", value_parser = positive)]
    deadline: Nanos,
    /// Retry a message without an answer up to this many times within its deadline; idempotent messages only
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,
    /// Send for this long [default: until the end of the file]
    #[arg(long, value_parser = positive)]
    duration: Option<Nanos>,
    /// Send at most this many messages
    #[arg(long, value_name = "N", value_parser = units::count)]
    count: Option<u64>,
    /// Send at most this many messages at once [default: those due within a millisecond, 1 to 32; flood: 512]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    burst: u32,
    /// With --window or --flood: stop if nothing is heard for this long while messages wait
    #[arg(long, default_value = "60s", value_parser = positive)]
    patience: Nanos,
    /// Between the updates, replace the TXT record of this name by a number that goes up; '+' is _dnsrack below the zone
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "+")]
    marker: Option<String>,
    /// Time between two markers
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = positive)]
    marker_every: Nanos,
    /// Write a line for each message: when it was due, its latency, its rcode
    #[arg(long, value_name = "FILE")]
    latencies: Option<PathBuf>,
    /// Run on this core
    #[arg(long)]
    cpu: Option<usize>,
    /// Allow a target outside this machine; change only zones that are yours
    #[arg(long)]
    allow_external: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Transport {
    Udp,
    Tcp,
}

/// Sends, and tells what came of it.
pub fn run(args: &Send, common: &Common) -> output::Result {
    let pace = match (args.rate, args.window) {
        (Some(rate), _) => Pace::Open(Arrivals::Fixed { rate }),
        (_, Some(window)) => Pace::Closed { window },
        _ => Pace::Flood,
    };
    let marker = args.marker.as_ref().map(|name| MarkerSpec {
        name: Some(name.clone()).filter(|name| name != "+"),
        every: args.marker_every,
        first: 1,
        scattered: None,
    });
    let spec = SendSpec {
        key: args.tsig.as_deref().map(TsigKey::load).transpose().map_err(failure)?,
        transport: match args.transport {
            Transport::Udp => SendTransport::Udp,
            Transport::Tcp => SendTransport::Tcp,
        },
        clients: args.clients,
        sources: args.source.clone(),
        merge: args.per_transaction,
        deadline: args.deadline,
        retries: args.retries,
        duration: args.duration,
        count: args.count,
        burst: args.burst,
        patience: args.patience,
        cpu: args.cpu,
        latencies: args.latencies.clone(),
        marker,
        allow_external: args.allow_external,
        ..SendSpec::new(args.target, &args.file, pace)
    };
    let stop = output::stop_flag()?;
    let result =
        ::update::send::run(&spec, clock::now, &stop, &mut |event| tell(&event, common)).map_err(failure)?;
    common.tell("update.send", &result, || text(&spec, &result))?;
    Ok(if result.validity.valid { Status::Done } else { Status::Differs })
}

fn tell(event: &Event, common: &Common) {
    if common.events {
        // Nobody reads the lines any more where this fails; the result is still reported.
        let _ = output::event(event);
    }
    if let Event::Progress { second, values } = event {
        eprintln!("{}", line(*second, values));
    }
}

/// One second, on one line.
fn line(second: u64, values: &Value) -> String {
    let count = |figure: Definition| grouped(figure.among(values).unwrap_or(0.0) as u64);
    format!(
        "{second:>5} s  sent {}/s  acknowledged {}/s  accepted {}/s  p50 {} us  p99 {} us  waiting {}  unsent {}",
        count(metrics::SENT_UPS),
        count(metrics::ACKNOWLEDGED_UPS),
        count(metrics::ACCEPTED_UPS),
        count(metrics::LATENCY.p50),
        count(metrics::LATENCY.p99),
        count(series::IN_FLIGHT),
        count(metrics::UNSENT),
    )
}

/// The updates that were not taken, and what to do about it.
fn unlucky(spec: &SendSpec, r: &SendResult) -> String {
    let mut out = String::new();
    for code in r.rcodes.keys() {
        if let Some(what) = advice(code, Asked::Update) {
            let _ = writeln!(out, "{code}: {what}");
        }
    }
    let silent = r.lost + r.in_flight;
    if silent > 0 {
        let which = if silent == r.sent {
            "is the server running there?"
        } else {
            "the file of --latencies has which"
        };
        let again = match (spec.retries, r.applied_twice_possible) {
            (0, _) => "--retries repeats idempotent messages only".to_owned(),
            (_, again) => format!("{} sent again, of all", counted(again, "message")),
        };
        let _ = writeln!(
            out,
            "{} had no answer within {} s, and may have been applied or not: {which} ({again})",
            counted(silent, "message"),
            r.deadline_s
        );
    }
    if !out.is_empty() {
        out.insert(0, '\n');
    }
    out
}

/// The result for people, most important last.
fn text(spec: &SendSpec, r: &SendResult) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{} for {:.3} s, deadline {} s; {} and {} in the file",
        spec.target,
        r.duration_s,
        r.deadline_s,
        counted(r.file.transactions, "transaction"),
        counted(r.file.records, "record")
    );
    let codes: Vec<_> = r.rcodes.iter().map(|(code, n)| format!("{code} {}", grouped(*n))).collect();
    for (name, count, rate, rest) in [
        ("offered", r.offered, r.offered_ups, String::new()),
        (
            "sent",
            r.sent,
            r.sent_ups,
            format!("   unsent {}, sent again {}", grouped(r.unsent), grouped(r.retried)),
        ),
        ("acknowledged", r.acknowledged, r.acknowledged_ups, format!("   {}", codes.join(", "))),
        (
            "accepted",
            r.accepted,
            r.accepted_ups,
            format!("   {} transactions", grouped(r.transactions.accepted)),
        ),
    ] {
        let _ = writeln!(out, "{name:<13}{:>13}{:>13}/s{rest}", grouped(count), grouped(rate.round() as u64));
    }
    let _ = writeln!(
        out,
        "{:<13}{:>13}{:>13} %   late {}, waiting {}, mismatched {}, duplicates {}, unexpected {}, badly signed {}",
        "lost",
        grouped(r.lost),
        format!("{:.3}", r.loss_ratio() * 100.0),
        grouped(r.late),
        grouped(r.in_flight),
        grouped(r.mismatched),
        grouped(r.duplicates),
        grouped(r.unexpected),
        grouped(r.bad_tsig),
    );
    let _ =
        writeln!(out, "\n{:<13}{:>11}{:>11}{:>11}{:>11}{:>11}", "us", "p50", "p90", "p99", "p99.9", "max");
    for (name, l, from) in [
        ("latency", &r.latency_us, "from the intended time"),
        ("service", &r.service_latency_us, "from the send"),
    ] {
        let Latency { p50, p90, p99, p999, max } = *l;
        let [a, b, c, d, e] = [p50, p90, p99, p999, max].map(us);
        let _ = writeln!(out, "{name:<13}{a:>11}{b:>11}{c:>11}{d:>11}{e:>11}   {from}");
    }
    if let Some(m) = r.markers.last() {
        let seen = r.markers.iter().filter(|m| m.rcode.as_deref() == Some("NOERROR")).count();
        let name = r.marker_name.as_deref().unwrap_or_default();
        let _ = writeln!(
            out,
            "\nmarkers at {name}: {} of {} accepted, the last was {}",
            seen,
            r.markers.len(),
            m.number
        );
    }
    if !r.tsig_faults.is_empty() {
        let faults: Vec<_> =
            r.tsig_faults.iter().map(|(what, n)| format!("{what} {}", grouped(*n))).collect();
        let _ = writeln!(out, "\nsignatures of answers: {}", faults.join(", "));
    }
    out.push_str(&unlucky(spec, r));
    let _ = writeln!(
        out,
        "\nsender: {}, {} by {}, {}, bursts of at most {}, {} octets sent and {} received",
        counted(r.clients.into(), "client"),
        r.transport,
        r.backend,
        if r.signed { "signed" } else { "not signed" },
        r.burst,
        grouped(r.bytes.sent),
        grouped(r.bytes.received)
    );
    for (word, reasons) in [("warning", &r.validity.warnings), ("INVALID", &r.validity.reasons)] {
        for reason in reasons {
            let _ = writeln!(out, "{word}: {reason}");
        }
    }
    if r.validity.valid {
        out.push_str("valid: the sender offered what it claims, on time, and dropped nothing\n");
    }
    out
}
