//! Message by message: what is kept goes out in packets of its own.

use super::dropped::Drop;
use super::ends::{Direction, Ends};
use super::filter::Filter;
use super::rebuilt::Rebuilt;
use super::rewrite::{Parsed, Rewriter};
use super::sink::Sink;
use super::{Edit, Error, Input, Kind, Summary};
use crate::read::{Event, Message, Options, Reader};
use crate::write::ETHERNET;
use crate::write::build::IpFields;
use std::path::Path;

/// Packets between two reports of progress.
const REPORT: u64 = 1 << 16;

/// Reads messages and writes what is kept of them.
pub(super) fn run(
    edit: &Edit,
    input: Input<'_>,
    mut sink: Sink<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Summary, Error> {
    let options = Options { ports: edit.ports.clone(), ..Options::default() };
    let mut reader = match input {
        Input::Files(paths) => Reader::open(paths, &options)?,
        Input::From(from) => Reader::from_read(Path::new("input"), from, &options)?,
    };
    let mut summary = Summary { by_message: true, ..Summary::default() };
    let mut path = Messages {
        kind: edit.kind,
        filter: Filter::new(edit),
        rewriter: Rewriter::new(edit),
        rebuilt: Rebuilt::default(),
        made: 0,
        scratch: Vec::new(),
    };
    let (mut first, mut link, mut reported) = (None, ETHERNET, 0);
    while let Some(found) = reader.find()? {
        // The first event may come long after the first packet, but knows of it.
        let first = *first.get_or_insert(reader.span().map_or(0, |(first, _)| first));
        link = reader.link().unwrap_or(link);
        if reader.counts().packets >= reported + REPORT {
            reported = reader.counts().packets;
            progress(reported);
        }
        let result = match reader.show(found) {
            Event::Message(message) => {
                summary.messages += 1;
                let result = match path.filter.message(&message, first) {
                    Ok(()) => path.write(&message, link, &mut sink)?,
                    Err(reason) => Err(reason),
                };
                summary.kept += u64::from(result.is_ok());
                result
            }
            Event::Quote(_) => Err(Drop::Quote),
            Event::Connection(connection) if edit.kind != Kind::Queries => {
                path.rebuilt.end(&connection, &mut path.rewriter, &mut sink)?
            }
            Event::Connection(_) => Ok(()),
        };
        if let Err(reason) = result {
            summary.dropped.add(reason);
        }
    }
    summary.read = reader.counts().packets;
    summary.ignored = reader.skipped().clone();
    path.rewriter.finish(&mut summary)?;
    sink.finish(&mut summary)?;
    Ok(summary)
}

struct Messages<'e> {
    kind: Kind,
    filter: Filter<'e>,
    rewriter: Rewriter,
    rebuilt: Rebuilt,
    /// Packets made of fragments.
    made: u16,
    scratch: Vec<u8>,
}

impl Messages<'_> {
    /// Writes a message that is kept, unless that cannot be done.
    fn write(
        &mut self,
        message: &Message<'_>,
        link: u16,
        sink: &mut Sink<'_>,
    ) -> Result<Result<(), Drop>, Error> {
        let response = message.header().qr();
        if self.kind == Kind::Queries {
            if response {
                return Ok(Err(Drop::Responses));
            }
            let line = sink.query(message.at, message.bytes)?;
            return Ok(if line { Ok(()) } else { Err(Drop::NoLine) });
        }
        let way = if response { Direction::FromServer } else { Direction::FromClient };
        if let Some(frame) = message.frame {
            let client = if response { message.to.ip() } else { message.from.ip() };
            let ends = Some(Ends { way, client, router: false });
            let parsed = Parsed::new(&frame).expect("a message was read from it");
            return match self.rewriter.packet(frame, &parsed, ends) {
                Ok((link, len)) => sink.frame(message.at, link, &self.rewriter.out, len).map(Ok),
                Err(reason) => Ok(Err(reason)),
            };
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(message.bytes);
        self.rewriter.message(&mut self.scratch);
        if message.tcp.is_some() {
            return self.rebuilt.message(message, &self.scratch, (link, way), &mut self.rewriter, sink);
        }
        self.made = self.made.wrapping_add(1);
        let fields = IpFields { id: self.made, df: message.df, ttl: message.ttl };
        let begun = self.rewriter.begin(link, (message.from, message.to), way);
        let made = begun.and_then(|(link, from, to)| {
            self.rewriter.udp((from, to), fields, &self.scratch)?;
            Ok(link)
        });
        match made {
            Ok(link) => {
                let out = &self.rewriter.out;
                sink.frame(message.at, link, out, out.len()).map(Ok)
            }
            Err(reason) => Ok(Err(reason)),
        }
    }
}
