//! Slices of a zone: each is a zone file of its own, with the apex and the names of one range.
//!
//! ISC divided COM into halves and thirds so that a server could hold one (ISC-TN-2008-1 section 6.2). A slice
//! has all that is at the apex, all names of its range, and the addresses that its delegations (and the apex) need
//! from elsewhere in the zone: a referral of the slice carries what the whole zone's did. Such a copied address is
//! there without the delegation that it lies below, so the slice has authority for it. All slices together, without
//! the duplicates, are the zone again.
//!
//! Three passes: the survey, the needs of the delegations, the writing. Memory does not grow with the zone (needs are
//! sorted outside memory); a zone out of canonical order is sorted into a temporary file first.

mod parts;

use crate::error::Error;
use crate::order::{self, Order};
use crate::probe::soa_serial;
use crate::scan::{Record, Scanner};
use crate::sort::{self, Sorted, Sorter};
use crate::source::RecordSource;
use crate::text;
use parts::Parts;
use serde::Serialize;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use wire::name::{self, Name};
use wire::ranges::Partition;
use wire::rtype;

/// Where to cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// This number of parts, equal by records.
    Parts(usize),
    /// At these ranges.
    Ranges(Partition),
}

/// A zone read and ready to be cut.
pub struct Plan {
    /// The zone's name.
    pub origin: Name,
    /// The SOA's serial.
    pub serial: u32,
    /// The ranges, one a slice.
    pub partition: Partition,
    /// True where the zone has DNSSEC records: they are left out.
    pub signed: bool,
    zone: InOrder,
    needs: Needs,
}

/// Counts of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Slice {
    /// Its range, as [`wire::ranges::Range`] reads it.
    pub range: String,
    /// Records.
    pub records: u64,
    /// Delegations.
    pub delegations: u64,
    /// Addresses among the records that were copied from the range of another slice.
    pub copied: u64,
    /// Octets of text.
    pub bytes: u64,
}

/// True for the types that say something about the zone as a whole or about neighbours in it, so that they are wrong in
/// a slice: a signer makes new ones.
fn is_dnssec(rtype: u16) -> bool {
    crate::sign::is_made_by_signing(rtype)
}

/// Reads a zone and finds where to cut it, and which addresses which slice needs. `unsign` leaves DNSSEC records out;
/// without it a signed zone is refused. `progress` hears how many octets are read, twice the zone in all.
///
/// # Errors
/// The scanner's; [`Error::Unable`] for a signed zone or more parts than names; [`Error::Spool`].
pub fn plan(path: &Path, cut: Cut, unsign: bool, progress: &mut dyn FnMut(u64)) -> Result<Plan, Error> {
    let mut zone = InOrder { path: path.to_owned(), sorted: None };
    if !order::can_be_read_again(path) {
        zone.sort()?;
    }
    let survey = match Survey::read(&zone, unsign, progress) {
        Err(Error::Unsorted { .. }) => {
            zone.sort()?;
            Survey::read(&zone, unsign, progress)?
        }
        survey => survey?,
    };
    let partition = match cut {
        Cut::Ranges(partition) => partition,
        Cut::Parts(n) => survey.parts.cut(n)?,
    };
    let octets = survey.octets;
    let needs = Needs::read(&zone, &survey.apex, &partition, &mut |n| progress(octets + n))?;
    let origin = Name::from_wire(&survey.apex).map_err(|e| Error::Unable(e.to_string()))?;
    Ok(Plan { origin, serial: survey.serial, partition, signed: survey.signed, zone, needs })
}

impl Plan {
    /// Writes the slices, in the order of their ranges. `progress` hears how many octets are read.
    ///
    /// # Errors
    /// The scanner's, [`Error::Spool`], [`Error::Write`].
    ///
    /// # Panics
    /// Where there are not as many outputs as ranges.
    pub fn write<W: Write>(
        mut self,
        outputs: &mut [W],
        progress: &mut dyn FnMut(u64),
    ) -> Result<Vec<Slice>, Error> {
        let ranges = self.partition.ranges();
        assert_eq!(ranges.len(), outputs.len(), "one output a range");
        let mut slices: Vec<Slice> =
            ranges.iter().map(|r| Slice { range: r.to_string(), ..Slice::default() }).collect();
        let mut scanner = self.zone.open()?;
        let mut order = Order::of(&scanner);
        let (mut line, mut delegation) = (Vec::new(), false);
        let (mut home, mut users) = (None, Vec::new());
        for count in 0u64.. {
            if count.is_multiple_of(8192) {
                progress(scanner.octets());
            }
            let Some(record) = scanner.next()? else { break };
            if is_dnssec(record.rtype) {
                continue;
            }
            if order.is_new(&record)? {
                home = (record.owner.len() != self.origin.as_wire().len())
                    .then(|| self.partition.find(record.owner, self.origin.as_wire()))
                    .flatten();
                users.clear();
                delegation = false;
            }
            line.clear();
            text::write_record(&record, &mut line);
            let mut put = |n: usize| {
                slices[n].records += 1;
                slices[n].bytes += line.len() as u64;
                outputs[n].write_all(&line).map_err(Error::Write)
            };
            let Some(home) = home else {
                (0..ranges.len()).try_for_each(&mut put)?;
                continue;
            };
            put(home)?;
            if matches!(record.rtype, rtype::A | rtype::AAAA) {
                self.needs.users(record.owner, &mut users)?;
                users.iter().try_for_each(|&n| put(n))?;
                users.iter().for_each(|&n| slices[n].copied += 1);
            }
            if record.rtype == rtype::NS && !std::mem::replace(&mut delegation, true) {
                slices[home].delegations += 1;
            }
        }
        outputs.iter_mut().try_for_each(|out| out.flush().map_err(Error::Write))?;
        Ok(slices)
    }
}

