//! Results to terminal tables and one self-contained HTML file with SVG; the plot of a zone's churn.
//!
//! Both show the same [`grid`]s: a figure per server, zone type and zone size, the published cell beside
//! it, and what speaks against it. Nothing is in a report that is not in the run directory or in the
//! papers' published tables, and no trial is left out: an invalid one is shown as invalid.

mod answers;
mod appendix;
mod batches;
mod capacity;
mod cells;
mod churn;
pub mod compare;
mod costs;
mod decision;
mod durable;
mod figures;
mod format;
mod grid;
mod grids;
mod growth;
mod hardware;
mod history;
mod html;
mod junit;
mod latency;
mod lines;
pub mod live;
mod page;
mod pairs;
mod past;
mod paths;
mod peak;
mod plots;
mod questions;
mod ranking;
mod replication;
mod scenarios;
mod search;
mod summary;
mod svg;
mod terminal;
mod throughput;
mod timeline;
mod view;

pub use churn::{ChurnStep, churn};
pub use figures::{Gallery, gallery};
pub use format::value;
pub use history::{History, Point, histories};
pub use html::{Frame, STYLE, comparison_html, html, html_within, render};
pub use junit::{badge, junit};
pub use lines::{LinePlot, lines};
pub use page::{Page, page};
pub use pairs::{Pair, pairs};
pub use search::{RatePoint, SearchPlot, search_html, search_svg};
pub use terminal::{side_by_side, terminal};

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The run directory cannot be read.
    #[error(transparent)]
    Results(#[from] results::Error),
    /// `run.toml` is not TOML.
    #[error("{}: not TOML: {cause}", path.display())]
    Plan {
        /// The file.
        path: std::path::PathBuf,
        /// The parser's words.
        cause: String,
    },
    /// The page's template failed: a fault of this program.
    #[error("the report's template failed ({0}); please report this fault with the run directory")]
    Template(#[from] minijinja::Error),
}
