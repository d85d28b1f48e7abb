//! Looking for programs on this machine.

use crate::error::{Error, Problem};
use crate::spec::ServerSpec;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A tool of the program: beside it, or in the sbin or bin next to its folder (a build installed under a prefix of its
/// own), or the system's.
pub(crate) fn tool(
    spec: &ServerSpec,
    program: &Path,
    name: &str,
    package: &'static str,
) -> Result<PathBuf, Error> {
    let beside = program.parent().unwrap_or(Path::new("/"));
    let prefix = beside.parent().unwrap_or(Path::new("/"));
    let near = [beside.join(name), prefix.join("sbin").join(name), prefix.join("bin").join(name)];
    near.into_iter().find(|path| runs(path)).or_else(|| on_path(name)).ok_or_else(|| {
        missing(spec, Path::new(name), format!("beside {} nor {}", program.display(), looked()), package)
    })
}

/// The error of a program that is not there.
pub(crate) fn missing(spec: &ServerSpec, program: &Path, looked: String, package: &'static str) -> Error {
    let problem = Problem::Missing { kind: spec.kind, program: program.into(), looked, package };
    Error::new(&spec.label, problem)
}

/// Folders searched after PATH: servers live in sbin, which a user's PATH lacks on Debian.
const SBIN: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

pub(crate) fn looked() -> String {
    format!("on PATH nor in {}", SBIN.join(", "))
}

pub(crate) fn on_path(name: impl AsRef<Path>) -> Option<PathBuf> {
    let name = name.as_ref();
    if name.as_os_str().is_empty() {
        return None;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    folders.chain(SBIN.map(PathBuf::from)).map(|folder| folder.join(name)).find(|path| runs(path))
}

pub(crate) fn runs(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
