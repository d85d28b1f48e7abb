//! The files that a specification names: whoever sends it to another machine sends what is read, and fetches what is written. Files are
//! compared by their SHA-256.

use aws_lc_rs::digest::{Context, SHA256};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

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

/// Octets that are read at once.
const PIECE: usize = 1 << 20;

/// The SHA-256 of a file, as hexadecimal digits.
///
/// # Errors
/// Where it cannot be read.
pub fn sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut context, mut buffer) = (Context::new(&SHA256), vec![0; PIECE]);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => context.update(&buffer[..n]),
        }
    }
    Ok(context.finish().as_ref().iter().map(|octet| format!("{octet:02x}")).collect())
}
