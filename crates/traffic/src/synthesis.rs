//! Queries made from a profile over names.
//!
//! Everything about query `n` is drawn from (seed, `n`) alone, so any worker can make any query.

use crate::below::Below;
use crate::clients::Clients;
use crate::flood::Flood;
use crate::misses::Misses;
use crate::names::Kind;
use crate::pool::Pick;
use crate::popular::{LeftOut, Popular, PopularName};
use crate::profile::{Class, Order, Profile};
use crate::random::{Draws, Keys, Table, threshold};
use crate::{Error, Lists, Query, QuerySource};
use measure::Seed;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::Checksum;
use wire::name::{MAX_LABEL, MAX_NAME};
use wire::query::Edns;

/// Queries whose names are brought near together: with a million names each is a miss of all caches,
/// and misses that do not wait for each other cost little more than one.
const AHEAD: usize = 16;

/// The longest zone name that leaves room for a made label of [`MAX_LABEL`] octets.
const ORIGIN_MAX: usize = MAX_NAME - 1 - MAX_LABEL;

/// How the queries of a class of clients are made.
#[derive(Clone)]
struct Manner {
    edns: u64,
    do_bit: u64,
    /// Without DO, and with it.
    sizes: [Table<u16>; 2],
    nonexistent: u64,
    rd: u64,
    df: u64,
    tcp: u64,
}

impl Manner {
    fn new(class: &Class) -> Self {
        let sizes = |sizes: &BTreeMap<u16, f64>| Table::new(sizes.iter().map(|(&s, &w)| (s, w)));
        let with_do = if class.edns_sizes_do.is_empty() { &class.edns_sizes } else { &class.edns_sizes_do };
        Self {
            edns: threshold(class.edns),
            do_bit: threshold(class.do_bit),
            sizes: [sizes(&class.edns_sizes), sizes(with_do)],
            nonexistent: threshold(class.nonexistent),
            rd: threshold(class.rd),
            df: threshold(class.df),
            tcp: threshold(class.tcp),
        }
    }
}

/// Queries of a profile, without end.
#[derive(Clone)]
pub struct Synthesis {
    names: Arc<Lists>,
    keys: Keys,
    next: u64,
    step: u64,
    order: Order,
    /// By class of clients.
    manners: Vec<Manner>,
    /// Some class sets RD, or asks over TCP.
    has_more: bool,
    below: Below,
    popular: Option<Popular>,
    misses: Misses,
    left_out: Vec<LeftOut>,
    /// A name's own type goes before a drawn one.
    types_of_zone: bool,
    /// `None` where each name comes with its type.
    types: Option<Table<u16>>,
    /// Of names without labels below, where they have others.
    types_itself: Option<Table<u16>>,
    /// Of names that do not exist, where they have others.
    types_nonexistent: Option<Table<u16>>,
    no_checksum: u64,
    bad_checksum: u64,
    /// Draws who sends, where it matters to a sender.
    clients: Option<Clients>,
    /// The profile says over which family queries go.
    families: bool,
    flood: Option<Flood>,
    /// The draws and the chosen name of the next queries, from `at` on.
    ahead: [(Draws, Pick); AHEAD],
    at: usize,
}

impl Synthesis {
    /// The queries of worker `worker` of `workers`.
    ///
    /// # Errors
    /// [`Error::Spec`] where names that do not exist are asked for but cannot be made: a wildcard or
    /// a DNAME at the apex, or a zone name too long to put a label before; where types of the zone are
    /// asked for and the names have none. As [`Clients::new`].
    pub fn new(
        profile: &Profile,
        names: Arc<Lists>,
        seed: Seed,
        worker: u32,
        workers: u32,
    ) -> Result<Self, Error> {
        if profile.has_misses() && !names.has_absent() {
            let asked = "names that do not exist are asked for (names.nonexistent in the profile), but";
            if names.existing().any(|list| list.names().origin().len() > ORIGIN_MAX) {
                return Err(Error::Spec(format!("{asked} the zone's name leaves no room for them")));
            }
            if names.existing().any(|list| list.names().has_apex_wildcard()) {
                return Err(Error::Spec(format!(
                    "{asked} the zone has a wildcard or a DNAME at its apex: every name exists; set it to 0"
                )));
            }
        }
        let types = if profile.types_of_zone && names.existing().all(|l| l.names().kind() == Kind::Records) {
            None
        } else if profile.types.is_empty() {
            let what = "types of the zone are asked for, but a file of names has none: give a zone, or types";
            return Err(Error::Spec(what.into()));
        } else {
            Some(Table::new(profile.types.iter().map(|(&t, &w)| (t, w))))
        };
        let clients = Clients::new(profile, seed)?;
        let mut left_out = Vec::new();
        let popular = Popular::new(&profile.popular, &names, true, &mut left_out);
        let misses = Misses::new(profile, &names, &mut left_out);
        let others = |types: &BTreeMap<u16, f64>| {
            (!types.is_empty()).then(|| Table::new(types.iter().map(|(&t, &w)| (t, w))))
        };
        Ok(Self {
            keys: Keys::new(seed, "queries"),
            families: clients.says_families(),
            clients: clients.matters().then_some(clients),
            flood: Flood::new(profile, seed),
            next: u64::from(worker),
            step: u64::from(workers.max(1)),
            order: profile.order,
            manners: profile.classes.iter().map(Manner::new).collect(),
            has_more: profile.has_tcp() || profile.classes.iter().any(|class| class.rd > 0.0),
            popular,
            left_out,
            below: Below::new(&profile.below, &profile.shapes),
            misses,
            types_of_zone: profile.types_of_zone,
            types,
            types_itself: others(&profile.types_itself),
            types_nonexistent: others(&profile.types_nonexistent),
            no_checksum: threshold(profile.no_checksum),
            bad_checksum: threshold(profile.no_checksum + profile.bad_checksum),
            ahead: [Default::default(); AHEAD],
            at: AHEAD,
            names,
        })
    }

