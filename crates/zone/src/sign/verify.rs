//! The other side of signing: signatures verified (RFC 4034 section 3.1.8.1, RFC 4035 section 5.3), denial of existence
//! read. For those who check answers; off every hot path.

use super::canonical::Canonical;
use super::key::key_tag;
use super::nsec3::Nsec3;
use crate::codec;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
    RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use wire::name;

pub use super::canonical::canonical_rdata;

/// RRSIG data (RFC 4034 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rrsig<'a> {
    /// Type of the RRset that it signs.
    pub covered: u16,
    /// Algorithm number.
    pub algorithm: u8,
    /// Labels of the owner, neither the root's nor a wildcard's asterisk counted.
    pub labels: u8,
    /// TTL that was signed, seconds.
    pub original_ttl: u32,
    /// End of its validity, seconds since 1970 modulo 2^32 (RFC 1982).
    pub expiration: u32,
    /// Start of its validity, likewise.
    pub inception: u32,
    /// Key tag.
    pub key_tag: u16,
    /// The zone's name, uncompressed wire format.
    pub signer: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
    /// All before the signature.
    head: &'a [u8],
}

impl<'a> Rrsig<'a> {
    /// Reads RRSIG data; `None` where they are malformed.
    pub fn parse(rdata: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = rdata.split_first_chunk::<18>()?;
        let signer = name::wire_len(rest)?;
        let long = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        let (head, signature) = rdata.split_at(18 + signer);
        Some(Self {
            covered: u16::from_be_bytes([fixed[0], fixed[1]]),
            algorithm: fixed[2],
            labels: fixed[3],
            original_ttl: long(4),
            expiration: long(8),
            inception: long(12),
            key_tag: u16::from_be_bytes([fixed[16], fixed[17]]),
            signer: &rest[..signer],
            signature,
            head,
        })
    }
}

/// The verdict on a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// A key of the zone made it over these records.
    Valid,
    /// The key with its tag did not.
    Wrong,
    /// No key has its algorithm and tag.
    NoKey,
    /// Its algorithm is not known here.
    Unknown,
}

/// Verifies a signature over an RRset with the zone's keys (DNSKEY data); its times are not looked at.
///
/// `owner` is the RRset's as it was answered: where the signature has fewer labels, a wildcard was expanded
/// (RFC 4035 section 5.3.2).
pub fn verify(owner: &[u8], class: u16, rdatas: &[&[u8]], rrsig: &Rrsig<'_>, keys: &[&[u8]]) -> Verification {
    let mut name = owner.to_vec();
    let count = name::label_count(owner) - usize::from(owner.starts_with(b"\x01*"));
    let Some(expanded) = count.checked_sub(usize::from(rrsig.labels)) else { return Verification::Wrong };
    if expanded > 0 {
        let up = (0..expanded).fold(owner, |up, _| name::parent(up));
        name = [b"\x01*", up].concat();
    }
    name::lowercase(&mut name);
    let mut canonical = Canonical::default();
    canonical.of(rrsig.covered, &mut rdatas.to_vec());
    let mut data = rrsig.head.to_vec();
    name::lowercase(&mut data[18..]);
    for record in canonical.records() {
        data.extend_from_slice(&name);
        data.extend_from_slice(&rrsig.covered.to_be_bytes());
        data.extend_from_slice(&class.to_be_bytes());
        data.extend_from_slice(&rrsig.original_ttl.to_be_bytes());
        data.extend_from_slice(&(record.len() as u16).to_be_bytes());
        data.extend_from_slice(record);
    }
    let mut verdict = Verification::NoKey;
    // Tags are not unique (RFC 4034 appendix B).
    let fits = |key: &&&[u8]| key.len() > 4 && key[3] == rrsig.algorithm && key_tag(key) == rrsig.key_tag;
    for key in keys.iter().filter(fits) {
        verdict = verify_with(rrsig.algorithm, &key[4..], &data, rrsig.signature);
        if verdict == Verification::Valid {
            break;
        }
    }
    verdict
}

