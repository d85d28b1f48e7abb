//! BIND 9.
//!
//! `named` runs in the foreground with its log in `named.log` (`-L`), which needs no `logging` statement: the
//! lines before and after reading the configuration are in one file. Control is by `rndc` over a TCP port of
//! the host's loopback with a secret of this start alone: BIND gave up control sockets in the file system.
//!
//! Limits of updates and transfers that are raised where timers are tuned: `update-quota` (100: so many updates wait at once,
//! one more is dropped without an answer; since 9.18.11 a setting), `tcp-clients` (150), `transfers-in` and `-out` (10),
//! `transfers-per-ns` (2), and the rates of NOTIFY and SOA queries (20 a second).
//!
//! A primary signs what is updated in a signed zone by itself, with the private keys that it finds in `key-directory`; no policy
//! is needed for that, and none is set, as that would replace keys. It takes no signatures from others: RRSIG (but at the apex) and
//! NSEC in an update are refused, whether or not it has keys; an update of a signed zone without keys fails (SERVFAIL).
//!
//! Extra configuration goes into the `options` block. BIND refuses a statement given twice, so a statement of ours
//! is left out where the extra text has it: `minimal-responses yes; max-udp-size 4096;` just works.

use crate::counted::{Counted, sum};
use crate::driver::{
    Capabilities, Commit, Control, Facts, Line, Memory, NameServer, Prepared, Site, extra, tool,
};
use crate::error::Error;
use crate::quote::quotable;
use crate::replication::{JOURNAL, Replication};
use rack::Cmd;
use std::net::SocketAddr;

pub(crate) struct Bind;

const FACTS: Facts = Facts {
    program: "named",
    package: "bind9 bind9-utils",
    version_flag: "-v",
    can: Capabilities {
        reload: true,
        stats: true,
        update: true,
        signs: true,
        takes_signatures: false,
        ixfr_out: true,
        udp_cap: true,
        referrals: true,
        signed: true,
        transfers: true,
    },
    memory: Some(Memory {
        empty: 37_000_000,
        delegation: 169,
        name: 120,
        rrset: 195,
        signature: 358,
        nsec: 310,
        nsec3: 353,
        hashed: 0,
        crowding: None,
    }),
    start_per_record: 6.5e-6,
    commit: Commit { least: 0.000_78, name: 0.0, together: false },
    without_syncs: None,
    log: "named.log",
    stats_file: Some("named.stats"),
};

impl NameServer for Bind {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn prepare(&self, site: &Site<'_>) -> Result<Prepared, Error> {
        let config = site.path("named.conf");
        Ok(Prepared {
            files: vec![("named.conf", named_conf(site)?), ("rndc.conf", rndc_conf(site))],
            folders: Vec::new(),
            check: Some(tool(site, "named-checkconf")?.arg(&config)),
            before: Vec::new(),
            start: Cmd::new(site.program)
                .args(["-f", "-c", &config, "-L", &site.path(FACTS.log)])
                .args(["-n", &site.spec.workers.to_string()]),
        })
    }

    fn control(&self, site: &Site<'_>, what: Control) -> Result<Option<Cmd>, Error> {
        let rndc = tool(site, "rndc")?.args(["-c", &site.path("rndc.conf")]);
        Ok(Some(match what {
            Control::Reload => rndc.args(["reload", &site.spec.zone.origin]),
            Control::Stats => rndc.arg("stats"),
        }))
    }

    /// Lines of a number and words in the section on the server; what never happened has no line.
    fn counted(&self, text: &str) -> Counted {
        let mut sections = text.split("\n++ ");
        let Some(section) = sections.find_map(|s| s.strip_prefix("Name Server Statistics ++\n")) else {
            return Counted::default();
        };
        let count_of = |words: &str| {
            let mut lines = section.lines().filter_map(|line| line.trim_start().split_once(' '));
            Some(lines.find(|(_, what)| *what == words).map_or(0, |(n, _)| n.parse().unwrap_or(0)))
        };
        Counted {
            udp: count_of("UDP queries received"),
            tcp: count_of("TCP queries received"),
            answers: count_of("responses sent"),
            truncated: count_of("truncated responses sent"),
            dropped: sum([
                count_of("queries dropped"),
                count_of("duplicate queries received"),
                count_of("responses dropped for rate limits"),
            ]),
        }
    }

    fn classify(&self, line: &str) -> Line {
        // "all zones loaded" is logged even if one failed.
        if line.contains("not loaded due to errors") {
            Line::Refused
        } else if line.contains(": error: ") || line.contains(": critical: ") {
            Line::Error
        } else {
            Line::Other
        }
    }
}

