//! The zone's digest (RFC 8976): scheme SIMPLE, SHA-384.

use crate::error::Error;
use crate::sort::Sorter;
use aws_lc_rs::digest::{Context, SHA384};
use wire::name;

/// Takes the signed zone's records and digests them in canonical order (section 3.3).
pub(super) enum Digest {
    /// They come in order.
    InOrder(Context),
    /// NSEC3 records come last and belong between the others: a copy of the zone is sorted outside memory.
    Sorted(Sorter),
}

impl Digest {
    pub fn new(in_order: bool) -> Self {
        if in_order { Self::InOrder(Context::new(&SHA384)) } else { Self::Sorted(Sorter::new()) }
    }

    /// Takes what a worker wrote with [`Records::write`].
    pub fn push_all(&mut self, mut nodes: &[u8]) -> Result<(), Error> {
        while let Some((len, rest)) = nodes.split_first_chunk::<4>() {
            let (node, rest) = rest.split_at(u32::from_be_bytes(*len) as usize);
            match self {
                Self::InOrder(context) => context.update(node),
                Self::Sorted(sorter) => {
                    let mut key = Vec::new();
                    name::sort_key(&node[..name::wire_len(node).unwrap_or(0)], &mut key);
                    sorter.push(&key, node).map_err(|source| Error::Spool { source })?;
                }
            }
            nodes = rest;
        }
        Ok(())
    }

    /// Data of the ZONEMD record (section 2.2).
    pub fn finish(self, serial: u32) -> Result<Vec<u8>, Error> {
        let context = match self {
            Self::InOrder(context) => context,
            Self::Sorted(sorter) => {
                let spool = |source| Error::Spool { source };
                let (mut sorted, mut context) = (sorter.finish().map_err(spool)?, Context::new(&SHA384));
                while let Some((_, node)) = sorted.next().map_err(spool)? {
                    context.update(node);
                }
                context
            }
        };
        let mut rdata = serial.to_be_bytes().to_vec();
        rdata.extend_from_slice(&[1, 1]);
        rdata.extend_from_slice(context.finish().as_ref());
        Ok(rdata)
    }
}

/// The records of one owner, to be put in order.
#[derive(Default)]
pub(super) struct Records {
    data: Vec<u8>,
    /// Type, TTL, start and end of the canonical data.
    order: Vec<(u16, u32, u32, u32)>,
}

impl Records {
    /// Adds a record, its data in canonical form.
    pub fn push(&mut self, rtype: u16, ttl: u32, rdata: &[u8]) {
        let start = self.data.len() as u32;
        self.data.extend_from_slice(rdata);
        self.order.push((rtype, ttl, start, self.data.len() as u32));
    }

    /// Appends the records of `owner` (small letters) for [`Digest::push_all`], and forgets them.
    pub fn write(&mut self, owner: &[u8], class: u16, out: &mut Vec<u8>) {
        if self.order.is_empty() {
            return;
        }
        let data = &self.data;
        let rdata = |start: u32, end: u32| &data[start as usize..end as usize];
        self.order.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| rdata(a.2, a.3).cmp(rdata(b.2, b.3))));
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        for &(rtype, ttl, from, to) in &self.order {
            out.extend_from_slice(owner);
            out.extend_from_slice(&rtype.to_be_bytes());
            out.extend_from_slice(&class.to_be_bytes());
            out.extend_from_slice(&ttl.to_be_bytes());
            out.extend_from_slice(&((to - from) as u16).to_be_bytes());
            out.extend_from_slice(rdata(from, to));
        }
        let len = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&len.to_be_bytes());
        self.data.clear();
        self.order.clear();
    }
}
