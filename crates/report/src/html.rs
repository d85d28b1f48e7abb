//! One HTML file that needs nothing else: style, figures and tables are inside.

use crate::Error;
use crate::cells::Run;
use crate::view::{self, Chapter};
use crate::{ranking, scenarios};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, context};
use results::RunDir;

/// The report of one or several runs as one self-contained page: no scripts, no external resources.
///
/// # Errors
/// Where a `run.toml` is not TOML, or the template fails.
pub fn html(dirs: &[RunDir]) -> Result<String, Error> {
    let runs = dirs.iter().map(Run::new).collect::<Result<Vec<_>, _>>()?;
    let chapters: Vec<Chapter> = runs.iter().enumerate().map(|(i, run)| view::chapter(run, i)).collect();
    let (beside, rankings) = (scenarios::runs(dirs), ranking::rankings(&runs));
    let style = include_str!("../templates/style.css");
    let values = context! { style, beside => Serde(beside), rankings => Serde(rankings), about_rankings => ranking::ABOUT, chapters => Serde(chapters) };
    render("report.html", include_str!("../templates/report.html"), values)
}

/// Fills in a template. The name ends in `.html`, which turns escaping on for everything that is not marked as safe.
///
/// # Errors
/// [`Error::Template`].
pub(crate) fn render(name: &str, template: &str, values: minijinja::Value) -> Result<String, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_template(name, template)?;
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    Ok(environment.get_template(name)?.render(values)?)
}
