//! `dnsrack transfer`: a zone, or what changed in it, from a server.

use crate::load::parse_target;
use crate::output::{self, Common, Failure, Status, write_output};
use clap::Args;
use measure::{Nanos, units};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use update::{TransferResult, TransferSpec, TsigKey};
use wire::transfer::Kind;

/// The flags of `transfer`.
#[derive(Debug, Args)]
pub struct Command {
    /// Server to ask: ADDR, ADDR:PORT or [V6]:PORT
    #[arg(value_name = "TARGET", value_parser = parse_target)]
    target: SocketAddr,
    /// Name of the zone
    #[arg(value_name = "ZONE")]
    zone: String,
    /// Ask for the changes since this serial (IXFR) instead of the whole zone (AXFR)
    #[arg(long, value_name = "SERIAL")]
    ixfr: Option<u32>,
    /// Sign with the key in this file, as tsig-keygen writes it, and verify every answer
    #[arg(long, value_name = "KEYFILE")]
    tsig: Option<PathBuf>,
    /// Write the zone, or of an IXFR the differences in nsupdate's format; '-' is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Longest time that it may take
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = crate::load::positive)]
    timeout: Nanos,
    /// Allow a server outside this machine; ask only servers that are yours
    #[arg(long)]
    allow_external: bool,
}

/// Runs it.
pub fn run(args: &Command, common: &Common) -> output::Result {
    if let Some(path) = &args.output {
        common.no_two_outputs(path)?;
    }
    let spec = TransferSpec {
        ixfr: args.ixfr,
        key: args.tsig.as_deref().map(TsigKey::load).transpose().map_err(crate::update::failure)?,
        timeout: args.timeout,
        allow_external: args.allow_external,
        ..TransferSpec::new(args.target, &args.zone)
    };
    let stop = output::stop_flag()?;
    let mut progress = common.progress("records", 0);
    let mut transfer = |out: Option<&mut dyn Write>| {
        update::transfer(&spec, out, &stop, &mut |counts| progress.set(counts.records))
            .map_err(crate::update::failure)
    };
    let result = match &args.output {
        None => transfer(None),
        Some(path) => {
            let mut failed = None;
            // An incomplete transfer must not replace a file that may be there.
            let written = write_output(path, |out| {
                let result = transfer(Some(out))?;
                match &result.failed {
                    None => Ok(result),
                    Some(reason) => {
                        let failure = Failure { code: 1, message: reason.text.clone() };
                        failed = Some(result);
                        Err(failure)
                    }
                }
            });
            failed.map_or(written, Ok)
        }
    };
    progress.finish();
    let result = result?;
    let quiet = args.output.as_deref() == Some(std::path::Path::new("-"));
    if quiet {
        eprint!("{}", text(&result));
    } else if result.complete || common.json || common.events {
        common.tell("transfer", &result, || text(&result))?;
    } else {
        eprint!("{}", text(&result));
    }
    match result.failed {
        None => Ok(Status::Done),
        Some(reason) => {
            let message = format!("transfer of {} from {}: {}", result.zone, result.target, reason.text);
            Err(Failure { code: 1, message })
        }
    }
}

fn text(r: &TransferResult) -> String {
    let serial = |serial: Option<u32>| serial.map_or_else(|| "?".to_owned(), |serial| serial.to_string());
    let what = match r.kind {
        Some(Kind::Axfr) => format!("AXFR of serial {}", serial(r.serial_to)),
        Some(Kind::AxfrForIxfr) => format!("AXFR of serial {} in place of an IXFR", serial(r.serial_to)),
        Some(Kind::UpToDate) => format!("nothing newer than serial {}", serial(r.serial_to)),
        Some(Kind::Ixfr) => format!(
            "IXFR from serial {} to {}: {}, {} deleted, {} added",
            serial(r.serial_from),
            serial(r.serial_to),
            units::counted(r.deltas.count, "difference"),
            units::counted(r.deltas.deletions, "record"),
            units::grouped(r.deltas.additions)
        ),
        None => "nothing recognisable".into(),
    };
    let records = r.records.max(1) as f64;
    let mut out = format!(
        "{} from {}: {what}\n{} in {} of {:.0} octets on average, {} at most\n",
        r.zone,
        r.target,
        units::counted(r.records, "record"),
        units::counted(r.messages, "message"),
        r.message_bytes.mean,
        units::grouped(r.message_bytes.max),
    );
    out += &format!(
        "{} octets of DNS, {} of TCP payload ({} asked); a record takes {:.1} octets, {:.1} without compression\n",
        units::grouped(r.dns_bytes),
        units::grouped(r.tcp_bytes),
        units::grouped(r.query_bytes),
        r.record_bytes as f64 / records,
        r.uncompressed_bytes as f64 / records,
    );
    let ms = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), |s| format!("{:.3} ms", s * 1e3));
    out += &format!(
        "{:.3} s, {} octets/s; connected after {}, the first octet came {} after the question\n",
        r.duration_s,
        units::grouped(r.bytes_per_s as u64),
        ms(r.connect_s),
        ms(r.first_byte_s),
    );
    if let Some(tsig) = r.tsig {
        out += &format!("TSIG: {} signed, {} not\n", units::counted(tsig.signed, "message"), tsig.unsigned);
    }
    if r.outside_zone > 0 {
        out += &format!("outside the zone: {}\n", units::counted(r.outside_zone, "record"));
    }
    out
}
