//! What every test needs: zone files, free ports, servers, questions.

use domain::base::iana::{Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name};
use rack::{Host, Local};
use server::{Kind, Server, ServerSpec, ZoneRef};
use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// Long enough for the slowest start on a busy machine; no test waits for it where all is well.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a test for a kind of server, or says that it cannot.
pub fn with(kind: Kind, test: fn(&Lab, Kind)) {
    match server::installed(kind) {
        Some(_) => test(&Lab::new(), kind),
        None => eprintln!("SKIPPED: {kind} is not installed (apt-get install {})", server::package(kind)),
    }
}

/// A folder for the zones and servers of one test, and the host they run on.
pub struct Lab {
    pub dir: tempfile::TempDir,
    pub host: Host,
}

impl Lab {
    pub fn new() -> Self {
        Lab { dir: tempfile::tempdir().unwrap(), host: Host::loopback() }
    }

    /// A root-like zone: 50 delegations of two servers with glue, every second with a DS, and a TXT RRset of about
    /// 2,000 octets at `big.`
    pub fn zone(&self, serial: u32) -> PathBuf {
        self.zone_of(&format!("root-{serial}.zone"), serial, 50)
    }

    pub fn zone_of(&self, file: &str, serial: u32, delegations: u32) -> PathBuf {
        let mut text = format!(
            ". 86400 IN SOA a.root-servers.test. hostmaster.root-servers.test. {serial} 1800 900 604800 86400\n\
             . 518400 IN NS a.root-servers.test.\na.root-servers.test. 518400 IN A 192.0.2.53\n"
        );
        for n in 0..10 {
            writeln!(text, "big. 3600 IN TXT \"{n}{}\"", "x".repeat(190)).unwrap();
        }
        for n in 0..delegations {
            writeln!(text, "tld{n:03}. 172800 IN NS ns1.tld{n:03}.\ntld{n:03}. 172800 IN NS ns2.tld{n:03}.")
                .unwrap();
            if n % 2 == 0 {
                writeln!(text, "tld{n:03}. 86400 IN DS 12345 13 2 {}", "ab".repeat(32)).unwrap();
            }
            writeln!(text, "ns1.tld{n:03}. 172800 IN A 192.0.2.{n}").unwrap();
            writeln!(text, "ns2.tld{n:03}. 172800 IN AAAA 2001:db8::{n:x}").unwrap();
        }
        let path = self.dir.path().join(file);
        // Aside and renamed, as a zone is replaced under a running server.
        let aside = path.with_extension("new");
        std::fs::write(&aside, text).unwrap();
        std::fs::rename(&aside, &path).unwrap();
        path
    }

    /// The zone signed by dnssec-signzone with two P-256 keys; `None`, said loudly, where it is not installed.
    pub fn signed_zone(&self, options: &[&str]) -> Option<PathBuf> {
        let (plain, signed) = (self.zone(1), self.dir.path().join("root.signed"));
        let run = |program: &str, args: &[&str]| {
            let output = Command::new(program).args(args).current_dir(&self.dir).output();
            match output {
                Err(e) => {
                    eprintln!("SKIPPED: {program} cannot be run ({e}); apt-get install bind9-utils");
                    None
                }
                Ok(output) if output.status.success() => Some(()),
                Ok(output) => panic!("{program}: {}", String::from_utf8_lossy(&output.stderr)),
            }
        };
        run("dnssec-keygen", &["-q", "-a", "ECDSAP256SHA256", "-f", "KSK", "."])?;
        run("dnssec-keygen", &["-q", "-a", "ECDSAP256SHA256", "."])?;
        let files =
            ["-S", "-x", "-o", ".", "-K", ".", "-O", "full", "-f", "root.signed", plain.to_str().unwrap()];
        run("dnssec-signzone", &[options, &files].concat())?;
        Some(signed)
    }

    /// A server of this kind for this zone file on a free port of its own, on both loopback addresses.
    pub fn spec(&self, kind: Kind, zone: &Path) -> ServerSpec {
        let signed = zone.extension().is_some_and(|extension| extension == "signed");
        let zone = ZoneRef { origin: ".".into(), file: zone.into(), signed };
        ServerSpec { port: free_port(), ..ServerSpec::new(kind, zone) }
    }

