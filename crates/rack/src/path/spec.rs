//! A path in a rack file: the hosts that it joins, and its effects on packets.

use super::delay::Delay;
use crate::Error;
use measure::units;
use measure::{Nanos, Seed, Time};
use serde::de::{self, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Stands for every other host.
pub const EVERY: &str = "*";

/// A path of a rack that is to be: one `[[paths]]` table of its file. Which hosts: `between`, or `from` and `to`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    /// Two hosts, or a host and `*`, every other one: both directions alike, each with random draws of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<[String; 2]>,
    /// The host that sends, or `*`, where this is said of one direction only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The host that receives, or `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How long each packet takes.
    #[serde(default)]
    pub delay: Delay,
    /// For how many nanoseconds a delay that was drawn holds; 0: each packet draws its own.
    #[serde(default, with = "nanos", skip_serializing_if = "is_none")]
    pub hold: Nanos,
    /// The packets that are lost.
    #[serde(default)]
    pub loss: Loss,
    /// The share of packets that arrive twice, the copy right behind.
    #[serde(default)]
    pub duplicate: f64,
    /// The share of packets in which one bit is turned, anywhere behind the Ethernet header: checksums find it.
    #[serde(default, skip_serializing_if = "no_share")]
    pub corrupt: f64,
    /// The share of packets that are not delayed and so overtake those that are.
    #[serde(default)]
    pub reorder: f64,
    /// Whether a packet that draws a shorter delay overtakes those before it. Where it does not, it waits for them, and a
    /// delay that varies becomes a longer one: at many packets a second nearly the longest.
    #[serde(default)]
    pub jitter_reorders: bool,
    /// Bits that it carries in a second, of IP packets; none: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The queue where there is a rate; none: [`Queue::default`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// The same seed makes the same decisions about the nth packet of a direction.
    #[serde(default)]
    pub seed: Seed,
}

/// Bits a second: `"10M"`, or a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u64);

/// How much may wait: `"100ms"` of the path's rate, or a whole number of octets (of IP packets). A packet that finds an
/// empty queue is never too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// The packets that the path lets through in this time.
    Time(Nanos),
    /// Octets.
    Octets(u64),
}

impl Default for Queue {
    fn default() -> Self {
        Self::Time(100_000_000)
    }
}

impl Queue {
    /// Octets that may wait at a rate in bits a second.
    pub(crate) fn octets(self, rate: u64) -> u64 {
        match self {
            Self::Time(time) => (u128::from(time) * u128::from(rate) / 8_000_000_000) as u64,
            Self::Octets(octets) => octets,
        }
    }
}

/// Which packets are lost: a share of all, each by itself (`0.01`), or in bursts
/// (`{ share = 0.01, burst = 4 }`: Gilbert's model with the mean length of a burst in packets).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each packet with this probability.
    Random(f64),
    /// In bursts.
    Bursts(Bursts),
}

/// Loss in bursts: a path that is good or bad, where nothing or everything is lost (Gilbert 1960; the case of
/// Gilbert and Elliott's with loss probabilities 0 and 1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// Of all packets, 0 to below 1.
    pub share: f64,
    /// Mean length of a burst in packets, 1 or more.
    pub burst: f64,
}

impl Loss {
    /// The share of packets that are the first of a burst of lost ones; where each is lost by itself, the share that is lost.
    pub fn bursts(&self) -> f64 {
        match *self {
            Self::None => 0.0,
            Self::Random(share) => share,
            Self::Bursts(Bursts { share, burst }) => share / burst,
        }
    }
}

/// Durations as in files.
pub(crate) mod nanos {
    use measure::{Nanos, Time};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(nanos: &Nanos, s: S) -> Result<S::Ok, S::Error> {
        Time(*nanos).serialize(s)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Nanos, D::Error> {
        Time::deserialize(d).map(|time| time.0)
    }
}

fn no_share(share: &f64) -> bool {
    *share == 0.0
}

fn is_none(nanos: &Nanos) -> bool {
    *nanos == 0
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Bits;
        impl Visitor<'_> for Bits {
            type Value = Rate;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bits a second: \"10M\", or a whole number")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Rate, E> {
                units::count(text).map(Rate).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Rate, E> {
                Ok(Rate(n))
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Rate, E> {
                u64::try_from(n).map(Rate).map_err(|_| E::custom(format!("{n} bits a second")))
            }
        }
        d.deserialize_any(Bits)
    }
}