/// The configuration. BIND 9.11 and later take it (hence `master`, which all of them know).
fn named_conf(site: &Site<'_>) -> Result<String, Error> {
    let dir = quotable(&site.spec.label, "directory", site.dir)?;
    let zone_file = quotable(&site.spec.label, "zone.file", site.zone_file)?;
    let cap = site.spec.udp_size;
    let part = site.spec.distribution.as_ref();
    let mut options = vec![
        ("directory", format!("\"{dir}\"")),
        ("pid-file", format!("\"{dir}/named.pid\"")),
        ("session-keyfile", format!("\"{dir}/session.key\"")),
        ("managed-keys-directory", format!("\"{dir}\"")),
        ("bindkeys-file", format!("\"{dir}/bind.keys\"")),
        ("statistics-file", format!("\"{dir}/named.stats\"")),
        ("listen-on", listen(site, SocketAddr::is_ipv4)),
        ("listen-on-v6", listen(site, SocketAddr::is_ipv6)),
        ("recursion", "no".into()),
        ("dnssec-validation", "no".into()),
        ("allow-query", "{ any; }".into()),
        ("querylog", "no".into()),
        ("max-udp-size", cap.to_string()),
        ("edns-udp-size", cap.to_string()),
    ];
    options.extend(distributing(site, dir)?);
    let theirs = statements(site.spec.config.as_deref().unwrap_or_default());
    let ours: String = options
        .iter()
        .filter(|(name, _)| !theirs.iter().any(|their| their == name))
        .map(|(name, value)| format!("\t{name} {value};\n"))
        .collect();
    let Site { spec, control, secret, .. } = site;
    Ok(format!(
        "options {{\n{ours}{}}};\n\
         key \"rndc\" {{ algorithm hmac-sha256; secret \"{secret}\"; }};\n\
         controls {{\n\tinet {} port {} allow {{ {}; }} keys {{ \"rndc\"; }};\n}};\n\
         {}zone \"{}\" {{\n{}}};\n",
        extra(spec),
        control.ip(),
        control.port(),
        control.ip(),
        part.map_or_else(String::new, |part| part.key.bind()),
        spec.zone.origin,
        zone(part, zone_file),
    ))
}

/// Options for notifications and transfers, and their timers.
fn distributing(site: &Site<'_>, dir: &str) -> Result<Vec<(&'static str, String)>, Error> {
    let Some(part) = &site.spec.distribution else {
        return Ok(vec![
            ("key-directory", format!("\"{dir}\"")),
            ("allow-transfer", "{ none; }".into()),
            ("notify", "no".into()),
        ]);
    };
    let keys = match &part.keys {
        Some(folder) => quotable(&site.spec.label, "distribution.keys", folder)?,
        None => dir,
    };
    let mut options = vec![
        ("key-directory", format!("\"{keys}\"")),
        ("allow-transfer", format!("{{ key \"{}\"; }}", part.key.name)),
        ("notify", if part.secondaries.is_empty() { "no" } else { "explicit" }.into()),
        ("provide-ixfr", if part.ixfr { "yes" } else { "no" }.into()),
        ("max-journal-size", part.journal.unwrap_or(JOURNAL).to_string()),
    ];
    if part.keys.is_some() && !site.at_least(&[9, 20]) {
        // Signatures that are valid for less than 7.5 days more are renewed in the background by default: all that a signer
        // made for a week, while we measure. From 9.20 on a policy alone says so.
        options.push(("sig-validity-interval", "14 1".into()));
    }
    if part.is_tuned() {
        if site.at_least(&[9, 18, 11]) {
            options.push(("update-quota", MANY.into()));
        }
        options.push(("tcp-clients", MANY.into()));
        options.push(("notify-delay", "0".into()));
        for rate in ["notify-rate", "startup-notify-rate", "serial-query-rate"] {
            options.push((rate, "10000".into()));
        }
        for most in ["transfers-in", "transfers-out", "transfers-per-ns"] {
            options.push((most, "1000".into()));
        }
    }
    Ok(options)
}

/// More than any sender has under way.
const MANY: &str = "65536";

/// The statements of the zone.
fn zone(part: Option<&Replication>, file: &str) -> String {
    let Some(part) = part else { return format!("\ttype master;\n\tfile \"{file}\";\n") };
    let key = &part.key.name;
    let at = |a: &SocketAddr| format!(" {} port {} key \"{key}\";", a.ip(), a.port());
    let mut text = match part.is_secondary() {
        false => format!("\ttype master;\n\tfile \"{file}\";\n"),
        true => format!("\ttype slave;\n\tmasters {{{} }};\n", Replication::each(&part.primaries, at)),
    };
    // A secondary without a file keeps no copy, and no journal either.
    if part.is_secondary() && part.dump {
        text += &format!("\tfile \"{file}\";\n");
    }
    if part.updates {
        text += &format!("\tallow-update {{ key \"{key}\"; }};\n");
    }
    if !part.secondaries.is_empty() {
        text += &format!("\talso-notify {{{} }};\n", Replication::each(&part.secondaries, at));
    }
    text
}

