//! Zones of any size and shape: the families of the papers, and zone profiles.
//!
//! A zone is written in canonical order (RFC 4034 section 6.1) as a stream, by several threads, in
//! memory that does not grow with it; the same shape, size and seed give the same bytes on any machine
//! and with any number of threads. The layout is that of RZAIA's figure 1.1: absolute names, an owner only
//! where it changes, no class but on the SOA.
//!
//! There is one generator, for profiles. An RZAIA family is a profile too, of the new TLDs, which are written
//! among the 280 TLDs of 2009. NOMINET alone, which has no delegations, is written by itself.

pub(crate) mod address;
mod base;
mod delegations;
mod families;
mod fixed;
mod idn;
mod labels;
mod layout;
mod nominet;
mod permutation;
mod plan;
mod popularity;
mod vocabulary;
mod words;
mod write;

pub use families::Family;
pub use fixed::Taken;

use crate::error::Error;
use crate::ordered::{ordered, threads};
use crate::profile::{MAX_DELEGATIONS, Model, Profile};
use base::{Base, Server};
use delegations::Vocabularies;
use derive_more::AddAssign;
use fixed::{Fixed, Item, below};
use measure::Seed;
use plan::Plan;
use serde::Serialize;
use std::io::Write;
use vocabulary::{Style, Vocabulary};
use write::{Heads, Part, Writer};

/// Delegations, and second-level names with servers, written by one task.
const MADE_TASK: u64 = 1000;
const UNDER_TASK: u64 = 4096;

/// The kind of zone to generate.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A zone of the papers.
    Family(Family),
    /// A zone after a profile.
    Profile(Box<Profile>),
}

impl From<Family> for Shape {
    fn from(family: Family) -> Self {
        Self::Family(family)
    }
}

impl From<Profile> for Shape {
    fn from(profile: Profile) -> Self {
        Self::Profile(Box::new(profile))
    }
}

impl Shape {
    /// Delegations (in NOMINET, records) where no number is given; `None` where one must be.
    pub fn delegations(&self) -> Option<u64> {
        match self {
            Self::Family(family) => family.delegations(),
            Self::Profile(profile) => Some(profile.delegations),
        }
    }
}

/// Counts of a zone that was written: table 1.1's row.
#[derive(AddAssign, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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

/// Writes a zone of `delegations` delegations: in an RZAIA family the TLDs of 2009, and new ones beyond 280;
/// in NOMINET, of so many records. `progress` hears how many are written.
///
/// # Errors
/// [`Error::Unable`] where no such zone can be made; [`Error::Write`] where `out` fails.
pub fn generate(
    shape: impl Into<Shape>,
    delegations: u64,
    seed: Seed,
    out: &mut (impl Write + ?Sized),
    progress: &mut dyn FnMut(u64),
) -> Result<Summary, Error> {
    generate_with(threads(), shape, delegations, seed, out, progress)
}

/// As [`generate`], with a number of threads of one's own; it does not change a byte.
///
/// # Errors
/// As [`generate`].
pub fn generate_with(
    threads: usize,
    shape: impl Into<Shape>,
    delegations: u64,
    seed: Seed,
    out: &mut (impl Write + ?Sized),
    progress: &mut dyn FnMut(u64),
) -> Result<Summary, Error> {
    if !(1..=MAX_DELEGATIONS).contains(&delegations) {
        return Err(Error::Unable(format!("{delegations} delegations: give a number from 1 to 1G")));
    }
    let (profile, family) = match shape.into() {
        Shape::Profile(profile) => (*profile, None),
        Shape::Family(family) => match family.profile(delegations) {
            None => return nominet::write(threads, delegations, out, progress),
            Some(profile) => (profile, Some(family)),
        },
    };
    profile.check().map_err(|fault| Error::Unable(format!("zone profile: {fault}")))?;
    let rzaia = family.is_some_and(Family::is_rzaia);
    let fixed = match rzaia {
        true => Fixed::of_2009(Base::new(seed, delegations.min(base::TLDS) as usize)),
        false => Fixed::of(&profile, delegations)?,
    };
    let shown = family.map_or_else(|| profile.about.replace(char::is_control, " "), |f| f.to_string());
    write_zone(threads, &profile, fixed, rzaia, (&shown, delegations, seed), out, progress)
}

