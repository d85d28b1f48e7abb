//! `dnsrack report`: the tables of runs on the terminal, their page, and one page of a run for a decision.

use crate::browser::{self, Picture};
use crate::coverage;
use crate::output::{self, Common, Failure, Status};
use results::RunDir;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The form of the page for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Markdown
    Md,
    /// A picture of one A4 page, by a browser (chromium)
    Png,
    /// One A4 page to print, by a browser (chromium)
    Pdf,
}

impl Format {
    fn ending(self) -> &'static str {
        match self {
            Self::Md => "md",
            Self::Png => "png",
            Self::Pdf => "pdf",
        }
    }
}

/// Print the tables of runs and write report.html into the run directory
#[derive(clap::Args)]
pub struct Command {
    /// Run directories; several are put on one page
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Write the page here ('-' is standard output, then without tables) [default: DIR/report.html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write one page of one run instead, for a decision: its questions with their answers [default file: DIR/page.FORMAT]
    #[arg(long, value_name = "FORMAT", value_enum, conflicts_with = "coverage")]
    format: Option<Format>,
    /// Print instead, in Markdown, how many of the published values the runs below DIR have a measured one beside, and what is missing
    #[arg(long)]
    coverage: bool,
    /// Draw instead the papers' figures of the runs below DIR: one page (FILE.html), or Markdown (FILE.md) with a folder of SVG files
    /// beside it
    #[arg(long, conflicts_with_all = ["coverage", "format"], requires = "output")]
    figures: bool,
    /// With --coverage: the memory of the machine that missing values are to fit into [default: this machine's]
    #[arg(long, value_name = "BYTES", value_parser = measure::units::count, requires = "coverage")]
    memory: Option<u64>,
}

/// Runs the command.
pub fn run(command: Command, common: &Common) -> output::Result {
    if command.coverage {
        return of_published(&command, common);
    }
    if command.figures {
        return figures(&command, common);
    }
    if let Some(format) = command.format {
        return match command.dirs.as_slice() {
            [dir] => one_page(dir, format, command.output.as_deref(), common),
            _ => Err(Failure::usage("--format makes a page of one run: name one run directory")),
        };
    }
    let page = match (&command.output, command.dirs.as_slice()) {
        (Some(page), _) => page.clone(),
        (None, [dir]) => dir.join("report.html"),
        // None of the runs owns a page about all of them.
        (None, _) => {
            return Err(Failure::usage("several run directories share one page: name its file with -o FILE"));
        }
    };
    // Everything is read and made before anything is written.
    let runs = command.dirs.iter().map(|dir| RunDir::open(dir)).collect::<Result<Vec<_>, _>>()?;
    let html = report::html(&runs)?;
    let tables = runs.iter().map(report::terminal).collect::<Result<Vec<_>, _>>()?.join("\n");
    let to_stdout = page.as_os_str() == "-";
    if to_stdout && common.json {
        return Err(Failure::usage("--json and -o - both want standard output: give one of them"));
    }
    // The tables are printed even where the page cannot be written.
    if !common.json && !to_stdout {
        output::print(&report::side_by_side(&runs)?)?;
        output::print(&tables)?;
    }
    output::write_output(&page, |out| Ok(out.write_all(html.as_bytes())?))?;
    if common.json {
        let all: Vec<_> = runs.iter().map(summary).collect();
        output::json("report", &json!({ "report": page, "runs": all }))?;
    } else if !to_stdout {
        output::print(&format!("\nreport: {}\n", page.display()))?;
    }
    Ok(Status::Done)
}

/// Writes the page of a run into its directory; where it is.
pub fn write_page(run: &RunDir) -> Result<PathBuf, Failure> {
    let (html, page) = (run.dir().join("report.html"), report::html(std::slice::from_ref(run))?);
    output::write_output(&html, |out| Ok(out.write_all(page.as_bytes())?))?;
    Ok(html)
}

/// Prints what the runs below some folders have of the published values.
fn of_published(command: &Command, common: &Common) -> output::Result {
    let kept = coverage::Kept::below(&command.dirs)?;
    let memory = command.memory.unwrap_or_else(|| ::rack::environment(&[]).memory);
    let coverage = coverage::of(&kept, memory)?;
    match (&command.output, common.json) {
        (Some(_), true) => return Err(Failure::usage("--json and -o: give one of them")),
        (_, true) => output::json("report.coverage", &coverage.json())?,
        (to, false) => {
            let page = coverage.markdown()?;
            let to = to.as_deref().unwrap_or(Path::new("-"));
            output::write_output(to, |out| Ok(out.write_all(page.as_bytes())?))?;
        }
    }
    Ok(Status::Done)
}

/// Draws the papers' figures of the runs below some folders.
fn figures(command: &Command, common: &Common) -> output::Result {
    let to = command.output.as_deref().expect("it is required");
    let stem = to.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let runs = coverage::Kept::below(&command.dirs)?.runs;
    let gallery = report::gallery(&runs);
    let mut files = Vec::new();
    match to.extension().and_then(|ending| ending.to_str()) {
        Some("html") => files.push((to.to_owned(), gallery.html()?)),
        Some("md") => {
            let folder = to.with_extension("");
            std::fs::create_dir_all(&folder)
                .map_err(|e| Failure { code: 1, message: format!("{}: {e}", folder.display()) })?;
            files.extend(gallery.pictures().into_iter().map(|(name, svg)| (folder.join(name), svg)));
            files.push((to.to_owned(), gallery.markdown(&stem)));
        }
        _ => return Err(Failure::usage("--figures writes FILE.html or FILE.md: name one of them with -o")),
    }
    for (file, text) in &files {
        output::write_output(file, |out| Ok(out.write_all(text.as_bytes())?))?;
    }
    match common.json {
        true => output::json("report.figures", &json!({ "page": to, "files": files.len() }))?,
        false => output::print(&format!("figures: {}\n", to.display()))?,
    }
    Ok(Status::Done)
}

/// Writes the page of one run for a decision.
fn one_page(dir: &Path, format: Format, output: Option<&Path>, common: &Common) -> output::Result {
    let to = output.map_or_else(|| dir.join(format!("page.{}", format.ending())), Path::to_owned);
    if to.as_os_str() == "-" && common.json {
        return Err(Failure::usage("--json and -o - both want standard output: give one of them"));
    }
    let run = RunDir::open(dir)?;
    let page = report::page(&run)?;
    let bytes = match format {
        Format::Md => page.markdown().into_bytes(),
        Format::Png => browser::draw(&page.html()?, Picture::Png)?,
        Format::Pdf => browser::draw(&page.html()?, Picture::Pdf)?,
    };
    output::write_output(&to, |out| Ok(out.write_all(&bytes)?))?;
    if common.json {
        output::json("report", &json!({ "report": to, "runs": [summary(&run)] }))?;
    } else if to.as_os_str() != "-" {
        output::print(&format!("page: {}\n", to.display()))?;
    }
    Ok(Status::Done)
}

fn summary(run: &RunDir) -> serde_json::Value {
    let trials = run.trials();
    let valid = trials.iter().filter(|t| t.is_valid()).count();
    let failed = trials.iter().filter(|t| t.error.is_some()).count();
    json!({ "directory": run.dir(), "trials": trials.len(), "valid": valid, "failed": failed,
        "invalid": trials.len() - valid - failed })
}
