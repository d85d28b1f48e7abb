//! The interface of each server's file.

use crate::counted::Counted;
use crate::error::Error;
use crate::programs;
use crate::spec::ServerSpec;
use rack::{Cmd, Root};
use std::net::SocketAddr;
use std::path::Path;

/// The abilities of a server, as started here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Serves a changed zone file without a restart.
    pub reload: bool,
    /// Counts what it does, and tells.
    pub stats: bool,
    /// Takes dynamic updates (RFC 2136).
    pub update: bool,
    /// Signs what updates change, with the keys of the zone.
    pub signs: bool,
    /// Takes signatures and denials (RRSIG, NSEC) as updates, from a signer elsewhere.
    pub takes_signatures: bool,
    /// Serves incremental zone transfers (RFC 1995).
    pub ixfr_out: bool,
    /// Cuts UDP answers at [`ServerSpec::udp_size`], where the client would take more.
    pub udp_cap: bool,
    /// Answers for names at and below a delegation with a referral.
    pub referrals: bool,
    /// Serves zones that are signed already.
    pub signed: bool,
    /// Makes zone transfers that TSIG protects.
    pub transfers: bool,
}

impl Capabilities {
    /// What it cannot do of what is asked of it; none: it can. `signed`: to serve a zone that is signed already, `distributed`: to be a
    /// primary or a secondary.
    pub fn lacking(&self, signed: bool, distributed: bool) -> Option<&'static str> {
        if signed && !self.signed {
            Some("serves no zone that is signed already")
        } else if distributed && !self.transfers {
            Some("makes no zone transfers with TSIG")
        } else {
            None
        }
    }
}

/// The meaning of a line of a server's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Nothing of interest here.
    Other,
    /// Something failed.
    Error,
    /// The zone will not be served: no use in waiting.
    Refused,
}

/// The most by which memory grew in a large zone; larger ones were not measured.
const MOST_CROWDED: f64 = 0.45;

/// Memory in bytes that a server takes, by what its zone has: measured at a million delegations (docs/findings.md). Experiments refuse
/// trials that cannot fit by it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Without a zone.
    pub empty: u64,
    /// For each delegation, with its NS records.
    pub delegation: u64,
    /// For each other name that owns records.
    pub name: u64,
    /// For each RRset besides.
    pub rrset: u64,
    /// For each signature.
    pub signature: u64,
    /// For each NSEC record.
    pub nsec: u64,
    /// For each NSEC3 record, with its name.
    pub nsec3: u64,
    /// For each delegation of a zone with NSEC3 records, whether it has one or not.
    pub hashed: u64,
    /// Where more is taken for each name of a large zone: the names of the largest zone with which that is not so, and by how much
    /// the memory grows (0.5: half as much again) for each time that more names.
    pub crowding: Option<(u64, f64)>,
}

/// The time from an update to its answer, where nothing else is asked of the server (docs/findings.md).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Commit {
    /// Seconds in a small zone.
    pub least: f64,
    /// Seconds more for each name of the zone.
    pub name: f64,
    /// All that waits is done in one.
    pub together: bool,
}

impl Commit {
    /// Of a server that was not measured.
    pub const UNKNOWN: Self = Self { least: 0.002, name: 0.0, together: false };

    /// Seconds in a zone like this one.
    pub fn seconds(&self, zone: &zone::Contents) -> f64 {
        self.least + self.name * zone.names as f64
    }
}

impl Memory {
    /// The memory of a server that has a zone, in bytes.
    pub fn of(&self, zone: &zone::Contents) -> u64 {
        let counted = [
            (zone.delegations, self.delegation),
            (zone.names.saturating_sub(zone.delegations), self.name),
            (zone.rrsets, self.rrset),
            (zone.signatures, self.signature),
            (zone.nsec, self.nsec),
            (zone.nsec3, self.nsec3),
            (if zone.nsec3 > 0 { zone.delegations } else { 0 }, self.hashed),
        ];
        let sum = counted.iter().map(|(count, each)| count * each).sum::<u64>() as f64;
        let more = self.crowding.map_or(0.0, |(names, more)| {
            (more * (zone.names as f64 / names as f64 - 1.0)).clamp(0.0, MOST_CROWDED)
        });
        self.empty + (sum * (1.0 + more)) as u64
    }
}

/// The fixed facts of a server.
#[derive(Debug)]
pub struct Facts {
    /// The program's usual name.
    pub program: &'static str,
    /// Debian's packages that have the program and its tools, the program's first.
    pub package: &'static str,
    /// The argument that makes the program tell its version.
    pub version_flag: &'static str,
    /// Its abilities.
    pub can: Capabilities,
    /// The memory that it takes; none of a server that is not ours.
    pub memory: Option<Memory>,
    /// Seconds that it takes to load a record of a zone with a million delegations or more, on one core, as measured in the kept runs
    /// (docs/runs). A record of a much smaller zone takes less.
    pub start_per_record: f64,
    /// What an update takes where it is a primary.
    pub commit: Commit,
    /// Extra configuration that has a primary under updates acknowledge them without a sync; none where it has no such setting.
    pub without_syncs: Option<&'static str>,
    /// The log's name in the server's folder.
    pub log: &'static str,
    /// The file in that folder that counters are written to, where they are not on the tool's output.
    pub stats_file: Option<&'static str>,
}

/// Requests to a running server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Serve the zone file as it is now.
    Reload,
    /// Tell the counters.
    Stats,
}

