//! Several captures as one, in the order of their packets' times.

use super::capture::Capture;
use super::input::{Input, Local, Place};
use super::{Counts, Error, Skipped};
use measure::Nanos;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Captures, of which those are open that have begun and not ended.
pub(crate) struct Files {
    place: Arc<dyn Place>,
    /// By the time of their first packets, the earliest last.
    waiting: Vec<(Nanos, Waiting)>,
    open: Vec<Capture>,
    /// The open file with the next packet.
    current: usize,
}

enum Waiting {
    /// Files are opened again when it is their turn: rotated captures are many.
    File(PathBuf),
    /// Its first packet is in sight.
    Open(Box<Capture>),
}

impl Files {
    /// Looks at the beginning of each capture of this machine.
    pub fn open(paths: &[PathBuf]) -> Result<Self, Error> {
        Self::open_at(Arc::new(Local), paths)
    }

    /// Looks at the beginning of each capture.
    pub fn open_at(place: Arc<dyn Place>, paths: &[PathBuf]) -> Result<Self, Error> {
        let mut waiting = Vec::new();
        for path in paths {
            let mut capture = Capture::open(Input::open(&*place, path)?)?;
            // Packets that are skipped here are skipped, and counted, again when the file is opened again.
            let (counts, skipped) = (&mut Counts::default(), &mut Skipped::default());
            if paths.len() == 1 {
                return Ok(Self::of(capture));
            }
            let first = if capture.advance(counts, skipped)? { capture.at } else { 0 };
            let entry = match place.can_reopen(path) {
                true => Waiting::File(path.clone()),
                false => Waiting::Open(Box::new(capture)),
            };
            waiting.push((first, entry));
        }
        // A stable sort: files of one time stay in the order in which they were given.
        waiting.reverse();
        waiting.sort_by_key(|&(first, _)| std::cmp::Reverse(first));
        Ok(Self { place, waiting, open: Vec::new(), current: 0 })
    }

    /// One capture.
    pub fn of(capture: Capture) -> Self {
        Self { place: Arc::new(Local), waiting: Vec::new(), open: vec![capture], current: 0 }
    }

    /// Goes on to the next packet; false where there are no more.
    pub fn advance(&mut self, counts: &mut Counts, skipped: &mut Skipped) -> Result<bool, Error> {
        if let Some(capture) = self.open.get_mut(self.current)
            && !capture.advance(counts, skipped)?
        {
            self.open.remove(self.current);
        }
        if self.open.len() == 1 && self.waiting.is_empty() {
            self.current = 0;
            return Ok(true);
        }
        loop {
            let earliest = (0..self.open.len()).min_by_key(|&n| self.open[n].at);
            let due = match (earliest, self.waiting.last()) {
                (Some(n), Some(&(first, _))) => first < self.open[n].at,
                (_, waiting) => waiting.is_some(),
            };
            if !due {
                self.current = earliest.unwrap_or(0);
                return Ok(earliest.is_some());
            }
            match self.waiting.pop() {
                Some((_, Waiting::Open(capture))) => self.open.push(*capture),
                Some((_, Waiting::File(path))) => {
                    let mut capture = Capture::open(Input::open(&*self.place, &path)?)?;
                    if capture.advance(counts, skipped)? {
                        self.open.push(capture);
                    }
                }
                None => {}
            }
        }
    }

    /// One capture from elsewhere; `name` stands for it in errors.
    pub fn from_read(name: &Path, from: Box<dyn Read + Send>) -> Result<Self, Error> {
        Ok(Self::of(Capture::open(Input::new(name, from)?)?))
    }

    /// The link type of the packet in sight.
    pub fn link(&self) -> Option<u16> {
        Some(self.open.get(self.current)?.packet().link)
    }

    /// The capture with the packet in sight.
    pub fn current(&self) -> &Capture {
        &self.open[self.current]
    }
}
