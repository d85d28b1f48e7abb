//! One page of a run, for a decision: what was asked and answered, five rows of figures, and how to repeat it. As Markdown, or as HTML
//! that prints on one sheet of A4.

use crate::cells::Run;
use crate::decision::{Answer, Slide};
use crate::html::render;
use crate::{Error, grids, questions, scenarios, summary};
use minijinja::context;
use minijinja::value::Serde;
use results::RunDir;
use serde::Serialize;
use std::fmt::Write;

/// The page of a run.
#[derive(Debug, Serialize)]
pub struct Page {
    title: String,
    summary: Vec<String>,
    slide: Option<Slide>,
    parts: Vec<Part>,
    notes: Vec<String>,
    command: String,
}

/// Questions with their answers.
#[derive(Debug, Serialize)]
struct Part {
    heading: String,
    answers: Vec<Answer>,
}

/// Gathers the page of a run: of one with scenarios what each costs against the first, otherwise the questions that it answers.
///
/// # Errors
/// Where `run.toml` is not TOML.
pub fn page(dir: &RunDir) -> Result<Page, Error> {
    let run = Run::new(dir)?;
    let scenarios = scenarios::view(&run);
    let parts = match &scenarios {
        Some(view) => {
            let part = |d: &crate::decision::Decision| Part {
                heading: format!("{} against {}: {}", d.scenario, view.figures.columns[0], d.made),
                answers: d.answers.clone(),
            };
            view.decisions.iter().map(part).collect()
        }
        None => {
            let grids = grids::of(&run);
            let answer = |q: questions::Question| Answer { topic: q.question, text: q.answers.join(" ") };
            let answers = questions::all(&run, &grids).into_iter().map(answer).collect();
            vec![Part { heading: "Questions and answers".into(), answers }]
        }
    };
    let environment = dir.environment();
    let text = |path: &[&str]| {
        let value = path.iter().try_fold(environment, |at, key| at.get(key))?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let cores = environment.pointer("/machine/cpus").and_then(|cpus| cpus.as_u64());
    let machine = [
        text(&["machine", "cpu_model"]),
        cores.map(|n| crate::format::plural(n as usize, "core")),
        text(&["machine", "kernel"])
            .map(|kernel| format!("Linux {}", kernel.split(' ').next().unwrap_or_default())),
        crate::history::idle_cores(environment).map(str::to_owned),
    ];
    let machine: Vec<String> = machine.into_iter().flatten().collect();
    let versions = environment.get("servers").and_then(|s| s.as_array()).into_iter().flatten();
    let versions: Vec<String> = versions
        .filter_map(|s| Some(format!("{} {}", s.get("label")?.as_str()?, s.get("version")?.as_str()?)))
        .collect();
    let mut notes =
        vec!["Intervals are at 95 %, over repeats with a fresh start of the server each.".to_owned()];
    notes.extend((!machine.is_empty()).then(|| format!("Machine: {}.", machine.join(", "))));
    notes.extend((!versions.is_empty()).then(|| format!("Servers: {}.", versions.join(", "))));
    Ok(Page {
        title: run.planned("title").unwrap_or_else(|| "Report of a run".into()),
        summary: summary::sentences(&run),
        slide: scenarios.map(|view| view.slide).filter(|slide| !slide.rows.is_empty()),
        parts,
        notes,
        command: text(&["command"]).unwrap_or_default(),
    })
}

impl Page {
    /// As Markdown. Ends with a line break.
    pub fn markdown(&self) -> String {
        let mut out = format!("# {}\n", escape(&self.title));
        for sentence in &self.summary {
            let _ = write!(out, "\n{}\n", escape(sentence));
        }
        if let Some(Slide { columns, rows }) = &self.slide {
            let columns: Vec<String> = columns.iter().map(|c| escape(c)).collect();
            let _ = writeln!(out, "\n| | {} |\n|---|{}", columns.join(" | "), "---|".repeat(columns.len()));
            for (name, cells) in rows {
                let lines = |cell: &Vec<String>| {
                    cell.iter().map(|line| escape(line)).collect::<Vec<_>>().join("<br>")
                };
                let cells: Vec<String> = cells.iter().map(lines).collect();
                let _ = writeln!(out, "| **{}** | {} |", escape(name), cells.join(" | "));
            }
        }
        for Part { heading, answers } in &self.parts {
            let _ = writeln!(out, "\n## {}\n", escape(heading));
            for Answer { topic, text } in answers {
                let _ = writeln!(out, "- **{}**: {}", escape(topic), escape(text));
            }
        }
        let _ = writeln!(out);
        for note in &self.notes {
            let _ = writeln!(out, "{}  ", escape(note));
        }
        // A fence longer than any run of backticks within ends where it should.
        let longest = self.command.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        let _ = write!(out, "\nRepeat it:\n\n{fence}\n{}\n{fence}\n", self.command);
        out
    }

    /// As HTML for a sheet of A4, without anything from elsewhere.
    ///
    /// # Errors
    /// [`Error::Template`].
    pub fn html(&self) -> Result<String, Error> {
        render("page.html", include_str!("../templates/page.html"), context! { page => Serde(self) })
    }
}

/// Text that Markdown shows as it is: names of zones and servers are foreign.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