/// Where and how a server is to run: what [`NameServer::prepare`] makes a configuration of.
#[derive(Clone, Debug)]
pub struct Site<'a> {
    /// The specification, checked.
    pub spec: &'a ServerSpec,
    /// The folder for everything it writes; absolute.
    pub dir: &'a Path,
    /// The zone file; absolute.
    pub zone_file: &'a Path,
    /// Where it listens.
    pub listen: &'a [SocketAddr],
    /// The program, as it is seen from the root.
    pub program: &'a Path,
    /// The root folder of the distribution that program and tools are of; none: this machine's.
    pub root: Option<&'a Root>,
    /// Its version, as it says itself, such as `9.18.49`.
    pub version: &'a str,
    /// A TCP address of the host for control, for those without control sockets in the file system.
    pub control: SocketAddr,
    /// A fresh secret of 32 bytes in base64 for the same.
    pub secret: &'a str,
    /// The packages of Debian that hold the program and its tools.
    pub package: &'static str,
}

impl Site<'_> {
    /// A path in the folder.
    pub fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// The path of a socket in the folder. Sockets' paths must be shorter than 108 bytes: in deeper folders the
    /// socket is named by way of the working folder, which is the server's and its tools'.
    pub fn socket(&self, name: &str) -> String {
        let path = self.path(name);
        if path.len() < 100 { path } else { format!("/proc/self/cwd/{name}") }
    }

    /// Whether the program's version is at least this one: major, minor, patch as far as given. Unknown versions are taken as
    /// newest.
    pub fn at_least(&self, version: &[u32]) -> bool {
        let parts = self.version.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok());
        let parts: Vec<u32> = parts.take(version.len()).collect();
        parts.len() < 2 || parts.as_slice() >= version
    }
}

/// A configuration, and the commands that go with it.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Files to be written into the folder: name and text. The first is the configuration.
    pub files: Vec<(&'static str, String)>,
    /// Folders to be made in it.
    pub folders: Vec<&'static str>,
    /// Checks the configuration: says the reason on its output, where it is wrong; see [`NameServer::accepted`]. None: there is no
    /// such command.
    pub check: Option<Cmd>,
    /// Commands to run before the start.
    pub before: Vec<Cmd>,
    /// Starts the server in the foreground.
    pub start: Cmd,
}

/// One name server: a file of the folder `servers`.
pub trait NameServer: Sync {
    /// Its fixed facts.
    fn facts(&self) -> &'static Facts;

    /// The configuration and commands for this site. Reads the zone file at most; writes nothing.
    fn prepare(&self, site: &Site<'_>) -> Result<Prepared, Error>;

    /// Whether the configuration is right, from how its check ended and what it said.
    fn accepted(&self, success: bool, _said: &str) -> bool {
        success
    }

    /// The command that asks this of the running server; `None`: it cannot do that.
    fn control(&self, site: &Site<'_>, what: Control) -> Result<Option<Cmd>, Error>;

    /// The command that has a secondary without a zone ask its primary again; `None`: it does so by itself.
    ///
    /// # Errors
    /// As [`Self::control`].
    fn urge(&self, _site: &Site<'_>) -> Result<Option<Cmd>, Error> {
        Ok(None)
    }

    /// Whether a control command that failed with these words has only lost patience, while the server goes on.
    fn still_works(&self, _said: &str) -> bool {
        false
    }

    /// The counters in its answer to [`Control::Stats`]; none of a text without any.
    fn counted(&self, _text: &str) -> Counted {
        Counted::default()
    }

    /// The meaning of a line of the log.
    fn classify(&self, line: &str) -> Line;
}

/// A tool that belongs to the site's program.
pub(crate) fn tool(site: &Site<'_>, name: &str) -> Result<Cmd, Error> {
    tool_of(site, name, site.package)
}

/// A tool that belongs to the site's program, and that Debian has in this package.
pub(crate) fn tool_of(site: &Site<'_>, name: &str, package: &'static str) -> Result<Cmd, Error> {
    Ok(Cmd::new(programs::tool(site, name, package)?).cwd(site.dir))
}

/// The extra configuration, ending in a newline where there is any.
pub(crate) fn extra(spec: &ServerSpec) -> String {
    match spec.config.as_deref().map(str::trim_end) {
        None | Some("") => String::new(),
        Some(text) => format!("{text}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;
    use crate::spec::ZoneRef;
    use std::path::PathBuf;

    #[test]
    fn versions_and_socket_paths() {
        let zone = ZoneRef { origin: ".".into(), file: "/z".into(), signed: false };
        let spec = ServerSpec::new(Kind::NSD, zone);
        let deep = PathBuf::from(format!("/{}", "d".repeat(120)));
        let mut site = Site {
            spec: &spec,
            dir: Path::new("/run/nsd"),
            zone_file: Path::new("/z"),
            listen: &[],
            program: Path::new("/usr/sbin/nsd"),
            root: None,
            version: "4.6.1",
            control: ([127, 0, 0, 1], 1).into(),
            secret: "",
            package: "nsd",
        };
        assert_eq!(site.socket("ctl"), "/run/nsd/ctl");
        assert!(site.at_least(&[4, 6]) && site.at_least(&[3, 9]));
        assert!(!site.at_least(&[4, 8]) && !site.at_least(&[5, 0]) && !site.at_least(&[4, 6, 2]));
        site.version = "9.20.1-1~deb12u3-Debian";
        assert!(site.at_least(&[9, 20]) && site.at_least(&[9, 18, 11]) && !site.at_least(&[9, 21]));
        site.version = "unknown";
        assert!(site.at_least(&[99, 0]));
        site.dir = &deep;
        assert_eq!(site.socket("ctl"), "/proc/self/cwd/ctl");
    }
}
