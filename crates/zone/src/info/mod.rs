//! Facts of a zone, in one streaming pass.

mod pass;
mod servers;

use crate::error::Error;
use crate::scan::Scanner;
use pass::Pass;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use wire::name::Name;

/// Facts of a zone. What concerns delegations holds for zones whose delegations are directly followed
/// by what is below them, as canonical order has it: see [`Info::in_order`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Info {
    /// The zone's name.
    pub origin: String,
    /// The SOA's serial.
    pub serial: u32,
    /// Delegations.
    pub delegations: u64,
    /// Records in all.
    pub records: u64,
    /// Records by type.
    pub types: BTreeMap<String, u64>,
    /// Size of the text in octets, included files with it.
    pub bytes: u64,
    /// Size of all records in octets of uncompressed wire format.
    pub wire_bytes: u64,
    /// Delegations by the length of their first label in octets.
    pub label_length: BTreeMap<u8, u64>,
    /// The same for IDNs alone (labels that begin with `xn--`, RFC 5890).
    pub idn_label_length: BTreeMap<u8, u64>,
    /// Share of the delegations whose label is an IDN, 0 to 1.
    pub idn_share: f64,
    /// Delegations by their number of NS records.
    pub ns_per_delegation: BTreeMap<u32, u64>,
    /// Delegations' name servers.
    pub servers: Servers,
    /// Addresses at and below delegations.
    pub glue: Glue,
    /// Share of the delegations that have a DS record, 0 to 1.
    pub ds_share: f64,
    /// Delegations with DS records by how many they have.
    pub ds_per_delegation: BTreeMap<u32, u64>,
    /// DS records by the algorithm of the key that they stand for.
    pub ds_algorithms: BTreeMap<u8, u64>,
    /// DS records by digest type.
    pub ds_digests: BTreeMap<u8, u64>,
    /// TTLs of each type in seconds: the 16 met first, what else there is under `other`.
    pub ttl: BTreeMap<String, BTreeMap<String, u64>>,
    /// The top of the zone.
    pub apex: Apex,
    /// True where the apex has a DNSKEY record.
    pub signed: bool,
    /// Signatures by the algorithm that made them.
    pub algorithms: BTreeMap<String, u64>,
    /// `NSEC`, `NSEC3` or `none`.
    pub denial: String,
    /// True where delegations come in canonical order (RFC 4034 section 6.1).
    pub in_order: bool,
}

/// SOA and NS records at the apex.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Apex {
    /// The SOA's primary and mailbox.
    pub primary: String,
    /// The SOA's mailbox, as a name.
    pub mailbox: String,
    /// Refresh, retry, expire and minimum, in seconds.
    pub timers: [u32; 4],
    /// TTL of the SOA, in seconds.
    pub soa_ttl: u32,
    /// TTL of the NS records, in seconds.
    pub ns_ttl: u32,
    /// The zone's own servers in the order of the file, 64 at most.
    pub servers: Vec<String>,
}

/// Delegations' name servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Servers {
    /// NS records whose server lies at or below the delegation itself.
    pub inside: u64,
    /// NS records whose server lies elsewhere in the zone.
    pub in_zone: u64,
    /// NS records whose server lies out of the zone.
    pub out_of_zone: u64,
    /// How servers are shared.
    pub sharing: Sharing,
}

/// How delegations share servers. Exact up to 65,536 servers; beyond that the counts of servers are
/// those of a sample by hash of the name, scaled up.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sharing {
    /// True where every server was counted.
    pub exact: bool,
    /// Servers in the sample.
    pub sampled: u64,
    /// Distinct server names.
    pub servers: u64,
    /// Standard error of that number as a share of it, 0 where it is exact.
    pub standard_error: f64,
    /// Servers by how many delegations they serve.
    pub delegations_per_server: BTreeMap<u32, u64>,
    /// The same for servers that are inside no delegation that they serve.
    pub elsewhere: BTreeMap<u32, u64>,
    /// The same servers by the name that they lie under: in the zone the one just below the apex, out of it
    /// the top-level domain.
    pub under: BTreeMap<String, u64>,
    /// Delegations of the ten servers with the most.
    pub largest: BTreeMap<String, u64>,
    /// By how much these may be too low: 0 where all is exact.
    pub largest_error: u64,
}

/// Addresses at and below delegations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Glue {
    /// Owners.
    pub names: u64,
    /// Owners with an A record.
    pub names_with_a: u64,
    /// Owners with an AAAA record.
    pub names_with_aaaa: u64,
    /// A records.
    pub a: u64,
    /// AAAA records.
    pub aaaa: u64,
    /// The ten delegations with the most owners of glue below them.
    pub most: BTreeMap<String, u64>,
}

impl Info {
    /// Records of a type, by its name.
    pub fn count(&self, name: &str) -> u64 {
        self.types.get(name).copied().unwrap_or(0)
    }
}

/// Reads a zone file and says what is in it; `progress` hears how many octets were read.
///
/// # Errors
/// The scanner's errors.
pub fn info(path: &Path, progress: &mut dyn FnMut(u64)) -> Result<Info, Error> {
    let mut scanner = Scanner::open(path)?;
    let mut pass = Pass::new();
    let mut records = 0u64;
    while let Some(record) = scanner.next()? {
        pass.record(&record);
        records += 1;
        if records.is_multiple_of(8192) {
            progress(scanner.octets());
        }
    }
    progress(scanner.octets());
    Ok(pass.finish(scanner.octets()))
}

/// A name as people write it.
fn shown(wire: &[u8]) -> String {
    Name::from_wire(wire).map_or_else(|e| e.to_string(), |n| n.to_string())
}
