//! The papers' tables, cell by cell, as printed, each with its source, variant and footnotes.
//!
//! The tables are data (`data/*.toml`). A cell keeps its text (`>4000`, `0.3†`, `N/A`) beside what it
//! means, so that a report shows what was printed and compares with what was meant.

use measure::units;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub mod figures;
mod repeat;
mod unit;

pub use repeat::{Quotients, Repeat, Way};
pub use unit::conversion;

/// Where a cell's value lies in respect of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The number itself.
    Exactly,
    /// Above the number: `>4000`, `more than 80`.
    Above,
    /// Below the number: `<1`, `fewer than 45`, `around 0.001 or less`.
    Below,
    /// A round number: `about 5400`, `nearly 30`.
    About,
    /// Not measured: `N/A`, `*`, `-`, or nothing printed.
    Missing,
}

/// A cell as printed and as meant.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// As printed.
    pub text: String,
    /// Whether the value is the number, or above or below it.
    pub relation: Relation,
    /// The number, in the table's (or row's) unit; none where [`Relation::Missing`].
    pub value: Option<f64>,
    /// The footnote's mark: `†`, `*`.
    pub mark: Option<String>,
}

/// The words that may stand before a number, in a table or in the running text that figures were taken from.
const RELATIONS: &[(&str, Relation)] = &[
    (">", Relation::Above),
    ("over ", Relation::Above),
    ("more than ", Relation::Above),
    ("a little over ", Relation::Above),
    ("<", Relation::Below),
    ("fewer than ", Relation::Below),
    ("about ", Relation::About),
    ("around ", Relation::About),
    ("close to ", Relation::About),
    ("closer to ", Relation::About),
    ("near ", Relation::About),
    ("nearly ", Relation::About),
];

impl Cell {
    /// Reads a printed cell; none where it is neither a number, perhaps with relation and footnote
    /// mark, nor a known sign for a missing value.
    pub fn parse(text: &str) -> Option<Self> {
        let all = text.trim();
        if matches!(all, "" | "N/A" | "-" | "--" | "*") {
            let mark = (all == "*").then(|| all.to_owned());
            return Some(Self { text: text.to_owned(), relation: Relation::Missing, value: None, mark });
        }
        let body = all.trim_end_matches(['†', '*']);
        let mark = (body.len() < all.len()).then(|| all[body.len()..].to_owned());
        let (body, or_less) = body.strip_suffix(" or less").map_or((body, false), |rest| (rest, true));
        let (relation, digits) = RELATIONS
            .iter()
            .find_map(|(words, relation)| Some((*relation, body.strip_prefix(words)?)))
            .unwrap_or((Relation::Exactly, body));
        let relation = if or_less { Relation::Below } else { relation };
        let value = number(digits)?;
        Some(Self { text: text.to_owned(), relation, value: Some(value), mark })
    }
}

/// Digits with commas between groups of three and perhaps a fraction. A comma anywhere else is a slip of
/// by the person who typed the table in.
fn number(digits: &str) -> Option<f64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let groups: Vec<&str> = whole.split(',').collect();
    let all_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let well_grouped =
        groups.len() == 1 || (groups[0].len() <= 3 && groups[1..].iter().all(|g| g.len() == 3));
    if !well_grouped || !groups.iter().all(|g| all_digits(g)) || !all_digits(fraction) {
        return None;
    }
    format!("{}.{fraction}", groups.concat()).parse().ok()
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its heading cells, as many as [`Table::row_titles`].
    pub key: Vec<String>,
    /// The unit, where it is not the table's.
    pub unit: Option<String>,
    /// The cells, as many as [`Table::columns`].
    pub cells: Vec<Cell>,
}

/// A published table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// `rzaia-3.1` by the number of a table, `isc-6.3.1` by that of a section, `rzaia-text-lost` for figures
    /// that the running text prints; a variant's ends in `-talk`.
    pub id: String,
    /// The paper's number: `003`.
    pub seed: String,
    /// The authors, the publication and its date.
    pub source: String,
    /// Section and table number as printed.
    pub place: String,
    /// Its title.
    pub title: String,
    /// `ms`, `%`, `GB`, `MB`, `B`, `s`, `1/s`, `Mbit/s`, `1`.
    pub unit: String,
    /// The machines that it was measured on.
    pub hardware: String,
    /// With what, versions included.
    pub software: String,
    /// Under what conditions.
    pub conditions: String,
    /// The table that this is another printing of.
    pub variant_of: Option<String>,
    /// Headings of the row keys.
    pub row_titles: Vec<String>,
    /// Heading above the columns.
    pub column_title: String,
    /// Headings of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Footnotes by mark, as printed in substance.
    pub footnotes: BTreeMap<String, String>,
    /// Remarks: contradictions in the papers, misprints, and how the figures were counted.
    pub notes: Vec<String>,
    /// How its values are measured again.
    pub repeat: Repeat,
}

impl Table {
    /// The cell in the row with these heading cells and the column with this heading.
    pub fn cell(&self, key: &[&str], column: &str) -> Option<&Cell> {
        self.cell_of(self.rows.iter().find(|r| r.key == key)?, column)
    }

