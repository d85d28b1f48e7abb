//! The updates that turn one version of a zone into another.

use super::write::Writer;
use super::{Made, SeriesSpec, Step};
use crate::Error;
use crate::watch::MARKER_LABEL;
use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use wire::transfer::is_newer;
use wire::{name, rtype};
use zone::diff::{Change, Versions, each_change};

/// Octets of a transaction's records without compression, where versions are whole: it must fit into a message with its signature.
const ROOM: usize = 60_000;

/// Writes the updates that turn a zone file into the next version of it, and so on. What changes at a delegation and below it is one
/// change. Unless [`SeriesSpec`] says otherwise, SOA and DNSSEC's records are left to the server: it counts its own serials, and
/// signs.
///
/// # Errors
/// Those of the scanner, [`Error::Zone`] where the files are not versions of one zone, [`Error::Spec`] where they do not differ, or
/// do not follow each other, [`Error::Write`].
pub fn series(spec: &SeriesSpec, out: &mut dyn Write, progress: &mut dyn FnMut(u64)) -> Result<Made, Error> {
    let mut series =
        Series { spec, writer: Writer::new(out, None), made: Made::default(), open: Open::default() };
    let files: Vec<_> = std::iter::once(&spec.zone).chain(&spec.to).collect();
    let mut done = 0;
    for pair in files.windows(2) {
        series.step(pair[0], pair[1], &mut || {
            done += 1;
            if done % 1024 == 0 {
                progress(done);
            }
        })?;
    }
    let Series { writer, mut made, .. } = series;
    if writer.transactions == 0 {
        let text = "the versions do not differ in any record that can be updated: there is nothing to write; SOA and DNSSEC's \
                    records are left to the server unless --dnssec is given";
        return Err(Error::Spec(text.into()));
    }
    made.transactions = writer.transactions;
    made.records = writer.records;
    made.bytes = writer.bytes;
    Ok(made)
}

struct Series<'a, 'w> {
    spec: &'a SeriesSpec,
    writer: Writer<'w>,
    made: Made,
    open: Open,
}

/// The transaction that is open.
#[derive(Default)]
struct Open {
    /// The delegation whose change is not over.
    cut: Vec<u8>,
    changes: u32,
    octets: usize,
}

impl Series<'_, '_> {
    /// One version more.
    fn step(&mut self, old: &Path, new: &Path, each: &mut dyn FnMut()) -> Result<(), Error> {
        let versions = RefCell::new(None::<Versions>);
        let (mut step, mut headed) = (Step::default(), false);
        let before = self.writer.transactions;
        self.open = Open::default();
        each_change(
            old,
            new,
            self.spec.dnssec,
            &mut |both| {
                *versions.borrow_mut() = Some(both.clone());
                Ok::<_, Error>(())
            },
            &mut |change| {
                if let (false, Some(both)) = (headed, &*versions.borrow()) {
                    self.head(both)?;
                    headed = true;
                }
                step.deleted += change.deleted.len() as u64;
                step.added += change.added.len() as u64;
                self.change(change)?;
                each();
                Ok(())
            },
        )?;
        let versions = versions.into_inner().expect("it comes before all changes");
        [step.from, step.to] = versions.serials;
        if self.spec.is_whole() {
            if !is_newer(step.to, step.from) {
                return Err(Error::Spec(format!(
                    "{}: serial {} does not come after {} of {}: give versions in their order",
                    new.display(),
                    step.to,
                    step.from,
                    old.display()
                )));
            }
            if !headed {
                self.head(&versions)?;
            }
            let apex = versions.origin.as_wire();
            // With what went before it the server has counted on: the version's own serial may be older than its.
            if self.writer.transactions == before {
                self.writer.add(apex, versions.soa.0, rtype::SOA, &versions.soa.1)?;
            }
            if self.spec.marker {
                self.mark(apex)?;
            }
        }
        self.writer.send()?;
        step.transactions = self.writer.transactions - before;
        self.made.versions += 1;
        self.made.steps.push(step);
        Ok(())
    }

    /// Says which version comes, and first of all which zone.
    fn head(&mut self, versions: &Versions) -> Result<(), Error> {
        if self.made.origin.is_empty() {
            self.writer.zone(versions.origin.as_wire())?;
            self.made.origin = versions.origin.to_string();
            self.made.serial = versions.serials[0];
        }
        self.writer.comment(&format!("serial {} to {}", versions.serials[0], versions.serials[1]))
    }

    /// The version's number at the marker's name.
    fn mark(&mut self, apex: &[u8]) -> Result<(), Error> {
        let owner = [&[MARKER_LABEL.len() as u8], MARKER_LABEL.as_bytes(), apex].concat();
        let number = (self.made.versions + 1).to_string();
        self.writer.delete_all(&owner, rtype::TXT)?;
        self.writer.add(&owner, 0, rtype::TXT, &[&[number.len() as u8], number.as_bytes()].concat())
    }

    fn change(&mut self, change: &Change<'_>) -> Result<(), Error> {
        let open = &mut self.open;
        let octets = change.deleted.iter().chain(&change.added).map(|r| r.owner.len() + 10 + r.rdata.len());
        let octets: usize = octets.sum();
        let same = !open.cut.is_empty() && name::is_under(change.owner, &open.cut);
        let full = match self.spec.is_whole() {
            true => open.octets > 0 && open.octets + octets > ROOM,
            false => !same && open.changes == self.spec.batch.max(1),
        };
        if full {
            self.writer.send()?;
            (open.changes, open.octets) = (0, 0);
        }
        open.octets += octets;
        if !same {
            open.changes += 1;
            let kind = match (change.was_there, change.deleted.is_empty()) {
                (false, _) => &mut self.made.adds,
                (true, false) if change.added.is_empty() => &mut self.made.deletes,
                _ => &mut self.made.modifies,
            };
            *kind += 1;
            open.cut.clear();
            if change.delegation {
                open.cut.extend_from_slice(change.owner);
            }
        }
        write(&mut self.writer, change, self.spec.prerequisites)
    }
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
