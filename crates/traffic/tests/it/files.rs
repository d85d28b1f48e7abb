//! Files of queries: good lines, bad lines.

use crate::{take, write};
use traffic::{EdnsSpec, QueriesSpec, SourceSpec, check_queries_file};
use wire::name::Name;
use wire::question;

#[test]
fn lines_are_read_as_dnsperf_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        "; comment\n# another\n\n  www.Example.com.\tAAAA  \r\n. ns\nexample TYPE38\n\\a\\.b\\032c.de MX";
    let path = write(folder.path(), "queries", text);
    assert_eq!(check_queries_file(&path).unwrap(), 4);
    let edns = Some(EdnsSpec { udp_size: 1232, do_bit: true });
    let spec = SourceSpec::Queries(QueriesSpec { path, edns, cycle: false });
    spec.check().unwrap();
    let queries = take(&mut *spec.open(0, 1).unwrap(), 99);
    let got: Vec<String> = queries
        .iter()
        .map(|q| {
            let asked = question::parse(&q.bytes).unwrap();
            let opt = &q.bytes[question::end(&q.bytes).unwrap()..];
            assert_eq!(opt, [0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0]);
            format!("{} {}", Name::from_wire(asked.qname).unwrap(), wire::rtype::to_text(asked.qtype))
        })
        .collect();
    assert_eq!(got, ["www.Example.com. AAAA", ". NS", "example. A6", "a\\.b\\032c.de. MX"]);
}

#[test]
fn bad_lines_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(64);
    let cases = [
        "ok A\nexample.com\n",
        "ok A\n\n  example.com  NSX\n",
        &format!("; c\na.{long}.com A\n"),
        "a..b A\n",
        "a\\999 A\n",
        "a A IN\n",
        "; nothing\n\n#\n",
        "",
        &"y".repeat(5000),
        "a TYPE65536\n",
    ];
    let errors: Vec<String> = cases
        .iter()
        .map(|text| {
            let path = write(folder.path(), "queries", text);
            let error = check_queries_file(&path).unwrap_err().to_string();
            error.replace(&folder.path().display().to_string(), "FOLDER")
        })
        .collect();
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), "/dev/null".into()] {
        let error = check_queries_file(&path).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
    let error = check_queries_file(&folder.path().join("none")).unwrap_err().to_string();
    assert!(error.ends_with("No such file or directory (os error 2)"), "{error}");
}

#[test]
fn a_small_file_is_kept_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "queries", "a A\nb AAAA\n");
    let spec = SourceSpec::Queries(QueriesSpec { path: path.clone(), edns: None, cycle: true });
    let mut source = spec.open(0, 1).unwrap();
    let first = take(&mut *source, 2);
    std::fs::write(&path, "").unwrap();
    let again = take(&mut *source, 2);
    let bytes = |queries: &[traffic::Query]| queries.iter().map(|q| q.bytes.clone()).collect::<Vec<_>>();
    assert_eq!(bytes(&again), bytes(&first));
    let error = take_error(&spec);
    assert!(error.contains("no query in it"), "{error}");
}

#[test]
fn a_large_file_that_changes_for_the_worse_gives_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let comments = format!("; {}\n", "x".repeat(1021)).repeat(65 << 10);
    let path = write(folder.path(), "queries", &format!("a A\n{comments}"));
    let spec = SourceSpec::Queries(QueriesSpec { path: path.clone(), edns: None, cycle: true });
    let mut source = spec.open(0, 1).unwrap();
    assert_eq!(take(&mut *source, 3).len(), 3);
    std::fs::write(&path, "").unwrap();
    let error = (0..3).find_map(|_| source.next(&mut traffic::Query::default()).err());
    let error = error.expect("an error, not an endless loop").to_string();
    assert!(error.contains("no query in it"), "{error}");
}

/// What the first query of a source that is opened now says.
fn take_error(spec: &SourceSpec) -> String {
    let mut source = spec.open(0, 1).unwrap();
    source.next(&mut traffic::Query::default()).unwrap_err().to_string()
}

#[test]
fn mutated_lines_never_panic() {
    let good = b"\\097.www.example.com.   TYPE65000";
    let mut draw = measure::Seed(1).draw("fuzz", 0);
    for _ in 0..200_000 {
        let mut line = good.to_vec();
        for _ in 0..=draw.below(4) {
            let at = draw.below(line.len() as u64) as usize;
            line[at] = draw.bits() as u8;
        }
        traffic::fuzz_line(&line);
        let mut line = b"2001:db8::1 1e5".to_vec();
        for _ in 0..=draw.below(3) {
            let at = draw.below(line.len() as u64) as usize;
            line[at] = draw.bits() as u8;
        }
        traffic::fuzz_address(&line);
    }
}
