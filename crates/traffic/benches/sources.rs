//! Time of a query from each source, with few names and with as many as are kept.

use criterion::{Criterion, Throughput};
use std::io::Write;
use traffic::{Query, SourceSpec};

const QUERIES: u64 = 100_000;

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("query");
    group.throughput(Throughput::Elements(QUERIES)).sample_size(20);
    for count in [1_000, 1_000_000] {
        let path = folder.path().join(format!("names-{count}"));
        let mut file = std::io::BufWriter::new(std::fs::File::create(&path).expect("a new file"));
        (0..count).for_each(|n| writeln!(file, "domain{n}.example").expect("space on the disk"));
        file.flush().expect("space on the disk");
        let lines = folder.path().join(format!("queries-{count}"));
        let text = std::fs::read_to_string(&path).expect("the file just written").replace('\n', " A\n");
        std::fs::write(&lines, text).expect("space on the disk");
        let specs = [
            ("profile", format!(r#"{{"profile": {{"profile": "rzaia", "names": {path:?}}}}}"#)),
            ("file", format!(r#"{{"queries": {{"path": {lines:?}, "edns": {{"udp_size": 1232}}}}}}"#)),
        ];
        for (name, json) in specs {
            let spec: SourceSpec = serde_json::from_str(&json).expect("a valid specification");
            let mut source = spec.open(0, 1).expect("a valid source");
            let mut query = Query::default();
            group.bench_function(format!("{name}/{count}"), |b| {
                b.iter(|| {
                    for _ in 0..QUERIES {
                        source.next(&mut query).expect("a readable source");
                        std::hint::black_box(&query);
                    }
                });
            });
        }
    }
    group.finish();
    criterion.final_summary();
}
