//! A client of zone transfers over TCP: AXFR (RFC 5936) and IXFR (RFC 1995), signed where there is a key (RFC 8945).
//!
//! It streams: a zone of any size takes a buffer of 256 KiB. A transfer that fails on the way is a result, not an error: it
//! says what had arrived until then.

mod connection;
mod request;
mod write;

use crate::advice::{self, advice};
use crate::{Error, TsigKey};
use connection::{Broken, Connection};
use measure::clock::{self, SECOND};
use measure::units::counted;
use measure::{Nanos, Reason};
use request::Signatures;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use wire::header::Header;
use wire::name::Name;
use wire::transfer::{Asked, Counts, Fault, Kind, Transfer};
use write::Writer;

/// How long a transfer may take where nothing else is said.
pub const TIMEOUT: Nanos = 600 * SECOND;
/// Time between two tellings of how far it is.
const TELL: Nanos = SECOND / 10;

/// The specification of a transfer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferSpec {
    /// The server.
    pub target: SocketAddr,
    /// The zone's name.
    pub zone: String,
    /// Ask for what changed since this serial; for all of the zone where there is none.
    #[serde(default)]
    pub ixfr: Option<u32>,
    /// The key that signs the question, and all answers.
    #[serde(default)]
    pub key: Option<TsigKey>,
    /// How long it may take, handshake included.
    pub timeout: Nanos,
    /// The target may be on another machine.
    #[serde(default)]
    pub allow_external: bool,
}

impl TransferSpec {
    /// An AXFR without a key, in [`TIMEOUT`].
    pub fn new(target: SocketAddr, zone: &str) -> Self {
        let zone = zone.to_owned();
        Self { target, zone, ixfr: None, key: None, timeout: TIMEOUT, allow_external: false }
    }
}

/// Differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deltas {
    /// From one version to a newer one each, complete ones.
    pub count: u64,
    /// Records deleted, SOA not counted.
    pub deletions: u64,
    /// Records added, likewise.
    pub additions: u64,
}

/// Octets of DNS messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageBytes {
    /// On average.
    pub mean: f64,
    /// Of the largest.
    pub max: u64,
}

/// TSIG (RFC 8945): of the messages that were verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tsig {
    /// Messages with a signature.
    pub signed: u64,
    /// Messages without one, which the next signature covers (section 5.3.1).
    pub unsigned: u64,
}

/// The result of a transfer. Bytes are of the server's side where not said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferResult {
    /// The server.
    pub target: SocketAddr,
    /// The zone, in presentation format.
    pub zone: String,
    /// The question.
    pub asked: Asked,
    /// The kind of the answer; null where it broke off before that was known.
    pub kind: Option<Kind>,
    /// Everything came, and everything was in order.
    pub complete: bool,
    /// Why not.
    pub failed: Option<Reason>,
    /// The serial that the differences begin with.
    pub serial_from: Option<u32>,
    /// The serial of the server's version.
    pub serial_to: Option<u32>,
    /// Records, all SOA included.
    pub records: u64,
    /// Differences.
    pub deltas: Deltas,
    /// DNS messages.
    pub messages: u64,
    /// Octets of these messages.
    pub dns_bytes: u64,
    /// Octets of TCP payload that came: the messages, the two octets of length before each, and what came of a message that
    /// broke off.
    pub tcp_bytes: u64,
    /// Octets of TCP payload that we sent.
    pub query_bytes: u64,
    /// How large the messages are.
    pub message_bytes: MessageBytes,
    /// Octets of the records in the messages, and without compression.
    pub record_bytes: u64,
    /// As above.
    pub uncompressed_bytes: u64,
    /// Records outside the zone.
    pub outside_zone: u64,
    /// With a key.
    pub tsig: Option<Tsig>,
    /// Wall clock, nanoseconds since 1970, when the connection was begun.
    pub start_ns: Nanos,
    /// Seconds until the connection stood, null where it never did.
    pub connect_s: Option<f64>,
    /// Seconds from the question to the first octet of the answer.
    pub first_byte_s: Option<f64>,
    /// Seconds from the beginning of the connection to the last octet.
    pub duration_s: f64,
    /// TCP payload by the second, over the duration.
    pub bytes_per_s: f64,
}

