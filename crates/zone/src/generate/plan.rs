//! Which name servers a delegation has, and which servers lie at a place: the same answer both ways.
//!
//! Own groups of servers, and providers, are numbered. Keyed permutations send a number to a place: a name that
//! servers lie under (an [`Entry`]), and a rank among its second-level names. The NS record computes
//! the server's name from that rank, and the glue, written rank by rank, meets the same name.
//!
//! A provider under another name has a first user, a delegation that has all the provider's servers: so
//! there is no glue without an NS record. A provider under the zone's own name is one of the delegations
//! whose servers lie inside them.

use super::delegations::{Delegations, Vocabularies};
use super::fixed::{Fixed, below};
use super::labels::{Labels, mix, second_level};
use super::layout::{Layout, Slot};
use super::permutation::{Permutation, Share, apportion};
use super::popularity::Popularity;
use super::{address, base};
use crate::Profile;
use crate::profile::Model;
use measure::Seed;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::name::Name;

/// A name that servers lie under.
pub(super) struct Entry<'a> {
    /// The end of each name after a second-level label: `.net.`.
    pub suffix: Vec<u8>,
    /// The label below the apex that has the glue, for names in the zone.
    pub child: Option<Vec<u8>>,
    /// The zone's own name: any delegation.
    is_zone: bool,
    /// Own groups and providers here: the first place, and how many.
    own: (u64, u64),
    providers: (u64, u64),
    /// Second-level names.
    pub labels: Labels<'a>,
    /// Mixes own groups and providers here.
    mixed: Permutation,
}

/// Name servers at one place.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub at: At,
    /// How the hosts are called, and how many there are.
    pub hosts: Hosts,
    /// The range of them: from the first, this many.
    pub first: u8,
    pub size: u8,
    /// Key and index of their addresses; the host's number is added to the key.
    key: u64,
    index: u64,
}

/// The place of a group's servers.
#[derive(Clone, Copy)]
pub(super) enum At {
    /// The delegation of this number.
    Delegation(u64),
    /// The second-level name of this rank under an entry.
    Second { entry: usize, rank: u64 },
}

/// The first labels of a group's servers; they sort as they are numbered.
#[derive(Clone, Copy)]
pub(super) struct Hosts {
    style: u8,
    count: u8,
}

/// The whole zone.
pub(super) struct Plan<'a> {
    pub profile: &'a Profile,
    pub layout: Layout,
    pub delegations: Delegations<'a>,
    pub entries: Vec<Entry<'a>>,
    own: Permutation,
    providers: Permutation,
    provider_count: u64,
    /// Places of providers under the zone's own name: the first, and how many.
    in_zone: (u64, u64),
    users: Permutation,
    insiders: Permutation,
    popularity: Popularity,
    /// Delegations that own groups under the zone's own name lie in.
    lodgers: Permutation,
    lodged: (u64, u64),
    apart: bool,
    keys: Keys,
    /// In a million servers: those without an A, and of the others those with an AAAA.
    no_a_ppm: u64,
    aaaa_ppm: u64,
}

struct Keys {
    inside: u64,
    group: u64,
    lodger: u64,
    user: u64,
    ds: u64,
    apex: u64,
}

impl<'a> Plan<'a> {
    /// `apart`: see [`Layout::new`].
    pub fn new(
        p: &'a Profile,
        made: u64,
        fixed: &Fixed,
        apart: bool,
        words: &'a Vocabularies,
        seed: Seed,
    ) -> Self {
        let layout = Layout::new(p, made + fixed.numbered, apart, seed);
        let mut draw = seed.draw("servers", 0);
        let keys = Keys {
            inside: draw.bits(),
            group: draw.bits(),
            lodger: draw.bits(),
            user: draw.bits(),
            ds: draw.bits(),
            apex: draw.bits(),
        };
        let entries = entries(p, &layout, fixed, words, seed);
        let (lodged, in_zone) =
            entries.iter().find(|e| e.is_zone).map_or(((0, 0), (0, 0)), |e| (e.own, e.providers));
        let provider_count: u64 = entries.iter().map(|e| e.providers.1).sum();
        let ppm = |share: f64| (share * 1e6).round() as u64;
        let aaaa = if p.glue.a > 0.0 { (p.glue.aaaa - (1.0 - p.glue.a)) / p.glue.a } else { 1.0 };
        Self {
            profile: p,
            delegations: Delegations::new(p, made, fixed, words, seed),
            own: Permutation::new(layout.groups, draw.bits()),
            providers: Permutation::new(provider_count, draw.bits()),
            provider_count,
            in_zone,
            users: Permutation::new(layout.users, draw.bits()),
            insiders: Permutation::new(layout.insiders, draw.bits()),
            popularity: Popularity::new(provider_count.max(1), p.servers.exponent),
            lodgers: Permutation::new(layout.count, draw.bits()),
            lodged,
            layout,
            entries,
            apart,
            keys,
            no_a_ppm: ppm(1.0 - p.glue.a),
            aaaa_ppm: ppm(aaaa.clamp(0.0, 1.0)),
        }
    }

