//! Profiles written down, for people to read and change.

use super::Background;
use super::{Class, Law, Order, Profile};
use std::fmt::{Display, Write};
use std::path::Path;
use wire::rtype;

/// A line's end in a list of numbers.
const PER_LINE: usize = 10;

impl Profile {
    /// The profile as a file, with what each part means beside it: [`Self::parse`] reads the same profile. The paths of
    /// lists and addresses are written as they are here; a reader looks for them beside the file.
    pub fn to_toml(&self) -> String {
        let mut out = Toml(String::new());
        out.line(format_args!("about = {}", text(&self.about)));
        match &self.classes[..] {
            [class] => out.one_class(self, class),
            classes => {
                out.names(self, None);
                out.packets(self, None);
                out.clients(self, None);
                classes.iter().for_each(|class| out.class(class));
            }
        }
        out.arrivals(self);
        out.background(&self.background);
        out.0
    }

    /// Forgets where lists and addresses were asked for.
    pub(crate) fn forget_places(&mut self) {
        self.lists.iter_mut().for_each(|list| list.said.clear());
        self.classes.iter_mut().filter_map(|class| class.addresses.as_mut()).for_each(|a| a.said.clear());
    }
}

/// A string as TOML has it, on one line.
fn text(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            // Without these a string is none (TOML 1.0, "String").
            c if c.is_control() => write!(out, "\\u{:04X}", u32::from(c)).expect("a string has room"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn path(path: &Path) -> String {
    text(&path.to_string_lossy())
}

struct Toml(String);

impl Toml {
    fn line(&mut self, line: impl Display) {
        writeln!(self.0, "{line}").expect("a string has room");
    }

    fn part(&mut self, name: &str, about: &str) {
        let about = if about.is_empty() { String::new() } else { format!("    # {about}") };
        self.line(format_args!("\n[{name}]{about}"));
    }

    fn value(&mut self, key: &str, value: impl Display, about: &str) {
        let line = format!("{key} = {value}");
        if about.is_empty() { self.line(line) } else { self.line(format_args!("{line:<24} # {about}")) }
    }

    /// A value that is left out where it is as if nothing was said.
    fn unless(&mut self, fallback: f64, key: &str, value: f64, about: &str) {
        if value != fallback {
            self.value(key, value, about);
        }
    }

    /// Things with their weights, the heaviest first.
    fn weights<K: Display>(&mut self, name: &str, about: &str, weights: impl Iterator<Item = (K, f64)>) {
        let mut sorted: Vec<(K, f64)> = weights.collect();
        if sorted.is_empty() {
            return;
        }
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
        self.part(name, about);
        sorted.iter().for_each(|(key, weight)| self.value(&key.to_string(), weight, ""));
    }

    /// Numbers in their order.
    fn numbers(&mut self, key: &str, numbers: &[f64], about: &str) {
        let text = |numbers: &[f64]| numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
        if numbers.len() <= PER_LINE {
            return self.value(key, format_args!("[{}]", text(numbers)), about);
        }
        self.line(format_args!("# {about}\n{key} = ["));
        numbers.chunks(PER_LINE).for_each(|part| self.line(format_args!("    {},", text(part))));
        self.line("]");
    }

    fn one_class(&mut self, profile: &Profile, class: &Class) {
        self.part("edns", "shares of all queries");
        self.value("share", class.edns, "with an OPT record");
        self.value("do", class.do_bit, "with DO");
        for (name, sizes, about) in [
            ("edns.sizes", &class.edns_sizes, "UDP sizes in octets, weights"),
            ("edns.sizes-do", class.used_sizes_do(), "those of queries with DO"),
        ] {
            self.weights(name, about, sizes.iter().map(|(&size, &weight)| (size, weight)));
        }
        self.names(profile, Some(class));
        self.packets(profile, Some(class));
        self.clients(profile, Some(class));
    }

    fn names(&mut self, profile: &Profile, class: Option<&Class>) {
        // The reader refuses keys for kinds of names that the profile does not ask for.
        let misses = profile.has_misses();
        self.part("names", "");
        let order = if profile.order == Order::Uniform { "uniform" } else { "sequential" };
        self.value("order", text(order), "of names that exist: uniform or sequential");
        if let Some(class) = class {
            self.value("nonexistent", class.nonexistent, "share of queries for names that do not exist");
        }
        if profile.shapes.is_empty() {
            self.numbers("below", &profile.below, "weights of 0, 1, 2, … labels below a delegation");
        }
        if profile.shapes_nonexistent.is_empty() {
            self.numbers("below-nonexistent", &profile.below_nonexistent, "below names that do not exist");
        }
        if !profile.lengths.is_empty() {
            let all: Vec<String> =
                profile.lengths.iter().map(|(length, weight)| format!("{length} = {weight}")).collect();
            self.value(
                "lengths",
                format_args!("{{ {} }}", all.join(", ")),
                "of made labels, in octets, weights",
            );
        }
        if profile.types_of_zone {
            self.value("types", text("zone"), "each name with the type that it has in the zone");
        }
        for (name, names, about) in [
            ("names.popular", &profile.popular, "shares of the queries for names that exist"),
            (
                "names.popular-nonexistent",
                &profile.popular_nonexistent,
                "shares of the queries for names that do not",
            ),
        ] {
            let names = names.iter().filter(|_| misses || name == "names.popular");
            self.weights(name, about, names.map(|(name, &share)| (text(&name.to_string()), share)));
        }
        for (name, shapes, about) in [
            (
                "names.shapes",
                &profile.shapes,
                "lengths of the labels below a delegation, from the left; weights",
            ),
            (
                "names.shapes-nonexistent",
                &profile.shapes_nonexistent,
                "the same of names that do not exist; the last is the label that would have to exist first",
            ),
        ] {
            let shapes = shapes.iter().filter(|_| misses || name == "names.shapes");
            self.weights(name, about, shapes.map(|(shape, &weight)| (shape, weight)));
        }
        for list in profile.lists.iter().filter(|list| misses || list.exist) {
            self.line("\n[[names.list]]");
            self.value("file", path(&list.file), "");
            self.unless(1.0, "weight", list.weight, "");
            if !list.exist {
                self.value("exist", false, "these are asked for where names shall not exist");
            }
        }
        for (name, types, about) in [
            ("types", &profile.types, "weights"),
            ("types-itself", &profile.types_itself, "of queries for names that exist, without labels below"),
            ("types-nonexistent", &profile.types_nonexistent, "of queries for names that do not exist"),
        ] {
            let types = types.iter().filter(|_| misses || name != "types-nonexistent");
            self.weights(name, about, types.map(|(&kind, &weight)| (rtype::to_text(kind), weight)));
        }
    }

    fn packets(&mut self, profile: &Profile, class: Option<&Class>) {
        self.part("packets", "shares");
        if let Some(class) = class {
            self.value("rd", class.rd, "recursion desired");
            self.value("df", class.df, "the IPv4 header's \"don't fragment\"");
            self.unless(0.0, "tcp", class.tcp, "over TCP, though no truncated answer came before");
        }
        if let Some(retry) = profile.retry {
            self.value("retry", retry, "of the truncated answers, asked again over TCP");
        }
        self.value("no-checksum", profile.no_checksum, "without a UDP checksum");
        self.value("bad-checksum", profile.bad_checksum, "with a wrong one");
    }

    fn clients(&mut self, profile: &Profile, class: Option<&Class>) {
        if let Some(class) = class {
            self.part("clients", "");
            self.crowd(class);
        }
        let ports = profile.ports.iter().map(|(port, &weight)| (port, weight));
        self.weights("clients.ports", "by client: random, own, or a port's number; weights", ports);
    }

    /// The clients.
    fn crowd(&mut self, class: &Class) {
        match &class.addresses {
            Some(addresses) => self.value("addresses", path(&addresses.file), "ADDRESS WEIGHT a line"),
            None => {
                self.value("count", class.clients, "clients at most");
                self.value("zipf", class.zipf, "client n sends as often as 1/n to this power");
                self.unless(0.0, "ipv6", class.ipv6, "share over IPv6");
            }
        }
    }

    fn class(&mut self, class: &Class) {
        self.line("\n[[class]]");
        self.value("share", class.share, "weight among all queries");
        self.crowd(class);
        self.value("nonexistent", class.nonexistent, "shares of its queries, from here on");
        for (key, value) in [
            ("edns", class.edns),
            ("do", class.do_bit),
            ("rd", class.rd),
            ("df", class.df),
            ("tcp", class.tcp),
        ] {
            self.unless(0.0, key, value, "");
        }
        for (key, sizes) in [("sizes", &class.edns_sizes), ("sizes-do", class.used_sizes_do())] {
            if !sizes.is_empty() {
                let sizes: Vec<String> =
                    sizes.iter().map(|(size, weight)| format!("{size} = {weight}")).collect();
                self.value(key, format_args!("{{ {} }}", sizes.join(", ")), "");
            }
        }
    }

    fn arrivals(&mut self, profile: &Profile) {
        if profile.law == Law::Even && profile.rate.is_none() {
            return;
        }
        self.part("arrivals", "");
        let law = match profile.law {
            Law::Even => "even",
            Law::Poisson => "poisson",
            Law::Intervals(_) => "intervals",
        };
        self.value("law", text(law), "of the intervals between queries: even, poisson or intervals");
        if let Some(rate) = profile.rate {
            self.value("rate", rate, "queries per second, where no other is asked for");
        }
        if let Law::Intervals(quantiles) = &profile.law {
            self.numbers("quantiles-us", quantiles, "intervals in microseconds: quantiles from 0 % to 100 %");
        }
    }

    fn background(&mut self, background: &Background) {
        if *background == Background::default() {
            return;
        }
        self.part("background", "a flood of random labels");
        self.value("share", background.share, "of all queries");
        self.value("under", text(&String::from(background.under.clone())), "");
        self.value("label", background.label, "octets");
        let types = background.types.iter().map(|(&kind, &weight)| (rtype::to_text(kind), weight));
        self.weights("background.types", "", types);
    }
}