/// Transfers a zone. What comes is written to `out` where there is one: the zone, a record a line; differences as lines of
/// nsupdate, a transaction each. `progress` hears now and then what came so far.
///
/// # Errors
/// [`Error::Spec`] and [`Error::Target`] before anything is sent, [`Error::Io`] where `out` cannot be written. What goes
/// wrong between us and the server is in [`TransferResult::failed`].
pub fn transfer(
    spec: &TransferSpec,
    out: Option<&mut dyn Write>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Counts),
) -> Result<TransferResult, Error> {
    let apex: Name = spec.zone.parse().map_err(|e| Error::Spec(format!("zone '{}': {e}", spec.zone)))?;
    net::target::check(&[spec.target], &[], spec.allow_external)?;
    let asked = spec.ixfr.map_or(Asked::Axfr, |serial| Asked::Ixfr(Some(serial)));
    let id = (clock::now() / 1000) as u16;
    let key = spec.key.as_ref().map(TsigKey::tsig).transpose()?;
    let (query, signatures) = request::request(&apex, spec.ixfr, id, key)?;
    let mut run = Run {
        transfer: Transfer::new(asked, apex.as_wire()),
        signatures,
        writer: out.map(|out| Writer::new(out, &apex)),
        id,
        start: clock::now(),
        start_wall: clock::wall(),
        connected: None,
        asked_at: 0,
        query_bytes: 0,
        connection: None,
    };
    let deadline = run.start.saturating_add(spec.timeout);
    let end = run.go(spec.target, &query, deadline, stop, progress);
    let failed = match end {
        Ok(()) => None,
        Err(End::Failed(reason)) => Some(reason),
        Err(End::Write(e)) => return Err(Error::Io { path: "the output".into(), source: e }),
    };
    if failed.is_none()
        && let Some(writer) = run.writer.take()
    {
        writer.finish(run.transfer.kind()).map_err(Error::io("the output"))?;
    }
    Ok(run.result(spec, &apex, asked, failed))
}

/// Why it ends before the end.
enum End {
    Failed(Reason),
    Write(std::io::Error),
}

impl End {
    fn failed(code: &str, text: impl Into<String>) -> Self {
        Self::Failed(Reason::new(code, text))
    }
}

/// With what to do about the code.
fn advised(text: String, code: u16) -> String {
    match advice(&crate::tsig::code_name(code), advice::Asked::Transfer) {
        Some(what) => format!("{text}: {what}"),
        None => text,
    }
}

struct Run<'a> {
    transfer: Transfer,
    signatures: Option<Signatures>,
    writer: Option<Writer<'a>>,
    id: u16,
    start: Nanos,
    start_wall: Nanos,
    connected: Option<Nanos>,
    asked_at: Nanos,
    query_bytes: u64,
    connection: Option<Connection>,
}

