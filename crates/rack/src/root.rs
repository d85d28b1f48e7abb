//! The folder of another distribution, or of another release of one, whose programs are run on this machine, such as `mmdebstrap` makes it
//! (`scripts/server-root.sh`).
//!
//! A program of it is started in a mount namespace of its own, in which the folder's `/usr`, `/etc` and what else holds programs and
//! libraries take the place of this machine's. All other files stay as they are, so zones, run directories, `/proc` and `/dev` are at the
//! same paths, and nothing is written into the folder. The kernel is this machine's.

use crate::Error;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// The folders of programs, libraries and settings.
const FOLDERS: [&str; 6] = ["usr", "etc", "bin", "sbin", "lib", "lib64"];

/// Such a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// The folder at a path.
    ///
    /// # Errors
    /// [`Error::Root`]: it has no `/usr` and `/etc`, its `/bin` or `/lib` is not part of its `/usr` (Debian 10 and older), or it lies in a
    /// folder of this machine that would not be seen any more.
    pub fn new(path: &Path) -> Result<Self, Error> {
        let failed = |why: String| Error::Root { path: path.into(), why };
        let root = path.canonicalize().map_err(|e| failed(e.to_string()))?;
        for folder in &FOLDERS[..2] {
            if !root.join(folder).is_dir() {
                return Err(failed(format!(
                    "it has no folder /{folder}: name the root folder of a distribution"
                )));
            }
            if root.starts_with(Path::new("/").join(folder)) {
                return Err(failed(format!("it lies in /{folder}, which its programs do not see: move it")));
            }
        }
        // Of a distribution whose programs are not all in /usr, one folder would hide another.
        if let Some(apart) = FOLDERS[2..]
            .iter()
            .find(|folder| fs::symlink_metadata(root.join(folder)).is_ok_and(|meta| meta.is_dir()))
        {
            return Err(failed(format!("its /{apart} is no link into its /usr, as in Debian 12 and later")));
        }
        Ok(Self(root))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where a file is on this machine that its programs see at `path`.
    pub fn find(&self, path: &Path) -> PathBuf {
        let Ok(below) = path.strip_prefix("/") else { return path.into() };
        if !FOLDERS.iter().any(|folder| below.starts_with(folder)) {
            return path.into();
        }
        // Links are followed as its programs would; the file's path is then that of the descriptor.
        let within = || {
            let folder = fs::File::open(&self.0)?;
            let file =
                openat2(folder, below, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT)?;
            fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
        };
        within().unwrap_or_else(|_: io::Error| self.0.join(below))
    }

    /// The name of its release, such as `Debian GNU/Linux 13 (trixie)`.
    pub fn release(&self) -> Option<String> {
        release(&self.find(Path::new("/etc/os-release")))
    }

    /// What its programs see in the place of what is there on this machine: see [`net::ns::Entry::binds`].
    pub(crate) fn binds(&self) -> Vec<(PathBuf, PathBuf)> {
        let places = FOLDERS
            .iter()
            .map(|folder| (self.find(&Path::new("/").join(folder)), Path::new("/").join(folder)));
        // A link of this machine leads into /usr, which is taken already.
        places
            .filter(|(seen, place)| {
                seen.is_dir() && fs::symlink_metadata(place).is_ok_and(|meta| meta.is_dir())
            })
            .collect()
    }
}

/// The name of a release, by its file os-release(5).
pub(crate) fn release(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_folder_has_to_be_that_of_a_distribution_with_all_programs_in_usr() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let why = |root: &Path| Root::new(root).unwrap_err().to_string();
        assert!(why(&root.join("none")).contains("none: No such file"), "{}", why(&root.join("none")));
        assert!(why(&root).contains("it has no folder /usr"), "{}", why(&root));
        fs::create_dir_all(root.join("usr/sbin")).unwrap();
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::write(root.join("usr/sbin/nsd-4"), "").unwrap();
        symlink("/usr/sbin/nsd-4", root.join("etc/nsd")).unwrap();
        symlink("usr/sbin", root.join("sbin")).unwrap();
        fs::write(root.join("etc/os-release"), "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n")
            .unwrap();
        let good = Root::new(&root).unwrap();
        assert_eq!(good.release().unwrap(), "Debian GNU/Linux 13 (trixie)");
        // Links are followed in the folder, also those with a whole path.
        for link in ["/etc/nsd", "/sbin/nsd-4", "/usr/sbin/nsd-4"] {
            assert_eq!(good.find(Path::new(link)), root.join("usr/sbin/nsd-4"), "{link}");
        }
        assert_eq!(good.find(Path::new("/usr/sbin/none")), root.join("usr/sbin/none"));
        assert_eq!(good.find(Path::new("/opt/bind/named")), Path::new("/opt/bind/named"));
        assert!(good.binds().contains(&(root.join("usr"), "/usr".into())));
        fs::create_dir(root.join("lib")).unwrap();
        assert!(why(&root).contains("its /lib is no link into its /usr"), "{}", why(&root));
    }
}
