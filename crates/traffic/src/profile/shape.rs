//! Shapes of names: how long their labels are.

use std::fmt;
use std::str::FromStr;
use wire::name::{MAX_LABEL, MAX_NAME};

/// The lengths of labels in octets, from the left; as text `3-8`, without labels `none`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape(Vec<u8>);

impl Shape {
    /// `None` where a length is not 1 to 63, or no name has room for them.
    pub fn new(lengths: &[u8]) -> Option<Self> {
        let octets: usize = lengths.iter().map(|&length| 1 + usize::from(length)).sum();
        let fit = lengths.iter().all(|length| (1..=MAX_LABEL as u8).contains(length)) && octets < MAX_NAME;
        fit.then(|| Self(lengths.to_vec()))
    }

    /// The lengths, from the left.
    pub fn lengths(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (n, length) in self.0.iter().enumerate() {
            write!(f, "{}{length}", if n == 0 { "" } else { "-" })?;
        }
        Ok(())
    }
}

impl FromStr for Shape {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "none" {
            return Ok(Self::default());
        }
        let lengths: Result<Vec<u8>, _> = text.split('-').map(str::parse).collect();
        Self::new(&lengths.map_err(|_| ())?).ok_or(())
    }
}
