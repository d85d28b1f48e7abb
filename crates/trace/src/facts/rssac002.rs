//! RSSAC002: what operators of root servers publish of each day, in YAML.
//!
//! "RSSAC002v4: RSSAC Advisory on Measurements of the Root Server System" (RSSAC, 12 March 2020) with the header, keys and
//! bins that ICANN's own reports have (`rssac-report` of its visualizer): a document for each metric of each UTC day.
//! `load-time` and `zone-size` are none of a capture's to tell. What is counted:
//!
//! - traffic-volume: queries to the server and its responses, by transport and IP version;
//! - traffic-sizes: octets of DNS messages (over TCP without the two of their length), in bins of 16;
//! - rcode-volume: responses by code, with the upper bits of the OPT record;
//! - unique-sources: addresses that queries came from, those of IPv6 also as /64 networks: exact up to
//!   [`SOURCES_MAX`], a sketch with a stated error beyond.

use super::clients::number;
use super::read::Collect;
use crate::read::{Event, Message, Reader};
use hashbrown::HashSet;
use jiff::Timestamp;
use measure::Nanos;
use measure::clock::SECOND;
use measure::distinct::Distinct;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use wire::opt;

/// The version that documents name.
pub const VERSION: &str = "rssac002v4";

/// Sources of a day and kind that are counted one by one.
pub const SOURCES_MAX: usize = 1 << 20;

/// Octets of a bin of sizes.
const BIN: usize = 16;
/// From these sizes on requests, and responses, are in one bin.
const BINS_END: [usize; 2] = [288, 4096];

const DAY: Nanos = 86_400 * SECOND;

/// The counts behind the metrics of a trace.
#[derive(Clone, Debug, Default)]
pub struct Rssac002 {
    /// By the number of the day since 1970.
    days: BTreeMap<u64, Day>,
    span: Option<(Nanos, Nanos)>,
}

/// The counts of a day: requests, responses; each over UDP, over TCP.
#[derive(Clone, Debug, Default)]
struct Day {
    /// Over IPv4, over IPv6.
    volume: [[[u64; 2]; 2]; 2],
    /// By bin.
    sizes: [[Vec<u64>; 2]; 2],
    rcodes: BTreeMap<u16, u64>,
    /// IPv4, IPv6, networks of IPv6.
    sources: [Sources; 3],
}

/// Different sources.
#[derive(Clone, Debug, Default)]
struct Sources {
    known: HashSet<u128>,
    /// From when they were too many.
    all: Option<Distinct>,
}

impl Sources {
    fn add(&mut self, source: u128) {
        match &mut self.all {
            Some(all) => all.add(number(source)),
            None => {
                self.known.insert(source);
                if self.known.len() > SOURCES_MAX {
                    self.give_up();
                }
            }
        }
    }

    /// From one by one to a sketch.
    fn give_up(&mut self) {
        let all = self.all.get_or_insert_default();
        std::mem::take(&mut self.known).into_iter().for_each(|source| all.add(number(source)));
    }

    fn merge(&mut self, mut other: Self) {
        if other.all.is_some() || self.all.is_some() {
            self.give_up();
            other.give_up();
        }
        if let (Some(all), Some(theirs)) = (&mut self.all, &other.all) {
            all.merge(theirs);
        }
        other.known.into_iter().for_each(|source| self.add(source));
    }

    fn count(&self) -> u64 {
        self.all.as_ref().map_or(self.known.len() as u64, Distinct::count)
    }
}

impl Day {
    fn add(&mut self, message: &Message<'_>) {
        let header = message.header();
        let (kind, tcp) = (usize::from(header.qr()), usize::from(message.tcp.is_some()));
        self.volume[kind][tcp][usize::from(message.from.is_ipv6())] += 1;
        let bin = message.len.min(BINS_END[kind]) / BIN;
        let sizes = &mut self.sizes[kind][tcp];
        if bin >= sizes.len() {
            sizes.resize(bin + 1, 0);
        }
        sizes[bin] += 1;
        if header.qr() {
            let upper = opt::find(message.bytes).map_or(0, |opt| u16::from(opt.extended_rcode) << 4);
            *self.rcodes.entry(u16::from(header.rcode()) | upper).or_default() += 1;
            return;
        }
        match message.from.ip() {
            IpAddr::V4(a) => self.sources[0].add(a.to_bits().into()),
            IpAddr::V6(a) => {
                self.sources[1].add(a.to_bits());
                self.sources[2].add(a.to_bits() >> 64);
            }
        }
    }

    fn merge(&mut self, other: Self) {
        for (kind, tcp) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            for (sum, n) in self.volume[kind][tcp].iter_mut().zip(other.volume[kind][tcp]) {
                *sum += n;
            }
            let (sizes, theirs) = (&mut self.sizes[kind][tcp], &other.sizes[kind][tcp]);
            sizes.resize(sizes.len().max(theirs.len()), 0);
            sizes.iter_mut().zip(theirs).for_each(|(sum, n)| *sum += n);
        }
        super::add_all(&mut self.rcodes, &other.rcodes);
        self.sources.iter_mut().zip(other.sources).for_each(|(sum, theirs)| sum.merge(theirs));
    }
}

impl Collect for Rssac002 {
    type Facts = Self;

    fn add(&mut self, event: &Event<'_>) {
        if let Event::Message(message) = event {
            self.days.entry(message.at / DAY).or_default().add(message);
        }
    }

    fn finish(mut self, reader: &Reader) -> Self {
        self.span = reader.span();
        self
    }

