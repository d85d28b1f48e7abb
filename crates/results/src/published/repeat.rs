//! How the values of a published table are measured again.

use super::{Cell, Row, Table, find};
use serde::Deserialize;
use std::collections::BTreeMap;

/// How to measure the values of a table again: with an experiment of the catalogue and a few keys, or with another command. Some values
/// are calculated from those of other tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// The experiment.
    pub experiment: Option<String>,
    /// A command that gives the values, where no experiment does.
    pub command: Option<String>,
    /// The values of other tables that these are calculated from.
    pub quotients: Option<Quotients>,
    /// Options of `--set` that the experiment takes for every value.
    #[serde(default)]
    pub sets: Vec<String>,
    /// Further options for values with a certain heading, by the title of the row's headings or of the columns.
    #[serde(default)]
    pub by: BTreeMap<String, ByHeading>,
    /// Why values with a certain heading are not measured: by the heading. Empty text: all values.
    #[serde(default)]
    pub without: BTreeMap<String, String>,
    /// A sentence for the page of coverage, printed below the commands: how to measure these values in less time.
    pub advice: Option<String>,
}

/// Values that are the least or the most of several quotients: a cell of one table divided by a cell of another. The column `least` has
/// the least of them, and `most` the most.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quotients {
    /// The id of the table with the dividends. It comes before the table of the quotients.
    pub dividends: String,
    /// That of the table with the divisors, which comes before, too. Its rows have headings that those of the dividends have as well.
    pub divisors: String,
    /// The headings of the rows that are taken, by their title. Under the titles of the quotients' own table, the headings are the same as there.
    pub rows: BTreeMap<String, String>,
    /// The columns that are taken.
    pub columns: Vec<String>,
}

impl Quotients {
    /// The cells for a row of their own table: dividends, each with its divisor. A dividend without a divisor is left out.
    pub fn cells(&self, table: &Table, row: &Row) -> Vec<(&'static Cell, &'static Cell)> {
        let (Some(dividends), Some(divisors)) = (find(&self.dividends), find(&self.divisors)) else {
            return Vec::new();
        };
        let mut wanted: BTreeMap<&str, &str> = table.headings(row).collect();
        wanted.extend(self.rows.iter().map(|(title, heading)| (title.as_str(), heading.as_str())));
        let mut cells = Vec::new();
        for row in &dividends.rows {
            let headings: BTreeMap<&str, &str> = dividends.headings(row).collect();
            let has = |(title, heading)| headings.get(title) == Some(&heading);
            if !wanted.iter().all(|(title, heading)| has((*title, *heading))) {
                continue;
            }
            let divisor = divisors.rows.iter().find(|divisor| divisors.headings(divisor).all(has));
            cells.extend(self.columns.iter().filter_map(|column| {
                Some((dividends.cell_of(row, column)?, divisors.cell_of(divisor?, column)?))
            }));
        }
        cells
    }
}

/// The options of `--set` for a heading.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum ByHeading {
    /// The same for all of them, with `{}` for the heading itself.
    Each(String),
    /// One or several for each.
    Of(BTreeMap<String, Vec<String>>),
}

/// How one value is measured again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// By an experiment with these `--set`s.
    Experiment {
        /// Its name in the catalogue.
        name: String,
        /// As on the command line: `zone.delegations=1K`.
        sets: Vec<String>,
    },
    /// By another command.
    Command(String),
    /// By calculating it from values of other tables.
    Quotients(Quotients),
    /// Not here, for this reason.
    Not(String),
}

