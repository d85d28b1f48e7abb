//! TCP streams put together: in pieces, out of order, sent again, with holes, cut at either end.

use super::support::{Owned, RAW_IP, framed, message, pcap, read, tcp};
use proptest::prelude::*;

const FIRST: u32 = u32::MAX - 20;

/// Three queries as a stream, and where each of their ends is in it.
fn queries() -> (Vec<u8>, Vec<Vec<u8>>) {
    let messages: Vec<_> = (1..=3).map(|id| message(id, false, &"x".repeat(usize::from(id) * 9))).collect();
    (messages.iter().flat_map(|m| framed(m)).collect(), messages)
}

fn bytes(all: &[Owned]) -> Vec<Vec<u8>> {
    all.iter().map(|m| m.bytes.clone()).collect()
}

/// The handshake; sequence numbers wrap soon after it.
fn handshake() -> Vec<Vec<u8>> {
    vec![
        tcp(true, FIRST, "S", 0, &[]),
        tcp(false, 100, "SA", FIRST.wrapping_add(1), &[]),
        tcp(true, FIRST.wrapping_add(1), "A", 101, &[]),
    ]
}

fn data(stream: &[u8], from: usize, to: usize) -> Vec<u8> {
    tcp(true, FIRST.wrapping_add(1 + from as u32), "A", 101, &stream[from..to])
}

proptest! {
    #[test]
    fn any_pieces_in_any_order_give_the_messages(
        cuts in prop::collection::vec(0usize..120, 0..12),
        order in prop::collection::vec(any::<u32>(), 40),
        again in prop::collection::vec((0usize..120, 1usize..80), 0..6),
    ) {
        let (stream, messages) = queries();
        let mut cuts: Vec<_> = cuts.into_iter().map(|c| c.min(stream.len())).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let mut pieces: Vec<(usize, usize)> = cuts.windows(2).map(|w| (w[0], w[1])).collect();
        pieces.extend(again.into_iter().map(|(at, n)| (at.min(stream.len()), (at + n).min(stream.len()))));
        let mut pieces: Vec<_> = pieces.into_iter().filter(|p| p.0 < p.1).zip(order).collect();
        pieces.sort_by_key(|p| p.1);
        let mut packets = handshake();
        packets.extend(pieces.iter().map(|((from, to), _)| data(&stream, *from, *to)));
        let (all, counts, skipped) = read(&pcap(RAW_IP, &packets)).unwrap();
        prop_assert_eq!(bytes(&all), messages);
        prop_assert!(skipped.is_empty(), "{:?}", skipped);
        prop_assert_eq!((counts.connections, counts.over_tcp), (1, 3));
    }
}

#[test]
fn several_messages_share_a_segment_and_octets_come_alone() {
    let (stream, messages) = queries();
    let whole = [handshake(), vec![data(&stream, 0, stream.len())]].concat();
    let alone = (0..stream.len()).map(|n| data(&stream, n, n + 1)).collect();
    let alone = [handshake(), alone].concat();
    for packets in [whole, alone] {
        let (all, _, skipped) = read(&pcap(RAW_IP, &packets)).unwrap();
        assert_eq!(bytes(&all), messages);
        assert!(skipped.is_empty() && all.iter().all(|m| m.tcp == Some(0) && m.from.port() == 40_000));
    }
}

#[test]
fn messages_have_the_time_of_the_segment_that_made_them_whole() {
    let (stream, _) = queries();
    let end = framed(&message(1, false, &"x".repeat(9))).len();
    let packets = [handshake(), vec![data(&stream, 10, stream.len()), data(&stream, 0, 10)]].concat();
    let (all, ..) = read(&pcap(RAW_IP, &packets)).unwrap();
    assert_eq!(all.iter().map(|m| m.at).collect::<Vec<_>>(), [1_004_000_000; 3]);
    let packets = [handshake(), vec![data(&stream, 0, end), data(&stream, end, stream.len())]].concat();
    let (all, ..) = read(&pcap(RAW_IP, &packets)).unwrap();
    assert_eq!(all.iter().map(|m| m.at).collect::<Vec<_>>(), [1_003_000_000, 1_004_000_000, 1_004_000_000]);
}

#[test]
fn retransmissions_are_counted_and_change_nothing() {
    let (stream, messages) = queries();
    let mut packets = [handshake(), vec![data(&stream, 0, 30)], handshake()].concat();
    packets.extend([data(&stream, 0, 30), data(&stream, 5, 20), data(&stream, 20, stream.len())]);
    let (all, counts, skipped) = read(&pcap(RAW_IP, &packets)).unwrap();
    assert_eq!(bytes(&all), messages);
    assert_eq!((counts.retransmitted, counts.connections), (2, 1));
    assert!(skipped.is_empty());
}

#[test]
fn after_a_hole_the_next_message_is_found() {
    let messages: Vec<_> = (1..=4).map(|id| message(id, false, "example")).collect();
    let stream: Vec<u8> = messages.iter().flat_map(|m| framed(m)).collect();
    let one = stream.len() / 4;
    // The second is missing, and the end of the first with it.
    let late = tcp(false, 101, "A", FIRST.wrapping_add(1 + stream.len() as u32), &[]);
    let mut packets = handshake();
    packets.extend([data(&stream, 0, one - 3), data(&stream, 2 * one, 3 * one), late.clone()]);
    // The receiver has it all: 100 ms later it is not waited for any longer.
    packets.extend(vec![late; 100]);
    packets.push(data(&stream, 3 * one, stream.len()));
    let (all, _, skipped) = read(&pcap(RAW_IP, &packets)).unwrap();
    assert_eq!(bytes(&all), messages[2..]);
    assert_eq!(all[0].at, 1_105_000_000);
    let expected = [("TCP holes", 1), ("TCP messages not seen to their end", 1)];
    assert_eq!(skipped.iter().collect::<Vec<_>>(), expected);
    // Without an acknowledgement the end of the capture gives what it can.
    let packets = [handshake(), vec![data(&stream, 0, one), data(&stream, 2 * one, stream.len())]].concat();
    let (all, _, skipped) = read(&pcap(RAW_IP, &packets)).unwrap();
    assert_eq!(bytes(&all), [&messages[..1], &messages[2..]].concat());
    assert_eq!(skipped.iter().collect::<Vec<_>>(), [("TCP holes", 1)]);
}

