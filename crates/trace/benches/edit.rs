//! What writing a packet costs, and editing one: captures in the page cache, output to memory that is forgotten.

use criterion::{Criterion, Throughput};
use measure::Seed;
use std::io::{self, Write};
use std::path::PathBuf;
use trace::anonymize::Key;
use trace::edit::{Edit, Input, Output};
use trace::write::{Route, SERVER_V4, SERVER_V6, Writer};
use traffic::clients::Clients;
use traffic::{Profile, Query};

const PACKETS: u64 = 200_000;

/// Takes octets as a file in the page cache does: by copying them.
struct Copy(Vec<u8>);

impl Write for Copy {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if self.0.len() + octets.len() > 1 << 20 {
            self.0.clear();
        }
        self.0.extend_from_slice(octets);
        Ok(octets.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(out: impl Write, clients: &mut Clients) {
    let mut writer = Writer::new(out).expect("space");
    let mut query = Query::default();
    wire::query::write(&mut query.bytes, 0, b"\x0adomain0000\x07example\0", 1, None);
    for n in 0..PACKETS {
        query.index = n;
        let (from, id) = clients.get(&query);
        let to = if from.is_ipv4() { (SERVER_V4, 53).into() } else { (SERVER_V6, 53).into() };
        writer.write(n * 20_000, Route { from, to, id }, &query).expect("space");
    }
}

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path: PathBuf = folder.path().join("queries.pcap");
    let mut profile = Profile::load("rzaia").expect("a built-in profile");
    profile.classes[0].ipv6 = 0.2;
    let mut clients = Clients::new(&profile, Seed(1)).expect("clients of a built-in profile");
    write(io::BufWriter::new(std::fs::File::create(&path).expect("a new file")), &mut clients);

    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("edit");
    group.throughput(Throughput::Elements(PACKETS)).sample_size(20);
    group.bench_function("write", |b| b.iter(|| write(Copy(Vec::new()), &mut clients)));
    let addresses = Edit {
        set_dst_v4: Some(SERVER_V4),
        set_dst_v6: Some(SERVER_V6),
        set_src_nets: vec!["10.0.0.0/8".parse().expect("a block"), "fd00::/64".parse().expect("a block")],
        set_mac: Some(([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])),
        ..Edit::default()
    };
    let anonymous = Edit { anonymize: Some(Key::new([7; 32])), ..Edit::default() };
    let every = Edit { if_query: true, every: Some(100), ..Edit::default() };
    let size = Edit { set_edns_size: Some(65_535), ..addresses.clone() };
    for (name, edit) in [
        ("copy", Edit::default()),
        ("set-dst", Edit { set_src_nets: Vec::new(), ..addresses.clone() }),
        ("set-src-net", addresses),
        ("anonymise", anonymous),
        ("every 100th", every),
        ("by message, set all", size),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let output = &mut Copy(Vec::new());
                let input = Input::Files(std::slice::from_ref(&path));
                let summary = edit.run(input, Output::One(output), &mut |_| {}).expect("a good capture");
                assert_eq!(summary.read, PACKETS);
            });
        });
    }
    group.finish();
    criterion.final_summary();
}
