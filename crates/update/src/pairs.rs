//! A secondary watched for half-applied changes and for serials that go back, by queries and by transfers.
//!
//! Every update puts one counter at two names, in one message: whatever state of the zone is served, both have the same. Queries
//! see one name at a time: the first is asked before and after the second, and where it was the same both times, so must the
//! second be.

use crate::script::write_messages;
use crate::{Error, TransferSpec, TsigKey, transfer};
use measure::clock::SECOND;
use measure::files::Named;
use measure::{Event, Files, Nanos};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use wire::header::Header;
use wire::name::Name;
use wire::record::Records;
use wire::transfer::{is_newer, soa_serial};
use wire::{query, rtype};

/// The names that one counter is at, chosen again in every update: the one in canonical order before most, the other after them.
pub const PAIR: [&str; 2] = ["0-dnsrack-pair", "zz-dnsrack-pair"];

/// How long an answer is waited for.
const WAIT: Duration = Duration::from_millis(50);

/// How often it is asked, and how often for the whole zone.
const PERIOD: Duration = Duration::from_millis(1);
const TRANSFER_PERIOD: Duration = Duration::from_millis(100);

/// How long a transfer may take, in nanoseconds: of a server that is killed it never comes to its end.
const TRANSFER: Nanos = 10 * SECOND;

/// The server and the names to watch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairsSpec {
    /// The server.
    pub target: SocketAddr,
    /// The zone.
    pub origin: String,
    /// The key that signs transfers.
    pub key: TsigKey,
    /// How many records the zone has without the names, if that is known: not of a signed one.
    pub records: Option<u64>,
    /// The server may be on another machine.
    #[serde(default)]
    pub allow_external: bool,
}

impl Files for PairsSpec {
    fn files<E>(&mut self, _: &mut dyn FnMut(Named<'_>) -> Result<(), E>) -> Result<(), E> {
        Ok(())
    }
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairsResult {
    /// By queries.
    pub asked: Asked,
    /// By transfers.
    pub transferred: Transferred,
}

/// Watches a server from the start on until `stop` is set. `life`: how often the server was started. A serial that goes back within
/// one life is another fault than over two.
///
/// # Errors
/// Where no socket can be had; the errors of [`transfer()`].
pub fn pairs(
    spec: &PairsSpec,
    start: impl FnOnce() -> Nanos,
    life: &AtomicU32,
    stop: &AtomicBool,
    _events: &mut dyn FnMut(Event),
) -> Result<PairsResult, Error> {
    net::target::check(&[spec.target], &[], spec.allow_external)?;
    let asker = Asker::open(spec)?;
    measure::clock::sleep_until(start());
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask(spec, asker, life, stop));
        let transferred = transfers(spec, stop);
        // One without the other says nothing.
        stop.store(true, Ordering::Relaxed);
        let asked = asking.join().expect("it returns its errors");
        Ok(PairsResult { asked: asked?, transferred: transferred? })
    })
}

/// A serial after which an older one was served: from which to which.
pub type Back = (u32, u32);

/// The result of the queries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Times that both names were seen in one state.
    pub compared: u64,
    /// Of them, those in which they differed, or a name had two counters: half a change was served, or two versions at once by
    /// different processes.
    pub half: u64,
    /// The first of these: what the two names had.
    pub first_half: Option<String>,
    /// Serials that went back while the server ran.
    pub back_running: Vec<Back>,
    /// And over a restart.
    pub back_restarted: Vec<Back>,
    /// Different serials seen.
    pub serials: u64,
}

/// The result of the transfers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transferred {
    /// Complete ones.
    pub compared: u64,
    /// Transfers that failed: the server was killed, or not there.
    pub broken: u64,
    /// Complete ones in which the names differ, or the zone has not as many records as it must have.
    pub half: u64,
    /// The first of these.
    pub first_half: Option<String>,
}

/// Asks single questions.
struct Asker {
    socket: UdpSocket,
    id: u16,
    query: Vec<u8>,
    buffer: Vec<u8>,
}

