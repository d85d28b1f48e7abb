//! From events to transfers.

use super::{Exchange, KEPT_MAX, Transfers, ZoneTransfer};
use crate::facts::Collect;
use crate::pair::Pairs;
use crate::read::{Event, Message, Reader};
use measure::Nanos;
use std::collections::HashMap;
use std::net::SocketAddr;
use wire::name::Name;
use wire::question::{self, Question};
use wire::record::Records;
use wire::rtype;
use wire::transfer::{Asked, Transfer, soa_serial};

const QUERY: u8 = 0;
const NOTIFY: u8 = 4;
/// Transfers that are under way at once; the oldest is given up where there are more.
const OPEN_MAX: usize = 4096;
/// Over UDP an answer is waited for that long.
const PATIENCE: Nanos = crate::pair::WINDOW;

/// The key of the messages of one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    connection: Option<u64>,
    client: SocketAddr,
    server: SocketAddr,
    id: u16,
}

/// A transfer under way.
struct Open {
    transfer: Transfer,
    zone: String,
    asked: Asked,
    start: Nanos,
    first: Option<Nanos>,
    end: Option<Nanos>,
    fault: Option<String>,
}

/// A question that waits for an answer.
#[derive(Clone, Copy)]
enum Waiting {
    Notify(usize),
    Refresh(usize),
}

/// Collects the transfers of a trace, or of a part of it.
#[derive(Default)]
pub struct Collector {
    found: Transfers,
    /// The connection of each transfer found.
    connections: Vec<Option<u64>>,
    open: HashMap<Key, Open>,
    pairs: Pairs<Waiting>,
    data: Vec<u8>,
}

fn zone(question: &Question<'_>) -> String {
    Name::from_wire(question.qname).map_or_else(|_| "?".into(), |name| name.to_string())
}

impl Collector {
    /// Takes the next event of the trace.
    pub fn add(&mut self, event: &Event<'_>) {
        match event {
            Event::Message(message) => match (message.header().qr(), message.header().opcode()) {
                (false, QUERY) => self.query(message),
                (false, NOTIFY) => self.notify(message),
                (true, QUERY) => self.answer(message),
                (true, NOTIFY) => self.answered(message),
                _ => {}
            },
            Event::Connection(connection) => {
                let cut = |key: &Key| key.connection == Some(connection.number);
                self.close(cut);
            }
            Event::Quote(_) => {}
        }
    }

    fn query(&mut self, message: &Message<'_>) {
        let Some(question) = question::parse(message.bytes) else { return };
        let asked = match question.qtype {
            rtype::AXFR => Asked::Axfr,
            rtype::IXFR => Asked::Ixfr(self.serial(message.bytes, 1)),
            rtype::SOA => {
                let at = self.exchange(message, &question, None, |found| &mut found.refreshes);
                return at.map_or((), |at| self.pairs.query(message, Waiting::Refresh(at)));
            }
            _ => return,
        };
        let key = Key {
            connection: message.tcp,
            client: message.from,
            server: message.to,
            id: message.header().id(),
        };
        // Asked again with the same id.
        self.close(|open| *open == key);
        self.begin(key, asked, &question, message.at);
    }

