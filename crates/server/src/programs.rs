//! Looking for programs on this machine.

use crate::driver::Site;
use crate::error::{Error, Problem};
use crate::spec::ServerSpec;
use rack::Root;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A tool of the program: beside it, or in the sbin or bin next to its folder (a build installed under a prefix of its
/// own), or the system's. Debian has it in `package`.
pub(crate) fn tool(site: &Site<'_>, name: &str, package: &'static str) -> Result<PathBuf, Error> {
    let (program, root) = (site.program, site.root);
    let beside = program.parent().unwrap_or(Path::new("/"));
    let prefix = beside.parent().unwrap_or(Path::new("/"));
    let near = [beside.join(name), prefix.join("sbin").join(name), prefix.join("bin").join(name)];
    near.into_iter().find(|path| runs(path, root)).or_else(|| on_path(name, root)).ok_or_else(|| {
        let places = format!("beside {} nor {}", program.display(), looked(root));
        missing(site.spec, Path::new(name), places, package)
    })
}

/// The error of a program that is not there.
pub(crate) fn missing(spec: &ServerSpec, program: &Path, looked: String, package: &'static str) -> Error {
    let problem = Problem::Missing { kind: spec.kind, program: program.into(), looked, package };
    Error::new(&spec.label, problem)
}

/// Folders searched after PATH: servers live in sbin, which a user's PATH lacks on Debian.
const SBIN: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Folders searched in the root of another distribution: PATH is this machine's.
const OF_ROOTS: [&str; 4] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"];

pub(crate) fn looked(root: Option<&Root>) -> String {
    match root {
        Some(root) => format!("in {} of {}", OF_ROOTS.join(", "), root.path().display()),
        None => format!("on PATH nor in {}", SBIN.join(", ")),
    }
}

/// A program by its name: where it is seen from the root.
pub(crate) fn on_path(name: impl AsRef<Path>, root: Option<&Root>) -> Option<PathBuf> {
    let name = name.as_ref();
    if name.as_os_str().is_empty() {
        return None;
    }
    let folders: Vec<PathBuf> = match root {
        Some(_) => OF_ROOTS.map(PathBuf::from).into(),
        None => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let absolute = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
            absolute.chain(SBIN.map(PathBuf::from)).collect()
        }
    };
    folders.into_iter().map(|folder| folder.join(name)).find(|path| runs(path, root))
}

/// Whether a program can be run that is seen at `path` from the root.
pub(crate) fn runs(path: &Path, root: Option<&Root>) -> bool {
    let path = root.map_or_else(|| path.into(), |root| root.find(path));
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
