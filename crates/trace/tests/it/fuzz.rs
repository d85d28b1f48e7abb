//! Whatever comes: nothing panics, loops or contradicts itself.

use super::support::{RAW_IP, framed, message, pcap, tcp, udp, udp6};
use measure::Seed;
use proptest::prelude::*;
use trace::edit::fuzz_edit;
use trace::facts::fuzz_facts;
use trace::transfers::fuzz_transfers;
use trace::{fuzz_capture, fuzz_packets};

/// Captures of each kind, small.
fn corpus() -> Vec<Vec<u8>> {
    let stream = [framed(&message(1, false, "a")), framed(&message(2, false, "b"))].concat();
    let segments = [
        tcp(true, 9, "S", 0, &[]),
        tcp(true, 10, "A", 1, &stream[..9]),
        tcp(true, 30, "A", 1, &stream[20..]),
        tcp(false, 1, "A", 60, &framed(&message(1, true, "a"))),
        tcp(true, 10 + stream.len() as u32, "FA", 1, &[]),
    ];
    let datagrams = [udp(&message(1, false, "a")), udp6(&message(2, true, "b"))];
    let mut pieces = vec![udp(&message(3, false, &"c".repeat(60)))];
    let mut last = [&pieces[0][..20], &pieces[0][52..]].concat();
    pieces[0].truncate(52);
    (pieces[0][2], pieces[0][3], pieces[0][6]) = (0, 52, 0x20);
    let length = last.len() as u16;
    last[2..4].copy_from_slice(&length.to_be_bytes());
    (last[6], last[7]) = (0, 4);
    pieces.push(last);
    let mut corpus = vec![pcap(RAW_IP, &segments), pcap(RAW_IP, &datagrams), pcap(RAW_IP, &pieces)];
    corpus.extend(super::captures::real().iter().filter(|p| !p.ends_with("nsd-live.pcap.xz")).map(|p| {
        let mut octets = std::fs::read(p).unwrap();
        octets.truncate(4096);
        octets
    }));
    corpus
}

#[test]
fn captures_damaged_anywhere_are_read_or_refused() {
    damaged(20_000, fuzz_capture);
}

#[test]
fn captures_damaged_anywhere_are_edited_or_refused() {
    damaged(1_000, fuzz_edit);
}

#[test]
fn transfers_of_damaged_captures_do_not_contradict_what_is_counted() {
    damaged(2_000, fuzz_transfers);
}

#[test]
fn facts_of_damaged_captures_do_not_contradict_each_other() {
    damaged(1_000, fuzz_facts);
}

/// Gives the corpus, then what becomes of it with some octets changed.
fn damaged(rounds: u64, fuzz: fn(&[u8])) {
    let corpus = corpus();
    corpus.iter().for_each(|capture| fuzz(capture));
    for round in 0..rounds {
        let mut draw = Seed(5).draw("captures", round);
        let mut capture = corpus[draw.below(corpus.len() as u64) as usize].clone();
        for _ in 0..=draw.below(6) {
            let at = draw.below(capture.len() as u64) as usize;
            capture[at] = match draw.below(4) {
                0 => 0,
                1 => 0xff,
                2 => capture[at] ^ 1 << draw.below(8),
                _ => draw.bits() as u8,
            };
        }
        if draw.below(4) == 0 {
            let length = draw.below(capture.len() as u64) as usize;
            capture.truncate(length);
        }
        fuzz(&capture);
    }
}

proptest! {
    #[test]
    fn any_octets_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzz_capture(&bytes);
        fuzz_packets(&bytes);
        for magic in [&b"\xa1\xb2\xc3\xd4"[..], b"\x0a\x0d\x0d\x0a", b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"\x04\x22\x4d\x18"] {
            fuzz_capture(&[magic, &bytes].concat());
        }
    }

    #[test]
    fn any_packets_are_read_or_skipped(
        packets in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 20..120)), 0..40)
    ) {
        // Versions and protocols that lead on, few addresses and fragment numbers so that packets meet.
        let packets = packets.into_iter().map(|(four, mut packet)| {
            if four {
                packet[0] = 0x45;
                let fields = [0, 0, packet[3] & 0x7f, 0, 1, packet[6] & 0x21, packet[7] & 7, 0];
                packet[1..9].copy_from_slice(&fields);
                packet[9] = if packet[9] & 1 == 0 { 6 } else { 17 };
                packet[12..20].fill(1);
                if let Some(ports) = packet.get_mut(20..24) {
                    ports.copy_from_slice(&[0, 53, 0, 53]);
                }
            } else {
                packet[0] = 0x60;
                packet[6] = [0, 6, 17, 43, 44, 51, 60, 59][usize::from(packet[6] & 7)];
            }
            packet
        });
        let capture = pcap(RAW_IP, &packets.collect::<Vec<_>>());
        fuzz_capture(&capture);
        fuzz_edit(&capture);
        fuzz_facts(&capture);
    }
}
