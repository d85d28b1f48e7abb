//! The text of a zone's parts.

use super::Summary;
use super::base::Server;
use super::fixed::{Fixed, Item};
use super::labels::mix;
use super::plan::{At, Group, Plan};
use crate::text::{write_ipv4, write_number};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use wire::name;

/// A part of the zone, written by one task.
pub(super) enum Part<'a> {
    Apex,
    /// A delegation that is there by name.
    Delegation(&'a Item),
    /// Addresses of servers that are there by name.
    Servers(&'a [Server]),
    /// Made delegations, by number.
    Made(Range<u64>),
    /// Servers under an entry, by rank.
    Under(usize, Range<u64>),
}

/// The text between owner and data, by type: the TTL where it is not the default one.
pub(super) struct Heads {
    ns: Vec<u8>,
    a: Vec<u8>,
    aaaa: Vec<u8>,
    ds: Vec<u8>,
}

impl Heads {
    pub fn new(plan: &Plan<'_>) -> Self {
        let p = plan.profile;
        let head = |ttl: u32, rtype: &str| match ttl {
            ttl if ttl == p.ns.ttl => format!("\t{rtype}\t").into_bytes(),
            ttl => format!("\t{ttl}\t{rtype}\t").into_bytes(),
        };
        let ttl = p.glue.ttl;
        Self {
            ns: head(p.ns.ttl, "NS"),
            a: head(ttl, "A"),
            aaaa: head(ttl, "AAAA"),
            ds: head(p.ds.ttl, "DS"),
        }
    }
}

/// Writes one part's text.
pub(super) struct Writer<'a> {
    plan: &'a Plan<'a>,
    heads: &'a Heads,
    out: Vec<u8>,
    sum: Summary,
}

impl<'a> Writer<'a> {
    pub fn new(plan: &'a Plan<'a>, heads: &'a Heads) -> Self {
        Self { plan, heads, out: Vec::with_capacity(768 << 10), sum: Summary::default() }
    }

    /// `header` is the comment at the top.
    pub fn part(mut self, part: Part<'_>, header: &str) -> (Vec<u8>, Summary) {
        match part {
            Part::Apex => self.apex(header),
            Part::Delegation(item) => self.fixed(item),
            Part::Servers(servers) => {
                for s in servers {
                    name::write_text(s.name.as_wire(), &mut self.out);
                    self.addresses((s.v4, s.v6));
                }
            }
            Part::Made(numbers) => numbers.for_each(|number| self.delegation(number, true)),
            Part::Under(entry, ranks) => {
                for rank in ranks {
                    let group = self.plan.under(entry, rank);
                    self.glue(&group, None);
                }
            }
        }
        self.sum.records += self.sum.ns + self.sum.a + self.sum.aaaa + self.sum.ds;
        self.sum.bytes = self.out.len() as u64;
        (self.out, self.sum)
    }

    fn apex(&mut self, header: &str) {
        let apex = &self.plan.profile.apex;
        let [refresh, retry, expire, minimum] = apex.timers;
        let mailbox = apex.mailbox.clone().unwrap_or_else(|| match apex.origin.as_str() {
            "." => "hostmaster.".into(),
            origin => format!("hostmaster.{origin}"),
        });
        let text = format!(
            "{header}$TTL {}\n{}\t{}\tIN\tSOA\t{} {mailbox} {} {refresh} {retry} {expire} {minimum}\n",
            self.plan.profile.ns.ttl, apex.origin, apex.soa_ttl, apex.servers[0], apex.serial
        );
        self.out.extend_from_slice(text.as_bytes());
        for server in &apex.servers {
            self.out.extend_from_slice(format!("\t{}\tNS\t{server}\n", apex.ns_ttl).as_bytes());
        }
        self.sum.ns += apex.servers.len() as u64;
        self.sum.records += 1;
    }

    fn fixed(&mut self, item: &Item) {
        let Some(servers) = &item.servers else {
            // Its glue is sorted among the other servers below it.
            return item.number.into_iter().for_each(|number| self.delegation(number, false));
        };
        self.out.extend_from_slice(&item.label);
        self.out.push(b'.');
        for server in servers {
            self.head(|h| &h.ns);
            name::write_text(server.as_wire(), &mut self.out);
            self.out.push(b'\n');
        }
        self.sum.ns += servers.len() as u64;
        self.sum.delegations += 1;
    }

