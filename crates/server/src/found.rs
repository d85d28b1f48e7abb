//! Finding servers and their tools on this machine.

use crate::driver::NameServer;
use crate::error::{Error, Problem};
use crate::kind::Kind;
use crate::programs::{looked, missing, on_path, runs};
use crate::servers::driver;
use crate::spec::{ServerSpec, ZoneRef};
use crate::tool::Tools;
use rack::{Cmd, Host, Local, Root};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Which program a server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its kind.
    pub kind: Kind,
    /// A path, or a name that is looked for; none: the usual one of its kind.
    pub path: Option<PathBuf>,
    /// The root folder of the distribution that it is taken from; none: this machine's.
    pub root: Option<PathBuf>,
}

impl Program {
    /// The usual one of a kind.
    pub fn of(kind: Kind) -> Self {
        Self { kind, path: None, root: None }
    }
}

/// An installed server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The program, as it is seen from its root.
    pub path: PathBuf,
    /// Its version, as it says itself, such as `9.18.49-1~deb12u3-Debian`.
    pub version: String,
    /// The release of the distribution whose root it is taken from.
    pub release: Option<String>,
}

/// The server of this kind that would be started where no program is named; `None`: it is not installed, or it cannot even
/// tell its version. Always `None` for [`Kind::EXTERNAL`].
pub fn installed(kind: Kind) -> Option<Found> {
    found(&Program::of(kind)).ok()
}

/// The program that would be started, with its version.
///
/// # Errors
/// [`Problem::Missing`]; [`Problem::Rack`] where the root cannot be used, or the program not be started.
pub fn found(program: &Program) -> Result<Found, Error> {
    let (kind, (root, path)) = (program.kind, place(program)?);
    let home = Host::loopback();
    let tools = Tools { launcher: &Local, host: &home, label: kind.name(), root: root.as_ref(), stop: None };
    let version = version(tools, driver(kind), &path)?;
    Ok(Found { path, version, release: root.and_then(|root| root.release()) })
}

/// Whether the program is installed. The program is not started, as [`found`] does to ask for the version.
pub fn is_there(program: &Program) -> bool {
    place(program).is_ok()
}

/// Its root, and where it is as it is seen from there.
fn place(program: &Program) -> Result<(Option<Root>, PathBuf), Error> {
    let zone = ZoneRef { origin: ".".into(), file: PathBuf::new(), signed: false };
    let spec = ServerSpec {
        program: program.path.clone(),
        root: program.root.clone(),
        ..ServerSpec::new(program.kind, zone)
    };
    let root = root(&spec)?;
    let path = self::program(&spec, root.as_ref())?;
    Ok((root, path))
}

/// The root that a specification names.
pub(crate) fn root(spec: &ServerSpec) -> Result<Option<Root>, Error> {
    let root = spec.root.as_deref().map(Root::new).transpose();
    root.map_err(|e| Error::new(&spec.label, Problem::Rack(e)))
}

/// The program of a build: the file named, or in the folder that it is installed under or was built in; none where nothing
/// there can be run.
pub fn program_in(kind: Kind, build: &Path) -> Option<PathBuf> {
    let build = std::path::absolute(build).ok()?;
    let name = driver(kind).facts().program;
    let places =
        [build.clone(), build.join("sbin").join(name), build.join("bin").join(name), build.join(name)];
    places.into_iter().find(|path| runs(path, None))
}

/// The packages of Debian that hold a server and its tools, as `apt-get install` takes them.
pub fn package(kind: Kind) -> &'static str {
    driver(kind).facts().package
}

/// The program to start, as it is seen from the root: the one named, or the usual one.
pub(crate) fn program(spec: &ServerSpec, root: Option<&Root>) -> Result<PathBuf, Error> {
    let usual = Path::new(driver(spec.kind).facts().program);
    let named = spec.program.as_deref().unwrap_or(usual);
    if named.components().count() == 1 {
        return on_path(named, root).ok_or_else(|| missing(spec, named, looked(root), package(spec.kind)));
    }
    if !runs(named, root) {
        return Err(missing(spec, named, "a program that can be run".into(), package(spec.kind)));
    }
    // Relative to us, not to the server's folder.
    std::path::absolute(named).map_err(|e| Error::file(&spec.label, "find", named, e))
}

/// The version that a program tells.
pub(crate) fn version(tools: Tools<'_>, driver: &dyn NameServer, program: &Path) -> Result<String, Error> {
    // PowerDNS tells it with exit status 99.
    let (_, said) = tools.outcome(&Cmd::new(program).arg(driver.facts().version_flag))?;
    Ok(number(&said).unwrap_or("unknown").into())
}

/// The version in a program's self-description: the first word that is a dotted number, with what hangs on it.
fn number(said: &str) -> Option<&str> {
    let dotted = |word: &&str| {
        let mut parts = word.split('.');
        let numeric = |part: Option<&str>| {
            part.is_some_and(|part| part.starts_with(|c: char| c.is_ascii_digit()) && !part.contains(':'))
        };
        numeric(parts.next()) && numeric(parts.next())
    };
    said.split_whitespace().find(dotted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        assert_eq!(
            number("BIND 9.18.49-1~deb12u3-Debian (Extended Support Version) <id:>"),
            Some("9.18.49-1~deb12u3-Debian")
        );
        assert_eq!(number("NSD version 4.6.1\nWritten by NLnet Labs.\n"), Some("4.6.1"));
        assert_eq!(number("knotd (Knot DNS), version 3.2.6\n"), Some("3.2.6"));
        assert_eq!(
            number("Nov 21 03:57:20 PowerDNS Authoritative Server 4.7.3 (C) 2001-2022"),
            Some("4.7.3")
        );
        assert_eq!(number("yadifad 2.6.4-10892 (2023-03-01)\n"), Some("2.6.4-10892"));
        assert_eq!(number("no version at all"), None);
    }

    #[test]
    fn external_is_never_installed() {
        assert_eq!(installed(Kind::EXTERNAL), None);
    }
}