    /// Hands `each` the groups of name servers of a delegation, and whether their addresses lie in it.
    pub fn servers_of(&self, number: u64, slot: &Slot, each: &mut impl FnMut(Group)) {
        if let Some(inside) = self.inside(number, slot) {
            each(inside);
        }
        if self.apart {
            (0..u64::from(slot.own)).for_each(|k| each(self.own_group(slot.first_group + k, 1)));
        } else if slot.own > 0 {
            each(self.own_group(slot.first_group, slot.own));
        }
        if slot.shared > 0 {
            self.shared(number, slot, each);
        }
    }

    /// Hands `each` the groups whose addresses lie in a delegation, in canonical order.
    pub fn glue_of(&self, number: u64, slot: &Slot, each: &mut impl FnMut(Group)) {
        if let Some(inside) = self.inside(number, slot) {
            each(inside);
        }
        if self.lodged.1 > 0 {
            let lodger = self.lodgers.invert(number);
            if lodger < self.lodged.1 {
                let group = self.own.invert(self.lodged.0 + lodger);
                each(self.own_group(group, self.layout.group_size(group)));
            }
        }
    }

    /// The group that lies under an entry's second-level name of this rank.
    pub fn under(&self, entry: usize, rank: u64) -> Group {
        if self.apart {
            return self.at_rank(entry, rank, 1);
        }
        let e = &self.entries[entry];
        let place = e.mix().map_or(rank, |m| m.invert(rank));
        let size = match place.checked_sub(e.own.1) {
            None => self.layout.group_size(self.own.invert(e.own.0 + place)),
            Some(place) => self.layout.user_size(self.first_user(self.outside(e.providers.0 + place))),
        };
        self.at_rank(entry, rank, size)
    }

    fn inside(&self, number: u64, slot: &Slot) -> Option<Group> {
        let hosts = self.hosts_inside(number, slot);
        let (key, index) = (self.keys.inside, slot.first_inside);
        let at = At::Delegation(number);
        (slot.inside > 0).then_some(Group { at, hosts, first: 0, size: slot.inside, key, index })
    }

    fn hosts_inside(&self, number: u64, slot: &Slot) -> Hosts {
        let styles: &[u8] = match self.profile.labels.model {
            _ if self.apart => &[0],
            Model::Letters => &[2, 2, 0, 3],
            Model::Words => &[0, 0, 0, 1],
        };
        let hash = mix(self.keys.inside ^ number);
        Hosts { style: styles[(hash % styles.len() as u64) as usize], count: slot.inside }
    }

    fn own_group(&self, group: u64, size: u8) -> Group {
        let place = self.own.apply(group);
        let entry = find(&self.entries, place, |e| e.own.0);
        let e = &self.entries[entry];
        if e.is_zone {
            let at = At::Delegation(self.lodgers.apply(place - e.own.0));
            let hosts = Hosts { style: 4, count: size };
            return Group { at, hosts, first: 0, size, key: self.keys.lodger, index: group };
        }
        let place = place - e.own.0;
        let rank = e.mix().map_or(place, |m| m.apply(place));
        self.at_rank(entry, rank, size)
    }

    fn at_rank(&self, entry: usize, rank: u64, size: u8) -> Group {
        let key = self.keys.group ^ (entry as u64) << 48;
        let hash = mix(key ^ rank);
        let style = if self.apart { 8 + (hash >> 60) as u8 } else { (hash >> 62 == 0).into() };
        let hosts = Hosts { style, count: size };
        Group { at: At::Second { entry, rank }, hosts, first: 0, size, key, index: rank }
    }

    /// The number among providers outside the zone's own name of the one at a place.
    fn outside(&self, place: u64) -> u64 {
        if place < self.in_zone.0 { place } else { place - self.in_zone.1 }
    }

