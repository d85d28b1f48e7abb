//! What the bookkeeping of one query costs: claim, send and answer, hashes included.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use load::{AnswerKind, Class, Received, Recorder};
use measure::Seed;
use std::hint::black_box;
use wire::Checksum;

/// Queries sent before their answers come, as in a busy trial.
const BATCH: u64 = 32;

fn recorder(c: &mut Criterion) {
    let queries: Vec<Vec<u8>> = (0..BATCH)
        .map(|n| {
            let mut msg = Vec::new();
            let label = format!("name{n:06}");
            wire::query::write(&mut msg, 0, &[&[10], label.as_bytes(), b"\x07example\x00"].concat(), 1, None);
            msg
        })
        .collect();
    let mut recorder = Recorder::new(16, 65_536, 4_000_000_000, true, Seed(1));
    recorder.start_measuring();
    let mut group = c.benchmark_group("recorder");
    group.throughput(Throughput::Elements(BATCH));
    let mut now = 1_000_000;
    let mut flow = 0;
    let mut answers = queries.clone();
    group.bench_function("query and answer", |b| {
        b.iter(|| {
            flow = (flow + 1) % 16;
            for (query, answer) in queries.iter().zip(&mut answers) {
                now += 1000;
                let hash = wire::question::hash(query).expect("a question");
                let id = recorder.claim(flow, now, hash, false, Class::Measured).expect("an id");
                recorder.sent(flow, id, now + 300, query.len(), Checksum::Right);
                wire::header::set_id(answer, id);
                wire::header::set_qr(answer);
            }
            for answer in &answers {
                let received =
                    Received { flow, from_target: true, bytes: answer, len: answer.len(), at: now + 20_000 };
                assert_eq!(recorder.received(black_box(received)), AnswerKind::Answered);
            }
        });
    });
    group.finish();
}

criterion_group!(benches, recorder);
criterion_main!(benches);
