//! `dnsrack report`: the tables of runs on the terminal, and their page.

use crate::output::{self, Common, Failure, Status};
use results::RunDir;
use serde_json::json;
use std::path::PathBuf;

/// Print the tables of runs and write report.html into the run directory
#[derive(clap::Args)]
pub struct Command {
    /// Run directories; several are put on one page
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Write the page here ('-' is standard output, then without tables) [default: DIR/report.html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run(command: Command, common: &Common) -> output::Result {
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

fn summary(run: &RunDir) -> serde_json::Value {
    let trials = run.trials();
    let valid = trials.iter().filter(|t| t.is_valid()).count();
    let failed = trials.iter().filter(|t| t.error.is_some()).count();
    json!({ "directory": run.dir(), "trials": trials.len(), "valid": valid, "failed": failed,
        "invalid": trials.len() - valid - failed })
}
