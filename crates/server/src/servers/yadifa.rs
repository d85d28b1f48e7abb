//! YADIFA.
//!
//! `yadifad` runs in the foreground as two processes: the server, and `ynetsrv`, which opened its sockets. Found out
//! by trial with version 2.6.4 (Debian 12):
//!
//! * UDP answers are cut at the size the client offers, not at ours: `edns0-max-size` is only announced to clients.
//!   Who asks without EDNS gets what fits into the buffer, `udp_size` rounded up to 4,096 octets, not the 512 of
//!   RFC 1035. No setting that was found changes that, nor does the network model `single`.
//! * A zone with DNAME is refused; so is one with ZONEMD, or that mentions it in an NSEC: the root as it is published.
//! * A CNAME given by a wildcard comes without the proof that nothing closer exists, so it cannot be validated; names in
//!   NSEC are put into lower case, so that the signature fails where the zone file had others. All else that was
//!   signed, with NSEC, NSEC3 and opt-out, is validated.
//! * Glue that finds no room in an answer is left out without TC, against RFC 9471.
//! * A reload leaves a zone file alone whose serial is not newer (RFC 1982) than the one served. What it says of an
//!   error in a zone file names the line and quotes it, not the file.
//! * It has no checker, but reads the whole configuration before it looks at the limit of open files, and ends if that
//!   is too low: so it is started with such a limit, and the words it ends with tell which it was.
//! * Its log is buffered and reaches a file late or never; on standard error it comes at once.
//! * It has no counters to ask for, but logs them every 5 s: the next such line is waited for.
//! * Control is by TSIG-signed messages to its own addresses over TCP. `yadifa ctrl reload .` refuses the root's name,
//!   `-t reload -q .` takes it. The client of version 3.0.2 (Debian 13) refuses every command of its own.
//! * Each thread that answers ties itself to a CPU, from CPU 0 on, whatever it was confined to: see
//!   [`crate::Server::ready`]. TCP has 128 threads more.
//! * Zones are served as they are, with `maintain-dnssec no`: nothing is signed, and the zone file is only read. That
//!   it finds no private keys is a warning, and so is glue that lies below another
//!   delegation: 862,000 lines, 128 MB, for 100K delegations of S-6-DS10. So warnings of the database are not logged.
//!
//! * As a secondary it does not get the zone at one start in ten: its downloader may come to the question before the loader that
//!   asked it is done, and then drops it without a word (docs/servers.md). No setting helps; a reload does, so it is told to reload
//!   where it has no zone after some seconds ([`crate::Server::urged`]).
//! * An AXFR may be of an older version than the one served: it is answered from a file written for one within the last minute.
//!
//! Extra configuration is appended: containers (`<main>` ... `</main>`) may be opened again, and the last of two
//! settings wins.

use crate::counted::{Counted, sum};
use crate::driver::{
    Capabilities, Commit, Control, Facts, Line, Memory, NameServer, Prepared, Site, extra, tool,
};
use crate::error::Error;
use crate::quote::quotable;
use crate::replication::{JOURNAL, Replication};
use rack::{Cmd, Output};
use std::net::SocketAddr;

pub(crate) struct Yadifa;

const FACTS: Facts = Facts {
    program: "yadifad",
    package: "yadifa",
    version_flag: "-V",
    can: Capabilities {
        reload: true,
        stats: true,
        update: true,
        signs: true,
        takes_signatures: false,
        ixfr_out: true,
        udp_cap: false,
        referrals: true,
        signed: true,
        transfers: true,
    },
    memory: Some(Memory {
        empty: 12_000_000,
        delegation: 168,
        name: 203,
        rrset: 63,
        signature: 208,
        nsec: 138,
        nsec3: 215,
        hashed: 0,
        crowding: None,
    }),
    start_per_record: 3.3e-6,
    commit: Commit { least: 0.000_46, name: 0.0, together: false },
    without_syncs: None,
    log: "yadifad.log",
    stats_file: None,
};

impl NameServer for Yadifa {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn prepare(&self, site: &Site<'_>) -> Result<Prepared, Error> {
        let config = site.path("yadifad.conf");
        let program = site.program.display().to_string();
        Ok(Prepared {
            files: vec![("yadifad.conf", yadifad_conf(site)?)],
            folders: vec!["keys", "xfr"],
            check: Some(Cmd::new("prlimit").args(["--nofile=512", &program, "-c", &config])),
            before: Vec::new(),
            start: Cmd::new(site.program)
                .args(["-c", &config])
                .stderr(Output::File(site.dir.join(FACTS.log))),
        })
    }

    fn accepted(&self, _success: bool, said: &str) -> bool {
        said.contains("file open limits are too small")
    }

