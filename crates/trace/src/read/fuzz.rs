//! Any octets as captures.

use super::{Event, Options, Reader};
use std::io::Cursor;
use std::path::Path;
use wire::header::LEN;

/// Fuzz entry point: any octets as a capture file, compressed or not.
///
/// # Panics
/// Where what is read contradicts itself: a bug.
pub fn fuzz_capture(bytes: &[u8]) {
    let input = Cursor::new(bytes.to_vec());
    let Ok(mut reader) = Reader::from_read(Path::new("fuzz"), input, &Options::default()) else { return };
    let mut messages = 0;
    let (mut quotes, mut connections) = (0, 0);
    while let Ok(Some(event)) = reader.next_event() {
        match event {
            Event::Message(message) => {
                assert!(message.bytes.len() >= LEN && message.bytes.len() <= message.len);
                messages += 1;
            }
            Event::Quote(_) => quotes += 1,
            Event::Connection(connection) => {
                assert!(connection.first <= connection.last || connection.established);
                connections += 1;
            }
        }
    }
    let counts = reader.counts();
    assert_eq!(counts.queries + counts.responses, messages);
    // A file that cannot be read further leaves connections in sight.
    assert!(counts.quotes == quotes && counts.connections >= connections);
    let skipped: u64 = reader.skipped().iter().map(|(_, count)| count).sum();
    assert!(counts.packets > 0 || skipped <= 1, "{counts:?} {:?}", reader.skipped());
}

/// Fuzz entry point: any octets as packets of raw IP, so that fragments and streams are reached. Each packet is
/// preceded by an octet of which its length is a multiple of 8, cut at the end.
pub fn fuzz_packets(bytes: &[u8]) {
    let mut file = [&0xa1b2_3c4du32.to_be_bytes()[..], &[0; 16], &101u32.to_be_bytes()].concat();
    let mut rest = bytes;
    let mut at = 0u32;
    while let Some((&length, after)) = rest.split_first() {
        let (packet, after) = after.split_at((usize::from(length) * 8).min(after.len()));
        at += 1;
        file.extend_from_slice(
            &[at, 0, packet.len() as u32, packet.len() as u32].map(u32::to_be_bytes).concat(),
        );
        file.extend_from_slice(packet);
        rest = after;
    }
    fuzz_capture(&file);
}
