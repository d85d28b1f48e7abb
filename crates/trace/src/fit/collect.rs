//! From events to a profile.

use super::classes::{classes, ports, rounded};
use super::clients::{Crowd, How, Manner};
use super::counts::NameCounts;
use super::existence::{Existence, Place, of_answer, of_zone};
use super::intervals::Intervals;
use super::{Fitted, LeftOut, POPULAR, SHAPES, Sample, warnings};
use crate::facts::{Retries, key};
use crate::pair::Pairs;
use crate::read::{ChecksumState, Event, Message, Reader};
use std::collections::BTreeMap;
use traffic::{Background, Names, Order, Profile, Shape};
use wire::name::Name;
use wire::{class, name, opt, question};

/// Collects what a profile is made of.
pub(super) struct Collector<'a> {
    zone: Option<&'a Names>,
    /// Queries that wait for their answers: who sent them.
    pairs: Pairs<u128>,
    crowd: Crowd,
    pub(super) intervals: Intervals,
    /// Of names that exist, and of others.
    names: [NameCounts; 2],
    /// The lengths of labels, as octets: of those below delegations that exist; of names that do not, down to the label
    /// that would have to.
    shapes: [NameCounts; 2],
    /// Of queries for names that exist with labels below, for others, for those of which nothing is known, and for names
    /// that exist without labels below.
    types: [BTreeMap<u16, u64>; 4],
    /// Truncated answers that nobody asked again for.
    retries: Retries,
    pub(super) checksums: BTreeMap<ChecksumState, u64>,
    pub(super) sample: Sample,
    /// Source ports that were seen: one, or several.
    pub(super) ports: Option<u16>,
    qname: Vec<u8>,
    owner: Vec<u8>,
}

impl<'a> Collector<'a> {
    /// Names are known by a zone, or by the answers.
    pub fn new(zone: Option<&'a Names>) -> Self {
        Self {
            zone,
            pairs: Pairs::default(),
            crowd: Crowd::default(),
            intervals: Intervals::default(),
            names: Default::default(),
            shapes: Default::default(),
            types: Default::default(),
            retries: Retries::default(),
            checksums: BTreeMap::new(),
            sample: Sample::default(),
            ports: None,
            qname: Vec::new(),
            owner: Vec::new(),
        }
    }

    pub fn zone(&self) -> Option<&Names> {
        self.zone
    }

    pub fn add(&mut self, event: &Event<'_>) {
        match event {
            Event::Message(message) if message.header().qr() => self.response(message),
            Event::Message(message) => self.query(message),
            _ => {}
        }
    }

    /// The name that is asked for, in lower case into `self.qname`, and the type.
    fn question(&mut self, message: &Message<'_>) -> Option<(u16, u16)> {
        let question = question::parse(message.bytes)?;
        self.qname.clear();
        self.qname.extend_from_slice(question.qname);
        name::lowercase(&mut self.qname);
        Some((question.qclass, question.qtype))
    }

    /// A query that is of no profile, and why.
    fn left_out(&mut self, message: &Message<'_>) -> Option<&mut u64> {
        let out = &mut self.sample.left_out;
        if !message.is_whole() {
            return Some(&mut out.cut_short);
        }
        if message.header().opcode() != 0 {
            return Some(&mut out.opcodes);
        }
        match question::parse(message.bytes) {
            None => Some(&mut out.damaged),
            Some(question) if question.qclass != class::IN => Some(&mut out.classes),
            Some(_) if message.tcp.is_some() && self.retries.over_tcp(message).is_some() => {
                Some(&mut out.retries)
            }
            Some(_) => None,
        }
    }

    fn query(&mut self, message: &Message<'_>) {
        if let Some(count) = self.left_out(message) {
            *count += 1;
            return;
        }
        let Some((_, qtype)) = self.question(message) else { return };
        let manner: Manner = opt::find(message.bytes).map(|opt| (opt.udp_size, opt.do_bit()));
        let client = key(message.from.ip());
        let port = message.from.port();
        let tcp = message.tcp.is_some();
        if self.sample.queries == 0 {
            self.ports = Some(port);
        }
        self.ports = self.ports.filter(|&first| first == port);
        self.sample.queries += 1;
        self.sample.tcp += u64::from(tcp);
        self.intervals.add(message.at);
        if !tcp {
            *self.checksums.entry(message.checksum).or_default() += 1;
        }
        let how = match tcp {
            true => How::Tcp,
            false => How::Udp { port, df: message.df },
        };
        self.crowd.asked(client, how, manner, message.header().rd());
        match self.zone {
            Some(zone) => {
                let existence = of_zone(zone, &self.qname);
                self.learned(client, qtype, existence);
            }
            None => {
                *self.types[2].entry(qtype).or_default() += 1;
                self.pairs.query(message, client);
                let given_up = &mut self.sample.unanswered;
                self.pairs.expire(message.at, |_| *given_up += 1);
            }
        }
    }

    fn response(&mut self, message: &Message<'_>) {
        self.sample.responses += 1;
        if message.tcp.is_none() && message.header().tc() {
            self.sample.truncated += 1;
            self.retries.truncated(message, 0);
        }
        if self.zone.is_some() {
            return;
        }
        let Some((client, _)) = self.pairs.answer(message) else { return };
        self.sample.answered += 1;
        // An answer without a question is a complaint.
        let existence = match self.question(message) {
            Some((_, qtype)) => {
                let existence = of_answer(message.bytes, &self.qname, qtype, &mut self.owner);
                self.learned(client, qtype, existence);
                return;
            }
            None => Existence::Neither,
        };
        self.learned(client, 0, existence);
    }

