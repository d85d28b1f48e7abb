//! What reading a packet costs, and a query of a replay: captures in the page cache.

use criterion::{Criterion, Throughput};
use measure::Seed;
use std::fs::File;
use std::io::{BufWriter, Write};
use trace::write::{Route, SERVER_V4, SERVER_V6, Writer};
use trace::{Options, Reader, ReplaySpec};
use traffic::clients::Clients;
use traffic::{Profile, Query, QuerySource};

const PACKETS: u64 = 200_000;

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("queries.pcap");
    let mut profile = Profile::load("rzaia").expect("a built-in profile");
    profile.classes[0].ipv6 = 0.2;
    let mut clients = Clients::new(&profile, Seed(1)).expect("clients of a built-in profile");
    let mut writer = Writer::new(BufWriter::new(File::create(&path).expect("a new file"))).expect("space");
    let mut query = Query::default();
    for n in 0..PACKETS {
        query.index = n;
        let (from, id) = clients.get(&query);
        let to = if from.is_ipv4() { (SERVER_V4, 53).into() } else { (SERVER_V6, 53).into() };
        let name = format!("\x0adomain{:04}\x07example\0", n % 10_000);
        wire::query::write(&mut query.bytes, 0, name.as_bytes(), 1, None);
        writer.write(n * 20_000, Route { from, to, id }, &query).expect("space on the disk");
    }
    drop(writer);
    // TCP: one connection, every segment with a query.
    let segments = folder.path().join("segments.pcap");
    std::fs::write(&segments, tcp()).expect("space on the disk");

    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("trace");
    group.throughput(Throughput::Elements(PACKETS)).sample_size(20);
    for (name, path) in [("udp", &path), ("tcp", &segments)] {
        group.bench_function(format!("read/{name}"), |b| {
            b.iter(|| {
                let mut reader =
                    Reader::open(std::slice::from_ref(path), &Options::default()).expect("a capture");
                while let Some(message) = reader.next().expect("a good capture") {
                    std::hint::black_box(message.bytes);
                }
                assert_eq!(reader.counts().queries, PACKETS);
            });
        });
    }
    let spec = ReplaySpec::new(vec![path]);
    group.bench_function("replay/open", |b| b.iter(|| spec.open(0, 1).expect("a capture")));
    group.bench_function("replay/open and send", |b| {
        b.iter(|| {
            let mut replay = spec.open(0, 1).expect("a capture");
            while replay.next(&mut query).expect("a good capture") {
                std::hint::black_box(&query);
            }
        });
    });
    group.finish();
    criterion.final_summary();
}

/// A capture of one connection with a query in each segment.
fn tcp() -> Vec<u8> {
    use etherparse::PacketBuilder;
    let mut file = [&0xa1b2_3c4du32.to_be_bytes()[..], &[0; 16], &101u32.to_be_bytes()].concat();
    let mut body = Vec::new();
    wire::query::write(&mut body, 1, b"\x07example\0", 1, None);
    let data = [&(body.len() as u16).to_be_bytes()[..], &body].concat();
    for n in 0..=PACKETS as u32 {
        let seq = n.saturating_sub(1).wrapping_mul(data.len() as u32) + u32::from(n > 0);
        let builder = PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 53], 64).tcp(40_000, 53, seq, 65_000);
        let mut packet = Vec::new();
        let builder = if n == 0 { builder.syn() } else { builder.ack(1) };
        builder.write(&mut packet, if n == 0 { &[] } else { &data }).expect("a short segment");
        let header = [n / 50_000, n % 50_000 * 20_000, packet.len() as u32, packet.len() as u32];
        header.iter().for_each(|field| file.write_all(&field.to_be_bytes()).expect("memory"));
        file.extend_from_slice(&packet);
    }
    file
}
