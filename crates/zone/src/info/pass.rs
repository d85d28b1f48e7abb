//! The pass over a zone's records that [`Info`] comes from.

use super::servers::{Place, Servers};
use super::{Info, shown};
use crate::codec;
use crate::probe::soa_serial;
use crate::scan::Record;
use std::collections::BTreeMap;
use wire::name;
use wire::rtype;

/// How many delegations [`super::Glue::most`] names.
const MOST: usize = 10;
/// How many servers of the apex are kept.
const APEX_SERVERS: usize = 64;
/// How many TTLs of a type are counted by themselves.
const TTLS: usize = 16;

/// The counts of one type.
#[derive(Clone, Default)]
struct Type {
    count: u64,
    /// TTLs and how often each was met, the last met first.
    ttls: Vec<(u32, u64)>,
}

impl Type {
    #[inline]
    fn add(&mut self, ttl: u32) {
        self.count += 1;
        match self.ttls.first_mut() {
            Some((last, n)) if *last == ttl => *n += 1,
            _ => self.another(ttl),
        }
    }

    fn another(&mut self, ttl: u32) {
        match self.ttls.iter().position(|t| t.0 == ttl) {
            Some(at) => {
                self.ttls[at].1 += 1;
                self.ttls.swap(0, at);
            }
            None if self.ttls.len() < TTLS => {
                self.ttls.push((ttl, 1));
                let last = self.ttls.len() - 1;
                self.ttls.swap(0, last);
            }
            None => {}
        }
    }
}

/// The delegation that is open, so far.
#[derive(Default)]
struct Cut {
    owner: Vec<u8>,
    ns: u32,
    ds: u32,
    glue_names: u64,
    glue_owner: Vec<u8>,
    /// The current owner of glue has an A, an AAAA record.
    has: [bool; 2],
}

pub(super) struct Pass {
    info: Info,
    apex: Vec<u8>,
    types: Vec<Type>,
    lengths: [u64; 64],
    idn_lengths: [u64; 64],
    ns_counts: Vec<u64>,
    ds_counts: Vec<u64>,
    algorithms: [u64; 256],
    ds_algorithms: [u64; 256],
    ds_digests: [u64; 256],
    servers: Servers,
    cut: Cut,
    most: Vec<(u64, Vec<u8>)>,
}

impl Pass {
    pub fn new() -> Self {
        Self {
            info: Info { in_order: true, ..Info::default() },
            apex: Vec::new(),
            types: vec![Type::default(); 65536],
            lengths: [0; 64],
            idn_lengths: [0; 64],
            ns_counts: Vec::new(),
            ds_counts: Vec::new(),
            algorithms: [0; 256],
            ds_algorithms: [0; 256],
            ds_digests: [0; 256],
            servers: Servers::new(),
            cut: Cut::default(),
            most: Vec::new(),
        }
    }

    pub fn record(&mut self, r: &Record<'_>) {
        self.types[usize::from(r.rtype)].add(r.ttl);
        // Owner, type, class, TTL, length, data.
        self.info.wire_bytes += (r.owner.len() + 10 + r.rdata.len()) as u64;
        let at_apex = r.owner.len() == self.apex.len();
        match r.rtype {
            rtype::SOA => self.soa(r),
            rtype::NS if at_apex => {
                let apex = &mut self.info.apex;
                apex.ns_ttl = r.ttl;
                if apex.servers.len() < APEX_SERVERS {
                    apex.servers.push(shown(r.rdata));
                }
            }
            rtype::NS => self.ns(r),
            rtype::A | rtype::AAAA => self.address(r),
            rtype::DS if name::equal(r.owner, &self.cut.owner) => {
                self.cut.ds += 1;
                if let [_, _, algorithm, digest, ..] = *r.rdata {
                    self.ds_algorithms[usize::from(algorithm)] += 1;
                    self.ds_digests[usize::from(digest)] += 1;
                }
            }
            rtype::DNSKEY if at_apex => self.info.signed = true,
            rtype::RRSIG => {
                if let Some(&algorithm) = r.rdata.get(2) {
                    self.algorithms[usize::from(algorithm)] += 1;
                }
            }
            _ => {}
        }
    }

    fn soa(&mut self, r: &Record<'_>) {
        self.apex = r.owner.to_vec();
        let apex = &mut self.info.apex;
        apex.soa_ttl = r.ttl;
        let Some((names, numbers)) = r.rdata.split_last_chunk::<20>() else { return };
        let primary = name::wire_len(names).unwrap_or(names.len());
        (apex.primary, apex.mailbox) = (shown(&names[..primary]), shown(&names[primary..]));
        let (words, _) = numbers.as_chunks::<4>();
        apex.timers = std::array::from_fn(|i| u32::from_be_bytes(words[i + 1]));
        self.info.serial = soa_serial(r.rdata);
    }

