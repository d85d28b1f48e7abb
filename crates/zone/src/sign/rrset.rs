//! One RRset at a time, for who changes a zone that is signed already: the keys are at hand, the zone is not.

use super::canonical::Canonical;
use super::keys::Keys;
use super::rrsig::{Rrset, RrsigTemplate};
use crate::codec;
use crate::error::Error;
use aws_lc_rs::rand::SystemRandom;
use std::path::Path;
use wire::class;
use wire::name::{self, Name};

/// Signs RRsets with the zone-signing key of a folder.
pub struct RrsetSigner {
    keys: Keys,
    random: SystemRandom,
    template: RrsigTemplate,
    canonical: Canonical,
    data: Vec<u8>,
}

impl std::fmt::Debug for RrsetSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RrsetSigner").field("tag", &self.keys.zone_key().tag).finish_non_exhaustive()
    }
}

impl RrsetSigner {
    /// Reads the zone's keys from a folder (BIND's `K*.key` and `K*.private`), whatever their algorithm. Signatures are valid from
    /// `inception` (seconds since 1970) for `validity` seconds.
    ///
    /// # Errors
    /// [`Error::Key`] where the folder has none of the zone's, or more than a pair; [`Error::Read`].
    pub fn load(folder: &Path, origin: &Name, inception: u32, validity: u32) -> Result<Self, Error> {
        let keys = Keys::find(folder, origin)?;
        let origin = origin.clone().lowercase();
        Ok(Self {
            template: RrsigTemplate::new(keys.zone_key(), origin.as_wire(), inception, validity),
            keys,
            random: SystemRandom::new(),
            canonical: Canonical::default(),
            data: Vec::new(),
        })
    }

    /// The data of the RRSIG over an RRset (RFC 4034, section 3.1): its owner in wire format, the data of its records in any order.
    ///
    /// # Errors
    /// [`Error::Unable`] where the key cannot sign.
    pub fn rrsig(&mut self, owner: &[u8], rtype: u16, ttl: u32, rdatas: &[&[u8]]) -> Result<Vec<u8>, Error> {
        let mut owner = owner.to_vec();
        name::lowercase(&mut owner);
        self.canonical.of(rtype, &mut rdatas.to_vec());
        let (set, mut rrsig) = (Rrset { owner: &owner, rtype, class: class::IN, ttl }, Vec::new());
        self.template.begin(&set, &self.canonical, &mut self.data, &mut rrsig);
        self.keys.zone_key().sign(&self.data, &self.random, &mut rrsig)?;
        Ok(rrsig)
    }
}

/// NSEC data (RFC 4034, section 4.1): the next name in wire format, and the types at the owner in any order.
pub fn nsec(next: &[u8], types: &[u16]) -> Vec<u8> {
    let mut types = types.to_vec();
    types.sort_unstable();
    let mut rdata = next.to_vec();
    codec::write_bitmap(&types, &mut rdata);
    rdata
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scanner;
    use crate::sign::{Algorithm, Options, verify};
    use wire::rtype;

    #[test]
    fn what_it_signs_is_verified_by_the_keys_of_the_zone() {
        let folder = tempfile::tempdir().unwrap();
        let text = "Example. 60 IN SOA a. b. 1 2 3 4 5\nExample. 60 IN NS ns.test.\n";
        let options =
            Options { keys: Some(folder.path().into()), ..Options::new(Algorithm::EcdsaP256Sha256, 1_000) };
        let mut signed = Vec::new();
        let mut source = Scanner::new(std::io::Cursor::new(text.as_bytes().to_vec()), "test");
        crate::sign::sign(&mut source, &options, &mut signed, &mut |_| {}).unwrap();
        let mut keys = Vec::new();
        let mut scanner = Scanner::new(std::io::Cursor::new(signed), "test");
        while let Some(record) = scanner.next().unwrap() {
            if record.rtype == rtype::DNSKEY {
                keys.push(record.rdata.to_vec());
            }
        }
        let origin: Name = "example.".parse().unwrap();
        let mut signer = RrsetSigner::load(folder.path(), &origin, 1_000, 500).unwrap();
        let owner = b"\x01A\x07exAmple\0";
        let rdatas: [&[u8]; 2] = [b"\x01b\0", b"\x01A\0"];
        let rrsig = signer.rrsig(owner, rtype::NS, 60, &rdatas).unwrap();
        let read = verify::Rrsig::parse(&rrsig).unwrap();
        assert_eq!((read.covered, read.labels, read.original_ttl), (rtype::NS, 2, 60));
        assert_eq!((read.inception, read.expiration), (1_000, 1_500));
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let verdict = |rdatas: &[&[u8]]| verify::verify(owner, class::IN, rdatas, &read, &keys);
        assert_eq!(verdict(&rdatas), verify::Verification::Valid);
        assert_eq!(verdict(&rdatas[..1]), verify::Verification::Wrong);
        let nowhere = RrsetSigner::load(folder.path(), &"other.".parse().unwrap(), 0, 1).unwrap_err();
        assert!(nowhere.to_string().contains("no keys of other."), "{nowhere}");
    }

    #[test]
    fn denials_have_their_types_in_order() {
        assert_eq!(nsec(b"\0", &[rtype::NSEC, rtype::NS, rtype::RRSIG]), b"\0\0\x06\x20\0\0\0\0\x03");
    }
}
