//! Hashed denial of existence (RFC 5155).

use crate::codec;
use crate::error::Error;
use crate::sort::{Sorted, Sorter};
use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY as SHA1};
use serde::Serialize;
use wire::name::{MAX_NAME, Name};

/// Octets of a hash (SHA-1, the one algorithm there is).
pub const HASH: usize = 20;
/// Flag of an NSEC3 record whose span may cover unsigned delegations.
const OPT_OUT: u8 = 1;

/// NSEC3 parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Nsec3 {
    /// The chain passes over unsigned delegations (section 6).
    pub opt_out: bool,
    /// Additional iterations; RFC 9276 section 3.1 wants none.
    pub iterations: u16,
    /// At most 255 octets; RFC 9276 section 3.1 wants none.
    pub salt: Vec<u8>,
}

impl Nsec3 {
    /// The hash of a name in canonical form (section 5).
    pub fn hash(&self, owner: &[u8]) -> [u8; HASH] {
        let mut hash = [0; HASH];
        let mut digest = |data: &[u8]| {
            let mut context = Context::new(&SHA1);
            context.update(data);
            context.update(&self.salt);
            hash.copy_from_slice(context.finish().as_ref());
            hash
        };
        let mut last = digest(owner);
        for _ in 0..self.iterations {
            last = digest(&last);
        }
        last
    }

    /// Refuses what cannot be written.
    pub(super) fn check(&self, origin: &Name) -> Result<(), Error> {
        if self.salt.len() > 255 {
            return Err(Error::Unable(format!(
                "an NSEC3 salt of {} octets: at most 255 fit",
                self.salt.len()
            )));
        }
        if origin.as_wire().len() + 33 > MAX_NAME {
            return Err(Error::Unable(format!("{origin} is too long for NSEC3: hashes take 33 octets more")));
        }
        Ok(())
    }

    /// Data of the NSEC3PARAM record (section 4.2): its flags are always zero.
    pub(super) fn param(&self) -> Vec<u8> {
        let mut rdata = vec![1, 0];
        rdata.extend_from_slice(&self.iterations.to_be_bytes());
        rdata.push(self.salt.len() as u8);
        rdata.extend_from_slice(&self.salt);
        rdata
    }

    fn rdata(&self, next: &[u8], bitmap: &[u8], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&[1, if self.opt_out { OPT_OUT } else { 0 }]);
        out.extend_from_slice(&self.iterations.to_be_bytes());
        out.push(self.salt.len() as u8);
        out.extend_from_slice(&self.salt);
        out.push(HASH as u8);
        out.extend_from_slice(next);
        out.extend_from_slice(bitmap);
    }
}

/// The hashes of a zone with their type bitmaps: sorted outside memory.
pub(super) struct Hashes(Sorter);

impl Hashes {
    pub fn new() -> Self {
        Self(Sorter::new())
    }

    /// Takes what a worker wrote with [`write_hash`].
    pub fn push_all(&mut self, mut entries: &[u8]) -> std::io::Result<()> {
        while let Some((hash, rest)) = entries.split_first_chunk::<HASH>() {
            let Some((len, rest)) = rest.split_first_chunk::<2>() else { break };
            let (bitmap, rest) = rest.split_at(usize::from(u16::from_be_bytes(*len)));
            self.0.push(hash, bitmap)?;
            entries = rest;
        }
        Ok(())
    }

    /// The chain: calls `each` with the owner and the data of every NSEC3 record, in order of the hashes, until
    /// it does not want more.
    pub fn chain(
        self,
        nsec3: &Nsec3,
        apex: &[u8],
        mut each: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error> {
        let spool = |source| Error::Spool { source };
        let mut sorted: Sorted = self.0.finish().map_err(spool)?;
        let (mut first, mut last, mut bitmap) = (None, [0; HASH], Vec::new());
        let (mut owner, mut rdata) = (Vec::new(), Vec::new());
        let mut record = |hash: &[u8], next: &[u8], bitmap: &[u8]| {
            owner.clear();
            owner.push(0);
            codec::base32hex_encode(hash, &mut owner);
            owner[0] = (owner.len() - 1) as u8;
            owner.extend_from_slice(apex);
            nsec3.rdata(next, bitmap, &mut rdata);
            each(&owner, &rdata)
        };
        while let Some((hash, types)) = sorted.next().map_err(spool)? {
            if first.is_some() {
                if hash == last {
                    return Err(collision());
                }
                if !record(&last, hash, &bitmap) {
                    return Ok(());
                }
            }
            last.copy_from_slice(hash);
            first.get_or_insert(last);
            bitmap.clear();
            bitmap.extend_from_slice(types);
        }
        if let Some(first) = first {
            record(&last, &first, &bitmap);
        }
        Ok(())
    }
}

fn collision() -> Error {
    Error::Unable(
        "two names of the zone have the same NSEC3 hash: give another salt (RFC 5155 section 7.1)".into(),
    )
}

/// Appends a hash with its types (sorted) for [`Hashes::push_all`].
pub(super) fn write_hash(hash: &[u8; HASH], types: &[u16], out: &mut Vec<u8>) {
    out.extend_from_slice(hash);
    let start = out.len();
    out.extend_from_slice(&[0; 2]);
    codec::write_bitmap(types, out);
    let len = (out.len() - start - 2) as u16;
    out[start..start + 2].copy_from_slice(&len.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_rfc_5155() {
        // Appendix A.
        let nsec3 = Nsec3 { opt_out: true, iterations: 12, salt: vec![0xaa, 0xbb, 0xcc, 0xdd] };
        for (name, expected) in [
            ("example.", "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom"),
            ("a.example.", "35mthgpgcu1qg68fab165klnsnk3dpvl"),
            ("x.y.w.example.", "2vptu5timamqttgl4luu9kg21e0aor3s"),
            ("*.w.example.", "r53bq7cc2uvmubfu5ocmm6pers9tk9en"),
        ] {
            let name: Name = name.parse().unwrap();
            let mut text = Vec::new();
            codec::base32hex_encode(&nsec3.hash(name.as_wire()), &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
        assert_eq!(nsec3.param(), [1, 0, 0, 12, 4, 0xaa, 0xbb, 0xcc, 0xdd]);
    }

    #[test]
    fn the_chain_is_a_ring_and_collisions_are_seen() {
        let nsec3 = Nsec3::default();
        let chain = |names: &[u8]| {
            let (mut hashes, mut entries, mut got) = (Hashes::new(), Vec::new(), Vec::new());
            names.iter().for_each(|&n| write_hash(&[n; HASH], &[2, 46], &mut entries));
            hashes.push_all(&entries).unwrap();
            hashes.chain(&nsec3, b"\0", |_, rdata| {
                got.push(rdata[6]);
                true
            })?;
            Ok::<_, Error>(got)
        };
        assert_eq!(chain(&[3, 1, 2]).unwrap(), [2, 3, 1]);
        assert_eq!(chain(&[7]).unwrap(), [7], "one name is its own next");
        assert!(chain(&[3, 1, 3]).unwrap_err().to_string().contains("another salt"));
        assert!(nsec3.check(&Name::root()).is_ok());
        let salt = vec![0; 256];
        assert!(Nsec3 { salt, ..nsec3 }.check(&Name::root()).is_err());
    }
}
