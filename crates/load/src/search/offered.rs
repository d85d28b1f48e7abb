//! One load of a search, and what the machine did meanwhile.

use crate::LoadResult;

/// The result of one load, with the state of the machine while it went on.
#[derive(Clone, Debug, Default)]
pub struct Offered {
    /// The generator's result.
    pub result: LoadResult,
    /// The share (0 to 1) of the time that the server's cores had nothing to do; none where they cannot be seen.
    pub server_idle: Option<f64>,
    /// How the machine disturbed the load, in a sentence: then it is no evidence about the server.
    pub disturbed: Option<String>,
}

impl From<LoadResult> for Offered {
    /// A load of which nothing but the result is known.
    fn from(result: LoadResult) -> Self {
        Self { result, ..Self::default() }
    }
}
