use super::*;
use proptest::prelude::*;

const DEADLINE: Nanos = 1000;

fn query(n: u16) -> Vec<u8> {
    let mut msg = Vec::new();
    let label = format!("{n:05}");
    wire::query::write(&mut msg, 0, &[&[5], label.as_bytes(), b"\x00"].concat(), 1, None);
    msg
}

fn answer(query: &[u8], id: u16) -> Vec<u8> {
    let mut msg = query.to_vec();
    wire::header::set_id(&mut msg, id);
    wire::header::set_qr(&mut msg);
    msg
}

fn recorder(slots: usize) -> Recorder {
    let mut r = Recorder::new(2, slots, DEADLINE, true, Seed(1));
    r.start_measuring();
    r
}

fn send(r: &mut Recorder, flow: u32, n: u16, intended: Nanos, at: Nanos) -> (u16, Vec<u8>) {
    let q = query(n);
    let id =
        r.claim(flow, intended, question::hash(&q).unwrap(), false, Class::Measured).expect("an id is free");
    r.sent(flow, id, at, q.len(), Checksum::Right);
    (id, q)
}

fn receive(r: &mut Recorder, flow: u32, bytes: &[u8], at: Nanos) -> AnswerKind {
    r.received(Received { flow, from_target: true, bytes, len: bytes.len(), at })
}

#[test]
fn an_answer_is_timed_from_both_ends() {
    let mut r = recorder(16);
    let (id, q) = send(&mut r, 0, 1, 100, 150);
    assert_eq!(receive(&mut r, 0, &answer(&q, id), 400), AnswerKind::Answered);
    let ([t, ..], _) = r.finish(2000);
    assert_eq!((t.sent, t.answered, t.lost, t.rcodes[0]), (1, 1, 0, 1));
    assert_eq!((t.latency.max(), t.service_latency.max(), t.pacing_error.max()), (300, 250, 50));
    assert_eq!((t.bytes_sent, t.bytes_received), (q.len() as u64, q.len() as u64));
}

#[test]
fn referrals_are_counted_with_their_octets() {
    let mut r = recorder(16);
    // A referral; and with AA, with NXDOMAIN, with an answer, and without a record in the authority section.
    let changes: [fn(&mut [u8]); 5] = [|_| {}, |m| m[2] |= 4, |m| m[3] |= 3, |m| m[7] = 1, |m| m[9] = 0];
    let mut octets = 0;
    for (n, change) in (0..).zip(changes) {
        let (id, q) = send(&mut r, 0, n, 0, 0);
        let mut referral = answer(&q, id);
        referral[9] = 1;
        referral.extend([0; 22]);
        change(&mut referral);
        octets = referral.len() as u64;
        assert_eq!(receive(&mut r, 0, &referral, 10), AnswerKind::Answered, "{n}");
    }
    let ([t, ..], _) = r.finish(20);
    assert_eq!((t.answered, t.referrals, t.bytes_of_referrals), (5, 1, octets));
}

#[test]
fn without_a_pace_the_intended_time_is_the_send() {
    let mut r = Recorder::new(1, 16, DEADLINE, false, Seed(1));
    let (id, q) = send(&mut r, 0, 1, 100, 150);
    receive(&mut r, 0, &answer(&q, id), 400);
    let ([t, ..], _) = r.finish(400);
    assert_eq!((t.latency.max(), t.service_latency.max(), t.pacing_error.count()), (250, 250, 0));
}

#[test]
fn what_is_not_the_answer_leaves_the_query_waiting() {
    let mut r = recorder(16);
    let (id, q) = send(&mut r, 0, 1, 0, 0);
    let mut echo = answer(&q, id);
    echo[2] &= 0x7f;
    let mut cut = answer(&q, id);
    cut.truncate(14);
    let mut empty = answer(&q, id)[..12].to_vec();
    empty[5] = 0;
    let mut refused = empty.clone();
    refused[3] = 5;
    for bad in [&echo, &answer(&query(2), id), &cut, &empty, &vec![id.to_be_bytes()[0], id.to_be_bytes()[1]]]
    {
        assert_eq!(receive(&mut r, 0, bad, 10), AnswerKind::Mismatched);
    }
    let right = answer(&q, id);
    let stranger = Received { flow: 0, from_target: false, bytes: &right, len: right.len(), at: 10 };
    assert_eq!(r.received(stranger), AnswerKind::Mismatched);
    assert_eq!(receive(&mut r, 1, &right, 10), AnswerKind::Unexpected, "another flow");
    assert_eq!(receive(&mut r, 0, &answer(&q, id.wrapping_add(1)), 10), AnswerKind::Unexpected);
    assert_eq!(receive(&mut r, 0, &[], 10), AnswerKind::Unexpected);
    assert_eq!(
        receive(&mut r, 0, &refused, 10),
        AnswerKind::Answered,
        "a refusal may leave the question out"
    );
    let ([t, ..], _) = r.finish(20);
    assert_eq!((t.mismatched, t.unexpected, t.answered, t.rcodes[5]), (6, 3, 1, 1));
}

