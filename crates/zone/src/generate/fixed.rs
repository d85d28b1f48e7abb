//! The delegations that a zone has by name: those that others' servers lie under, the apex's servers in the
//! zone, and in the RZAIA families the root of 2009.

use super::base::{Base, Server, name};
use super::idn;
use crate::profile::MAX_DELEGATIONS;
use crate::{Error, Profile};
use std::collections::{BTreeMap, HashSet};
use wire::name::{self as wire_name, Name};

/// One label below the apex.
pub(super) struct Item {
    pub label: Vec<u8>,
    /// Its number among the delegations, where it is one that the profile makes.
    pub number: Option<u64>,
    /// Its name servers, where it is a delegation of 2009.
    pub servers: Option<Vec<Name>>,
    /// Servers with addresses at and below it, in canonical order.
    pub addresses: Vec<Server>,
}

/// All of them, in canonical order.
pub(super) struct Fixed {
    pub items: Vec<Item>,
    /// Delegations among them.
    pub delegations: u64,
    /// How many of them the profile makes.
    pub numbered: u64,
    /// The end of each name after the label: `.` or `.com.`.
    pub suffix: Vec<u8>,
    pub origin: Name,
    /// More labels that no made delegation has.
    pub taken: Taken,
}

/// Labels that no made delegation has.
#[derive(Debug, Default)]
pub struct Taken {
    /// Each after its length, in one piece of memory.
    plain: Vec<u8>,
    /// IDNs (A-labels).
    pub(super) idns: HashSet<Vec<u8>>,
}

impl Taken {
    /// Adds a label of 63 octets at most.
    pub fn push(&mut self, label: &[u8]) {
        let lower = label.to_ascii_lowercase();
        if lower.starts_with(idn::PREFIX) {
            self.idns.insert(lower);
        } else {
            self.plain.push(label.len() as u8);
            self.plain.extend(lower);
        }
    }

    /// Those that are no IDNs, in the order in which they were added.
    pub(super) fn plain(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.plain[..];
        std::iter::from_fn(move || {
            let (&len, after) = rest.split_first()?;
            let (label, after) = after.split_at(usize::from(len));
            rest = after;
            Some(label)
        })
    }
}

impl Fixed {
    /// Of a zone of `delegations` after a profile.
    ///
    /// # Errors
    /// [`Error::Unable`] where it is too small for the names that the profile gives.
    pub fn of(p: &Profile, delegations: u64) -> Result<Self, Error> {
        let origin = name(&p.apex.origin).lowercase();
        let depth = origin.label_count();
        let mut items: BTreeMap<Vec<u8>, (bool, Vec<Name>)> = BTreeMap::new();
        let in_zone = |text: &String| {
            let name = name(text).lowercase();
            (name.is_under(origin.as_wire()) && name != origin).then_some(name)
        };
        for name in p.servers.under.iter().filter(|u| *u.1 > 0.0).filter_map(|(text, _)| in_zone(text)) {
            items.entry(below(&name, depth + 1).to_vec()).or_default().0 = true;
        }
        for name in p.apex.servers.iter().filter_map(in_zone) {
            let item = items.entry(below(&name, depth + 1).to_vec()).or_default();
            // A server just below the apex is part of the zone; anything deeper has a delegation above it.
            item.0 |= name.label_count() > depth + 1;
            item.1.push(name);
        }
        let numbered = items.values().filter(|(delegated, _)| *delegated).count() as u64;
        if numbered > delegations {
            let names: Vec<_> = items.keys().map(|l| String::from_utf8_lossy(l)).collect();
            return Err(Error::Unable(format!(
                "{delegations} delegations: the profile itself names {numbered} ({}): give as many",
                names.join(", ")
            )));
        }
        let mut next = delegations - numbered;
        let items = items.into_iter().map(|(label, (delegated, names))| {
            let number = delegated.then_some(next);
            next += u64::from(delegated);
            let addresses = names.into_iter().map(|name| Server { name, v4: None, v6: None }).collect();
            Item { label, number, servers: None, addresses }
        });
        let items = items.collect();
        let taken = Taken::default();
        Ok(Self { items, delegations: numbered, numbered, suffix: suffix(&origin), origin, taken })
    }

    /// Of a zone that exists and has the delegations that its profile names: none of them is made.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn existing(p: &Profile, taken: Taken) -> Result<Self, Error> {
        let mut fixed = Self::of(p, MAX_DELEGATIONS)?;
        for item in &mut fixed.items {
            item.number = None;
            item.addresses.clear();
        }
        Ok(Self { delegations: 0, numbered: 0, taken, ..fixed })
    }

    /// The root of 2009.
    pub fn of_2009(base: Base) -> Self {
        let mut items: BTreeMap<Vec<u8>, Item> = BTreeMap::new();
        let empty =
            |label: &[u8]| Item { label: label.to_vec(), number: None, servers: None, addresses: Vec::new() };
        let delegations = base.tlds.len() as u64;
        for tld in base.tlds {
            let label = tld.label.as_bytes();
            items.entry(label.to_vec()).or_insert_with(|| empty(label)).servers = Some(tld.servers);
        }
        // Servers under a TLD that a small zone leaves out come in its place.
        for server in base.servers {
            let label = below(&server.name, 1).to_vec();
            items.entry(label.clone()).or_insert_with(|| empty(&label)).addresses.push(server);
        }
        let items = items.into_values().collect();
        let taken = Taken::default();
        Self { items, delegations, numbered: 0, suffix: b".".to_vec(), origin: Name::root(), taken }
    }
}

/// The text after a label of a name just below `origin`.
fn suffix(origin: &Name) -> Vec<u8> {
    match origin.label_count() {
        0 => b".".to_vec(),
        _ => format!(".{origin}").into_bytes(),
    }
}

/// The label that makes a name `depth` labels deep, counted from the root; empty where it is not so deep.
pub(super) fn below(name: &Name, depth: usize) -> &[u8] {
    let up = name.label_count().checked_sub(depth);
    up.and_then(|up| wire_name::labels(name.as_wire()).nth(up)).unwrap_or_default()
}
