//! A capture on an agent's host.

use crate::agent::Number;
use crate::request::{At, Request};
use crate::{Agent, Error};
use rack::{Captured, Local};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Begins to write what a device of the host receives and sends to a file: see [`rack::Capture::start_on`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StartCapture {
    /// The device.
    pub device: String,
    /// Which packets are captured, in libpcap's syntax.
    pub filter: String,
    /// The CPUs that it may use.
    pub cpus: Vec<usize>,
    /// The file that the packets are written to.
    pub file: PathBuf,
    /// The file for the standard error of `tcpdump`.
    pub said: PathBuf,
}

/// A capture at work; ended when it is dropped.
pub struct Capture {
    at: Number,
    file: PathBuf,
    said: PathBuf,
}

impl Capture {
    /// Begins to capture on an agent's host.
    ///
    /// # Errors
    /// Those of [`rack::Capture::start_on`].
    pub fn start(agent: &Agent, what: StartCapture) -> Result<Self, Error> {
        let (file, said) = (what.file.clone(), what.said.clone());
        let there = StartCapture { file: agent.place(&file)?, said: agent.place(&said)?, ..what };
        Ok(Self { at: Number::new(agent, agent.ask(there)?), file, said })
    }

    /// The agent of its host.
    pub fn agent(&self) -> &Agent {
        &self.at.agent
    }

    /// Ends it, the file complete and here, its times by the wall clock of another agent's machine.
    ///
    /// # Errors
    /// Those of [`rack::Capture::finish`].
    pub fn finish(self, clock_of: &Agent) -> Result<Captured, Error> {
        let Number { agent, number } = &self.at;
        let later = match agent.is_beside(clock_of) {
            true => 0,
            false => clock_of.clock()?.ahead - agent.clock()?.ahead,
        };
        let captured = agent.ask(FinishCapture { capture: *number, later })?;
        agent.fetch(&self.file)?;
        agent.fetch(&self.said)?;
        Ok(captured)
    }
}

impl Request for StartCapture {
    const NAME: &'static str = "StartCapture";
    type Answer = u64;

    fn act(self, at: &At<'_>) -> Result<u64, Error> {
        let Self { device, filter, cpus, file, said } = self;
        let capture = rack::Capture::start_on(&Local, at.host, &device, &filter, &cpus, &file, &said)?;
        Ok(at.here.keep((capture, file)))
    }
}

/// Ends a capture, and makes its times so much later.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FinishCapture {
    capture: u64,
    /// Nanoseconds.
    later: i64,
}

impl Request for FinishCapture {
    const NAME: &'static str = "FinishCapture";
    type Answer = Captured;

    fn act(self, at: &At<'_>) -> Result<Captured, Error> {
        let (capture, file) = at.here.take::<(rack::Capture, PathBuf)>(self.capture)?;
        let captured = capture.finish()?;
        if self.later != 0 {
            delay(&file, self.later).map_err(|source| Error::File { path: file, source })?;
        }
        Ok(captured)
    }
}

/// Makes the times of a capture later by so many nanoseconds. It is as `tcpdump` writes it here: pcap with nanoseconds, in this
/// machine's order of octets.
fn delay(file: &Path, by: i64) -> io::Result<()> {
    const NANOSECONDS: u32 = 0xa1b2_3c4d;
    let aside = file.with_extension("delayed");
    let (mut from, mut to) = (BufReader::new(File::open(file)?), BufWriter::new(File::create(&aside)?));
    let mut header = [0; 24];
    from.read_exact(&mut header)?;
    let number = |octets: &[u8]| u32::from_ne_bytes(octets.try_into().expect("four octets"));
    if number(&header[..4]) != NANOSECONDS {
        return Err(io::Error::other("it is no capture with nanoseconds"));
    }
    to.write_all(&header)?;
    let mut packet = [0; 16];
    while !from.fill_buf()?.is_empty() {
        from.read_exact(&mut packet)?;
        let at = i64::from(number(&packet[..4])) * 1_000_000_000 + i64::from(number(&packet[4..8])) + by;
        packet[..4].copy_from_slice(&(at.div_euclid(1_000_000_000) as u32).to_ne_bytes());
        packet[4..8].copy_from_slice(&(at.rem_euclid(1_000_000_000) as u32).to_ne_bytes());
        to.write_all(&packet)?;
        io::copy(&mut (&mut from).take(number(&packet[8..12]).into()), &mut to)?;
    }
    to.flush()?;
    fs::rename(&aside, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_is_delayed_packet_by_packet() {
        let packet = |seconds: u32, nanoseconds: u32, data: &[u8]| {
            let length = data.len() as u32;
            let numbers = [seconds, nanoseconds, length, length].map(u32::to_ne_bytes).concat();
            [&numbers, data].concat()
        };
        let header = [[0x4d, 0x3c, 0xb2, 0xa1].as_slice(), &[7; 20]].concat();
        let capture =
            |first, second| [header.clone(), packet(9, first, b"one"), packet(10, second, b"two!")].concat();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.pcap");
        fs::write(&file, capture(999_999_990, 0)).unwrap();
        delay(&file, 5).unwrap();
        assert_eq!(fs::read(&file).unwrap(), capture(999_999_995, 5));
        delay(&file, -5).unwrap();
        assert_eq!(fs::read(&file).unwrap(), capture(999_999_990, 0));
        fs::write(&file, b"something else, which is long enough").unwrap();
        assert!(delay(&file, 1).is_err());
    }
}