    /// The cell of one of its rows in the column with this heading.
    pub fn cell_of<'a>(&self, row: &'a Row, column: &str) -> Option<&'a Cell> {
        let at = self.columns.iter().position(|c| c == column)?;
        row.cells.get(at)
    }

    /// The headings of one of its rows, each with its title.
    pub fn headings<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.row_titles.iter().map(String::as_str).zip(row.key.iter().map(String::as_str))
    }

    /// As [`Table::cell`], for a table whose columns are zone sizes: the column of `delegations`.
    pub fn cell_at_size(&self, key: &[&str], delegations: u64) -> Option<&Cell> {
        let column = self.columns.iter().find(|c| units::count(c) == Ok(delegations))?;
        self.cell(key, column)
    }

    /// The unit of the row with these heading cells: its own, or else the table's.
    pub fn unit_of(&self, key: &[&str]) -> &str {
        let row = self.rows.iter().find(|r| r.key == key);
        row.and_then(|r| r.unit.as_deref()).unwrap_or(&self.unit)
    }

    /// The row with these heading cells as (zone size in delegations, cell), for a table whose columns are zone sizes.
    /// Empty where there is no such row or the columns are no sizes.
    pub fn by_size(&self, key: &[&str]) -> Vec<(u64, &Cell)> {
        let Some(row) = self.rows.iter().find(|r| r.key == key) else { return Vec::new() };
        let sizes = self.columns.iter().map(|c| units::count(c).ok());
        sizes.zip(&row.cells).filter_map(|(size, cell)| Some((size?, cell))).collect()
    }

    /// Where it is from, in short: `RZAIA 2009`, `ISC 2008`.
    pub fn short_source(&self) -> String {
        let who = self.id.split('-').next().unwrap_or(&self.id);
        let who = if who == "nominet" { "Nominet".to_owned() } else { who.to_uppercase() };
        // The date ends the source, as every table's shows.
        format!("{who} {}", self.source.rsplit(' ').next().unwrap_or_default())
    }

    /// The part of [`Table::software`] that begins with `name`, with its version: `BIND 9.6.0-P1`.
    pub fn version_of(&self, name: &str) -> Option<&str> {
        self.software.split([',', ';']).map(str::trim).find(|part| part.starts_with(name))
    }
}

/// A table as its file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    id: String,
    seed: String,
    source: String,
    place: String,
    title: String,
    unit: String,
    hardware: String,
    software: String,
    conditions: String,
    variant_of: Option<String>,
    row_titles: Vec<String>,
    column_title: String,
    columns: Vec<String>,
    rows: Vec<RawRow>,
    #[serde(default)]
    footnotes: BTreeMap<String, String>,
    #[serde(default)]
    notes: Vec<String>,
    repeat: Repeat,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRow {
    key: Vec<String>,
    unit: Option<String>,
    cells: Vec<String>,
}

/// Reads a table and checks its shape: every row has as many headings and cells as the table, every cell
/// can be read, every mark has its footnote.
///
/// # Errors
/// A sentence that says what is wrong, and where.
pub fn parse(text: &str) -> Result<Table, String> {
    let raw: Raw = toml::from_str(text).map_err(|e| e.to_string())?;
    let id = raw.id;
    let mut rows = Vec::new();
    for row in raw.rows {
        let name = row.key.join(" ");
        if row.key.len() != raw.row_titles.len() {
            return Err(format!("{id}: row '{name}' has {} heading cells", row.key.len()));
        }
        if row.cells.len() != raw.columns.len() {
            return Err(format!(
                "{id}: row '{name}' has {} cells, not {}",
                row.cells.len(),
                raw.columns.len()
            ));
        }
        let mut cells = Vec::new();
        for text in &row.cells {
            let cell = Cell::parse(text).ok_or_else(|| format!("{id}: row '{name}': what is '{text}'?"))?;
            if let Some(mark) = cell.mark.as_ref().filter(|m| !raw.footnotes.contains_key(*m)) {
                return Err(format!("{id}: row '{name}': no footnote {mark}"));
            }
            cells.push(cell);
        }
        rows.push(Row { key: row.key, unit: row.unit, cells });
    }
    if let Some(fault) = raw.repeat.fault(&raw.row_titles, &raw.column_title) {
        return Err(format!("{id}: repeat: {fault}"));
    }
    Ok(Table {
        id,
        seed: raw.seed,
        source: raw.source,
        place: raw.place,
        title: raw.title,
        unit: raw.unit,
        hardware: raw.hardware,
        software: raw.software,
        conditions: raw.conditions,
        variant_of: raw.variant_of,
        row_titles: raw.row_titles,
        column_title: raw.column_title,
        columns: raw.columns,
        rows,
        footnotes: raw.footnotes,
        notes: raw.notes,
        repeat: raw.repeat,
    })
}

macro_rules! data {
    ($($name:literal),* $(,)?) => { &[$(include_str!(concat!("../data/", $name, ".toml"))),*] };
}

