//! The ports that clients send from.

use crate::weights::weighted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::str::FromStr;

/// From which port a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Port {
    /// A random one for each query (RFC 5452, section 9.2).
    Random,
    /// One of its own for all.
    Own,
    /// This one for all, such as 53.
    Number(u16),
}

/// Kinds of ports with their weights, by client; as text `random=7,own=2,53=1` (1 where no weight is given).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ports(pub BTreeMap<Port, f64>);

impl FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "random" => Ok(Self::Random),
            "own" => Ok(Self::Own),
            _ => match text.parse() {
                Ok(number) if number > 0 => Ok(Self::Number(number)),
                _ => Err(format!("'{text}' is not random, own or a port's number")),
            },
        }
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Random => f.write_str("random"),
            Self::Own => f.write_str("own"),
            Self::Number(number) => number.fmt(f),
        }
    }
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        weighted(text, Port::from_str).map(Self)
    }
}

impl TryFrom<String> for Ports {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Ports> for String {
    fn from(ports: Ports) -> Self {
        ports.0.iter().map(|(port, weight)| format!("{port}={weight}")).collect::<Vec<_>>().join(",")
    }
}