impl Asker {
    fn open(spec: &PairsSpec) -> Result<Self, Error> {
        let any = if spec.target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let ready = UdpSocket::bind(any).and_then(|socket| {
            socket.connect(spec.target)?;
            socket.set_read_timeout(Some(WAIT))?;
            Ok(socket)
        });
        let socket =
            ready.map_err(|error| Error::System { what: "open a socket to the secondary", error })?;
        Ok(Self { socket, id: 0, query: Vec::new(), buffer: vec![0; 4096] })
    }

    /// The answer; none where there was none in time.
    fn ask(&mut self, name: &Name, rtype: u16) -> Option<&[u8]> {
        self.id = self.id.wrapping_add(1);
        query::write(&mut self.query, self.id, name.as_wire(), rtype, None);
        self.socket.send(&self.query).ok()?;
        let until = Instant::now() + WAIT;
        while Instant::now() < until {
            let len = self.socket.recv(&mut self.buffer).ok()?;
            let ours = |h: Header<'_>| h.qr() && h.aa() && h.id() == self.id && matches!(h.rcode(), 0 | 3);
            if Header::new(&self.buffer[..len]).is_some_and(ours) {
                return Some(&self.buffer[..len]);
            }
        }
        None
    }

    /// The counters at a name, of which there should be one at most.
    fn counters(&mut self, name: &Name) -> Option<Vec<u64>> {
        let answer = self.ask(name, rtype::TXT)?;
        let records = Records::of(answer, 0).ok()?.map_while(Result::ok);
        let text = |data: &[u8]| {
            let (&len, text) = data.split_first()?;
            std::str::from_utf8(text.get(..usize::from(len))?).ok()?.parse::<u64>().ok()
        };
        let mut all: Vec<u64> =
            records.filter(|r| r.rtype == rtype::TXT).filter_map(|r| text(r.raw_data())).collect();
        all.sort_unstable();
        Some(all)
    }

    fn serial(&mut self, origin: &Name) -> Option<u32> {
        let answer = self.ask(origin, rtype::SOA)?;
        let record = Records::of(answer, 0).ok()?.map_while(Result::ok).find(|r| r.rtype == rtype::SOA)?;
        let mut data = Vec::new();
        record.data(&mut data).ok()?;
        soa_serial(&data)
    }
}

fn name(text: &str) -> Result<Name, Error> {
    text.parse().map_err(|e| Error::Spec(format!("{text}: {e}")))
}

/// A name below a zone's.
pub fn below(label: &str, origin: &str) -> String {
    if origin == "." { format!("{label}.") } else { format!("{label}.{origin}") }
}

/// Writes a file of `count` updates that put one counter, from 1 on, at both names of [`PAIR`].
///
/// # Errors
/// [`Error::Io`].
pub fn write(file: &Path, origin: &str, count: u64) -> Result<(), Error> {
    let mut numbers = 1..=count;
    write_messages(file, origin, || {
        numbers.next().map(|number| {
            PAIR.iter().fold(String::new(), |mut lines, label| {
                let name = below(label, origin);
                let _ = writeln!(lines, "update delete {name} TXT\nupdate add {name} 0 TXT \"{number}\"");
                lines
            })
        })
    })
}

/// Asks until it is told to stop.
fn ask(spec: &PairsSpec, mut asker: Asker, life: &AtomicU32, stop: &AtomicBool) -> Result<Asked, Error> {
    let origin = name(&spec.origin)?;
    let [first, second] = PAIR.map(|label| name(&below(label, &spec.origin)));
    let (first, second) = (first?, second?);
    let mut seen = Asked::default();
    let mut last: Option<(u32, u32)> = None;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(PERIOD);
        let now = life.load(Ordering::SeqCst);
        let pair = [asker.counters(&first), asker.counters(&second), asker.counters(&first)];
        let serial = asker.serial(&origin);
        if life.load(Ordering::SeqCst) != now {
            continue; // it was killed meanwhile
        }
        if let [Some(before), Some(between), Some(after)] = &pair
            && before == after
        {
            seen.compared += 1;
            if before != between || before.len() > 1 {
                seen.half += 1;
                seen.first_half.get_or_insert_with(|| format!("{before:?} beside {between:?}"));
            }
        }
        let Some(serial) = serial else { continue };
        match last {
            Some((_, before)) if before == serial => {}
            Some((of, before)) if is_newer(before, serial) => {
                let kind = if of == now { &mut seen.back_running } else { &mut seen.back_restarted };
                kind.push((before, serial));
            }
            _ => seen.serials += 1,
        }
        last = Some((now, serial));
    }
    Ok(seen)
}

