//! What can go wrong, in sentences.

use crate::{cluster, storage};
use datafusion::common::DataFusionError;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder cannot be read or written.
    #[error("{}: {cause}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A source is nothing that has tables.
    #[error(
        "{}: it is no run directory, no folder of run directories, no folder of 'dnsrack trace import', no Parquet file and no capture",
        .path.display()
    )]
    NoSource {
        /// The source.
        path: PathBuf,
    },
    /// A Parquet file that cannot be read, or has other columns.
    #[error("{}: {what}", .path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Something in storage cannot be read.
    #[error("{}: {what}", .name.display())]
    Storage {
        /// Its name, with the bucket.
        name: PathBuf,
        /// Why.
        what: String,
    },
    /// A run directory cannot be read.
    #[error(transparent)]
    Run(#[from] results::Error),
    /// A capture cannot be read.
    #[error(transparent)]
    Capture(#[from] trace::read::Error),
    /// There is no query of this name.
    #[error("@{name}: there is no such query: 'dnsrack query --list' names all{}", did_you_mean(.nearest))]
    NoQuery {
        /// The name.
        name: String,
        /// The name that is most like it.
        nearest: Option<&'static str>,
    },
    /// A parameter has no value, or a value has no parameter.
    #[error("{0}")]
    Parameter(String),
    /// The statement is wrong.
    #[error("{name}:{line}:{column}: {message}\n{}", pointer(.text, *.line, *.column))]
    Sql {
        /// The file, or `SQL`.
        name: String,
        /// The statement.
        text: String,
        /// The line, from 1.
        line: u64,
        /// The character in the line, from 1.
        column: u64,
        /// What is wrong.
        message: String,
    },
    /// A scheduler or executor of a cluster cannot go on.
    #[error("{0}")]
    Cluster(String),
    /// An address that other machines reach, without permission.
    #[error(
        "{0} is an address that other machines may reach: add --allow-external. Whoever reaches it can read every file that you can read, as there is neither a password nor encryption"
    )]
    External(IpAddr),
    /// It was stopped by a signal.
    #[error("stopped")]
    Stopped,
    /// The memory that was allowed is not enough.
    #[error("{0}; allow more with --memory, or give fewer --threads")]
    Memory(String),
    /// Anything else that the engine says.
    #[error("{0}")]
    Engine(String),
}

fn did_you_mean(name: &Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("; did you mean @{name}?"))
}

/// The line, and a mark below the character.
fn pointer(text: &str, line: u64, column: u64) -> String {
    let line = text.lines().nth(line.saturating_sub(1) as usize).unwrap_or_default();
    format!("  {line}\n  {}^", " ".repeat(column.saturating_sub(1) as usize))
}

impl Error {
    /// From an I/O error at a path.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |cause| Self::Io { path, cause }
    }

    /// From what the engine says of a statement, which is in the file `name`.
    pub fn of(error: &DataFusionError, name: &str, text: &str) -> Self {
        let at = |line, column, message: String| Self::Sql {
            name: name.to_owned(),
            text: text.to_owned(),
            line,
            column,
            message,
        };
        if let Some(diagnostic) = error.diagnostic()
            && let Some(span) = diagnostic.span
        {
            let helps = diagnostic.helps.iter().map(|help| format!("; {}", help.message));
            let message = diagnostic.message.clone() + &helps.collect::<String>();
            return at(span.start.line, span.start.column, message);
        }
        match error.find_root() {
            DataFusionError::External(cause) => {
                // Our own table: its error has the file.
                Self::Engine(cause.to_string())
            }
            DataFusionError::ObjectStore(cause) => {
                Self::Engine(format!("{name}: {}", storage::text_of(cause)))
            }
            DataFusionError::ResourcesExhausted(what) => Self::Memory(what.clone()),
            DataFusionError::SQL(cause, _) => {
                let said = cause.to_string();
                let said = said.strip_prefix("sql parser error: ").unwrap_or(&said);
                let (message, place) = said.split_once(" at Line: ").unwrap_or((said, ""));
                let place =
                    place.split_once(", Column: ").map(|(line, column)| (line.parse(), column.parse()));
                match place {
                    Some((Ok(line), Ok(column))) => at(line, column, message.to_owned()),
                    // The statement ends too soon.
                    _ => {
                        let line = text.lines().count().max(1);
                        let last = text.lines().last().unwrap_or_default();
                        at(line as u64, last.chars().count() as u64 + 1, message.to_owned())
                    }
                }
            }
            DataFusionError::Execution(what) => match cluster::message_of_job(what) {
                Some(message) => Self::Cluster(format!("{name}: {message}")),
                None => Self::Engine(format!("{name}: {what}")),
            },
            // Their kinds are of no interest to those who ask.
            DataFusionError::Plan(what)
            | DataFusionError::NotImplemented(what)
            | DataFusionError::Configuration(what) => Self::Engine(format!("{name}: {what}")),
            other => Self::Engine(format!("{name}: {other}")),
        }
    }
}
