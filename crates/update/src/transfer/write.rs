//! A transfer as text: a zone file, or the lines of nsupdate that make the same changes.

use std::io::{self, Write};
use wire::name::{self, Name};
use wire::rtype;
use wire::transfer::{Entry, Kind, Part, soa_serial};
use zone::Record;
use zone::text::{write_rdata, write_record};

pub(super) struct Writer<'a> {
    out: &'a mut dyn Write,
    apex: String,
    text: Vec<u8>,
    /// The SOA that opened the transfer, as a line, until it is clear what follows.
    first: Vec<u8>,
    /// Of the server's version.
    serial: u32,
}

impl<'a> Writer<'a> {
    pub fn new(out: &'a mut dyn Write, apex: &Name) -> Self {
        Self { out, apex: apex.to_string(), text: Vec::new(), first: Vec::new(), serial: 0 }
    }

    /// Takes the next record.
    pub fn record(&mut self, part: Part, entry: &Entry<'_>) {
        let line = |text: &mut Vec<u8>| {
            let Entry { owner, rtype, ttl, rdata } = *entry;
            write_record(&Record { owner, ttl, class: wire::class::IN, rtype, rdata, line: 0 }, text);
        };
        let serial = soa_serial(entry.rdata).unwrap_or_default();
        match part {
            Part::First => {
                self.serial = serial;
                line(&mut self.first);
            }
            Part::Zone => {
                self.text.append(&mut self.first);
                line(&mut self.text);
            }
            Part::From => {
                // Of the first difference this is the SOA that was waiting; of others, the one before is over.
                let head = match self.first.is_empty() {
                    true => "send\n".to_owned(),
                    false => format!("; differences of {} to serial {}\n", self.apex, self.serial),
                };
                self.first.clear();
                self.put(&format!("{head}; since serial {serial}\nzone {}\n", self.apex));
            }
            Part::Deleted => {
                self.put("update delete ");
                name::write_text(entry.owner, &mut self.text);
                self.put(&format!(" IN {} ", rtype::to_text(entry.rtype)));
                write_rdata(entry.rtype, entry.rdata, &mut self.text);
                self.put("\n");
            }
            Part::To | Part::Added => {
                self.put("update add ");
                line(&mut self.text);
            }
            // Of a zone it is the first one again; differences end with it.
            Part::Last if self.first.is_empty() => {}
            Part::Last => self.text.append(&mut self.first),
        }
    }

    fn put(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    /// Hands over what was made.
    pub fn flush(&mut self) -> io::Result<()> {
        let written = self.out.write_all(&self.text);
        self.text.clear();
        written
    }

    /// Ends it, once it is complete.
    pub fn finish(mut self, kind: Option<Kind>) -> io::Result<()> {
        match kind {
            Some(Kind::Ixfr) => self.put("send\n"),
            Some(Kind::UpToDate) => {
                self.put(&format!("; {} is up to date: serial {}\n", self.apex, self.serial))
            }
            _ => {}
        }
        self.flush()
    }
}
