//! Knot DNS.
//!
//! `knotd` runs in the foreground as one process. It and `knotc` keep the configuration they read in a database below
//! /tmp whose files they unlink as soon as it is open: the one thing that any server writes outside its folder.
//!
//! Limits of updates and transfers that others have to be raised are out of the way by default: updates wait in a queue without a
//! bound and are committed together, `tcp-max-clients` is half of the limit on open files.
//!
//! A primary signs what is updated where it is given the keys (`dnssec-signing` with `manual` keys, which `keymgr import-bind`
//! takes in before the start). Without, updates with RRSIG and NSEC records are taken as they are.
//!
//! Extra configuration is appended: the last of two settings wins, a
//! section that is there already is added to. Lists (`zone:`, `template:`) refuse an identifier given twice, so the
//! zone's own settings are changed by a `template:` with `id: default`.

use crate::counted::{Counted, sum};
use crate::driver::{
    Capabilities, Commit, Control, Facts, Line, Memory, NameServer, Prepared, Site, extra, tool, tool_of,
};
use crate::error::Error;
use crate::quote::quotable;
use crate::replication::{JOURNAL, Replication, private_keys};
use rack::Cmd;
use std::net::SocketAddr;
use update::TsigKey;

pub(crate) struct Knot;

const FACTS: Facts = Facts {
    program: "knotd",
    package: "knot",
    version_flag: "--version",
    can: Capabilities {
        reload: true,
        stats: true,
        update: true,
        signs: true,
        takes_signatures: true,
        ixfr_out: true,
        udp_cap: true,
        referrals: true,
        signed: true,
        transfers: true,
    },
    memory: Some(Memory {
        empty: 11_000_000,
        delegation: 348,
        name: 637,
        rrset: 62,
        signature: 168,
        nsec: 117,
        nsec3: 2_856,
        hashed: 259,
        crowding: None,
    }),
    start_per_record: 6.2e-6,
    commit: Commit { least: 0.011, name: 3.8e-7, together: true },
    // LMDB's MDB_WRITEMAP and MDB_MAPASYNC.
    without_syncs: Some("database:\n    journal-db-mode: asynchronous\n"),
    log: "knot.log",
    stats_file: None,
};

impl NameServer for Knot {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn prepare(&self, site: &Site<'_>) -> Result<Prepared, Error> {
        let config = site.path("knot.conf");
        Ok(Prepared {
            files: vec![("knot.conf", knot_conf(site)?)],
            folders: vec!["db"],
            check: Some(tool(site, "knotc")?.args(["-c", &config, "conf-check"])),
            before: import_keys(site, &config)?,
            start: Cmd::new(site.program).args(["-c", &config]),
        })
    }

    fn control(&self, site: &Site<'_>, what: Control) -> Result<Option<Cmd>, Error> {
        let knotc = tool(site, "knotc")?.args(["-c", &site.path("knot.conf")]);
        // Without -b: knotc would only say that it failed, the log says why.
        Ok(Some(match what {
            Control::Reload => knotc.args(["zone-reload", &site.spec.zone.origin]),
            Control::Stats => knotc.args(["-f", "stats"]),
        }))
    }

    /// `name[of] = value` lines, which are there with the module `mod-stats` alone: by itself it counts zones. The
    /// module is not loaded for it, as it costs time with each query; extra configuration may have it.
    fn counted(&self, text: &str) -> Counted {
        let sum_of = |lead: &str| {
            sum(text
                .lines()
                .filter_map(|line| line.strip_prefix(lead)?.split_once(" = "))
                .map(|(_, n)| n.parse().ok()))
        };
        Counted {
            udp: sum_of("mod-stats.request-protocol[udp"),
            tcp: sum_of("mod-stats.request-protocol[tcp"),
            answers: sum_of("mod-stats.response-code["),
            truncated: None,
            dropped: None,
        }
    }

    fn classify(&self, line: &str) -> Line {
        if line.contains(" zone event 'load' failed") {
            Line::Refused
        } else if line.contains(" error: ") || line.contains(" critical: ") {
            Line::Error
        } else {
            Line::Other
        }
    }
}

/// Takes the keys of the primary's zone in, where it signs what changes itself.
fn import_keys(site: &Site<'_>, config: &str) -> Result<Vec<Cmd>, Error> {
    let Some(folder) = site.spec.distribution.as_ref().and_then(|part| part.keys.as_ref()) else {
        return Ok(Vec::new());
    };
    let keymgr = tool_of(site, "keymgr", "knot-keymgr, or knot up to Debian 13")?;
    let import = keymgr.args(["-c", config, &site.spec.zone.origin, "import-bind"]);
    let keys = private_keys(&site.spec.label, folder)?;
    Ok(keys.into_iter().map(|key| import.clone().arg(&key.file)).collect())
}

