//! Text between quotes, for five syntaxes of configuration that escape differently.

use crate::error::{Error, Problem};
use std::path::Path;

/// Whether a server's configuration cannot be trusted to hold this text between quotes.
pub(crate) fn unquotable(text: &str) -> bool {
    text.chars().any(|c| c.is_control() || matches!(c, '"' | '\\' | '\''))
}

/// A path as text that every server's configuration can hold.
pub(crate) fn quotable<'a>(label: &str, field: &'static str, path: &'a Path) -> Result<&'a str, Error> {
    match path.to_str() {
        Some(text) if !unquotable(text) => Ok(text),
        _ => {
            let why = format!(
                "the path '{}' has characters (quotes, backslashes, control characters, not UTF-8) that \
                 servers' configurations cannot hold: rename it",
                path.display()
            );
            Err(Error::new(label, Problem::Spec { field, why }))
        }
    }
}
