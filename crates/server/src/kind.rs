//! The kind of a name server. It is only a name here; `servers` lists the kinds and finds the driver of each.

use serde::{Serialize, Serializer};
use std::fmt;

/// A kind of name server, such as [`Kind::BIND`]. Every value is one of [`Kind::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(&'static str);

impl Kind {
    /// For the list in `servers` alone.
    pub(crate) const fn named(name: &'static str) -> Self {
        Kind(name)
    }

    /// Its name in experiments and on the command line.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
