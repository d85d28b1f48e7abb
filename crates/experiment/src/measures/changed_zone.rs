//! A zone file with a change at its beginning and at its end: the serial, and the last record where that is an address.
//!
//! RZAIA changed the last record and reloaded (section 4.2). In a signed zone the SOA's signature is no longer right: no
//! server looks at it when it loads.

use crate::Error;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::Path;

/// The SOA stands so early in a zone file, and the last record so late.
const END: u64 = 1 << 16;

/// Writes a changed copy of a zone file.
///
/// # Errors
/// [`Error::Io`]; [`Error::Machine`] where no SOA record with its serial is in the first 64 kB.
pub fn write(from: &Path, to: &Path) -> Result<(), Error> {
    let mut file = File::open(from).map_err(Error::io(from))?;
    let length = file.metadata().map_err(Error::io(from))?.len();
    let mut head = Vec::new();
    (&file).take(END).read_to_end(&mut head).map_err(Error::io(from))?;
    let Some((place, serial)) = serial(&head) else {
        return Err(Error::Machine(format!("{}: no SOA with its serial in the first 64 kB", from.display())));
    };
    // Serials go round (RFC 1982).
    let next = serial.wrapping_add(1).to_string();
    let begin = length.saturating_sub(END).max(place.end as u64);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(begin)).and_then(|_| file.read_to_end(&mut tail)).map_err(Error::io(from))?;
    let last = last_address(&tail);
    let copy = || -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 20, File::create(to)?);
        out.write_all(&head[..place.start])?;
        out.write_all(next.as_bytes())?;
        file.seek(SeekFrom::Start(place.end as u64))?;
        io::copy(&mut (&file).take(begin - place.end as u64), &mut out)?;
        match last {
            Some((at, address)) => {
                out.write_all(&tail[..at.start])?;
                write!(out, "{}", Ipv4Addr::from(u32::from(address) ^ 1))?;
                out.write_all(&tail[at.end..])?;
            }
            None => out.write_all(&tail)?,
        }
        out.flush()
    };
    copy().map_err(Error::io(to))
}

/// Where the serial of the first SOA record is, and what it is (RFC 1035, section 5.1: parentheses and comments are blank).
fn serial(head: &[u8]) -> Option<(Range<usize>, u32)> {
    let (mut after_soa, mut at) = (None, 0);
    while at < head.len() {
        match head[at] {
            b';' => at += head[at..].iter().position(|&b| b == b'\n')?,
            b if b.is_ascii_whitespace() || b == b'(' || b == b')' => at += 1,
            _ => {
                let blank = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'(' | b')' | b';');
                let end = at + head[at..].iter().position(blank)?;
                let token = &head[at..end];
                match after_soa {
                    // The primary and the mailbox come first.
                    Some(2) => return Some((at..end, str::from_utf8(token).ok()?.parse().ok()?)),
                    Some(n) => after_soa = Some(n + 1),
                    None if token.eq_ignore_ascii_case(b"SOA") => after_soa = Some(0),
                    None => {}
                }
                at = end;
            }
        }
    }
    None
}

/// Where the address of the last record is, where it is an A record.
fn last_address(tail: &[u8]) -> Option<(Range<usize>, Ipv4Addr)> {
    let end = tail.trim_ascii_end().len();
    let line = tail[..end].iter().rposition(|&b| b == b'\n').map_or(0, |n| n + 1);
    let start = tail[line..end].iter().rposition(u8::is_ascii_whitespace)? + line + 1;
    let before: Vec<&[u8]> =
        tail[line..start].split(u8::is_ascii_whitespace).filter(|t| !t.is_empty()).collect();
    let address = str::from_utf8(&tail[start..end]).ok()?.parse().ok()?;
    before.last().filter(|token| token.eq_ignore_ascii_case(b"A")).map(|_| (start..end, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_and_last_record_are_other_ones() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let middle = "d. NS ns.d.\n".repeat(20_000);
        for (soa, changed) in [
            (". SOA a. b. 4294967295 1 2 3 4\n", ". SOA a. b. 0 1 2 3 4\n"),
            (
                "; SOA x\n. 5 IN soa a. b. (\n 7 ; serial\n 1 2 3 4 )\n",
                "; SOA x\n. 5 IN soa a. b. (\n 8 ; serial\n 1 2 3 4 )\n",
            ),
        ] {
            for (last, other) in [
                ("ns.d. A 192.0.2.7\n\n", "ns.d. A 192.0.2.6\n\n"),
                ("ns.d. TXT 192.0.2.7\n", "ns.d. TXT 192.0.2.7\n"),
            ] {
                for middle in ["", &middle] {
                    std::fs::write(&from, format!("{soa}{middle}{last}")).unwrap();
                    write(&from, &to).unwrap();
                    let got = std::fs::read_to_string(&to).unwrap();
                    assert!(got == format!("{changed}{middle}{other}"), "{soa} {last}");
                }
            }
        }
        std::fs::write(&from, "no zone").unwrap();
        assert!(write(&from, &to).unwrap_err().to_string().contains("no SOA"));
    }
}
