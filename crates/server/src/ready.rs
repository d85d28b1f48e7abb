//! Ready means: over the network, the right serial and the right answer from the end of the zone.

use crate::error::Problem;
use domain::base::iana::Rtype;
use domain::base::message::RecordSection;
use domain::base::rdata::ComposeRecordData;
use domain::base::wire::ParseError;
use domain::base::{Message, ToName};
use domain::rdata::AllRecordData;
use rack::Host;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use wire::header::Header;
use wire::name::Name;
use wire::query::Edns;
use wire::rtype;
use zone::Probe;

/// The result of one question.
#[derive(Debug)]
pub(crate) enum Seen {
    /// The answer is that of the zone.
    Right,
    /// Not known yet: no answer, or one of a server that has not loaded the zone.
    NotYet(String),
    /// An answer from another zone than the probe's.
    Wrong(Problem),
}

/// The longest answer over UDP that we ask for, in octets.
const UDP_SIZE: u16 = 1232;

/// Asks one server single questions, from inside a host.
pub(crate) struct Client<'a> {
    host: &'a Host,
    target: SocketAddr,
    socket: UdpSocket,
    buffer: Vec<u8>,
    query: Vec<u8>,
}

impl<'a> Client<'a> {
    pub(crate) fn new(host: &'a Host, target: SocketAddr) -> Result<Self, rack::Error> {
        let any: IpAddr =
            if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = host.udp_socket(SocketAddr::new(any, 0))?;
        Ok(Self { host, target, socket, buffer: vec![0; 65535], query: Vec::new() })
    }

    /// Asks over UDP, over TCP where the answer is truncated, and waits at most `wait` (TCP: 5 s). Answers to earlier
    /// questions with this id count: a server that starts may answer the first when we have sent the tenth.
    pub(crate) fn ask(
        &mut self,
        id: u16,
        name: &Name,
        rtype: u16,
        wait: Duration,
    ) -> Result<Vec<u8>, String> {
        let edns = Edns { udp_size: UDP_SIZE, do_bit: false };
        wire::query::write(&mut self.query, id, name.as_wire(), rtype, Some(edns));
        let answer = self.udp(wait).map_err(|e| match e.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("no answer from {}", self.target),
            ErrorKind::ConnectionRefused => format!("nothing listens on UDP port {}", self.target),
            _ => format!("cannot ask {}: {e}", self.target),
        })?;
        if Header::new(&answer).is_some_and(Header::tc) {
            return self.tcp().map_err(|e| format!("truncated over UDP, and over TCP {}: {e}", self.target));
        }
        Ok(answer)
    }

    fn udp(&mut self, wait: Duration) -> io::Result<Vec<u8>> {
        let until = Instant::now() + wait;
        self.socket.connect(self.target)?;
        self.socket.send(&self.query)?;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.socket.set_read_timeout(Some(left))?;
            let len = self.socket.recv(&mut self.buffer)?;
            if belongs(&self.query, &self.buffer[..len]) {
                return Ok(self.buffer[..len].to_vec());
            }
        }
    }

    fn tcp(&self) -> io::Result<Vec<u8>> {
        const WAIT: Duration = Duration::from_secs(5);
        let connect = || TcpStream::connect_timeout(&self.target, WAIT);
        let mut stream = self.host.run_in(connect).map_err(io::Error::other)??;
        stream.set_read_timeout(Some(WAIT))?;
        let len = u16::try_from(self.query.len()).map_err(io::Error::other)?;
        stream.write_all(&[&len.to_be_bytes()[..], &self.query].concat())?;
        let mut len = [0; 2];
        stream.read_exact(&mut len)?;
        let mut answer = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut answer)?;
        if belongs(&self.query, &answer) {
            Ok(answer)
        } else {
            Err(io::Error::other("it answers another question"))
        }
    }
}

/// The serial of the zone that a server serves; else why there is none. Waits at most `wait`.
pub(crate) fn serial(client: &mut Client<'_>, origin: &Name, wait: Duration) -> Result<u32, String> {
    let answer = client.ask(0x5d60, origin, rtype::SOA, wait)?;
    let at = client.target;
    if let Some(why) = not_loaded(&answer) {
        return Err(format!("{at} answers {why} for the zone's SOA"));
    }
    let soa = rrset(&answer, Section::Answer, origin, rtype::SOA);
    let soa = soa.map_err(|e| format!("{at}: the answer cannot be parsed: {e}"))?;
    let serial = soa.first().and_then(|soa| wire::transfer::soa_serial(soa));
    serial.ok_or_else(|| format!("{at} answers without the zone's SOA"))
}

/// Asks one server until it answers as the probe says.
pub(crate) struct Asker<'a> {
    client: Client<'a>,
    target: SocketAddr,
    probe: &'a Probe,
    serial_seen: bool,
}

impl<'a> Asker<'a> {
    pub(crate) fn new(host: &'a Host, target: SocketAddr, probe: &'a Probe) -> Result<Self, rack::Error> {
        Ok(Self { client: Client::new(host, target)?, target, probe, serial_seen: false })
    }

