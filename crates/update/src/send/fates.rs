//! A file with a line for each message.

use super::flight::Fate;
use crate::Error;
use crate::tsig::code_name;
use measure::{Aside, Nanos};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes what became of messages, as they are done with: aside, and renamed when all is written.
pub(super) struct Fates {
    out: BufWriter<Aside>,
    path: PathBuf,
    start: Nanos,
    error: Option<io::Error>,
}

impl Fates {
    pub fn create(path: &Path) -> Result<Self, Error> {
        let aside = Aside::create(path).map_err(Error::io(path))?;
        let mut out = BufWriter::with_capacity(64 << 10, aside);
        out.write_all(
            b"message,client,intended_us,sent_us,latency_us,service_us,rcode,sends,transactions,records\n",
        )
        .map_err(Error::io(path))?;
        Ok(Self { out, path: path.into(), start: 0, error: None })
    }

    /// Times count from here.
    pub fn begin(&mut self, start: Nanos) {
        self.start = start;
    }

    pub fn write(&mut self, fate: &Fate) {
        if self.error.is_none() {
            self.error = self.line(fate).err();
        }
    }

    fn line(&mut self, f: &Fate) -> io::Result<()> {
        let since = |at: Nanos| at as f64 / 1e3 - self.start as f64 / 1e3;
        write!(self.out, "{},{},{:.1},{:.1},", f.number, f.client, since(f.intended), since(f.sent))?;
        match f.answered {
            Some((at, code)) => {
                let us = |from: Nanos| at.saturating_sub(from) as f64 / 1e3;
                write!(self.out, "{:.1},{:.1},{},", us(f.intended), us(f.sent), code_name(code))?;
            }
            None => self.out.write_all(b",,,")?,
        }
        writeln!(self.out, "{},{},{}", f.sends, f.transactions, f.records)
    }

    /// Puts the file in its place.
    pub fn finish(mut self) -> Result<(), Error> {
        if let Some(error) = self.error.take() {
            return Err(Error::io(self.path)(error));
        }
        let aside = self.out.into_inner().map_err(|e| Error::io(&self.path)(e.into_error()))?;
        aside.finish().map_err(Error::io(&self.path))
    }
}
