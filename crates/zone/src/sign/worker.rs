//! The workers: they sign and print nodes.

use super::canonical::{Canonical, is_canonical};
use super::chain::Batch;
use super::digest::Records;
use super::key::Key;
use super::node::{Kind, Set, View};
use super::nsec3::write_hash;
use super::rrsig::{Rrset, RrsigTemplate};
use super::{Keys, Options, Zone};
use crate::codec;
use crate::error::Error;
use crate::text::{self, Heads};
use crate::time::write_rrsig_time;
use aws_lc_rs::rand::SystemRandom;
use measure::clock::{self, Nanos};
use std::time::Instant;
use wire::{name, rtype};

/// A batch, signed.
pub(super) struct Signed {
    pub text: Vec<u8>,
    pub records: u64,
    pub signatures: u64,
    /// Of the source, read so far.
    pub octets: u64,
    /// For [`super::nsec3::Hashes`].
    pub hashes: Vec<u8>,
    /// For [`super::digest::Digest`].
    pub digest: Vec<u8>,
    /// Time of this thread's processor: making signatures, and all else.
    pub signing: Nanos,
    pub printing: Nanos,
}

pub(super) struct Worker<'a> {
    zone: &'a Zone,
    random: SystemRandom,
    ksk: Signer<'a>,
    zsk: Signer<'a>,
    digests: bool,
}

/// A key, the fields that its RRSIGs have in common, and these as text.
struct Signer<'a> {
    key: &'a Key,
    template: RrsigTemplate,
    text: Vec<u8>,
}

impl<'a> Signer<'a> {
    fn new(key: &'a Key, zone: &Zone, options: &Options) -> Self {
        let (inception, validity) = (options.inception, options.validity);
        let mut text = Vec::new();
        for time in [inception.wrapping_add(validity), inception] {
            write_rrsig_time(time, &mut text);
            text.push(b' ');
        }
        text::write_number(key.tag.into(), &mut text);
        text.push(b' ');
        name::write_text(&zone.origin, &mut text);
        text.push(b' ');
        Self { key, template: RrsigTemplate::new(key, &zone.origin, inception, validity), text }
    }
}

impl<'a> Worker<'a> {
    pub fn new(zone: &'a Zone, keys: &'a Keys, options: &Options) -> Self {
        Self {
            zone,
            random: SystemRandom::new(),
            ksk: Signer::new(&keys.ksk, zone, options),
            zsk: Signer::new(keys.zone_key(), zone, options),
            digests: options.zonemd,
        }
    }

    pub fn batch(&self, batch: &Batch) -> Result<Signed, Error> {
        let (cpu, start) = (clock::cpu(), Instant::now());
        let signed = Signed {
            text: Vec::with_capacity(batch.flat.len() * 3 + 1024),
            records: 0,
            signatures: 0,
            octets: batch.octets,
            hashes: Vec::new(),
            digest: Vec::new(),
            signing: 0,
            printing: 0,
        };
        let mut writer = BatchWriter::new(self, signed);
        let (mut flat, mut view) = (&batch.flat[..], View::new());
        while view.read(&mut flat).is_some() {
            writer.node(&view)?;
        }
        let mut signed = writer.signed;
        // Signatures were timed by the wall; what of that was this thread's is as of the whole.
        let (cpu, wall) = (clock::cpu() - cpu, start.elapsed().as_nanos().max(1));
        let signing = u128::from(signed.signing).min(wall);
        signed.signing = (u128::from(cpu) * signing / wall) as Nanos;
        signed.printing = cpu - signed.signing;
        Ok(signed)
    }
}

/// Writes one batch; all but `signed` are buffers used again and again.
struct BatchWriter<'w, 'a, 'b> {
    worker: &'w Worker<'a>,
    signed: Signed,
    /// Owner of the node, in small letters; its text, once it is written.
    owner: Vec<u8>,
    named: bool,
    canonical: Canonical,
    rdatas: Vec<&'b [u8]>,
    types: Vec<u16>,
    data: Vec<u8>,
    rrsig: Vec<u8>,
    records: Records,
    heads: Heads,
}

impl<'w, 'a, 'b> BatchWriter<'w, 'a, 'b> {
    fn node(&mut self, node: &View<'b>) -> Result<(), Error> {
        let zone = self.worker.zone;
        self.owner.clear();
        self.owner.extend_from_slice(node.owner);
        name::lowercase(&mut self.owner);
        self.named = false;
        self.types.clear();
        if node.kind == Kind::EmptyNonTerminal {
            self.hash();
            return Ok(());
        }
        let at_apex = self.owner.len() == zone.origin.len();
        // A zone file begins with the SOA.
        let first = node.sets.iter().position(|s| at_apex && s.rtype == rtype::SOA);
        if let Some(first) = first {
            self.set(node, &node.sets[first])?;
        }
        for (i, set) in node.sets.iter().enumerate() {
            if first != Some(i) {
                self.set(node, set)?;
            }
        }
        if matches!(node.kind, Kind::Data | Kind::Cut) {
            self.deny(node, at_apex)?;
        }
        if self.worker.digests {
            self.records.write(&self.owner, zone.class, &mut self.signed.digest);
        }
        Ok(())
    }

