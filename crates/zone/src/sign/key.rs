//! Keys that sign: each algorithm with the library that is fastest at it (`cargo bench --bench kernels`).

use crate::codec;
use crate::error::Error;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaKeyPair,
};
use openssl::bn::BigNum;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use std::fmt;
use wire::name;

/// Algorithms that zones can be signed with here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// 5 (RFC 3110): that of RZAIA's zones, which no new zone should have (RFC 9905). NSEC alone.
    RsaSha1,
    /// 8 (RFC 5702).
    RsaSha256,
    /// 10 (RFC 5702).
    RsaSha512,
    /// 13 (RFC 6605).
    EcdsaP256Sha256,
    /// 14 (RFC 6605).
    EcdsaP384Sha384,
    /// 15 (RFC 8080).
    Ed25519,
}

impl Algorithm {
    /// All of them, by number.
    pub const ALL: [Self; 6] = [
        Self::RsaSha1,
        Self::RsaSha256,
        Self::RsaSha512,
        Self::EcdsaP256Sha256,
        Self::EcdsaP384Sha384,
        Self::Ed25519,
    ];

    /// The number in DNSKEY, DS and RRSIG.
    pub fn number(self) -> u8 {
        match self {
            Self::RsaSha1 => 5,
            Self::RsaSha256 => 8,
            Self::RsaSha512 => 10,
            Self::EcdsaP256Sha256 => 13,
            Self::EcdsaP384Sha384 => 14,
            Self::Ed25519 => 15,
        }
    }

    /// True where keys have a number of bits to choose.
    pub fn is_rsa(self) -> bool {
        matches!(self, Self::RsaSha1 | Self::RsaSha256 | Self::RsaSha512)
    }

    /// The curve, where it has one that aws-lc-rs calls ECDSA.
    pub(super) fn ecdsa(self) -> Option<&'static EcdsaSigningAlgorithm> {
        match self {
            Self::EcdsaP256Sha256 => Some(&ECDSA_P256_SHA256_FIXED_SIGNING),
            Self::EcdsaP384Sha384 => Some(&ECDSA_P384_SHA384_FIXED_SIGNING),
            _ => None,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&codec::algorithm_name(self.number()))
    }
}

impl std::str::FromStr for Algorithm {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let number = codec::algorithm_number(text).or_else(|| text.parse().ok());
        Self::ALL.into_iter().find(|a| Some(a.number()) == number).ok_or_else(|| {
            format!(
                "'{text}' is no algorithm to sign with: give ECDSAP256SHA256, ECDSAP384SHA384, ED25519, RSASHA256, \
                 RSASHA512 or RSASHA1"
            )
        })
    }
}

pub(super) enum Secret {
    /// And for aws-lc-rs, which takes 2,048 bits and more and is faster there.
    Rsa(PKey<Private>, Option<Box<RsaKeyPair>>),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Secret {
    /// An RSA key for the library that signs faster with its size.
    pub fn rsa(rsa: Rsa<Private>) -> Result<Self, openssl::error::ErrorStack> {
        let fast = RsaKeyPair::from_der(&rsa.private_key_to_der()?).ok().map(Box::new);
        Ok(Self::Rsa(PKey::from_rsa(rsa)?, fast))
    }
}

/// A key with its DNSKEY data.
pub(super) struct Key {
    pub secret: Secret,
    algorithm: Algorithm,
    /// DNSKEY data in wire format.
    pub dnskey: Vec<u8>,
    pub tag: u16,
}

pub(super) fn failed(what: impl fmt::Display) -> Error {
    Error::Key { file: "a new key".to_owned(), what: what.to_string() }
}

impl Key {
    /// Makes a key from the system's randomness; `bits` counts for RSA only.
    pub fn generate(algorithm: Algorithm, bits: u32, ksk: bool) -> Result<Self, Error> {
        let secret = match algorithm {
            Algorithm::RsaSha1 | Algorithm::RsaSha256 | Algorithm::RsaSha512 => {
                if !(1024..=4096).contains(&bits) {
                    return Err(failed(format!("{bits} bits of RSA: give 1024 to 4096")));
                }
                let rsa =
                    BigNum::from_u32(65537).and_then(|e| Rsa::generate_with_e(bits, &e)).map_err(failed)?;
                Secret::rsa(rsa).map_err(failed)?
            }
            Algorithm::EcdsaP256Sha256 => {
                Secret::Ecdsa(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(failed)?)
            }
            Algorithm::EcdsaP384Sha384 => {
                Secret::Ecdsa(EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).map_err(failed)?)
            }
            Algorithm::Ed25519 => Secret::Ed25519(Ed25519KeyPair::generate().map_err(failed)?),
        };
        Self::new(secret, algorithm, if ksk { 257 } else { 256 }).map_err(failed)
    }

