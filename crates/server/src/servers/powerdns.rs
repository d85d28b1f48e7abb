//! PowerDNS authoritative server with its bind backend, which serves a zone file from memory.
//!
//! * The backend does not see that a zone is signed: its configuration must say so (metadata `PRESIGNED` in an SQLite file of its
//!   own, made by `pdnsutil`), else it leaves out every RRSIG, NSEC and DS. For NSEC3 it needs the parameters
//!   as well, and whether there is opt-out, else the answers lack their proofs.
//! * `pdnsutil` gets a configuration without zones: with the server's it would first load the whole zone.
//! * `distributor-threads=1` lets each receiver thread answer by itself, without a queue in between.
//! * A signed zone's referral carries the DS also where the query has DO clear: larger answers than the others'.
//! * Record data that it cannot parse does not make it refuse a zone file: the fault shows when it is asked for.
//! * It logs to standard error only; that goes to `pdns.log`.
//! * A secondary takes whole zones: the backend for zone files drops the differences of an IXFR.
//! * A primary that takes updates has its zone in SQLite (`database.rs`).
//! * What limits transfers and is raised where timers are tuned: `max-tcp-connections` (20). Updates are done one after the other,
//!   under one lock. A primary tells its secondaries of an update when it looks next (`xfr-cycle-interval`, 60 s), at once where
//!   the zone has the metadata `NOTIFY-DNSUPDATE`, which it is given where timers are tuned.
//!
//! Extra configuration is appended; the last of two settings wins. Its checker knows names of settings only.

mod database;

use crate::counted::{Counted, sum};
use crate::driver::{
    Capabilities, Commit, Control, Facts, Line, Memory, NameServer, Prepared, Site, extra, tool,
};
use crate::error::{Error, Problem};
use crate::quote::quotable;
use crate::replication::Replication;
use rack::{Cmd, Output};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use update::TsigKey;

pub(crate) struct Powerdns;

const FACTS: Facts = Facts {
    program: "pdns_server",
    package: "pdns-server pdns-backend-bind",
    version_flag: "--version",
    can: Capabilities {
        reload: true,
        stats: true,
        update: true,
        signs: true,
        takes_signatures: true,
        ixfr_out: false,
        udp_cap: true,
        referrals: true,
        signed: true,
        transfers: true,
    },
    memory: Some(Memory {
        empty: 64_000_000,
        delegation: 355,
        name: 123,
        rrset: 272,
        signature: 456,
        nsec: 0,
        nsec3: 661,
        hashed: 2,
        crowding: None,
    }),
    start_per_record: 7.0e-6,
    commit: Commit::UNKNOWN,
    // Of the backend for SQLite.
    without_syncs: Some("gsqlite3-pragma-synchronous=0\n"),
    log: "pdns.log",
    stats_file: None,
};

impl NameServer for Powerdns {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn prepare(&self, site: &Site<'_>) -> Result<Prepared, Error> {
        let dir = quotable(&site.spec.label, "directory", site.dir)?;
        let zone_file = quotable(&site.spec.label, "zone.file", site.zone_file)?;
        let origin = &site.spec.zone.origin;
        let part = site.spec.distribution.as_ref();
        if let Some(part) = part.filter(|part| part.updates) {
            return database::prepare(site, part, dir, zone_file);
        }
        let zones = format!("zone \"{origin}\" {{\n{}\tfile \"{zone_file}\";\n}};\n", kind(part));
        let mut files = vec![("pdns.conf", pdns_conf(site, dir)), ("zones.conf", zones)];
        let mut before = Vec::new();
        if site.spec.zone.signed || part.is_some() {
            let metadata = format!(
                "launch=bind\nbind-config={dir}/no-zones.conf\nbind-dnssec-db={dir}/metadata.db\n\
                 socket-dir={dir}\n"
            );
            files.extend([("pdns-metadata.conf", metadata), ("no-zones.conf", String::new())]);
            // The configuration's file name is pdns-NAME.conf.
            let pdnsutil = tool(site, "pdnsutil")?.args(["--config-dir", dir, "--config-name=metadata"]);
            before.push(pdnsutil.clone().args(["create-bind-db", &format!("{dir}/metadata.db")]));
            if site.spec.zone.signed {
                before.push(pdnsutil.clone().args(["set-presigned", origin]));
                // A secondary's zone has the parameters of the file that its primary was started with.
                let file = if part.is_some_and(Replication::is_secondary) {
                    &site.spec.zone.file
                } else {
                    site.zone_file
                };
                let nsec3 = nsec3(file).map_err(|source| {
                    Error::new(&site.spec.label, Problem::Zone { path: file.into(), source })
                })?;
                before.extend(
                    nsec3.map(|parameters| pdnsutil.clone().args(["set-nsec3", origin, &parameters])),
                );
            }
            if let Some(part) = part {
                // pdnsutil changes no metadata of a zone that it has not loaded.
                files.push(("metadata.sql", grants(part, origin)));
                before.push(
                    Cmd::new("sqlite3")
                        .args([&format!("{dir}/metadata.db"), &format!(".read {dir}/metadata.sql")]),
                );
            }
        }
        let config_dir = format!("--config-dir={dir}");
        Ok(Prepared {
            files,
            folders: Vec::new(),
            check: Some(Cmd::new(site.program).args([&config_dir, "--config=check"])),
            before,
            start: Cmd::new(site.program).arg(&config_dir).stderr(Output::File(site.dir.join(FACTS.log))),
        })
    }

