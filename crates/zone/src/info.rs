//! Facts of a zone, in one streaming pass.

use crate::codec;
use crate::error::Error;
use crate::probe::soa_serial;
use crate::scan::{Record, Scanner};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use wire::name::{self, Name};
use wire::rtype;

/// Facts of a zone. What concerns delegations holds for zones whose delegations are directly followed
/// by what is below them, as canonical order has it.
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
    /// Delegations by their number of NS records.
    pub ns_per_delegation: BTreeMap<u32, u64>,
    /// Addresses at and below delegations.
    pub glue: Glue,
    /// Share of the delegations that have a DS record, 0 to 1.
    pub ds_share: f64,
    /// True where the apex has a DNSKEY record.
    pub signed: bool,
    /// Signatures by the algorithm that made them.
    pub algorithms: BTreeMap<String, u64>,
}

/// Addresses at and below delegations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Glue {
    /// Owners.
    pub names: u64,
    /// A records.
    pub a: u64,
    /// AAAA records.
    pub aaaa: u64,
    /// The ten delegations with the most owners of glue below them.
    pub most: BTreeMap<String, u64>,
}

/// How many delegations [`Glue::most`] names.
const MOST: usize = 10;

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
    while let Some(record) = scanner.next()? {
        pass.record(&record);
        if pass.info.records.is_multiple_of(8192) {
            progress(scanner.octets());
        }
    }
    progress(scanner.octets());
    Ok(pass.finish(scanner.octets()))
}

struct Pass {
    info: Info,
    apex: Vec<u8>,
    types: Vec<u64>,
    lengths: [u64; 64],
    algorithms: [u64; 256],
    /// The delegation that is open, and what was seen of it.
    cut: Vec<u8>,
    ns: u32,
    has_ds: bool,
    glue_names: u64,
    last_glue: Vec<u8>,
    with_ds: u64,
    most: Vec<(u64, Vec<u8>)>,
}

impl Pass {
    fn new() -> Self {
        Self {
            info: Info::default(),
            apex: Vec::new(),
            types: vec![0; 65536],
            lengths: [0; 64],
            algorithms: [0; 256],
            cut: Vec::new(),
            ns: 0,
            has_ds: false,
            glue_names: 0,
            last_glue: Vec::new(),
            with_ds: 0,
            most: Vec::new(),
        }
    }

    fn record(&mut self, r: &Record<'_>) {
        self.info.records += 1;
        self.types[usize::from(r.rtype)] += 1;
        // Owner, type, class, TTL, length, data.
        self.info.wire_bytes += (r.owner.len() + 10 + r.rdata.len()) as u64;
        let at_apex = r.owner.len() == self.apex.len();
        match r.rtype {
            rtype::SOA => {
                self.apex = r.owner.to_vec();
                self.info.serial = soa_serial(r.rdata);
            }
            rtype::NS if !at_apex => {
                if !name::equal(r.owner, &self.cut) {
                    self.close();
                    self.cut.clear();
                    self.cut.extend_from_slice(r.owner);
                    self.lengths[usize::from(r.owner[0] & 63)] += 1;
                }
                self.ns += 1;
            }
            rtype::A | rtype::AAAA if !self.cut.is_empty() && name::is_under(r.owner, &self.cut) => {
                let glue = &mut self.info.glue;
                *(if r.rtype == rtype::A { &mut glue.a } else { &mut glue.aaaa }) += 1;
                if self.last_glue != r.owner {
                    self.last_glue.clear();
                    self.last_glue.extend_from_slice(r.owner);
                    self.glue_names += 1;
                }
            }
            rtype::DS => self.has_ds |= name::equal(r.owner, &self.cut),
            rtype::DNSKEY if at_apex => self.info.signed = true,
            rtype::RRSIG => {
                if let Some(&algorithm) = r.rdata.get(2) {
                    self.algorithms[usize::from(algorithm)] += 1;
                }
            }
            _ => {}
        }
    }

    fn close(&mut self) {
        if self.ns == 0 {
            return;
        }
        self.info.delegations += 1;
        *self.info.ns_per_delegation.entry(self.ns).or_default() += 1;
        self.with_ds += u64::from(self.has_ds);
        self.info.glue.names += self.glue_names;
        if self.glue_names > 0 && (self.most.len() < MOST || self.most[MOST - 1].0 < self.glue_names) {
            self.most.push((self.glue_names, self.cut.clone()));
            self.most.sort_by_key(|m| std::cmp::Reverse(m.0));
            self.most.truncate(MOST);
        }
        (self.ns, self.has_ds, self.glue_names) = (0, false, 0);
    }

    fn finish(mut self, bytes: u64) -> Info {
        self.close();
        let shown = |wire: &[u8]| Name::from_wire(wire).map_or_else(|e| e.to_string(), |n| n.to_string());
        let mut info = self.info;
        info.origin = shown(&self.apex);
        info.bytes = bytes;
        let types = self.types.iter().enumerate().filter(|&(_, &n)| n > 0);
        info.types = types.map(|(t, &n)| (rtype::to_text(t as u16), n)).collect();
        let lengths = self.lengths.iter().enumerate().filter(|&(_, &n)| n > 0);
        info.label_length = lengths.map(|(l, &n)| (l as u8, n)).collect();
        let algorithms = self.algorithms.iter().enumerate().filter(|&(_, &n)| n > 0);
        info.algorithms = algorithms.map(|(a, &n)| (codec::algorithm_name(a as u8), n)).collect();
        info.glue.most = self.most.iter().map(|(n, cut)| (shown(cut), *n)).collect();
        info.ds_share =
            if info.delegations == 0 { 0.0 } else { self.with_ds as f64 / info.delegations as f64 };
        info
    }
}