    fn control(&self, site: &Site<'_>, what: Control) -> Result<Option<Cmd>, Error> {
        Ok(Some(match what {
            Control::Reload => {
                let at = site.listen[0];
                tool(site, "yadifa")?.args([
                    "ctrl",
                    &format!("@{}", at.ip()),
                    "-p",
                    &at.port().to_string(),
                    "-y",
                    &format!("hmac-sha256:{KEY}:{}", site.secret),
                    "-t",
                    "reload",
                    "-q",
                    &site.spec.zone.origin,
                ])
            }
            Control::Stats => Cmd::new("sh").args(["-c", NEXT_COUNTERS, FACTS.log]),
        }))
    }

    fn urge(&self, site: &Site<'_>) -> Result<Option<Cmd>, Error> {
        self.control(site, Control::Reload)
    }

    /// Groups of `name=value` in brackets, each after its name: messages over UDP and TCP, and answers over each by their
    /// code, truncated ones (`TR`) once more.
    fn counted(&self, text: &str) -> Counted {
        let group = |name: &str| {
            let (_, rest) = text.split_once(&format!(" {name} ("))?;
            let pairs = rest.split(')').next()?.split_whitespace().filter_map(|pair| pair.split_once('='));
            Some(pairs.filter_map(|(k, v)| Some((k, v.parse().ok()?))).collect::<Vec<(&str, u64)>>())
        };
        let sum_of = |name: &str, wanted: &dyn Fn(&str) -> bool| {
            sum(group(name)?.into_iter().map(|(key, value)| wanted(key).then_some(value)))
        };
        let answers = |wanted: &dyn Fn(&str) -> bool| sum([sum_of("udpa", wanted), sum_of("tcpa", wanted)]);
        Counted {
            udp: sum_of("udp", &|key| key == "in"),
            tcp: sum_of("tcp", &|key| key == "in"),
            answers: answers(&|key| key != "TR"),
            truncated: answers(&|key| key == "TR"),
            dropped: sum([sum_of("udp", &|key| key == "dr"), sum_of("tcp", &|key| key == "dr")]),
        }
    }

    fn classify(&self, line: &str) -> Line {
        // Time, process, thread, origin, level, text.
        let level = line.split('|').nth(4).map_or("", str::trim);
        if line.contains("failed to load the zone") {
            Line::Refused
        } else if matches!(level, "E" | "C" | "A" | "!") || line.starts_with("error: ") {
            Line::Error
        } else {
            Line::Other
        }
    }
}

/// Waits up to 10 s for another line with counters at the end of a log, and prints the last there is.
const NEXT_COUNTERS: &str = r#"
lines() { grep -c ' stats .* udp (in=' "$0"; }
before=$(lines) tries=100
while [ "$(lines)" = "$before" ] && [ $tries -gt 0 ]; do sleep 0.1; tries=$((tries - 1)); done
grep ' stats .* udp (in=' "$0" | tail -n 1 | grep ."#;

/// The name of the control key.
const KEY: &str = "dnsrack";

/// The configuration. The limit on CPUs is raised with the workers, else there would be no more workers than CPUs.
fn yadifad_conf(site: &Site<'_>) -> Result<String, Error> {
    let dir = quotable(&site.spec.label, "directory", site.dir)?;
    // It would store a zone under its data path with the whole of an absolute path behind that, and fail; and a zone that cannot be
    // stored takes no more updates than the journal has room for.
    let zone_file = site.zone_file.strip_prefix(site.dir).unwrap_or(site.zone_file);
    let zone_file = quotable(&site.spec.label, "zone.file", zone_file)?;
    let spec = site.spec;
    let listen: Vec<String> =
        site.listen.iter().map(|address| format!("{} port {}", address.ip(), address.port())).collect();
    let signs = spec.distribution.as_ref().and_then(|part| part.keys.as_ref());
    let keys = match signs {
        Some(folder) => quotable(&spec.label, "distribution.keys", folder)?.to_owned(),
        None => format!("{dir}/keys"),
    };
    const GRAVE: &str = "EMERG,ALERT,CRIT,ERR,WARNING,NOTICE";
    Ok(format!(
        "<main>\n\
         \tdaemon off\n\
         \tchroot off\n\
         \tlog-path \"{dir}\"\n\
         \tpid-file \"{dir}/yadifad.pid\"\n\
         \tdata-path \"{dir}\"\n\
         \tkeys-path \"{keys}\"\n\
         \txfr-path \"{dir}/xfr\"\n\
         \tport {port}\n\
         \tlisten {listen}\n\
         \tedns0-max-size {cap}\n\
         \tcpu-count-override {workers}\n\
         \tthread-count-by-address {workers}\n\
         \tstatistics on\n\
         \tstatistics-max-period 1\n\
         \tqueries-log-type 0\n\
         \tallow-query any\n\
         \tallow-update none\n\
         \tallow-update-forwarding none\n\
         \tallow-transfer none\n\
         \tallow-notify none\n\
         \tallow-control control\n\
         {timers}\
         </main>\n\
         <key>\n\
         \tname {KEY}\n\
         \talgorithm hmac-sha256\n\
         \tsecret {secret}\n\
         </key>\n\
         {shared}\
         <acl>\n\
         \tcontrol key {KEY}\n\
         {rack}\
         </acl>\n\
         <control>\n\
         \tenabled on\n\
         </control>\n\
         <rrl>\n\
         \tenabled off\n\
         </rrl>\n\
         <channels>\n\
         \tlog STDERR\n\
         </channels>\n\
         <loggers>\n\
         \tsystem {GRAVE} log\n\
         \tserver {GRAVE} log\n\
         \tdnssec {GRAVE} log\n\
         \tdatabase EMERG,ALERT,CRIT,ERR,NOTICE,INFO log\n\
         \tzone PROD log\n\
         \tstats PROD log\n\
         </loggers>\n\
         <zone>\n\
         {part}\
         \tdomain {origin}\n\
         \tfile \"{zone_file}\"\n\
         \tnotify-auto no\n\
         \tmaintain-dnssec {signs}\n\
         </zone>\n\
         {extra}",
        keys = keys,
        port = spec.port,
        listen = listen.join(", "),
        cap = spec.udp_size,
        workers = spec.workers,
        secret = site.secret,
        origin = spec.zone.origin,
        shared = spec.distribution.as_ref().map_or_else(String::new, shared_key),
        rack =
            spec.distribution.as_ref().map_or_else(String::new, |p| format!("\track key {}\n", p.key.name)),
        timers = timers(spec.distribution.as_ref()),
        part = part(spec.distribution.as_ref()),
        signs = if signs.is_some() { "yes" } else { "no" },
        extra = extra(spec),
    ))
}