    /// The same queries for another worker of as many.
    pub fn of_worker(&self, worker: u32) -> Self {
        Self { next: u64::from(worker), at: AHEAD, ..self.clone() }
    }

    /// The profile's popular names that are not asked for: over these names, what it says of them does not hold.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Draws the names of the next queries and brings them near.
    fn look_ahead(&mut self) {
        for (n, (draws, pick)) in self.ahead.iter_mut().enumerate() {
            let index = self.next + n as u64 * self.step;
            *draws = self.keys.draws(index);
            *pick = self.names.pick(self.order, index, || draws.bits());
        }
        self.names.bring_near(self.ahead.map(|(_, pick)| pick));
        self.at = 0;
    }
}

impl QuerySource for Synthesis {
    fn next(&mut self, query: &mut Query) -> Result<bool, Error> {
        if self.at == AHEAD {
            self.look_ahead();
        }
        let (mut draws, mut pick) = self.ahead[self.at];
        self.at += 1;
        let index = self.next;
        self.next += self.step;
        // Two independent halves of 32 bits each.
        let mut pair = || {
            let bits = draws.bits();
            (bits & 0xffff_ffff, bits >> 32)
        };
        let (edns, df) = pair();
        let (qtype, size) = pair();
        let (nonexistent, checksum) = pair();
        let (below, popular) = pair();
        let (rd, tcp) = if self.has_more { pair() } else { (0, 0) };

        let sender = self.clients.as_mut().map(|clients| clients.sender(index));
        let manner = &self.manners[sender.map_or(0, |sender| usize::from(sender.class))];
        query.index = index;
        query.tcp = tcp < manner.tcp;
        query.df = df < manner.df && !query.tcp;
        let mut flood = self.flood.as_mut().and_then(|flood| flood.draw(index));
        query.background = flood.is_some();
        query.nonexistent = nonexistent < manner.nonexistent && !query.background;
        query.at = None;
        // Over TCP each client has connections of its own.
        query.client = sender.and_then(|sender| if query.tcp { Some(sender.client) } else { sender.flow() });
        query.ipv6 = sender.filter(|_| self.families).map(|sender| sender.ipv6);
        query.checksum = match checksum {
            _ if query.tcp => Checksum::Right,
            c if c < self.no_checksum => Checksum::Absent,
            c if c < self.bad_checksum => Checksum::Bad,
            _ => Checksum::Right,
        };
        let out = &mut query.bytes;
        wire::query::begin(out, 0);
        if rd < manner.rd {
            wire::header::set_rd(out);
        }
        let start = out.len();
        let mut itself = false;
        if let (Some(flood), Some((_, draws))) = (&self.flood, flood.as_mut()) {
            query.list = None;
            flood.push_name(draws, &self.names, pick, out);
        } else if query.nonexistent {
            let length = self.misses.below.push_before(out, &mut draws, below as u32);
            if let Some(PopularName::Literal { name, .. }) = self.misses.popular(length, popular as u32) {
                query.list = None;
                out.extend_from_slice(name.as_wire());
            } else {
                let absent = self.names.pick_absent(self.order, index, || draws.bits());
                query.list = absent.map(|pick| pick.list);
                match absent {
                    Some(pick) => out.extend_from_slice(self.names.name(pick)),
                    None => self.misses.push(&mut draws, &self.names, (pick, length), out),
                }
            }
        } else {
            let way = self.popular.as_ref().and_then(|names| names.draw(popular as u32));
            // Labels below make sense below a delegation only: elsewhere they make names that do not exist.
            let (list, name, delegation) = match way {
                Some(PopularName::Literal { name, below }) => (None, name.as_wire(), *below),
                listed => {
                    if let Some(PopularName::Listed(popular)) = listed {
                        pick = *popular;
                    }
                    (Some(pick.list), self.names.name(pick), self.names.is_delegation(pick))
                }
            };
            query.list = list;
            if delegation {
                self.below.push(out, &mut draws, below as u32);
            }
            itself = out.len() == start;
            out.extend_from_slice(name);
        }
        // Below a long name there is no room: labels go from the left until it fits.
        while out.len() - start > MAX_NAME {
            out.drain(start..=start + usize::from(out[start]));
        }
        let edns = (edns < manner.edns)
            .then_some(edns < manner.do_bit)
            .map(|do_bit| Edns { udp_size: manner.sizes[usize::from(do_bit)].get(size as u32), do_bit });
        let others = match query.nonexistent {
            true => self.types_nonexistent.as_ref(),
            false => self.types_itself.as_ref().filter(|_| itself),
        };
        let own = if self.types_of_zone && others.is_none() { self.names.rtype(pick) } else { None };
        let qtype = match (&flood, own, others.or(self.types.as_ref())) {
            (Some((qtype, _)), ..) => *qtype,
            (None, Some(own), _) => own,
            (None, None, Some(types)) => types.get(qtype as u32),
            (None, None, None) => wire::rtype::A,
        };
        wire::query::end(out, qtype, edns);
        Ok(true)
    }
}
