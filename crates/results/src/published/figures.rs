//! The papers' figures: which measured values each is drawn of, and how, as data (`data/figures.toml`).

use measure::units;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A figure of one of the papers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// `rzaia-3.2` by its number; where a paper has no numbers, by the section.
    pub id: String,
    /// As printed.
    pub title: String,
    /// How it is drawn.
    pub draw: Draw,
    /// The parameters that a trial has to have, by name, each with the values that will do; an empty one: it must not have it.
    #[serde(default)]
    pub only: BTreeMap<String, Vec<String>>,
    /// The parameters that tell its lines apart.
    #[serde(default)]
    pub by: Vec<String>,
    /// The values of these parameters, a list for each line.
    #[serde(default)]
    pub lines: Vec<Vec<String>>,
    /// The lines' names; without, their values.
    #[serde(default)]
    pub names: Vec<String>,
    /// The experiment that measures it; none where there is none.
    pub experiment: Option<String>,
    /// What differs from the paper's figure, or why it is not drawn.
    #[serde(default)]
    pub note: String,
}

/// How a figure is drawn.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Draw {
    /// Latencies: their actual distribution, and their cumulative one.
    Latency {
        /// Each repeat has a line of its own.
        #[serde(default)]
        apart: bool,
    },
    /// The cumulative distribution of the sizes of answers.
    Sizes,
    /// A metric over a parameter.
    Curve(Curve),
    /// A count by the second, as a share of another, in per cent.
    Time {
        /// The figure by the second.
        of: String,
        /// What it is a share of.
        over: String,
    },
    /// A bar for each line: a metric.
    Bars {
        /// Its name.
        metric: String,
    },
    /// It is no plot of measured values.
    Not,
}

/// A metric over a parameter, a line each.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// The parameter: `zone_size`.
    pub x: String,
    /// The axis, in words.
    pub x_title: String,
    /// The metric.
    pub y: String,
    /// The axis, in words.
    pub y_title: String,
    /// Both axes are logarithmic, or the first alone, or none.
    pub log: Log,
    /// Values are relative to the first line, at the same x, or to the first point of each line; none: as they are.
    pub relative: Option<Relative>,
    /// The published table whose values are drawn beside.
    pub table: Option<String>,
    /// Beyond what was measured a model is drawn, up to the greatest published x.
    #[serde(default)]
    pub model: bool,
}

/// Which axes are logarithmic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Log {
    /// Both.
    Both,
    /// That of the parameter.
    X,
    /// None.
    None,
}

/// What values are relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Relative {
    /// The first line at the same x.
    Line,
    /// The first point of the same line.
    Start,
}

impl Figure {
    /// `RZAIA figure 3.2`; `ISC section 5.2`.
    pub fn place(&self) -> String {
        let (who, number) = self.id.split_once('-').unwrap_or((&self.id, ""));
        match who {
            "rzaia" => format!("RZAIA figure {number}"),
            "isc" => format!("ISC section {number}"),
            _ => "Nominet".to_owned(),
        }
    }

    /// The name of a line.
    pub fn name(&self, line: usize) -> String {
        self.names.get(line).cloned().unwrap_or_else(|| self.lines[line].join(", "))
    }

    /// Whether a trial with these parameters belongs to it; if so, to which line.
    pub fn line_of(&self, param: &dyn Fn(&str) -> Option<String>) -> Option<usize> {
        let has = |name: &str, wanted: &str| same(&param(name).unwrap_or_default(), wanted);
        let fits = self.only.iter().all(|(name, values)| values.iter().any(|wanted| has(name, wanted)));
        let is = |line: &Vec<String>| self.by.iter().zip(line).all(|(name, wanted)| has(name, wanted));
        fits.then(|| self.lines.iter().position(is)).flatten()
    }

    /// Why it cannot be used, if so.
    fn fault(&self) -> Option<String> {
        let unknown = self.only.keys().chain(&self.by).find(|name| measure::params::find(name).is_none());
        if let Some(name) = unknown {
            return Some(format!("{}: there is no parameter '{name}'", self.id));
        }
        if self.lines.iter().any(|line| line.len() != self.by.len()) {
            return Some(format!("{}: a line has as many values as `by` has parameters", self.id));
        }
        if !self.names.is_empty() && self.names.len() != self.lines.len() {
            return Some(format!(
                "{}: there are {} names for {} lines",
                self.id,
                self.names.len(),
                self.lines.len()
            ));
        }
        if (self.draw == Draw::Not) != self.lines.is_empty() {
            return Some(format!("{}: a plot has lines, and nothing else has", self.id));
        }
        if self.draw == Draw::Not && self.note.is_empty() {
            return Some(format!("{}: why is it not drawn?", self.id));
        }
        None
    }
}

/// Whether two values of a parameter are the same: as texts, or as numbers.
fn same(one: &str, other: &str) -> bool {
    let number = |text: &str| units::count(text).ok().map(|n| n as f64).or_else(|| text.parse::<f64>().ok());
    one == other || number(one).is_some_and(|n| number(other) == Some(n))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    figure: Vec<Figure>,
}

/// Reads figures, and checks them.
///
/// # Errors
/// A sentence that says what is wrong, and where.
pub fn parse(text: &str) -> Result<Vec<Figure>, String> {
    let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
    match file.figure.iter().find_map(Figure::fault) {
        Some(fault) => Err(fault),
        None => Ok(file.figure),
    }
}

static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    parse(include_str!("../../data/figures.toml")).expect("the figures built in are checked by a test")
});

/// All figures of the papers, in their order.
pub fn all() -> &'static [Figure] {
    &FIGURES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_are_told_apart_by_their_parameters() {
        let figure = all().iter().find(|f| f.id == "rzaia-3.2").unwrap();
        let line = |kind: &str, size: &str| {
            figure.line_of(&|name| {
                let value = match name {
                    "measure" => "latency",
                    "kind" => kind,
                    "family" => "U-4-DS0",
                    "rate" => "5000",
                    "traffic" => "rzaia",
                    "zone_size" => size,
                    _ => return None,
                };
                Some(value.to_owned())
            })
        };
        assert_eq!((line("bind", "10000"), line("nsd", "10000"), line("bind", "300")), (Some(1), None, None));
        assert_eq!((figure.place(), figure.name(3)), ("RZAIA figure 3.2".to_owned(), "1M".to_owned()));
    }

    #[test]
    fn every_numbered_figure_is_there() {
        let ids: Vec<&str> = all().iter().map(|f| f.id.as_str()).collect();
        let chapters = [(1, 1), (2, 5), (3, 37), (4, 6), (5, 6), (6, 11)];
        let wanted = chapters
            .iter()
            .flat_map(|&(chapter, last)| (1..=last).map(move |n| format!("rzaia-{chapter}.{n}")));
        let missing: Vec<String> = wanted.filter(|id| !ids.contains(&id.as_str())).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), ids.len());
    }

    #[test]
    fn a_wrong_figure_is_refused() {
        let good = "[[figure]]\nid = \"rzaia-9.1\"\ntitle = \"A\"\ndraw = { latency = {} }\nby = [\"kind\"]\nlines = [[\"bind\"]]\n";
        assert!(parse(good).is_ok());
        for (from, to, says) in [
            ("\"kind\"", "\"king\"", "no parameter 'king'"),
            ("[\"bind\"]", "[\"bind\", \"1\"]", "as many values"),
            ("lines", "names = [\"a\", \"b\"]\nlines", "2 names for 1 lines"),
            ("[[\"bind\"]]", "[]", "a plot has lines"),
            ("title", "titel", "unknown field"),
        ] {
            let error = parse(&good.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