    fn learned(&mut self, client: u128, qtype: u16, existence: Existence) {
        let (miss, place) = match existence {
            Existence::Hit(place) => (false, place),
            Existence::Miss(place) => (true, place),
            Existence::Neither => {
                self.sample.neither += 1;
                return;
            }
        };
        *(if miss { &mut self.sample.misses } else { &mut self.sample.hits }) += 1;
        self.crowd.learned(client, miss);
        let which = usize::from(miss);
        let itself = !miss && place.is_some_and(|Place { octets, cut }| !cut || octets == self.qname.len());
        *self.types[if itself { 3 } else { which }].entry(qtype).or_default() += 1;
        let Some(Place { octets, cut }) = place else { return };
        let (labels, part) = self.qname.split_at(self.qname.len() - octets);
        self.names[which].add(part);
        if cut {
            let (mut shape, mut len, mut labels) = ([0; 128], 0, labels);
            while let Some((&length, rest)) = labels.split_first() {
                labels = rest.get(usize::from(length)..).unwrap_or_default();
                (shape[len], len) = (length, len + 1);
            }
            if miss {
                (shape[len], len) = (part[0], len + 1);
            }
            self.shapes[which].add(&shape[..len]);
        }
    }

    /// The profile, once the reader has come to its end.
    pub fn finish(mut self, reader: &Reader, about: &str) -> Fitted {
        let given_up = &mut self.sample.unanswered;
        self.pairs.finish(|_| *given_up += 1);
        let rate = self.intervals.rate();
        let (law, law_rate) = self.intervals.law();
        let Sample { queries, hits, misses, truncated, left_out, .. } = &self.sample;
        let (queries, hits, misses, truncated) = (*queries, *hits, *misses, *truncated);
        let retries = left_out.retries;
        let answered = hits + misses;
        let warnings = warnings::of(&self, &self.crowd, reader);
        self.sample.rate = rate.map(rounded);
        self.sample.span_s = reader.span().map_or(0.0, |(from, to)| (to - from) as f64 / 1e9);
        self.sample.clients = self.crowd.count();
        self.sample.clients_are_estimated = self.crowd.is_sketch();
        self.sample.names_count_error = self.names.iter().map(|names| names.error).max().unwrap_or(0);
        let right = |state| self.checksums.get(&state).copied().unwrap_or(0);
        let [rights, absent, bad] =
            [ChecksumState::Right, ChecksumState::Absent, ChecksumState::Bad].map(right);
        let believed = if warnings::doubts_checksums(&self.checksums) { 0 } else { bad };
        let known = (rights + absent + bad).max(1) as f64;
        let nowhere = answered == 0;
        let [of_hits, of_misses, of_all, of_itself] = &self.types;
        // The first of which there is anything.
        let types = [of_hits, of_itself, of_all, of_misses].into_iter().find(|types| !types.is_empty());
        let types = types.unwrap_or(of_hits);
        let weights = |counts: &BTreeMap<u16, u64>| counts.iter().map(|(&t, &n)| (t, n as f64)).collect();
        let [exist, absent_names] = &self.names;
        let (groups, fixed) = self.crowd.groups();
        let classes = classes(groups, if nowhere { 0.0 } else { misses as f64 / answered as f64 });
        self.sample.classes = classes.len();
        let rate = rate.map_or_else(String::new, |rate| format!(", {rate:.1} a second"));
        let profile = Profile {
            about: format!("Fitted from {about}: {} queries{rate}", measure::units::grouped(queries)),
            order: Order::Uniform,
            lists: Vec::new(),
            popular: popular(exist),
            lengths: BTreeMap::new(),
            below: vec![1.0],
            below_nonexistent: vec![1.0],
            shapes: shapes(&self.shapes[0]),
            shapes_nonexistent: shapes(&self.shapes[1]),
            types_of_zone: false,
            types: weights(types),
            types_itself: if of_hits.is_empty() { BTreeMap::new() } else { weights(of_itself) },
            types_nonexistent: if misses > 0 { weights(of_misses) } else { BTreeMap::new() },
            popular_nonexistent: popular(absent_names),
            retry: (truncated > 0).then(|| rounded(retries as f64 / truncated as f64).min(1.0)),
            no_checksum: rounded(absent as f64 / known),
            bad_checksum: rounded(believed as f64 / known),
            ports: ports(&fixed),
            law,
            rate: law_rate.map(rounded),
            background: Background::default(),
            classes,
        };
        Fitted { profile, warnings, sample: self.sample }
    }
}

/// The popular names with their shares.
fn popular(names: &NameCounts) -> BTreeMap<Name, f64> {
    let share = |(name, count): (&[u8], u64)| {
        // Rounded down, so that all together are not more than 1.
        let share = (count as f64 / names.total as f64 * 1e6).floor() / 1e6;
        Name::from_wire(name).ok().map(|name| (name, share))
    };
    names.popular(POPULAR).into_iter().filter_map(share).filter(|(_, share)| *share > 0.0).collect()
}

/// Shapes with their weights.
fn shapes(counts: &NameCounts) -> BTreeMap<Shape, f64> {
    let shape = |(lengths, weight): (&[u8], f64)| Some((Shape::new(lengths)?, rounded(weight)));
    counts.thinned(SHAPES).into_iter().filter_map(shape).collect()
}

impl LeftOut {
    /// All together.
    pub fn sum(&self) -> u64 {
        self.retries + self.cut_short + self.opcodes + self.classes + self.damaged
    }
}