    /// A key with its DNSKEY flags.
    pub fn new(secret: Secret, algorithm: Algorithm, flags: u16) -> Result<Self, String> {
        let mut dnskey = flags.to_be_bytes().to_vec();
        dnskey.extend_from_slice(&[3, algorithm.number()]);
        match &secret {
            Secret::Rsa(key, _) => {
                let rsa = key.rsa().map_err(|e| e.to_string())?;
                let (e, n) = (rsa.e().to_vec(), rsa.n().to_vec());
                // Exponents here are short: the one-octet form of RFC 3110 section 2.
                dnskey.push(u8::try_from(e.len()).map_err(|_| "a public exponent of more than 255 octets")?);
                dnskey.extend_from_slice(&e);
                dnskey.extend_from_slice(&n);
            }
            // Without the octet that says "uncompressed point" (RFC 6605 section 4).
            Secret::Ecdsa(key) => dnskey.extend_from_slice(&key.public_key().as_ref()[1..]),
            Secret::Ed25519(key) => dnskey.extend_from_slice(key.public_key().as_ref()),
        }
        let tag = key_tag(&dnskey);
        Ok(Self { secret, algorithm, dnskey, tag })
    }

    pub fn is_ksk(&self) -> bool {
        self.dnskey[1] & 1 != 0
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Appends the signature over `data`.
    pub fn sign(&self, data: &[u8], random: &SystemRandom, out: &mut Vec<u8>) -> Result<(), Error> {
        let broken =
            |e: &dyn fmt::Display| Error::Unable(format!("signing with key {} failed: {e}", self.tag));
        match &self.secret {
            // aws-lc-rs signs nothing with SHA-1.
            Secret::Rsa(_, Some(key)) if self.algorithm != Algorithm::RsaSha1 => {
                let padding = match self.algorithm {
                    Algorithm::RsaSha512 => &RSA_PKCS1_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let start = out.len();
                out.resize(start + key.public_modulus_len(), 0);
                key.sign(padding, random, data, &mut out[start..]).map_err(|e| broken(&e))?;
            }
            Secret::Rsa(key, _) => {
                let hash = match self.algorithm {
                    Algorithm::RsaSha1 => MessageDigest::sha1(),
                    Algorithm::RsaSha512 => MessageDigest::sha512(),
                    _ => MessageDigest::sha256(),
                };
                let signature = openssl::sign::Signer::new(hash, key)
                    .and_then(|mut signer| signer.sign_oneshot_to_vec(data))
                    .map_err(|e| broken(&e))?;
                out.extend_from_slice(&signature);
            }
            Secret::Ecdsa(key) => {
                out.extend_from_slice(key.sign(random, data).map_err(|e| broken(&e))?.as_ref())
            }
            Secret::Ed25519(key) => out.extend_from_slice(key.sign(data).as_ref()),
        }
        Ok(())
    }

    /// DS data (RFC 4509: SHA-256) for this key at `origin`.
    pub fn ds(&self, origin: &[u8]) -> Vec<u8> {
        let mut digested = origin.to_vec();
        name::lowercase(&mut digested);
        digested.extend_from_slice(&self.dnskey);
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &digested);
        let mut ds = self.tag.to_be_bytes().to_vec();
        ds.extend_from_slice(&[self.algorithm.number(), 2]);
        ds.extend_from_slice(digest.as_ref());
        ds
    }
}

/// Key tag of DNSKEY data (RFC 4034 appendix B).
pub(super) fn key_tag(dnskey: &[u8]) -> u16 {
    let sum: u32 =
        dnskey.iter().enumerate().map(|(i, &b)| u32::from(b) << if i % 2 == 0 { 8 } else { 0 }).sum();
    (sum + (sum >> 16)) as u16
}
