//! Two traces beside each other: RZAIA's baseline check (seed 003, section 3.2.6) in numbers.
//!
//! Each characteristic is a distribution over queries or answers, of categories (types, codes) or of numbers (sizes,
//! latency). The effect size is a distance from 0 to 1 with its interval ([`stats::Effect`]).

use crate::facts::report::asked_to_text;
use crate::facts::{Facts, Sizes};
use measure::{Histogram, Seed};
use serde::Serialize;
use stats::Effect;
use std::collections::BTreeMap;
use wire::rcode;

/// Categories that are shown of a characteristic; the effect is that of all.
const SHOWN: usize = 12;

/// Two traces compared.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Each characteristic, those of queries first.
    pub characteristics: Vec<Characteristic>,
    /// From which distance on a difference counts, as a share.
    pub threshold: f64,
    /// Characteristics whose distance is above the threshold for certain: the lower end of its interval is.
    pub different: Vec<String>,
    /// Distributions of which only one trace has anything.
    pub one_sided: Vec<String>,
}

/// A characteristic of both traces.
#[derive(Clone, Debug, Serialize)]
pub struct Characteristic {
    /// Its name.
    pub name: String,
    /// The unit of the counts: queries, answers, windows, clients' ranks.
    pub of: &'static str,
    /// How many there are in the first trace and in the second.
    pub counts: [u64; 2],
    /// Both distributions.
    pub distribution: Distribution,
    /// How much they differ; null where one is empty.
    pub effect: Option<Size>,
    /// All this in a sentence.
    pub sentence: String,
}

/// Both distributions: the first trace's, the second's.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Shares by category, the most frequent first, at most twelve; the others as `other`.
    Categories(Vec<(String, [f64; 2])>),
    /// Numbers: their unit and quantiles.
    Numbers {
        /// Octets, microseconds or queries per second.
        unit: &'static str,
        /// Quantiles: p10, p50, p90, p99, and the mean.
        quantiles: BTreeMap<&'static str, [f64; 2]>,
    },
}

/// An effect size: see [`Effect`].
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Size {
    /// From 0 to 1.
    pub distance: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The distance that sampling alone stays below 95 times of 100.
    pub by_chance: f64,
}

impl From<Effect> for Size {
    fn from(e: Effect) -> Self {
        Self { distance: e.distance, low: e.low, high: e.high, by_chance: e.by_chance }
    }
}

/// Two traces that are being compared.
struct Pair<'a> {
    facts: [&'a Facts; 2],
    threshold: f64,
    seed: Seed,
    out: Comparison,
}

/// Compares two traces; a difference counts where its distance is above `threshold` (0 to 1) for certain. The intervals are
/// resampled with `seed`.
pub fn compare(a: &Facts, b: &Facts, threshold: f64, seed: Seed) -> Comparison {
    let out = Comparison { characteristics: vec![], threshold, different: vec![], one_sided: vec![] };
    let mut pair = Pair { facts: [a, b], threshold, seed, out };
    pair.queries();
    pair.answers();
    pair.out
}

fn yes_no(yes: u64, all: u64) -> BTreeMap<String, u64> {
    [("yes".to_owned(), yes), ("no".to_owned(), all - yes.min(all))].into()
}