    fn merge(whole: &mut Self, part: Self) {
        // Each part knows the span of the whole trace.
        whole.span = whole.span.max(part.span);
        for (day, counts) in part.days {
            whole.days.entry(day).or_default().merge(counts);
        }
    }
}

/// `2016-10-06T13:55:00Z`, of whole seconds.
fn time(at: Nanos) -> String {
    let at = Timestamp::from_nanosecond(at.into()).expect("64 bits end in the year 2554");
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => { let _ = writeln!($out, $($arg)*); };
}

impl Rssac002 {
    /// Packets were there.
    pub fn is_empty(&self) -> bool {
        self.span.is_none()
    }

    /// The YAML: documents of each day with a DNS message, in order, for the service of this name.
    pub fn yaml(&self, service: &str) -> String {
        let mut out = String::from(
            "# Counted in captures; load-time and zone-size are not visible in them, and are left out.\n",
        );
        if self.days.is_empty() {
            out += "# There is no DNS message in the captures.\n";
        }
        for (&number, day) in &self.days {
            let start = number.saturating_mul(DAY);
            let head = |metric: &str, out: &mut String| {
                line!(out, "---");
                self.say_what_is_missing(start, out);
                line!(out, "version: {VERSION}\nservice: {}", quoted(service));
                line!(out, "start-period: {}\nmetric: {metric}", time(start));
            };
            head("traffic-volume", &mut out);
            for (kind, what) in ["queries-received", "responses-sent"].iter().enumerate() {
                for (tcp, transport) in ["udp", "tcp"].iter().enumerate() {
                    for (v6, version) in ["ipv4", "ipv6"].iter().enumerate() {
                        line!(out, "dns-{transport}-{what}-{version}: {}", day.volume[kind][tcp][v6]);
                    }
                }
            }
            head("traffic-sizes", &mut out);
            for (tcp, transport) in ["udp", "tcp"].iter().enumerate() {
                for (kind, what) in ["request", "response"].iter().enumerate() {
                    sizes(
                        &format!("{transport}-{what}-sizes"),
                        &day.sizes[kind][tcp],
                        BINS_END[kind],
                        &mut out,
                    );
                }
            }
            head("rcode-volume", &mut out);
            for (code, count) in &day.rcodes {
                line!(out, "{code}: {count}");
            }
            head("unique-sources", &mut out);
            let names = ["num-sources-ipv4", "num-sources-ipv6", "num-sources-ipv6-aggregate"];
            for (name, sources) in names.iter().zip(&day.sources) {
                let sketch = match sources.all {
                    Some(_) => {
                        format!(" # estimated, with a standard error of {:.2} %", Distinct::ERROR * 100.0)
                    }
                    None => String::new(),
                };
                line!(out, "{name}: {}{sketch}", sources.count());
            }
        }
        out
    }

    /// A comment where the trace does not cover the day that begins at `start`.
    fn say_what_is_missing(&self, start: Nanos, out: &mut String) {
        let Some((first, last)) = self.span else { return };
        let end = start.saturating_add(DAY);
        // The last packet of a day that is whole comes a little before its end.
        if first > start + SECOND || last < end - SECOND {
            let (first, last) = (first.max(start), last.min(end));
            line!(out, "# Not the whole day: the captures go from {} to {}.", time(first), time(last));
        }
    }
}

/// The bins that are not empty; from `end` on they are one.
fn sizes(name: &str, bins: &[u64], end: usize, out: &mut String) {
    if bins.iter().all(|&n| n == 0) {
        line!(out, "{name}: {{}}");
        return;
    }
    line!(out, "{name}:");
    for (bin, count) in bins.iter().enumerate().filter(|&(_, &n)| n > 0) {
        let from = bin * BIN;
        let to = if from == end { String::new() } else { (from + BIN - 1).to_string() };
        line!(out, "  {from}-{to}: {count}");
    }
}

/// A string of YAML: as it is where nothing in it means anything, otherwise in single quotes (YAML 1.2.2, section 7.3.2).
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let words = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let word = words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if starts && !word && text.chars().all(plain) {
        return text.to_owned();
    }
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_sources_are_exact_and_many_estimated_however_they_are_shared_out() {
        let total = SOURCES_MAX as u128 + 1000;
        let sources_in = |range: std::ops::Range<u128>| {
            let mut sources = Sources::default();
            range.chain(0..100).for_each(|n| sources.add(n << 64 | n));
            sources
        };
        let mut few = sources_in(0..1000);
        few.merge(sources_in(500..2000));
        assert_eq!((few.count(), few.all.is_some()), (2000, false));
        let one = sources_in(0..total);
        assert!(one.all.is_some() && one.known.is_empty());
        let off = one.count().abs_diff(total as u64) as f64;
        assert!(off <= 4.0 * Distinct::ERROR * total as f64, "{}", one.count());
        for cut in [10, 700_000, total - 10] {
            let mut parts = sources_in(0..cut);
            parts.merge(sources_in(cut..total));
            assert_eq!((parts.count(), parts.all.is_some()), (one.count(), true));
        }
    }

    #[test]
    fn services_are_strings_whatever_they_are_called() {
        let names = ["a.root-servers.net", "No", "k root", "don't", "1", "a\nb", ""];
        let wanted = ["a.root-servers.net", "'No'", "'k root'", "'don''t'", "'1'", "'a b'", "''"];
        assert_eq!(names.map(quoted), wanted);
    }
}