/// Verifies with one key, as the DNSKEY record has it.
pub(super) fn verify_with(algorithm: u8, key: &[u8], data: &[u8], signature: &[u8]) -> Verification {
    let rsa = |parameters| {
        // RFC 3110 section 2: one octet of length, or a zero and two.
        let (len, rest) = match *key {
            [0, high, low, ref rest @ ..] => (usize::from(u16::from_be_bytes([high, low])), rest),
            [len, ref rest @ ..] => (usize::from(len), rest),
            [] => return false,
        };
        let Some((e, n)) = rest.split_at_checked(len) else { return false };
        RsaPublicKeyComponents { n, e }.verify(parameters, data, signature).is_ok()
    };
    let ecdsa = |algorithm| {
        // Without the octet that says "uncompressed point" (RFC 6605 section 4).
        let point = [&[4], key].concat();
        UnparsedPublicKey::new(algorithm, point).verify(data, signature).is_ok()
    };
    let valid = match algorithm {
        5 | 7 => rsa(&RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY),
        8 => rsa(&RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY),
        10 => rsa(&RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY),
        13 => ecdsa(&ECDSA_P256_SHA256_FIXED),
        14 => ecdsa(&ECDSA_P384_SHA384_FIXED),
        15 => UnparsedPublicKey::new(&ED25519, key).verify(data, signature).is_ok(),
        _ => return Verification::Unknown,
    };
    if valid { Verification::Valid } else { Verification::Wrong }
}

/// NSEC data (RFC 4034 section 4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NsecData<'a> {
    /// The next name, uncompressed wire format.
    pub next: &'a [u8],
    /// Types at the owner, ascending.
    pub types: Vec<u16>,
}

impl<'a> NsecData<'a> {
    /// Reads NSEC data; `None` where they are malformed.
    pub fn parse(rdata: &'a [u8]) -> Option<Self> {
        let (next, bitmap) = rdata.split_at(name::wire_len(rdata)?);
        Some(Self { next, types: codec::read_bitmap(bitmap)? })
    }
}

/// NSEC3 data (RFC 5155 section 3.1), hash algorithm SHA-1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nsec3Data<'a> {
    /// Opt-out, iterations and salt.
    pub parameters: Nsec3,
    /// The next hash.
    pub next: &'a [u8],
    /// Types at the owner, ascending.
    pub types: Vec<u16>,
}

impl<'a> Nsec3Data<'a> {
    /// Reads NSEC3 data; `None` where they are malformed or of another hash algorithm.
    pub fn parse(rdata: &'a [u8]) -> Option<Self> {
        let &[1, flags, high, low, salt, ref rest @ ..] = rdata else { return None };
        let (salt, rest) = rest.split_at_checked(salt.into())?;
        let (&next, rest) = rest.split_first()?;
        let (next, bitmap) = rest.split_at_checked(next.into())?;
        let iterations = u16::from_be_bytes([high, low]);
        let parameters = Nsec3 { opt_out: flags & 1 != 0, iterations, salt: salt.to_vec() };
        Some(Self { parameters, next, types: codec::read_bitmap(bitmap)? })
    }

