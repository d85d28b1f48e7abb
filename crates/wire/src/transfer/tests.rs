use super::*;
use proptest::prelude::*;

const APEX: &[u8] = b"\x07example\0";

/// A message: a question where it has a type, then records of (owner, type, data).
fn message(qtype: Option<u16>, records: &[Listed<'_>]) -> Vec<u8> {
    let mut msg = vec![0, 1, 0x84, 0, 0, u8::from(qtype.is_some()), 0, records.len() as u8, 0, 0, 0, 0];
    if let Some(qtype) = qtype {
        msg.extend_from_slice(APEX);
        msg.extend_from_slice(&qtype.to_be_bytes());
        msg.extend_from_slice(&[0, 1]);
    }
    for (owner, rtype, data) in records {
        msg.extend_from_slice(owner);
        msg.extend_from_slice(&rtype.to_be_bytes());
        msg.extend_from_slice(&[0, 1, 0, 0, 0, 60]);
        msg.extend_from_slice(&(data.len() as u16).to_be_bytes());
        msg.extend_from_slice(data);
    }
    msg
}

fn soa(serial: u32) -> Vec<u8> {
    [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat()
}

/// A transfer of one message with these records: a number is a SOA, a letter an A record of that name.
fn run(asked: Asked, records: &[&str]) -> (Result<bool, Fault>, Transfer, String) {
    let datas: Vec<_> = records.iter().map(|r| r.parse().map_or(vec![1, 2, 3, 4], soa)).collect();
    let owners: Vec<_> = records.iter().map(|r| [&[r.len() as u8], r.as_bytes(), APEX].concat()).collect();
    let list: Vec<Listed<'_>> = (0..records.len())
        .map(|i| match records[i].parse::<u32>() {
            Ok(_) => (APEX, rtype::SOA, &datas[i][..]),
            Err(_) => (&owners[i][..], rtype::A, &datas[i][..]),
        })
        .collect();
    let qtype = if asked == Asked::Axfr { rtype::AXFR } else { rtype::IXFR };
    let mut transfer = Transfer::new(asked, b"\x07EXAMPLE\0");
    let mut parts = String::new();
    let result = transfer.message(&message(Some(qtype), &list), &mut |part, _| {
        parts.push(match part {
            Part::First => 'F',
            Part::Zone => 'z',
            Part::From => '<',
            Part::Deleted => '-',
            Part::To => '>',
            Part::Added => '+',
            Part::Last => 'L',
        });
    });
    (result, transfer, parts)
}

#[test]
fn a_whole_zone_is_told_from_differences() {
    let (done, axfr, parts) = run(Asked::Axfr, &["7", "a", "b", "7"]);
    assert_eq!((done, axfr.kind(), parts.as_str()), (Ok(true), Some(Kind::Axfr), "FzzL"));
    assert_eq!((axfr.from(), axfr.to(), axfr.counts().records), (None, Some(7), 4));

    let since = Asked::Ixfr(Some(5));
    let (done, ixfr, parts) = run(since, &["7", "5", "a", "6", "b", "c", "6", "7", "d", "7"]);
    assert_eq!((done, ixfr.kind(), parts.as_str()), (Ok(true), Some(Kind::Ixfr), "F<->++<>+L"));
    assert_eq!((ixfr.from(), ixfr.to()), (Some(5), Some(7)));
    let counts = ixfr.counts();
    assert_eq!((counts.deltas, counts.deleted, counts.added, counts.records), (2, 1, 3, 10));

    let (done, silent, parts) = run(since, &["7", "a", "b", "7"]);
    assert_eq!((done, silent.kind(), parts.as_str()), (Ok(true), Some(Kind::AxfrForIxfr), "FzzL"));
    // A zone of a SOA alone.
    let (done, silent, parts) = run(since, &["7", "7"]);
    assert_eq!((done, silent.kind(), parts.as_str()), (Ok(true), Some(Kind::AxfrForIxfr), "FL"));
    for up_to_date in ["5", "4", "4294967295"] {
        let (done, none, parts) = run(since, &[up_to_date]);
        assert_eq!((done, none.kind(), parts.as_str()), (Ok(true), Some(Kind::UpToDate), "F"));
    }
    // The question was not in the capture.
    assert_eq!(run(Asked::Ixfr(None), &["7", "5", "7", "7"]).1.kind(), Some(Kind::Ixfr));
    let (done, one, _) = run(Asked::Ixfr(None), &["7"]);
    assert_eq!((done, one.kind(), one.has_one_soa()), (Ok(false), None, true));
}

#[test]
fn what_is_out_of_order_is_named() {
    let fault = |asked, records: &[&str]| run(asked, records).0.unwrap_err();
    let since = Asked::Ixfr(Some(5));
    assert_eq!(fault(Asked::Axfr, &["a", "7"]), Fault::NoSoa(rtype::A));
    assert_eq!(fault(Asked::Axfr, &["7", "a", "8"]), Fault::Changed { first: 7, last: 8 });
    assert_eq!(fault(Asked::Axfr, &["7", "a", "7", "b"]), Fault::After);
    assert_eq!(fault(since, &["7", "6", "7", "7"]), Fault::Sequence { expected: 5, got: 6 });
    assert_eq!(fault(since, &["7", "5", "6", "a", "7"]), Fault::Sequence { expected: 6, got: 7 });
    assert_eq!(fault(since, &["7", "5", "5", "7"]), Fault::Back { from: 5, to: 5 });
    assert_eq!(fault(Asked::Axfr, &[]), Fault::Empty);
}

#[test]
fn messages_that_are_no_answers_of_ours_are_named() {
    let good = message(Some(rtype::AXFR), &[(APEX, rtype::SOA, &soa(7))]);
    let fault = |msg: &[u8]| {
        Transfer::new(Asked::Axfr, APEX)
            .message(msg, &mut |_, _| panic!("no record may be seen"))
            .unwrap_err()
    };
    let with = |at: usize, octet: u8| {
        let mut msg = good.clone();
        msg[at] = octet;
        msg
    };
    assert_eq!(fault(&with(2, 0x04)), Fault::NotAnswer);
    assert_eq!(fault(&with(2, 0x86)), Fault::Truncated);
    assert_eq!(fault(&with(3, 5)).to_string(), "the server answers REFUSED");
    assert_eq!(fault(&with(13, b'f')), Fault::Question);
    assert_eq!(fault(&with(22, 251)), Fault::Question, "IXFR");
    let other = [&[1, b'a'][..], APEX].concat();
    assert_eq!(fault(&message(None, &[(&other, rtype::SOA, &soa(7))])), Fault::OtherSoa);
    assert_eq!(fault(&message(None, &[(APEX, rtype::SOA, &[0; 21])])), Fault::OtherSoa);
    assert!(matches!(fault(&good[..40]), Fault::Damaged(_)));
}

#[test]
fn transfers_go_on_over_messages_and_are_counted() {
    let (seven, address) = (soa(7), [1, 2, 3, 4]);
    let first = message(Some(rtype::AXFR), &[(APEX, rtype::SOA, &seven)]);
    // Owners that point at nothing but themselves are whole; the second one is outside the zone.
    let inside = [&[1, b'a'][..], APEX].concat();
    let second = message(None, &[(&inside, rtype::A, &address), (b"\x03org\0", rtype::A, &address)]);
    let third = message(None, &[(APEX, rtype::SOA, &seven)]);
    let mut transfer = Transfer::new(Asked::Axfr, APEX);
    let mut seen = Vec::new();
    let mut take =
        |msg: &[u8]| transfer.message(msg, &mut |part, entry| seen.push((part, entry.owner.to_vec())));
    assert_eq!([take(&first), take(&second), take(&third)], [Ok(false), Ok(false), Ok(true)]);
    assert_eq!(take(&third), Err(Fault::After));
    assert_eq!(seen[1..3], [(Part::Zone, inside), (Part::Zone, b"\x03org\0".to_vec())]);
    let counts = transfer.counts();
    let octets = (first.len() + second.len() + 2 * third.len()) as u64;
    assert_eq!((counts.messages, counts.octets, counts.tcp_octets()), (4, octets, octets + 8));
    assert_eq!((counts.records, counts.outside, counts.largest), (4, 1, first.len() as u64));
    assert_eq!(counts.record_octets, counts.plain_octets, "nothing was compressed");
}

#[test]
fn serials_are_compared_as_rfc_1982_has_it() {
    assert!(is_newer(1, 0) && is_newer(0, u32::MAX) && is_newer(5, u32::MAX - 5));
    assert!(!is_newer(1, 1) && !is_newer(0, 1) && !is_newer(1 << 31, 0));
}

/// Owner, type and data of a record.
type Listed<'a> = (&'a [u8], u16, &'a [u8]);

/// Streams of each kind.
fn corpus() -> Vec<Vec<u8>> {
    let (five, six, seven) = (soa(1), soa(6), soa(7));
    let s = rtype::SOA;
    let pointer: &[u8] = &[0xc0, 12];
    let streams: [(u8, u16, Vec<Listed<'_>>); 3] = [
        (0, rtype::AXFR, vec![(pointer, s, &seven), (pointer, rtype::NS, pointer), (pointer, s, &seven)]),
        (2, rtype::IXFR, vec![(pointer, s, &seven)]),
        (
            2,
            rtype::IXFR,
            vec![
                (pointer, s, &seven),
                (pointer, s, &five),
                (pointer, rtype::MX, b"\0\x01\xc0\x0c"),
                (pointer, s, &six),
                (pointer, s, &six),
                (pointer, s, &seven),
                (pointer, rtype::A, b"1234"),
                (pointer, s, &seven),
            ],
        ),
    ];
    streams
        .iter()
        .map(|(asked, qtype, records)| {
            let mut stream = vec![*asked];
            // One record a message, and all in one.
            for n in [1, records.len()] {
                for part in records.chunks(n) {
                    let msg = message(Some(*qtype), part);
                    stream.extend_from_slice(&(msg.len() as u16).to_be_bytes());
                    stream.extend_from_slice(&msg);
                }
            }
            stream
        })
        .collect()
}

#[test]
fn the_corpus_is_of_transfers() {
    for stream in corpus() {
        fuzz_transfer(&stream);
        (0..stream.len()).for_each(|cut| fuzz_transfer(&stream[..cut]));
    }
}

proptest! {
    #[test]
    fn any_octets_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzz_transfer(&bytes);
    }

    #[test]
    fn mutated_transfers_are_safe(
        which in 0usize..3,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut stream = corpus().swap_remove(which);
        for (at, octet) in changes {
            let at = at.index(stream.len());
            stream[at] = octet;
        }
        fuzz_transfer(&stream);
    }
}