    /// Asks for the serial until that is right, then for the probe's RRset, waiting at most `wait` for each answer.
    pub(crate) fn ask(&mut self, wait: Duration) -> Seen {
        // The ids tell the two questions apart also where they are the same question.
        if !self.serial_seen {
            match self.client.ask(0x5d5d, &self.probe.origin, rtype::SOA, wait) {
                Ok(answer) => match self.check_serial(&answer) {
                    Seen::Right => self.serial_seen = true,
                    other => return other,
                },
                Err(why) => return Seen::NotYet(why),
            }
        }
        match self.client.ask(0x5d5e, &self.probe.name, self.probe.rtype, wait) {
            Ok(answer) => self.check_answer(&answer),
            Err(why) => Seen::NotYet(why),
        }
    }

    fn check_serial(&self, answer: &[u8]) -> Seen {
        if let Some(why) = not_loaded(answer) {
            return Seen::NotYet(format!("{} answers {why} for the zone's SOA", self.target));
        }
        let soa = match rrset(answer, Section::Answer, &self.probe.origin, rtype::SOA) {
            Ok(soa) => soa,
            Err(e) => return self.wrong(format!("the answer cannot be parsed: {e}")),
        };
        // An SOA ends in five numbers of four bytes, the serial first (RFC 1035, section 3.3.13).
        let serial = soa.first().and_then(|soa| soa.len().checked_sub(20).and_then(|at| soa.get(at..at + 4)));
        match serial {
            Some(serial) if serial == self.probe.serial.to_be_bytes() => Seen::Right,
            Some(serial) => Seen::Wrong(Problem::WrongSerial {
                address: self.target,
                origin: self.probe.origin.to_string(),
                expected: self.probe.serial,
                got: serial.iter().fold(0, |n, &byte| n << 8 | u32::from(byte)),
            }),
            None => Seen::NotYet(format!("{} answers without the zone's SOA", self.target)),
        }
    }

    fn check_answer(&self, answer: &[u8]) -> Seen {
        let probe = self.probe;
        let rcode = Header::new(answer).map_or(0, Header::rcode);
        if matches!(rcode, SERVFAIL | REFUSED) {
            return Seen::NotYet(format!("{} answers {}", self.target, wire::rcode::to_text(rcode)));
        }
        if rcode != 0 {
            return self.wrong(format!(
                "{} instead of {} records",
                wire::rcode::to_text(rcode),
                probe.rdata.len()
            ));
        }
        let section = if probe.delegation { Section::Authority } else { Section::Answer };
        match rrset(answer, section, &probe.name, probe.rtype) {
            Err(e) => self.wrong(format!("the answer cannot be parsed: {e}")),
            Ok(got) if same(&got, &probe.rdata, probe.rtype) => Seen::Right,
            Ok(got) => {
                let (got, want) = (got.len(), probe.rdata.len());
                let others = if got == want { "other record data" } else { "not the zone's records" };
                self.wrong(format!("{others}: {got} records in the {section} section, the zone has {want}"))
            }
        }
    }

    fn wrong(&self, why: String) -> Seen {
        let question = if self.serial_seen {
            format!("{} {}", self.probe.name, rtype::to_text(self.probe.rtype))
        } else {
            format!("{} SOA", self.probe.origin)
        };
        Seen::Wrong(Problem::WrongAnswer { address: self.target, question, why })
    }
}

const SERVFAIL: u8 = 2;
const REFUSED: u8 = 5;

/// Why an answer is not of a server that has loaded the zone asked for.
fn not_loaded(answer: &[u8]) -> Option<String> {
    let header = Header::new(answer)?;
    if header.rcode() != 0 {
        return Some(wire::rcode::to_text(header.rcode()).into());
    }
    (!header.aa()).then(|| "without authority (AA clear)".into())
}

/// Whether `answer` is an answer to `query`: id, QR, opcode and the question's very bytes.
fn belongs(query: &[u8], answer: &[u8]) -> bool {
    let (Some(asked), Some(header)) = (Header::new(query), Header::new(answer)) else { return false };
    let end = wire::question::end(query);
    header.qr()
        && header.id() == asked.id()
        && header.opcode() == asked.opcode()
        && end == wire::question::end(answer)
        && end.is_some_and(|end| query[12..end] == answer[12..end])
}

#[derive(Clone, Copy, Debug)]
enum Section {
    Answer,
    Authority,
}

impl std::fmt::Display for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Section::Answer => "answer",
            Section::Authority => "authority",
        })
    }
}

/// The record data, uncompressed, of one RRset in one section of a message.
fn rrset(message: &[u8], section: Section, owner: &Name, rtype: u16) -> Result<Vec<Vec<u8>>, ParseError> {
    let message = Message::from_octets(message).map_err(|_| ParseError::ShortInput)?;
    let records: RecordSection<'_, &[u8]> = match section {
        Section::Answer => message.answer()?,
        Section::Authority => message.authority()?,
    };
    let mut found = Vec::new();
    for record in records {
        let record = record?;
        let name: domain::base::Name<Vec<u8>> = record.owner().to_name();
        if record.rtype().to_int() != rtype || !wire::name::equal(name.as_slice(), owner.as_wire()) {
            continue;
        }
        let data = record.to_any_record::<AllRecordData<_, _>>()?;
        let mut rdata = Vec::new();
        data.data().compose_rdata(&mut rdata).map_err(|_| ParseError::ShortInput)?;
        found.push(rdata);
    }
    Ok(found)
}

