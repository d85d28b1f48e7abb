//! The updates that turn one version of a zone into another.

use super::write::Writer;
use super::{Made, SeriesSpec};
use crate::Error;
use std::cell::RefCell;
use std::io::Write;
use wire::{name, rtype};
use zone::diff::{Change, each_change};

/// Writes the updates that turn a zone file into the next version of it, and so on. What changes at a delegation and below it is one
/// change. SOA and DNSSEC's records are left to the server: it counts its own serials, and signs.
///
/// # Errors
/// Those of the scanner, [`Error::Zone`] where the files are not versions of one zone, [`Error::Write`].
pub fn series(spec: &SeriesSpec, out: &mut dyn Write, progress: &mut dyn FnMut(u64)) -> Result<Made, Error> {
    let mut writer = Writer::new(out, None);
    let mut made = Made::default();
    let batch = spec.batch.max(1);
    let files: Vec<_> = std::iter::once(&spec.zone).chain(&spec.to).collect();
    let (mut zone_told, mut done) = (false, 0);
    for (step, pair) in files.windows(2).enumerate() {
        // The delegation that is open, and changes in the open transaction.
        let (mut cut, mut count) = (Vec::<u8>::new(), 0);
        let header = RefCell::new(None);
        each_change(
            pair[0],
            pair[1],
            &mut |versions| {
                *header.borrow_mut() = Some(versions.clone());
                Ok::<_, Error>(())
            },
            &mut |change| {
                if let Some(versions) = header.take() {
                    if !zone_told {
                        writer.zone(versions.origin.as_wire())?;
                        made.origin = versions.origin.to_string();
                        made.serial = versions.serials[0];
                        zone_told = true;
                    }
                    writer.comment(&format!("serial {} to {}", versions.serials[0], versions.serials[1]))?;
                }
                let same = !cut.is_empty() && name::is_under(change.owner, &cut);
                if !same {
                    if count == batch {
                        writer.send()?;
                        count = 0;
                    }
                    count += 1;
                    let kind = match (change.was_there, change.deleted.is_empty()) {
                        (false, _) => &mut made.adds,
                        (true, false) if change.added.is_empty() => &mut made.deletes,
                        _ => &mut made.modifies,
                    };
                    *kind += 1;
                    cut.clear();
                    if change.delegation {
                        cut.extend_from_slice(change.owner);
                    }
                }
                write(&mut writer, change, spec.prerequisites)?;
                done += 1;
                if done % 1024 == 0 {
                    progress(done);
                }
                Ok(())
            },
        )?;
        writer.send()?;
        made.versions = step as u64 + 1;
    }
    if !zone_told {
        return Err(Error::Spec(
            "the versions do not differ in any record that can be updated: there is nothing to write".into(),
        ));
    }
    made.transactions = writer.transactions;
    made.records = writer.records;
    made.bytes = writer.bytes;
    Ok(made)
}

fn write(out: &mut Writer<'_>, change: &Change<'_>, prerequisites: bool) -> Result<(), Error> {
    if prerequisites {
        let mut last = 0;
        for record in &change.deleted {
            if std::mem::replace(&mut last, record.rtype) != record.rtype {
                out.present(record.owner, record.rtype)?;
            }
        }
        if !change.was_there {
            out.absent(change.owner)?;
        }
    }
    // A server never lets go of the apex's last NS record (RFC 2136, section 3.4.2.4): new ones come first there.
    let apex_ns = |rtype: u16| rtype == rtype::NS && !change.delegation;
    for record in change.added.iter().filter(|r| apex_ns(r.rtype)) {
        out.add(record.owner, record.ttl, record.rtype, record.rdata)?;
    }
    for record in &change.deleted {
        // One whose TTL alone changes at the apex is there again already.
        let again = |r: &zone::Record<'_>| r.rtype == record.rtype && r.rdata == record.rdata;
        if !(apex_ns(record.rtype) && change.added.iter().any(again)) {
            out.delete(record.owner, record.rtype, record.rdata)?;
        }
    }
    for record in change.added.iter().filter(|r| !apex_ns(r.rtype)) {
        out.add(record.owner, record.ttl, record.rtype, record.rdata)?;
    }
    Ok(())
}
