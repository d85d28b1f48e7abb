//! Servers that take updates, with settings that keep their word and others that do not.

use rack::{Cmd, Output};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The zone of all of them.
pub const ZONE: &str = "example. 60 IN SOA ns.example. h.example. 1 60 60 600 60\n\
                        example. 60 IN NS ns.example.\nns.example. 60 IN A 192.0.2.1\n";

/// A server that takes updates, or is a secondary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bind,
    Knot,
    Nsd,
    Powerdns,
    Yadifa,
}

impl Kind {
    /// Its program, where it is installed.
    pub fn program(self) -> Option<PathBuf> {
        let name = match self {
            Kind::Bind => "named",
            Kind::Knot => "knotd",
            Kind::Nsd => "nsd",
            Kind::Powerdns => "pdns_server",
            Kind::Yadifa => "yadifad",
        };
        // Servers live in sbin, which a user's PATH lacks on Debian.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders =
            std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), "/usr/local/sbin".into()]);
        folders.map(|folder| folder.join(name)).find(|path| path.is_file())
    }

    /// Debian's package.
    pub fn package(self) -> &'static str {
        match self {
            Kind::Bind => "bind9",
            Kind::Knot => "knot",
            Kind::Nsd => "nsd",
            Kind::Powerdns => "pdns-server",
            Kind::Yadifa => "yadifa",
        }
    }
}

/// How a server treats its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As it is by default.
    Default,
    /// Told by its own configuration not to sync.
    Configured,
    /// Its syncs taken away by a library put in front of it (`eatmydata`).
    Preload,
}

#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub kind: Kind,
    pub way: Way,
    /// More lines for the configuration.
    pub more: &'static str,
}

impl Setting {
    pub fn new(kind: Kind, way: Way) -> Self {
        Self { kind, way, more: "" }
    }

    /// Whether what it needs is installed; says so loudly where it is not.
    pub fn there(self) -> bool {
        let mut missing = Vec::new();
        if self.kind.program().is_none() {
            missing.push(self.kind.package());
        }
        if self.kind == Kind::Powerdns && !Path::new(SCHEMA).exists() {
            missing.push("pdns-backend-sqlite3");
        }
        if self.kind == Kind::Powerdns && Command::new("sqlite3").arg("-version").output().is_err() {
            missing.push("sqlite3");
        }
        if self.way == Way::Preload
            && Command::new("sh")
                .args(["-c", "LD_PRELOAD=libeatmydata.so true 2>&1 | grep -q ."])
                .status()
                .is_ok_and(|s| s.success())
        {
            missing.push("eatmydata");
        }
        if !missing.is_empty() {
            eprintln!("SKIPPED: {self:?} needs {}", missing.join(", "));
        }
        missing.is_empty()
    }
}

const SCHEMA: &str = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql";

/// Where a server has its things.
pub struct Place {
    /// Where its data is put before it is started.
    pub made_in: PathBuf,
    /// Where it has its data; the same folder, or one that shows it.
    pub data: PathBuf,
    /// Logs, sockets, configuration: what may be lost.
    pub rest: PathBuf,
    pub port: u16,
}

