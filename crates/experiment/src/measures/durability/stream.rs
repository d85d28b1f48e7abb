//! Updates that can be looked for afterwards: each message changes two names alike, so that one alone is half an update.

use crate::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use update::pairs::{PAIR, below};

/// The prefix of all labels that we add to a zone.
const LABEL: &str = "dnsrack-";

/// The first labels of update `number`.
fn labels(number: u64) -> [String; 2] {
    ["a", "b"].map(|side| format!("{LABEL}{number:08}-{side}"))
}

fn write(file: &Path, origin: &str, mut each: impl FnMut() -> Option<String>) -> Result<(), Error> {
    let mut all = || {
        let mut out = BufWriter::new(File::create(file)?);
        writeln!(out, "zone {origin}")?;
        while let Some(lines) = each() {
            writeln!(out, "{lines}send")?;
        }
        out.flush()
    };
    all().map_err(Error::io(file))
}

/// Writes updates that add two names each which nobody else has.
pub fn write_additions(file: &Path, origin: &str, first: u64, count: u64) -> Result<(), Error> {
    let mut numbers = first..first + count;
    write(file, origin, || {
        numbers.next().map(|number| {
            labels(number).iter().fold(String::new(), |mut lines, label| {
                let _ = writeln!(lines, "update add {} 60 A 192.0.2.1", below(label, origin));
                lines
            })
        })
    })
}

/// Writes updates that put one counter, from 1 on, at both names of [`PAIR`].
pub fn write_pairs(file: &Path, origin: &str, count: u64) -> Result<(), Error> {
    let mut numbers = 1..=count;
    write(file, origin, || {
        numbers.next().map(|number| {
            PAIR.iter().fold(String::new(), |mut lines, label| {
                let name = below(label, origin);
                let _ = writeln!(lines, "update delete {name} TXT\nupdate add {name} 0 TXT \"{number}\"");
                lines
            })
        })
    })
}

/// Which update a line of a zone is of, and which half of it; none: it is of none.
pub fn half(line: &[u8]) -> Option<(u64, u8)> {
    let rest = line.strip_prefix(LABEL.as_bytes())?;
    let number = std::str::from_utf8(rest.get(..8)?).ok()?.parse().ok()?;
    match rest.get(8..11)? {
        b"-a." => Some((number, 1)),
        b"-b." => Some((number, 2)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use update::pairs::{Lines, counter};

    #[test]
    fn halves_and_counters_are_found_in_zones_that_come_in_pieces() {
        let zone = b"com.\t3600\tIN\tSOA\ta. b. 1 2 3 4 5\ndnsrack-00000012-a.com.\t60\tIN\tA\t192.0.2.1\n\
                     zz-dnsrack-pair.com.\t0\tIN\tTXT\t\"17\"\n0-dnsrack-pairs.com.\t0\tIN\tTXT\t\"18\"\n\
                     dnsrack-00000012-b.com.\t60\tIN\tA\t192.0.2.1\n0-dnsrack-pair.com.\t0\tIN\tTXT\t\"\"\n";
        for size in [1, 7, 1000] {
            let (mut halves, mut counters) = (Vec::new(), Vec::new());
            let mut lines = Lines::new(|line| {
                halves.extend(half(line));
                counters.extend(counter(line));
            });
            zone.chunks(size).for_each(|piece| lines.write_all(piece).unwrap());
            assert_eq!(halves, [(12, 1), (12, 2)]);
            assert_eq!(counters, [(1, Some(17)), (0, None)]);
        }
    }

    #[test]
    fn a_message_has_both_halves() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("updates");
        write_additions(&file, "com.", 7, 2).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with(
            "zone com.\nupdate add dnsrack-00000007-a.com. 60 A 192.0.2.1\n\
             update add dnsrack-00000007-b.com. 60 A 192.0.2.1\nsend\n"
        ));
        assert_eq!(text.matches("send\n").count(), 2);
        write_pairs(&file, ".", 1).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            text.contains(
                "update delete zz-dnsrack-pair. TXT\nupdate add zz-dnsrack-pair. 0 TXT \"1\"\nsend\n"
            )
        );
    }
}