impl Serialize for Queue {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Time(time) => s.collect_str(&Time(*time)),
            Self::Octets(octets) => s.serialize_u64(*octets),
        }
    }
}

impl<'de> Deserialize<'de> for Queue {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Bound;
        impl Visitor<'_> for Bound {
            type Value = Queue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"100ms\", or a whole number of octets")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Queue, E> {
                units::duration(text).map(Queue::Time).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Queue, E> {
                Ok(Queue::Octets(n))
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Queue, E> {
                u64::try_from(n).map(Queue::Octets).map_err(|_| E::custom(format!("{n} octets")))
            }
        }
        d.deserialize_any(Bound)
    }
}

impl Serialize for Loss {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => s.serialize_f64(0.0),
            Self::Random(share) => s.serialize_f64(*share),
            Self::Bursts(bursts) => bursts.serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for Loss {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Lost;
        impl<'de> Visitor<'de> for Lost {
            type Value = Loss;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a share such as 0.01, or { share = 0.01, burst = 4 }")
            }
            fn visit_f64<E: de::Error>(self, share: f64) -> Result<Loss, E> {
                Ok(if share == 0.0 { Loss::None } else { Loss::Random(share) })
            }
            fn visit_i64<E: de::Error>(self, share: i64) -> Result<Loss, E> {
                self.visit_f64(share as f64)
            }
            fn visit_u64<E: de::Error>(self, share: u64) -> Result<Loss, E> {
                self.visit_f64(share as f64)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Loss, A::Error> {
                Bursts::deserialize(MapAccessDeserializer::new(map)).map(Loss::Bursts)
            }
        }
        d.deserialize_any(Lost)
    }
}

impl PathSpec {
    /// A path that does nothing to packets, in both directions between two hosts (or one and [`EVERY`]).
    pub fn between(one: impl Into<String>, other: impl Into<String>) -> Self {
        Self { between: Some([one.into(), other.into()]), ..Self::default() }
    }

    /// A path that does nothing to packets, from a host to another.
    pub fn one_way(from: impl Into<String>, to: impl Into<String>) -> Self {
        Self { from: Some(from.into()), to: Some(to.into()), ..Self::default() }
    }

    /// The hosts that it joins, in few words.
    pub fn label(&self) -> String {
        let word = |name: &Option<String>| name.clone().unwrap_or_default();
        match &self.between {
            Some([one, other]) => format!("between {one} and {other}"),
            None => format!("from {} to {}", word(&self.from), word(&self.to)),
        }
    }

    /// The directions it is said of: who sends, who receives.
    fn directions(&self) -> Result<Vec<(&str, &str)>, String> {
        match (&self.between, &self.from, &self.to) {
            (Some([one, other]), None, None) => {
                Ok(vec![(one.as_str(), other.as_str()), (other.as_str(), one.as_str())])
            }
            (None, Some(from), Some(to)) => Ok(vec![(from.as_str(), to.as_str())]),
            _ => Err("say either 'between', or 'from' and 'to'".into()),
        }
    }

    /// Whether its figures can be; says which cannot.
    fn check(&self) -> Result<(), String> {
        let share = |key: &str, value: f64| {
            let good = (0.0..=1.0).contains(&value);
            if good { Ok(()) } else { Err(format!("{key} = {value}: a share is 0 to 1")) }
        };
        self.delay.check()?;
        share("duplicate", self.duplicate)?;
        share("corrupt", self.corrupt)?;
        share("reorder", self.reorder)?;
        match self.loss {
            Loss::None => {}
            Loss::Random(lost) => share("loss", lost)?,
            Loss::Bursts(Bursts { share, burst }) => {
                if !(0.0..1.0).contains(&share) {
                    return Err(format!("loss: share = {share}: must be 0 to below 1"));
                }
                if !(burst >= 1.0 && burst.is_finite()) {
                    return Err(format!("loss: burst = {burst}: the mean length is 1 packet or more"));
                }
                // Packets that are not lost come in runs of one or more, too.
                let least = share / (1.0 - share);
                if burst < least {
                    return Err(format!(
                        "loss: with share = {share} the mean length of bursts is {least} or more"
                    ));
                }
            }
        }
        if self.hold > 0 && self.delay.least() == self.delay.greatest() {
            return Err("hold: the delay does not vary".into());
        }
        if self.reorder > 0.0 && self.delay.least() == 0 && self.delay.greatest() == 0 {
            return Err("reorder: without a delay there is nothing to overtake".into());
        }
        match (self.rate, self.queue) {
            (Some(Rate(rate)), _) if !(1_000..=1_000_000_000_000).contains(&rate) => {
                Err(format!("rate = {rate}: must be 1K to 1000G bits a second"))
            }
            (None, Some(_)) => Err("queue: without a rate nothing waits".into()),
            _ => Ok(()),
        }
    }
}

