//! Zone transfers, NOTIFYs and SOA queries in captures made here; those of real servers are beside the transfer client's tests.

use super::support::{RAW_IP, framed, pcap, tcp, udp};
use std::io::Cursor;
use std::path::Path;
use trace::transfers::{Collector, Transfers};
use trace::{Options, Reader};
use wire::rtype;
use wire::transfer::{Asked, Kind};

const APEX: &[u8] = b"\x07example\0";

fn soa(serial: u32) -> Vec<u8> {
    [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat()
}

/// A message: id, flags, question, records of the apex in answer and authority; a number is a SOA, none an address.
fn message(
    id: u16,
    flags: [u8; 2],
    qtype: Option<u16>,
    answer: &[Option<u32>],
    authority: &[Option<u32>],
) -> Vec<u8> {
    let mut msg = id.to_be_bytes().to_vec();
    msg.extend_from_slice(&flags);
    let counts = [u16::from(qtype.is_some()), answer.len() as u16, authority.len() as u16, 0];
    counts.iter().for_each(|n| msg.extend_from_slice(&n.to_be_bytes()));
    if let Some(qtype) = qtype {
        msg.extend_from_slice(APEX);
        msg.extend_from_slice(&qtype.to_be_bytes());
        msg.extend_from_slice(&[0, 1]);
    }
    for record in answer.iter().chain(authority) {
        let (rtype, data) = record.map_or((rtype::A, vec![1, 2, 3, 4]), |serial| (rtype::SOA, soa(serial)));
        msg.extend_from_slice(APEX);
        msg.extend_from_slice(&rtype.to_be_bytes());
        msg.extend_from_slice(&[0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        msg.extend_from_slice(&data);
    }
    msg
}

const QUERY: [u8; 2] = [0, 0];
const ANSWER: [u8; 2] = [0x84, 0];

/// A connection: what the client and the server say in turn, each as one segment with all of its messages.
fn connection(from: u32, turns: &[(bool, Vec<u8>)]) -> Vec<Vec<u8>> {
    let (mut up, mut down) = (from + 1, from + 1001);
    let mut packets = vec![
        tcp(true, from, "S", 0, &[]),
        tcp(false, from + 1000, "SA", up, &[]),
        tcp(true, up, "A", down, &[]),
    ];
    for (client, data) in turns {
        let (seq, ack) = if *client { (&mut up, down) } else { (&mut down, up) };
        packets.push(tcp(*client, *seq, "A", ack, data));
        *seq += data.len() as u32;
    }
    packets.push(tcp(true, up, "FA", down, &[]));
    packets.push(tcp(false, down, "FA", up + 1, &[]));
    // After both ends are over: it is part of the connection all the same.
    packets.push(tcp(true, up + 1, "A", down + 1, &[]));
    packets
}

fn read(packets: &[Vec<u8>]) -> Transfers {
    let file = Cursor::new(pcap(RAW_IP, packets));
    let mut reader = Reader::from_read(Path::new("memory"), file, &Options::default()).unwrap();
    let mut collector = Collector::default();
    while let Some(event) = reader.next_event().unwrap() {
        collector.add(&event);
    }
    collector.finish(&reader)
}

#[test]
fn a_transfer_has_all_packets_of_its_connection() {
    let first = message(7, ANSWER, Some(rtype::AXFR), &[Some(5), None], &[]);
    let second = message(7, ANSWER, None, &[None, Some(5)], &[]);
    let answers = [framed(&first), framed(&second)].concat();
    let packets =
        connection(100, &[(true, framed(&message(7, QUERY, Some(rtype::AXFR), &[], &[]))), (false, answers)]);
    let found = read(&packets);
    let [axfr] = &found.transfers[..] else { panic!("{found:?}") };
    assert_eq!((axfr.kind, axfr.complete, axfr.serial_to), (Some(Kind::Axfr), true, Some(5)));
    assert_eq!((axfr.zone.as_str(), axfr.records, axfr.messages), ("example.", 4, 2));
    let octets = (first.len() + second.len()) as u64;
    assert_eq!((axfr.dns_bytes, axfr.tcp_bytes), (octets, octets + 4));
    let all: usize = packets.iter().map(Vec::len).sum();
    assert_eq!((axfr.packets, axfr.ip_bytes), (Some(packets.len() as u64), Some(all as u64)));
    // One packet each millisecond, from second 1.
    assert_eq!((axfr.start_ns, axfr.end_ns), (1_003_000_000, Some(1_004_000_000)));
    assert_eq!((axfr.server.port(), found.holes, found.not_kept), (53, 0, 0));
}

#[test]
fn differences_and_what_comes_in_their_place_are_told_apart() {
    let ask = |id: u16| (true, framed(&message(id, QUERY, Some(rtype::IXFR), &[], &[Some(3)])));
    let say = |id: u16, records: &[Option<u32>]| {
        (false, framed(&message(id, ANSWER, Some(rtype::IXFR), records, &[])))
    };
    let mut packets = connection(
        100,
        &[
            ask(1),
            say(1, &[Some(5), Some(3), None, Some(4), None, None, Some(4), Some(5), Some(5)]),
            ask(2),
            say(2, &[Some(5), None, Some(5)]),
            ask(3),
            say(3, &[Some(3)]),
        ],
    );
    // Refused, on another connection; and one that breaks off.
    packets.extend(connection(
        50_000,
        &[ask(4), (false, framed(&message(4, [0x84, 5], Some(rtype::IXFR), &[], &[])))],
    ));
    packets.extend(connection(90_000, &[ask(5), say(5, &[Some(5), Some(3)])]));
    // Without its question.
    packets.extend(connection(120_000, &[say(6, &[Some(5), Some(3), None, Some(5), Some(5)])]));
    let found = read(&packets);
    let kinds: Vec<_> = found.transfers.iter().map(|t| (t.kind, t.complete, t.on_connection)).collect();
    assert_eq!(
        kinds,
        [
            (Some(Kind::Ixfr), true, 3),
            (Some(Kind::AxfrForIxfr), true, 3),
            (Some(Kind::UpToDate), true, 3),
            (None, false, 1),
            (Some(Kind::Ixfr), false, 1),
            (Some(Kind::Ixfr), true, 1),
        ]
    );
    let ixfr = &found.transfers[0];
    assert_eq!((ixfr.serial_from, ixfr.serial_to, ixfr.asked), (Some(3), Some(5), Asked::Ixfr(Some(3))));
    assert_eq!((ixfr.deltas, ixfr.deletions, ixfr.additions), (2, 1, 2));
    assert_eq!(found.transfers[3].fault.as_deref(), Some("the server answers REFUSED"));
    assert_eq!((found.transfers[4].fault.as_deref(), found.transfers[4].records), (None, 2));
    assert_eq!(found.transfers[5].asked, Asked::Ixfr(None));
}

#[test]
fn notifies_and_soa_queries_have_their_answers() {
    // The capture's packets all go from the client: an answer is made by swapping addresses and ports.
    let back = |payload: &[u8]| {
        let mut packet = udp(payload);
        let (client, server): (Vec<u8>, Vec<u8>) = (packet[12..16].to_vec(), packet[16..20].to_vec());
        packet[12..16].copy_from_slice(&server);
        packet[16..20].copy_from_slice(&client);
        packet[20..24].rotate_left(2);
        packet
    };
    let notify = |flags: [u8; 2]| message(1, flags, Some(rtype::SOA), &[Some(9)], &[]);
    let packets = [
        udp(&notify([0x24, 0])),
        back(&message(1, [0xa4, 0], Some(rtype::SOA), &[], &[])),
        udp(&message(2, QUERY, Some(rtype::SOA), &[], &[])),
        back(&message(2, ANSWER, Some(rtype::SOA), &[Some(8)], &[])),
        udp(&message(3, QUERY, Some(rtype::SOA), &[], &[])),
        udp(&message(4, QUERY, Some(rtype::A), &[], &[])),
    ];
    let found = read(&packets);
    let ([notify], [answered, silent]) = (&found.notifies[..], &found.refreshes[..]) else {
        panic!("{found:?}")
    };
    assert_eq!((notify.serial, notify.answered_after_ns, notify.rcode), (Some(9), Some(1_000_000), Some(0)));
    assert_eq!((answered.serial, answered.answered_after_ns), (Some(8), Some(1_000_000)));
    assert_eq!((silent.serial, silent.answered_after_ns, silent.rcode), (None, None, None));
    assert!(found.transfers.is_empty());
}
