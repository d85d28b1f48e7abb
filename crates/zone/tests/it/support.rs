//! What the tests share.

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use zone::{Error, Scanner};

/// A record that owns its parts: owner, TTL, type, data.
pub type Owned = (Vec<u8>, u32, u16, Vec<u8>);

/// All records of a text.
pub fn records(text: &[u8]) -> Result<Vec<Owned>, Error> {
    collect(Scanner::new(Cursor::new(text.to_vec()), "test.zone"))
}

/// All records of a scanner.
pub fn collect(mut scanner: Scanner) -> Result<Vec<Owned>, Error> {
    let mut all = Vec::new();
    while let Some(r) = scanner.next()? {
        all.push((r.owner.to_vec(), r.ttl, r.rtype, r.rdata.to_vec()));
    }
    Ok(all)
}

/// The real root zones, oldest first; empty (and said so) where they are absent.
pub fn root_zones() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/root-zone");
    let mut zones: Vec<PathBuf> = std::fs::read_dir(&folder)
        .map(|entries| entries.filter_map(|e| Some(e.ok()?.path())).collect())
        .unwrap_or_default();
    zones.retain(|p| p.extension().is_some_and(|e| e == "xz"));
    zones.sort();
    if zones.is_empty() {
        eprintln!("SKIPPED: no real root zones in {}", folder.display());
    }
    zones
}

/// Unpacks with xz(1).
pub fn unxz(path: &Path) -> Vec<u8> {
    let out = Command::new("xz").arg("-dc").arg(path).output().expect("xz is installed");
    assert!(out.status.success(), "xz -dc {}", path.display());
    out.stdout
}

/// Runs a checker; `None` (and said so) where it is not installed.
pub fn checker(program: &str, args: &[&str]) -> Option<Output> {
    match Command::new(program).args(args).output() {
        Ok(out) => Some(out),
        Err(e) => {
            eprintln!("SKIPPED: {program} cannot run here: {e}");
            None
        }
    }
}

/// Reads one octet at a time, so that every boundary is met.
pub struct Trickle<R>(pub R);

impl<R: Read> Read for Trickle<R> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = buf.len().min(1);
        self.0.read(&mut buf[..n])
    }
}

/// SHA-256 as hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    digest.as_ref().iter().map(|b| format!("{b:02x}")).collect()
}