/// The counters at each of the two names; `None` for what is not a number.
pub type Pair = [Vec<Option<u64>>; 2];

/// The counters at the two names in one transfer, and its number of records; none where it broke off.
///
/// # Errors
/// The errors of [`transfer()`].
pub fn counters(spec: &PairsSpec) -> Result<Option<(Pair, u64)>, Error> {
    let mut pair = Pair::default();
    let mut lines = Lines::new(|line| {
        if let Some((which, value)) = counter(line) {
            pair[which].push(value);
        }
    });
    let whole = TransferSpec {
        key: Some(spec.key.clone()),
        timeout: TRANSFER,
        allow_external: spec.allow_external,
        ..TransferSpec::new(spec.target, &spec.origin)
    };
    let never = AtomicBool::new(false);
    let result = transfer(&whole, Some(&mut lines), &never, &mut |_| {})?;
    Ok(result.failed.is_none().then_some((pair, result.records)))
}

/// Transfers the zone until it is told to stop.
fn transfers(spec: &PairsSpec, stop: &AtomicBool) -> Result<Transferred, Error> {
    let mut seen = Transferred::default();
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(TRANSFER_PERIOD);
        match counters(spec)? {
            None => seen.broken += 1,
            Some((pair, got)) => {
                seen.compared += 1;
                if let Some(why) = fault(&pair, got, spec.records) {
                    seen.half += 1;
                    seen.first_half.get_or_insert(why);
                }
            }
        }
    }
    Ok(seen)
}

/// The fault in a zone that was transferred, if there is one.
fn fault(pair: &Pair, got: u64, records: Option<u64>) -> Option<String> {
    let [first, second] = pair;
    if first != second || first.len() > 1 {
        return Some(format!("{first:?} beside {second:?}"));
    }
    let expected = records? + 2 * first.len() as u64;
    (got != expected).then(|| format!("{got} records instead of {expected}"))
}

/// The counter in a line of a zone at the first or second name of [`PAIR`]; none: the line is of neither.
pub fn counter(line: &[u8]) -> Option<(usize, Option<u64>)> {
    let which = PAIR.iter().position(|label| {
        line.strip_prefix(label.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'.'))
    })?;
    let text = std::str::from_utf8(line).ok()?.trim_end();
    let value = text.rsplit_once('\t')?.1.trim_matches('"').parse().ok();
    Some((which, value))
}

/// Gives each line of a zone that comes in pieces.
pub struct Lines<F: FnMut(&[u8])> {
    rest: Vec<u8>,
    each: F,
}

impl<F: FnMut(&[u8])> Lines<F> {
    /// Calls `each` with each line, its end included.
    pub fn new(each: F) -> Self {
        Self { rest: Vec::new(), each }
    }
}

impl<F: FnMut(&[u8])> Write for Lines<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        self.rest[..whole].split_inclusive(|&b| b == b'\n').for_each(&mut self.each);
        self.rest.drain(..whole);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_a_transferred_zone_are_seen() {
        let fault_of = |first: &[u64], second: &[u64], got: u64| {
            let pair = [first, second].map(|all| all.iter().copied().map(Some).collect());
            fault(&pair, got, Some(10))
        };
        assert_eq!(fault_of(&[], &[], 10), None);
        assert_eq!(fault_of(&[7], &[7], 12), None);
        assert!(fault_of(&[7], &[8], 12).is_some());
        assert!(fault_of(&[7], &[], 11).is_some());
        assert!(fault_of(&[7, 8], &[7, 8], 14).is_some());
        assert_eq!(fault_of(&[7], &[7], 13).unwrap(), "13 records instead of 12");
        assert_eq!(fault(&[vec![Some(1)], vec![Some(1)]], 99, None), None);
    }
}
