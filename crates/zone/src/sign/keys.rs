//! Keys in files: BIND's `K*.key` and `K*.private`.

use super::key::{Algorithm, Key, Secret, failed};
use crate::error::Error;
use crate::scan::Scanner;
use crate::time::write_rrsig_time;
use aws_lc_rs::encoding::AsBigEndian;
use aws_lc_rs::signature::{EcdsaKeyPair, Ed25519KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openssl::bn::BigNum;
use openssl::rsa::RsaPrivateKeyBuilder;
use std::io::{Cursor, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use wire::name::Name;
use wire::rtype;

impl Key {
    /// Writes `K<origin>+<algorithm>+<tag>.key` and `.private` into a folder, active from an instant on (seconds since 1970); nothing is
    /// overwritten.
    fn save(&self, folder: &Path, origin: &Name, from: u32) -> Result<(), Error> {
        let stem = format!("K{origin}+{:03}+{:05}", self.algorithm().number(), self.tag);
        let create = |suffix: &str, mode: u32, text: &str| {
            let path = folder.join(format!("{stem}.{suffix}"));
            let file = std::fs::File::options().write(true).create_new(true).mode(mode).open(&path);
            file.and_then(|mut f| f.write_all(text.as_bytes()))
                .map_err(|source| Error::Read { file: path.display().to_string(), source })
        };
        let mut dnskey = Vec::new();
        crate::text::write_rdata(rtype::DNSKEY, &self.dnskey, &mut dnskey);
        create("private", 0o600, &self.private_text(from)?)?;
        create("key", 0o644, &format!("{origin} IN DNSKEY {}\n", String::from_utf8_lossy(&dnskey)))
    }

    fn private_text(&self, from: u32) -> Result<String, Error> {
        let mut text = format!(
            "Private-key-format: v1.3\nAlgorithm: {} ({})\n",
            self.algorithm().number(),
            self.algorithm()
        );
        let mut line = |name: &str, octets: &[u8]| text += &format!("{name}: {}\n", STANDARD.encode(octets));
        match &self.secret {
            Secret::Rsa(key, _) => {
                let rsa = key.rsa().map_err(failed)?;
                line("Modulus", &rsa.n().to_vec());
                line("PublicExponent", &rsa.e().to_vec());
                line("PrivateExponent", &rsa.d().to_vec());
                let parts = [rsa.p(), rsa.q(), rsa.dmp1(), rsa.dmq1(), rsa.iqmp()];
                for (name, part) in RSA_PARTS.iter().zip(parts) {
                    line(name, &part.ok_or_else(|| failed("an RSA key without its primes"))?.to_vec());
                }
            }
            Secret::Ecdsa(key) => {
                line("PrivateKey", key.private_key().as_be_bytes().map_err(failed)?.as_ref())
            }
            Secret::Ed25519(key) => {
                line("PrivateKey", key.seed().map_err(failed)?.as_be_bytes().map_err(failed)?.as_ref());
            }
        }
        // BIND takes a key of this format without times for one that is not active.
        let mut time = Vec::new();
        write_rrsig_time(from, &mut time);
        for what in ["Created", "Publish", "Activate"] {
            text += &format!("{what}: {}\n", String::from_utf8_lossy(&time));
        }
        Ok(text)
    }

    /// Reads a pair of key files from the path of its `.private`.
    fn load(private: &Path, algorithm: Algorithm) -> Result<Self, Error> {
        let public = private.with_extension("key");
        let read = |path: &Path| {
            std::fs::read_to_string(path)
                .map_err(|source| Error::Read { file: path.display().to_string(), source })
        };
        let (text, dnskey) = (read(private)?, dnskey_of(&public, &read(&public)?)?);
        let bad = |what: String| Error::Key { file: private.display().to_string(), what };
        let field = |name: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
            let line = line.ok_or_else(|| bad(format!("no line '{name}:'")))?;
            STANDARD.decode(line.trim()).map_err(|e| bad(format!("{name}: {e}")))
        };
        let secret = if algorithm.is_rsa() {
            let number = |name: &str| BigNum::from_slice(&field(name)?).map_err(|e| bad(e.to_string()));
            let [p, q, dp, dq, qi] = RSA_PARTS;
            let (n, e, d) = (number("Modulus")?, number("PublicExponent")?, number("PrivateExponent")?);
            let (p, q, dp, dq, qi) = (number(p)?, number(q)?, number(dp)?, number(dq)?, number(qi)?);
            let rsa = RsaPrivateKeyBuilder::new(n, e, d)
                .and_then(|b| b.set_factors(p, q)?.set_crt_params(dp, dq, qi))
                .map(RsaPrivateKeyBuilder::build)
                .map_err(|e| bad(e.to_string()))?;
            Secret::rsa(rsa).map_err(|e| bad(e.to_string()))?
        } else if let Some(curve) = algorithm.ecdsa() {
            let point = [&[4], dnskey.get(4..).unwrap_or_default()].concat();
            let pair = EcdsaKeyPair::from_private_key_and_public_key(curve, &field("PrivateKey")?, &point);
            Secret::Ecdsa(pair.map_err(|e| bad(format!("{e}: it does not fit {}", public.display())))?)
        } else {
            Secret::Ed25519(
                Ed25519KeyPair::from_seed_unchecked(&field("PrivateKey")?).map_err(|e| bad(e.to_string()))?,
            )
        };
        let flags = dnskey.first_chunk::<2>().map_or(0, |b| u16::from_be_bytes(*b));
        let key = Self::new(secret, algorithm, flags).map_err(bad)?;
        if key.dnskey != dnskey {
            return Err(bad(format!("it does not fit {}", public.display())));
        }
        Ok(key)
    }
}

const RSA_PARTS: [&str; 5] = ["Prime1", "Prime2", "Exponent1", "Exponent2", "Coefficient"];

/// The DNSKEY data in a `.key` file.
fn dnskey_of(path: &Path, text: &str) -> Result<Vec<u8>, Error> {
    // The scanner wants a zone: a SOA first, and a TTL.
    let zone = format!("$TTL 1\n. SOA . . 1 1 1 1 1\n{text}\n");
    let mut scanner = Scanner::new(Cursor::new(zone.into_bytes()), &path.display().to_string());
    scanner.next()?;
    match scanner.next()? {
        Some(record) if record.rtype == rtype::DNSKEY => Ok(record.rdata.to_vec()),
        _ => {
            Err(Error::Key { file: path.display().to_string(), what: "expected a DNSKEY record".to_owned() })
        }
    }
}

/// The keys of a zone: the one that signs the DNSKEY set, and the one that signs all else.
pub(super) struct Keys {
    pub ksk: Key,
    /// `None` where the first signs everything.
    pub zsk: Option<Key>,
}

impl Keys {
    /// Reads the zone's keys from a folder; makes and stores new ones where it has none; without a
    /// folder makes new ones that nobody keeps. New ones are active `from` an instant on, seconds since 1970.
    pub fn prepare(
        folder: Option<&Path>,
        origin: &Name,
        algorithm: Algorithm,
        (ksk_bits, zsk_bits): (u32, u32),
        from: u32,
    ) -> Result<Self, Error> {
        let found = folder.map_or(Ok(Vec::new()), |f| load_all(f, origin, algorithm))?;
        if found.is_empty() {
            let ksk = Key::generate(algorithm, ksk_bits, true)?;
            let mut zsk = Key::generate(algorithm, zsk_bits, false)?;
            while zsk.tag == ksk.tag {
                zsk = Key::generate(algorithm, zsk_bits, false)?;
            }
            if let Some(folder) = folder {
                ksk.save(folder, origin, from)?;
                zsk.save(folder, origin, from)?;
            }
            return Ok(Self { ksk, zsk: Some(zsk) });
        }
        Self::chosen(found, folder.unwrap_or(Path::new(".")), origin)
    }

    /// Reads the zone's keys from a folder, whatever their algorithm.
    pub fn find(folder: &Path, origin: &Name) -> Result<Self, Error> {
        for algorithm in Algorithm::ALL {
            let found = load_all(folder, origin, algorithm)?;
            if !found.is_empty() {
                return Self::chosen(found, folder, origin);
            }
        }
        let file = folder.display().to_string();
        Err(Error::Key {
            file,
            what: format!("no keys of {origin} in it: expected K{origin}+…key and .private"),
        })
    }

    fn chosen(mut found: Vec<Key>, folder: &Path, origin: &Name) -> Result<Self, Error> {
        found.sort_by_key(|k| !k.is_ksk());
        let algorithm = found[0].algorithm();
        let mut keys = found.into_iter();
        match (keys.next(), keys.next(), keys.next()) {
            (Some(ksk), None, _) if ksk.is_ksk() => Ok(Self { ksk, zsk: None }),
            (Some(ksk), Some(zsk), None) if ksk.is_ksk() && !zsk.is_ksk() => Ok(Self { ksk, zsk: Some(zsk) }),
            _ => Err(Error::Key {
                file: folder.display().to_string(),
                what: format!(
                    "expected one key-signing key and at most one zone-signing key of {origin} with {algorithm}: \
                     give a folder that holds just those"
                ),
            }),
        }
    }

    /// The key that signs all but the DNSKEY set.
    pub fn zone_key(&self) -> &Key {
        self.zsk.as_ref().unwrap_or(&self.ksk)
    }
}

fn load_all(folder: &Path, origin: &Name, algorithm: Algorithm) -> Result<Vec<Key>, Error> {
    let start = format!("K{origin}+{:03}+", algorithm.number());
    let read = |source| Error::Read { file: folder.display().to_string(), source };
    let mut keys = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        if name.starts_with(&start.to_ascii_lowercase()) && name.ends_with(".private") {
            keys.push(Key::load(&path, algorithm)?);
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_stored_and_read_back() {
        let origin: Name = "Example.".parse().unwrap();
        for algorithm in Algorithm::ALL {
            let folder = tempfile::tempdir().unwrap();
            let made = Keys::prepare(Some(folder.path()), &origin, algorithm, (2048, 1024), 0).unwrap();
            let read = Keys::prepare(Some(folder.path()), &origin, algorithm, (2048, 1024), 0).unwrap();
            assert_eq!(made.ksk.dnskey, read.ksk.dnskey);
            assert_eq!(made.zone_key().dnskey, read.zone_key().dnskey);
            assert!(read.ksk.is_ksk() && !read.zone_key().is_ksk());
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
            std::fs::write(folder.path().join(format!("Kexample.+{:03}+1.private", algorithm.number())), "")
                .unwrap();
            assert!(Keys::prepare(Some(folder.path()), &origin, algorithm, (0, 0), 0).is_err());
        }
        assert!("RSAMD5".parse::<Algorithm>().is_err());
        assert!(Key::generate(Algorithm::RsaSha256, 512, true).is_err());
    }
}
