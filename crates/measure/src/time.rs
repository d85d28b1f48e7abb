//! A duration as people write it in files: `"60s"`, `"1500ms"`.

use crate::clock::{Nanos, SECOND};
use crate::units;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

const MILLISECOND: Nanos = SECOND / 1000;

/// A duration. In files it is a text with a unit, as [`units::duration`] reads it, so a wrong one is refused with its line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Nanos);

impl Time {
    /// So many seconds.
    pub const fn seconds(n: u64) -> Self {
        Self(n * SECOND)
    }

    /// So many milliseconds.
    pub const fn millis(n: u64) -> Self {
        Self(n * MILLISECOND)
    }

    /// In seconds.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / SECOND as f64
    }

    /// For [`Deserialize`]: one that is longer than nothing.
    ///
    /// # Errors
    /// It is no duration, or zero.
    pub fn positive<'de, D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match Self::deserialize(d)? {
            Self(0) => Err(de::Error::custom("must be longer than nothing")),
            time => Ok(time),
        }
    }
}

impl From<Time> for Duration {
    fn from(time: Time) -> Self {
        Self::from_nanos(time.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        match ns {
            _ if ns.is_multiple_of(SECOND) => write!(f, "{}s", ns / SECOND),
            _ if ns.is_multiple_of(MILLISECOND) => write!(f, "{}ms", ns / MILLISECOND),
            _ => write!(f, "{}us", ns as f64 / 1e3),
        }
    }
}

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "title": "duration" })
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        units::duration(&String::deserialize(d)?).map(Self).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_goes_there_and_back() {
        for text in ["60s", "1500ms", "122500us", "0s"] {
            let time: Time = serde_json::from_value(text.into()).unwrap();
            assert_eq!(time.to_string(), text);
            assert_eq!(serde_json::to_value(time).unwrap(), text);
        }
        assert_eq!(serde_json::from_value::<Time>("10m".into()).unwrap(), Time::seconds(600));
        let wrong = serde_json::from_value::<Time>("60x".into()).unwrap_err().to_string();
        assert!(wrong.contains("'60x' is not a duration"), "{wrong}");
        let zero = Time::positive(serde_json::Value::from("0s")).unwrap_err().to_string();
        assert_eq!(zero, "must be longer than nothing");
    }
}