    /// The first user of a provider outside: a permutation, but that provider 0 has user 0, which has the most
    /// servers of all.
    fn first_user(&self, outside: u64) -> u64 {
        match (outside, self.users.apply(outside)) {
            (0, _) => 0,
            (_, 0) => self.users.apply(0),
            (_, user) => user,
        }
    }

    /// The provider outside whose first user this is.
    fn first_user_of(&self, user: u64) -> Option<u64> {
        let swapped = match user {
            0 => self.users.apply(0),
            user if user == self.users.apply(0) => 0,
            user => user,
        };
        let outside = self.provider_count - self.in_zone.1;
        Some(self.users.invert(swapped)).filter(|&p| p < outside)
    }

    /// The place of a provider outside.
    fn place(&self, outside: u64) -> u64 {
        if outside < self.in_zone.0 { outside } else { outside + self.in_zone.1 }
    }

    /// The insider that a place under the zone's own name stands for.
    fn insider(&self, place: u64) -> Option<u64> {
        let place = place.checked_sub(self.in_zone.0).filter(|&p| p < self.in_zone.1)?;
        Some(self.insiders.apply(place))
    }

    fn provider_size(&self, place: u64) -> u8 {
        match self.insider(place) {
            Some(insider) => self.layout.insider_size(insider),
            None => self.layout.user_size(self.first_user(self.outside(place))),
        }
    }

    /// All servers of the provider at a place.
    fn provider(&self, place: u64) -> Group {
        if let Some(insider) = self.insider(place) {
            let (number, slot) = self.layout.insider(insider);
            return self.inside(number, &slot).expect("an insider has servers inside");
        }
        let entry = find(&self.entries, place, |e| e.providers.0);
        let e = &self.entries[entry];
        let size = self.layout.user_size(self.first_user(self.outside(place)));
        let place = e.own.1 + place - e.providers.0;
        self.at_rank(entry, e.mix().map_or(place, |m| m.apply(place)), size)
    }

    /// The servers of providers that a delegation has.
    fn shared(&self, number: u64, slot: &Slot, each: &mut impl FnMut(Group)) {
        let has_outside = self.provider_count > self.in_zone.1;
        if has_outside && let Some(provider) = self.first_user_of(slot.user) {
            return each(self.provider(self.place(provider)));
        }
        let mut hash = mix(self.keys.user ^ number);
        let mut draw = || {
            hash = mix(hash ^ 1);
            self.providers.apply(self.popularity.choose(hash))
        };
        // One provider with servers enough; where that is not soon found, several; at last the one that has most.
        let mut place = draw();
        for _ in 0..3 {
            if self.provider_size(place) >= slot.shared {
                break;
            }
            place = draw();
        }
        let (mut used, mut left) = ([u64::MAX; 8], slot.shared);
        for round in 0..used.len() {
            let group = self.provider(place);
            let own = matches!(group.at, At::Delegation(n) if n == number);
            if !own && !used.contains(&place) {
                let size = group.size.min(left);
                each(Group { size, ..group });
                (used[round], left) = (place, left - size);
            }
            if left == 0 {
                return;
            }
            // Where provider 0 was used for a part, it is not for the rest: delegations are then a server short.
            place = if round + 2 == used.len() && has_outside { self.place(0) } else { draw() };
        }
    }

    /// The addresses of a group's server.
    pub fn addresses(&self, group: &Group, host: u8) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
        if group.key == self.keys.inside {
            // These are numbered through.
            return self.address(group.key, group.index + u64::from(host));
        }
        self.address(group.key ^ u64::from(host) << 40, group.index)
    }

    fn address(&self, key: u64, index: u64) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
        let hash = mix(mix(key ^ index) ^ key.rotate_left(32));
        let without_a = Share::new(self.no_a_ppm, key);
        let has_a = !without_a.has(index);
        let has_aaaa = !has_a || Share::new(self.aaaa_ppm, mix(key)).has(without_a.passed(index));
        (has_a.then(|| address::v4(hash)), has_aaaa.then(|| address::v6(mix(hash))))
    }

    /// The addresses of one of the zone's own servers.
    pub fn apex_address(&self, index: u64) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
        let hash = mix(self.keys.apex ^ index);
        (Some(address::v4(hash)), (self.profile.glue.aaaa > 0.0).then(|| address::v6(mix(hash))))
    }

    /// The random bits of a delegation's DS records.
    pub fn ds_bits(&self, number: u64) -> u64 {
        mix(self.keys.ds ^ number)
    }

    /// Appends the name that a group's servers lie in.
    pub fn write_place(&self, at: At, out: &mut Vec<u8>) {
        match at {
            At::Delegation(number) => self.delegations.write(number, out),
            At::Second { entry, rank } => {
                let entry = &self.entries[entry];
                entry.labels.write(rank, out);
                out.extend_from_slice(&entry.suffix);
            }
        }
    }
}

