//! Queries of a trace with their times, for a load to send again.

use crate::read::{ChecksumState, Counts, Error, Options, Reader, Skipped};
use measure::Nanos;
use measure::clock::SECOND;
use measure::seed::mix;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use traffic::{Query, QuerySource};
use wire::{Checksum, header};

/// Octets of queries, with 16 for each, that are read before a replay begins: what is decompressed and parsed while
/// queries are due makes them late. The rest of a longer trace is read on the way.
pub const LOADED_MAX: usize = 256 << 20;

/// Which queries of which captures are replayed: queries (QR clear, any opcode) to a server's port, whole as captured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplaySpec {
    /// The captures, read as one in the order of their packets' times; regular files, as they are read more than once.
    pub paths: Vec<PathBuf>,
    /// Only queries to these ports; none: port 53.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// Only queries to these addresses; none: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<IpAddr>,
}

/// Counts of the queries that a replay will send, and of those that it leaves out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Survey {
    /// Queries to send.
    pub queries: u64,
    /// Of them, over TCP.
    pub tcp: u64,
    /// Of them, over IPv6.
    pub ipv6: u64,
    /// When the first was captured, in nanoseconds since 1970.
    pub first: Nanos,
    /// From the first to the last, in nanoseconds.
    pub duration: Nanos,
    /// The most in one second, counted from the first.
    pub second_max: u64,
    /// Queries captured before their predecessor: they are sent together with it.
    pub disordered: u64,
    /// Queries that were not captured in full, and are left out.
    pub cut_short: u64,
    /// Queries that went elsewhere, and are left out.
    pub elsewhere: u64,
    /// Responses, left out.
    pub responses: u64,
    /// All that the captures hold.
    pub counts: Counts,
    /// Packets that were not read as messages, by reason.
    pub skipped: Skipped,
}

impl Survey {
    /// Queries per second on average; of a single query, 0.
    pub fn rate(&self) -> f64 {
        match self.duration {
            0 => 0.0,
            duration => (self.queries - 1) as f64 * SECOND as f64 / duration as f64,
        }
    }

    /// How long it takes, so many times as fast as captured: to just after the last query, so that rates are of that time.
    pub fn length(&self, speed: f64) -> Nanos {
        (self.duration as f64 / speed) as Nanos + 1
    }

    /// Queries on a TCP connection, on average: so connections end as those of the capture did. 0 where none went over TCP.
    pub fn queries_per_connection(&self) -> u32 {
        if self.tcp == 0 {
            return 0;
        }
        let connections = self.counts.connections_with_dns.max(1);
        (self.tcp as f64 / connections as f64).round().max(1.0) as u32
    }
}

/// A query to be sent.
#[derive(Clone, Copy)]
struct Item<'a> {
    at: Nanos,
    client: u32,
    ipv6: bool,
    tcp: bool,
    df: bool,
    checksum: bool,
    bytes: &'a [u8],
}

/// Gives the queries in order, and the survey at the end.
struct Walk {
    reader: Reader,
    ports: Vec<u16>,
    to: Vec<IpAddr>,
    survey: Survey,
    /// The second that is counted, and its queries.
    second: (u64, u64),
    bytes: Vec<u8>,
}

/// Queries in memory: each with 16 octets before it.
#[derive(Default)]
struct Loaded(Vec<u8>);

/// The octets before a query in memory.
const HEAD: usize = 16;

impl Loaded {
    fn push(&mut self, item: &Item<'_>) {
        let bits = [item.ipv6, item.tcp, item.df, item.checksum];
        let bits = bits.iter().fold(0u16, |sum, &bit| sum << 1 | u16::from(bit));
        self.0.extend_from_slice(&item.at.to_le_bytes());
        self.0.extend_from_slice(&item.client.to_le_bytes());
        self.0.extend_from_slice(&(item.bytes.len() as u16).to_le_bytes());
        self.0.extend_from_slice(&bits.to_le_bytes());
        self.0.extend_from_slice(item.bytes);
    }

    /// The query at an offset, and the offset of the next.
    fn get(&self, at: usize) -> Option<(Item<'_>, usize)> {
        let (head, rest) = self.0.get(at..)?.split_at_checked(HEAD)?;
        let u16_at = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let (length, bits) = (usize::from(u16_at(12)), u16_at(14));
        let [ipv6, tcp, df, checksum] = [8, 4, 2, 1].map(|bit| bits & bit != 0);
        let item = Item {
            at: u64::from_le_bytes(head[..8].try_into().expect("eight octets")),
            client: u32::from_le_bytes(head[8..12].try_into().expect("four octets")),
            ipv6,
            tcp,
            df,
            checksum,
            bytes: &rest[..length],
        };
        Some((item, at + HEAD + length))
    }
}

