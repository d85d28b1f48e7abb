//! The zone families of the RZAIA study (seed 003, section 1.4, table 1.1 and figure 1.1), at any size.
//!
//! A zone is written in canonical order (RFC 4034 section 6.1) as a stream, by several threads, in
//! memory that does not grow with it; the same family, size and seed give the same bytes on any machine
//! and with any number of threads. The layout is figure 1.1's: absolute names, an owner only where it
//! changes, no class but on the SOA.

mod address;
mod base;
mod labels;
mod plan;
mod words;

use crate::error::Error;
use crate::ordered::{ordered, threads};
use crate::text::{write_ipv4, write_number};
use base::{Base, Server};
use labels::{Style, Vocabulary};
use measure::Seed;
use plan::{BLOCK, Plan};
use serde::Serialize;
use std::fmt;
use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::name;

/// The most delegations that a zone may be asked for.
pub(crate) const MAX_DELEGATIONS: u64 = 1_000_000_000;
/// Second-level names under COM, NET and ORG written by one task.
const GLUE_TASK: u64 = 4096;
/// The serial of every generated zone: the day of the RZAIA report.
const SERIAL: u32 = 2_009_091_700;

/// A zone family of the RZAIA study. S families are written unsigned, as their published sizes are;
/// signing is a step of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Family {
    /// Primarily IPv4 glue, no DS.
    #[serde(rename = "U-4-DS0")]
    U4Ds0,
    /// IPv4 and IPv6 glue, no DS.
    #[serde(rename = "U-6-DS0")]
    U6Ds0,
    /// IPv4 and IPv6 glue, two DS for 10 % of the new TLDs.
    #[serde(rename = "S-6-DS10")]
    S6Ds10,
    /// IPv4 and IPv6 glue, two DS for 50 % of the new TLDs.
    #[serde(rename = "S-6-DS50")]
    S6Ds50,
    /// IPv4 and IPv6 glue, two DS for every new TLD.
    #[serde(rename = "S-6-DS100")]
    S6Ds100,
}

impl Family {
    /// All families, in the order of table 1.1.
    pub const ALL: [Self; 5] = [Self::U4Ds0, Self::U6Ds0, Self::S6Ds10, Self::S6Ds50, Self::S6Ds100];

    /// The name in the study and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::U4Ds0 => "U-4-DS0",
            Self::U6Ds0 => "U-6-DS0",
            Self::S6Ds10 => "S-6-DS10",
            Self::S6Ds50 => "S-6-DS50",
            Self::S6Ds100 => "S-6-DS100",
        }
    }

    /// True for the families that the study signed.
    pub fn is_signed(self) -> bool {
        self.ds_ppm() > 0
    }

    /// Signed TLDs in a million new ones.
    fn ds_ppm(self) -> u64 {
        match self {
            Self::U4Ds0 | Self::U6Ds0 => 0,
            Self::S6Ds10 => 100_000,
            Self::S6Ds50 => 500_000,
            Self::S6Ds100 => 1_000_000,
        }
    }

    /// New servers with IPv6 addresses in a million. The study's U-4 zones were drawn at 1 %; what each
    /// published zone came to is table 1.1's AAAA count less the base zone's 197, over the new servers, and
    /// between the published sizes the share is interpolated.
    fn aaaa_ppm(self, delegations: u64) -> u64 {
        const PUBLISHED: [(u64, u64); 5] =
            [(1_000, 9_057), (10_000, 9_876), (100_000, 10_310), (1_000_000, 9_950), (10_000_000, 10_005)];
        if self != Self::U4Ds0 {
            return 1_000_000;
        }
        let next = PUBLISHED.partition_point(|&(size, _)| size < delegations);
        match (next.checked_sub(1).map(|i| PUBLISHED[i]), PUBLISHED.get(next)) {
            (None, Some(&(_, ppm))) | (Some((_, ppm)), None) => ppm,
            (Some((size, a)), Some(&(next, b))) => {
                (a * (next - delegations) + b * (delegations - size)) / (next - size)
            }
            (None, None) => unreachable!("the table is not empty"),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Family {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|f| f.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| {
            format!("'{text}' is no zone family: give U-4-DS0, U-6-DS0, S-6-DS10, S-6-DS50 or S-6-DS100")
        })
    }
}