/// How soon it tries again where a first transfer failed (`axfr-retry-delay`: by default after 10 minutes, at the least after one), and
/// how many connections it serves (`max-tcp-queries` 128, `max-tcp-queries-per-address` 2, `max-secondary-tcp-queries` 16). Updates
/// wait for one thread, 4,096 of them at most and for 3 s at most; what comes on top or waits for longer is dropped without an answer,
/// and no setting changes that.
fn timers(part: Option<&Replication>) -> &'static str {
    match part {
        Some(part) if part.is_tuned() => {
            "\taxfr-retry-delay 60\n\taxfr-retry-jitter 60\n\tmax-tcp-queries 1000\n\tmax-tcp-queries-per-address 1000\n\
             \tmax-secondary-tcp-queries 1000\n"
        }
        _ => "",
    }
}

fn shared_key(part: &Replication) -> String {
    let key = &part.key;
    format!("<key>\n\tname {}\n\talgorithm {}\n\tsecret {}\n</key>\n", key.name, key.algorithm, key.secret)
}

/// The zone's settings for changes. Its file is written when the server is told to, and when the journal is full.
fn part(part: Option<&Replication>) -> String {
    let Some(part) = part else { return "\ttype primary\n".into() };
    let hosts = |list: &[SocketAddr]| {
        let at = |a: &SocketAddr| format!("{} port {} key {}", a.ip(), a.port(), part.key.name);
        list.iter().map(at).collect::<Vec<_>>().join(", ")
    };
    let mut text = match part.is_secondary() {
        false => "\ttype primary\n".to_owned(),
        true => format!("\ttype secondary\n\tprimaries {}\n\tallow-notify rack\n", hosts(&part.primaries)),
    };
    text += "\tallow-transfer rack\n";
    text += &format!("\tjournal-size-kb {}\n", part.journal.unwrap_or(JOURNAL) / 1024);
    if part.updates {
        text += "\tallow-update rack\n";
    }
    if !part.secondaries.is_empty() {
        text += &format!("\tnotifies {}\n", hosts(&part.secondaries));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_in_groups() {
        // Of YADIFA 2.6.4.
        let text = "2026-11-22 02:36:00.139882 |    825 | yadifad  | stats    | I | udp (in=4860 qr=4860 ni=0 up=0 dr=1 \
                    st=2665193 un=0 rf=3406) tcp (in=2 qr=2 ni=0 up=0 dr=0 st=1325 un=0 rf=0 ax=0 ix=0 ov=6) udpa (OK=3409 \
                    FE=0 SF=6 NE=1445 NI=0 RE=0 BA=0 TR=4) tcpa (OK=0 FE=0 SF=0 NE=2 NI=0 RE=0 BA=0 TR=0) rrl (sl=0 dr=9)";
        let want = Counted {
            udp: Some(4860),
            tcp: Some(2),
            answers: Some(4862),
            truncated: Some(4),
            dropped: Some(1),
        };
        assert_eq!(Yadifa.counted(text), want);
        assert_eq!(Yadifa.counted(""), Counted::default());
    }
}
