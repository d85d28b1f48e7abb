//! `dnsrack update watch`.

use super::failure;
use crate::load::{parse_target, positive};
use crate::output::{self, Common, Status};
use clap::Args;
use measure::Nanos;
use measure::clock::{self, SECOND};
use measure::units::{counted, grouped};
use std::fmt::Write;
use std::net::SocketAddr;
use update::watch::{Forwards, Watched};
use update::{WatchResult, WatchSpec};

/// The flags of `update watch`.
#[derive(Debug, Args)]
pub struct Watch {
    /// Servers to ask: ADDR, ADDR:PORT or [V6]:PORT
    #[arg(value_name = "TARGET", required = true, value_parser = parse_target)]
    targets: Vec<SocketAddr>,
    /// Name of the zone
    #[arg(value_name = "ZONE")]
    zone: String,
    /// Name of the TXT record with the counter, below the zone unless it ends in a dot [default: _dnsrack]
    #[arg(long, value_name = "NAME")]
    marker: Option<String>,
    /// Time between two questions to a server
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = positive)]
    interval: Nanos,
    /// Ask for the SOA after this many questions; 0: never
    #[arg(long, value_name = "N", default_value_t = 10)]
    serial_every: u32,
    /// Count a question as lost when its answer takes longer than this
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = positive)]
    deadline: Nanos,
    /// Watch for this long; Ctrl-C ends it too
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = positive)]
    duration: Nanos,
    /// Run on this core
    #[arg(long)]
    cpu: Option<usize>,
    /// Allow servers outside this machine; ask only servers that are yours
    #[arg(long)]
    allow_external: bool,
}

/// Watches until the time is over.
pub fn run(args: &Watch, common: &Common) -> output::Result {
    let servers =
        args.targets.iter().map(|&address| Watched { name: address.to_string(), address }).collect();
    let spec = WatchSpec {
        marker: args.marker.clone(),
        interval: args.interval,
        serial_every: args.serial_every,
        deadline: args.deadline,
        duration: args.duration,
        cpu: args.cpu,
        allow_external: args.allow_external,
        ..WatchSpec::new(servers, &args.zone)
    };
    let stop = output::stop_flag()?;
    let mut progress = common.progress("seconds", args.duration / SECOND);
    let result = update::watch(&spec, || clock::now() + SECOND / 100, &stop, &mut |event| match &event {
        // Nobody reads the lines any more where this fails; the result is still reported.
        event if common.events => drop(output::event(event)),
        measure::Event::Progress { second, .. } => progress.set(*second),
        _ => {}
    })
    .map_err(failure)?;
    progress.finish();
    common.tell("update.watch", &result, || text(&result))?;
    let back = result.servers.iter().any(|s| s.marker_went_back + s.serial_went_back > 0);
    Ok(if result.validity.valid && !back { Status::Done } else { Status::Differs })
}

fn text(r: &WatchResult) -> String {
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::NOTHING);
    table.set_header([
        "server",
        "marker",
        "serial",
        "seen",
        "went back",
        "asked",
        "lost",
        "failed",
        "known to",
    ]);
    let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    for (i, server) in r.servers.iter().enumerate() {
        let own = r.sightings.iter().filter(|s| usize::from(s.server) == i);
        let worst = own.clone().map(|s| s.uncertainty()).max();
        table.add_row([
            server.name.clone(),
            number(server.marker_last),
            number(server.serial_last.map(u64::from)),
            grouped(own.count() as u64),
            (server.marker_went_back + server.serial_went_back).to_string(),
            grouped(server.sent),
            grouped(server.lost),
            grouped(server.failed),
            worst.map_or_else(|| "-".to_owned(), |worst| format!("{:.1} ms", worst as f64 / 1e6)),
        ]);
    }
    let mut out = format!("{table}\n");
    let own = &r.own;
    let _ = writeln!(
        out,
        "watching: {:.0} questions/s to each server, {} sent, {} answered, {} lost, {} left out; {} octets out, {} in; {:.0} % of a \
         core; answers took {:.3} ms in the middle, {:.3} ms at most",
        own.qps_per_server,
        grouped(own.sent),
        grouped(own.answered),
        grouped(own.lost),
        grouped(own.skipped),
        grouped(own.bytes_sent),
        grouped(own.bytes_received),
        own.cpu * 100.0,
        r.latency.quantile(0.5) as f64 / 1e6,
        r.latency.max() as f64 / 1e6,
    );
    for back in r.went_back.iter().take(20) {
        let name = &r.servers[usize::from(back.server)].name;
        let what = match back.what {
            Forwards::Marker => "marker",
            Forwards::Serial => "serial",
        };
        let _ = writeln!(out, "{name}: the {what} went back from {} to {}", back.from, back.to);
    }
    for server in &r.servers {
        let name = &server.name;
        let said = match server {
            s if s.sent > 0 && s.answered == 0 => {
                format!("none of {} was answered: is the server running there?", counted(s.sent, "question"))
            }
            s if s.answered > 0 && s.failed == s.answered => {
                "no answer says what the zone has (neither NOERROR nor NXDOMAIN, or no counter): does it serve the zone?".to_owned()
            }
            s if s.answered > 0 && s.marker_last.is_none_or(|marker| marker == 0) => {
                format!("no marker was seen at {}: does 'update send --marker' send some, to its primary?", r.marker)
            }
            _ => continue,
        };
        let _ = writeln!(out, "{name}: {said}");
    }
    for reason in r.validity.reasons.iter().chain(&r.validity.warnings) {
        let _ = writeln!(out, "{reason}");
    }
    out
}
