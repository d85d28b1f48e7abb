//! Outputs that are whole or not there: they are written under another name in the same folder, and renamed when all is written.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile, TempDir};

/// The names of files and folders that are still being written begin with this. A killed program leaves them behind.
const PREFIX: &str = ".dnsrack-";

/// A file that gets its name in [`Aside::finish`]. Where it is dropped before, nothing is left of it.
#[derive(Debug)]
pub struct Aside {
    file: NamedTempFile,
    path: PathBuf,
}

impl Aside {
    /// Creates a file beside `path`. Everybody may read it, and its owner may write it.
    ///
    /// # Errors
    /// The folder of `path` does not exist, or cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file =
            Builder::new().prefix(PREFIX).permissions(Permissions::from_mode(0o644)).tempfile_in(folder)?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// The open file.
    pub fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Gives the file its name. A file of that name is replaced.
    ///
    /// # Errors
    /// The file cannot be renamed.
    pub fn finish(self) -> io::Result<()> {
        self.file.persist(self.path).map(drop).map_err(|e| e.error)
    }
}

impl Write for Aside {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.file().write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

/// Writes a whole file in this way. It is not synced to the disk.
///
/// # Errors
/// The file cannot be written or renamed.
pub fn write(path: &Path, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let mut aside = Aside::create(path)?;
    aside.write_all(contents.as_ref())?;
    aside.finish()
}

/// Creates a folder in `parent` that is renamed when it is whole, or from which files are moved to their places. It is removed when it
/// is dropped.
///
/// # Errors
/// `parent` does not exist, or cannot be written.
pub fn folder_in(parent: &Path) -> io::Result<TempDir> {
    Builder::new().prefix(PREFIX).permissions(Permissions::from_mode(0o755)).tempdir_in(parent)
}

/// True for the name of a file or folder that is, or was, being written.
pub fn is_aside(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures");
        let names = || -> Vec<_> {
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        };
        let mut aside = Aside::create(&path).unwrap();
        aside.write_all(b"half").unwrap();
        assert!(matches!(&names()[..], [name] if is_aside(name)));
        drop(aside);
        assert_eq!(names().len(), 0, "it was not finished");

        write(&path, "old").unwrap();
        write(&path, "new").unwrap();
        assert_eq!((fs::read(&path).unwrap(), names()), (b"new".to_vec(), vec!["figures".into()]));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert!(!is_aside(&names()[0]));

        let nowhere = write(&folder.path().join("no/figures"), "").unwrap_err();
        assert_eq!(nowhere.kind(), io::ErrorKind::NotFound);
    }
}