#[test]
fn late_answers_are_late_and_lost() {
    let mut r = recorder(16);
    let (a, qa) = send(&mut r, 0, 1, 0, 0);
    let (b, qb) = send(&mut r, 0, 2, 0, 0);
    assert_eq!(receive(&mut r, 0, &answer(&qa, a), DEADLINE + 1), AnswerKind::Late);
    r.expire(DEADLINE + 2);
    assert_eq!(r.in_flight(), 0);
    assert_eq!(receive(&mut r, 0, &answer(&qb, b), DEADLINE + 3), AnswerKind::Late, "given up before");
    assert_eq!(receive(&mut r, 0, &answer(&qb, b), DEADLINE + 4), AnswerKind::Duplicate);
    let ([t, ..], _) = r.finish(DEADLINE + 5);
    assert_eq!((t.sent, t.answered, t.lost, t.late, t.duplicates), (2, 0, 2, 2, 1));
    assert_eq!(t.latency.count(), 0, "percentiles are of answers in time");
}

#[test]
fn the_warm_up_is_not_counted() {
    let mut r = Recorder::new(1, 16, DEADLINE, true, Seed(1));
    let q = query(1);
    let id = r.claim(0, 0, question::hash(&q).unwrap(), true, Class::Measured).unwrap();
    r.sent(0, id, 5, q.len(), Checksum::Bad);
    assert_eq!(r.in_flight(), 1);
    assert_eq!(receive(&mut r, 0, &answer(&q, id), 10), AnswerKind::Answered);
    assert_eq!(receive(&mut r, 0, &answer(&q, id), 10), AnswerKind::Duplicate);
    assert_eq!(receive(&mut r, 0, &[9; 2], 10), AnswerKind::Unexpected);
    // The quickest answer of the warm-up stands for an idle server.
    let tallies = r.finish(10).0.map(|tally| Tally { signs: Default::default(), ..tally });
    assert_eq!(tallies, <[Tally; Class::COUNT]>::default());
}

#[test]
fn a_black_hole_uses_up_the_ids_until_the_deadline() {
    let mut r = recorder(64);
    (0..64).for_each(|n| drop(send(&mut r, 0, n, 0, u64::from(n))));
    let hash = question::hash(&query(99)).unwrap();
    assert_eq!(r.claim(0, 100, hash, false, Class::Measured), None);
    r.expire(DEADLINE + 10);
    assert!(
        r.claim(0, DEADLINE + 10, hash, false, Class::Measured).is_some(),
        "those sent up to 9 are given up"
    );
    assert_eq!(r.in_flight(), 54);
}

#[derive(Clone, Debug)]
enum Step {
    Send { flow: u32, refused: bool },
    Answer { which: usize, wrong: u8 },
    Noise { flow: u32, bytes: Vec<u8> },
    Expire,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u32..2, prop::bool::weighted(0.1)).prop_map(|(flow, refused)| Step::Send { flow, refused }),
        4 => (any::<usize>(), 0u8..8).prop_map(|(which, wrong)| Step::Answer { which, wrong }),
        1 => (0u32..2, prop::collection::vec(any::<u8>(), 0..64)).prop_map(|(flow, bytes)| Step::Noise { flow, bytes }),
        1 => Just(Step::Expire),
    ]
}

proptest! {
    #[test]
    fn every_query_has_one_fate(steps in prop::collection::vec((step(), 0u64..400), 0..300), split in 0usize..300) {
        let mut tallies = Vec::new();
        let (mut claimed, mut datagrams) = (0u64, 0u64);
        // Two recorders, as two workers: their tallies must add up to the same sums.
        for part in [&steps[..split.min(steps.len())], &steps[split.min(steps.len())..]] {
            let mut r = recorder(8);
            let mut sent = Vec::new();
            let mut now = 0;
            for (i, (step, gap)) in part.iter().enumerate() {
                now += gap;
                match step {
                    Step::Send { flow, refused } => {
                        let q = query(i as u16);
                        claimed += 1;
                        let class = [Class::Measured, Class::Background, Class::Retry][i % 3];
                        match r.claim(*flow, now, question::hash(&q).unwrap(), false, class) {
                            None => r.unsent(Unsent::Ids, 1, class),
                            Some(id) if *refused => r.refused(*flow, id),
                            Some(id) => {
                                r.sent(*flow, id, now + 1, q.len(), Checksum::Right);
                                sent.push((*flow, id, q));
                            }
                        }
                    }
                    Step::Answer { which, wrong } => {
                        if sent.is_empty() { continue }
                        let (flow, id, q) = &sent[which % sent.len()];
                        let mut msg = answer(q, *id);
                        match wrong {
                            0 => msg[13] ^= 1,
                            1 => msg[2] ^= 0x80,
                            _ => {}
                        }
                        datagrams += 1;
                        receive(&mut r, *flow, &msg, now);
                    }
                    Step::Noise { flow, bytes } => {
                        datagrams += 1;
                        receive(&mut r, *flow, bytes, now);
                    }
                    Step::Expire => r.expire(now),
                }
            }
            tallies.push(r.finish(now).0);
        }
        let mut t = Tally::default();
        for class in tallies.iter().flatten() {
            prop_assert_eq!(class.sent, class.answered + class.lost + class.in_flight);
            t.merge(class);
        }
        prop_assert_eq!(t.sent + t.unsent(), claimed);
        prop_assert_eq!(t.sent, t.answered + t.lost + t.in_flight);
        prop_assert!(t.late <= t.lost);
        prop_assert_eq!(t.answered + t.late + t.duplicates + t.mismatched + t.unexpected, datagrams);
        prop_assert_eq!(t.latency.count(), t.answered);
        prop_assert_eq!(t.service_latency.count(), t.answered);
        prop_assert_eq!(t.pacing_error.count(), t.sent);
        prop_assert_eq!(t.rcodes.iter().sum::<u64>(), t.answered);
    }
}
