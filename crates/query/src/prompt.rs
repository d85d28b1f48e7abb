//! The prompt: statements that end with a semicolon, with history and completion.

use crate::{Runtimes, Statement, answer};
use query::output::Format;
use query::{Error, Session, functions, shipped};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Words of SQL that are completed.
const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "HAVING",
    "LIMIT",
    "JOIN",
    "USING",
    "DISTINCT",
    "COUNT(*)",
    "FILTER",
    "DESCRIBE",
    "SHOW TABLES",
    "EXPLAIN",
    "BETWEEN",
    "DESC",
    "median(",
    "date_trunc(",
    "approx_percentile_cont(",
];

/// Completes the word before the cursor.
struct Words(Vec<String>);

impl Words {
    async fn of(session: &Session) -> Self {
        let mut words: Vec<String> = WORDS.iter().map(|word| (*word).to_owned()).collect();
        for (table, columns) in session.tables().await {
            words.push(table);
            words.extend(columns);
        }
        words.extend(
            functions::ALL.iter().filter_map(|(call, ..)| Some(call.split_once('(')?.0.to_owned() + "(")),
        );
        words.extend(shipped::ALL.iter().map(|query| format!("@{}", query.name)));
        words.sort();
        words.dedup();
        Self(words)
    }
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let inside = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '@' | '-' | '.'));
        let start =
            line[..at].rfind(inside).map_or(0, |n| n + line[n..].chars().next().map_or(1, char::len_utf8));
        let begun = line[start..at].to_ascii_lowercase();
        let fits = |word: &&String| !begun.is_empty() && word.to_ascii_lowercase().starts_with(&begun);
        Ok((start, self.0.iter().filter(fits).cloned().collect()))
    }
}

impl Hinter for Words {
    type Hint = String;
}
impl Highlighter for Words {}
impl Validator for Words {}
impl Helper for Words {}

/// Where statements are kept: beside what other programs remember of their users.
fn history() -> Option<PathBuf> {
    let of = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")))?.join("dnsrack");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("query-history"))
}

/// Reads statements until the end of the input, and answers each.
///
/// # Errors
/// A terminal that cannot be read.
pub fn run(runtimes: &Runtimes, session: &Arc<Session>, set: &[(String, String)]) -> Result<(), Error> {
    let failed = |error: ReadlineError| Error::Engine(format!("the prompt: {error}"));
    let mut editor: Editor<Words, DefaultHistory> = Editor::new().map_err(failed)?;
    editor.set_helper(Some(runtimes.work.block_on(Words::of(session))));
    let history = history();
    if let Some(path) = &history {
        // The first time there is none.
        let _ = editor.load_history(path);
    }
    println!("Tables: {}", runtimes.work.block_on(names(session)));
    println!("A statement ends with a semicolon. @NAME is a query that comes with dnsrack. Ctrl-D ends.");
    let mut text = String::new();
    loop {
        match editor.readline(if text.is_empty() { "dnsrack> " } else { "    ...> " }) {
            Ok(line) => text = format!("{text}{line}\n"),
            Err(ReadlineError::Interrupted) => {
                text.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failed(error)),
        }
        let whole = text.trim().to_owned();
        let statement = whole.trim_end_matches(';').trim();
        if statement.is_empty() || matches!(statement, "quit" | "exit") {
            if !statement.is_empty() {
                break;
            }
            text.clear();
            continue;
        }
        if !whole.ends_with(';') && !whole.starts_with('@') {
            continue;
        }
        // That it cannot be kept is no reason not to answer.
        let _ = editor.add_history_entry(&whole);
        let done = Statement::of(statement, set)
            .and_then(|statement| answer(runtimes, session, statement, Format::Table, Path::new("-")));
        if let Err(error) = done {
            eprintln!("{error}");
        }
        text.clear();
    }
    if let Some(path) = &history {
        let _ = editor.save_history(path);
    }
    Ok(())
}

/// The tables, each with the number of its columns.
async fn names(session: &Session) -> String {
    let tables = session.tables().await;
    let all: Vec<_> =
        tables.iter().map(|(name, columns)| format!("{name} ({} columns)", columns.len())).collect();
    all.join(", ")
}