fn rndc_conf(site: &Site<'_>) -> String {
    let Site { control, secret, .. } = site;
    format!(
        "key \"rndc\" {{ algorithm hmac-sha256; secret \"{secret}\"; }};\n\
         options {{\n\tdefault-key \"rndc\";\n\tdefault-server {};\n\tdefault-port {};\n}};\n",
        control.ip(),
        control.port()
    )
}

/// The value of `listen-on` or `listen-on-v6`. Nothing of a family: none, as the default would be all.
fn listen(site: &Site<'_>, family: fn(&SocketAddr) -> bool) -> String {
    let addresses: Vec<String> =
        site.listen.iter().filter(|a| family(a)).map(|a| format!("{};", a.ip())).collect();
    if addresses.is_empty() {
        return "{ none; }".into();
    }
    format!("port {} {{ {} }}", site.spec.port, addresses.join(" "))
}

/// The names of the statements at the top level of `text`, which is what stands inside an `options` block:
/// words at its start or after a `;` outside braces, quotes and comments.
fn statements(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut depth, mut expect, mut rest) = (0_u32, true, text);
    while let Some(c) = rest.chars().next() {
        let comment_end = match c {
            '#' => Some("\n"),
            '/' if rest.starts_with("//") => Some("\n"),
            '/' if rest.starts_with("/*") => Some("*/"),
            '"' => Some("\""),
            _ => None,
        };
        if let Some(end) = comment_end {
            let body = &rest[end.len().min(rest.len())..];
            rest = body.find(end).map_or("", |at| &body[at + end.len()..]);
            continue;
        }
        let word = rest.find(|c: char| c.is_whitespace() || "{};\"#".contains(c)).unwrap_or(rest.len());
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ';' => expect = depth == 0,
            _ if word > 0 => {
                if std::mem::take(&mut expect) {
                    names.push(rest[..word].to_ascii_lowercase());
                }
                rest = &rest[word..];
                continue;
            }
            _ => (),
        }
        rest = &rest[c.len_utf8()..];
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_those_of_the_server() {
        // Of BIND 9.18.
        let text = "+++ Statistics Dump +++ (1795313095)\n++ Incoming Requests ++\n               17585 QUERY\n\
                    ++ Outgoing Rcodes ++\n               16043 NOERROR\n\
                    ++ Name Server Statistics ++\n               17583 IPv4 requests received\n\
                    \x20                  2 IPv6 requests received\n               13232 requests with EDNS(0) received\n\
                    \x20                 31 TCP requests received\n               17585 responses sent\n\
                    \x20                 23 truncated responses sent\n                   4 queries dropped\n\
                    \x20              17554 UDP queries received\n                  31 TCP queries received\n\
                    ++ Zone Maintenance Statistics ++\n++ Resolver Statistics ++\n[Common]\n\
                    \x20                  9 truncated responses sent\n--- Statistics Dump --- (1795313095)\n";
        let counted = Bind.counted(text);
        let want = Counted {
            udp: Some(17_554),
            tcp: Some(31),
            answers: Some(17_585),
            truncated: Some(23),
            dropped: Some(4),
        };
        assert_eq!(counted, want);
        // BIND does not print counters that are zero.
        let without = text.replace("                  31 TCP queries received\n", "");
        assert_eq!(Bind.counted(&without), Counted { tcp: Some(0), ..want });
        assert_eq!(Bind.counted("rndc: connect failed"), Counted::default());
    }

    #[test]
    fn statements_are_found_at_the_top_level_only() {
        let text = "minimal-responses yes; // recursion yes;\n\
                    # notify yes;\n/* querylog yes; */ allow-transfer { 10.0.0.0/8; none; };\n\
                    version \"a; notify yes;\";\trate-limit {\n responses-per-second 5; slip 2; }; Max-Udp-Size 4096;";
        let names = ["minimal-responses", "allow-transfer", "version", "rate-limit", "max-udp-size"];
        assert_eq!(statements(text), names);
        assert!(statements("").is_empty());
        assert_eq!(statements("a"), ["a"]);
    }

    #[test]
    fn statements_ends_on_anything() {
        let mut draw = 1_u64;
        for _ in 0..20_000 {
            let text: String = (0..20)
                .map(|_| {
                    draw =
                        draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    ["{", "}", ";", "\"", "/*", "*/", "//", "#", "\n", " ", "a", "ü"]
                        [(draw >> 33) as usize % 12]
                })
                .collect();
            let names = statements(&text);
            assert!(names.iter().all(|name| !name.is_empty() && text.contains(name.as_str())), "{text:?}");
        }
    }
}
