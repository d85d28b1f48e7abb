//! RRsets as the signer hands them to its workers: one flat buffer, and canonical form.

use crate::rrset::Rrset;
use wire::name;
use wire::rtype;

/// Who signs an RRset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Signer {
    Nobody = 0,
    ZoneKey = 1,
    KeySigningKey = 2,
}

/// An RRset that owns its parts.
#[derive(Clone, Default)]
pub(super) struct Set {
    pub ttl: u32,
    pub class: u16,
    pub rtype: u16,
    pub rdatas: Vec<Vec<u8>>,
}

impl Set {
    pub fn of(set: &Rrset<'_>) -> Self {
        Self {
            ttl: set.ttl,
            class: set.class,
            rtype: set.rtype,
            rdatas: set.rdatas().map(<[u8]>::to_vec).collect(),
        }
    }

    pub fn encode(&self, owner: &[u8], signer: Signer, out: &mut Vec<u8>) {
        let head = (signer, self.ttl, self.class, self.rtype);
        encode(owner, head, self.rdatas.iter().map(|r| &r[..]), out);
    }
}

/// Appends an RRset that nobody signs.
pub(super) fn encode_unsigned(set: &Rrset<'_>, out: &mut Vec<u8>) {
    encode(set.owner, (Signer::Nobody, set.ttl, set.class, set.rtype), set.rdatas(), out);
}

fn encode<'a>(
    owner: &[u8],
    (signer, ttl, class, rtype): (Signer, u32, u16, u16),
    rdatas: impl ExactSizeIterator<Item = &'a [u8]>,
    out: &mut Vec<u8>,
) {
    out.push(signer as u8);
    out.extend_from_slice(&ttl.to_be_bytes());
    out.extend_from_slice(&class.to_be_bytes());
    out.extend_from_slice(&rtype.to_be_bytes());
    out.extend_from_slice(owner);
    out.extend_from_slice(&(rdatas.len() as u32).to_be_bytes());
    for rdata in rdatas {
        out.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        out.extend_from_slice(rdata);
    }
}

/// An RRset in a flat buffer.
pub(super) struct View<'a> {
    pub signer: Signer,
    pub ttl: u32,
    pub class: u16,
    pub rtype: u16,
    pub owner: &'a [u8],
}

/// Takes the next RRset off a flat buffer; its record data go to `rdatas`.
pub(super) fn decode<'a>(flat: &mut &'a [u8], rdatas: &mut Vec<&'a [u8]>) -> Option<View<'a>> {
    let (&[signer, a, b, c, d, e, f, g, h], rest) = flat.split_first_chunk::<9>()?;
    let (owner, rest) = rest.split_at(name::wire_len(rest)?);
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    rdatas.clear();
    for _ in 0..u32::from_be_bytes(*count) {
        let (len, tail) = rest.split_first_chunk::<2>()?;
        let (rdata, tail) = tail.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
        rdatas.push(rdata);
        rest = tail;
    }
    *flat = rest;
    let signer = match signer {
        0 => Signer::Nobody,
        1 => Signer::ZoneKey,
        _ => Signer::KeySigningKey,
    };
    let (ttl, class) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]));
    Some(View { signer, ttl, class, rtype: u16::from_be_bytes([g, h]), owner })
}

/// Appends record data in canonical form: names in it as small letters (RFC 4034 section 6.2 as
/// amended by RFC 6840 section 5.1).
pub(super) fn canonical_rdata(rtype: u16, rdata: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(rdata);
    let data = &mut out[start..];
    let (skip, names) = match rtype {
        rtype::NS | rtype::CNAME | rtype::DNAME | rtype::PTR => (0, 1),
        // MD, MF, MB, MG, MR.
        3 | 4 | 7 | 8 | 9 => (0, 1),
        // SOA, MINFO, RP.
        rtype::SOA | 14 | 17 => (0, 2),
        // MX, AFSDB, RT, KX.
        rtype::MX | 18 | 21 | 36 => (2, 1),
        // PX.
        26 => (2, 2),
        rtype::SRV => (6, 1),
        rtype::NAPTR => {
            let skip = (0..3).try_fold(4, |at, _| Some(at + 1 + usize::from(*data.get(at)?)));
            (skip.unwrap_or(data.len()), 1)
        }
        _ => return,
    };
    let mut rest = data.get_mut(skip..).unwrap_or_default();
    for _ in 0..names {
        let Some(len) = name::wire_len(rest) else { return };
        let (name, tail) = rest.split_at_mut(len);
        name::lowercase(name);
        rest = tail;
    }
}