/// One direction between two hosts that packets take through the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Direction {
    /// The index of the host that sends.
    pub from: usize,
    /// The index of the host that receives.
    pub to: usize,
    /// The index of what is said of it; none: only the other direction is impaired.
    pub path: Option<usize>,
}

/// The directions that lead through the router, in the order of their hosts. A pair's two names say more than a name and
/// `*`, and this more than two `*`.
pub(crate) fn directions(hosts: &[&str], paths: &[PathSpec]) -> Result<Vec<Direction>, Error> {
    let mut said: BTreeMap<(usize, usize), BTreeSet<(usize, usize)>> = BTreeMap::new();
    for (index, path) in paths.iter().enumerate() {
        let wrong =
            |why: String| Error::Spec(format!("paths, table {} ({}): {why}", index + 1, path.label()));
        path.check().map_err(wrong)?;
        for (from, to) in path.directions().map_err(wrong)? {
            let mut known = 0;
            for name in [from, to] {
                known += usize::from(name != EVERY);
                if name != EVERY && !hosts.contains(&name) {
                    return Err(wrong(format!("no host '{name}', only {}", hosts.join(", "))));
                }
            }
            if from == to && from != EVERY {
                return Err(wrong("a path joins two hosts".into()));
            }
            let is = |name: &str, host: &str| name == EVERY || name == host;
            for (a, sender) in hosts.iter().enumerate().filter(|(_, host)| is(from, host)) {
                for (b, receiver) in hosts.iter().enumerate().filter(|(_, host)| is(to, host)) {
                    if sender != receiver {
                        said.entry((a, b)).or_default().insert((known, index));
                    }
                }
            }
        }
    }
    let mut found: BTreeMap<(usize, usize), Option<usize>> = BTreeMap::new();
    for (&(from, to), words) in &said {
        let mut words = words.iter().rev();
        let best = words.next().expect("there is an entry only where something is said");
        if words.next().is_some_and(|next| next.0 == best.0) {
            return Err(Error::Spec(format!(
                "paths: two tables say as much of {} to {}; name both hosts in one",
                hosts[from], hosts[to]
            )));
        }
        found.insert((from, to), Some(best.1));
        found.entry((to, from)).or_default();
    }
    Ok(found.into_iter().map(|((from, to), path)| Direction { from, to, path }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<PathSpec>, String> {
        #[derive(Deserialize)]
        struct File {
            paths: Vec<PathSpec>,
        }
        toml::from_str::<File>(text).map(|file| file.paths).map_err(|e| e.message().to_owned())
    }

    fn refused(keys: &str) -> String {
        let hosts = ["a", "b", "c"];
        match parse(&format!("[[paths]]\n{keys}")) {
            Ok(paths) => directions(&hosts, &paths).unwrap_err().to_string(),
            Err(message) => message,
        }
    }

    #[test]
    fn what_a_file_says_is_read_and_written_again() {
        let text = r#"
            [[paths]]
            between = ["a", "b"]
            delay = "50ms"
            loss = 0.01
            duplicate = 0.001
            reorder = 0.01
            rate = "10M"
            seed = 1
            [[paths]]
            from = "a"
            to = "*"
            delay = { normal = ["122.5ms", "500us"] }
            loss = { share = 0.02, burst = 4 }
            jitter_reorders = true
            hold = "500ms"
            rate = 64000
            queue = "1s"
            [[paths]]
            from = "c"
            to = "b"
            delay = { quantiles = [[0, "1ms"], [0.5, "2ms"], [1, "1s"]] }
            loss = 0
            rate = "1G"
            queue = 65536
            [[paths]]
            between = ["b", "c"]
            delay = { like = "rzaia-5.6" }
        "#;
        let paths = parse(text).unwrap();
        assert_eq!(paths[0].delay, Delay::Constant(50_000_000));
        assert_eq!(paths[0].loss, Loss::Random(0.01));
        assert_eq!((paths[0].rate, paths[0].queue), (Some(Rate(10_000_000)), None));
        assert_eq!(paths[1].delay, Delay::Normal { mean: 122_500_000, deviation: 500_000 });
        assert_eq!(paths[1].loss, Loss::Bursts(Bursts { share: 0.02, burst: 4.0 }));
        assert_eq!((paths[0].hold, paths[1].hold), (0, 500_000_000));
        assert_eq!(paths[1].queue, Some(Queue::Time(1_000_000_000)));
        assert_eq!((paths[2].loss, paths[2].queue), (Loss::None, Some(Queue::Octets(65_536))));
        for path in &paths {
            path.check().unwrap();
            let json = serde_json::to_string(path).unwrap();
            assert_eq!(serde_json::from_str::<PathSpec>(&json).unwrap(), *path, "{json}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_key() {
        for (keys, reason) in [
            ("between = [\"a\", \"d\"]", "no host 'd', only a, b, c"),
            ("between = [\"a\", \"a\"]", "joins two hosts"),
            ("between = [\"a\"]", "length"),
            ("from = \"a\"", "either 'between', or 'from' and 'to'"),
            ("between = [\"a\", \"b\"]\nto = \"c\"", "either 'between'"),
            ("between = [\"a\", \"b\"]\nlosses = 1", "losses"),
            ("between = [\"a\", \"b\"]\nloss = 1.5", "loss = 1.5"),
            ("between = [\"a\", \"b\"]\nloss = \"much\"", "a share such as"),
            ("between = [\"a\", \"b\"]\nloss = { share = 0.1, bursts = 3 }", "bursts"),
            ("between = [\"a\", \"b\"]\nloss = { share = 0.1, burst = 0.5 }", "burst = 0.5"),
            ("between = [\"a\", \"b\"]\nloss = { share = 0.9, burst = 2 }", "is 9"),
            ("between = [\"a\", \"b\"]\nduplicate = -1", "duplicate = -1"),
            ("between = [\"a\", \"b\"]\nreorder = 0.1", "nothing to overtake"),
            ("between = [\"a\", \"b\"]\ndelay = \"1s\"\nhold = \"1s\"", "does not vary"),
            ("between = [\"a\", \"b\"]\nrate = \"10Q\"", "10Q"),
            ("between = [\"a\", \"b\"]\nrate = 10", "rate = 10"),
            ("between = [\"a\", \"b\"]\nqueue = \"1s\"", "without a rate"),
            ("between = [\"a\", \"b\"]\ndelay = \"soon\"", "soon"),
            ("between = [\"a\", \"b\"]\ndelay = { gauss = 1 }", "gauss"),
            ("between = [\"a\", \"b\"]\n[[paths]]\nfrom = \"b\"\nto = \"a\"", "b to a; name both hosts"),
            ("between = [\"a\", \"*\"]\n[[paths]]\nbetween = [\"*\", \"b\"]", "a to b; name both hosts"),
        ] {
            let text = refused(keys);
            assert!(text.contains(reason), "{keys}: {text}");
        }
    }

    #[test]
    fn names_say_more_than_stars() {
        let hosts = ["a", "b", "c"];
        let assigned = |paths: &[PathSpec]| -> Vec<(usize, usize, Option<usize>)> {
            let all = directions(&hosts, paths).unwrap();
            all.into_iter().map(|d| (d.from, d.to, d.path)).collect()
        };
        let everybody = assigned(&[PathSpec::between("*", "*")]);
        assert_eq!(everybody.len(), 6);
        assert!(everybody.iter().all(|d| d.2 == Some(0)));
        let paths = [PathSpec::between("a", "*"), PathSpec::one_way("b", "a"), PathSpec::one_way("b", "c")];
        let expected = [
            (0, 1, Some(0)),
            (0, 2, Some(0)),
            (1, 0, Some(1)),
            (1, 2, Some(2)),
            (2, 0, Some(0)),
            // The way back of what is said of one direction.
            (2, 1, None),
        ];
        assert_eq!(assigned(&paths), expected);
        assert_eq!(assigned(&[]), []);
    }
}