    /// A delegation: its NS records, its DS records, the addresses of the servers inside it.
    fn delegation(&mut self, number: u64, with_glue: bool) {
        let plan = self.plan;
        let slot = plan.layout.slot(number);
        let start = self.out.len();
        plan.delegations.write(number, &mut self.out);
        let owner = start..self.out.len();
        plan.servers_of(number, &slot, &mut |group| {
            let mut place = self.place_of(&group, number, &owner);
            for k in group.first..group.first + group.size {
                self.head(|h| &h.ns);
                place = Some(self.server(&group, k, place.take()));
                self.out.push(b'\n');
            }
            self.sum.ns += u64::from(group.size);
        });
        self.ds(number, plan.layout.ds(number, &slot));
        if with_glue {
            plan.glue_of(number, &slot, &mut |group| self.glue(&group, Some(owner.clone())));
        }
        self.sum.delegations += 1;
    }

    /// Where the text of a group's place stands already.
    fn place_of(&self, group: &Group, number: u64, owner: &Range<usize>) -> Option<Range<usize>> {
        matches!(group.at, At::Delegation(n) if n == number).then(|| owner.clone())
    }

    /// Writes a server's name; gives where its place's text stands.
    fn server(&mut self, group: &Group, k: u8, place: Option<Range<usize>>) -> Range<usize> {
        group.hosts.write(k, &mut self.out);
        self.out.push(b'.');
        match place {
            Some(place) => {
                self.out.extend_from_within(place.clone());
                place
            }
            None => {
                let start = self.out.len();
                self.plan.write_place(group.at, &mut self.out);
                start..self.out.len()
            }
        }
    }

    fn glue(&mut self, group: &Group, mut place: Option<Range<usize>>) {
        for k in group.first..group.first + group.size {
            place = Some(self.server(group, k, place.take()));
            self.addresses(self.plan.addresses(group, k));
        }
    }

    fn head(&mut self, of: fn(&Heads) -> &Vec<u8>) {
        self.out.extend_from_slice(of(self.heads));
    }

    fn addresses(&mut self, (a, aaaa): (Option<Ipv4Addr>, Option<Ipv6Addr>)) {
        if let Some(a) = a {
            self.head(|h| &h.a);
            write_ipv4(a, &mut self.out);
            self.out.push(b'\n');
            self.sum.a += 1;
        }
        if let Some(aaaa) = aaaa {
            self.head(|h| &h.aaaa);
            write_ipv6(aaaa, &mut self.out);
            self.out.push(b'\n');
            self.sum.aaaa += 1;
        }
    }

    fn ds(&mut self, number: u64, records: &[(u8, u8)]) {
        let mut hash = self.plan.ds_bits(number);
        for &(algorithm, digest_type) in records {
            hash = mix(hash ^ 1);
            self.head(|h| &h.ds);
            write_number(1 + hash % 65535, &mut self.out);
            for number in [algorithm, digest_type] {
                self.out.push(b' ');
                write_number(number.into(), &mut self.out);
            }
            self.out.push(b' ');
            let mut digest = [0; 48];
            for chunk in digest.chunks_exact_mut(8) {
                hash = mix(hash ^ 2);
                chunk.copy_from_slice(&hash.to_le_bytes());
            }
            // SHA-1, SHA-256, SHA-384 (RFC 4034, RFC 4509, RFC 6605).
            let len = [0, 20, 32, 0, 48][usize::from(digest_type)];
            crate::codec::write_hex(&digest[..len], &mut self.out);
            self.out.push(b'\n');
        }
        self.sum.ds += records.len() as u64;
    }
}

/// Gives the delegations and servers that are there by name what the plan has for them.
pub(super) fn complete(fixed: &mut Fixed, plan: &Plan<'_>) {
    let mut next = 0;
    for item in &mut fixed.items {
        for server in item.addresses.iter_mut().filter(|s| s.v4.is_none() && s.v6.is_none()) {
            (server.v4, server.v6) = plan.apex_address(next);
            next += 1;
        }
        let Some(number) = item.number else { continue };
        let mut text = Vec::new();
        plan.glue_of(number, &plan.layout.slot(number), &mut |group| {
            for k in group.first..group.first + group.size {
                text.clear();
                group.hosts.write(k, &mut text);
                text.push(b'.');
                plan.write_place(group.at, &mut text);
                let (v4, v6) = plan.addresses(&group, k);
                let name = super::base::name(&String::from_utf8_lossy(&text));
                item.addresses.push(Server { name, v4, v6 });
            }
        });
        item.addresses.sort_by(|a, b| a.name.cmp(&b.name));
        item.addresses.dedup_by(|a, b| a.name == b.name);
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
    use super::super::address;
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
}
