//! The files that a specification names: whoever sends it to another machine sends what is read, and fetches what is written.

use std::path::PathBuf;

/// A file or folder that a specification names.
#[derive(Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// It is read.
    Read(&'a mut PathBuf),
    /// It is written.
    Written(&'a mut PathBuf),
}

/// A specification that names files.
pub trait Files {
    /// Calls `visit` with every file that is named, so that its path can be replaced.
    ///
    /// # Errors
    /// The first of `visit`; the paths after that one are as they were.
    fn files<E>(&mut self, visit: &mut dyn FnMut(Named<'_>) -> Result<(), E>) -> Result<(), E>;
}
