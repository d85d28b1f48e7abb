//! `trace info --transfers`: how zones were carried.

use super::text::time;
use measure::units::grouped;
use serde::Serialize;
use std::fmt::Write;
use trace::facts::Report;
use trace::transfers::{Exchange, Transfers, ZoneTransfer};
use wire::transfer::{Asked, Kind};

/// Rows that are shown of each kind.
const ROWS: usize = 40;

/// The output of `--json`.
#[derive(Serialize)]
pub struct With<'a> {
    #[serde(flatten)]
    pub report: &'a Report,
    pub transfers: &'a Transfers,
}

/// For people.
pub fn text(found: &Transfers) -> String {
    let mut out = format!(
        "\nZone transfers: {}; NOTIFYs: {}; queries for a SOA: {}\n",
        grouped(found.transfers.len() as u64),
        grouped(found.notifies.len() as u64),
        grouped(found.refreshes.len() as u64)
    );
    found.transfers.iter().take(ROWS).for_each(|t| transfer(&mut out, t));
    more(&mut out, found.transfers.len());
    for (what, list) in [("NOTIFY", &found.notifies), ("SOA", &found.refreshes)] {
        list.iter().take(ROWS).for_each(|e| exchange(&mut out, what, e));
        more(&mut out, list.len());
    }
    if found.holes > 0 {
        let _ = writeln!(
            out,
            "TCP segments are missing at {} places: transfers may look broken by that",
            found.holes
        );
    }
    if found.not_kept > 0 {
        let _ = writeln!(out, "{} more were not kept", grouped(found.not_kept));
    }
    out
}

fn more(out: &mut String, rows: usize) {
    if rows > ROWS {
        let _ = writeln!(out, "  ... {} more: --json has them all", grouped((rows - ROWS) as u64));
    }
}

fn transfer(out: &mut String, t: &ZoneTransfer) {
    let kind = match (t.kind, t.asked) {
        (Some(Kind::Axfr), _) => "AXFR",
        (Some(Kind::Ixfr), _) => "IXFR",
        (Some(Kind::AxfrForIxfr), _) => "AXFR for IXFR",
        (Some(Kind::UpToDate), _) => "up to date",
        (None, Asked::Axfr) => "AXFR without an answer",
        (None, Asked::Ixfr(_)) => "IXFR without an answer",
    };
    let serial = |serial: Option<u32>| serial.map_or("?".into(), |serial| serial.to_string());
    let serials = match t.kind {
        Some(Kind::Ixfr) => format!("{} to {}", serial(t.serial_from), serial(t.serial_to)),
        _ => serial(t.serial_to),
    };
    let state = match (&t.fault, t.complete) {
        (Some(fault), _) => format!(", {fault}"),
        (None, true) => String::new(),
        (None, false) => ", not to its end".into(),
    };
    let took = t.end_ns.map_or(0, |end| end.saturating_sub(t.start_ns)) as f64 / 1e9;
    let _ = writeln!(
        out,
        "  {} {} from {}: {} {kind}, serial {serials}{state}",
        time(t.start_ns),
        t.client,
        t.server,
        t.zone
    );
    let deltas = match t.deltas {
        0 => String::new(),
        n => format!(", {n} differences (-{} +{})", grouped(t.deletions), grouped(t.additions)),
    };
    let packets = match (t.packets, t.ip_bytes) {
        (Some(packets), Some(octets)) => {
            let shared = match t.on_connection {
                1 => String::new(),
                n => format!(" for {n} transfers on one connection"),
            };
            format!("; {} packets of {} octets with IP headers{shared}", grouped(packets), grouped(octets))
        }
        _ => String::new(),
    };
    let _ = writeln!(
        out,
        "    {} records{deltas} in {} messages, {} octets ({} of TCP payload){packets}; {took:.3} s",
        grouped(t.records),
        grouped(t.messages),
        grouped(t.dns_bytes),
        grouped(t.tcp_bytes),
    );
}

fn exchange(out: &mut String, what: &str, e: &Exchange) {
    let serial = e.serial.map_or_else(String::new, |serial| format!(", serial {serial}"));
    let answer = match (e.answered_after_ns, e.rcode) {
        (Some(after), Some(rcode)) => {
            format!("{} after {:.3} ms", wire::rcode::to_text(rcode), after as f64 / 1e6)
        }
        _ => "no answer".into(),
    };
    let _ = writeln!(out, "  {} {what} {} to {}: {}{serial}: {answer}", time(e.at_ns), e.from, e.to, e.zone);
}
