//! A question whose answer shows that a server has a zone, and the delegations of a zone.

use crate::error::Error;
use crate::scan::{Record, Scanner};
use serde::{Deserialize, Serialize};
use std::path::Path;
use wire::name::{self, Name};
use wire::rtype;

/// The records that a server must answer with to be ready: an RRset at the end of the zone, and the serial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The zone's name.
    pub origin: Name,
    /// The SOA's serial.
    pub serial: u32,
    /// Owner of the RRset: the last delegation in canonical order, or where there is none the last
    /// owner of authoritative data.
    pub name: Name,
    /// Type of the RRset (NS for a delegation).
    pub rtype: u16,
    /// The RRset's data, uncompressed wire format, in the order of the file.
    pub rdata: Vec<Vec<u8>>,
    /// True where the RRset is a delegation's: a server answers it as a referral.
    pub delegation: bool,
    /// True where the apex has a DNSKEY.
    pub signed: bool,
    /// RRSIG records.
    pub signatures: u64,
    /// NSEC and NSEC3 records.
    pub denials: u64,
    /// Delegations in the zone.
    pub delegations: u64,
    /// Size of the file in octets, included files with it.
    pub bytes: u64,
}

/// An RRset seen last in canonical order.
#[derive(Default)]
struct Last {
    owner: Vec<u8>,
    rtype: u16,
    rdata: Vec<Vec<u8>>,
}

impl Last {
    /// Takes the record if nothing seen so far comes after it.
    fn offer(&mut self, record: &Record<'_>) {
        if self.owner.is_empty() || name::canonical_cmp(record.owner, &self.owner).is_gt() {
            self.owner.clear();
            self.owner.extend_from_slice(record.owner);
        } else if !name::equal(record.owner, &self.owner) {
            return;
        } else if self.rtype == record.rtype {
            self.rdata.push(record.rdata.to_vec());
            return;
        }
        self.rtype = record.rtype;
        self.rdata.clear();
        self.rdata.push(record.rdata.to_vec());
    }
}

/// Finds what to ask a server for; one streaming pass.
///
/// # Errors
/// The scanner's errors, and [`Error::Read`].
pub fn probe(path: &Path) -> Result<Probe, Error> {
    let mut scanner = Scanner::open(path)?;
    let (mut apex, mut serial) = (Vec::new(), 0);
    let (mut cut, mut authoritative) = (Last::default(), Last::default());
    let (mut delegations, mut signed) = (0, false);
    let (mut signatures, mut denials) = (0, 0);
    let mut last_cut = Vec::new();
    while let Some(record) = scanner.next()? {
        if record.rtype == rtype::SOA {
            apex = record.owner.to_vec();
            serial = soa_serial(record.rdata);
        }
        let at_apex = record.owner.len() == apex.len();
        signed |= at_apex && record.rtype == rtype::DNSKEY;
        signatures += u64::from(record.rtype == rtype::RRSIG);
        denials += u64::from(matches!(record.rtype, rtype::NSEC | rtype::NSEC3));
        if record.rtype == rtype::NS && !at_apex {
            if !name::equal(record.owner, &last_cut) {
                delegations += 1;
                last_cut = record.owner.to_vec();
            }
            // An NS record below another delegation is out of sight.
            if cut.owner.is_empty() || !strictly_under(record.owner, &cut.owner) {
                cut.offer(&record);
            }
        } else if delegations == 0 && !matches!(record.rtype, rtype::RRSIG | rtype::NSEC | rtype::NSEC3) {
            authoritative.offer(&record);
        }
    }
    let delegation = !cut.owner.is_empty();
    let last = if delegation { cut } else { authoritative };
    let name_of =
        |wire: &[u8]| Name::from_wire(wire).map_err(|e| Error::Unable(format!("{}: {e}", path.display())));
    Ok(Probe {
        origin: name_of(&apex)?,
        serial,
        name: name_of(&last.owner)?,
        rtype: last.rtype,
        rdata: last.rdata,
        delegation,
        signed,
        signatures,
        denials,
        delegations,
        bytes: scanner.octets(),
    })
}

/// True where a zone of so many RRSIG, and NSEC and NSEC3 records is signed only in part: each record that denies names has a
/// signature of its own.
pub fn is_signed_in_part(signatures: u64, denials: u64) -> bool {
    signatures < denials
}

/// True strictly below `ancestor`.
pub(crate) fn strictly_under(name: &[u8], ancestor: &[u8]) -> bool {
    name.len() > ancestor.len() && name::is_under(name, ancestor)
}

/// The serial in a SOA's data; zero where the data are none.
pub fn soa_serial(rdata: &[u8]) -> u32 {
    wire::transfer::soa_serial(rdata).unwrap_or(0)
}

/// Calls `each` with every delegation in the order of the file: its owner (wire format), and whether
/// it has a DS record next to its NS records. In a zone without delegations: with every owner, each
/// run of equal owners once, and `false`.
///
/// # Errors
/// The scanner's errors; what was already called stays called.
pub fn delegations(path: &Path, each: &mut dyn FnMut(&[u8], bool)) -> Result<(), Error> {
    let mut scanner = Scanner::open(path)?;
    let mut apex = Vec::new();
    let (mut open, mut has_ds, mut any) = (Vec::new(), false, false);
    while let Some(record) = scanner.next()? {
        match record.rtype {
            rtype::SOA => apex = record.owner.to_vec(),
            rtype::NS if record.owner.len() != apex.len() => {
                if !open.is_empty() && name::equal(record.owner, &open) {
                    continue;
                }
                if any {
                    each(&open, has_ds);
                }
                (any, has_ds) = (true, false);
                open.clear();
                open.extend_from_slice(record.owner);
            }
            rtype::DS if name::equal(record.owner, &open) => has_ds = true,
            _ => {}
        }
    }
    if any {
        each(&open, has_ds);
        return Ok(());
    }
    let mut scanner = Scanner::open(path)?;
    while let Some(record) = scanner.next()? {
        if !name::equal(record.owner, &open) {
            open.clear();
            open.extend_from_slice(record.owner);
            each(&open, false);
        }
    }
    Ok(())
}