/// Makes what a server needs, and gives the command that starts it. The data is made once.
pub fn prepare(setting: Setting, place: &Place) -> Cmd {
    let Place { made_in, data, rest, port } = place;
    let (d, r, more) = (data.display(), rest.display(), setting.more);
    let configured = setting.way == Way::Configured;
    let write = |name: &str, text: String| {
        let path = rest.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    fs::write(made_in.join("z"), ZONE).unwrap();
    let program = setting.kind.program().unwrap();
    let cmd = match setting.kind {
        Kind::Bind => {
            let config = write(
                "named.conf",
                format!(
                    "options {{ directory \"{d}\"; pid-file none; session-keyfile none; listen-on port {port} {{ 127.0.0.1; }};\n\
                     listen-on-v6 {{ none; }}; recursion no; dnssec-validation no; notify no; allow-transfer {{ any; }}; {more} }};\n\
                     controls {{ }};\nzone \"example\" {{ type master; file \"z\"; allow-update {{ any; }}; }};\n"
                ),
            );
            Cmd::new(program).args(["-f", "-n", "2", "-c"]).arg(config).arg("-L").arg(rest.join("named.log"))
        }
        Kind::Knot => {
            fs::create_dir(made_in.join("db")).unwrap();
            let zone_file = if more.contains("zonefile-sync") { "" } else { "    zonefile-sync: -1\n" };
            let mode = if configured { "    journal-db-mode: asynchronous\n" } else { "" };
            let config = write(
                "knot.conf",
                format!(
                    "server:\n    rundir: \"{r}\"\n    listen: [ \"127.0.0.1@{port}\" ]\n    udp-workers: 1\n    tcp-workers: 2\n\
                     control:\n    listen: \"{r}/knot.sock\"\nlog:\n  - target: \"{r}/knot.log\"\n    any: info\n\
                     database:\n    storage: \"{d}/db\"\n    journal-db-max-size: 100M\n{mode}\
                     acl:\n  - id: any\n    address: 127.0.0.1\n    action: [update, transfer]\n\
                     zone:\n  - domain: example.\n    file: \"{d}/z\"\n    acl: any\n{zone_file}{more}"
                ),
            );
            Cmd::new(program).arg("-c").arg(config)
        }
        Kind::Powerdns => {
            let database =
                |folder: &Path| format!("launch=gsqlite3\ngsqlite3-database={}/pdns.db\n", folder.display());
            let tool = rest.join("tool");
            fs::create_dir(&tool).unwrap();
            fs::write(tool.join("pdns.conf"), database(made_in)).unwrap();
            run(Command::new("sqlite3").arg(made_in.join("pdns.db")).arg(format!(".read {SCHEMA}")));
            run(Command::new("pdnsutil")
                .arg(format!("--config-dir={}", tool.display()))
                .args(["load-zone", "example"])
                .arg(made_in.join("z")));
            let lie = if configured { "gsqlite3-pragma-synchronous=0\n" } else { "" };
            write(
                "pdns.conf",
                format!(
                    "{}socket-dir={r}\nlocal-address=127.0.0.1\nlocal-port={port}\ndnsupdate=yes\n\
                     allow-dnsupdate-from=127.0.0.0/8\ndaemon=no\nguardian=no\nsetuid=\nsetgid=\nsecurity-poll-suffix=\n\
                     disable-syslog=yes\ncache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0\nzone-cache-refresh-interval=0\n\
                     {lie}{more}",
                    database(data)
                ),
            );
            Cmd::new(program).arg(format!("--config-dir={r}"))
        }
        Kind::Yadifa => {
            for folder in ["keys", "xfr"] {
                fs::create_dir(made_in.join(folder)).unwrap();
            }
            let config = write(
                "yadifad.conf",
                format!(
                    "<main>\ndaemon off\nchroot off\nlog-path \"{r}\"\npid-file \"{r}/pid\"\ndata-path \"{d}\"\n\
                     keys-path \"{d}/keys\"\nxfr-path \"{d}/xfr\"\nport {port}\nlisten 127.0.0.1 port {port}\nallow-query any\n\
                     allow-update any\nallow-transfer any\nqueries-log-type 0\n</main>\n<rrl>\nenabled off\n</rrl>\n\
                     <channels>\nlog STDERR\n</channels>\n<loggers>\nsystem EMERG,ALERT,CRIT,ERR log\nserver EMERG,ALERT,CRIT,ERR log\n\
                     database EMERG,ALERT,CRIT,ERR log\nzone EMERG,ALERT,CRIT,ERR log\n</loggers>\n<zone>\ntype primary\ndomain example\nfile \"z\"\nallow-update any\n\
                     notify-auto no\nmaintain-dnssec no\n{more}</zone>\n"
                ),
            );
            Cmd::new(program).arg("-c").arg(config)
        }
        other => panic!("{other:?} takes no updates"),
    };
    let output = Output::File(rest.join("output.log"));
    let cmd = cmd.cwd(rest.as_path()).stdout(output.clone()).stderr(output);
    if setting.way == Way::Preload { cmd.env("LD_PRELOAD", "libeatmydata.so") } else { cmd }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
