//! Files of updates in the format of `nsupdate`, which `knsupdate` reads too.
//!
//! ```text
//! ; a comment
//! zone example.
//! prereq nxdomain new.example.
//! update add new.example. 3600 NS ns1.elsewhere.test.
//! update delete old.example. NS
//! send
//! ```
//!
//! A `send` (or an empty line) ends a transaction: what stands before it goes in one message (RFC 2136). Names without a dot at
//! their end are absolute too. `update` and `prereq` may be left out, as may `IN`; `show` and `answer` are taken for nothing. What
//! `nsupdate` takes from the file and dnsrack from its flags (`server`, `key` …) is refused.

use crate::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use wire::{class, name, rtype};

/// The longest line, in octets.
const LINE_MAX: u64 = 1 << 20;

/// RFC 2136's class of what is not there, or goes.
const NONE: u16 = 254;
const ANY: u16 = 255;

/// Writes a file of messages for a zone; `each` gives the lines of the next message, and none after the last one.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn write_messages(
    file: &Path,
    origin: &str,
    mut each: impl FnMut() -> Option<String>,
) -> Result<(), Error> {
    let mut all = || {
        let mut out = BufWriter::new(File::create(file)?);
        writeln!(out, "zone {origin}")?;
        while let Some(lines) = each() {
            writeln!(out, "{lines}send")?;
        }
        out.flush()
    };
    all().map_err(|source| Error::Io { path: file.into(), source })
}

/// Which part of a message a record belongs to (RFC 2136, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// A condition that must hold.
    Prerequisite,
    /// A change to make.
    Update,
}

/// A record as it stands in an update message: class and data say what is meant (RFC 2136, sections 2.4 and 2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rr<'a> {
    /// Wire format.
    pub owner: &'a [u8],
    /// IN, ANY (255) or NONE (254).
    pub class: u16,
    /// ANY (255) for all types.
    pub rtype: u16,
    /// Seconds; zero but in what is added.
    pub ttl: u32,
    /// Uncompressed wire format.
    pub rdata: &'a [u8],
}

/// The command on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// From here on updates are of this zone (wire format).
    Zone(&'a [u8]),
    /// A record of the transaction.
    Record(Section, Rr<'a>),
    /// The transaction is complete.
    Send,
}

/// Reads a file of updates, command by command.
pub struct Script<R> {
    reader: R,
    file: String,
    line: Vec<u8>,
    number: usize,
    owner: Vec<u8>,
    rdata: Vec<u8>,
    zone: Vec<u8>,
    ttl: Option<u32>,
    /// Records since the last `send`.
    open: u64,
    /// Where the transaction began.
    begun: usize,
    ended: bool,
}

/// Something wrong at an octet of a line.
type Wrong = (usize, String);

/// A parsed line; the parts are in the script.
enum Parsed {
    Nothing,
    Zone,
    Record(Section, u16, u16, u32),
    Send,
    Quit,
}

impl Script<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(Error::io(path))?;
        Ok(Self::new(BufReader::with_capacity(1 << 18, file), &path.display().to_string()))
    }
}

impl<R: BufRead> Script<R> {
    /// Reads from anywhere; `file` is for errors.
    pub fn new(reader: R, file: &str) -> Self {
        Self {
            reader,
            file: file.into(),
            line: Vec::new(),
            number: 0,
            owner: Vec::new(),
            rdata: Vec::new(),
            zone: Vec::new(),
            ttl: None,
            open: 0,
            begun: 0,
            ended: false,
        }
    }

    /// The line of the last command, from 1.
    pub fn line(&self) -> usize {
        self.number
    }

