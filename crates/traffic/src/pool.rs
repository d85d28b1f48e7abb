//! Names of several weighted lists, and which of them a query asks for.

use crate::lists::LISTS_MAX;
use crate::names::Kind;
use crate::profile::Order;
use crate::random::threshold;
use crate::{Error, NAMES_MAX, NameList, Names, Want};
use measure::Seed;
use wire::name;

/// The most turns after which the lists' turns begin again.
const TURNS_MAX: f64 = 4096.0;

/// A name: of which list, and its number there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pick {
    pub(crate) list: u16,
    name: u32,
}

/// The names of all lists of a source. One list is one of many: all that is said of lists holds for it.
pub struct Lists {
    lists: Vec<List>,
    exist: Pool,
    /// Names that do not exist, where lists give them.
    absent: Option<Pool>,
    /// All names that exist are known.
    complete: bool,
}

/// A list that was read.
pub struct List {
    spec: NameList,
    names: Names,
    /// Names that do not exist are made right below this name.
    origin: Vec<u8>,
}

impl List {
    /// The specification.
    pub fn spec(&self) -> &NameList {
        &self.spec
    }

    /// Its names.
    pub fn names(&self) -> &Names {
        &self.names
    }
}

impl From<Names> for Lists {
    fn from(names: Names) -> Self {
        let origin = names.origin().to_vec();
        let complete = names.is_complete();
        let lists = vec![List { spec: NameList::new(""), names, origin }];
        Self { exist: Pool::new(&lists, &[0]), lists, absent: None, complete }
    }
}

