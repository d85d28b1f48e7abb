//! Packet by packet: everything is kept, in its place.

use super::dropped::Drop;
use super::ends::Finder;
use super::rewrite::{Parsed, Rewriter};
use super::sink::Sink;
use super::{Edit, Error, Input, Summary, Times};
use crate::read::files::Files;
use crate::read::{Counts, Frame};
use std::path::Path;

/// Packets between two reports of progress.
const REPORT: u64 = 1 << 16;

/// Reads packets and writes what is kept of them.
pub(super) fn run(
    edit: &Edit,
    input: Input<'_>,
    mut sink: Sink<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Summary, Error> {
    let mut files = match input {
        Input::Files(paths) => Files::open(paths)?,
        Input::From(from) => Files::from_read(Path::new("input"), from)?,
    };
    let mut summary = Summary::default();
    let mut path = Packets {
        edit,
        finder: Finder::new(&edit.ports),
        rewriter: Rewriter::new(edit),
        by_client: !edit.if_clients.is_empty() || !edit.not_clients.is_empty(),
    };
    let mut times = Times::new(edit);
    let mut first = None;
    let counts = &mut Counts::default();
    while files.advance(counts, &mut summary.ignored)? {
        let packet = files.current().packet();
        counts.packets += 1;
        if counts.packets.is_multiple_of(REPORT) {
            progress(counts.packets);
        }
        let frame = Frame { link: packet.link, bytes: packet.bytes, len: packet.len };
        let rewritten = if times.has(packet.at, *first.get_or_insert(packet.at)) {
            path.packet(frame)
        } else {
            Err(Drop::Time)
        };
        match rewritten {
            Ok((link, len)) => sink.frame(packet.at, link, &path.rewriter.out, len)?,
            Err(reason) => summary.dropped.add(reason),
        }
    }
    summary.read = counts.packets;
    path.rewriter.finish(&mut summary)?;
    sink.finish(&mut summary)?;
    Ok(summary)
}

struct Packets<'e> {
    edit: &'e Edit,
    finder: Finder,
    rewriter: Rewriter,
    by_client: bool,
}

impl Packets<'_> {
    /// Rewrites a packet that is kept.
    fn packet(&mut self, frame: Frame<'_>) -> Result<(u16, usize), Drop> {
        let Ok(parsed) = Parsed::new(&frame) else {
            return if self.by_client { Err(Drop::NoClient) } else { self.rewriter.unread(frame) };
        };
        let ends = self.finder.find(frame.bytes, &parsed.ip);
        if self.by_client {
            self.edit.client(ends.ok_or(Drop::NoClient)?.client)?;
        }
        self.rewriter.packet(frame, &parsed, ends)
    }
}