    fn control(&self, site: &Site<'_>, what: Control) -> Result<Option<Cmd>, Error> {
        let control = tool(site, "pdns_control")?.arg(format!("--config-dir={}", site.dir.display()));
        Ok(Some(match what {
            Control::Reload => control.args(["bind-reload-now", &site.spec.zone.origin]),
            Control::Stats => control.args(["show", "*"]),
        }))
    }

    /// `pdns_control` waits for 7 s, which cannot be set; a zone of some 100,000 delegations takes longer.
    fn still_works(&self, said: &str) -> bool {
        said.contains("Timeout error")
    }

    /// `name=value` pairs with commas between them. It does not count truncated answers.
    fn counted(&self, text: &str) -> Counted {
        let value_of = |name: &str| {
            let mut pairs = text.trim().split(',').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok())
        };
        Counted {
            udp: value_of("udp-queries"),
            tcp: value_of("tcp-queries"),
            answers: sum([value_of("udp-answers"), value_of("tcp-answers")]),
            truncated: None,
            dropped: sum([
                value_of("overload-drops"),
                value_of("timedout-packets"),
                value_of("corrupt-packets"),
            ]),
        }
    }

    fn classify(&self, line: &str) -> Line {
        // At the start, and at a reload. A secondary has no file before its first transfer.
        let missing = line.contains("Has not been AXFR'd yet");
        if !missing && (line.contains("[bindbackend] error at ") || line.contains(" Error parsing '")) {
            Line::Refused
        } else if line.contains("Fatal error")
            || line.contains("Exiting because")
            || line.contains("Unable to ")
        {
            Line::Error
        } else {
            Line::Other
        }
    }
}

fn pdns_conf(site: &Site<'_>, dir: &str) -> String {
    let spec = site.spec;
    let part = spec.distribution.as_ref();
    let metadata = match spec.zone.signed || part.is_some() {
        true => format!("bind-dnssec-db={dir}/metadata.db\n"),
        false => String::new(),
    };
    format!(
        "launch=bind\n\
         bind-config={dir}/zones.conf\n\
         bind-check-interval=0\n\
         {metadata}{common}{changes}{extra}",
        common = common(site),
        changes = changes(part),
        extra = extra(spec),
    )
}

/// Settings for both backends.
fn common(site: &Site<'_>) -> String {
    let (spec, socket) = (site.spec, site.socket(""));
    let addresses: Vec<String> = site.listen.iter().map(|address| address.ip().to_string()).collect();
    format!(
        "socket-dir={socket}\n\
         local-address={addresses}\n\
         local-port={port}\n\
         daemon=no\n\
         guardian=no\n\
         setuid=\n\
         setgid=\n\
         chroot=\n\
         receiver-threads={workers}\n\
         distributor-threads=1\n\
         reuseport=yes\n\
         udp-truncation-threshold={cap}\n\
         disable-syslog=yes\n\
         log-timestamp=yes\n\
         log-dns-queries=no\n\
         security-poll-suffix=\n",
        socket = socket.trim_end_matches('/'),
        addresses = addresses.join(","),
        port = spec.port,
        workers = spec.workers,
        cap = spec.udp_size,
    )
}

/// The key, and what the zone is allowed by it, for the bind backend's file of metadata.
fn grants(part: &Replication, origin: &str) -> String {
    let name = if origin == "." { origin } else { origin.trim_end_matches('.') };
    let set = |kind: &str, value: &str| {
        format!(
            "INSERT INTO domainmetadata (domain, kind, content) VALUES ('{name}', '{kind}', '{value}');\n"
        )
    };
    let mut text = tsig_key(part) + &set("TSIG-ALLOW-AXFR", &part.key.name);
    if part.is_secondary() {
        // It asks for whole zones: with the metadata IXFR the bind backend (4.7) takes differences, tells the new serial in its
        // log, and serves the old zone.
        text += &set("AXFR-MASTER-TSIG", &part.key.name);
    }
    text
}

/// The key, for a database of either backend: not on a command line, where others could read it.
fn tsig_key(part: &Replication) -> String {
    let TsigKey { name, algorithm, secret } = &part.key;
    format!("INSERT INTO tsigkeys (name, algorithm, secret) VALUES ('{name}', '{algorithm}', '{secret}');\n")
}

/// The kind of the zone, and its primary.
fn kind(part: Option<&Replication>) -> String {
    match part {
        Some(part) if part.is_secondary() => {
            let from = Replication::each(&part.primaries, |a| format!(" {a};"));
            format!("\ttype slave;\n\tmasters {{{from} }};\n")
        }
        _ => "\ttype master;\n".into(),
    }
}

