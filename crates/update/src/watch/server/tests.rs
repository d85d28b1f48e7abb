use super::*;
use proptest::prelude::*;

const MS: Nanos = 1_000_000;

fn questions() -> [Vec<u8>; 2] {
    [rtype::TXT, rtype::SOA].map(|qtype| {
        let mut question = Vec::new();
        wire::query::write(&mut question, 0, b"\x08_dnsrack\x02zz\0", qtype, None);
        question
    })
}

/// An answer: a counter, a serial, or nothing.
fn answer(id: u16, what: Forwards, value: Option<u64>) -> Vec<u8> {
    let mut msg = questions()[usize::from(what == Forwards::Serial)].clone();
    wire::header::set_id(&mut msg, id);
    wire::header::set_qr(&mut msg);
    let Some(value) = value else { return msg };
    let (rtype, data) = match what {
        Forwards::Marker => {
            let text = value.to_string();
            (rtype::TXT, [&[text.len() as u8], text.as_bytes()].concat())
        }
        Forwards::Serial => (rtype::SOA, [&[0, 0][..], &(value as u32).to_be_bytes(), &[0; 16]].concat()),
    };
    msg[7] = 1;
    msg.extend_from_slice(&[0xc0, 12]);
    msg.extend_from_slice(&rtype.to_be_bytes());
    msg.extend_from_slice(&[0, 1, 0, 0, 0, 0]);
    msg.extend_from_slice(&(data.len() as u16).to_be_bytes());
    msg.extend_from_slice(&data);
    msg
}

struct Lab {
    server: Server,
    questions: [Vec<u8>; 2],
}

impl Lab {
    fn new() -> Self {
        Self { server: Server::new("a"), questions: questions() }
    }

    /// Asks at a time (milliseconds): the id.
    fn ask(&mut self, what: Forwards, at: u64) -> u16 {
        let id = self.server.id();
        self.server.asked(id, what, at * MS, 5 * MS);
        id
    }

    fn get(&mut self, msg: &[u8], at: u64) -> Option<Change> {
        let [marker, serial] = &self.questions;
        self.server.answer(msg, at * MS, 200 * MS, [marker, serial]).map(|(_, change, _)| change)
    }

    /// Asks, and is answered after a millisecond.
    fn round(&mut self, what: Forwards, at: u64, value: Option<u64>) -> Change {
        let id = self.ask(what, at);
        self.get(&answer(id, what, value), at + 1).expect("an answer in time")
    }
}

#[test]
fn counters_become_visible_between_two_answers() {
    let mut lab = Lab::new();
    let marker = Forwards::Marker;
    assert_eq!(lab.round(marker, 0, None), Change::First(0));
    assert_eq!(lab.round(marker, 2, None), Change::Nothing);
    assert_eq!(lab.round(marker, 4, Some(1)), Change::Grown { before: 0, now: 1, hidden: 2 * MS });
    assert_eq!(lab.round(marker, 6, Some(1)), Change::Nothing);
    assert_eq!(lab.round(marker, 8, Some(4)), Change::Grown { before: 1, now: 4, hidden: 6 * MS });
    assert_eq!((lab.server.counts.marker_first, lab.server.marker.value), (Some(0), Some(4)));
    let counts = &lab.server.counts;
    assert_eq!((counts.sent, counts.answered, counts.failed, counts.stalls), (5, 5, 0, 0));
}

#[test]
fn an_answer_that_was_overtaken_is_no_step_back() {
    let mut lab = Lab::new();
    lab.round(Forwards::Marker, 0, Some(1));
    let (slow, quick) = (lab.ask(Forwards::Marker, 2), lab.ask(Forwards::Marker, 4));
    let change = lab.get(&answer(quick, Forwards::Marker, Some(2)), 5);
    assert_eq!(change, Some(Change::Grown { before: 1, now: 2, hidden: 0 }));
    assert_eq!(lab.get(&answer(slow, Forwards::Marker, Some(1)), 6), Some(Change::Nothing));
    assert_eq!(lab.server.counts.marker_went_back, 0);
    // Asked after the newer one was here.
    assert_eq!(lab.round(Forwards::Marker, 8, Some(1)), Change::Back { before: 2, now: 1 });
    assert_eq!(lab.round(Forwards::Marker, 11, None), Change::Back { before: 1, now: 0 });
    assert_eq!(lab.server.counts.marker_went_back, 2);
}

#[test]
fn serials_go_round_but_not_back() {
    let mut lab = Lab::new();
    let (serial, newest) = (Forwards::Serial, u64::from(u32::MAX));
    assert_eq!(lab.round(serial, 0, Some(newest)), Change::First(newest));
    assert_eq!(lab.round(serial, 2, Some(3)), Change::Grown { before: newest, now: 3, hidden: 0 });
    assert_eq!(lab.round(serial, 6, Some(2)), Change::Back { before: 3, now: 2 });
    assert_eq!(lab.server.counts.serial_went_back, 1);
    assert_eq!(lab.round(serial, 8, None), Change::Nothing, "no SOA");
    assert_eq!(lab.server.counts.failed, 1);
}

#[test]
fn what_is_no_answer_is_counted_apart() {
    let mut lab = Lab::new();
    let id = lab.ask(Forwards::Marker, 0);
    let good = answer(id, Forwards::Marker, Some(7));
    let mut other_name = good.clone();
    other_name[14] = b'x';
    let mut query = good.clone();
    query[2] = 0;
    for bad in [
        &answer(id + 1, Forwards::Marker, Some(7)),
        &answer(id, Forwards::Serial, Some(7)),
        &other_name,
        &query,
    ] {
        assert_eq!(lab.get(bad, 1), None);
    }
    assert_eq!(lab.get(&good, 2), Some(Change::First(7)));
    assert_eq!(lab.get(&good, 3), None, "twice");
    let id = lab.ask(Forwards::Marker, 10);
    assert_eq!(lab.get(&answer(id, Forwards::Marker, Some(8)), 211), None, "later than the deadline");
    let id = lab.ask(Forwards::Marker, 220);
    let mut text = answer(id, Forwards::Marker, Some(8));
    *text.last_mut().unwrap() = b'x';
    assert_eq!(lab.get(&text, 221), Some(Change::Nothing), "no number");
    let counts = &lab.server.counts;
    assert_eq!((counts.mismatched, counts.late, counts.failed, counts.answered), (5, 1, 1, 2));
    // From 10 to 220.
    assert_eq!((counts.stalls, lab.server.stalled), (2, Some(220 * MS)));
}

proptest! {
    #[test]
    fn any_octets_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz_answer(&bytes);
    }

    #[test]
    fn mutated_answers_are_safe(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5)) {
        for what in [Forwards::Marker, Forwards::Serial] {
            let mut msg = answer(3, what, Some(12));
            for (at, octet) in &changes {
                let at = at.index(msg.len());
                msg[at] = *octet;
            }
            fuzz_answer(&msg);
        }
    }
}
