//! What every test needs: a zone, servers on loopback ports, a capture of what they say.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::{Duration, Instant};
use update::{TransferResult, TransferSpec, transfer};

/// Long enough for the slowest start on a busy machine; no test waits for it where all is well.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Never set.
pub static RUN: AtomicBool = AtomicBool::new(false);

/// Whether programs are here; says so where one is not.
pub fn has(programs: &[&str]) -> bool {
    programs.iter().all(|program| {
        let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        let found = folders.iter().any(|folder| Path::new(folder).join(program).exists());
        if !found {
            eprintln!("SKIPPED: {program} is not installed");
        }
        found
    })
}

/// A UDP and TCP port that nobody uses on loopback, each once, below those that the kernel gives to clients.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 10_000 + (std::process::id() % 20_000) as u16;
    loop {
        let address = ("127.0.0.1", start + NEXT.fetch_add(1, Ordering::Relaxed) % 2_000);
        if UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok() {
            return address.1;
        }
    }
}

/// A program that ends with its test.
pub struct Running {
    child: Child,
    log: PathBuf,
    pub address: SocketAddr,
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "== {}\n{}",
                self.log.display(),
                std::fs::read_to_string(&self.log).unwrap_or_default()
            );
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder for one test.
pub struct Lab {
    pub dir: tempfile::TempDir,
}

/// A root-like zone of this name: delegations with glue, enough for several messages.
pub fn zone_text(origin: &str, serial: u32, names: usize) -> String {
    let below = |name: &str| if origin == "." { format!("{name}.") } else { format!("{name}.{origin}") };
    let ns = below("ns");
    let mut text = format!(
        "{origin} 3600 IN SOA {ns} {} {serial} 1800 900 604800 300\n{origin} 3600 IN NS {ns}\n{ns} 3600 IN A 192.0.2.53\n",
        below("admin")
    );
    for n in 0..names {
        let name = below(&format!("child{n:04}"));
        let _ = writeln!(text, "{name} 3600 IN NS ns1.{name}\nns1.{name} 3600 IN A 192.0.2.{}", n % 250);
        let _ = writeln!(text, "{name} 3600 IN DS 12345 13 2 {}", "ab".repeat(32));
    }
    text
}

/// Records of such a zone.
pub fn records(names: usize) -> u64 {
    3 + 3 * names as u64
}

