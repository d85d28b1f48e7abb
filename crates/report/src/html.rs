//! One HTML file that needs nothing else: style, figures and tables are inside.

use crate::Error;
use crate::cells::Run;
use crate::compare::View;
use crate::view::{self, Chapter};
use crate::{ranking, scenarios};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, context};
use results::RunDir;
use results::compare::Comparison;
use serde::Serialize;

/// The style of all pages.
pub const STYLE: &str = include_str!("../templates/style.css");

/// What stands around a report that is a page of others.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Frame {
    /// In the head of the page, in place of the style: HTML.
    pub head: String,
    /// Before the report: HTML.
    pub top: String,
}

/// The report of one or several runs as one self-contained page: no scripts, no external resources.
///
/// # Errors
/// Where a `run.toml` is not TOML, or the template fails.
pub fn html(dirs: &[RunDir]) -> Result<String, Error> {
    page(dirs, None)
}

/// The same within a frame; the report itself is the element `main` with the id `report`.
///
/// # Errors
/// As [`html`].
pub fn html_within(dirs: &[RunDir], frame: &Frame) -> Result<String, Error> {
    page(dirs, Some(frame))
}

fn page(dirs: &[RunDir], frame: Option<&Frame>) -> Result<String, Error> {
    let runs = dirs.iter().map(Run::new).collect::<Result<Vec<_>, _>>()?;
    let chapters: Vec<Chapter> = runs.iter().enumerate().map(|(i, run)| view::chapter(run, i)).collect();
    let (beside, rankings) = (scenarios::runs(dirs), ranking::rankings(&runs));
    let values = context! { style => STYLE, frame => Serde(frame), beside => Serde(beside), rankings => Serde(rankings), about_rankings => ranking::ABOUT, chapters => Serde(chapters) };
    render("report.html", include_str!("../templates/report.html"), values)
}

/// A comparison as a section of a page.
///
/// # Errors
/// Where the template fails.
pub fn comparison_html(comparison: &Comparison) -> Result<String, Error> {
    let values = context! { x => Serde(View::of(comparison)), anchor => "comparison" };
    render("one-comparison.html", COMPARISON, values)
}

const COMPARISON: &str = include_str!("../templates/comparison.html");

/// Fills in a template. The name ends in `.html`, which turns escaping on for everything that is not marked as safe. It may
/// include `comparison.html`.
///
/// # Errors
/// [`Error::Template`].
pub fn render(name: &str, template: &str, values: minijinja::Value) -> Result<String, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_template("comparison.html", COMPARISON)?;
    environment.add_template(name, template)?;
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    Ok(environment.get_template(name)?.render(values)?)
}