#[test]
fn after_a_hole_that_ends_within_a_message_that_message_is_left_out() {
    let messages: Vec<_> = (1..=4).map(|id| message(id, false, "example")).collect();
    let stream: Vec<u8> = messages.iter().flat_map(|m| framed(m)).collect();
    let one = stream.len() / 4;
    let packets = [
        handshake(),
        vec![
            data(&stream, 0, one),
            data(&stream, 2 * one + 7, 3 * one),
            data(&stream, 3 * one, stream.len()),
        ],
    ];
    let (all, _, skipped) = read(&pcap(RAW_IP, &packets.concat())).unwrap();
    assert_eq!(bytes(&all), [&messages[..1], &messages[3..]].concat());
    let expected = [("TCP segments before a message boundary was found", 1), ("TCP holes", 1)];
    assert_eq!(skipped.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_capture_may_begin_and_end_within_a_connection() {
    let (stream, messages) = queries();
    let ends: Vec<usize> = messages
        .iter()
        .scan(0, |at, m| {
            *at += m.len() + 2;
            Some(*at)
        })
        .collect();
    // It begins in the first message and ends in the third.
    let packets =
        [data(&stream, 8, ends[0]), data(&stream, ends[0], ends[1]), data(&stream, ends[1], ends[2] - 1)];
    let (all, _, skipped) = read(&pcap(RAW_IP, &packets)).unwrap();
    assert_eq!(bytes(&all), messages[1..2]);
    let expected =
        [("TCP segments before a message boundary was found", 1), ("TCP messages not seen to their end", 1)];
    assert_eq!(skipped.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn both_directions_and_the_next_connection_are_told_apart() {
    let (query, response) = (message(7, false, "a"), message(7, true, "a"));
    let (up, down) = (framed(&query), framed(&response));
    let mut packets = handshake();
    packets.push(data(&up, 0, up.len()));
    packets.push(tcp(false, 101, "AF", FIRST.wrapping_add(1 + up.len() as u32), &down));
    packets.push(tcp(true, FIRST.wrapping_add(1 + up.len() as u32), "AF", 102 + down.len() as u32, &[]));
    // Sent again after the end: known for what it is.
    packets.push(data(&up, 0, up.len()));
    // The same ports once more.
    packets.push(tcp(true, 5_000, "S", 0, &[]));
    packets.push(tcp(true, 5_001, "A", 1, &up));
    packets.push(tcp(true, 5_001 + up.len() as u32, "R", 1, &[]));
    let (all, counts, skipped) = read(&pcap(RAW_IP, &packets)).unwrap();
    let told: Vec<_> = all.iter().map(|m| (m.tcp, m.from.port(), m.bytes == query)).collect();
    assert_eq!(told, [(Some(0), 40_000, true), (Some(0), 53, false), (Some(1), 40_000, true)]);
    assert_eq!((counts.connections, counts.queries, counts.responses), (2, 2, 1));
    assert_eq!(counts.connections_with_dns, 2);
    assert!(skipped.is_empty(), "{skipped:?}");
}

#[test]
fn messages_shorter_than_a_header_are_counted() {
    let stream = [framed(&[]), framed(&[1, 2, 3]), framed(&message(1, false, "a"))].concat();
    let packets = [handshake(), vec![data(&stream, 0, stream.len())]].concat();
    let (all, _, skipped) = read(&pcap(RAW_IP, &packets)).unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!(skipped.iter().collect::<Vec<_>>(), [("TCP messages shorter than a DNS header", 2)]);
}

#[test]
fn the_longest_message_comes_whole() {
    let mut long = message(9, true, "long");
    long.resize(65_535, 0xee);
    let stream = framed(&long);
    let mut packets = vec![tcp(false, 100, "SA", 1, &[])];
    packets
        .extend(stream.chunks(1400).enumerate().map(|(n, c)| tcp(false, 101 + 1400 * n as u32, "A", 1, c)));
    let (all, ..) = read(&pcap(RAW_IP, &packets)).unwrap();
    assert_eq!(bytes(&all), [long]);
}

#[test]
fn only_so_many_connections_are_known_at_once() {
    // Each begins, and has half a message.
    let whole = framed(&message(1, false, "a"));
    let from = |n: u32, mut packet: Vec<u8>| {
        packet[12..16].copy_from_slice(&(10 << 24 | n).to_be_bytes());
        packet
    };
    let mut packets: Vec<_> = (0..70_000).map(|n| from(n, tcp(true, 0, "S", 0, &whole[..10]))).collect();
    // The rest of one that was forgotten, and of one that was not.
    packets.extend([0, 69_999].map(|n| from(n, tcp(true, 11, "A", 1, &whole[10..]))));
    let (all, counts, skipped) = read(&pcap(RAW_IP, &packets)).unwrap();
    assert_eq!((all.len(), counts.connections, counts.connections_with_dns), (1, 70_001, 1));
    assert_eq!(all[0].from.ip(), std::net::Ipv4Addr::from(10 << 24 | 69_999));
    assert_eq!(skipped.count("TCP segments before a message boundary was found"), 1);
    assert_eq!(skipped.count("TCP messages not seen to their end"), 69_999);
}