/// Writes what makes a zone that exists larger: its apex once more, and `delegations` after its own profile, with their name servers. No
/// made delegation has a label of `taken`, or one that the profile names.
///
/// # Errors
/// As [`generate`].
pub(crate) fn generate_more(
    profile: &Profile,
    delegations: u64,
    taken: Taken,
    seed: Seed,
    out: &mut (impl Write + ?Sized),
    progress: &mut dyn FnMut(u64),
) -> Result<Summary, Error> {
    let fixed = Fixed::existing(profile, taken)?;
    write_zone(threads(), profile, fixed, false, (&profile.about, delegations, seed), out, progress)
}

/// `apart`: see [`Plan::new`]. The name, the number of delegations and the seed stand in the header.
fn write_zone(
    threads: usize,
    profile: &Profile,
    mut fixed: Fixed,
    apart: bool,
    (shown, delegations, seed): (&str, u64, Seed),
    out: &mut (impl Write + ?Sized),
    progress: &mut dyn FnMut(u64),
) -> Result<Summary, Error> {
    let style = match profile.labels.model {
        _ if apart => Style::Tld,
        Model::Words => Style::SecondLevel,
        Model::Letters => Style::Letters,
    };
    let words = Vocabularies {
        delegations: Vocabulary::new(style),
        idn: Vocabulary::new(Style::Tld),
        second_level: Vocabulary::new(Style::SecondLevel),
    };
    let plan = Plan::new(profile, delegations - fixed.delegations, &fixed, apart, &words, seed);
    write::complete(&mut fixed, &plan);
    let heads = Heads::new(&plan);
    let header = format!("; {shown}, {delegations} delegations, seed {}; written by dnsrack\n", seed.0);
    let mut total = Summary::default();
    ordered(
        threads,
        |feed| {
            // A task that nobody wants any more ends the feeding.
            let _ = each_part(&plan, &fixed, &mut |part| feed.push(part).then_some(()));
            Ok(())
        },
        |part| Writer::new(&plan, &heads).part(part, &header),
        |(text, sum)| {
            out.write_all(&text).map_err(Error::Write)?;
            total += sum;
            progress(total.delegations);
            Ok(())
        },
    )?;
    Ok(total)
}

/// Hands out the parts in canonical order until `push` does not want more.
fn each_part<'a>(
    plan: &Plan<'_>,
    fixed: &'a Fixed,
    push: &mut dyn FnMut(Part<'a>) -> Option<()>,
) -> Option<()> {
    push(Part::Apex)?;
    let mut rank = 0;
    for item in &fixed.items {
        let before = plan.delegations.rank_after(&item.label);
        in_tasks(rank..before, MADE_TASK, &mut |numbers| push(Part::Made(numbers)))?;
        rank = before;
        if item.servers.is_some() || item.number.is_some() {
            push(Part::Delegation(item))?;
        }
        match plan.entries.iter().position(|e| e.child.as_ref() == Some(&item.label)) {
            Some(entry) => each_part_under(plan, entry, item, fixed.origin.label_count() + 2, push)?,
            None => push(Part::Servers(&item.addresses))?,
        }
    }
    in_tasks(rank..plan.delegations.made(), MADE_TASK, &mut |numbers| push(Part::Made(numbers)))
}

/// Merges the servers below an item that are there by name with the made ones.
fn each_part_under<'a>(
    plan: &Plan<'_>,
    entry: usize,
    item: &'a Item,
    depth: usize,
    push: &mut dyn FnMut(Part<'a>) -> Option<()>,
) -> Option<()> {
    let labels = &plan.entries[entry].labels;
    let (mut rank, mut servers) = (0, &item.addresses[..]);
    while let Some(first) = servers.first() {
        let second = |s: &'a Server| below(&s.name, depth);
        let before = labels.rank_after(second(first));
        in_tasks(rank..before, UNDER_TASK, &mut |ranks| push(Part::Under(entry, ranks)))?;
        rank = before;
        let same = servers.iter().take_while(|s| second(s) == second(first)).count();
        let (here, rest) = servers.split_at(same);
        push(Part::Servers(here))?;
        servers = rest;
    }
    in_tasks(rank..labels.count(), UNDER_TASK, &mut |ranks| push(Part::Under(entry, ranks)))
}

fn in_tasks(
    range: std::ops::Range<u64>,
    size: u64,
    push: &mut dyn FnMut(std::ops::Range<u64>) -> Option<()>,
) -> Option<()> {
    let mut from = range.start;
    while from < range.end {
        let to = range.end.min(from + size);
        push(from..to)?;
        from = to;
    }
    Some(())
}