impl ReplaySpec {
    /// All queries to port 53 of some captures.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, ports: Vec::new(), to: Vec::new() }
    }

    fn walk(&self) -> Result<Walk, Error> {
        for path in &self.paths {
            let what = path.metadata().map_err(|source| Error::Io { path: path.clone(), source })?;
            if !what.is_file() {
                let why = "not a regular file: a capture is read before and while it is replayed; write it to a file first";
                return Err(Error::Io { path: path.clone(), source: io::Error::other(why) });
            }
        }
        let mut options = Options::default();
        if !self.ports.is_empty() {
            options.ports.clone_from(&self.ports);
        }
        let reader = Reader::open(&self.paths, &options)?;
        Ok(Walk {
            reader,
            ports: options.ports,
            to: self.to.clone(),
            survey: Survey::default(),
            second: (0, 0),
            bytes: Vec::new(),
        })
    }

    /// Reads everything once, so that nothing is wrong with it later.
    ///
    /// # Errors
    /// A capture that cannot be read; captures without a query to replay.
    pub fn check(&self) -> Result<Survey, traffic::Error> {
        let mut walk = self.walk().map_err(refuse)?;
        while walk.next().map_err(refuse)?.is_some() {}
        if walk.survey.queries == 0 {
            let Survey { responses, elsewhere, cut_short, .. } = walk.survey;
            let what = format!(
                "no query to replay: there are {responses} responses, {elsewhere} queries to other ports or addresses, and \
                 {cut_short} queries that were not captured in full"
            );
            let path = self.paths.first().cloned().unwrap_or_default();
            return Err(traffic::Error::Io { path, source: io::Error::other(what) });
        }
        Ok(walk.survey)
    }

    /// The sources of all workers, in order. What fits into [`LOADED_MAX`] octets is read here, once for all.
    ///
    /// # Errors
    /// A capture that cannot be read.
    pub fn open_all(&self, workers: u32) -> Result<Vec<Replay>, traffic::Error> {
        self.open_within(workers, LOADED_MAX).map_err(refuse)
    }

    fn open_within(&self, workers: u32, most: usize) -> Result<Vec<Replay>, Error> {
        let mut loaded = Loaded::default();
        let mut walk = self.walk()?;
        while let Some(item) = walk.next()? {
            if loaded.0.len() + HEAD + item.bytes.len() > most {
                // Too long: every worker reads the captures itself.
                drop(loaded);
                let share = |worker| Ok(Replay::new(From::Captures(Box::new(self.walk()?)), worker, workers));
                return (0..workers).map(share).collect();
            }
            loaded.push(&item);
        }
        let loaded = Arc::new(loaded);
        Ok((0..workers).map(|w| Replay::new(From::Memory(loaded.clone(), 0), w, workers)).collect())
    }

    /// The source of worker `worker` of `workers`; to open several, use [`Self::open_all`].
    ///
    /// # Errors
    /// As [`Self::open_all`].
    ///
    /// # Panics
    /// Where there is no such worker.
    pub fn open(&self, worker: u32, workers: u32) -> Result<Replay, traffic::Error> {
        Ok(self.open_all(workers)?.swap_remove(worker as usize))
    }
}

/// The error as this room's neighbours know it.
fn refuse(error: Error) -> traffic::Error {
    let path = error.path().to_owned();
    match error {
        Error::Io { path, source } => traffic::Error::Io { path, source },
        Error::NotACapture { what, .. } => traffic::Error::Io {
            path,
            source: io::Error::other(format!("not a capture that can be read: {what}")),
        },
        Error::Damaged { offset, what, .. } => {
            let what = format!("damaged at octet {offset} (decompressed): {what}");
            traffic::Error::Io { path, source: io::Error::other(what) }
        }
    }
}

impl Walk {
    /// The next query to replay.
    fn next(&mut self) -> Result<Option<Item<'_>>, Error> {
        let survey = &mut self.survey;
        let (captured, from, tcp, df, checksum) = loop {
            let Some(message) = self.reader.next()? else {
                survey.counts = *self.reader.counts();
                survey.skipped = self.reader.skipped().clone();
                return Ok(None);
            };
            if message.header().qr() {
                survey.responses += 1;
            } else if !self.ports.contains(&message.to.port())
                || !(self.to.is_empty() || self.to.contains(&message.to.ip()))
            {
                survey.elsewhere += 1;
            } else if !message.is_whole() {
                survey.cut_short += 1;
            } else {
                self.bytes.clear();
                self.bytes.extend_from_slice(message.bytes);
                break (
                    message.at,
                    message.from,
                    message.tcp.is_some(),
                    message.df,
                    message.checksum != ChecksumState::Absent,
                );
            }
        };
        if survey.queries == 0 {
            survey.first = captured;
        }
        let at = captured.saturating_sub(survey.first);
        survey.disordered += u64::from(at < survey.duration || captured < survey.first);
        let at = at.max(survey.duration);
        survey.duration = at;
        survey.queries += 1;
        survey.tcp += u64::from(tcp);
        survey.ipv6 += u64::from(from.is_ipv6());
        if at / SECOND != self.second.0 {
            self.second = (at / SECOND, 0);
        }
        self.second.1 += 1;
        survey.second_max = survey.second_max.max(self.second.1);
        header::set_id(&mut self.bytes, 0);
        let (client, ipv6) = (client(from), from.is_ipv6());
        Ok(Some(Item { at, client, ipv6, tcp, df, checksum, bytes: &self.bytes }))
    }
}

