//! The tables were typed in from mangled text: what the seeds themselves let us check, we check.

use results::published::{self, Relation, Table};

fn table(id: &str) -> &'static Table {
    published::find(id).unwrap_or_else(|| panic!("no table {id}"))
}

fn values(table: &Table, key: &[&str]) -> Vec<f64> {
    let row = table.rows.iter().find(|r| r.key == key).unwrap_or_else(|| panic!("no row {key:?}"));
    row.cells.iter().map(|c| c.value.unwrap()).collect()
}

#[test]
fn every_table_has_its_shape_and_source() {
    let ids: Vec<&str> = published::all().iter().map(|t| t.id.as_str()).collect();
    assert_eq!(ids.len(), 43);
    for t in published::all() {
        assert!(!t.rows.is_empty() && !t.columns.is_empty() && !t.row_titles.is_empty(), "{}", t.id);
        for text in [&t.source, &t.place, &t.title, &t.unit, &t.hardware, &t.software, &t.conditions] {
            assert!(!text.is_empty(), "{}", t.id);
        }
        assert_eq!(ids.iter().filter(|id| **id == t.id).count(), 1, "{} is there twice", t.id);
        assert!(
            t.variant_of.as_ref().is_none_or(|v| published::find(v).is_some()),
            "{}: variant of what?",
            t.id
        );
        for (i, row) in t.rows.iter().enumerate() {
            assert!(!t.rows[..i].iter().any(|r| r.key == row.key), "{}: row {:?} twice", t.id, row.key);
        }
    }
}

#[test]
fn zone_counts_agree_with_each_other() {
    let t = table("rzaia-1.1");
    let sizes = [1e3, 1e4, 1e5, 1e6, 1e7];
    for family in ["U-4-DS0", "U-6-DS0", "S-6-DS10", "S-6-DS50", "S-6-DS100"] {
        let row = |what: &str| values(t, &[family, what]);
        let (ns, a, aaaa, ds) = (row("NS RRs"), row("A RRs"), row("AAAA RRs"), row("DS RRs"));
        for i in 0..5 {
            assert_eq!(ns[i] - a[i], 463.0, "{family} {}", sizes[i]);
            // The one cell that breaks the rule is in the seed so; a note in the table says it.
            let gap = if family == "S-6-DS50" && i == 4 { 893.0 } else { 892.0 };
            assert!(family == "U-4-DS0" || a[i] - aaaa[i] == gap, "{family} {}", sizes[i]);
            assert!((ns[i] / sizes[i] - 5.52).abs() < 0.07, "{family} {}", sizes[i]);
            match family {
                "S-6-DS100" => assert_eq!(ds[i], 2.0 * (sizes[i] - 280.0)),
                "S-6-DS10" | "S-6-DS50" => assert_eq!(ds[i] % 2.0, 0.0),
                _ => assert_eq!(ds[i], 0.0),
            }
        }
        let size = row("File Size");
        assert!(size.windows(2).all(|w| (7.0..13.0).contains(&(w[1] / w[0]))), "{family} {size:?}");
    }
}

#[test]
fn the_talk_averages_the_two_halves_of_the_note() {
    let (note, talk) = (table("isc-6.3.1"), table("isc-6.3.1-talk"));
    assert_eq!(note.rows.len(), talk.rows.len());
    for (a, b) in note.rows.iter().zip(&talk.rows) {
        let mean = (a.cells[0].value.unwrap() + a.cells[1].value.unwrap()) / 2.0;
        assert_eq!(mean.floor(), b.cells[0].value.unwrap(), "{:?}", a.key);
    }
}

#[test]
fn the_clients_add_up_to_the_totals() {
    for row in &table("nominet-qps").rows {
        let (total, clients) = row.cells.split_last().unwrap();
        assert_eq!(
            clients.iter().filter_map(|c| c.value).sum::<f64>(),
            total.value.unwrap(),
            "{:?}",
            row.key
        );
        assert_eq!(clients.iter().filter(|c| c.value.is_some()).count().to_string(), row.key[1]);
    }
}

#[test]
fn note_and_talk_print_the_same_update_figures() {
    for id in ["isc-6.3.2", "isc-6.3.3"] {
        let (note, talk) = (table(id), table(&format!("{id}-talk")));
        for (a, b) in note.rows.iter().zip(&talk.rows) {
            let figures = |r: &published::Row| r.cells.iter().map(|c| c.value).collect::<Vec<_>>();
            assert_eq!(figures(a), figures(b), "{id} {:?} {:?}", a.key, b.key);
        }
    }
    assert_eq!(table("isc-6.3.3-talk").rows.len(), 7);
}

#[test]
fn memory_and_times_grow_with_the_zone() {
    for id in ["rzaia-2.1", "rzaia-2.2", "rzaia-4.1", "rzaia-4.2", "rzaia-4.3", "rzaia-4.4"] {
        for row in &table(id).rows {
            let known: Vec<f64> = row.cells.iter().filter_map(|c| c.value).collect();
            assert!(known.windows(2).all(|w| w[0] <= w[1]), "{id} {:?} {known:?}", row.key);
        }
    }
}

