//! A file of updates, made into messages once, before anything is sent.
//!
//! Faults in the file are found here. The messages wait in memory, or, where they are many, in a temporary file, from
//! which they are read in order: memory does not grow with the file.

use crate::Error;
use crate::message::Builder;
use crate::script::{Command, Rr, Script, Section};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;
use wire::{name, question, rtype};

/// The most octets of a message: what UDP carries (65,507) and TCP frames (65,535), less the longest signature.
const MESSAGE_MAX: usize = 65_000;

/// Octets of messages that wait in memory; more go to a file.
const IN_MEMORY: usize = 64 << 20;

/// How messages are made of transactions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Transactions in each message.
    pub merge: u32,
    /// Clients to which they are dealt.
    pub clients: u32,
    /// The names of each message are kept, which retries want.
    pub names: bool,
}

/// A message that is ready to be sent, but for its id and its signature.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    pub bytes: Vec<u8>,
    pub client: u32,
    pub transactions: u32,
    /// Of the update section.
    pub records: u32,
    /// Twice in a row does what once does (see [`crate::send`]).
    pub repeatable: bool,
    /// Hashes of its owners.
    pub names: Vec<u64>,
}

/// The contents of a file of updates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    /// UPDATE messages.
    pub messages: u64,
    /// Transactions: what `send` ends.
    pub transactions: u64,
    /// Records of update sections: lines of the file.
    pub records: u64,
    /// Octets of the messages, without signatures.
    pub bytes: u64,
    /// Messages that may be repeated.
    pub repeatable: u64,
    /// Transactions with names of several clients: between those the order is not kept.
    pub across_clients: u64,
}

/// Messages in order.
pub(crate) struct Stream {
    pub contents: Contents,
    /// The zone of the first transaction, wire format.
    pub zone: Vec<u8>,
    source: Box<dyn BufRead + Send>,
    left: u64,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("contents", &self.contents)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// Reads all of a file.
///
/// # Errors
/// [`Error::Parse`] with file, line and column; [`Error::Io`]; [`Error::Spec`] for a file without an update.
pub(crate) fn compile(file: &Path, shape: Shape) -> Result<Stream, Error> {
    let mut maker = Maker::new(shape, file);
    maker.read(&mut Script::open(file)?)?;
    maker.finish()
}

/// Makes messages of commands.
struct Maker<'a> {
    shape: Shape,
    file: &'a Path,
    contents: Contents,
    first_zone: Vec<u8>,
    zone: Vec<u8>,
    /// The transaction that is being read.
    open: Open,
    /// For each client what is gathered for its next message.
    gathered: Vec<Open>,
    spool: Spool,
}

/// Records for a message.
#[derive(Clone, Default)]
struct Open {
    builder: Builder,
    transactions: u32,
    unrepeatable: bool,
    /// Of each owner: of its entry (which client), and of itself.
    names: Vec<u64>,
    client: Option<u32>,
    across: bool,
}

impl Open {
    fn begin(&mut self, zone: &[u8]) {
        self.builder.begin(zone);
        self.names.clear();
        (self.transactions, self.unrepeatable, self.client, self.across) = (0, false, None, false);
    }
}

impl<'a> Maker<'a> {
    fn new(shape: Shape, file: &'a Path) -> Self {
        Self {
            shape,
            file,
            contents: Contents::default(),
            first_zone: Vec::new(),
            zone: Vec::new(),
            open: Open::default(),
            gathered: vec![Open::default(); shape.clients.max(1) as usize],
            spool: Spool::default(),
        }
    }

    fn read(&mut self, script: &mut Script<impl BufRead>) -> Result<(), Error> {
        loop {
            let too_long = |line: usize, octets: usize| Error::Parse {
                file: self.file.display().to_string(),
                line,
                column: 1,
                message: format!(
                    "the transaction that ends here makes a message of {octets} octets or too many records: at most {MESSAGE_MAX} \
                     octets and 65,535 records fit; put a 'send' in its middle"
                ),
            };
            match script.next()? {
                None => return Ok(()),
                Some(Command::Zone(zone)) => {
                    self.zone = zone.to_vec();
                    if self.first_zone.is_empty() {
                        self.first_zone = zone.to_vec();
                    }
                    self.flush_all()?;
                    self.open.begin(&self.zone);
                }
                Some(Command::Record(section, rr)) => {
                    if !take(&mut self.open, &self.zone, self.shape, section, &rr) {
                        return Err(too_long(script.line(), self.open.builder.len()));
                    }
                }
                Some(Command::Send) => {
                    if self.open.builder.len() > MESSAGE_MAX {
                        return Err(too_long(script.line(), self.open.builder.len()));
                    }
                    self.close()?;
                }
            }
        }
    }

