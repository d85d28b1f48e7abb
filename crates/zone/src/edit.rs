//! A zone with other DS records, glue or TTLs.

use crate::error::Error;
use crate::generate::address;
use crate::info;
use crate::order::canonical;
use crate::scan::Record;
use crate::source::RecordSource;
use crate::strip::must_be_unsigned;
use crate::text;
use measure::Seed;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;
use wire::name::{self, Name};
use wire::{question, rtype};

/// The addresses that name servers below delegations have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Glue {
    /// Those with an A record have no AAAA record.
    A,
    /// Those with an A record have an AAAA record, too.
    Aaaa,
}

/// The edits of a zone; `None` leaves a property as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Edits {
    /// Share of the delegations with DS records, 0 to 1. Where more are needed, delegations without get one (algorithm 13, SHA-256);
    /// where fewer, some lose theirs. Which of them is drawn.
    pub ds: Option<f64>,
    /// Glue.
    pub glue: Option<Glue>,
    /// The TTL of every record, in seconds.
    pub ttl: Option<u32>,
}

/// Counts of a zone that was edited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Edited {
    /// Records written.
    pub records: u64,
    /// Records that were added.
    pub added: u64,
    /// Records that were left out.
    pub left_out: u64,
    /// Octets of text written.
    pub bytes: u64,
}

/// Writes a zone, in canonical order, with some edits.
///
/// # Errors
/// The zone's; [`Error::Unable`] for a signed zone; [`Error::Write`].
pub fn edit(path: &Path, edits: &Edits, seed: Seed, out: &mut dyn Write) -> Result<Edited, Error> {
    let facts = info(path, &mut |_| {})?;
    let apex: Name = facts.origin.parse().map_err(|e| Error::Unable(format!("{}: {e}", path.display())))?;
    let (drop_ds, add_ds) = match edits.ds {
        None => (0.0, 0.0),
        Some(share) if share < facts.ds_share => (1.0 - share / facts.ds_share, 0.0),
        Some(share) if facts.ds_share < 1.0 => (0.0, (share - facts.ds_share) / (1.0 - facts.ds_share)),
        Some(_) => (0.0, 0.0),
    };
    let key = seed.draw("edit", 0).bits();
    let mut editor =
        Editor { edits, apex, drop_ds, add_ds, key, cut: Vec::new(), edited: Edited::default(), out };
    let mut source = canonical(path, &mut |_| {})?;
    let mut node = Node::default();
    while let Some(record) = source.next()? {
        must_be_unsigned(path, &record)?;
        if !name::equal(record.owner, &node.owner) || node.records.is_empty() {
            editor.node(&mut node)?;
            node.owner = record.owner.to_vec();
        }
        node.records.push((record.ttl, record.class, record.rtype, record.rdata.to_vec()));
    }
    editor.node(&mut node)?;
    Ok(editor.edited)
}

/// All records of a name.
#[derive(Default)]
struct Node {
    owner: Vec<u8>,
    /// TTL, class, type and data.
    records: Vec<(u32, u16, u16, Vec<u8>)>,
}

impl Node {
    fn ttl_of(&self, rtype: u16) -> Option<(u32, u16)> {
        self.records.iter().find(|r| r.2 == rtype).map(|r| (r.0, r.1))
    }

    fn remove(&mut self, rtype: u16) -> u64 {
        let before = self.records.len();
        self.records.retain(|r| r.2 != rtype);
        (before - self.records.len()) as u64
    }
}

struct Editor<'a> {
    edits: &'a Edits,
    apex: Name,
    /// Shares of the delegations with DS records that lose them, and of those without that get one.
    drop_ds: f64,
    add_ds: f64,
    key: u64,
    /// The last delegation.
    cut: Vec<u8>,
    edited: Edited,
    out: &'a mut dyn Write,
}