    /// The owner's place in the chain: the NSEC record, or the hash and the types for NSEC3.
    fn deny(&mut self, node: &View<'b>, at_apex: bool) -> Result<(), Error> {
        if node.kind == Kind::Cut {
            // Addresses at a delegation are glue, and not of this zone.
            self.types.retain(|&t| t == rtype::NS || t == rtype::DS);
        }
        if at_apex && self.worker.digests {
            self.types.push(rtype::ZONEMD);
        }
        let zone = self.worker.zone;
        if zone.nsec3.is_some() {
            if node.kind == Kind::Data || self.types.contains(&rtype::DS) {
                self.types.push(rtype::RRSIG);
            }
            self.hash();
            return Ok(());
        }
        self.types.extend([rtype::RRSIG, rtype::NSEC]);
        self.types.sort_unstable();
        let mut rdata = node.next.to_vec();
        codec::write_bitmap(&self.types, &mut rdata);
        self.canonical.of_one(rtype::NSEC, &rdata);
        self.line(node, rtype::NSEC, zone.nsec_ttl, &rdata);
        self.sign(node, rtype::NSEC, zone.nsec_ttl, false)
    }

    fn hash(&mut self) {
        let Some(nsec3) = &self.worker.zone.nsec3 else { return };
        self.types.sort_unstable();
        write_hash(&nsec3.hash(&self.owner), &self.types, &mut self.signed.hashes);
    }

    /// Prints an RRset, signed where the zone answers for it.
    fn set(&mut self, node: &View<'b>, set: &Set) -> Result<(), Error> {
        let (rtype, records) = (set.rtype, set.records.clone());
        self.types.push(rtype);
        let signs = match node.kind {
            Kind::Data | Kind::Made => true,
            Kind::Cut => rtype == rtype::DS,
            Kind::OptedOut | Kind::Below | Kind::EmptyNonTerminal => false,
        };
        if signs || self.worker.digests || !is_canonical(rtype, &node.rdatas[records.clone()]) {
            let mut rdatas = std::mem::take(&mut self.rdatas);
            rdatas.clear();
            rdatas.extend_from_slice(&node.rdatas[records]);
            self.canonical.of(rtype, &mut rdatas);
            for rdata in &rdatas {
                self.line(node, rtype, set.ttl, rdata);
            }
            self.rdatas = rdatas;
        } else {
            for rdata in &node.rdatas[records] {
                self.line(node, rtype, set.ttl, rdata);
            }
        }
        if signs {
            // The zone's keys, and what a parent takes from them, are signed with the key that the parent
            // knows (RFC 7344 section 4.1).
            let keys = matches!(rtype, rtype::DNSKEY | rtype::CDS | rtype::CDNSKEY);
            let ksk = keys && self.owner.len() == self.worker.zone.origin.len();
            return self.sign(node, rtype, set.ttl, ksk);
        }
        self.digest(rtype, set.ttl);
        Ok(())
    }

    fn digest(&mut self, rtype: u16, ttl: u32) {
        if self.worker.digests {
            self.canonical.records().for_each(|rdata| self.records.push(rtype, ttl, rdata));
        }
    }

    fn owner_text(&mut self, node: &View<'_>) {
        if !std::mem::replace(&mut self.named, true) {
            name::write_text(node.owner, &mut self.signed.text);
        }
    }

    fn line(&mut self, node: &View<'_>, rtype: u16, ttl: u32, rdata: &[u8]) {
        self.owner_text(node);
        let out = &mut self.signed.text;
        self.heads.write(ttl, self.worker.zone.class, rtype, out);
        text::write_rdata(rtype, rdata, out);
        out.push(b'\n');
        self.signed.records += 1;
    }

    /// Signs the RRset whose canonical form is at hand (RFC 4034 section 3.1.8.1), and prints the RRSIG.
    fn sign(&mut self, node: &View<'_>, rtype: u16, ttl: u32, ksk: bool) -> Result<(), Error> {
        let worker = self.worker;
        let signer = if ksk { &worker.ksk } else { &worker.zsk };
        let set = Rrset { owner: &self.owner, rtype, class: worker.zone.class, ttl };
        let labels = signer.template.begin(&set, &self.canonical, &mut self.data, &mut self.rrsig);
        let start = Instant::now();
        signer.key.sign(&self.data, &worker.random, &mut self.rrsig)?;
        self.signed.signing += start.elapsed().as_nanos() as Nanos;

        self.owner_text(node);
        let out = &mut self.signed.text;
        self.heads.write(ttl, worker.zone.class, rtype::RRSIG, out);
        text::write_type(rtype, out);
        let algorithm = signer.key.algorithm().number();
        for number in [algorithm.into(), labels.into(), u64::from(ttl)] {
            out.push(b' ');
            text::write_number(number, out);
        }
        out.push(b' ');
        out.extend_from_slice(&signer.text);
        codec::write_base64(&self.rrsig[signer.template.head()..], out);
        out.push(b'\n');
        self.signed.records += 1;
        self.signed.signatures += 1;
        self.digest(rtype, ttl);
        if worker.digests {
            self.records.push(rtype::RRSIG, ttl, &self.rrsig);
        }
        Ok(())
    }
}

impl<'w, 'a> BatchWriter<'w, 'a, '_> {
    fn new(worker: &'w Worker<'a>, signed: Signed) -> Self {
        Self {
            worker,
            signed,
            owner: Vec::new(),
            named: false,
            canonical: Canonical::default(),
            rdatas: Vec::new(),
            types: Vec::new(),
            data: Vec::new(),
            rrsig: Vec::new(),
            records: Records::default(),
            heads: Heads::default(),
        }
    }
}