    /// The next command; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Parse`] with line and column, [`Error::Io`]. Do not go on after an error.
    // An iterator cannot lend its item.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Command<'_>>, Error> {
        loop {
            if self.ended || !self.read_line()? {
                self.ended = true;
                if self.open > 0 {
                    let what = format!(
                        "the file ends without a 'send' after the update that began in line {}",
                        self.begun
                    );
                    return Err(self.wrong((0, what)));
                }
                return Ok(None);
            }
            match self.parse() {
                Err(wrong) => return Err(self.wrong(wrong)),
                Ok(Parsed::Nothing) => {}
                Ok(Parsed::Quit) => self.ended = true,
                Ok(Parsed::Zone) => {
                    if self.open > 0 {
                        return Err(
                            self.wrong((0, "'zone' within a transaction: put a 'send' before it".into()))
                        );
                    }
                    return Ok(Some(Command::Zone(&self.zone)));
                }
                Ok(Parsed::Send) => {
                    if std::mem::take(&mut self.open) > 0 {
                        return Ok(Some(Command::Send));
                    }
                }
                Ok(Parsed::Record(section, rtype, class, ttl)) => {
                    if self.open == 0 {
                        self.begun = self.number;
                    }
                    self.open += 1;
                    let rr = Rr { owner: &self.owner, class, rtype, ttl, rdata: &self.rdata };
                    return Ok(Some(Command::Record(section, rr)));
                }
            }
        }
    }

    fn wrong(&self, (at, message): Wrong) -> Error {
        Error::Parse { file: self.file.clone(), line: self.number.max(1), column: at + 1, message }
    }

    fn read_line(&mut self) -> Result<bool, Error> {
        self.line.clear();
        let read = (&mut self.reader).take(LINE_MAX + 1).read_until(b'\n', &mut self.line);
        let read = read.map_err(|e: io::Error| Error::io(&self.file)(e))?;
        if read == 0 {
            return Ok(false);
        }
        self.number += 1;
        if read as u64 > LINE_MAX {
            return Err(self.wrong((0, format!("a line of more than {LINE_MAX} octets"))));
        }
        while self.line.last().is_some_and(|b| matches!(b, b'\n' | b'\r')) {
            self.line.pop();
        }
        Ok(true)
    }

    fn parse(&mut self) -> Result<Parsed, Wrong> {
        let line = std::mem::take(&mut self.line);
        let parsed = self.parse_line(&line);
        self.line = line;
        parsed
    }

    fn parse_line(&mut self, line: &[u8]) -> Result<Parsed, Wrong> {
        let mut words = Words { line, at: 0 };
        let Some((at, word)) = words.next() else { return Ok(Parsed::Send) };
        if matches!(word[0], b';' | b'#') {
            return Ok(Parsed::Nothing);
        }
        let verb = word.to_ascii_lowercase();
        match &verb[..] {
            b"update" => {
                let (at, action) = words.need("'add' or 'delete'")?;
                self.update(at, action, &mut words)
            }
            b"add" | b"delete" | b"del" => self.update(at, word, &mut words),
            b"prereq" => {
                let (at, what) = words.need("'nxdomain', 'yxdomain', 'nxrrset' or 'yxrrset'")?;
                self.prerequisite(at, what, &mut words)
            }
            b"nxdomain" | b"yxdomain" | b"nxrrset" | b"yxrrset" => self.prerequisite(at, word, &mut words),
            b"send" => words.end().map(|()| Parsed::Send),
            b"zone" => {
                let (at, text) = words.need("the zone's name")?;
                self.zone.clear();
                parse_name(at, text, &mut self.zone)?;
                words.end().map(|()| Parsed::Zone)
            }
            b"ttl" => {
                let (at, text) = words.need("a TTL")?;
                self.ttl =
                    Some(zone::scan::ttl(text).ok_or_else(|| (at, "expected a TTL in seconds".to_owned()))?);
                words.end().map(|()| Parsed::Nothing)
            }
            b"class" => {
                let (at, text) = words.need("a class")?;
                if !text.eq_ignore_ascii_case(b"IN") {
                    return Err((at, format!("class '{}': only IN is updated here", shown(text))));
                }
                words.end().map(|()| Parsed::Nothing)
            }
            b"show" | b"answer" | b"debug" => Ok(Parsed::Nothing),
            b"quit" | b"exit" => Ok(Parsed::Quit),
            b"server" | b"local" => {
                Err((at, format!("'{}': TARGET names the server: leave the line out", shown(word))))
            }
            b"key" => Err((at, "'key': give --tsig a key file, and leave the line out".into())),
            _ => Err((
                at,
                format!(
                    "'{}': expected 'zone', 'prereq', 'update add', 'update delete' or 'send'",
                    shown(word)
                ),
            )),
        }
    }

    /// The owner, which must lie in the zone.
    fn owner(&mut self, words: &mut Words<'_>) -> Result<(), Wrong> {
        let (at, text) = words.need("a domain name")?;
        self.owner.clear();
        self.rdata.clear();
        parse_name(at, text, &mut self.owner)?;
        if self.zone.is_empty() {
            return Err((at, "no zone is known here: give 'zone NAME' before the first update".into()));
        }
        if !name::is_under(&self.owner, &self.zone) {
            let mut zone = Vec::new();
            name::write_text(&self.zone, &mut zone);
            return Err((at, format!("'{}' is out of the zone {}", shown(text), shown(&zone))));
        }
        Ok(())
    }

    fn update(&mut self, at: usize, action: &[u8], words: &mut Words<'_>) -> Result<Parsed, Wrong> {
        let add = match &action.to_ascii_lowercase()[..] {
            b"add" => true,
            b"delete" | b"del" => false,
            _ => return Err((at, format!("'{}': expected 'add' or 'delete'", shown(action)))),
        };
        self.owner(words)?;
        let mut ttl = self.ttl;
        if words.peek().is_some_and(|(_, text)| text[0].is_ascii_digit()) {
            let (at, text) = words.need("a TTL")?;
            ttl = Some(
                zone::scan::ttl(text).ok_or_else(|| (at, format!("'{}': expected a TTL", shown(text))))?,
            );
        }
        words.skip_class();
        if !add && words.peek().is_none() {
            return Ok(Parsed::Record(Section::Update, ANY, ANY, 0));
        }
        let rtype = words.rtype()?;
        if words.peek().is_none() && !add {
            return Ok(Parsed::Record(Section::Update, rtype, ANY, 0));
        }
        words.data(rtype, &mut self.rdata)?;
        if !add {
            return Ok(Parsed::Record(Section::Update, rtype, NONE, 0));
        }
        let ttl = ttl.ok_or_else(|| (at, "no TTL: give 'update add NAME TTL TYPE DATA'".to_owned()))?;
        Ok(Parsed::Record(Section::Update, rtype, class::IN, ttl))
    }

    fn prerequisite(&mut self, at: usize, what: &[u8], words: &mut Words<'_>) -> Result<Parsed, Wrong> {
        let (rrset, class) = match &what.to_ascii_lowercase()[..] {
            b"nxdomain" => (false, NONE),
            b"yxdomain" => (false, ANY),
            b"nxrrset" => (true, NONE),
            b"yxrrset" => (true, ANY),
            _ => {
                let known = "expected 'nxdomain', 'yxdomain', 'nxrrset' or 'yxrrset'";
                return Err((at, format!("'{}': {known}", shown(what))));
            }
        };
        self.owner(words)?;
        words.skip_class();
        if !rrset {
            return words.end().map(|()| Parsed::Record(Section::Prerequisite, ANY, class, 0));
        }
        let rtype = words.rtype()?;
        if words.peek().is_none() || class == NONE {
            return words.end().map(|()| Parsed::Record(Section::Prerequisite, rtype, class, 0));
        }
        words.data(rtype, &mut self.rdata)?;
        Ok(Parsed::Record(Section::Prerequisite, rtype, class::IN, 0))
    }
}