/// What was written: table 1.1's row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Delegations.
    pub delegations: u64,
    /// Records in all.
    pub records: u64,
    /// NS records, the apex's among them.
    pub ns: u64,
    /// A records.
    pub a: u64,
    /// AAAA records.
    pub aaaa: u64,
    /// DS records.
    pub ds: u64,
    /// Octets of text.
    pub bytes: u64,
}

impl Summary {
    fn add(&mut self, other: &Self) {
        self.delegations += other.delegations;
        self.records += other.records;
        self.ns += other.ns;
        self.a += other.a;
        self.aaaa += other.aaaa;
        self.ds += other.ds;
        self.bytes += other.bytes;
    }
}

/// Writes a zone of `delegations` TLDs: those of 2009, and new ones beyond 280. `progress` hears how
/// many delegations are written.
///
/// # Errors
/// [`Error::Unable`] where no such zone can be made; [`Error::Write`] where `out` fails.
pub fn generate(
    family: Family,
    delegations: u64,
    seed: Seed,
    out: &mut (impl Write + ?Sized),
    progress: &mut dyn FnMut(u64),
) -> Result<Summary, Error> {
    generate_with(threads(), family, delegations, seed, out, progress)
}

/// As [`generate`], with a number of threads of one's own; it does not change a byte.
///
/// # Errors
/// As [`generate`].
pub fn generate_with(
    threads: usize,
    family: Family,
    delegations: u64,
    seed: Seed,
    out: &mut (impl Write + ?Sized),
    progress: &mut dyn FnMut(u64),
) -> Result<Summary, Error> {
    if !(1..=MAX_DELEGATIONS).contains(&delegations) {
        return Err(Error::Unable(format!("{delegations} delegations: give a number from 1 to 1G")));
    }
    let base = Base::new(seed, delegations.min(base::TLDS) as usize);
    let tld_words = Vocabulary::new(Style::Tld);
    let second_words = Vocabulary::new(Style::SecondLevel);
    let new_tlds = delegations.saturating_sub(base::TLDS);
    let plan = Plan::new(family, new_tlds, seed, &tld_words, &second_words);
    let header = format!("; {family}, {delegations} delegations, seed {}; written by dnsrack\n", seed.0);
    let mut total = Summary::default();
    ordered(
        threads,
        |feed| {
            each_part(&plan, &base, &mut |part| feed.push(part));
            Ok(())
        },
        |part| {
            Writer { plan: &plan, out: Vec::with_capacity(768 << 10), sum: Summary::default() }
                .part(&part, &header)
        },
        |(text, sum)| {
            out.write_all(&text).map_err(Error::Write)?;
            total.add(&sum);
            progress(total.delegations);
            Ok(())
        },
    )?;
    Ok(total)
}

/// A part of the zone, written by one task.
enum Part<'a> {
    Apex,
    /// A TLD of the base zone: its delegation.
    Delegation(&'a base::Tld),
    /// Servers of the base zone.
    Servers(&'a [Server]),
    /// New TLDs by rank, all of one block.
    New {
        from: u64,
        to: u64,
    },
    /// New servers under COM, NET or ORG by rank.
    Under {
        parent: usize,
        from: u64,
        to: u64,
    },
}

/// Hands out the parts in canonical order until `push` does not want more.
fn each_part<'a>(plan: &Plan<'_>, base: &'a Base, push: &mut dyn FnMut(Part<'a>) -> bool) {
    let mut go = push(Part::Apex);
    let mut servers = &base.servers[..];
    let mut rank = 0;
    let new = |from: u64, to: u64, push: &mut dyn FnMut(Part<'a>) -> bool| {
        let mut from = from;
        while from < to {
            let end = to.min((from / BLOCK + 1) * BLOCK);
            if !push(Part::New { from, to: end }) {
                return false;
            }
            from = end;
        }
        true
    };
    for tld in &base.tlds {
        let before = plan.tlds.rank_after(tld.label.as_bytes());
        // Servers under a TLD that a small zone leaves out come in its place.
        let inside = servers.partition_point(|s| top(s) < tld.label.as_bytes());
        let (left_out, rest) = servers.split_at(inside);
        let inside = rest.partition_point(|s| top(s) == tld.label.as_bytes());
        let (under, rest) = rest.split_at(inside);
        servers = rest;
        go = go && new(rank, before, push) && push(Part::Servers(left_out)) && push(Part::Delegation(tld));
        rank = before;
        match plan.parents.iter().position(|(parent, _)| *parent == tld.label) {
            Some(parent) => go = go && each_part_under(plan, parent, under, push),
            None => go = go && push(Part::Servers(under)),
        }
        if !go {
            return;
        }
    }
    let _ = new(rank, plan.tlds.count(), push) && push(Part::Servers(servers));
}