impl Lists {
    /// Reads the lists. Of all together at most [`NAMES_MAX`] names are kept: each list has an equal part of that, and of
    /// a list with more names a fair sample is kept. `progress` hears now and then the octets read of zones.
    ///
    /// # Errors
    /// As [`Names::open`]; a weight that is not a number; no list of names that exist, or more than [`LISTS_MAX`]; a name that
    /// shall not exist, but is in a list of those that do.
    pub fn open(
        specs: &[NameList],
        seed: Seed,
        want: Want,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, Error> {
        if specs.len() > LISTS_MAX {
            return Err(Error::Spec(format!("{} lists of names: give at most {LISTS_MAX}", specs.len())));
        }
        let limit = NAMES_MAX / specs.len().max(1);
        let (mut lists, mut before) = (Vec::with_capacity(specs.len()), 0);
        for spec in specs {
            if let Some(what) = NameList::wrong_weight(spec.weight) {
                return Err(Error::Spec(format!("{}: {what}", spec.file.display())));
            }
            let want = if spec.exist { want } else { Want::Names };
            let names = Names::open_limited(&spec.file, seed, want, limit, &mut |n| progress(before + n));
            let names = names.map_err(|e| spec.error(e))?;
            before += spec.file.metadata().map_or(0, |m| m.len());
            let origin = names.origin().to_vec();
            lists.push(List { spec: spec.clone(), names, origin });
        }
        Self::of(lists)
    }

    fn of(mut lists: Vec<List>) -> Result<Self, Error> {
        let (exist, absent): (Vec<u16>, Vec<u16>) =
            (0..lists.len() as u16).partition(|&n| lists[usize::from(n)].spec.exist);
        if exist.is_empty() {
            let what = "no names that exist: give a zone, a file of names, or [[names.list]] in the profile";
            return Err(Error::Spec(what.into()));
        }
        // A name that is missing below one list's own name may exist in the zone of another list.
        let origins: Vec<Vec<u8>> = exist.iter().map(|&n| lists[usize::from(n)].origin.clone()).collect();
        for list in &mut lists {
            let above = origins.iter().filter(|origin| name::is_under(&list.origin, origin));
            if let Some(highest) = above.min_by_key(|origin| origin.len()) {
                list.origin.clone_from(highest);
            }
        }
        let there = |n: &u16| &lists[usize::from(*n)];
        for list in absent.iter().map(there) {
            for n in 0..list.names.len() {
                let name = list.names.get(n);
                if let Some(other) = exist.iter().map(there).find(|l| l.names.contains(name) == Some(true)) {
                    let what = format!(
                        "{}: {} shall not exist, but is among the names of {}",
                        list.spec.file.display(),
                        list.names.text(n),
                        other.spec.file.display()
                    );
                    return Err(list.spec.error(Error::Spec(what)));
                }
            }
        }
        Ok(Self {
            complete: exist.iter().all(|n| there(n).names.is_complete()),
            exist: Pool::new(&lists, &exist),
            absent: (!absent.is_empty()).then(|| Pool::new(&lists, &absent)),
            lists,
        })
    }

    /// The lists in the order in which they were given.
    pub fn lists(&self) -> &[List] {
        &self.lists
    }

    /// The lists of names that exist.
    pub fn existing(&self) -> impl Iterator<Item = &List> {
        self.lists.iter().filter(|list| list.spec.exist)
    }

    /// In sequential order: the queries after which each name that exists was asked for once at least.
    pub fn round(&self) -> u64 {
        self.exist.round()
    }

    /// Names that do not exist come from lists.
    pub fn has_absent(&self) -> bool {
        self.absent.is_some()
    }

    /// True where every name that exists is known, so that [`Self::contains`] can tell.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether the name is in a list of those that exist, or above such a name; where [`Self::is_complete`].
    pub(crate) fn contains(&self, wire: &[u8]) -> bool {
        self.existing().any(|list| list.names.contains(wire) == Some(true))
    }

    /// The name among those of the lists that exist, where all are known.
    pub(crate) fn find(&self, wire: &[u8]) -> Option<Pick> {
        let lists = (0u16..).zip(&self.lists).filter(|(_, list)| list.spec.exist);
        let mut found = lists.filter_map(|(n, list)| Some(Pick { list: n, name: list.names.find(wire)? }));
        found.next()
    }

    /// Whether the name is a zone's own.
    pub(crate) fn is_origin(&self, wire: &[u8]) -> bool {
        self.existing().any(|list| name::equal(list.names.origin(), wire))
    }

    /// Whether the name is at or below a zone's own.
    pub(crate) fn is_in_zone(&self, wire: &[u8]) -> bool {
        self.existing().any(|list| name::is_under(wire, list.names.origin()))
    }

    /// There are delegations among what is asked for.
    pub(crate) fn has_delegations(&self) -> bool {
        self.existing().any(|list| list.names.kind() == Kind::Delegations)
    }

    /// Whether a server with these names has the name, or an answer that leads to it: it is one of them, above one, a
    /// zone's own, or below a delegation. `None` where not all are known.
    pub(crate) fn exists(&self, wire: &[u8]) -> Option<bool> {
        let delegated = || {
            let above =
                std::iter::successors(Some(wire), |name| (name.len() > 1).then(|| name::parent(name)));
            above.skip(1).filter_map(|name| self.find(name)).any(|pick| self.is_delegation(pick))
        };
        self.complete.then(|| self.contains(wire) || self.is_origin(wire) || delegated())
    }

    /// The name that query `index` asks for; `bits` are random.
    pub(crate) fn pick(&self, order: Order, index: u64, bits: impl FnOnce() -> u64) -> Pick {
        self.exist.pick(order, index, bits)
    }

    /// The name that does not exist, where lists give them.
    pub(crate) fn pick_absent(&self, order: Order, index: u64, bits: impl FnOnce() -> u64) -> Option<Pick> {
        self.absent.as_ref().map(|pool| pool.pick(order, index, bits))
    }

    fn list(&self, pick: Pick) -> &List {
        &self.lists[usize::from(pick.list)]
    }

    /// The name in wire format.
    pub(crate) fn name(&self, pick: Pick) -> &[u8] {
        self.list(pick).names.get(pick.name as usize)
    }

    /// Below which name those are made that do not exist.
    pub(crate) fn origin(&self, pick: Pick) -> &[u8] {
        &self.list(pick).origin
    }

    /// Labels may go before the name.
    pub(crate) fn is_delegation(&self, pick: Pick) -> bool {
        self.list(pick).names.kind() == Kind::Delegations
    }

    /// The type of the record that the name is of.
    pub(crate) fn rtype(&self, pick: Pick) -> Option<u16> {
        self.list(pick).names.rtype(pick.name as usize)
    }

    /// Reads the beginnings of names, so that they are in the cache when they are wanted.
    pub(crate) fn bring_near<const N: usize>(&self, which: [Pick; N]) {
        let starts = which.map(|pick| self.list(pick).names.start(pick.name));
        let mut n = 0;
        std::hint::black_box(starts.map(|start| {
            n += 1;
            self.list(which[n - 1]).names.octet(start)
        }));
    }
}

/// Lists that are drawn against each other.
struct Pool {
    /// Heavier ones first, so that the search is short.
    members: Vec<Member>,
    /// Whose turn it is in sequential order, again and again: the member, and how many turns it had before.
    turns: Vec<(u16, u16)>,
}

struct Member {
    list: u16,
    count: u64,
    /// The least 64 random bits that draw it.
    from: u64,
    /// The part above `from`, shifted by this and multiplied by `scale` / 2^96, is a number below `count`.
    shift: u32,
    scale: u64,
    /// Its turns among `Pool::turns`.
    share: u64,
}

impl Pool {
    fn new(lists: &[List], which: &[u16]) -> Self {
        let weight = |&n: &u16| lists[usize::from(n)].spec.weight;
        let mut sorted = which.to_vec();
        sorted.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        let total: f64 = sorted.iter().map(weight).sum();
        let shares = turns_each(&sorted.iter().map(weight).collect::<Vec<_>>());
        let (mut sum, mut from, mut left) = (0.0, 0, sorted.len() as u64);
        let member = |(list, share): (&u16, u64)| {
            // Parts of 2^32, one at least for each.
            sum += weight(list);
            left -= 1;
            let to =
                if left == 0 { 1 << 32 } else { threshold(sum / total).clamp(from + 1, (1 << 32) - left) };
            let width: u64 = to - from;
            let shift = ((1 << 32) / width).ilog2();
            let count = lists[usize::from(*list)].names.len() as u64;
            let scale = ((u128::from(count) << 64) / u128::from(width << shift)) as u64;
            let member = Member { list: *list, count, from: from << 32, shift, scale, share };
            from = to;
            member
        };
        let members: Vec<Member> = sorted.iter().zip(shares).map(member).collect();
        Self { turns: turns(&members), members }
    }