/// A client's number: a hash of its address and port, the same on every machine. Not cryptographic.
fn client(from: SocketAddr) -> u32 {
    let (high, low) = match from.ip() {
        IpAddr::V4(address) => (0, u64::from(address.to_bits())),
        IpAddr::V6(address) => ((address.to_bits() >> 64) as u64, address.to_bits() as u64),
    };
    let step = 0x9e37_79b9_7f4a_7c15u64;
    (mix(mix(mix(high.wrapping_add(step)) ^ low).wrapping_add(u64::from(from.port())).wrapping_add(step))
        >> 32) as u32
}

enum From {
    Memory(Arc<Loaded>, usize),
    Captures(Box<Walk>),
}

/// The queries of a trace that one worker sends: all those of its clients, in order, with their times after the
/// trace's first query.
pub struct Replay {
    from: From,
    index: u64,
    worker: u64,
    workers: u64,
}

impl Replay {
    fn new(from: From, worker: u32, workers: u32) -> Self {
        Self { from, index: 0, worker: worker.into(), workers: workers.max(1).into() }
    }
}

impl QuerySource for Replay {
    fn next(&mut self, query: &mut Query) -> Result<bool, traffic::Error> {
        loop {
            let item = match &mut self.from {
                From::Memory(loaded, at) => loaded.get(*at).map(|(item, next)| {
                    *at = next;
                    item
                }),
                From::Captures(walk) => walk.next().map_err(refuse)?,
            };
            let Some(item) = item else { return Ok(false) };
            let index = self.index;
            self.index += 1;
            // By the upper bits: whoever takes a client modulo something finds all remainders.
            if (u64::from(item.client) * self.workers) >> 32 != self.worker {
                continue;
            }
            query.bytes.clear();
            query.bytes.extend_from_slice(item.bytes);
            query.index = index;
            query.df = item.df;
            query.checksum = if item.checksum { Checksum::Right } else { Checksum::Absent };
            query.nonexistent = false;
            query.at = Some(item.at);
            query.client = Some(item.client);
            query.ipv6 = Some(item.ipv6);
            query.tcp = item.tcp;
            query.background = false;
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::{Route, Writer};

    #[test]
    fn a_long_trace_is_read_on_the_way_to_the_same_effect() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long.pcap");
        let mut writer = Writer::new(std::fs::File::create(&path).unwrap()).unwrap();
        for n in 0..2000u16 {
            let mut query = Query { df: n % 2 == 0, ..Query::default() };
            wire::query::write(&mut query.bytes, 0, b"\x03com\0", n, None);
            let from = SocketAddr::new([10, 0, (n >> 8) as u8, n as u8].into(), n);
            let route = Route { from, to: "192.0.2.53:53".parse().unwrap(), id: n };
            writer.write(SECOND + 1000 * Nanos::from(n), route, &query).unwrap();
        }
        drop(writer);
        let spec = ReplaySpec::new(vec![path]);
        let all = |replays: Vec<Replay>| -> Vec<Vec<Query>> {
            let all = |mut replay: Replay| {
                let mut query = Query::default();
                std::iter::from_fn(|| replay.next(&mut query).unwrap().then(|| query.clone())).collect()
            };
            replays.into_iter().map(all).collect()
        };
        let memory = spec.open_within(3, LOADED_MAX).unwrap();
        let way = spec.open_within(3, 1000).unwrap();
        assert!(memory.iter().all(|r| matches!(r.from, From::Memory(..))));
        assert!(way.iter().all(|r| matches!(r.from, From::Captures(_))));
        let (memory, way) = (all(memory), all(way));
        assert!(memory == way && memory.iter().map(Vec::len).sum::<usize>() == 2000);
    }

    #[test]
    fn clients_never_change() {
        let numbers =
            ["192.0.2.1:53", "192.0.2.1:54", "192.0.2.2:53", "[2001:db8::1]:53", "[2001:db8::1:0:0:0:1]:53"];
        assert_eq!(numbers.map(|c| client(c.parse().unwrap())), GOLDEN);
    }

    const GOLDEN: [u32; 5] = [2_723_329_949, 3_920_014_572, 2_962_299_216, 1_901_073_890, 2_762_220_816];
}