/// Merges a parent's servers of the base zone with the new ones.
fn each_part_under<'a>(
    plan: &Plan<'_>,
    parent: usize,
    mut base: &'a [Server],
    push: &mut dyn FnMut(Part<'a>) -> bool,
) -> bool {
    let labels = &plan.parents[parent].1;
    let second =
        |s: &'a Server| name::labels(s.name.as_wire()).nth(s.name.label_count() - 2).unwrap_or_default();
    let mut from = 0;
    loop {
        let at = base.first().map_or(labels.count(), |s| labels.rank_after(second(s)));
        while from < at {
            let to = at.min(from + GLUE_TASK);
            if !push(Part::Under { parent, from, to }) {
                return false;
            }
            from = to;
        }
        let Some(first) = base.first() else { return true };
        let same = base.iter().take_while(|s| second(s) == second(first)).count();
        let (here, rest) = base.split_at(same);
        if !push(Part::Servers(here)) {
            return false;
        }
        base = rest;
    }
}

/// The TLD that a server lies under.
fn top(server: &Server) -> &[u8] {
    name::labels(server.name.as_wire()).last().unwrap_or_default()
}

/// Writes one part's text.
struct Writer<'a> {
    plan: &'a Plan<'a>,
    out: Vec<u8>,
    sum: Summary,
}

impl Writer<'_> {
    fn part(mut self, part: &Part<'_>, header: &str) -> (Vec<u8>, Summary) {
        match *part {
            Part::Apex => self.apex(header),
            Part::Delegation(tld) => {
                self.out.extend_from_slice(tld.label.as_bytes());
                self.out.push(b'.');
                for server in &tld.servers {
                    self.ns();
                    name::write_text(server.as_wire(), &mut self.out);
                    self.out.push(b'\n');
                }
                self.sum.delegations += 1;
            }
            Part::Servers(servers) => {
                for s in servers {
                    name::write_text(s.name.as_wire(), &mut self.out);
                    self.addresses(s.v4, s.v6);
                }
            }
            Part::New { from, to } => {
                let shapes = self.plan.shapes(from / BLOCK);
                for rank in from..to {
                    self.new_tld(rank, &shapes[(rank % BLOCK) as usize]);
                }
            }
            Part::Under { parent, from, to } => {
                let (label, labels) = &self.plan.parents[parent];
                for rank in from..to {
                    let server = self.plan.outside(parent, rank);
                    self.out.extend_from_slice(server.host.as_bytes());
                    self.out.push(b'.');
                    labels.write(rank, &mut self.out);
                    self.out.push(b'.');
                    self.out.extend_from_slice(label.as_bytes());
                    self.out.push(b'.');
                    self.addresses(server.v4, server.v6);
                }
            }
        }
        self.sum.records += self.sum.ns + self.sum.a + self.sum.aaaa + self.sum.ds;
        self.sum.bytes = self.out.len() as u64;
        (self.out, self.sum)
    }

    fn apex(&mut self, header: &str) {
        self.out.extend_from_slice(header.as_bytes());
        let soa = format!(
            "$TTL 172800\n.\t86400\tIN\tSOA\ta.root-servers.net. nstld.verisign-grs.com. {SERIAL} 1800 900 604800 86400\n"
        );
        self.out.extend_from_slice(soa.as_bytes());
        for server in base::root_servers() {
            self.out.extend_from_slice(b"\t518400\tNS\t");
            name::write_text(server.name.as_wire(), &mut self.out);
            self.out.push(b'\n');
        }
        self.sum.ns += 13;
        self.sum.records += 1;
    }

    /// A new TLD: its NS records, its DS records, the addresses of the servers inside it.
    fn new_tld(&mut self, rank: u64, shape: &plan::Shape) {
        let start = self.out.len();
        self.plan.tlds.write(rank, &mut self.out);
        self.out.push(b'.');
        let end = self.out.len();
        for k in 0..shape.inside {
            self.ns();
            self.inside_name(k, start..end);
            self.out.push(b'\n');
        }
        for number in shape.first_outside..shape.first_outside + shape.outside {
            self.ns();
            let (parent, rank) = self.plan.rank(number);
            let (label, labels) = &self.plan.parents[parent];
            self.out.extend_from_slice(self.plan.host(parent, rank).as_bytes());
            self.out.push(b'.');
            labels.write(rank, &mut self.out);
            self.out.push(b'.');
            self.out.extend_from_slice(label.as_bytes());
            self.out.extend_from_slice(b".\n");
        }
        if let Some(bits) = self.plan.ds(rank) {
            self.ds(bits);
        }
        for k in 0..shape.inside {
            self.inside_name(k, start..end);
            let server = self.plan.inside(shape.first_inside + k);
            self.addresses(server.v4, server.v6);
        }
        self.sum.delegations += 1;
    }

    fn inside_name(&mut self, k: u64, tld: std::ops::Range<usize>) {
        self.out.extend_from_slice(&[b'n', b's', b'1' + k as u8, b'.']);
        self.out.extend_from_within(tld);
    }

    fn ns(&mut self) {
        self.out.extend_from_slice(b"\tNS\t");
        self.sum.ns += 1;
    }

    fn addresses(&mut self, a: Ipv4Addr, aaaa: Option<Ipv6Addr>) {
        self.out.extend_from_slice(b"\tA\t");
        write_ipv4(a, &mut self.out);
        self.out.push(b'\n');
        self.sum.a += 1;
        if let Some(aaaa) = aaaa {
            self.out.extend_from_slice(b"\tAAAA\t");
            write_ipv6(aaaa, &mut self.out);
            self.out.push(b'\n');
            self.sum.aaaa += 1;
        }
    }

    /// Two DS records as in figure 1.1: algorithm 5, digest type 1.
    fn ds(&mut self, bits: u64) {
        let mut hash = bits;
        for _ in 0..2 {
            hash = labels::mix(hash ^ 1);
            self.out.extend_from_slice(b"\t3600\tDS\t");
            write_number(1 + hash % 65535, &mut self.out);
            self.out.extend_from_slice(b" 5 1 ");
            let mut digest = [0; 24];
            for chunk in digest.chunks_exact_mut(8) {
                hash = labels::mix(hash ^ 2);
                chunk.copy_from_slice(&hash.to_le_bytes());
            }
            crate::codec::write_hex(&digest[..20], &mut self.out);
            self.out.push(b'\n');
            self.sum.ds += 1;
        }
    }
}