impl Editor<'_> {
    /// Edits and writes a name, and empties it.
    fn node(&mut self, node: &mut Node) -> Result<(), Error> {
        let is_apex = name::equal(&node.owner, self.apex.as_wire());
        let below = !self.cut.is_empty() && name::is_under(&node.owner, &self.cut);
        let ns = node.ttl_of(rtype::NS).filter(|_| !is_apex && !below);
        if let Some((ttl, class)) = ns {
            self.cut = node.owner.clone();
            self.ds(node, ttl, class);
        }
        if below || ns.is_some() {
            self.glue(node);
        }
        let mut line = Vec::new();
        for (ttl, class, rtype, rdata) in node.records.drain(..) {
            let ttl = self.edits.ttl.unwrap_or(ttl);
            text::write_record(
                &Record { owner: &node.owner, ttl, class, rtype, rdata: &rdata, line: 0 },
                &mut line,
            );
            self.edited.records += 1;
        }
        self.edited.bytes += line.len() as u64;
        self.out.write_all(&line).map_err(Error::Write)
    }

    /// Random bits of a name.
    fn bits(&self, owner: &[u8]) -> u64 {
        question::hash_octets(&[&self.key.to_le_bytes()[..], &owner.to_ascii_lowercase()].concat())
    }

    fn ds(&mut self, node: &mut Node, ttl: u32, class: u16) {
        let bits = self.bits(&node.owner);
        // The upper half draws, as a share of 2^32.
        let drawn = |share: f64| ((bits >> 32) as f64) < share * f64::from(u32::MAX);
        if node.ttl_of(rtype::DS).is_some() {
            if drawn(self.drop_ds) {
                self.edited.left_out += node.remove(rtype::DS);
            }
        } else if drawn(self.add_ds) {
            // Key tag, algorithm 13, digest type 2 (RFC 4034 section 5.1, RFC 6605, RFC 4509).
            let mut rdata = vec![(bits >> 8) as u8, bits as u8, 13, 2];
            for n in 0..4u8 {
                rdata.extend(self.bits(&[&node.owner[..], &[n]].concat()).to_be_bytes());
            }
            node.records.push((ttl, class, rtype::DS, rdata));
            self.edited.added += 1;
        }
    }

    fn glue(&mut self, node: &mut Node) {
        let Some((ttl, class)) = node.ttl_of(rtype::A) else { return };
        match self.edits.glue {
            Some(Glue::A) => self.edited.left_out += node.remove(rtype::AAAA),
            Some(Glue::Aaaa) if node.ttl_of(rtype::AAAA).is_none() => {
                let address = address::v6(self.bits(&node.owner));
                node.records.push((ttl, class, rtype::AAAA, address.octets().to_vec()));
                self.edited.added += 1;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Info, Profile, Shape, generate};

    fn edited(path: &Path, edits: Edits) -> (Edited, Info) {
        let mut out = Vec::new();
        let edited = edit(path, &edits, Seed(3), &mut out).unwrap();
        let to = path.with_extension("edited");
        std::fs::write(&to, out).unwrap();
        assert!(crate::order::is_sorted(&mut crate::Scanner::open(&to).unwrap()).unwrap());
        (edited, info(&to, &mut |_| {}).unwrap())
    }

    #[test]
    fn shares_are_what_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zone");
        let mut text = Vec::new();
        let shape = Shape::from(Profile::load("ROOT").unwrap());
        generate(shape, 4000, Seed(5), &mut text, &mut |_| {}).unwrap();
        std::fs::write(&path, text).unwrap();
        let before = info(&path, &mut |_| {}).unwrap();
        let (nothing, after) = edited(&path, Edits::default());
        assert_eq!((nothing.added, nothing.left_out), (0, 0));
        assert_eq!(after.types, before.types);
        for ds in [0.0, 0.5, 1.0] {
            let (_, after) = edited(&path, Edits { ds: Some(ds), ..Edits::default() });
            assert!((after.ds_share - ds).abs() < 0.03, "{ds}: {}", after.ds_share);
            assert_eq!(after.types["NS"], before.types["NS"]);
        }
        let (sum, after) = edited(&path, Edits { glue: Some(Glue::Aaaa), ..Edits::default() });
        assert!(sum.added > 0 && after.glue.names_with_aaaa == after.glue.names, "{:?}", after.glue);
        let (sum, after) = edited(&path, Edits { glue: Some(Glue::A), ttl: Some(77), ..Edits::default() });
        assert!(sum.left_out > 0 && after.glue.names_with_a + after.glue.names_with_aaaa == after.glue.names);
        assert_eq!(after.apex.soa_ttl, 77);
    }
}
