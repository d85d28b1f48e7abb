//! The pages and their data.

mod compare;
mod history;
mod run;
mod runs;

pub use compare::{compare, html as compare_html};
pub use history::{history, html as history_html};
pub use run::{html as run_html, run};
pub use runs::{html as runs_html, runs};

use crate::store::Run;
use axum::http::StatusCode;
use jiff::Timestamp;
use measure::params;
use minijinja::{Value, context};
use results::RunDir;
use std::collections::BTreeSet;

/// Why a page cannot be made.
#[derive(Debug)]
pub struct Problem {
    /// The status of the response.
    pub status: StatusCode,
    /// A sentence for the user.
    pub text: String,
}

impl Problem {
    /// A fault of ours, or of a run directory.
    pub fn fault(text: &str) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, text: text.into() }
    }

    /// There is no such thing.
    fn missing(text: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, text: text.into() }
    }

    /// What was asked for makes no sense.
    fn asked(text: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, text: text.into() }
    }
}

impl From<report::Error> for Problem {
    fn from(error: report::Error) -> Self {
        Self::fault(&error.to_string())
    }
}

impl From<results::Error> for Problem {
    fn from(error: results::Error) -> Self {
        Self::fault(&error.to_string())
    }
}

impl From<serde_json::Error> for Problem {
    fn from(error: serde_json::Error) -> Self {
        Self::fault(&error.to_string())
    }
}

/// The links and the style in the head of each page.
const HEAD: &str = "<link rel=\"icon\" href=\"/icon.svg\"><link rel=\"stylesheet\" href=\"/style.css\"><script src=\"/pages.js\" defer></script>";

/// A page of a template, with the frame of all.
fn page(title: &str, at: &str, template: &str, values: Value) -> Result<String, report::Error> {
    let body = report::render("body.html", template, values)?;
    let frame = include_str!("../templates/frame.html");
    report::render("frame.html", frame, context! { title, head => HEAD, top => top(at)?, body })
}

/// The navigation of all pages; `at` is the path of this one.
fn top(at: &str) -> Result<String, report::Error> {
    report::render("top.html", include_str!("../templates/top.html"), context! { at })
}

/// The page of a problem.
pub fn problem_html(text: &str) -> String {
    let made = page(
        "dnsrack",
        "",
        "<article><h1>This page cannot be shown</h1><p>{{ text }}</p></article>",
        context! { text },
    );
    // Only a fault in our templates can make that fail.
    made.unwrap_or_else(|_| "this page cannot be shown".into())
}

/// An instant as date and time in UTC.
fn instant(seconds: i64) -> String {
    Timestamp::from_second(seconds)
        .map_or_else(|_| "unknown".into(), |t| t.strftime("%Y-%m-%d %H:%M").to_string())
}

/// When a run began: seconds since 1970.
fn started(dir: &RunDir) -> i64 {
    dir.started().unwrap_or(0)
}

/// The experiment of a run.
fn experiment(run: &Run) -> String {
    run.dir.as_ref().ok().and_then(RunDir::planned_name).unwrap_or_else(|| "unknown".into())
}

/// The servers of a run with their versions.
fn servers(dir: &RunDir) -> Vec<String> {
    let of = |t: &results::TrialRecord| {
        let (label, version) = (t.param(params::SERVER)?, t.param(params::VERSION));
        Some(version.map_or_else(|| label.to_owned(), |version| format!("{label} {version}")))
    };
    dir.trials().iter().filter_map(of).collect::<BTreeSet<_>>().into_iter().collect()
}

/// A text in the query of an address.
fn quoted(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~/".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_in_addresses() {
        assert_eq!(quoted("a b/c-1&d=<é>"), "a%20b/c-1%26d%3D%3C%C3%A9%3E");
    }
}
