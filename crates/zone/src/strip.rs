//! A signed zone without its DNSSEC records.

use crate::error::Error;
use crate::scan::Record;
use crate::sign::is_made_by_signing;
use crate::source::RecordSource;
use crate::text;
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use wire::rtype;

/// Counts of a zone that was stripped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stripped {
    /// Records written.
    pub records: u64,
    /// Records left out.
    pub left_out: u64,
    /// DS records among those left out.
    pub ds: u64,
    /// Octets of text written.
    pub bytes: u64,
}

/// Writes the records of a zone, in their order, without those that signing makes (RRSIG, NSEC, NSEC3, NSEC3PARAM, DNSKEY, ZONEMD) and
/// those by which a zone tells its parent of its keys (CDS, CDNSKEY). DS records are data of the zone, and stay unless `ds` says that
/// they go, too. `progress` hears how many octets are read.
///
/// # Errors
/// The source's; [`Error::Write`].
pub fn strip(
    source: &mut impl RecordSource,
    ds: bool,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64),
) -> Result<Stripped, Error> {
    let (mut stripped, mut line) = (Stripped::default(), Vec::new());
    for count in 0u64.. {
        if count.is_multiple_of(8192) {
            progress(source.octets());
        }
        let Some(record) = source.next()? else { break };
        let goes = match record.rtype {
            rtype::DS => ds,
            rtype::CDS | rtype::CDNSKEY => true,
            other => is_made_by_signing(other),
        };
        if goes {
            stripped.left_out += 1;
            stripped.ds += u64::from(record.rtype == rtype::DS);
            continue;
        }
        line.clear();
        text::write_record(&record, &mut line);
        out.write_all(&line).map_err(Error::Write)?;
        stripped.records += 1;
        stripped.bytes += line.len() as u64;
    }
    Ok(stripped)
}

/// Refuses a signed zone where its signatures would become wrong.
///
/// # Errors
/// [`Error::Unable`] with the line.
pub(crate) fn must_be_unsigned(path: &Path, record: &Record<'_>) -> Result<(), Error> {
    if !is_made_by_signing(record.rtype) {
        return Ok(());
    }
    Err(Error::Unable(format!(
        "{}:{}: the zone is signed, and its signatures would be wrong then: take DNSSEC out first with `dnsrack zone strip`, and sign \
         it afterwards",
        path.display(),
        record.line
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scanner;
    use std::io::Cursor;

    const ZONE: &str = "example. 60 SOA ns.example. root.example. 5 1 1 1 1\nexample. 60 NS ns.example.\n\
                        example. 60 DNSKEY 257 3 15 l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=\n\
                        example. 60 CDS 0 0 0 00\nb.example. 60 NS ns.example.\n\
                        b.example. 60 DS 1 15 2 0000000000000000000000000000000000000000000000000000000000000000\n\
                        b.example. 60 NSEC example. NS DS RRSIG NSEC\nns.example. 60 A 192.0.2.1\n";

    #[test]
    fn only_what_signing_makes_goes() {
        let (kept, gone) = ("b.example.\t60\tIN\tDS\t", "b.example.\t60\tIN\tNS\tns.example.\nns.example.");
        for (ds, left_out, wanted) in [(false, 3, kept), (true, 4, gone)] {
            let mut out = Vec::new();
            let mut source = Scanner::new(Cursor::new(ZONE), "test");
            let stripped = strip(&mut source, ds, &mut out, &mut |_| {}).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert_eq!((stripped.left_out, stripped.ds), (left_out, u64::from(ds)));
            assert_eq!(stripped.records, text.lines().count() as u64);
            assert_eq!(stripped.bytes, text.len() as u64);
            assert!(text.contains(wanted), "{text}");
            assert!(["DNSKEY", "CDS", "NSEC"].iter().all(|rtype| !text.contains(rtype)), "{text}");
        }
    }
}