    fn pick(&self, order: Order, index: u64, bits: impl FnOnce() -> u64) -> Pick {
        match order {
            Order::Uniform => {
                let bits = bits();
                // The first begins at 0.
                let n = self.members.iter().skip(1).take_while(|m| m.from <= bits).count();
                let m = &self.members[n];
                let part = u128::from((bits - m.from) << m.shift);
                Pick { list: m.list, name: ((part * u128::from(m.scale)) >> 96) as u32 }
            }
            Order::Sequential => {
                let period = self.turns.len() as u64;
                let (member, before) = self.turns[(index % period) as usize];
                let m = &self.members[usize::from(member)];
                let turn = index / period * m.share + u64::from(before);
                Pick { list: m.list, name: (turn % m.count) as u32 }
            }
        }
    }

    fn round(&self) -> u64 {
        let last = |(n, m): (usize, &Member)| {
            let (periods, before) = ((m.count - 1) / m.share, (m.count - 1) % m.share);
            let turn = (n as u16, before as u16);
            let at = self.turns.iter().position(|&t| t == turn).expect("each has its turns");
            periods * self.turns.len() as u64 + at as u64 + 1
        };
        self.members.iter().enumerate().map(last).max().expect("one list at least")
    }
}

/// How many turns each has before all begins again: as the weights where they are small whole numbers.
fn turns_each(weights: &[f64]) -> Vec<u64> {
    let total: f64 = weights.iter().sum();
    let whole = total <= TURNS_MAX && weights.iter().all(|w| w.fract() == 0.0);
    let scale = if whole { 1.0 } else { TURNS_MAX / total };
    let turns: Vec<u64> = weights.iter().map(|w| ((w * scale).round() as u64).max(1)).collect();
    let common = turns.iter().copied().fold(0, gcd);
    turns.into_iter().map(|n| n / common).collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Spreads the turns of each evenly: always the member that is owed most has the next.
fn turns(members: &[Member]) -> Vec<(u16, u16)> {
    let period: u64 = members.iter().map(|m| m.share).sum();
    let mut had = vec![0u16; members.len()];
    let turn = |at: u64| {
        let owed = |n: &usize| (members[*n].share * (at + 1)) as i64 - i64::from(had[*n]) * period as i64;
        // Of equals the first, which is the heavier.
        let next = (0..members.len()).rev().max_by_key(owed).expect("one list at least");
        had[next] += 1;
        (next as u16, had[next] - 1)
    };
    (0..period).map(turn).collect()
}