    fn begin(&mut self, key: Key, asked: Asked, question: &Question<'_>, start: Nanos) {
        if self.open.len() == OPEN_MAX {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.start).map(|(key, _)| *key);
            self.close(|open| Some(*open) == oldest);
        }
        let transfer = Transfer::new(asked, question.qname);
        let (first, end, fault) = (None, None, None);
        self.open.insert(key, Open { transfer, zone: zone(question), asked, start, first, end, fault });
    }

    fn answer(&mut self, message: &Message<'_>) {
        let key = Key {
            connection: message.tcp,
            client: message.to,
            server: message.from,
            id: message.header().id(),
        };
        let question = question::parse(message.bytes);
        let late = message.tcp.is_none()
            && self.open.get(&key).is_some_and(|open| message.at.saturating_sub(open.start) > PATIENCE);
        if late {
            self.close(|open| *open == key);
        }
        if !self.open.contains_key(&key) {
            let asked = match question.map(|question| question.qtype) {
                Some(rtype::AXFR) => Asked::Axfr,
                Some(rtype::IXFR) => Asked::Ixfr(None),
                Some(rtype::SOA) => return self.answered(message),
                _ => return,
            };
            if let Some(question) = question {
                self.begin(key, asked, &question, message.at);
            }
        }
        let Some(open) = self.open.get_mut(&key) else { return };
        let other = question.is_some_and(|q| !matches!(q.qtype, rtype::AXFR | rtype::IXFR));
        if other {
            return self.answered(message);
        }
        open.first.get_or_insert(message.at);
        open.end = Some(message.at);
        let done = if message.is_whole() {
            open.transfer.message(message.bytes, &mut |_, _| {}).map_err(|fault| fault.to_string())
        } else {
            Err("a message that the capture cut short".to_owned())
        };
        let over = done != Ok(false) || message.tcp.is_none();
        open.fault = done.err();
        if over {
            self.close(|open| *open == key);
        }
    }

    fn notify(&mut self, message: &Message<'_>) {
        let Some(question) = question::parse(message.bytes) else { return };
        let serial = self.serial(message.bytes, 0);
        if let Some(at) = self.exchange(message, &question, serial, |found| &mut found.notifies) {
            self.pairs.query(message, Waiting::Notify(at));
        }
    }

    /// Keeps a NOTIFY or a query for the SOA: its number.
    fn exchange(
        &mut self,
        message: &Message<'_>,
        question: &Question<'_>,
        serial: Option<u32>,
        list: fn(&mut Transfers) -> &mut Vec<Exchange>,
    ) -> Option<usize> {
        self.pairs.expire(message.at, |_| ());
        let at = list(&mut self.found).len();
        if at >= KEPT_MAX {
            self.found.not_kept += 1;
            return None;
        }
        list(&mut self.found).push(Exchange {
            at_ns: message.at,
            from: message.from,
            to: message.to,
            zone: zone(question),
            tcp: message.tcp.is_some(),
            serial,
            answered_after_ns: None,
            rcode: None,
        });
        Some(at)
    }

    /// The answer to a NOTIFY or to a query for the SOA.
    fn answered(&mut self, message: &Message<'_>) {
        let Some((waiting, after)) = self.pairs.answer(message) else { return };
        let serial = self.serial(message.bytes, 0);
        let exchange = match waiting {
            Waiting::Notify(at) => &mut self.found.notifies[at],
            Waiting::Refresh(at) => {
                self.found.refreshes[at].serial = serial;
                &mut self.found.refreshes[at]
            }
        };
        exchange.answered_after_ns = Some(after);
        exchange.rcode = Some(message.header().rcode());
    }

    /// The serial of the first SOA in a section of a message.
    fn serial(&mut self, bytes: &[u8], section: usize) -> Option<u32> {
        let mut records = Records::of(bytes, section).ok()?.map_while(Result::ok);
        let record = records.find(|record| record.rtype == rtype::SOA)?;
        record.data(&mut self.data).ok()?;
        soa_serial(&self.data)
    }

    /// Ends the transfers of some keys.
    fn close(&mut self, which: impl Fn(&Key) -> bool) {
        let mut over: Vec<_> = self.open.extract_if(|key, _| which(key)).collect();
        over.sort_by_key(|(key, open)| (open.start, key.id));
        for (key, open) in over {
            if self.found.transfers.len() >= KEPT_MAX {
                self.found.not_kept += 1;
                continue;
            }
            let transfer = &open.transfer;
            let counts = transfer.counts();
            // Where the question was not captured, one SOA may be all there was to come.
            let one_soa = open.asked == Asked::Ixfr(None) && transfer.has_one_soa();
            let kind = transfer.kind().or(one_soa.then_some(wire::transfer::Kind::UpToDate));
            self.connections.push(key.connection);
            self.found.transfers.push(ZoneTransfer {
                client: key.client,
                server: key.server,
                zone: open.zone,
                tcp: key.connection.is_some(),
                asked: open.asked,
                kind,
                complete: (transfer.is_done() || one_soa) && open.fault.is_none(),
                fault: open.fault,
                serial_from: transfer.from(),
                serial_to: transfer.to(),
                start_ns: open.start,
                first_ns: open.first,
                end_ns: open.end,
                messages: counts.messages,
                dns_bytes: counts.octets,
                tcp_bytes: if key.connection.is_some() { counts.tcp_octets() } else { counts.octets },
                records: counts.records,
                deltas: counts.deltas,
                deletions: counts.deleted,
                additions: counts.added,
                packets: None,
                ip_bytes: None,
                on_connection: 1,
            });
        }
    }
}

impl Collect for Collector {
    type Facts = Transfers;

    fn add(&mut self, event: &Event<'_>) {
        Self::add(self, event);
    }

    fn finish(self, reader: &Reader) -> Transfers {
        Self::finish(self, reader)
    }

    fn merge(whole: &mut Transfers, part: Transfers) {
        whole.merge(part);
    }
}

impl Collector {
    /// The transfers, once the reader has come to its end.
    pub fn finish(mut self, reader: &Reader) -> Transfers {
        self.close(|_| true);
        let mut shared: HashMap<u64, u64> = HashMap::new();
        self.connections.iter().flatten().for_each(|number| *shared.entry(*number).or_default() += 1);
        for (transfer, number) in self.found.transfers.iter_mut().zip(&self.connections) {
            let Some(number) = number else { continue };
            let traffic = reader.traffic(*number);
            transfer.packets = traffic.map(|traffic| traffic.packets);
            transfer.ip_bytes = traffic.map(|traffic| traffic.ip_octets);
            transfer.on_connection = shared[number];
        }
        self.found.holes = reader.skipped().count("TCP holes");
        self.found.sort();
        self.found
    }
}