    /// The hash in the first label of an NSEC3 record's owner.
    pub fn owner_hash(owner: &[u8]) -> Option<Vec<u8>> {
        let (mut hash, label) = (Vec::new(), name::labels(owner).next()?);
        codec::base32hex_decode(label, &mut hash).then_some(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Algorithm, Options};
    use super::*;
    use crate::Scanner;
    use wire::rtype;

    /// Every signature of a zone that [`crate::sign()`] made verifies, and none does over other data.
    #[test]
    fn what_was_signed_verifies() {
        let text = "example. 600 IN SOA ns hostmaster 1 2 3 4 500\n@ NS NS.example.\nns A 192.0.2.1\n\
                    sub NS ns.sub\nsub DS 1 13 2 abcd\n*.w MX 10 Mail.Example.\n*.w MX 5 a.example.\n";
        for algorithm in Algorithm::ALL {
            let mut source = Scanner::new(text.as_bytes(), "test").with_origin(b"\x07example\0");
            let mut signed = Vec::new();
            let options = Options { zsk_bits: 1024, ..Options::new(algorithm, 1_700_000_000) };
            super::super::sign(&mut source, &options, &mut signed, &mut |_| {}).unwrap();
            let mut records = Vec::new();
            let mut scanner = Scanner::new(std::io::Cursor::new(signed), "signed");
            while let Some(r) = scanner.next().unwrap() {
                records.push((r.owner.to_vec(), r.rtype, r.rdata.to_vec()));
            }
            let at = |owner: &[u8], rtype: u16| -> Vec<&[u8]> {
                let here = records.iter().filter(|(o, t, _)| *t == rtype && name::equal(o, owner));
                here.map(|(_, _, rdata)| &rdata[..]).collect()
            };
            let keys = at(b"\x07example\0", rtype::DNSKEY);
            let mut wildcards = 0;
            for (owner, _, rdata) in records.iter().filter(|r| r.1 == rtype::RRSIG) {
                let rrsig = Rrsig::parse(rdata).unwrap();
                let set = at(owner, rrsig.covered);
                assert!(!set.is_empty());
                let verdict =
                    |owner: &[u8], set: &[&[u8]], keys: &[&[u8]]| verify(owner, 1, set, &rrsig, keys);
                assert_eq!(verdict(owner, &set, &keys), Verification::Valid, "{algorithm} {rrsig:?}");
                let reversed: Vec<_> = set.iter().rev().copied().collect();
                assert_eq!(verdict(owner, &reversed, &keys), Verification::Valid, "any order");
                let other = [&[9, 9, 9, 9][..]];
                assert_eq!(verdict(owner, &other, &keys), Verification::Wrong);
                assert_eq!(verdict(b"\x01x\0", &set, &keys), Verification::Wrong);
                assert_eq!(verdict(owner, &set, &[]), Verification::NoKey);
                if owner.starts_with(b"\x01*") {
                    let expanded = [&b"\x01B\x01a"[..], &owner[2..]].concat();
                    assert_eq!(verdict(&expanded, &set, &keys), Verification::Valid, "a wildcard");
                    wildcards += 1;
                }
            }
            assert_eq!(wildcards, 2, "MX and NSEC");
        }
    }

    #[test]
    fn proofs_are_read() {
        let nsec = NsecData::parse(b"\x01b\0\0\x01\x40").unwrap();
        assert_eq!((nsec.next, &nsec.types[..]), (&b"\x01b\0"[..], &[1][..]));
        assert!(NsecData::parse(b"\x01b\0\0\x02\x40").is_none());
        let rdata = [&[1, 1, 0, 12, 2, 0xaa, 0xbb, 3, 7, 8, 9][..], &[0, 1, 0x20]].concat();
        let nsec3 = Nsec3Data::parse(&rdata).unwrap();
        let parameters = Nsec3 { opt_out: true, iterations: 12, salt: vec![0xaa, 0xbb] };
        assert_eq!(nsec3, Nsec3Data { parameters, next: &[7, 8, 9], types: vec![2] });
        for cut in 0..10 {
            assert!(Nsec3Data::parse(&rdata[..cut]).is_none() && Rrsig::parse(&rdata[..cut]).is_none());
        }
        let mut owner = vec![32];
        codec::base32hex_encode(&[5; 20], &mut owner);
        owner.push(0);
        assert_eq!(Nsec3Data::owner_hash(&owner).unwrap(), [5; 20]);
        assert_eq!(Nsec3Data::owner_hash(b"\x01.\0"), None);
    }
}