    fn ns(&mut self, r: &Record<'_>) {
        if !name::equal(r.owner, &self.cut.owner) {
            self.close();
            self.info.in_order &=
                self.cut.owner.is_empty() || name::canonical_cmp(r.owner, &self.cut.owner).is_gt();
            self.cut.owner.clear();
            self.cut.owner.extend_from_slice(r.owner);
            let length = usize::from(r.owner[0] & 63);
            self.lengths[length] += 1;
            if r.owner[1..].get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"xn--")) {
                self.idn_lengths[length] += 1;
            }
        }
        self.cut.ns += 1;
        let servers = &mut self.info.servers;
        let (place, records) = if name::is_under(r.rdata, &self.cut.owner) {
            (Place::Inside, &mut servers.inside)
        } else if self.apex.len() == 1 || name::is_under(r.rdata, &self.apex) {
            (Place::InZone, &mut servers.in_zone)
        } else {
            (Place::OutOfZone, &mut servers.out_of_zone)
        };
        *records += 1;
        self.servers.add(r.rdata, place, &self.apex);
    }

    fn address(&mut self, r: &Record<'_>) {
        let (cut, glue) = (&mut self.cut, &mut self.info.glue);
        let same_owner = cut.glue_owner == r.owner;
        if !same_owner && (cut.owner.is_empty() || !name::is_under(r.owner, &cut.owner)) {
            return;
        }
        if !same_owner {
            cut.glue_owner.clear();
            cut.glue_owner.extend_from_slice(r.owner);
            cut.glue_names += 1;
            cut.has = [false; 2];
        }
        let (kind, records, names) = match r.rtype {
            rtype::A => (0, &mut glue.a, &mut glue.names_with_a),
            _ => (1, &mut glue.aaaa, &mut glue.names_with_aaaa),
        };
        *records += 1;
        *names += u64::from(!std::mem::replace(&mut cut.has[kind], true));
    }

    /// Counts the delegation that was open.
    fn close(&mut self) {
        let cut = &mut self.cut;
        if cut.ns == 0 {
            return;
        }
        self.info.delegations += 1;
        tally(&mut self.ns_counts, cut.ns);
        if cut.ds > 0 {
            tally(&mut self.ds_counts, cut.ds);
        }
        self.info.glue.names += cut.glue_names;
        if cut.glue_names > 0 && (self.most.len() < MOST || self.most[MOST - 1].0 < cut.glue_names) {
            self.most.push((cut.glue_names, cut.owner.clone()));
            self.most.sort_by_key(|m| std::cmp::Reverse(m.0));
            self.most.truncate(MOST);
        }
        (cut.ns, cut.ds, cut.glue_names) = (0, 0, 0);
        cut.glue_owner.clear();
    }

    pub fn finish(mut self, bytes: u64) -> Info {
        self.close();
        let mut info = self.info;
        info.origin = shown(&self.apex);
        info.bytes = bytes;
        for (number, t) in self.types.iter().enumerate().filter(|(_, t)| t.count > 0) {
            let name = rtype::to_text(number as u16);
            info.records += t.count;
            info.types.insert(name.clone(), t.count);
            let mut ttls: BTreeMap<String, u64> =
                t.ttls.iter().map(|(ttl, n)| (ttl.to_string(), *n)).collect();
            let other = t.count - ttls.values().sum::<u64>();
            if other > 0 {
                ttls.insert("other".to_owned(), other);
            }
            info.ttl.insert(name, ttls);
        }
        let denial = ["NSEC3", "NSEC"].into_iter().find(|t| info.count(t) > 0);
        info.denial = denial.unwrap_or("none").to_owned();
        info.label_length = met(&self.lengths, |l| l as u8);
        info.idn_label_length = met(&self.idn_lengths, |l| l as u8);
        info.ns_per_delegation = met(&self.ns_counts, |n| n as u32);
        info.ds_per_delegation = met(&self.ds_counts, |n| n as u32);
        info.ds_algorithms = met(&self.ds_algorithms, |a| a as u8);
        info.ds_digests = met(&self.ds_digests, |d| d as u8);
        info.algorithms = met(&self.algorithms, |a| codec::algorithm_name(a as u8));
        info.glue.most = self.most.iter().map(|(n, cut)| (shown(cut), *n)).collect();
        let share = |n: u64| if info.delegations == 0 { 0.0 } else { n as f64 / info.delegations as f64 };
        info.ds_share = share(info.ds_per_delegation.values().sum());
        info.idn_share = share(info.idn_label_length.values().sum());
        info.servers.sharing = self.servers.finish();
        info
    }
}

/// Counts one more thing of a size.
fn tally(counts: &mut Vec<u64>, size: u32) {
    let size = size as usize;
    if counts.len() <= size {
        counts.resize(size + 1, 0);
    }
    counts[size] += 1;
}

/// The counts that are not zero, by name.
fn met<K: Ord>(counts: &[u64], key: impl Fn(usize) -> K) -> BTreeMap<K, u64> {
    counts.iter().enumerate().filter(|(_, n)| **n > 0).map(|(i, &n)| (key(i), n)).collect()
}
