//! Fragments put together, and what cannot be.

use super::support::{RAW_IP, framed, message, pcap, read, tcp, udp, udp6};
use proptest::prelude::*;

/// A fragment of an IPv4 packet: octets `from..to` of its payload.
fn piece(packet: &[u8], id: u16, from: usize, to: usize) -> Vec<u8> {
    let mut piece = [&packet[..20], &packet[20 + from..20 + to]].concat();
    let length = piece.len() as u16;
    piece[2..4].copy_from_slice(&length.to_be_bytes());
    piece[4..6].copy_from_slice(&id.to_be_bytes());
    let more = u16::from(20 + to < packet.len()) << 13;
    piece[6..8].copy_from_slice(&(more | (from / 8) as u16).to_be_bytes());
    piece
}

/// A fragment of an IPv6 packet.
fn piece6(packet: &[u8], id: u32, from: usize, to: usize) -> Vec<u8> {
    let more = u16::from(40 + to < packet.len());
    let header = [&[packet[6], 0], &(from as u16 | more).to_be_bytes()[..], &id.to_be_bytes()].concat();
    let mut piece = [&packet[..40], &header, &packet[40 + from..40 + to]].concat();
    let length = (piece.len() - 40) as u16;
    piece[4..6].copy_from_slice(&length.to_be_bytes());
    piece[6] = 44;
    piece
}

/// A message of 400 octets.
fn long() -> Vec<u8> {
    let mut message = message(1, true, "long");
    message.resize(400, 0x55);
    message
}

proptest! {
    #[test]
    fn any_pieces_in_any_order_make_the_packet(
        cuts in prop::collection::vec(1usize..51, 0..8),
        order in prop::collection::vec(any::<u32>(), 20),
        again in 0usize..4,
    ) {
        for (packet, v6) in [(udp(&long()), false), (udp6(&long()), true)] {
            let end = 408;
            let mut cuts: Vec<usize> = cuts.iter().map(|c| c * 8).chain([0, end]).collect();
            cuts.sort_unstable();
            cuts.dedup();
            let mut pieces: Vec<Vec<u8>> = cuts
                .windows(2)
                .map(|w| if v6 { piece6(&packet, 7, w[0], w[1]) } else { piece(&packet, 7, w[0], w[1]) })
                .collect();
            let whole = pieces.len() == 1;
            let mut pieces: Vec<_> = pieces.drain(..).zip(order.clone()).collect();
            pieces.sort_by_key(|p| p.1);
            let mut packets: Vec<_> = pieces.into_iter().map(|p| p.0).collect();
            // The same again before the last one completes it.
            if again < packets.len() - 1 {
                packets.insert(again, packets[again].clone());
            }
            let (all, counts, skipped) = read(&pcap(RAW_IP, &packets)).unwrap();
            prop_assert_eq!(all.len(), 1);
            prop_assert!(all[0].bytes == long() && skipped.is_empty(), "{:?}", skipped);
            prop_assert_eq!(counts.fragments, if whole { 0 } else { packets.len() as u64 });
            prop_assert_eq!(all[0].at, 1_000_000_000 + (packets.len() as u64 - 1) * 1_000_000);
        }
    }
}

#[test]
fn a_segment_may_come_in_fragments() {
    let segment = tcp(true, 10, "A", 1, &framed(&long()));
    let end = segment.len() - 20;
    let packets = [tcp(true, 9, "S", 0, &[]), piece(&segment, 1, 0, 80), piece(&segment, 1, 80, end)];
    let (all, _, skipped) = read(&pcap(RAW_IP, &packets)).unwrap();
    assert!(skipped.is_empty() && all.len() == 1 && all[0].bytes == long() && all[0].tcp == Some(0));
}

#[test]
fn fragments_alone_and_of_others_are_counted() {
    let packet = udp(&long());
    let packets = [
        piece(&packet, 1, 0, 80),
        piece(&packet, 2, 80, 408),
        piece(&packet, 3, 0, 80),
        piece(&packet, 3, 80, 160),
    ];
    let (all, counts, skipped) = read(&pcap(RAW_IP, &packets)).unwrap();
    assert_eq!((all.len(), counts.fragments), (0, 4));
    assert_eq!(skipped.iter().collect::<Vec<_>>(), [("IP fragments without their others", 4)]);
}

#[test]
fn fragments_that_contradict_each_other_spoil_their_packet() {
    let packet = udp(&long());
    let mut other = packet.clone();
    other[100] ^= 1;
    for bad in [piece(&other, 1, 0, 160), piece(&packet, 1, 152, 240), piece(&packet, 1, 200, 400)] {
        let packets =
            [piece(&packet, 1, 0, 160), piece(&packet, 1, 240, 408), bad, piece(&packet, 1, 160, 240)];
        let (all, _, skipped) = read(&pcap(RAW_IP, &packets)).unwrap();
        assert!(all.is_empty());
        assert_eq!(skipped.iter().collect::<Vec<_>>(), [("IP fragments that overlap", 4)]);
    }
}

#[test]
fn only_so_many_packets_are_put_together_at_once() {
    let packet = udp(&long());
    let mut packets: Vec<_> = (0..1025).map(|id| piece(&packet, id, 0, 80)).collect();
    // The first was given up for the last.
    packets.extend([piece(&packet, 0, 80, 408), piece(&packet, 1024, 80, 408)]);
    let (all, _, skipped) = read(&pcap(RAW_IP, &packets)).unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!(skipped.iter().collect::<Vec<_>>(), [("IP fragments without their others", 1025)]);
}

#[test]
fn fragments_are_waited_for_a_minute() {
    let packet = udp(&long());
    // One packet a millisecond: 61 s.
    let idle = (0..61_000).map(|_| udp(&message(1, false, "a")));
    let packets: Vec<_> =
        [piece(&packet, 1, 0, 80)].into_iter().chain(idle).chain([piece(&packet, 1, 80, 408)]).collect();
    let (all, _, skipped) = read(&pcap(RAW_IP, &packets)).unwrap();
    assert_eq!(all.len(), 61_000, "one waited too long");
    // Both parts, each without the other.
    assert_eq!(skipped.iter().collect::<Vec<_>>(), [("IP fragments without their others", 2)]);
}