    /// The transaction is complete.
    fn close(&mut self) -> Result<(), Error> {
        let client = self.open.client.unwrap_or(0);
        self.contents.transactions += 1;
        self.contents.across_clients += u64::from(self.open.across);
        // Prerequisites are of their own transaction: all of a message's are looked at before any of its updates.
        let alone = self.shape.merge <= 1 || self.open.builder.prerequisites() > 0;
        let at = client as usize;
        let fits = |g: &Open| g.builder.len() + self.open.builder.len() <= MESSAGE_MAX;
        if alone || !fits(&self.gathered[at]) {
            self.flush(at)?;
        }
        let gathered = &mut self.gathered[at];
        if gathered.transactions == 0 {
            gathered.begin(&self.zone);
        }
        if !gathered.builder.append(&self.open.builder) {
            self.flush(at)?;
            self.gathered[at].begin(&self.zone);
            // Into an empty one it fits.
            let _ = self.gathered[at].builder.append(&self.open.builder);
        }
        let gathered = &mut self.gathered[at];
        gathered.transactions += 1;
        gathered.unrepeatable |= self.open.unrepeatable;
        gathered.names.append(&mut self.open.names);
        if alone || gathered.transactions >= self.shape.merge {
            self.flush(at)?;
        }
        self.open.begin(&self.zone);
        Ok(())
    }

    fn flush_all(&mut self) -> Result<(), Error> {
        (0..self.gathered.len()).try_for_each(|client| self.flush(client))
    }

    fn flush(&mut self, client: usize) -> Result<(), Error> {
        let gathered = &mut self.gathered[client];
        if gathered.transactions == 0 {
            return Ok(());
        }
        gathered.names.sort_unstable();
        gathered.names.dedup();
        let repeatable = !gathered.unrepeatable;
        let contents = &mut self.contents;
        contents.messages += 1;
        contents.records += u64::from(gathered.builder.updates());
        contents.bytes += gathered.builder.len() as u64;
        contents.repeatable += u64::from(repeatable);
        let head = [
            gathered.builder.len() as u32,
            client as u32,
            gathered.transactions,
            gathered.builder.updates().into(),
            repeatable.into(),
            gathered.names.len() as u32,
        ];
        self.spool
            .record(&head, &gathered.names, &gathered.builder)
            .map_err(Error::io(std::env::temp_dir()))?;
        gathered.begin(&self.zone);
        Ok(())
    }

    fn finish(mut self) -> Result<Stream, Error> {
        self.flush_all()?;
        if self.contents.messages == 0 {
            return Err(Error::Spec(format!("{}: no update in it", self.file.display())));
        }
        let source = self.spool.finish().map_err(Error::io(std::env::temp_dir()))?;
        Ok(Stream { left: self.contents.messages, contents: self.contents, zone: self.first_zone, source })
    }
}

/// Takes a record into a transaction; false where it cannot hold more.
fn take(open: &mut Open, zone: &[u8], shape: Shape, section: Section, rr: &Rr<'_>) -> bool {
    if shape.clients > 1 && section == Section::Update {
        let client = (entry_hash(rr.owner, zone) % u64::from(shape.clients)) as u32;
        open.across |= open.client.is_some_and(|other| other != client);
        open.client.get_or_insert(client);
    }
    if shape.names {
        let mut lower = rr.owner.to_vec();
        name::lowercase(&mut lower);
        open.names.push(question::hash_octets(&lower));
    }
    open.unrepeatable |= section == Section::Prerequisite || !is_repeatable(zone, rr);
    open.builder.push(section, rr) && open.builder.len() <= 4 * MESSAGE_MAX
}

/// A hash of the label below the zone's apex, small letters: a delegation and all that is below it have the same.
fn entry_hash(owner: &[u8], zone: &[u8]) -> u64 {
    let mut entry = owner;
    while entry.len() > zone.len() && name::parent(entry).len() > zone.len() {
        entry = name::parent(entry);
    }
    let mut lower = entry.to_vec();
    name::lowercase(&mut lower);
    question::hash_octets(&lower)
}

/// Whether doing it a second time right after the first changes nothing, whatever the zone holds. Not so where the server looks
/// at what is there before it obeys (RFC 2136, section 3.4.2): a CNAME, an SOA, the apex's NS records.
fn is_repeatable(zone: &[u8], rr: &Rr<'_>) -> bool {
    match rr.rtype {
        rtype::CNAME | rtype::SOA => false,
        rtype::NS | rtype::ANY => !name::equal(rr.owner, zone),
        _ => true,
    }
}

