//! Finding servers and their tools on this machine.

use crate::driver::NameServer;
use crate::error::Error;
use crate::kind::Kind;
use crate::programs::{looked, missing, on_path, runs};
use crate::servers::driver;
use crate::spec::ServerSpec;
use crate::tool::Tools;
use rack::{Cmd, Host, Local};
use std::path::{Path, PathBuf};

/// An installed server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The program.
    pub path: PathBuf,
    /// Its version, as it says itself, such as `9.18.49-1~deb12u3-Debian`.
    pub version: String,
}

/// The server of this kind that would be started where no program is named; `None`: it is not installed, or it cannot even
/// tell its version. Always `None` for [`Kind::EXTERNAL`].
pub fn installed(kind: Kind) -> Option<Found> {
    found(kind, None)
}

/// The same of a program: a path, or a name that is looked for on PATH; none: the usual one of its kind.
pub fn found(kind: Kind, program: Option<&Path>) -> Option<Found> {
    let path = match program {
        Some(path) if path.components().count() > 1 => {
            std::path::absolute(path).ok().filter(|path| runs(path))?
        }
        Some(name) => on_path(name)?,
        None => on_path(driver(kind).facts().program)?,
    };
    let home = Host::loopback();
    let tools = Tools { launcher: &Local, host: &home, label: kind.name(), stop: None };
    let version = version(tools, driver(kind), &path).ok()?;
    Some(Found { path, version })
}

/// The program of a build: the file named, or in the folder that it is installed under or was built in; none where nothing
/// there can be run.
pub fn program_in(kind: Kind, build: &Path) -> Option<PathBuf> {
    let build = std::path::absolute(build).ok()?;
    let name = driver(kind).facts().program;
    let places =
        [build.clone(), build.join("sbin").join(name), build.join("bin").join(name), build.join(name)];
    places.into_iter().find(|path| runs(path))
}

/// The packages of Debian that hold a server and its tools, as `apt-get install` takes them.
pub fn package(kind: Kind) -> &'static str {
    driver(kind).facts().package
}

/// The program to start: the one named, or the usual one.
pub(crate) fn program(spec: &ServerSpec) -> Result<PathBuf, Error> {
    match &spec.program {
        Some(path) if path.components().count() > 1 => {
            if runs(path) {
                // Relative to us, not to the server's folder.
                std::path::absolute(path).map_err(|e| Error::file(&spec.label, "find", path, e))
            } else {
                Err(missing(spec, path, "a program that can be run".into(), package(spec.kind)))
            }
        }
        Some(name) => on_path(name).ok_or_else(|| missing(spec, name, looked(), package(spec.kind))),
        None => {
            let name = Path::new(driver(spec.kind).facts().program);
            on_path(name).ok_or_else(|| missing(spec, name, looked(), package(spec.kind)))
        }
    }
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
