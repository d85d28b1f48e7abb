//! The lines of a stream.

use super::chain::Chain;
use super::sample::Delegation;
use crate::Error;
use std::io::Write;
use wire::{name, rtype};

/// Writes transactions.
pub(super) struct Writer<'a> {
    out: &'a mut dyn Write,
    line: Vec<u8>,
    /// Lines of the transaction that is open.
    open: u64,
    /// Where signatures are among the changes.
    chain: Option<Box<Chain>>,
    pub transactions: u64,
    pub records: u64,
    pub bytes: u64,
}

impl<'a> Writer<'a> {
    pub fn new(out: &'a mut dyn Write, chain: Option<Chain>) -> Self {
        let chain = chain.map(Box::new);
        Self { out, line: Vec::with_capacity(256), open: 0, chain, transactions: 0, records: 0, bytes: 0 }
    }

    /// The transaction adds this delegation.
    pub fn added(&mut self, new: &Delegation) {
        if let Some(chain) = &mut self.chain {
            chain.added(new);
        }
    }

    /// The transaction deletes this delegation.
    pub fn deleted(&mut self, owner: &[u8]) {
        if let Some(chain) = &mut self.chain {
            chain.deleted(owner);
        }
    }

    fn put(&mut self) -> Result<(), Error> {
        self.line.push(b'\n');
        self.bytes += self.line.len() as u64;
        let written = self.out.write_all(&self.line).map_err(Error::Write);
        self.line.clear();
        written
    }

    pub fn comment(&mut self, text: &str) -> Result<(), Error> {
        self.line.extend_from_slice(format!("; {text}").as_bytes());
        self.put()
    }

    pub fn zone(&mut self, origin: &[u8]) -> Result<(), Error> {
        self.line.extend_from_slice(b"zone ");
        name::write_text(origin, &mut self.line);
        self.put()
    }

    fn head(&mut self, words: &str, owner: &[u8]) {
        self.line.extend_from_slice(words.as_bytes());
        self.line.push(b' ');
        name::write_text(owner, &mut self.line);
        self.open += 1;
    }

    fn data(&mut self, rtype: u16, rdata: Option<&[u8]>) {
        self.line.push(b' ');
        self.line.extend_from_slice(rtype::to_text(rtype).as_bytes());
        if let Some(rdata) = rdata {
            self.line.push(b' ');
            zone::text::write_rdata(rtype, rdata, &mut self.line);
        }
    }

    /// A name must not exist.
    pub fn absent(&mut self, owner: &[u8]) -> Result<(), Error> {
        self.head("prereq nxdomain", owner);
        self.put()
    }

    /// An RRset must exist, whatever is in it.
    pub fn present(&mut self, owner: &[u8], rtype: u16) -> Result<(), Error> {
        self.head("prereq yxrrset", owner);
        self.data(rtype, None);
        self.put()
    }

    /// An RRset must have this record, and no others than those that are asked for.
    pub fn exactly(&mut self, owner: &[u8], rtype: u16, rdata: &[u8]) -> Result<(), Error> {
        self.head("prereq yxrrset", owner);
        self.data(rtype, Some(rdata));
        self.put()
    }

    pub fn add(&mut self, owner: &[u8], ttl: u32, rtype: u16, rdata: &[u8]) -> Result<(), Error> {
        self.head("update add", owner);
        self.line.extend_from_slice(format!(" {ttl}").as_bytes());
        self.data(rtype, Some(rdata));
        self.records += 1;
        self.put()
    }

    /// Deletes a record.
    pub fn delete(&mut self, owner: &[u8], rtype: u16, rdata: &[u8]) -> Result<(), Error> {
        self.head("update delete", owner);
        self.data(rtype, Some(rdata));
        self.records += 1;
        self.put()
    }

    /// Deletes an RRset.
    pub fn delete_all(&mut self, owner: &[u8], rtype: u16) -> Result<(), Error> {
        self.head("update delete", owner);
        self.data(rtype, None);
        self.records += 1;
        self.put()
    }

    /// Ends the transaction, where one is open.
    pub fn send(&mut self) -> Result<(), Error> {
        if self.open == 0 {
            return Ok(());
        }
        if let Some(mut chain) = self.chain.take() {
            chain.close(self)?;
            self.chain = Some(chain);
        }
        self.open = 0;
        self.transactions += 1;
        self.line.extend_from_slice(b"send");
        self.put()
    }
}
