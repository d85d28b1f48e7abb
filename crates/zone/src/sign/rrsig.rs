//! The data of RRSIG records, and what they sign (RFC 4034, sections 3.1 and 3.1.8.1).

use super::canonical::Canonical;
use super::key::Key;
use wire::name;

/// An RRset that is signed.
pub(super) struct Rrset<'a> {
    /// Its owner in wire format, in small letters.
    pub owner: &'a [u8],
    pub rtype: u16,
    pub class: u16,
    pub ttl: u32,
}

/// The fields that all RRSIGs of a key have in common: algorithm, expiration, inception, key tag and signer.
pub(super) struct RrsigTemplate {
    algorithm: u8,
    wire: Vec<u8>,
}

impl RrsigTemplate {
    /// For signatures with `key` in the zone `origin` (wire format, in small letters), valid from `inception` (seconds since 1970)
    /// for `validity` seconds.
    pub fn new(key: &Key, origin: &[u8], inception: u32, validity: u32) -> Self {
        let mut wire = Vec::new();
        for time in [inception.wrapping_add(validity), inception] {
            wire.extend_from_slice(&time.to_be_bytes());
        }
        wire.extend_from_slice(&key.tag.to_be_bytes());
        wire.extend_from_slice(origin);
        Self { algorithm: key.algorithm().number(), wire }
    }

    /// The octets before the signature.
    pub fn head(&self) -> usize {
        8 + self.wire.len()
    }

    /// Puts the fields before the signature into `rrsig`, and what is to be signed into `data`. Gives the field of labels.
    pub fn begin(
        &self,
        set: &Rrset<'_>,
        canonical: &Canonical,
        data: &mut Vec<u8>,
        rrsig: &mut Vec<u8>,
    ) -> u8 {
        // A wildcard's asterisk is not counted.
        let labels = name::label_count(set.owner) - usize::from(set.owner.starts_with(b"\x01*"));
        rrsig.clear();
        rrsig.extend_from_slice(&set.rtype.to_be_bytes());
        rrsig.extend_from_slice(&[self.algorithm, labels as u8]);
        rrsig.extend_from_slice(&set.ttl.to_be_bytes());
        rrsig.extend_from_slice(&self.wire);
        data.clear();
        data.extend_from_slice(rrsig);
        for record in canonical.records() {
            data.extend_from_slice(set.owner);
            data.extend_from_slice(&set.rtype.to_be_bytes());
            data.extend_from_slice(&set.class.to_be_bytes());
            data.extend_from_slice(&set.ttl.to_be_bytes());
            data.extend_from_slice(&(record.len() as u16).to_be_bytes());
            data.extend_from_slice(record);
        }
        labels as u8
    }
}
