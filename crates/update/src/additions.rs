//! Updates that can be looked for afterwards: each message adds two names alike, so that one alone is half an update.

use crate::pairs::{Lines, below};
use crate::script::write_messages;
use crate::{Error, TransferSpec, transfer};
use measure::Reason;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The prefix of all labels that we add to a zone.
const LABEL: &str = "dnsrack-";

/// Which halves a server has of each update, by its number: 1 the first, 2 the second, 3 both.
pub type Halves = BTreeMap<u64, u8>;

/// Both halves of an update.
pub const WHOLE: u8 = 3;

/// The first labels of update `number`.
fn labels(number: u64) -> [String; 2] {
    ["a", "b"].map(|side| format!("{LABEL}{number:08}-{side}"))
}

/// Writes a file of `count` updates, numbered from `first`, that add two names each which nobody else has.
///
/// # Errors
/// [`Error::Io`].
pub fn write(file: &Path, origin: &str, first: u64, count: u64) -> Result<(), Error> {
    let mut numbers = first..first + count;
    write_messages(file, origin, || {
        numbers.next().map(|number| {
            labels(number).iter().fold(String::new(), |mut lines, label| {
                let _ = writeln!(lines, "update add {} 60 A 192.0.2.1", below(label, origin));
                lines
            })
        })
    })
}

/// Which update a line of a zone is of, and which half of it; none: it is of none.
fn half(line: &[u8]) -> Option<(u64, u8)> {
    let rest = line.strip_prefix(LABEL.as_bytes())?;
    let number = std::str::from_utf8(rest.get(..8)?).ok()?.parse().ok()?;
    match rest.get(8..11)? {
        b"-a." => Some((number, 1)),
        b"-b." => Some((number, 2)),
        _ => None,
    }
}

/// Which halves of which updates a server has, by a transfer of its zone; else why it cannot be transferred.
///
/// # Errors
/// The errors of [`transfer()`].
pub fn find(spec: &TransferSpec, stop: &AtomicBool) -> Result<Result<Halves, Reason>, Error> {
    let mut halves = Halves::new();
    let mut lines = Lines::new(|line| {
        if let Some((number, half)) = half(line) {
            *halves.entry(number).or_default() |= half;
        }
    });
    let failed = transfer(spec, Some(&mut lines), stop, &mut |_| {})?.failed;
    Ok(failed.map_or(Ok(halves), Err))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::counter;
    use std::io::Write as _;

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
        write(&file, "com.", 7, 2).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with(
            "zone com.\nupdate add dnsrack-00000007-a.com. 60 A 192.0.2.1\n\
             update add dnsrack-00000007-b.com. 60 A 192.0.2.1\nsend\n"
        ));
        assert_eq!(text.matches("send\n").count(), 2);
        crate::pairs::write(&file, ".", 1).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            text.contains(
                "update delete zz-dnsrack-pair. TXT\nupdate add zz-dnsrack-pair. 0 TXT \"1\"\nsend\n"
            )
        );
    }
}
