//! A capture point: what a host's device, or the router's port of a host, receives and sends, written to a file by `tcpdump`, which is not ours and so is
//! a witness of its own.

use crate::host::DEVICE;
use crate::{Cmd, Error, Host, Launcher, Output, Process};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The ring that packets wait in until they are written, in KiB: half a second of 100,000 packets.
const RING: &str = "65536";

/// How long `tcpdump` may take to begin, to print its counts, and to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// The kernel hands packets to `tcpdump` after a second at the latest; this is a little more.
const HANDED_OVER: Duration = Duration::from_millis(1_200);

/// A capture at work; killed when dropped.
#[derive(Debug)]
pub struct Capture {
    process: Process,
    host: String,
    said: PathBuf,
    /// Packets of any kind that came after the device was opened and before the filter was set. `tcpdump` counts them as
    /// received and throws them away.
    before_the_filter: u64,
}

/// The counters of `tcpdump`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// Packets written.
    pub packets: u64,
    /// Packets that the file lacks: the kernel had no room for them, or they were never read.
    pub dropped: u64,
}

/// The counts that `tcpdump` prints.
struct Counts {
    captured: u64,
    /// Those that the kernel dropped are among them.
    received: u64,
    dropped: u64,
}

impl Counts {
    fn said(said: &str) -> Option<Self> {
        let [captured, received, dropped] =
            ["captured", "received by filter", DROPPED].map(|what| count(said, what));
        Some(Self { captured: captured?, received: received?, dropped: dropped? })
    }

    /// Packets that were received and not dropped, and are not in the file (yet).
    fn unwritten(&self) -> u64 {
        self.received.saturating_sub(self.captured + self.dropped)
    }
}

/// The last words of the counts that `tcpdump` prints.
const DROPPED: &str = "dropped by kernel";

impl Capture {
    /// Writes packets that `filter` (in libpcap's words) lets through to `file`, with nanoseconds and in full length,
    /// from the return of this on. It runs when nobody else wants its CPUs. What it says goes to `said`, which is emptied.
    ///
    /// # Errors
    /// [`Error::Capture`] where `tcpdump` (or `chrt`) is missing or does not begin; those of the launcher.
    pub fn start(
        launcher: &dyn Launcher,
        host: &Host,
        filter: &str,
        cpus: &[usize],
        file: &Path,
        said: &Path,
    ) -> Result<Self, Error> {
        Self::start_on(launcher, host, DEVICE, filter, cpus, file, said)
    }

    /// As [`Self::start`], of another device than the host's own: on [`crate::Rack::router`] the port of a host has that
    /// host's name, and there what it sends is seen before, what it receives after the path.
    ///
    /// # Errors
    /// As there.
    pub fn start_on(
        launcher: &dyn Launcher,
        host: &Host,
        device: &str,
        filter: &str,
        cpus: &[usize],
        file: &Path,
        said: &Path,
    ) -> Result<Self, Error> {
        let cmd = Cmd::new("chrt")
            .args(["--idle", "0", "tcpdump", "-n", "-p", "-i", device, "-B", RING, "-s", "0", "-Z", "root"])
            .args(["--time-stamp-precision=nano", "-w"])
            .arg(file)
            .args(filter.split_whitespace())
            .cpus(cpus)
            .stderr(Output::File(said.to_owned()));
        // What another capture said there would be taken for the words of this one.
        std::fs::write(said, "").map_err(|source| Error::File {
            program: "tcpdump".into(),
            host: host.name.clone(),
            path: said.to_owned(),
            source,
        })?;
        let process = launcher.spawn(host, &cmd)?;
        let mut capture =
            Self { process, host: host.name.clone(), said: said.to_owned(), before_the_filter: 0 };
        let until = Instant::now() + PATIENCE;
        loop {
            if capture.said().contains("listening on") {
                capture.before_the_filter = capture.unwritten_at_the_start()?;
                return Ok(capture);
            }
            capture.goes_on()?;
            if Instant::now() > until {
                return Err(capture.failed("did not begin"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it, the file complete.
    ///
    /// # Errors
    /// [`Error::Capture`] where it does not end, or does not say what it counted.
    pub fn finish(mut self) -> Result<Captured, Error> {
        // When tcpdump is told to end, it drops the packets that it has not read yet, without counting them.
        let until = Instant::now() + PATIENCE;
        while self.ask()?.unwritten() > self.before_the_filter && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        self.process.signal(Signal::INT)?;
        if self.process.wait_timeout(PATIENCE)?.is_none() {
            return Err(self.failed("does not end"));
        }
        let counts = Counts::said(&self.said()).ok_or_else(|| self.failed("did not say what it counted"))?;
        let unread = counts.unwritten().saturating_sub(self.before_the_filter);
        Ok(Captured { packets: counts.captured, dropped: counts.dropped + unread })
    }

    /// The packets that `tcpdump` received and will never write. Those that it has not read yet are handed over while this
    /// waits, so the least that it finds is taken.
    fn unwritten_at_the_start(&mut self) -> Result<u64, Error> {
        let until = Instant::now() + HANDED_OVER;
        let mut least = self.ask()?.unwritten();
        while least > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
            least = least.min(self.ask()?.unwritten());
        }
        Ok(least)
    }

    /// Asks `tcpdump` for its counts up to now.
    fn ask(&mut self) -> Result<Counts, Error> {
        let answers = |said: &str| said.matches(DROPPED).count();
        let before = answers(&self.said());
        self.process.signal(Signal::USR1)?;
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let said = self.said();
            if answers(&said) > before {
                return Counts::said(&said).ok_or_else(|| self.failed("did not say what it counted"));
            }
            self.goes_on()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(self.failed("does not say what it counted"))
    }

    /// Fails where `tcpdump` has ended.
    fn goes_on(&mut self) -> Result<(), Error> {
        let ended = self.process.try_wait()?;
        ended.map_or(Ok(()), |status| Err(self.failed(&format!("ended with {status}"))))
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap_or_default()
    }

    fn failed(&self, what: &str) -> Error {
        let said = self.said();
        let said = if said.trim().is_empty() { String::new() } else { format!(": {}", said.trim()) };
        Error::Capture { host: self.host.clone(), message: format!("tcpdump {what}{said}") }
    }
}

/// The last number that was said of packets `what`: `12 packets captured, 14 packets received by filter`, or line by line.
fn count(said: &str, what: &str) -> Option<u64> {
    let mut all = said.split([',', '\n']).rev().map(|part| part.trim().trim_start_matches("tcpdump: "));
    all.find(|part| part.ends_with(what))?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_count_is_found() {
        let said = "tcpdump: listening on eth0, link-type EN10MB\n\
                    tcpdump: 240 packets captured, 998 packets received by filter, 0 packets dropped by kernel\n\
                    998 packets captured\n999 packets received by filter\n1 packet dropped by kernel\n";
        assert_eq!(count(said, "captured"), Some(998));
        assert_eq!(count(said, "received by filter"), Some(999));
        assert_eq!(count(said, DROPPED), Some(1));
        assert_eq!(count("tcpdump: listening", "captured"), None);
    }

    #[test]
    fn what_the_kernel_dropped_is_counted_once() {
        let said = "90 packets captured\n100 packets received by filter\n7 packets dropped by kernel\n";
        assert_eq!(Counts::said(said).unwrap().unwritten(), 3);
        assert!(Counts::said("tcpdump: 90 packets captured, 100 packets rec").is_none());
    }
}