/// Messages that wait to be sent.
#[derive(Default)]
struct Spool {
    memory: Vec<u8>,
    file: Option<BufWriter<File>>,
}

impl Spool {
    fn record(&mut self, head: &[u32; 6], names: &[u64], builder: &Builder) -> io::Result<()> {
        head.iter().for_each(|n| self.memory.extend_from_slice(&n.to_le_bytes()));
        names.iter().for_each(|n| self.memory.extend_from_slice(&n.to_le_bytes()));
        builder.write(&mut self.memory);
        if self.memory.len() > IN_MEMORY {
            let file = match &mut self.file {
                Some(file) => file,
                none => none.insert(BufWriter::with_capacity(1 << 20, tempfile::tempfile()?)),
            };
            file.write_all(&self.memory)?;
            self.memory.clear();
        }
        Ok(())
    }

    fn finish(self) -> io::Result<Box<dyn BufRead + Send>> {
        let Some(mut file) = self.file else { return Ok(Box::new(io::Cursor::new(self.memory))) };
        file.write_all(&self.memory)?;
        let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        // Small steps, so that reading does not keep the sender from its pace.
        Ok(Box::new(BufReader::with_capacity(64 << 10, file)))
    }
}

impl Stream {
    /// The next message; false at the end.
    ///
    /// # Errors
    /// [`Error::Io`] where the temporary file cannot be read.
    pub(crate) fn next(&mut self, into: &mut Prepared) -> Result<bool, Error> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        self.read(into).map_err(Error::io(std::env::temp_dir()))?;
        Ok(true)
    }

    fn read(&mut self, into: &mut Prepared) -> io::Result<()> {
        let mut head = [0; 24];
        self.source.read_exact(&mut head)?;
        let (words, _) = head.as_chunks::<4>();
        let [len, client, transactions, records, repeatable, names]: [u32; 6] =
            std::array::from_fn(|i| u32::from_le_bytes(words[i]));
        (into.client, into.transactions, into.records) = (client, transactions, records);
        into.repeatable = repeatable != 0;
        into.names.clear();
        let mut hash = [0; 8];
        for _ in 0..names {
            self.source.read_exact(&mut hash)?;
            into.names.push(u64::from_le_bytes(hash));
        }
        into.bytes.clear();
        let read = (&mut self.source).take(len.into()).read_to_end(&mut into.bytes)?;
        if read == len as usize { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// Fuzz entry: any octets are messages of updates or an error.
pub fn fuzz_updates(bytes: &[u8]) {
    let shape = Shape { merge: 2, clients: 2, names: true };
    let mut maker = Maker::new(shape, Path::new("fuzz"));
    let read = maker.read(&mut Script::new(bytes, "fuzz"));
    if read.is_err() {
        return;
    }
    let Ok(mut stream) = maker.finish() else { return };
    let (mut message, mut transactions, mut records) = (Prepared::default(), 0, 0);
    while stream.next(&mut message).expect("it is in memory") {
        let header = wire::header::Header::new(&message.bytes).expect("it has a header");
        assert!(message.bytes.len() <= MESSAGE_MAX && header.counts_fit(message.bytes.len()));
        assert_eq!((header.qdcount(), u32::from(header.nscount())), (1, message.records));
        assert!(message.client < 2 && question::end(&message.bytes).is_some());
        transactions += u64::from(message.transactions);
        records += u64::from(message.records);
    }
    assert_eq!((transactions, records), (stream.contents.transactions, stream.contents.records));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(text: &str, merge: u32, clients: u32) -> (Contents, Vec<(u32, u32, u32, bool)>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("updates");
        std::fs::write(&path, text).unwrap();
        let shape = Shape { merge, clients, names: true };
        let mut stream = compile(&path, shape).unwrap();
        let mut message = Prepared::default();
        let mut got = Vec::new();
        while stream.next(&mut message).unwrap() {
            got.push((message.client, message.transactions, message.records, message.repeatable));
        }
        (stream.contents, got)
    }

    fn adds(count: u32) -> String {
        let mut text = "zone example.\n".to_owned();
        for n in 0..count {
            text += &format!(
                "update add d{n}.example. 60 NS ns.d{n}.example.\nupdate add ns.d{n}.example. 60 A 10.0.0.1\nsend\n"
            );
        }
        text
    }

    #[test]
    fn transactions_are_merged_and_dealt_by_entry() {
        let (contents, got) = stream(&adds(10), 1, 1);
        assert_eq!((contents.messages, contents.transactions, contents.records), (10, 10, 20));
        assert!(got.iter().all(|m| *m == (0, 1, 2, true)));
        let (contents, got) = stream(&adds(10), 4, 1);
        assert_eq!(got.iter().map(|m| m.1).collect::<Vec<_>>(), [4, 4, 2]);
        assert_eq!((contents.messages, contents.transactions, contents.across_clients), (3, 10, 0));
        let (contents, got) = stream(&adds(100), 3, 4);
        assert_eq!(contents.across_clients, 0, "glue goes with its delegation");
        assert!((0..4).all(|client| got.iter().any(|m| m.0 == client)));
        assert_eq!(got.iter().map(|m| u64::from(m.1)).sum::<u64>(), 100);
    }

    #[test]
    fn what_looks_before_it_leaps_is_not_repeated() {
        for (line, repeatable) in [
            ("update delete a.t.", true),
            ("update delete a.t. A", true),
            ("update delete a.t. A 10.0.0.1", true),
            ("update add a.t. 5 TXT x", true),
            ("update add a.t. 5 CNAME b.t.", false),
            ("update add t. 5 SOA a.t. b.t. 1 2 3 4 5", false),
            ("update delete t. NS a.t.", false),
            ("update delete t.", false),
            ("prereq yxdomain a.t.\nupdate add a.t. 5 A 10.0.0.1", false),
        ] {
            let (_, got) = stream(&format!("zone t.\n{line}\nsend\n"), 1, 1);
            assert_eq!(got[0].3, repeatable, "{line}");
        }
    }

    #[test]
    fn prerequisites_keep_their_transaction_apart() {
        let text = "zone t.\nupdate add a.t. 1 A 10.0.0.1\nsend\nprereq yxdomain a.t.\nupdate delete a.t.\nsend\n\
            update add b.t. 1 A 10.0.0.1\nsend\nupdate add c.t. 1 A 10.0.0.1\nsend\n";
        let (_, got) = stream(text, 10, 1);
        assert_eq!(got.iter().map(|m| (m.1, m.2)).collect::<Vec<_>>(), [(1, 1), (1, 1), (2, 2)]);
    }

    #[test]
    fn transactions_that_are_too_long_are_told_and_files_without_updates_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("updates");
        let long: String =
            (0..300).map(|n| format!("update add a.t. 1 TXT \"{n}{}\"\n", "x".repeat(240))).collect();
        let shape = Shape { merge: 1, clients: 1, names: false };
        std::fs::write(&path, format!("zone t.\n{long}send\n")).unwrap();
        let error = compile(&path, shape).unwrap_err().to_string();
        assert!(
            error.contains("updates:302:1: the transaction that ends here makes a message of"),
            "{error}"
        );
        std::fs::write(&path, "zone t.\n; nothing\n").unwrap();
        assert!(compile(&path, shape).unwrap_err().to_string().ends_with("no update in it"));
    }

    #[test]
    fn many_messages_wait_in_a_file() {
        let mut spool = Spool { memory: vec![0; 0], file: None };
        let mut builder = Builder::default();
        builder.begin(b"\x01t\x00");
        let head = |n: u32| [builder.len() as u32, n, 1, 0, 1, 1];
        for n in 0..2_000_000u32 {
            spool.record(&head(n), &[n.into()], &builder).unwrap();
        }
        assert!(spool.file.is_some() && spool.memory.len() <= IN_MEMORY);
        let contents = Contents::default();
        let mut stream =
            Stream { contents, zone: Vec::new(), source: spool.finish().unwrap(), left: 2_000_000 };
        let (mut message, mut n) = (Prepared::default(), 0);
        while stream.next(&mut message).unwrap() {
            assert_eq!(
                (message.client, &message.names[..], message.bytes.len()),
                (n, &[u64::from(n)][..], builder.len())
            );
            n += 1;
        }
        assert_eq!(n, 2_000_000);
    }

    proptest! {
        #[test]
        fn any_octets_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            fuzz_updates(&bytes);
        }

        #[test]
        fn mutated_files_are_safe(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)) {
            let mut text = (adds(3)
                + "prereq yxrrset a.example. A 10.0.0.1\nprereq nxdomain \\032b.example.\nupdate delete x.example. 5 IN MX 10 a\n\
                   ttl 1h\nadd c.example. TXT \"a b\" c\nsend\n")
                .into_bytes();
            for (at, octet) in edits {
                let at = at.index(text.len());
                text[at] = octet;
            }
            fuzz_updates(&text);
        }
    }
}
