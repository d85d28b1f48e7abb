//! Reading a server's own log for the reason why.

use crate::driver::{Line, NameServer};
use crate::error::Cause;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The most of a log that is read for a cause: its end.
const TAIL: u64 = 256 * 1024;

/// Which of many error lines are quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// Where one fault leads to the next: a zone is refused.
    First,
    /// Where the last one is fatal: a process has ended.
    Last,
}

/// Why, from what the log holds beyond `from` bytes: its error lines where it has any, else its last lines.
pub(crate) fn cause(driver: &dyn NameServer, file: &Path, from: u64, which: Which) -> Cause {
    let text = tail(file, from, TAIL).unwrap_or_default();
    let lines = || text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let errors: Vec<&str> = lines().filter(|line| driver.classify(line) != Line::Other).collect();
    let (chosen, which) =
        if errors.is_empty() { (lines().collect(), Which::Last) } else { (errors.clone(), which) };
    let skip = if which == Which::First { 0 } else { chosen.len().saturating_sub(Cause::MAX_LINES) };
    Cause {
        file: file.into(),
        lines: chosen[skip..].iter().take(Cause::MAX_LINES).map(|line| shortened(line)).collect(),
        errors: !errors.is_empty(),
    }
}

fn shortened(line: &str) -> String {
    const MAX_CHARS: usize = 400;
    let printable = line.chars().map(|c| if c.is_control() { ' ' } else { c });
    let text: String = printable.clone().take(MAX_CHARS).collect();
    if printable.count() > MAX_CHARS { text + "..." } else { text }
}

/// The last bytes of what a file holds beyond `from`, beginning with a whole line.
fn tail(file: &Path, from: u64, bytes: u64) -> io::Result<String> {
    let mut file = File::open(file)?;
    let cut = file.metadata()?.len().saturating_sub(bytes);
    file.seek(SeekFrom::Start(from.max(cut)))?;
    let mut text = Vec::new();
    file.take(bytes).read_to_end(&mut text)?;
    let whole = if cut <= from { 0 } else { text.iter().position(|&b| b == b'\n').map_or(0, |at| at + 1) };
    Ok(String::from_utf8_lossy(&text[whole..]).into_owned())
}

/// Looks at what is new in a log each time it is asked.
#[derive(Debug)]
pub(crate) struct Watch {
    file: PathBuf,
    began: u64,
    offset: u64,
}

impl Watch {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self { file, began: 0, offset: 0 }
    }

    /// From now on only what comes is new.
    pub(crate) fn skip(&mut self) {
        self.began = self.file.metadata().map_or(0, |m| m.len());
        self.offset = self.began;
    }

    /// Where what is new began, in bytes.
    pub(crate) fn began(&self) -> u64 {
        self.began
    }

    /// Whether a whole line that says that the zone is refused has come.
    pub(crate) fn refused(&mut self, driver: &dyn NameServer) -> bool {
        let mut new = Vec::new();
        let read = File::open(&self.file).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.offset))?;
            file.take(TAIL).read_to_end(&mut new)
        });
        if read.is_err() {
            return false; // not there yet
        }
        let whole = new.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        self.offset += whole as u64;
        String::from_utf8_lossy(&new[..whole]).lines().any(|line| driver.classify(line) == Line::Refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, driver};
    use std::io::Write;

    /// The lines that the servers of Debian 12 wrote for a zone file with a wrong line.
    #[test]
    fn each_servers_refusal_is_recognised() {
        let said = [
            (
                Kind::BIND,
                "21-Nov-2026 04:00:35.567 general: error: dns_rdata_fromtext: /z/bad.zone:61: near '300.1.2.3': bad dotted quad",
                "21-Nov-2026 04:00:35.567 zoneload: error: zone ./IN: not loaded due to errors.",
            ),
            (
                Kind::NSD,
                "[2026-11-21 04:00:37.620] nsd[14082]: error: /z/bad.zone:61: invalid IPv4 address '300.1.2.3'",
                "[2026-11-21 04:00:37.620] nsd[14082]: error: zone . file /z/bad.zone read with 1 errors",
            ),
            (
                Kind::KNOT,
                "2026-11-21T04:00:39+0000 error: [.] zone loader, error in zone, file '/z/bad.zone', line 61 (invalid IPv4 address)",
                "2026-11-21T04:00:39+0000 error: [.] zone event 'load' failed (failed)",
            ),
            (
                Kind::POWERDNS,
                "Nov 21 03:58:43 Fatal error: Trying to set unknown setting 'loglevel-show'",
                "Nov 21 04:00:49 [bindbackend] error at 2026-11-21 04:00:49 +0000 parsing '.' from file '/z/none.zone': Unable to open file",
            ),
            (
                Kind::YADIFA,
                "2026-11-21 23:55:45.316365 |    743 | dbload   | database | E | zone load: reading record #19 of zone .: could not parse type for tld999. from line 20: \"tld999. 172800 IN NSX ns1.tld999.",
                "2026-11-21 23:55:45.316436 |    743 | DBsrvice | server   | E | database: .: failed to load the zone: UNKNOWN_DNS_TYPE",
            ),
        ];
        for (kind, error, refusal) in said {
            assert_eq!(driver(kind).classify(error), Line::Error, "{kind}");
            assert_eq!(driver(kind).classify(refusal), Line::Refused, "{kind}");
        }
        assert_eq!(
            driver(Kind::BIND).classify("21-Nov-2026 04:00:35.567 general: notice: all zones loaded"),
            Line::Other
        );
    }

    #[test]
    fn errors_are_quoted_before_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("named.log");
        let bind = driver(Kind::BIND);
        assert!(cause(bind, &file, 0, Which::First).lines.is_empty());
        let mut log = File::create(&file).unwrap();
        for n in 0..10 {
            writeln!(log, "general: info: {n}").unwrap();
        }
        let calm = cause(bind, &file, 0, Which::First);
        assert_eq!((calm.lines.len(), calm.errors), (Cause::MAX_LINES, false));
        assert!(calm.lines[4].ends_with(" 9"));
        writeln!(log, "zoneload: error: {}", "x".repeat(1000)).unwrap();
        writeln!(log, "general: info: exiting").unwrap();
        let angry = cause(bind, &file, 0, Which::First);
        assert_eq!((angry.lines.len(), angry.errors), (1, true));
        assert!(angry.lines[0].len() < 410);
        let from = log.metadata().unwrap().len();
        assert_eq!(cause(bind, &file, from, Which::First).lines.len(), 0);
        for n in 0..9 {
            writeln!(log, "general: error: {n}").unwrap();
        }
        let ends = |which| cause(bind, &file, from, which).lines.last().unwrap().chars().last();
        assert_eq!((ends(Which::First), ends(Which::Last)), (Some('4'), Some('8')));
    }

    #[test]
    fn a_watch_sees_a_refusal_once_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("named.log");
        let (bind, mut watch) = (driver(Kind::BIND), Watch::new(file.clone()));
        assert!(!watch.refused(bind));
        let mut log = File::create(&file).unwrap();
        write!(log, "running\nzone ./IN: not loaded due to err").unwrap();
        assert!(!watch.refused(bind));
        writeln!(log, "ors.").unwrap();
        assert!(watch.refused(bind));
        assert!(!watch.refused(bind));
    }
}
