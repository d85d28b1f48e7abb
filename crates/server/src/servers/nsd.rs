//! NSD.
//!
//! `nsd -d` stays in the foreground as a small tree of processes: the one started (transfers and control), a main
//! process that holds the zone and makes children, and `server-count` children that answer. A reload replaces all
//! but the first, so process ids are looked up each time.
//!
//! Also a transfer is such a reload: children with the new zone are started before those with the old one are told to end
//! (`server_reload` in its server.c), and both answer from the same sockets until they have. So for some milliseconds after each
//! change an answer may have an older serial than the one before it. No setting changes that.
//!
//! After a reload of a zone file with an error NSD has no zone (SERVFAIL); the other servers go on serving the old one.
//!
//! Extra configuration is appended to the `server:` clause, which is the last: it may begin clauses of its own
//! (`key:`, `pattern:`). The last of two settings wins.

use crate::counted::{Counted, sum};
use crate::driver::{
    Capabilities, Commit, Control, Facts, Line, Memory, NameServer, Prepared, Site, extra, tool,
};
use crate::error::Error;
use crate::quote::quotable;
use crate::replication::{JOURNAL, Replication};
use rack::Cmd;
use std::net::SocketAddr;
use update::TsigKey;

pub(crate) struct Nsd;

const FACTS: Facts = Facts {
    program: "nsd",
    package: "nsd",
    version_flag: "-v",
    can: Capabilities {
        reload: true,
        stats: true,
        update: false,
        signs: false,
        takes_signatures: false,
        ixfr_out: true,
        udp_cap: true,
        referrals: true,
        signed: true,
        transfers: true,
    },
    memory: Some(Memory {
        empty: 48_000_000,
        delegation: 361,
        name: 624,
        rrset: 96,
        signature: 455,
        nsec: 0,
        nsec3: 739,
        hashed: 167,
        crowding: Some((6_500_000, 0.17)),
    }),
    start_per_record: 4.0e-6,
    commit: Commit::UNKNOWN,
    without_syncs: None,
    log: "nsd.log",
    stats_file: None,
};

impl NameServer for Nsd {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn prepare(&self, site: &Site<'_>) -> Result<Prepared, Error> {
        let config = site.path("nsd.conf");
        Ok(Prepared {
            files: vec![("nsd.conf", nsd_conf(site)?)],
            folders: Vec::new(),
            check: Some(tool(site, "nsd-checkconf")?.arg(&config)),
            before: Vec::new(),
            start: Cmd::new(site.program).args(["-d", "-c", &config]),
        })
    }

    fn control(&self, site: &Site<'_>, what: Control) -> Result<Option<Cmd>, Error> {
        let control = tool(site, "nsd-control")?.args(["-c", &site.path("nsd.conf")]);
        Ok(Some(match what {
            Control::Reload => control.args(["reload", &site.spec.zone.origin]),
            Control::Stats => control.arg("stats_noreset"),
        }))
    }

    /// `name=value` lines. It does not count answers; connections over TLS are none here.
    fn counted(&self, text: &str) -> Counted {
        let value_of = |name: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once('='));
            pairs.find(|(key, _)| *key == name).and_then(|(_, value)| value.trim().parse().ok())
        };
        Counted {
            udp: sum([value_of("num.udp"), value_of("num.udp6")]),
            tcp: sum([value_of("num.tcp"), value_of("num.tcp6")]),
            answers: None,
            truncated: value_of("num.truncated"),
            dropped: value_of("num.dropped"),
        }
    }

    fn classify(&self, line: &str) -> Line {
        if (line.contains("error: zone ") && line.contains(" errors"))
            || (line.contains("error: zonefile ") && line.contains("does not exist"))
        {
            Line::Refused
        } else if line.contains(" error: ") {
            Line::Error
        } else {
            Line::Other
        }
    }
}