impl Entry<'_> {
    /// Where one of both kinds is missing, the other is in no order already.
    fn mix(&self) -> Option<&Permutation> {
        (self.own.1 > 0 && self.providers.1 > 0).then_some(&self.mixed)
    }
}

/// The entry that has this place, of those that start at `first`.
fn find(entries: &[Entry<'_>], place: u64, first: impl Fn(&Entry<'_>) -> u64) -> usize {
    entries.partition_point(|e| first(e) <= place) - 1
}

fn entries<'a>(
    p: &Profile,
    layout: &Layout,
    fixed: &Fixed,
    words: &'a Vocabularies,
    seed: Seed,
) -> Vec<Entry<'a>> {
    let weights = || p.servers.under.values().copied();
    let (mut own_from, mut providers_from) = (0, 0);
    let providers = match layout.users {
        0 => 0,
        _ => ((p.servers.providers * layout.count as f64).round() as u64).max(1),
    };
    let counts = apportion(weights(), layout.groups).into_iter().zip(apportion(weights(), providers));
    let depth = fixed.origin.label_count();
    let lengths = second_level();
    // No more providers than delegations that can be their first users, or that they can be.
    let mut users = layout.users;
    let entry = |(text, (own, providers)): (&String, (u64, u64))| {
        let name: Name = base::name(text).lowercase();
        let is_zone = name == fixed.origin;
        let providers = if is_zone { providers.min(layout.insiders) } else { providers.min(users) };
        users -= if is_zone { 0 } else { providers };
        let child =
            (!is_zone && name.is_under(fixed.origin.as_wire())).then(|| below(&name, depth + 1).to_vec());
        let items = fixed.items.iter().filter(|i| Some(&i.label) == child.as_ref());
        let taken: Vec<&[u8]> = items.flat_map(|i| &i.addresses).map(|s| below(&s.name, depth + 2)).collect();
        let count = if is_zone { 0 } else { own + providers };
        let suffix = if name.label_count() == 0 { ".".to_owned() } else { format!(".{name}") };
        let entry = Entry {
            suffix: suffix.into_bytes(),
            child,
            is_zone,
            own: (own_from, own),
            providers: (providers_from, providers),
            labels: Labels::new(&words.second_level, count, &lengths, taken, seed, text),
            mixed: Permutation::new(count, seed.draw("mixed", own_from ^ providers_from << 32).bits()),
        };
        (own_from, providers_from) = (own_from + own, providers_from + providers);
        entry
    };
    p.servers.under.keys().zip(counts).map(entry).collect()
}

impl Hosts {
    /// Appends the label or labels of the host of this number (from 0), without a dot at the end.
    #[inline]
    pub fn write(self, k: u8, out: &mut Vec<u8>) {
        /// Names of a server that is alone, as in figure 1.1.
        const ALONE: [&str; 16] = [
            "ns1", "ns1", "ns1", "ns2", "ns2", "ns2", "ns3", "ns3", "ns4", "ns4", "ns", "dns1", "dns2",
            "dns5", "a.ns", "f.ns",
        ];
        let numbered = |text: &[u8], out: &mut Vec<u8>| {
            out.extend_from_slice(text);
            // As many digits for each, so that they sort as they count.
            if self.count > 9 {
                out.push(b'0' + (k + 1) / 10);
            }
            out.push(b'0' + (k + 1) % 10);
        };
        match self.style {
            0 => numbered(b"ns", out),
            1 => numbered(b"dns", out),
            2 | 3 if self.count <= 26 => {
                out.push(b'a' + k);
                out.extend_from_slice(if self.style == 2 { b".nic" } else { b".dns" });
            }
            2 | 3 => numbered(b"ns", out),
            4 => numbered(b"srv", out),
            style => out.extend_from_slice(ALONE[usize::from(style - 8)].as_bytes()),
        }
    }
}