const DATA: &[&str] = data![
    "rzaia-1.1",
    "rzaia-2.1",
    "rzaia-2.2",
    "rzaia-text-stream",
    "rzaia-3.1",
    "rzaia-3.2",
    "rzaia-text-within",
    "rzaia-text-lost",
    "rzaia-text-referrals",
    "rzaia-4.1",
    "rzaia-4.2",
    "rzaia-4.3",
    "rzaia-4.4",
    "rzaia-5.1",
    "rzaia-5.2",
    "rzaia-5.3",
    "rzaia-5.4",
    "rzaia-5.5",
    "rzaia-text-axfr",
    "rzaia-text-ixfr",
    "rzaia-text-path",
    "rzaia-text-loss",
    "rzaia-text-tail",
    "rzaia-text-tcp",
    "rzaia-text-truncated",
    "rzaia-text-sizes",
    "rzaia-text-retries",
    "isc-2.2",
    "isc-2.2-talk",
    "isc-3.3",
    "isc-3.3-talk",
    "isc-3.3-bytes",
    "isc-3.3-packets",
    "isc-5.1",
    "isc-text-rack",
    "isc-6.3.1",
    "isc-6.3.1-talk",
    "isc-6.3.2",
    "isc-6.3.2-talk",
    "isc-6.3.3",
    "isc-6.3.3-talk",
    "nominet-qps",
    "nominet-signing",
];

static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| {
    DATA.iter().map(|text| parse(text).expect("the tables built in are checked by a test")).collect()
});

/// All published tables, in the order of the papers' chapters.
pub fn all() -> &'static [Table] {
    &TABLES
}

/// A table by its id: `rzaia-3.1`.
pub fn find(id: &str) -> Option<&'static Table> {
    TABLES.iter().find(|t| t.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_read_as_meant() {
        let parts = |text: &str| Cell::parse(text).map(|c| (c.relation, c.value, c.mark));
        let mark = |m: &str| Some(m.to_owned());
        assert_eq!(parts("77.7"), Some((Relation::Exactly, Some(77.7), None)));
        assert_eq!(parts(">4000"), Some((Relation::Above, Some(4000.0), None)));
        assert_eq!(parts("<1"), Some((Relation::Below, Some(1.0), None)));
        assert_eq!(parts("0.3†"), Some((Relation::Exactly, Some(0.3), mark("†"))));
        assert_eq!(parts("55,208,694"), Some((Relation::Exactly, Some(55_208_694.0), None)));
        assert_eq!(parts("more than 2*"), Some((Relation::Above, Some(2.0), mark("*"))));
        assert_eq!(parts("a little over 3"), Some((Relation::Above, Some(3.0), None)));
        assert_eq!(parts("fewer than 45"), Some((Relation::Below, Some(45.0), None)));
        assert_eq!(parts("around 0.001 or less"), Some((Relation::Below, Some(0.001), None)));
        assert_eq!(parts("nearly 30"), Some((Relation::About, Some(30.0), None)));
        assert_eq!(parts("closer to 80"), Some((Relation::About, Some(80.0), None)));
        assert_eq!(parts("about 5400"), Some((Relation::About, Some(5400.0), None)));
        assert_eq!(parts("N/A"), Some((Relation::Missing, None, None)));
        assert_eq!(parts("*"), Some((Relation::Missing, None, mark("*"))));
        for bad in [
            "1,23", "1.2.3", "x", "1e3", ">", "5,1234", "inf", "-3", "nearly", "over >3", "or less",
            "nearly30",
        ] {
            assert_eq!(parts(bad), None, "{bad}");
        }
    }

    #[test]
    fn rows_and_sources_are_found() {
        let latency = find("rzaia-3.1").unwrap();
        let row = latency.by_size(&["BIND", "signed"]);
        let values: Vec<_> = row.iter().map(|(size, c)| (*size, c.relation, c.value)).collect();
        assert_eq!(values[2], (100_000, Relation::Exactly, Some(77.7)));
        assert_eq!(values[4], (10_000_000, Relation::Above, Some(4000.0)));
        assert!(latency.by_size(&["BIND", "shiny"]).is_empty());
        assert!(find("isc-6.3.1").unwrap().by_size(&["Linux-Fedora"]).is_empty());
        assert_eq!(latency.short_source(), "RZAIA 2009");
        assert_eq!(latency.version_of("NSD"), Some("NSD 3.2.1"));
        assert_eq!(find("isc-6.3.1").unwrap().short_source(), "ISC 2008");
        for table in all() {
            let year = table.short_source().rsplit(' ').next().map(str::parse::<u16>);
            assert!(matches!(year, Some(Ok(2006..=2009))), "{}: {}", table.id, table.short_source());
        }
    }

    #[test]
    fn a_misshapen_table_is_refused() {
        let good = include_str!("../data/rzaia-3.1.toml");
        assert!(parse(good).is_ok());
        for (from, to, says) in [
            ("\"0.3\", ", "", "cells, not 5"),
            ("\">4000\"", "\"lots\"", "what is 'lots'"),
            ("[footnotes]\n", "[footnotes]\n# ", "no footnote †"),
            ("unit =", "units =", "unknown field"),
        ] {
            let error = parse(&good.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