#[test]
fn the_latency_cells_are_the_printed_ones() {
    let t = table("rzaia-3.1");
    let cell = |key: &[&str], size| t.cell_at_size(key, size).unwrap();
    assert_eq!(cell(&["BIND", "signed"], 100_000).text, "77.7");
    assert_eq!(cell(&["BIND", "signed"], 1_000_000).relation, Relation::Above);
    assert_eq!(cell(&["NSD", "signed"], 10_000_000).mark.as_deref(), Some("†"));
    assert!(t.cell_at_size(&["NSD", "signed"], 4_500_000).is_none());
    assert!(t.cell(&["Knot", "signed"], "1K").is_none());
    let lost: Vec<f64> = values(table("rzaia-3.2"), &["BIND", "signed"]);
    assert_eq!(lost, [100.0, 100.0, 71.0, 19.0, 11.0]);
}

/// A cell of each table of RZAIA's chapter 5 and of each table of figures from the text, with what the seed
/// prints: table, its rows and columns, row, column, text, how it is meant, value.
type Spot = (
    &'static str,
    (usize, usize),
    &'static [&'static str],
    &'static str,
    &'static str,
    Relation,
    Option<f64>,
);

const SPOTS: &[Spot] = {
    use Relation::{About, Above, Below, Exactly, Missing};
    &[
        ("rzaia-5.1", (20, 4), &["BIND", "BIND", "U-4-DS0"], "1M", "384.8", Exactly, Some(384.8)),
        ("rzaia-5.1", (20, 4), &["NSD", "NSD", "S-6-DS100"], "1M", "754.4", Exactly, Some(754.4)),
        ("rzaia-5.1", (20, 4), &["BIND", "NSD", "U-6-DS0"], "100K", "61.8", Exactly, Some(61.8)),
        ("rzaia-5.1", (20, 4), &["NSD", "BIND", "S-6-DS50"], "100K", "73.3", Exactly, Some(73.3)),
        ("rzaia-5.2", (8, 4), &["BIND", "BIND", "5min", "U-4-DS0"], "1M", "57.0", Exactly, Some(57.0)),
        ("rzaia-5.2", (8, 4), &["BIND", "NSD", "1hour", "S-6-DS100"], "1M", "234.3", Exactly, Some(234.3)),
        ("rzaia-5.3", (8, 4), &["BIND", "NSD", "5min", "S-6-DS100"], "1K", "60", Exactly, Some(60.0)),
        ("rzaia-5.3", (8, 4), &["BIND", "BIND", "1hour", "S-6-DS100"], "100K", "*", Missing, None),
        ("rzaia-5.4", (8, 4), &["BIND", "BIND", "1hour", "U-4-DS0"], "1K", "0.003", Exactly, Some(0.003)),
        ("rzaia-5.5", (8, 4), &["BIND", "NSD", "1hour", "U-4-DS0"], "100K", "222", Exactly, Some(222.0)),
        ("rzaia-text-stream", (6, 2), &["with DF"], "3.1", "77", Exactly, Some(77.0)),
        (
            "rzaia-text-within",
            (3, 1),
            &["BIND", "unsigned", "1K", "5000", "in 0.3 ms or less"],
            "Share",
            "fewer than 45",
            Below,
            Some(45.0),
        ),
        (
            "rzaia-text-lost",
            (6, 3),
            &["NSD", "signed", "1M", "5000"],
            "3.2.3",
            "nearly 22",
            About,
            Some(22.0),
        ),
        (
            "rzaia-text-lost",
            (6, 3),
            &["BIND", "signed", "1M", "500"],
            "3.2.3",
            "more than 3",
            Above,
            Some(3.0),
        ),
        ("rzaia-text-referrals", (2, 2), &["1M"], "full", "280", Exactly, Some(280.0)),
        ("rzaia-text-axfr", (3, 1), &["NSD", "U-4-DS0"], "Share", "closer to 80", About, Some(80.0)),
        ("rzaia-text-ixfr", (2, 2), &["U-4-DS0"], "most", "15", Exactly, Some(15.0)),
        ("rzaia-text-path", (4, 1), &["30 ms"], "Bandwidth", "8.2", Exactly, Some(8.2)),
        (
            "rzaia-text-loss",
            (3, 2),
            &["1 %", "30 ms"],
            "Executive summary",
            "more than 2.5",
            Above,
            Some(2.5),
        ),
        ("rzaia-text-tail", (2, 1), &["Internet"], "Median", "around 245", About, Some(245.0)),
        (
            "rzaia-text-tcp",
            (8, 4),
            &[".org", "TCP connections, zone signed"],
            "6.5",
            "58",
            Exactly,
            Some(58.0),
        ),
        (
            "rzaia-text-truncated",
            (3, 2),
            &["6.5.1", "A-root", "answers over UDP"],
            "least",
            "0.4",
            Exactly,
            Some(0.4),
        ),
        ("rzaia-text-sizes", (2, 1), &["Name that does not exist"], "Size", "around 629", About, Some(629.0)),
        (
            "rzaia-text-retries",
            (5, 1),
            &["f.ns.se", "queries asked again over TCP", "truncated answers"],
            "Share",
            "88.11",
            Exactly,
            Some(88.11),
        ),
        ("isc-3.3-bytes", (2, 2), &["signed"], "replies", "391.3", Exactly, Some(391.3)),
        ("isc-3.3-packets", (2, 2), &["unsigned"], "replies", "125", Exactly, Some(125.0)),
    ]
};

