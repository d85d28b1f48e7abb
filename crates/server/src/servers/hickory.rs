//! Hickory DNS. Found out by trial with versions 0.24.4 (Debian 13) and 0.26.3 (Debian testing):
//!
//! * It gives no right referrals. With 0.24.4, names below a delegation get NXDOMAIN with AA. With 0.26.3 they get the delegation's NS
//!   records, but with AA and without glue. In both, a delegation's NS records come as an answer. So it is not right for the zones of a root
//!   or a TLD, and trials on them say so. Zones without delegations are served rightly.
//! * A zone file with RRSIG records is refused ("RRSIG should be dynamically generated"): it signs zones itself, and takes none that are signed.
//! * Zone transfers and updates know no TSIG, so it has no part in a distribution here.
//! * 0.24.4 answers with four threads, whatever `workers` says. Both read all messages of an address on one socket.
//! * When root starts 0.26.3, it changes to the user and group `nobody` once it listens. Debian has no group of that name, so it would end. Our
//!   configuration therefore names root for both. 0.24.4 always stays root, and ignores these two keys.
//! * There is no reload, there are no counters, there is no checker of the configuration: a key that it does not know is left out without a
//!   word, and a zone file with an error ends the program with the error on standard error.
//! * UDP answers end at the client's size.
//!
//! It logs each query, unless it is run with `--quiet`, when it logs errors alone.
//!
//! Extra configuration goes before the zone, so that it may be keys of the first level or tables such as `[[zones]]`.

use crate::driver::{Capabilities, Commit, Control, Facts, Line, NameServer, Prepared, Site, extra};
use crate::error::Error;
use crate::quote::quotable;
use rack::{Cmd, Output};
use std::net::IpAddr;

pub(crate) struct Hickory;

const FACTS: Facts = Facts {
    program: "hickory-dns",
    package: "hickory-dns",
    version_flag: "--version",
    can: Capabilities {
        reload: false,
        stats: false,
        update: false,
        signs: false,
        takes_signatures: false,
        ixfr_out: false,
        udp_cap: false,
        referrals: false,
        signed: false,
        transfers: false,
    },
    memory: None,
    start_per_record: 5e-6,
    commit: Commit::UNKNOWN,
    without_syncs: None,
    log: "hickory.log",
    stats_file: None,
};

impl NameServer for Hickory {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn prepare(&self, site: &Site<'_>) -> Result<Prepared, Error> {
        let config = site.path("hickory.toml");
        Ok(Prepared {
            files: vec![("hickory.toml", hickory_toml(site)?)],
            folders: Vec::new(),
            check: None,
            before: Vec::new(),
            start: Cmd::new(site.program)
                .args(["--quiet", "--config", &config])
                .stderr(Output::File(site.dir.join(FACTS.log))),
        })
    }

    fn control(&self, _site: &Site<'_>, _what: Control) -> Result<Option<Cmd>, Error> {
        Ok(None)
    }

    fn classify(&self, line: &str) -> Line {
        if line.contains("could not load zone") {
            Line::Refused
        } else if line.contains(":ERROR:") || line.contains("panicked at") {
            Line::Error
        } else {
            Line::Other
        }
    }
}

fn hickory_toml(site: &Site<'_>) -> Result<String, Error> {
    let dir = quotable(&site.spec.label, "directory", site.dir)?;
    let zone_file = quotable(&site.spec.label, "zone.file", site.zone_file)?;
    let listen = |wanted: fn(&IpAddr) -> bool| {
        let ips = site.listen.iter().map(|address| address.ip()).filter(wanted);
        ips.map(|ip| format!("\"{ip}\"")).collect::<Vec<_>>().join(", ")
    };
    Ok(format!(
        "listen_addrs_ipv4 = [{v4}]\n\
         listen_addrs_ipv6 = [{v6}]\n\
         listen_port = {port}\n\
         directory = \"{dir}\"\n\
         user = \"root\"\n\
         group = \"root\"\n\
         {extra}\
         [[zones]]\n\
         zone = \"{origin}\"\n\
         zone_type = \"Primary\"\n\
         file = \"{zone_file}\"\n",
        v4 = listen(IpAddr::is_ipv4),
        v6 = listen(IpAddr::is_ipv6),
        port = site.spec.port,
        extra = extra(site.spec),
        origin = site.spec.zone.origin,
    ))
}
