//! Published figures, as series and bars to be drawn beside the measured ones.

use crate::cells::Run;
use crate::grid::software;
use crate::svg::{Bar, STYLES};
use results::published::{self, Relation, Table};

/// The kinds of servers that RZAIA measured.
pub(crate) const KINDS: [&str; 2] = ["bind", "nsd"];

/// A published point: zone size, value in the unit asked for, and whether the true value is equal to it, above or below it.
pub(crate) type Point = (f64, f64, Relation);

/// A row of a published table over the zone's size.
#[derive(Debug)]
pub(crate) struct Past {
    /// `BIND 9.6.0-P1 (RZAIA 2009)`.
    pub name: String,
    pub points: Vec<Point>,
    /// The cells that are no point, each in words.
    pub notes: Vec<String>,
}

/// The published row of a kind of server, with its figures in `unit`; none where the table has no such row or measures
/// something else.
///
/// A cell with a footnote does not belong to the column (RZAIA's † is of another zone): it is listed, not drawn.
pub(crate) fn past(table: &Table, kind: &str, heading: &[&str], unit: &str) -> Option<Past> {
    let scale = published::conversion(table.unit_of(heading), unit)?;
    let software = software(kind)?;
    let name = format!("{} ({})", table.version_of(software).unwrap_or(software), table.short_source());
    let (mut points, mut notes) = (Vec::new(), Vec::new());
    for (size, cell) in table.by_size(heading) {
        let at = measure::units::short(size);
        match (cell.value, &cell.mark) {
            (Some(value), None) => points.push((size as f64, value * scale, cell.relation)),
            (_, mark) => {
                let note = mark.as_ref().and_then(|m| table.footnotes.get(m));
                let note = note.map_or_else(String::new, |n| format!(" ({})", n.trim_end_matches('.')));
                notes.push(format!("{software} at {at}: {}{note}", cell.text));
            }
        }
    }
    (!points.is_empty()).then_some(Past { name, points, notes })
}

/// The first column of a published table over the numbers that its rows begin with, such as `30 ms`, with its figures in `unit`.
pub(crate) fn by_row(table: &Table, unit: &str) -> Option<Past> {
    let point = |row: &published::Row| {
        let x = row.key[0].split(' ').next()?.parse().ok()?;
        let heading: Vec<&str> = row.key.iter().map(String::as_str).collect();
        let (cell, scale) = (&row.cells[0], published::conversion(table.unit_of(&heading), unit)?);
        Some((x, cell.value? * scale, cell.relation))
    };
    let points: Vec<Point> = table.rows.iter().filter_map(point).collect();
    (!points.is_empty()).then(|| Past { name: table.short_source(), points, notes: Vec::new() })
}

/// The rows of the published tables of peak rates that the run asks for, as bars: the mean over a row's columns, or its
/// total, and its columns as dots. With them, the tables that they are from.
pub(crate) fn peaks(run: &Run) -> (Vec<Bar>, Vec<&'static Table>) {
    let is_peak =
        |t: &&Table| t.unit == "1/s" && (t.row_titles == ["OS"] || t.columns.iter().any(|c| c == "Total"));
    let tables: Vec<&Table> = published::all().iter().filter(|t| run.wants(&t.id)).filter(is_peak).collect();
    let mut bars = Vec::new();
    for table in &tables {
        for row in &table.rows {
            let total = table.columns.iter().position(|c| c == "Total");
            let cells = match total {
                Some(at) => &row.cells[at..=at],
                None => &row.cells[..],
            };
            let numbers: Vec<f64> = cells
                .iter()
                .filter(|c| matches!(c.relation, Relation::Exactly | Relation::About))
                .filter_map(|c| c.value)
                .collect();
            let Some(value) = stats::mean(&numbers) else { continue };
            bars.push(Bar {
                name: row.key.join(", "),
                style: STYLES - 2,
                value,
                text: crate::format::significant(value),
                bounds: None,
                points: if numbers.len() > 1 { numbers } else { Vec::new() },
                class: "past",
            });
        }
    }
    (bars, tables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::RunDir;

    #[test]
    fn a_row_is_converted_and_what_is_no_number_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let dir =
            RunDir::create(folder.path(), "published = [\"isc-6.3.1\"]", &serde_json::json!({})).unwrap();
        let run = Run::new(&dir).unwrap();
        let past_of = |id: &str, kind: &str, heading: &[&str], unit: &str| {
            past(published::find(id).unwrap(), kind, heading, unit)
        };
        let latency = past_of("rzaia-3.1", "bind", &["BIND", "signed"], "ns").unwrap();
        assert_eq!(latency.name, "BIND 9.6.0-P1 (RZAIA 2009)");
        let rates = by_row(published::find("rzaia-text-path").unwrap(), "Mbit/s").unwrap();
        let rates: Vec<(f64, f64)> = rates.points.iter().map(|p| (p.0, p.1)).collect();
        assert_eq!(rates, [(30.0, 8.2), (100.0, 2.0), (200.0, 1.0), (300.0, 0.8)]);
        assert_eq!(latency.points[2], (1e5, 77.7e6, Relation::Exactly));
        assert_eq!(latency.points[3], (1e6, 4e9, Relation::Above));
        let memory = past_of("rzaia-2.2", "nsd", &["S-6-DS10"], "B").unwrap();
        assert_eq!(
            (memory.points.len(), memory.notes.as_slice()),
            (4, ["NSD at 10M: N/A".to_owned()].as_slice())
        );
        assert_eq!(memory.points[3].1, 2.9 * 1_073_741_824.0);
        assert!(past_of("rzaia-2.2", "nsd", &["S-6-DS10"], "s").is_none(), "memory is no time");
        assert!(past_of("rzaia-2.2", "knot", &["S-6-DS10"], "B").is_none(), "the paper has no such server");
        let (bars, tables) = peaks(&run);
        assert_eq!((bars.len(), tables.len()), (8, 1));
        assert_eq!((bars[0].name.as_str(), bars[0].value), ("Linux-Fedora", (80_872.0 + 76_531.0) / 2.0));
    }
}