impl Lab {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Writes a file into a folder of the lab: its path.
    pub fn write(&self, folder: &str, name: &str, text: &str) -> PathBuf {
        let folder = self.dir.path().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn folder(&self, name: &str) -> String {
        let folder = self.dir.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder.to_str().unwrap().to_owned()
    }

    fn start(&self, folder: &str, port: u16, program: &str, args: &[&str]) -> Running {
        let log = self.dir.path().join(folder).join("output");
        let output = std::fs::File::create(&log).unwrap();
        let child = Command::new(program)
            .args(args)
            .current_dir(self.dir.path().join(folder))
            .stdin(Stdio::null())
            .stderr(output.try_clone().unwrap())
            .stdout(output)
            .spawn()
            .unwrap_or_else(|e| panic!("{program}: {e}"));
        Running { child, log, address: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    /// BIND with these statements after its options.
    pub fn bind(&self, folder: &str, port: u16, options: &str, zones: &str) -> Running {
        let dir = self.folder(folder);
        let config = format!(
            "options {{ directory \"{dir}\"; pid-file none; session-keyfile \"{dir}/session.key\"; managed-keys-directory \
             \"{dir}\"; bindkeys-file \"{dir}/none\"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; \
             recursion no; dnssec-validation no; allow-query {{ any; }}; notify-delay 0; serial-query-rate 1000; \
             notify-rate 1000; startup-notify-rate 1000; notify explicit; transfer-source 127.0.0.1; {options} }};\n\
             controls {{ }};\n{zones}"
        );
        let config = self.write(folder, "named.conf", &config);
        self.start(folder, port, "named", &["-g", "-c", config.to_str().unwrap(), "-n", "1"])
    }

    /// NSD with these clauses after its server's.
    pub fn nsd(&self, folder: &str, port: u16, clauses: &str) -> Running {
        let dir = self.folder(folder);
        let config = format!(
            "remote-control:\n\tcontrol-enable: yes\n\tcontrol-interface: \"{dir}/ctl\"\nserver:\n\tserver-count: 1\n\
             \tip-address: 127.0.0.1\n\tport: {port}\n\tusername: \"\"\n\tchroot: \"\"\n\tzonesdir: \"{dir}\"\n\
             \tdatabase: \"\"\n\tpidfile: \"{dir}/pid\"\n\txfrdfile: \"{dir}/xfrd\"\n\txfrdir: \"{dir}\"\n\
             \tzonelistfile: \"{dir}/list\"\n\tcookie-secret-file: \"{dir}/cookies\"\n\tzonefiles-write: 0\n\
             \trrl-ratelimit: 0\n\trrl-whitelist-ratelimit: 0\n\txfrd-reload-timeout: 0\n\tverbosity: 2\n{clauses}"
        );
        let config = self.write(folder, "nsd.conf", &config);
        self.start(folder, port, "nsd", &["-d", "-c", config.to_str().unwrap()])
    }

    /// Knot DNS with these sections after its server's; a key is to come first.
    pub fn knot(&self, folder: &str, port: u16, sections: &str) -> Running {
        let dir = self.folder(folder);
        self.folder(&format!("{folder}/db"));
        let config = format!(
            "server:\n    rundir: \"{dir}\"\n    pidfile: \"{dir}/pid\"\n    listen: [ \"127.0.0.1@{port}\" ]\n    \
             udp-workers: 1\n    tcp-workers: 1\n    background-workers: 1\ncontrol:\n    listen: \"{dir}/ctl\"\n\
             log:\n  - target: stderr\n    any: info\ndatabase:\n    storage: \"{dir}/db\"\n{sections}"
        );
        let config = self.write(folder, "knot.conf", &config);
        self.start(folder, port, "knotd", &["-c", config.to_str().unwrap()])
    }

    /// PowerDNS with one zone from a file, which anybody on loopback may transfer.
    pub fn powerdns(&self, folder: &str, port: u16, origin: &str, zone: &Path) -> Running {
        let dir = self.folder(folder);
        let zones = format!("zone \"{origin}\" {{ type master; file \"{}\"; }};\n", zone.display());
        self.write(folder, "zones.conf", &zones);
        let config = format!(
            "launch=bind\nbind-config={dir}/zones.conf\nsocket-dir={dir}\nlocal-address=127.0.0.1\nlocal-port={port}\n\
             daemon=no\nguardian=no\nsetuid=\nsetgid=\nchroot=\ndisable-axfr=no\nallow-axfr-ips=127.0.0.0/8\n\
             disable-syslog=yes\nsecurity-poll-suffix=\n"
        );
        self.write(folder, "pdns.conf", &config);
        let folder_flag = format!("--config-dir={dir}");
        self.start(folder, port, "pdns_server", &[&folder_flag])
    }
}

/// Sends an update with nsupdate, and wants it to be taken.
pub fn nsupdate(server: &Running, zone: &str, lines: &str) {
    let script =
        format!("server {} {}\nzone {zone}\n{lines}send\n", server.address.ip(), server.address.port());
    let mut child = Command::new("nsupdate").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "nsupdate: {}", String::from_utf8_lossy(&output.stderr));
}

/// Transfers, whatever comes of it.
pub fn get(spec: &TransferSpec) -> TransferResult {
    transfer(spec, None, &RUN, &mut |_| ()).unwrap()
}

/// Transfers until the server has this serial.
pub fn wait_for(spec: &TransferSpec, serial: u32) -> TransferResult {
    let end = Instant::now() + TIMEOUT;
    loop {
        let result = get(spec);
        if result.complete && result.serial_to == Some(serial) {
            return result;
        }
        assert!(Instant::now() < end, "no serial {serial} at {}: {result:?}", spec.target);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A capture of loopback by tcpdump.
pub struct Capture {
    child: Child,
    pub file: PathBuf,
}

impl Capture {
    /// Begins, and waits until it has begun; `None`, said loudly, where this process may not capture.
    pub fn start(lab: &Lab, filter: &str) -> Option<Self> {
        let file = lab.dir.path().join("capture.pcap");
        let args = ["-i", "lo", "-s", "0", "-B", "32768", "--immediate-mode", "-U", "-Z", "root", "-w"];
        let mut child =
            Command::new("tcpdump").args(args).arg(&file).arg(filter).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        for line in lines.by_ref() {
            let line = line.unwrap();
            if line.contains("listening on") {
                // What it says at its end must find a reader.
                std::thread::spawn(move || lines.for_each(drop));
                return Some(Self { child, file });
            }
            said += &line;
        }
        let _ = child.wait();
        eprintln!("SKIPPED: tcpdump cannot capture here: {said}");
        None
    }

    /// Ends it once nothing more is written.
    pub fn stop(mut self) -> PathBuf {
        let size = |file: &Path| file.metadata().map_or(0, |m| m.len());
        let (mut last, mut same) = (0, 0);
        while same < 5 {
            std::thread::sleep(Duration::from_millis(100));
            let now = size(&self.file);
            same = if now == last { same + 1 } else { 0 };
            last = now;
        }
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.child.wait().unwrap();
        std::mem::take(&mut self.file)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What tshark counts of one TCP connection: payload from the server and to it, packets, and octets with IP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    pub from_server: u64,
    pub to_server: u64,
    pub packets: u64,
    pub ip: u64,
}

/// The connections of a capture in order, by tshark.
pub fn tshark(file: &Path, server: u16) -> Vec<Stream> {
    let fields = ["tcp.stream", "tcp.srcport", "tcp.len", "ip.len"];
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(file).args(["-Y", "tcp", "-T", "fields"]);
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = command.output().unwrap();
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    let mut streams: Vec<Stream> = Vec::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let row: Vec<u64> = line.split('\t').map(|field| field.parse().unwrap()).collect();
        let [number, port, payload, ip] = row[..] else { panic!("tshark: {line}") };
        streams.resize(streams.len().max(number as usize + 1), Stream::default());
        let stream = &mut streams[number as usize];
        let way = if port == u64::from(server) { &mut stream.from_server } else { &mut stream.to_server };
        *way += payload;
        stream.packets += 1;
        stream.ip += ip;
    }
    streams
}