    /// Starts it in a folder named after its label.
    pub fn start(&self, spec: &ServerSpec) -> Result<Server, server::Error> {
        server::start(Local, &self.host, spec, &self.folder(spec))
    }

    pub fn folder(&self, spec: &ServerSpec) -> PathBuf {
        self.dir.path().join(&spec.label)
    }

    /// Starts it and waits until it is ready.
    pub fn serve(&self, spec: &ServerSpec) -> Server {
        let mut server = self.start(spec).unwrap_or_else(|e| panic!("{e}"));
        let probe = zone::probe(&spec.zone.file).unwrap();
        server.ready(&probe, TIMEOUT).unwrap_or_else(|e| panic!("{e}"));
        server
    }
}

/// A UDP and TCP port that nobody uses on either loopback address; below the range of which the kernel gives ports
/// to clients, and each once, as tests run side by side.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 10_000 + (std::process::id() % 20_000) as u16;
    loop {
        let port = start + NEXT.fetch_add(1, Ordering::Relaxed) % 2_000;
        let free = ["127.0.0.1", "::1"].iter().all(|ip| {
            let address = SocketAddr::new(ip.parse().unwrap(), port);
            UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok()
        });
        if free {
            return port;
        }
    }
}

/// How a question is asked.
#[derive(Clone, Copy)]
pub struct How {
    pub tcp: bool,
    pub dnssec: bool,
    pub udp_size: u16,
}

/// Over UDP, without DNSSEC, with the usual size.
pub const PLAIN: How = How { tcp: false, dnssec: false, udp_size: 1232 };

/// What came back: rcode, flags, and the count of each type in each section.
#[derive(Debug)]
pub struct Answer {
    pub rcode: Rcode,
    pub aa: bool,
    pub tc: bool,
    pub answer: Vec<Rtype>,
    pub authority: Vec<Rtype>,
    pub additional: Vec<Rtype>,
}

impl Answer {
    pub fn count(section: &[Rtype], rtype: Rtype) -> usize {
        section.iter().filter(|&&t| t == rtype).count()
    }
}

/// Asks a server a question, by the `domain` crate alone.
pub fn ask(target: SocketAddr, name: &str, rtype: Rtype, how: How) -> Answer {
    try_ask(target, name, rtype, how)
        .unwrap_or_else(|e| panic!("{target} does not answer {name} {rtype}: {e}"))
}

/// As [`ask`], but returns what the socket said if there is no answer.
pub fn try_ask(target: SocketAddr, name: &str, rtype: Rtype, how: How) -> io::Result<Answer> {
    let mut query = MessageBuilder::new_vec().question();
    query.header_mut().set_id(4711);
    query.push((Name::<Vec<u8>>::from_str(name).unwrap(), rtype)).unwrap();
    let mut query = query.additional();
    query
        .opt(|opt| {
            opt.set_udp_payload_size(how.udp_size);
            opt.set_dnssec_ok(how.dnssec);
            Ok(())
        })
        .unwrap();
    let query = query.finish();
    let mut answer = vec![0; 65535];
    let len = if how.tcp {
        let mut stream = TcpStream::connect_timeout(&target, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(&(query.len() as u16).to_be_bytes())?;
        stream.write_all(&query)?;
        let mut len = [0; 2];
        stream.read_exact(&mut len)?;
        let len = usize::from(u16::from_be_bytes(len));
        stream.read_exact(&mut answer[..len])?;
        len
    } else {
        let socket = UdpSocket::bind(if target.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" })?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.connect(target)?;
        socket.send(&query)?;
        socket.recv(&mut answer)?
    };
    answer.truncate(len);
    let message = Message::from_octets(answer).unwrap();
    assert_eq!(message.header().id(), 4711);
    let types = |section: domain::base::RecordSection<'_, Vec<u8>>| -> Vec<Rtype> {
        section.map(|record| record.unwrap().rtype()).collect()
    };
    Ok(Answer {
        rcode: message.header().rcode(),
        aa: message.header().aa(),
        tc: message.header().tc(),
        answer: types(message.answer().unwrap()),
        authority: types(message.authority().unwrap()),
        additional: types(message.additional().unwrap()).into_iter().filter(|&t| t != Rtype::OPT).collect(),
    })
}

/// Whether a process exists (and is not only waiting to be reaped).
pub fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}