/// The configuration. Control is by a socket in the folder, which needs no certificates.
fn nsd_conf(site: &Site<'_>) -> Result<String, Error> {
    let dir = quotable(&site.spec.label, "directory", site.dir)?;
    let zone_file = quotable(&site.spec.label, "zone.file", site.zone_file)?;
    let spec = site.spec;
    let addresses: String =
        site.listen.iter().map(|address| format!("\tip-address: {}\n", address.ip())).collect();
    // Until 4.8 zones were kept in a database file too, by default; since then the option is gone.
    let database = if site.at_least(&[4, 8]) { "" } else { "\tdatabase: \"\"\n" };
    Ok(format!(
        "remote-control:\n\
         \tcontrol-enable: yes\n\
         \tcontrol-interface: \"{control}\"\n\
         {key}\
         zone:\n\
         \tname: \"{origin}\"\n\
         \tzonefile: \"{zone_file}\"\n\
         {peers}\
         server:\n\
         \tserver-count: {workers}\n\
         \treuseport: yes\n\
         \tport: {port}\n\
         {addresses}\
         \tusername: \"\"\n\
         \tchroot: \"\"\n\
         \tzonesdir: \"{dir}\"\n\
         {database}\
         \tpidfile: \"{dir}/nsd.pid\"\n\
         \tlogfile: \"{dir}/nsd.log\"\n\
         \txfrdfile: \"{dir}/xfrd.state\"\n\
         \txfrdir: \"{dir}\"\n\
         \tzonelistfile: \"{dir}/zone.list\"\n\
         \tcookie-secret-file: \"{dir}/cookiesecrets\"\n\
         {timers}\
         \trrl-ratelimit: 0\n\
         \trrl-whitelist-ratelimit: 0\n\
         \tipv4-edns-size: {cap}\n\
         \tipv6-edns-size: {cap}\n\
         {extra}",
        control = site.socket("nsd.ctl"),
        origin = spec.zone.origin,
        workers = spec.workers,
        port = spec.port,
        cap = spec.udp_size,
        key = spec.distribution.as_ref().map_or_else(String::new, key),
        peers = spec.distribution.as_ref().map_or_else(String::new, peers),
        timers = timers(spec.distribution.as_ref()),
        extra = extra(spec),
    ))
}

fn key(part: &Replication) -> String {
    let TsigKey { name, algorithm, secret } = &part.key;
    format!("key:\n\tname: \"{name}\"\n\talgorithm: {algorithm}\n\tsecret: \"{secret}\"\n")
}

/// Where the zone comes from, and who gets NOTIFY and may transfer it. Differences are kept to be sent on.
fn peers(part: &Replication) -> String {
    let key = &part.key.name;
    let at = |a: &SocketAddr| format!("{}@{}", a.ip(), a.port());
    let from = |a: &SocketAddr| {
        format!("\trequest-xfr: {} \"{key}\"\n\tallow-notify: {} \"{key}\"\n", at(a), a.ip())
    };
    let mut text = Replication::each(&part.primaries, from);
    text += &Replication::each(&part.secondaries, |a| format!("\tnotify: {} \"{key}\"\n", at(a)));
    text += &format!("\tprovide-xfr: 0.0.0.0/0 \"{key}\"\n\tprovide-xfr: ::0/0 \"{key}\"\n");
    if part.ixfr {
        let (kept, size) = ("ixfr-number: 1000000", part.journal.unwrap_or(JOURNAL));
        // A secondary keeps what it was sent; a primary calculates it from the file that it reads again.
        let word = if part.is_secondary() { "store-ixfr" } else { "create-ixfr" };
        text += &format!("\t{word}: yes\n\t{kept}\n\tixfr-size: {size}\n");
    }
    text
}

/// Settings of the server that say how soon a change is served and written, and how many connections it serves at once
/// (`tcp-count`, 100 for each process). By default zones are written once an hour.
fn timers(part: Option<&Replication>) -> String {
    let Some(part) = part else { return "\tzonefiles-write: 0\n".into() };
    let write = if part.dump { "" } else { "\tzonefiles-write: 0\n" };
    let reload = if part.is_tuned() { "\txfrd-reload-timeout: 0\n\ttcp-count: 1000\n" } else { "" };
    format!("{write}{reload}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_added_over_families_of_addresses() {
        // Of NSD 4.6.
        let text = "server0.queries=17563\nnum.queries=17563\ntime.boot=4.737573\nnum.type.A=10591\n\
                    num.opcode.QUERY=17563\nnum.rcode.NXDOMAIN=15865\nnum.udp=17530\nnum.udp6=2\nnum.tcp=30\nnum.tcp6=1\n\
                    num.answer_wo_aa=1642\nnum.rxerr=0\nnum.truncated=109\nnum.dropped=3\nzone.master=1\n";
        let want = Counted {
            udp: Some(17_532),
            tcp: Some(31),
            answers: None,
            truncated: Some(109),
            dropped: Some(3),
        };
        assert_eq!(Nsd.counted(text), want);
        assert_eq!(Nsd.counted("error: could not connect"), Counted::default());
    }
}