/// Who gets NOTIFY and may transfer the zone, and how soon.
fn changes(part: Option<&Replication>) -> String {
    let Some(part) = part else { return "disable-axfr=yes\n".into() };
    let tell: Vec<String> = part.secondaries.iter().map(ToString::to_string).collect();
    let tell = match tell.as_slice() {
        [] => "only-notify=\n".to_owned(),
        // NS records of the zone are not asked who else gets NOTIFY.
        all => format!("only-notify=\nalso-notify={}\n", all.join(",")),
    };
    let role = match (part.is_secondary(), part.secondaries.is_empty()) {
        (true, true) => "secondary=yes\n",
        (true, false) => "secondary=yes\nsecondary-do-renotify=yes\n",
        (false, false) => "primary=yes\n",
        // Else a thread that has nobody to tell writes into the database, and updates meet it locked.
        (false, true) => "",
    };
    let cycle = if part.is_tuned() { "xfr-cycle-interval=1\nmax-tcp-connections=10000\n" } else { "" };
    format!(
        "disable-axfr=no\nallow-axfr-ips=\nallow-notify-from=0.0.0.0/0,::/0\nxfr-max-received-mbytes=0\n\
         {role}{tell}{cycle}"
    )
}

/// How far an NSEC3PARAM is looked for: it is at the apex, which comes first in canonical order.
const APEX: u64 = 1024 * 1024;

/// The argument of `pdnsutil set-nsec3` for a zone file with NSEC3: `1 FLAGS ITERATIONS SALT`. The flags, which
/// tell of opt-out, are those of the first NSEC3 record.
fn nsec3(zone_file: &Path) -> io::Result<Option<String>> {
    let lines = || File::open(zone_file).map(|file| BufReader::with_capacity(1 << 20, file));
    let Some(parameters) = after_type(lines()?.take(APEX), b"NSEC3PARAM")? else { return Ok(None) };
    let flags = match after_type(lines()?, b"NSEC3")? {
        Some(first) => first[1].clone(),
        None => parameters[1].clone(),
    };
    Ok(Some(format!("{} {flags} {} {}", parameters[0], parameters[2], parameters[3])))
}

/// The four fields that follow a type on a line of its own, in the first line that has that type.
fn after_type(mut lines: impl BufRead, rtype: &[u8]) -> io::Result<Option<[String; 4]>> {
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        let mut fields = line.split(u8::is_ascii_whitespace).filter(|f| !f.is_empty() && *f != b"(");
        // An NSEC's or RRSIG's mention of the type is not followed by numbers.
        if fields.by_ref().any(|field| field == rtype) {
            let rest: Vec<String> =
                fields.take(4).map(|field| String::from_utf8_lossy(field).into_owned()).collect();
            if let Ok(four) = <[String; 4]>::try_from(rest)
                && four[..3].iter().all(|field| field.parse::<u16>().is_ok())
                && (four[3] == "-" || four[3].bytes().all(|b| b.is_ascii_hexdigit()))
                && !line.trim_ascii_start().starts_with(b";")
            {
                return Ok(Some(four));
            }
        }
        line.clear();
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_pairs() {
        // Of PowerDNS 4.7.
        let text = "backend-queries=72246,corrupt-packets=2,noerror-packets=0,overload-drops=1,packetcache-hit=94,\
                    tcp-answers=5,tcp-answers-bytes=900,tcp-queries=6,tcp4-queries=6,timedout-packets=4,udp-answers=17493,\
                    udp-answers-bytes=8599313,udp-queries=17495,udp4-queries=17493,udp6-queries=2,xfr-queue=0,\n";
        let want = Counted {
            udp: Some(17_495),
            tcp: Some(6),
            answers: Some(17_498),
            truncated: None,
            dropped: Some(7),
        };
        assert_eq!(Powerdns.counted(text), want);
        assert_eq!(Powerdns.counted("Fatal error"), Counted::default());
    }

    #[test]
    fn nsec3_parameters_and_opt_out_come_from_the_zone_file() {
        let nsec3_in = |text: &str| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            nsec3(file.path()).unwrap()
        };
        let soa = ". 86400 IN SOA a. b. 1 2 3 4 5\n";
        assert_eq!(nsec3_in(soa), None);
        assert_eq!(
            nsec3_in(&format!("{soa}. 86400 IN NSEC a. NS SOA RRSIG NSEC DNSKEY\n; 0 NSEC3PARAM 1 0 0 -\n")),
            None
        );
        let param = "\t\t\t0\tNSEC3PARAM 1 0 5 AABB\n\t\t0\tRRSIG\tNSEC3PARAM 13 0 0 (\n";
        assert_eq!(nsec3_in(&format!("{soa}{param}")).unwrap(), "1 0 5 AABB");
        let chain = "0P9M.  86400 IN NSEC3 1 1 5 AABB ( 1P NS SOA NSEC3PARAM )\n";
        assert_eq!(nsec3_in(&format!("{soa}{param}{chain}")).unwrap(), "1 1 5 AABB");
    }
}