impl Run<'_> {
    fn go(
        &mut self,
        target: SocketAddr,
        query: &[u8],
        deadline: Nanos,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Counts),
    ) -> Result<(), End> {
        let opened = Connection::open(target, deadline);
        let mut connection = opened.map_err(|e| {
            let text = format!("cannot connect: {e}: is the server running, and listening there with TCP?");
            End::failed("connect", text)
        })?;
        self.connected = Some(clock::now());
        let sent = connection.send(query);
        self.asked_at = clock::now();
        self.connection = Some(connection);
        self.query_bytes = sent.map_err(|e| self.broken(Broken::Lost(e)))?;
        let mut reported = self.start;
        loop {
            let connection = self.connection.as_mut().expect("it was opened");
            let message = match connection.message(deadline, stop) {
                Ok(message) => message,
                Err(broken) => return Err(self.broken(broken)),
            };
            let message = &self.connection.as_ref().expect("it was opened").buffer[message];
            let number = self.transfer.counts().messages + 1;
            let header = Header::new(message).filter(|header| header.id() == self.id);
            let Some(header) = header else {
                let text = format!("message {number} is no answer to the question: another id, or no header");
                return Err(End::failed("other_id", text));
            };
            if let Some(signatures) = &mut self.signatures
                && let Err(e) = signatures.check(message)
            {
                return Err(match header.rcode() {
                    0 => End::failed("tsig", format!("message {number} does not verify (TSIG): {e}")),
                    rcode => {
                        let text = format!("the server answers {} (TSIG: {e})", wire::rcode::to_text(rcode));
                        End::failed("refused", advised(text, request::code(&e, rcode)))
                    }
                });
            }
            let writer = &mut self.writer;
            let done = self.transfer.message(message, &mut |part, entry| {
                if let Some(writer) = writer {
                    writer.record(part, entry);
                }
            });
            if let Some(writer) = writer {
                writer.flush().map_err(End::Write)?;
            }
            let done = done.map_err(|fault| {
                let text = match number {
                    1 => match fault {
                        Fault::Rcode(rcode) => advised(fault.to_string(), rcode.into()),
                        _ => fault.to_string(),
                    },
                    _ => format!(
                        "{fault} (message {number}, after {})",
                        counted(self.transfer.counts().records, "record")
                    ),
                };
                End::failed(fault.code(), text)
            })?;
            let now = clock::now();
            if done || now >= reported + TELL {
                reported = now;
                progress(self.transfer.counts());
            }
            if done {
                break;
            }
        }
        if self.connection.as_ref().is_some_and(|c| c.left() > 0) {
            let fault = Fault::After;
            return Err(End::failed(fault.code(), fault.to_string()));
        }
        match self.signatures.as_mut().is_none_or(Signatures::done) {
            true => Ok(()),
            false => Err(End::failed("tsig", "the last message is not signed (TSIG)")),
        }
    }

    /// Why the connection gives no more.
    fn broken(&self, broken: Broken) -> End {
        let counts = self.transfer.counts();
        let so_far = match counts.messages {
            0 => "before any message".to_owned(),
            n => format!(
                "after {}, {}, before the final SOA",
                counted(n, "message"),
                counted(counts.records, "record")
            ),
        };
        let within = match self.connection.as_ref().map_or(0, Connection::left) {
            0 => String::new(),
            n => format!(" ({} of the next message had come)", counted(n as u64, "octet")),
        };
        const LOOK: &str = "its log says why; nothing is kept of what came, so ask again";
        match broken {
            Broken::Closed => {
                End::failed("cut", format!("the server closed the connection {so_far}{within}: {LOOK}"))
            }
            Broken::Lost(e) => End::failed(
                "cut",
                format!("the connection broke {so_far}{within}: {e}: if the server ended it, {LOOK}"),
            ),
            Broken::Timeout => End::failed(
                "timeout",
                format!("the time was over {so_far}{within}: give it more with --timeout"),
            ),
            Broken::Stopped => End::failed("stopped", format!("it was stopped {so_far}{within}")),
        }
    }

    fn result(
        &self,
        spec: &TransferSpec,
        apex: &Name,
        asked: Asked,
        failed: Option<Reason>,
    ) -> TransferResult {
        let counts = self.transfer.counts();
        let seconds = |from: Nanos, to: Nanos| to.saturating_sub(from) as f64 / SECOND as f64;
        let (octets, first, last) = self.connection.as_ref().map_or((0, None, None), Connection::seen);
        let duration_s = seconds(self.start, last.filter(|_| failed.is_none()).unwrap_or_else(clock::now));
        TransferResult {
            target: spec.target,
            zone: apex.to_string(),
            asked,
            kind: self.transfer.kind(),
            complete: failed.is_none(),
            failed,
            serial_from: self.transfer.from(),
            serial_to: self.transfer.to(),
            records: counts.records,
            deltas: Deltas { count: counts.deltas, deletions: counts.deleted, additions: counts.added },
            messages: counts.messages,
            dns_bytes: counts.octets,
            tcp_bytes: octets,
            query_bytes: self.query_bytes,
            message_bytes: MessageBytes {
                mean: counts.octets as f64 / counts.messages.max(1) as f64,
                max: counts.largest,
            },
            record_bytes: counts.record_octets,
            uncompressed_bytes: counts.plain_octets,
            outside_zone: counts.outside,
            tsig: self.signatures.as_ref().map(Signatures::counts),
            start_ns: self.start_wall,
            connect_s: self.connected.map(|at| seconds(self.start, at)),
            first_byte_s: first.map(|at| seconds(self.asked_at, at)),
            duration_s,
            bytes_per_s: if duration_s > 0.0 { octets as f64 / duration_s } else { 0.0 },
        }
    }
}