/// A zone whose owners come in canonical order: a file as it is, or a sorted copy.
struct InOrder {
    path: PathBuf,
    sorted: Option<NamedTempFile>,
}

impl InOrder {
    fn open(&self) -> Result<Scanner, Error> {
        Scanner::open(self.sorted.as_ref().map_or(&self.path, |copy| copy.path()))
    }

    fn sort(&mut self) -> Result<(), Error> {
        let spool = |source| Error::Spool { source };
        let mut records = sort::sorted(Scanner::open(&self.path)?, &mut |_| {})?;
        let copy = NamedTempFile::with_prefix("dnsrack-").map_err(spool)?;
        let mut out = BufWriter::with_capacity(1 << 20, copy.as_file());
        let mut line = Vec::new();
        while let Some(record) = records.next()? {
            line.clear();
            text::write_record(&record, &mut line);
            out.write_all(&line).map_err(spool)?;
        }
        out.flush().map_err(spool)?;
        drop(out);
        self.sorted = Some(copy);
        Ok(())
    }

    fn signed(&self, record: &Record<'_>) -> Error {
        // Lines of the sorted copy say nothing.
        let line = if self.sorted.is_none() { format!(":{}", record.line) } else { String::new() };
        Error::Unable(format!(
            "{}{line}: {} record: the zone is signed, and its chain and signatures do not hold for a slice: sign the \
             slices (--sign) or leave DNSSEC out (--unsigned)",
            self.path.display(),
            rtype::to_text(record.rtype)
        ))
    }
}

/// The findings of the first pass.
struct Survey {
    apex: Vec<u8>,
    serial: u32,
    signed: bool,
    parts: Parts,
    octets: u64,
}

impl Survey {
    fn read(zone: &InOrder, unsign: bool, progress: &mut dyn FnMut(u64)) -> Result<Self, Error> {
        let mut scanner = zone.open()?;
        let mut order = Order::of(&scanner);
        let mut survey =
            Self { apex: Vec::new(), serial: 0, signed: false, parts: Parts::default(), octets: 0 };
        for count in 0u64.. {
            if count.is_multiple_of(8192) {
                progress(scanner.octets());
            }
            let Some(record) = scanner.next()? else { break };
            order.is_new(&record)?;
            if record.rtype == rtype::SOA {
                survey.apex.extend_from_slice(record.owner);
                survey.serial = soa_serial(record.rdata);
            }
            if is_dnssec(record.rtype) {
                if !unsign {
                    return Err(zone.signed(&record));
                }
                survey.signed = true;
                continue;
            }
            if let Some(label) =
                wire::ranges::label_below(record.owner, &survey.apex).filter(|l| !l.is_empty())
            {
                survey.parts.count(label);
            }
        }
        survey.octets = scanner.octets();
        Ok(survey)
    }
}

/// The slices that need the addresses of names outside of them: pairs in canonical order.
struct Needs {
    pairs: Sorted,
    ahead: Option<(Vec<u8>, usize)>,
    key: Vec<u8>,
}

impl Needs {
    fn read(
        zone: &InOrder,
        apex: &[u8],
        partition: &Partition,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, Error> {
        let spool = |source| Error::Spool { source };
        let mut scanner = zone.open()?;
        let mut pairs = Sorter::new();
        let mut key = Vec::new();
        for count in 0u64.. {
            if count.is_multiple_of(8192) {
                progress(scanner.octets());
            }
            let Some(record) = scanner.next()? else { break };
            let target = record.rdata;
            if record.rtype != rtype::NS || target.len() == apex.len() {
                continue;
            }
            let Some(of) = partition.find(target, apex) else { continue };
            key.clear();
            name::sort_key(target, &mut key);
            let mut need = |n: usize| match n == of {
                true => Ok(()),
                false => pairs.push(&[&key[..], &(n as u32).to_be_bytes()].concat(), &[]).map_err(spool),
            };
            if record.owner.len() == apex.len() {
                (0..partition.ranges().len()).try_for_each(need)?;
            } else if let Some(n) = partition.find(record.owner, apex) {
                need(n)?;
            }
        }
        let mut needs = Self { pairs: pairs.finish().map_err(spool)?, ahead: None, key };
        needs.advance()?;
        Ok(needs)
    }

    fn advance(&mut self) -> Result<(), Error> {
        let next = self.pairs.next().map_err(|source| Error::Spool { source })?;
        self.ahead = next.and_then(|(key, _)| {
            let (key, slice) = key.split_last_chunk::<4>()?;
            Some((key.to_vec(), u32::from_be_bytes(*slice) as usize))
        });
        Ok(())
    }

    /// Adds the slices that need the owner's addresses; owners must come in canonical order. Once they are added,
    /// asking again adds nothing.
    fn users(&mut self, owner: &[u8], users: &mut Vec<usize>) -> Result<(), Error> {
        if self.ahead.is_none() {
            return Ok(());
        }
        self.key.clear();
        name::sort_key(owner, &mut self.key);
        while let Some((key, slice)) = &self.ahead
            && *key <= self.key
        {
            if *key == self.key && users.last() != Some(slice) {
                users.push(*slice);
            }
            self.advance()?;
        }
        Ok(())
    }
}