/// The configuration. The zone file is never written back, and no journal is kept: nothing but the zone file says
/// what is served.
fn knot_conf(site: &Site<'_>) -> Result<String, Error> {
    let dir = quotable(&site.spec.label, "directory", site.dir)?;
    let zone_file = quotable(&site.spec.label, "zone.file", site.zone_file)?;
    let spec = site.spec;
    let listen: Vec<String> =
        site.listen.iter().map(|address| format!("\"{}@{}\"", address.ip(), address.port())).collect();
    Ok(format!(
        "server:\n    \
             rundir: \"{dir}\"\n    \
             pidfile: \"{dir}/knot.pid\"\n    \
             listen: [ {listen} ]\n    \
             udp-workers: {workers}\n    \
             tcp-workers: {workers}\n    \
             background-workers: {workers}\n    \
             udp-max-payload: {cap}\n\
         control:\n    \
             listen: \"{control}\"\n\
         log:\n  \
           - target: \"{dir}/knot.log\"\n    \
             any: info\n\
         database:\n    \
             storage: \"{dir}/db\"\n\
         {journal}\
         {peers}\
         zone:\n  \
           - domain: \"{origin}\"\n    \
             file: \"{zone_file}\"\n\
         {changes}\
         {extra}",
        listen = listen.join(", "),
        workers = spec.workers,
        cap = spec.udp_size,
        control = site.socket("knot.sock"),
        origin = spec.zone.origin,
        journal = journal(spec.distribution.as_ref()),
        peers = spec.distribution.as_ref().map_or_else(String::new, peers),
        changes = changes(spec.distribution.as_ref()),
        extra = extra(spec),
    ))
}

/// The journal's database: room for all that a run writes (its addresses alone, 64 bits have plenty).
fn journal(part: Option<&Replication>) -> String {
    part.map_or_else(String::new, |_| format!("    journal-db-max-size: {}\n", 4 * JOURNAL))
}

/// The key, the other servers, and who may do what.
fn peers(part: &Replication) -> String {
    let TsigKey { name, algorithm, secret } = &part.key;
    let remote = |id: &str, list: &[SocketAddr]| -> String {
        let one = |(n, a): (usize, &SocketAddr)| {
            format!("  - id: {id}{n}\n    address: \"{}@{}\"\n    key: \"{name}\"\n", a.ip(), a.port())
        };
        list.iter().enumerate().map(one).collect()
    };
    let policy = match &part.keys {
        // The keys are those of the folder; none is made or rolled. Signatures must be renewed earlier before their end than the
        // longest TTL lasts, or the zone is refused; a root zone's is six days.
        Some(_) => "policy:\n  - id: rack\n    manual: on\n    rrsig-lifetime: 30d\n    rrsig-refresh: 14d\n",
        None => "",
    };
    let remotes = remote("primary", &part.primaries) + &remote("secondary", &part.secondaries);
    let remotes = if remotes.is_empty() { remotes } else { format!("remote:\n{remotes}") };
    format!(
        "key:\n  - id: \"{name}\"\n    algorithm: {algorithm}\n    secret: \"{secret}\"\n\
         {remotes}\
         acl:\n  - id: rack\n    key: \"{name}\"\n    action: [ transfer, notify{update} ]\n\
         {policy}",
        update = if part.updates { ", update" } else { "" },
    )
}

/// The zone's settings for changes. Without a part the zone file is never written back, and no journal is kept: the zone file
/// alone is served.
fn changes(part: Option<&Replication>) -> String {
    let Some(part) = part else { return "    zonefile-sync: -1\n    journal-content: none\n".into() };
    let list = |word: &str, id: &str, list: &[SocketAddr]| {
        let all: Vec<String> = (0..list.len()).map(|n| format!("{id}{n}")).collect();
        if all.is_empty() { String::new() } else { format!("    {word}: [ {} ]\n", all.join(", ")) }
    };
    // Without its zone file a secondary's journal has the whole zone.
    let content = if part.is_secondary() && !part.dump { "all" } else { "changes" };
    format!(
        "    zonefile-sync: {sync}\n    journal-content: {content}\n    journal-max-usage: {usage}\n    \
             journal-max-depth: 1000000\n    provide-ixfr: {ixfr}\n    acl: rack\n\
         {masters}{notify}{signing}",
        sync = if part.dump { 0 } else { -1 },
        usage = part.journal.unwrap_or(JOURNAL),
        ixfr = if part.ixfr { "on" } else { "off" },
        masters = list("master", "primary", &part.primaries),
        notify = list("notify", "secondary", &part.secondaries),
        signing = if part.keys.is_some() { "    dnssec-signing: on\n    dnssec-policy: rack\n" } else { "" },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_those_of_the_module() {
        // Of Knot 3.2, with `global-module: mod-stats`.
        let text = "server.zone-count = 1\nmod-stats.request-protocol[udp4] = 5006\n\
                    mod-stats.request-protocol[tcp4] = 15\nmod-stats.request-protocol[quic4] = 0\n\
                    mod-stats.request-protocol[udp6] = 2\nmod-stats.request-protocol[udp4-xdp] = 0\n\
                    mod-stats.server-operation[query] = 5023\nmod-stats.response-bytes[reply] = 2762631\n\
                    mod-stats.response-code[NOERROR] = 3522\nmod-stats.response-code[NXDOMAIN] = 1501\n";
        let want =
            Counted { udp: Some(5008), tcp: Some(15), answers: Some(5023), truncated: None, dropped: None };
        assert_eq!(Knot.counted(text), want);
        assert_eq!(Knot.counted("server.zone-count = 1\n"), Counted::default());
    }
}
