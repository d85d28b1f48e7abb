//! The program that machines get: the one that runs, and builds of it for other processors that lie beside it.

use crate::Error;
use crate::files::hash_of;
use std::path::{Path, PathBuf};

/// The program that runs now.
const OURS: &str = "/proc/self/exe";

/// The identifier of the source tree, which `scripts/static.sh` sets: builds of one tree for different processors have the same. Empty for
/// an ordinary build.
pub(crate) const BUILD: &str = match option_env!("DNSRACK_BUILD") {
    Some(build) => build,
    None => "",
};

/// The processors that there are builds for, as `uname -m` calls them.
const PROCESSORS: [&str; 2] = ["x86_64", "aarch64"];

/// A build of the program.
#[derive(Debug)]
pub(crate) struct Program {
    /// The processor, as `uname -m` calls it.
    pub processor: &'static str,
    pub path: PathBuf,
    pub octets: u64,
    pub sha256: String,
}

impl Program {
    fn at(processor: &'static str, path: &Path) -> Result<Self, Error> {
        let octets =
            std::fs::metadata(path).map_err(|source| Error::File { path: path.into(), source })?.len();
        Ok(Self { processor, path: path.into(), octets, sha256: hash_of(path)? })
    }

    /// The program that runs now.
    pub fn ours() -> Result<Self, Error> {
        Self::at(std::env::consts::ARCH, Path::new(OURS))
    }

    /// The same, and those for other processors: `dnsrack-aarch64` beside it.
    pub fn all() -> Result<Vec<Self>, Error> {
        let mut all = vec![Self::ours()?];
        let folder = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned));
        for processor in PROCESSORS.into_iter().filter(|p| *p != std::env::consts::ARCH) {
            let beside = folder.as_ref().map(|folder| folder.join(format!("dnsrack-{processor}")));
            if let Some(path) = beside.filter(|path| path.is_file()) {
                all.push(Self::at(processor, &path)?);
            }
        }
        Ok(all)
    }
}