fn parse_name(at: usize, text: &[u8], out: &mut Vec<u8>) -> Result<(), Wrong> {
    name::parse_into(text, Some(name::ROOT), out).map_err(|e| (at + e.offset(), e.to_string()))
}

/// A word as it may be shown in a message.
fn shown(word: &[u8]) -> String {
    String::from_utf8_lossy(&word[..word.len().min(60)]).into_owned()
}

/// The words of a line, with where they stand.
struct Words<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<(usize, &'a [u8])> {
        let rest = &self.line[self.at..];
        let start = self.at + rest.iter().position(|b| !b.is_ascii_whitespace())?;
        let mut end = start;
        while self.line.get(end).is_some_and(|b| !b.is_ascii_whitespace()) {
            // An escaped space does not end a name.
            end += 1 + usize::from(self.line[end] == b'\\');
        }
        self.at = end.min(self.line.len());
        Some((start, &self.line[start..self.at]))
    }

    fn peek(&self) -> Option<(usize, &'a [u8])> {
        Words { line: self.line, at: self.at }.next()
    }

    fn need(&mut self, what: &str) -> Result<(usize, &'a [u8]), Wrong> {
        self.next().ok_or_else(|| (self.line.len(), format!("the line ends here: expected {what}")))
    }

    fn end(&mut self) -> Result<(), Wrong> {
        self.next()
            .map_or(Ok(()), |(at, text)| Err((at, format!("'{}' after the end of the command", shown(text)))))
    }

    fn skip_class(&mut self) {
        if self.peek().is_some_and(|(_, text)| text.eq_ignore_ascii_case(b"IN")) {
            self.next();
        }
    }

    fn rtype(&mut self) -> Result<u16, Wrong> {
        let (at, text) = self.need("a record type")?;
        let code =
            rtype::from_text(text).ok_or_else(|| (at, format!("'{}' is no record type", shown(text))))?;
        if matches!(code, rtype::ANY | rtype::AXFR | rtype::IXFR | rtype::OPT) {
            return Err((at, format!("'{}' is no type of a zone's records", shown(text))));
        }
        Ok(code)
    }

    /// The rest of the line as record data.
    fn data(&mut self, rtype: u16, out: &mut Vec<u8>) -> Result<(), Wrong> {
        let at = self.at;
        self.at = self.line.len();
        zone::scan::record_data(&self.line[at..], rtype, Some(name::ROOT), out)
            .map_err(|(offset, what)| (at + offset, what))?;
        match out.len() {
            0..=65535 => Ok(()),
            n => Err((at, format!("{n} octets of data: at most 65535 fit"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<String>, String> {
        let mut script = Script::new(text.as_bytes(), "f");
        let mut got = Vec::new();
        loop {
            match script.next().map_err(|e| e.to_string())? {
                None => return Ok(got),
                Some(Command::Zone(z)) => got.push(format!("zone {z:?}")),
                Some(Command::Send) => got.push("send".into()),
                Some(Command::Record(section, r)) => {
                    let mut owner = Vec::new();
                    name::write_text(r.owner, &mut owner);
                    let owner = String::from_utf8(owner).unwrap();
                    let letter = if section == Section::Update { 'u' } else { 'p' };
                    got.push(format!("{letter} {owner} {} {} {} {:?}", r.class, r.rtype, r.ttl, r.rdata));
                }
            }
        }
    }

    #[test]
    fn lines_become_what_rfc_2136_says() {
        let text = "; comment\nzone test\n\nprereq nxdomain a.test.\nyxdomain a.test\nprereq nxrrset a.test IN A\n\
            prereq yxrrset a.test. A\nprereq yxrrset a.test. A 10.0.0.1\nupdate add a.test. 60 IN A 10.0.0.1 ; note\n\
            ttl 5m\nadd b.test A 10.0.0.2\nupdate delete c.test.\nupdate delete c.test. A\n\
            del c.test. 0 IN A 10.0.0.3\n\nshow\nsend\nupdate delete d.test.\nSEND\nquit\nnonsense\n";
        let a = "[10, 0, 0, 1]";
        assert_eq!(
            all(text).unwrap(),
            [
                "zone [4, 116, 101, 115, 116, 0]",
                "p a.test. 254 255 0 []",
                "p a.test. 255 255 0 []",
                "p a.test. 254 1 0 []",
                "p a.test. 255 1 0 []",
                &format!("p a.test. 1 1 0 {a}"),
                &format!("u a.test. 1 1 60 {a}"),
                "u b.test. 1 1 300 [10, 0, 0, 2]",
                "u c.test. 255 255 0 []",
                "u c.test. 255 1 0 []",
                "u c.test. 254 1 0 [10, 0, 0, 3]",
                "send",
                "u d.test. 255 255 0 []",
                "send"
            ]
        );
    }

    #[test]
    fn mistakes_have_their_place() {
        for (text, want) in [
            ("zone t\nupdate ad a.t. 1 A 1.2.3.4\nsend\n", "f:2:8: 'ad': expected 'add' or 'delete'"),
            ("zone t\nupdate add a.t. 1 A 1.2.3\nsend\n", "f:2:21: '1.2.3': expected an IPv4 address"),
            ("zone t\nupdate add a.t. A 1.2.3.4\nsend\n", "f:2:8: no TTL"),
            ("zone t\nupdate add a.t. 1 QQ 1.2.3.4\nsend\n", "f:2:19: 'QQ' is no record type"),
            ("update add a.t. 1 A 1.2.3.4\nsend\n", "f:1:12: no zone is known here"),
            ("zone t\nupdate add a.u. 1 A 1.2.3.4\nsend\n", "f:2:12: 'a.u.' is out of the zone t."),
            ("zone t\nupdate delete a..t. A\nsend\n", "f:2:17: "),
            (
                "zone t\nupdate delete a.t. A\n",
                "f:2:1: the file ends without a 'send' after the update that began in line 2",
            ),
            ("zone t\nupdate delete a.t. A\nzone u\n", "f:3:1: 'zone' within a transaction"),
            ("server 127.0.0.1\n", "f:1:1: 'server': TARGET names the server"),
            ("key a b\n", "f:1:1: 'key': give --tsig"),
            ("zone\n", "f:1:5: the line ends here: expected the zone's name"),
            ("zone a b\n", "f:1:8: 'b' after the end of the command"),
            ("hello\n", "f:1:1: 'hello': expected 'zone'"),
            ("class CH\n", "f:1:7: class 'CH'"),
            ("zone t\nupdate add a.t. 1 A 1.2.3.4 5\nsend\n", "f:2:29: '5' after the end of the record"),
        ] {
            let error = all(text).expect_err(text);
            assert!(error.starts_with(want), "{error}\nnot {want}");
        }
    }
}
