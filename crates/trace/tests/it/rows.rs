//! The table of a trace, column by column and part by part, is the whole table.

use crate::captures::real;
use crate::support::{RAW_IP, message, pcap, tcp, udp, udp6};
use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tempfile::TempDir;
use trace::rows::{Batches, Filter, schema};
use trace::{Options, Reader};

/// A row as text, by column.
type Row = BTreeMap<String, String>;

fn texts(batch: &RecordBatch) -> Vec<Row> {
    let options = FormatOptions::default().with_null("NULL");
    let schema = batch.schema();
    let columns: Vec<_> = schema
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, array)| (field.name(), ArrayFormatter::try_new(array, &options).unwrap()))
        .collect();
    let row = |n| columns.iter().map(|(name, of)| ((*name).clone(), of.value(n).to_string())).collect();
    (0..batch.num_rows()).map(row).collect()
}

/// Rows of a part of a capture, sorted.
fn rows(path: &PathBuf, part: (u32, u32), columns: &[&str], filter: &Filter) -> Vec<Row> {
    let schema = schema();
    let numbers: Vec<_> = columns.iter().map(|name| schema.index_of(name).unwrap()).collect();
    let options = Options { part, ..Options::default() };
    let mut batches =
        Batches::new(Reader::open(std::slice::from_ref(path), &options).unwrap(), &numbers, filter, 7);
    let mut rows = Vec::new();
    while let Some(batch) = batches.next().unwrap() {
        assert!(batch.num_rows() <= 7);
        rows.extend(texts(&batch));
    }
    rows.sort();
    rows
}

fn all_columns() -> Vec<String> {
    schema().fields().iter().map(|field| field.name().clone()).collect()
}

fn whole(path: &PathBuf) -> Vec<Row> {
    let columns = all_columns();
    let columns: Vec<_> = columns.iter().map(String::as_str).collect();
    rows(path, (0, 1), &columns, &Filter::default())
}

/// A query with an OPT record, DO, and an option.
fn with_edns(id: u16, response: bool) -> Vec<u8> {
    let mut bytes = message(id, response, "edns");
    bytes[11] = 1;
    let option = [0, 3, 0, 2, b'n', b's'];
    bytes.extend([&[0, 0, 41, 0x10, 0, 1, 0, 0x80, 0, 0, 6][..], &option].concat());
    bytes
}

/// Captures at hand: one with all that rows can have, and the real ones.
fn captures() -> (TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.pcap");
    let back = |payload: &[u8]| {
        let builder = etherparse::PacketBuilder::ipv4([192, 0, 2, 53], [192, 0, 2, 1], 60)
            .udp(53, crate::support::CLIENT.1);
        let mut packet = Vec::new();
        builder.write(&mut packet, payload).unwrap();
        packet
    };
    let mut bare = message(5, true, "x");
    bare.truncate(12);
    (bare[3], bare[5]) = (1, 0);
    let framed = crate::support::framed(&message(9, false, "tcp"));
    let packets = vec![
        udp(&message(1, false, "a")),
        udp(&message(2, false, "b")),
        back(&message(1, true, "a")),
        udp(&with_edns(3, false)),
        back(&with_edns(3, true)),
        udp6(&message(4, false, "v6")),
        // Two with one ID, of which the first is answered without its question.
        udp(&message(5, false, "x")),
        udp(&message(5, false, "y")),
        back(&bare),
        back(&message(6, true, "unsolicited")),
        tcp(true, 1, "S", 0, &[]),
        tcp(false, 7, "SA", 2, &[]),
        tcp(true, 2, "A", 8, &framed),
    ];
    std::fs::write(&path, pcap(RAW_IP, &packets)).unwrap();
    let mut paths = real();
    paths.push(path);
    (folder, paths)
}

#[test]
fn a_column_alone_has_the_values_that_it_has_among_all() {
    let (_folder, paths) = captures();
    for path in &paths {
        let whole = whole(path);
        for column in all_columns() {
            let mut wanted: Vec<Row> =
                whole.iter().map(|row| Row::from_iter([(column.clone(), row[&column].clone())])).collect();
            wanted.sort();
            let got = rows(path, (0, 1), &[&column], &Filter::default());
            assert!(got == wanted, "{}: {column}", path.display());
        }
        assert_eq!(rows(path, (0, 1), &[], &Filter::default()).len(), whole.len());
    }
}

#[test]
fn parts_add_up_to_the_whole() {
    let (_folder, paths) = captures();
    let columns = ["time_ns", "src", "id", "qname", "rcode", "proc_time_ns"];
    for path in &paths {
        let mut parts: Vec<Row> =
            (0..3).flat_map(|part| rows(path, (part, 3), &columns, &Filter::default())).collect();
        parts.sort();
        assert!(parts == rows(path, (0, 1), &columns, &Filter::default()), "{}", path.display());
    }
}

#[test]
fn a_filter_takes_the_rows_that_have_what_it_says() {
    let (_folder, paths) = captures();
    let columns = ["time_ns", "src", "id", "qname", "rcode", "proc_time_ns"];
    for path in &paths {
        let whole = rows(path, (0, 1), &columns, &Filter::default());
        let times: Vec<u64> = whole.iter().map(|row| row["time_ns"].parse().unwrap()).collect();
        let Some(middle) = times.get(times.len() / 2).copied() else { continue };
        let client = whole[whole.len() / 2]["src"].clone();
        let of =
            |takes: &dyn Fn(&Row) -> bool| whole.iter().filter(|row| takes(row)).cloned().collect::<Vec<_>>();
        let at = |row: &Row| row["time_ns"].parse::<u64>().unwrap();
        let cases = [
            (Filter { from: Some(middle), ..Filter::default() }, of(&|row| at(row) >= middle)),
            (Filter { to: Some(middle), ..Filter::default() }, of(&|row| at(row) <= middle)),
            (
                Filter { client: Some(client.parse().unwrap()), ..Filter::default() },
                of(&|row| row["src"] == client),
            ),
            (
                Filter { under: Some(b"\x03CoM\0".to_vec()), ..Filter::default() },
                of(&|row| {
                    let name = row["qname"].to_ascii_lowercase();
                    name == "com." || name.ends_with(".com.")
                }),
            ),
            (
                Filter { under: Some(b"\x01y\x03com\0".to_vec()), ..Filter::default() },
                of(&|row| row["qname"] == "y.com."),
            ),
        ];
        for (filter, wanted) in cases {
            assert!(rows(path, (0, 1), &columns, &filter) == wanted, "{}: {filter:?}", path.display());
        }
    }
}

#[test]
fn an_answer_without_a_question_belongs_to_the_first_query_also_where_that_is_filtered_out() {
    let (_folder, paths) = captures();
    let filter = Filter { under: Some(b"\x01y\x03com\0".to_vec()), ..Filter::default() };
    let columns = schema();
    let numbers = ["qname", "proc_time_ns"].map(|name| columns.index_of(name).unwrap());
    let mut batches = Batches::new(
        Reader::open(&paths[paths.len() - 1..], &Options::default()).unwrap(),
        &numbers,
        &filter,
        100,
    );
    let batch = batches.next().unwrap().unwrap();
    assert_eq!((batch.num_rows(), batch.column(0).as_string::<i32>().value(0)), (1, "y.com."));
    assert!(batch.column(1).as_primitive::<Int64Type>().is_null(0), "its answer is x.com's");
}
