//! Knot DNS.
//!
//! `knotd` runs in the foreground as one process. It and `knotc` keep the configuration they read in a database below
//! /tmp whose files they unlink as soon as it is open: the one thing that any server writes outside its folder.
//!
//! Extra configuration is appended: the last of two settings wins, a
//! section that is there already is added to. Lists (`zone:`, `template:`) refuse an identifier given twice, so the
//! zone's own settings are changed by a `template:` with `id: default`.

use crate::counted::{Counted, sum};
use crate::driver::{Capabilities, Control, NameServer, Prepared, Site, extra, tool};
use crate::error::Error;
use crate::log::Line;
use crate::spec::quotable;
use rack::Cmd;

pub(crate) struct Knot;

impl NameServer for Knot {
    fn program(&self) -> &'static str {
        "knotd"
    }

    fn package(&self) -> &'static str {
        "knot"
    }

    fn version_flag(&self) -> &'static str {
        "--version"
    }

    fn can(&self) -> Capabilities {
        Capabilities { reload: true, stats: true, update: true, ixfr_out: true, udp_cap: true }
    }

    fn prepare(&self, site: &Site<'_>) -> Result<Prepared, Error> {
        let config = site.path("knot.conf");
        Ok(Prepared {
            files: vec![("knot.conf", knot_conf(site)?)],
            folders: vec!["db"],
            check: tool(site, "knotc")?.args(["-c", &config, "conf-check"]),
            before: Vec::new(),
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

    fn log(&self) -> &'static str {
        "knot.log"
    }

    /// `name[of] = value` lines, which are there with the module `mod-stats` alone: by itself it counts zones. The
    /// module is not loaded for it, as it costs time with each query; extra configuration may have it.
    fn counted(&self, text: &str) -> Counted {
        let of = |lead: &str| {
            sum(text
                .lines()
                .filter_map(|line| line.strip_prefix(lead)?.split_once(" = "))
                .map(|(_, n)| n.parse().ok()))
        };
        Counted {
            udp: of("mod-stats.request-protocol[udp"),
            tcp: of("mod-stats.request-protocol[tcp"),
            answers: of("mod-stats.response-code["),
            truncated: None,
            dropped: None,
        }
    }

    fn judge(&self, line: &str) -> Line {
        if line.contains(" zone event 'load' failed") {
            Line::Refused
        } else if line.contains(" error: ") || line.contains(" critical: ") {
            Line::Error
        } else {
            Line::Other
        }
    }
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
         zone:\n  \
           - domain: \"{origin}\"\n    \
             file: \"{zone_file}\"\n    \
             zonefile-sync: -1\n    \
             journal-content: none\n\
         {extra}",
        listen = listen.join(", "),
        workers = spec.workers,
        cap = spec.udp_size,
        control = site.socket("knot.sock"),
        origin = spec.zone.origin,
        extra = extra(spec),
    ))
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