impl Pair<'_> {
    fn queries(&mut self) {
        self.categories("type", "queries", |f| {
            f.types.iter().map(|(&asked, a)| (asked_to_text(asked), a.count)).collect()
        });
        self.categories("EDNS size and DO", "queries", |f| {
            let mut all: BTreeMap<String, u64> = BTreeMap::new();
            for (sizes, with) in f.queries.edns_sizes.iter().zip(["", " DO"]) {
                sizes.iter().for_each(|(size, &n)| _ = all.insert(format!("{size}{with}"), n));
            }
            all.insert("none".into(), f.counts.queries - f.queries.edns);
            all
        });
        self.categories("EDNS", "queries", |f| yes_no(f.queries.edns, f.counts.queries));
        self.categories("DO", "queries", |f| yes_no(f.queries.do_bit, f.counts.queries));
        self.categories("RD", "queries", |f| yes_no(f.recursive.count, f.counts.queries));
        self.categories("transport", "queries", |f| {
            [("UDP".into(), f.queries.transport[0]), ("TCP".into(), f.queries.transport[1])].into()
        });
        self.categories("family", "queries", |f| {
            [("IPv4".into(), f.queries.family[0]), ("IPv6".into(), f.queries.family[1])].into()
        });
        self.categories("DF", "queries over UDP", |f| yes_no(f.queries.df, f.queries.transport[0]));
        self.categories("UDP checksum", "queries over UDP", |f| {
            f.queries.checksums.iter().map(|(state, &n)| (format!("{state:?}").to_lowercase(), n)).collect()
        });
        self.categories("labels", "queries", |f| {
            f.queries.labels.iter().map(|(labels, &n)| (labels.to_string(), n)).collect()
        });
        self.sizes("name size", "queries", |f| f.queries.name_octets.clone());
        self.sizes("query size", "queries", |f| {
            let mut all = f.queries.sizes[0].clone();
            all.merge(&f.queries.sizes[1]);
            all
        });
        self.categories("rank of the client", "queries", ranks);
        self.rates();
    }

    fn answers(&mut self) {
        self.categories("rcode", "answers", |f| {
            let all = f.responses.rcodes.iter();
            all.map(|(&code, sizes)| (rcode::extended_to_text(code), sizes.count())).collect()
        });
        self.categories("answered", "queries", |f| {
            // A trace of queries alone says nothing about answers.
            if f.counts.responses == 0 {
                return BTreeMap::new();
            }
            let all = f.answered();
            yes_no(all.count - all.unanswered, all.count)
        });
        for (kind, with) in ["without EDNS", "with EDNS, no DO", "with DO"].into_iter().enumerate() {
            self.categories(&format!("truncated, {with}"), "answers over UDP", |f| {
                yes_no(f.truncated[kind].count, f.truncated[kind].answers)
            });
        }
        self.categories("truncated", "answers over UDP", |f| {
            let all = f.all_truncated();
            yes_no(all.count, all.answers)
        });
        self.categories("asked for again over TCP", "truncated answers", |f| {
            let all = f.all_truncated();
            yes_no(all.retried, all.count)
        });
        self.sizes("response size over UDP", "answers", |f| f.responses.sizes[0].clone());
        self.sizes("response size over TCP", "answers", |f| f.responses.sizes[1].clone());
        for code in [0, 3] {
            let name = format!("response size of {}", rcode::extended_to_text(code));
            self.sizes(&name, "answers", |f| f.responses.rcodes.get(&code).cloned().unwrap_or_default());
        }
        for (tcp, name) in ["latency over UDP", "latency over TCP"].into_iter().enumerate() {
            self.latency(name, |f| &f.latency[tcp]);
        }
    }

    fn categories(&mut self, name: &str, of: &'static str, get: impl Fn(&Facts) -> BTreeMap<String, u64>) {
        let [a, b] = self.facts.map(get);
        let mut all: Vec<(&String, [u64; 2])> = Vec::new();
        for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
            all.push((key, [&a, &b].map(|counts| counts.get(key).copied().unwrap_or(0))));
        }
        all.sort_by_key(|&(key, [a, b])| (std::cmp::Reverse(a + b), key));
        let [first, second] = [0, 1].map(|n| all.iter().map(|(_, counts)| counts[n]).collect::<Vec<u64>>());
        let sums = [first.iter().sum::<u64>(), second.iter().sum()];
        let effect = Effect::of_categories(&first, &second, self.seed);
        let shares = |counts: [u64; 2]| [0, 1].map(|n| counts[n] as f64 / sums[n].max(1) as f64);
        let mut shown: Vec<(String, [f64; 2])> = Vec::new();
        for (n, &(key, counts)) in all.iter().enumerate() {
            match shown.get_mut(SHOWN) {
                Some((_, rest)) => rest.iter_mut().zip(shares(counts)).for_each(|(sum, share)| *sum += share),
                None => shown.push((if n == SHOWN { "other".into() } else { key.clone() }, shares(counts))),
            }
        }
        // Where they differ most, for the sentence.
        let gap = |&&(_, [a, b]): &&(String, [f64; 2])| (a - b).abs();
        let most = shown.iter().max_by(|x, y| gap(x).total_cmp(&gap(y)));
        let place = most.map(|(key, [a, b])| {
            let key = if shown.len() == 2 && shown.iter().any(|(key, _)| key == "yes") { name } else { key };
            let (a, b) = if most.is_some_and(|(key, _)| key == "no") { (1.0 - a, 1.0 - b) } else { (*a, *b) };
            format!("most in {key}: {:.2} % and {:.2} %", a * 100.0, b * 100.0)
        });
        self.push(name, of, sums, Distribution::Categories(shown), effect, place);
    }

    fn sizes(&mut self, name: &str, of: &'static str, get: impl Fn(&Facts) -> Sizes) {
        let counts = self.facts.map(|facts| {
            get(facts).iter().map(|(size, n)| (u64::from(size), n)).collect::<BTreeMap<u64, u64>>()
        });
        self.numbers(name, of, "octets", counts, 1.0);
    }

    fn latency(&mut self, name: &str, get: impl Fn(&Facts) -> &Histogram) {
        let counts = self
            .facts
            .map(|facts| get(facts).buckets().map(|(_, high, n)| (high, n)).collect::<BTreeMap<u64, u64>>());
        self.numbers(name, "answers", "microseconds", counts, 1e-3);
    }

    fn rates(&mut self) {
        let [a, b] = self.facts.map(|facts| facts.series.window());
        // Where one trace is so long that its windows were joined, rates of windows cannot be compared.
        if a != b {
            return;
        }
        let counts = self.facts.map(|facts| {
            let mut counts = BTreeMap::new();
            let last = facts.span.map_or(0, |(_, last)| last);
            facts.series.queries(last).into_iter().for_each(|n| *counts.entry(n).or_default() += 1);
            counts
        });
        let scale = measure::clock::SECOND as f64 / a as f64;
        self.numbers("rate", "windows", "queries per second", counts, scale);
    }

    /// Numbers with their counts; times `scale` they are in `unit`.
    fn numbers(
        &mut self,
        name: &str,
        of: &'static str,
        unit: &'static str,
        [a, b]: [BTreeMap<u64, u64>; 2],
        scale: f64,
    ) {
        let mut values: Vec<u64> = a.keys().chain(b.keys()).copied().collect();
        values.sort_unstable();
        values.dedup();
        let counts = |map: &BTreeMap<u64, u64>| -> Vec<u64> {
            values.iter().map(|value| map.get(value).copied().unwrap_or(0)).collect()
        };
        let (first, second) = (counts(&a), counts(&b));
        let sums = [first.iter().sum::<u64>(), second.iter().sum()];
        let effect = Effect::of_numbers(&first, &second, self.seed);
        let quantile = |counts: &[u64], sum: u64, q: f64| {
            let wanted = ((sum as f64 * q).ceil() as u64).max(1);
            let mut below = 0;
            let at = counts.iter().position(|n| {
                below += n;
                below >= wanted
            });
            at.map_or(0.0, |at| values[at] as f64 * scale)
        };
        let mean = |counts: &[u64], sum: u64| {
            let all: f64 = values.iter().zip(counts).map(|(&v, &n)| v as f64 * n as f64).sum();
            all * scale / sum.max(1) as f64
        };
        let mut quantiles: BTreeMap<&'static str, [f64; 2]> =
            [("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99)]
                .map(|(name, q)| (name, [quantile(&first, sums[0], q), quantile(&second, sums[1], q)]))
                .into();
        quantiles.insert("mean", [mean(&first, sums[0]), mean(&second, sums[1])]);
        let [a, b] = quantiles["p50"];
        let place = format!("medians {a:.1} and {b:.1} {unit}");
        self.push(name, of, sums, Distribution::Numbers { unit, quantiles }, effect, Some(place));
    }

    fn push(
        &mut self,
        name: &str,
        of: &'static str,
        counts: [u64; 2],
        distribution: Distribution,
        effect: Option<Effect>,
        place: Option<String>,
    ) {
        if counts == [0, 0] {
            return;
        }
        let sentence = match effect {
            None => {
                self.out.one_sided.push(name.to_owned());
                let has = if counts[0] == 0 { "second" } else { "first" };
                format!("only the {has} trace has {of}: nothing to compare")
            }
            Some(effect) => {
                if effect.low > self.threshold {
                    self.out.different.push(name.to_owned());
                }
                sentence(of, &effect, self.threshold, place)
            }
        };
        let (name, effect) = (name.to_owned(), effect.map(Size::from));
        self.out.characteristics.push(Characteristic { name, of, counts, distribution, effect, sentence });
    }
}

fn sentence(of: &str, e: &Effect, threshold: f64, place: Option<String>) -> String {
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let place = place.map_or_else(String::new, |place| format!(" ({place})"));
    if !e.is_shown() {
        return format!("no difference can be shown: at most {} of the {of} differ{place}", percent(e.high));
    }
    let range = format!("{} to {} of the {of} differ", percent(e.low), percent(e.high));
    let words = if e.low > threshold {
        "different: "
    } else if e.high <= threshold {
        "a small difference: "
    } else {
        "perhaps different: "
    };
    format!("{words}{range}{place}")
}

/// Queries by how much their client asks, the first being who asks most: the heavier few, and the long tail.
fn ranks(facts: &Facts) -> BTreeMap<String, u64> {
    let counts = facts.clients.counts();
    let mut all = BTreeMap::new();
    let mut left = facts.clients.queries();
    let (mut from, mut to) = (0usize, 1usize);
    while from < counts.len() && to <= 1000 {
        let sum: u64 = counts[from..to.min(counts.len())].iter().sum();
        all.insert(if to == 1 { "1".into() } else { format!("{} to {to}", from + 1) }, sum);
        left -= sum;
        (from, to) = (to, to * 10);
    }
    all.insert("further".into(), left);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Collector;
    use crate::read::{Options, Reader};
    use std::io::Cursor;
    use std::path::Path;

    /// A trace of `count` queries with answers, of which every `nth` is for AAAA, answers being `more` octets longer.
    fn trace(count: u32, nth: u32, more: usize) -> Facts {
        let mut file = [&0xa1b2_3c4du32.to_be_bytes()[..], &[0; 16], &101u32.to_be_bytes()].concat();
        for n in 0..count {
            let mut query = Vec::new();
            wire::query::write(&mut query, n as u16, b"\x03com\0", if n % nth == 0 { 28 } else { 1 }, None);
            let mut answer = query.clone();
            wire::header::set_qr(&mut answer);
            answer.resize(answer.len() + more + n as usize % 16, 0);
            let ports = [40_000 + (n % 1000) as u16, 53];
            for (message, [from, to], late) in
                [(query, ports, 0), (answer, [ports[1], ports[0]], 50_000 + n % 100 * 100)]
            {
                let builder =
                    etherparse::PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 1], 64).udp(from, to);
                let mut packet = Vec::new();
                builder.write(&mut packet, &message).unwrap();
                let header =
                    [1 + n / 1000, n % 1000 * 1_000_000 + late, packet.len() as u32, packet.len() as u32];
                file.extend(header.iter().flat_map(|field| field.to_be_bytes()));
                file.extend_from_slice(&packet);
            }
        }
        let mut reader =
            Reader::from_read(Path::new("memory"), Cursor::new(file), &Options::default()).unwrap();
        let mut collector = Collector::new(reader.origin().unwrap(), measure::clock::SECOND);
        while let Some(event) = reader.next_event().unwrap() {
            collector.add(&event);
        }
        collector.finish(&reader)
    }

    fn of<'a>(c: &'a Comparison, name: &str) -> &'a Characteristic {
        c.characteristics.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no {name}: {c:?}"))
    }

    #[test]
    fn alike_is_alike() {
        let (a, b) = (trace(20_000, 4, 100), trace(18_000, 4, 100));
        let c = compare(&a, &b, 0.02, Seed(1));
        assert!(c.different.is_empty() && c.one_sided.is_empty(), "{c:?}");
        let types = of(&c, "type");
        assert_eq!(types.counts, [20_000, 18_000]);
        assert!(types.sentence.starts_with("no difference can be shown"), "{}", types.sentence);
        let Distribution::Categories(shares) = &types.distribution else { panic!("{types:?}") };
        assert_eq!(shares[0], ("A".into(), [0.75, 0.75]));
    }

    #[test]
    fn differences_are_found_and_told() {
        let c = compare(&trace(20_000, 4, 100), &trace(20_000, 5, 130), 0.02, Seed(1));
        let types = of(&c, "type").effect.unwrap();
        assert!((types.distance - 0.05).abs() < 1e-9 && types.low > 0.03 && types.high < 0.07, "{types:?}");
        assert_eq!(
            of(&c, "response size over UDP").effect.unwrap().distance,
            1.0,
            "sizes have nothing in common"
        );
        let sentence = &of(&c, "type").sentence;
        assert!(
            sentence.starts_with("different: ") && sentence.contains("75.00 % and 80.00 %"),
            "{sentence}"
        );
        assert!(c.different.contains(&"type".into()) && !c.different.contains(&"EDNS".into()), "{c:?}");
    }

    #[test]
    fn a_trace_without_answers_is_compared_in_its_queries() {
        let mut queries = trace(1000, 4, 100);
        queries.counts.responses = 0;
        queries.responses = Default::default();
        queries.latency = Default::default();
        queries.truncated = Default::default();
        let c = compare(&queries, &trace(1000, 4, 100), 0.02, Seed(1));
        assert!(c.one_sided.contains(&"rcode".into()) && c.different.is_empty(), "{c:?}");
        assert!(of(&c, "rcode").sentence.contains("only the second trace"));
    }
}