/// Whether two RRsets are equal, in any order. Where the data is little but names, their case is ignored: Knot
/// stores names in lower case, and compression may lend a name the case of another.
fn same(got: &[Vec<u8>], want: &[Vec<u8>], rtype: u16) -> bool {
    let names = matches!(
        Rtype::from_int(rtype),
        Rtype::NS | Rtype::CNAME | Rtype::SOA | Rtype::PTR | Rtype::MX | Rtype::DNAME | Rtype::SRV
    );
    let sorted = |set: &[Vec<u8>]| {
        let mut set: Vec<Vec<u8>> =
            set.iter().map(|data| if names { data.to_ascii_lowercase() } else { data.clone() }).collect();
        set.sort_unstable();
        set.dedup(); // servers drop what a zone file says twice
        set
    };
    sorted(got) == sorted(want)
}

/// Fuzz entry point: takes any bytes as an answer to a fixed probe; must not panic.
pub fn fuzz_answer(bytes: &[u8]) {
    for section in [Section::Answer, Section::Authority] {
        for rtype in [rtype::NS, rtype::SOA, rtype::TXT] {
            let com = Name::parse_text("com.", None).unwrap_or_else(|_| Name::root());
            let _ = rrset(bytes, section, &com, rtype);
        }
    }
    let _ = (not_loaded(bytes), belongs(bytes, bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::message_builder::StaticCompressor;
    use domain::base::{MessageBuilder, Name as DomainName, Ttl};
    use domain::rdata::{Ns, Txt};
    use std::str::FromStr;

    fn name(text: &str) -> DomainName<Vec<u8>> {
        DomainName::from_str(text).unwrap()
    }

    /// A referral to COM with compressed names, made by the `domain` crate.
    fn referral() -> Vec<u8> {
        let mut message = MessageBuilder::from_target(StaticCompressor::new(Vec::new())).unwrap().question();
        message.header_mut().set_id(7);
        message.header_mut().set_qr(true);
        message.push((name("www.com."), Rtype::A)).unwrap();
        let mut message = message.authority();
        let ttl = Ttl::from_secs(1);
        for server in ["ns1.com.", "NS2.com."] {
            message.push((name("com."), ttl, Ns::new(name(server)))).unwrap();
        }
        message.push((name("org."), ttl, Ns::new(name("ns1.com.")))).unwrap();
        message.push((name("com."), ttl, Txt::<Vec<u8>>::build_from_slice(b"x").unwrap())).unwrap();
        message.finish().into_target()
    }

    fn wire_name(text: &str) -> Vec<u8> {
        Name::parse_text(text, None).unwrap().as_wire().to_vec()
    }

    #[test]
    fn an_rrset_comes_uncompressed_and_alone() {
        let com = Name::parse_text("COM.", None).unwrap();
        let message = referral();
        // 114 octets without compression.
        assert!(message.len() < 100, "not compressed: {}", message.len());
        let set = rrset(&message, Section::Authority, &com, rtype::NS).unwrap();
        assert_eq!(set, [wire_name("ns1.com."), wire_name("NS2.com.")]);
        assert!(rrset(&message, Section::Answer, &com, rtype::NS).unwrap().is_empty());
        assert!(same(&set, &[wire_name("ns2.com."), wire_name("ns1.COM.")], rtype::NS));
        assert!(!same(&set, &[wire_name("ns1.com.")], rtype::NS));
        let twice = [wire_name("ns1.com."), wire_name("ns2.com."), wire_name("ns2.com.")];
        assert!(same(&set, &twice, rtype::NS));
        // Case is data in text.
        assert!(!same(&[b"\x01x".to_vec()], &[b"\x01X".to_vec()], rtype::TXT));
    }

    #[test]
    fn an_answer_belongs_to_its_question_only() {
        let mut query = Vec::new();
        wire::query::write(&mut query, 7, &wire_name("www.com."), rtype::A, None);
        let answer = referral();
        assert!(belongs(&query, &answer));
        assert!(!belongs(&query, &query), "not an answer");
        assert!(!belongs(&query, &answer[..14]));
        for (id, qname, qtype) in
            [(8, "www.com.", rtype::A), (7, "www.org.", rtype::A), (7, "www.com.", rtype::NS)]
        {
            wire::query::write(&mut query, id, &wire_name(qname), qtype, None);
            assert!(!belongs(&query, &answer), "{id} {qname} {qtype}");
        }
    }

    #[test]
    fn garbage_does_not_panic() {
        let message = referral();
        let mut draw = 1_u64;
        for _ in 0..50_000 {
            let mut bytes = message.clone();
            for _ in 0..4 {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (draw >> 40) as usize % bytes.len();
                bytes[at] = (draw >> 32) as u8;
            }
            bytes.truncate((draw >> 33) as usize % (2 * message.len()));
            fuzz_answer(&bytes);
        }
    }
}