/// The shapes that [`address::v6`] makes, quickly: four groups, `::`, one group; any other as std prints it.
fn write_ipv6(address: Ipv6Addr, out: &mut Vec<u8>) {
    let s = address.segments();
    if s[..4].contains(&0) || s[4..7] != [0; 3] || s[7] == 0 {
        return out.extend_from_slice(address.to_string().as_bytes());
    }
    let mut group = |n: u16, end: &[u8]| {
        let digits = 4 - n.leading_zeros() / 4;
        for i in (0..digits).rev() {
            out.push(b"0123456789abcdef"[usize::from(n >> (4 * i) & 15)]);
        }
        out.extend_from_slice(end);
    };
    group(s[0], b":");
    group(s[1], b":");
    group(s[2], b":");
    group(s[3], b"::");
    group(s[7], b"");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_are_printed_as_std_prints_them(bits in any::<u64>()) {
            let mut text = Vec::new();
            let a = address::v6(bits);
            write_ipv6(a, &mut text);
            prop_assert_eq!(String::from_utf8(text).unwrap(), a.to_string());
        }
    }

    #[test]
    fn families_have_their_names() {
        for family in Family::ALL {
            assert_eq!(family.name().to_lowercase().parse(), Ok(family));
        }
        assert!("U-5".parse::<Family>().unwrap_err().contains("S-6-DS100"));
        assert_eq!(Family::U4Ds0.aaaa_ppm(100_000), 10_310);
        assert_eq!(Family::U4Ds0.aaaa_ppm(55_000), 10_093);
        assert_eq!(Family::U4Ds0.aaaa_ppm(100), 9_057);
        assert_eq!(Family::U4Ds0.aaaa_ppm(1 << 40), 10_005);
    }
}