impl Repeat {
    /// How the value with these headings is measured again; `row` has the titles and headings of its row, `column` those of its column.
    pub fn of<'a>(&self, row: impl Iterator<Item = (&'a str, &'a str)>, column: (&'a str, &'a str)) -> Way {
        let headings: Vec<(&str, &str)> = row.chain([column]).collect();
        let why = headings.iter().find_map(|(_, heading)| self.without.get(*heading));
        if let Some(why) = why.or_else(|| self.without.get("")) {
            return Way::Not(why.clone());
        }
        if let Some(quotients) = &self.quotients {
            return Way::Quotients(quotients.clone());
        }
        let Some(name) = &self.experiment else {
            return Way::Command(self.command.clone().unwrap_or_default());
        };
        let mut sets = self.sets.clone();
        for (title, heading) in headings {
            match self.by.get(title) {
                None => {}
                Some(ByHeading::Each(set)) => sets.push(set.replace("{}", heading)),
                Some(ByHeading::Of(all)) => match all.get(heading) {
                    Some(of_it) => sets.extend(of_it.iter().cloned()),
                    None => return Way::Not(format!("nothing is known to measure for '{heading}'")),
                },
            }
        }
        Way::Experiment { name: name.clone(), sets }
    }

    /// What is wrong with it for a table with these titles.
    pub(super) fn fault(&self, row_titles: &[String], column_title: &str) -> Option<String> {
        let ways = [
            self.experiment.is_some(),
            self.command.is_some(),
            self.quotients.is_some(),
            self.without.contains_key(""),
        ];
        if ways.into_iter().filter(|way| *way).count() != 1 {
            return Some("give one of experiment, command, quotients, and without for all values".into());
        }
        let title = self.by.keys().find(|title| *title != column_title && !row_titles.contains(title));
        title.map(|title| format!("there is no title '{title}'"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{all, find};
    use super::*;

    fn way(id: &str, key: &[&str], column: &str) -> Way {
        let table = find(id).unwrap();
        let row = table.row_titles.iter().map(String::as_str).zip(key.iter().copied());
        table.repeat.of(row, (table.column_title.as_str(), column))
    }

    #[test]
    fn a_value_has_the_sets_of_its_headings() {
        let Way::Experiment { name, sets } = way("rzaia-3.1", &["BIND", "signed"], "1M") else { panic!() };
        assert_eq!(name, "rzaia-latency");
        assert_eq!(sets, ["servers=bind", "zone.families=S-6-DS100", "zone.delegations=1M"]);
        assert!(matches!(way("isc-3.3", &["FreeBSD-7-CURRENT 200708"], "Queries/second"), Way::Not(_)));
    }

    #[test]
    fn every_value_has_a_way_or_a_reason() {
        for table in all() {
            for row in &table.rows {
                for column in &table.columns {
                    let key: Vec<&str> = row.key.iter().map(String::as_str).collect();
                    match way(&table.id, &key, column) {
                        Way::Not(text) | Way::Command(text) => assert!(!text.is_empty(), "{}", table.id),
                        Way::Experiment { sets, .. } => assert!(!sets.is_empty(), "{}", table.id),
                        Way::Quotients(quotients) => {
                            assert!(!quotients.cells(table, row).is_empty(), "{}", table.id);
                            assert!(["least", "most"].contains(&column.as_str()), "{}", table.id);
                            let before = |id: &str| {
                                let at = |id: &str| all().iter().position(|t| t.id == id);
                                at(id) < at(&table.id)
                            };
                            assert!(
                                before(&quotients.dividends) && before(&quotients.divisors),
                                "{}",
                                table.id
                            );
                        }
                    }
                }
            }
        }
    }

    /// The text's range, 12 to 15 %, is that of its own two tables.
    #[test]
    fn quotients_are_of_the_rows_and_columns_that_agree() {
        let table = find("rzaia-text-ixfr").unwrap();
        let Way::Quotients(quotients) = way(&table.id, &["U-4-DS0"], "least") else { panic!() };
        let percent = |(of, over): &(&Cell, &Cell)| 100.0 * of.value.unwrap() / over.value.unwrap();
        let shares: Vec<f64> = quotients.cells(table, &table.rows[0]).iter().map(percent).collect();
        assert_eq!(shares.len(), 8, "two secondaries, two numbers of batches, two sizes");
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let most = shares.iter().copied().fold(0.0, f64::max);
        assert_eq!((least.round(), most.round()), (12.0, 15.0));
    }
}
