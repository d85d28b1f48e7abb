//! Throughput of scanning, generating and signing, on zones small enough for every machine.
//!
//! `cargo bench -p dnsrack-zone`; octets a second for text, elements a second for signatures.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use measure::Seed;
use std::hint::black_box;
use std::io::{self, Cursor};
use zone::generate::generate_with;
use zone::sign::{Algorithm, Options};
use zone::{Family, Scanner, generate, sign};

fn zone_of(family: Family, delegations: u64) -> Vec<u8> {
    let mut text = Vec::new();
    generate(family, delegations, Seed(1), &mut text, &mut |_| {}).expect("memory takes it");
    text
}

fn scan(c: &mut Criterion) {
    let mut group = c.benchmark_group("scan");
    group.sample_size(20);
    for family in [Family::U4Ds0, Family::S6Ds100] {
        let text = zone_of(family, 20_000);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(format!("records {family}"), |b| {
            b.iter(|| {
                let mut scanner = Scanner::new(Cursor::new(text.clone()), "bench");
                while let Some(record) = scanner.next().expect("a good zone") {
                    black_box(record.rdata);
                }
            });
        });
    }
    let text = zone_of(Family::U4Ds0, 20_000);
    group.throughput(Throughput::Bytes(text.len() as u64));
    let mut signed = Vec::new();
    let mut source = Scanner::new(Cursor::new(zone_of(Family::S6Ds100, 5_000)), "bench");
    sign(&mut source, &Options::new(Algorithm::Ed25519, 0), &mut signed, &mut |_| {}).expect("it signs");
    group.throughput(Throughput::Bytes(signed.len() as u64));
    group.bench_function("records signed", |b| {
        b.iter(|| {
            let mut scanner = Scanner::new(Cursor::new(signed.clone()), "bench");
            while let Some(record) = scanner.next().expect("a good zone") {
                black_box(record.rdata);
            }
        });
    });
    group.finish();
}

fn make(c: &mut Criterion) {
    let mut group = c.benchmark_group("generate, one thread");
    group.sample_size(20);
    for family in [Family::U4Ds0, Family::S6Ds100] {
        group.throughput(Throughput::Bytes(zone_of(family, 50_000).len() as u64));
        group.bench_function(family.name(), |b| {
            b.iter(|| {
                generate_with(1, family, 50_000, Seed(1), &mut io::sink(), &mut |_| {}).expect("a sink")
            });
        });
    }
    group.finish();
}

fn signing(c: &mut Criterion) {
    let mut group = c.benchmark_group("sign, all cores");
    group.sample_size(10);
    let text = zone_of(Family::S6Ds100, 2_000);
    let all =
        [Options::new(Algorithm::EcdsaP256Sha256, 0), Options::new(Algorithm::Ed25519, 0), Options::rzaia(0)];
    for options in all {
        let run = || {
            let mut source = Scanner::new(Cursor::new(text.clone()), "bench");
            sign(&mut source, &options, &mut io::sink(), &mut |_| {}).expect("it signs").signatures
        };
        group.throughput(Throughput::Elements(run()));
        group.bench_function(format!("{} ZSK {}", options.algorithm, options.zsk_bits), |b| b.iter(run));
    }
    group.finish();
}

criterion_group!(benches, scan, make, signing);
criterion_main!(benches);