#[test]
fn transfer_and_text_cells_are_the_printed_ones() {
    for (id, shape, key, column, text, relation, value) in SPOTS {
        let t = table(id);
        assert_eq!((t.rows.len(), t.columns.len()), *shape, "{id}");
        let cell = t.cell(key, column).unwrap_or_else(|| panic!("{id}: no cell {key:?}, {column}"));
        assert_eq!(
            (cell.text.as_str(), cell.relation, cell.value),
            (*text, *relation, *value),
            "{id} {key:?}"
        );
    }
    let new = published::all().iter().map(|t| t.id.as_str());
    for id in new.filter(|id| id.starts_with("rzaia-5") || id.starts_with("rzaia-text")) {
        assert!(SPOTS.iter().any(|s| s.0 == id), "{id} has no cell to look at");
    }
}

#[test]
fn transfers_grow_with_the_zone_and_with_its_records() {
    let row = |pair: [&str; 2], family: &str| values(table("rzaia-5.1"), &[pair[0], pair[1], family]);
    for pair in [["BIND", "BIND"], ["NSD", "NSD"], ["BIND", "NSD"], ["NSD", "BIND"]] {
        let families = ["U-4-DS0", "U-6-DS0", "S-6-DS10", "S-6-DS50", "S-6-DS100"];
        let rows: Vec<Vec<f64>> = families.iter().map(|f| row(pair, f)).collect();
        for (family, row) in families.iter().zip(&rows) {
            assert!(
                row.windows(2).all(|w| (9.0..=12.3).contains(&(w[1] / w[0]))),
                "{pair:?} {family} {row:?}"
            );
        }
        for pair_of in rows.windows(2) {
            assert!(pair_of[0].iter().zip(&pair_of[1]).all(|(a, b)| a <= b), "{pair:?} {pair_of:?}");
        }
    }
    // The text's two examples: U-4-DS0 of 1M between BIND servers, 57 MB of 385 MB are 14.8 %.
    let share = 100.0 * values(table("rzaia-5.2"), &["BIND", "BIND", "5min", "U-4-DS0"])[3]
        / row(["BIND", "BIND"], "U-4-DS0")[3];
    assert_eq!((share * 10.0).round(), 148.0);
}

#[test]
fn the_omitted_times_are_those_of_the_larger_signed_zones() {
    for id in ["rzaia-5.3", "rzaia-5.5"] {
        for row in &table(id).rows {
            let omitted = row.key[3] == "S-6-DS100";
            for (i, cell) in row.cells.iter().enumerate() {
                assert_eq!(cell.mark.is_some(), omitted && i >= 2, "{id} {:?}", row.key);
            }
        }
    }
}

#[test]
fn what_the_text_says_lost_is_what_table_3_2_lacks() {
    let answered = table("rzaia-3.2");
    for (size, software, lost) in [
        (100_000, "BIND", 30.0),
        (1_000_000, "BIND", 80.0),
        (10_000_000, "BIND", 80.0),
        (1_000_000, "NSD", 3.0),
    ] {
        let cell = answered.cell_at_size(&[software, "signed"], size).unwrap().value.unwrap();
        let name = measure::units::short(size);
        let said = table("rzaia-text-lost").cell(&[software, "signed", &name, "5000"], "3.2.1").unwrap();
        assert_eq!(said.value, Some(lost));
        match said.relation {
            Relation::Above => assert!(100.0 - cell >= lost, "{software} {name}"),
            _ => assert!((100.0 - cell - lost).abs() <= 1.0, "{software} {name}"),
        }
    }
}

#[test]
fn bytes_by_packets_are_the_number_of_queries() {
    let (bytes, packets) = (table("isc-3.3-bytes"), table("isc-3.3-packets"));
    for (b, p) in bytes.rows.iter().zip(&packets.rows) {
        assert_eq!(b.key, p.key);
        for (b, p) in b.cells.iter().zip(&p.cells) {
            let queries = b.value.unwrap() / p.value.unwrap();
            assert!((queries - 1.13).abs() < 0.005, "{queries} million");
        }
    }
}
