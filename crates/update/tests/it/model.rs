//! A zone in memory, as RFC 2136 changes it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Cursor};
use update::script::{Command, Rr, Script, Section};
use wire::rtype;
use zone::Scanner;

/// RRsets by owner (small letters) and type, with their data. SOA and what servers make themselves are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model(pub BTreeMap<(Vec<u8>, u16), BTreeSet<Vec<u8>>>);

/// Section, owner, class, type and data of a record of a transaction.
type Owned = (Section, Vec<u8>, u16, u16, Vec<u8>);

const ANY: u16 = 255;
const NONE: u16 = 254;

impl Model {
    /// Of a zone's text.
    pub fn read(text: &[u8]) -> Self {
        Self::read_all(text).0
    }

    /// Of a zone's text, with all records, and what of them servers make themselves apart.
    pub fn read_whole(text: &[u8]) -> Self {
        let (mut model, made) = Self::read_all(text);
        model.0.extend(made.0);
        model
    }

    fn read_all(text: &[u8]) -> (Self, Self) {
        let mut scanner = Scanner::new(Cursor::new(text.to_vec()), "model");
        let (mut model, mut made) = (Self::default(), Self::default());
        while let Some(r) = scanner.next().unwrap() {
            let dnssec = [
                rtype::SOA,
                rtype::RRSIG,
                rtype::NSEC,
                rtype::NSEC3,
                rtype::NSEC3PARAM,
                rtype::DNSKEY,
                rtype::ZONEMD,
            ];
            let into = if dnssec.contains(&r.rtype) { &mut made } else { &mut model };
            into.insert(r.owner, r.rtype, r.rdata);
        }
        (model, made)
    }

    fn key(owner: &[u8], rtype: u16) -> (Vec<u8>, u16) {
        (owner.to_ascii_lowercase(), rtype)
    }

    /// Names in data compare as names do. Lengths are no letters where names are short, as here.
    fn data(rtype: u16, rdata: &[u8]) -> Vec<u8> {
        if rtype == rtype::NS { rdata.to_ascii_lowercase() } else { rdata.to_vec() }
    }

    fn insert(&mut self, owner: &[u8], rtype: u16, rdata: &[u8]) -> bool {
        self.0.entry(Self::key(owner, rtype)).or_default().insert(Self::data(rtype, rdata))
    }

    pub fn has_name(&self, owner: &[u8]) -> bool {
        let owner = owner.to_ascii_lowercase();
        self.0.keys().any(|(name, _)| *name == owner)
    }

    /// Plays a stream. Each deletion must find what it deletes, each addition must be new, and the prerequisites of a transaction must
    /// hold before it.
    pub fn play(&mut self, text: impl BufRead) -> u64 {
        let mut script = Script::new(text, "stream");
        let mut transaction: Vec<Owned> = Vec::new();
        let mut transactions = 0;
        while let Some(command) = script.next().unwrap() {
            match command {
                Command::Zone(_) => {}
                Command::Record(section, Rr { owner, class, rtype, rdata, .. }) => {
                    transaction.push((section, owner.to_vec(), class, rtype, rdata.to_vec()));
                }
                Command::Send => {
                    transactions += 1;
                    self.commit(&transaction);
                    transaction.clear();
                }
            }
        }
        transactions
    }

    fn commit(&mut self, transaction: &[Owned]) {
        let mut exactly: BTreeMap<(Vec<u8>, u16), BTreeSet<Vec<u8>>> = BTreeMap::new();
        for (section, owner, class, rtype, rdata) in transaction {
            if *section == Section::Prerequisite {
                let rrset = self.0.get(&Self::key(owner, *rtype));
                match (*class, *rtype) {
                    (NONE, ANY) => assert!(!self.has_name(owner), "{owner:?} exists"),
                    (ANY, ANY) => assert!(self.has_name(owner), "{owner:?} does not exist"),
                    (ANY, _) => assert!(rrset.is_some(), "{owner:?} {rtype} does not exist"),
                    (NONE, _) => assert!(rrset.is_none(), "{owner:?} {rtype} exists"),
                    _ => {
                        exactly
                            .entry(Self::key(owner, *rtype))
                            .or_default()
                            .insert(Self::data(*rtype, rdata));
                    }
                }
            }
        }
        for (key, set) in exactly {
            assert_eq!(self.0.get(&key), Some(&set), "{key:?} is otherwise");
        }
        for (section, owner, class, rtype, rdata) in transaction.iter().filter(|t| t.0 == Section::Update) {
            assert_eq!(*section, Section::Update);
            let key = Self::key(owner, *rtype);
            match *class {
                NONE => {
                    let set =
                        self.0.get_mut(&key).unwrap_or_else(|| panic!("no {owner:?} {rtype} to delete from"));
                    assert!(
                        set.remove(&Self::data(*rtype, rdata)),
                        "{owner:?} {rtype} {rdata:?} is not there"
                    );
                    if set.is_empty() {
                        self.0.remove(&key);
                    }
                }
                ANY => assert!(self.0.remove(&key).is_some(), "no {owner:?} {rtype} to delete"),
                // RFC 2136, section 3.4.2.2: there is one.
                _ if *rtype == rtype::SOA => drop(self.0.insert(key, [rdata.clone()].into())),
                _ => {
                    assert!(self.insert(owner, *rtype, rdata), "{owner:?} {rtype} {rdata:?} is there already")
                }
            }
        }
    }

    /// Every server inside a delegation of the model that some delegation names has an address, and nothing lies below what is no
    /// delegation any more.
    pub fn check_glue(&self, before: &Self) {
        let names: BTreeSet<&[u8]> = self.0.keys().map(|(name, _)| &name[..]).collect();
        let had: BTreeSet<&[u8]> = before.0.keys().map(|(name, _)| &name[..]).collect();
        for ((owner, _), set) in self.0.iter().filter(|((_, rtype), _)| *rtype == rtype::NS) {
            for server in set.iter().filter(|server| wire::name::is_under(server, owner)) {
                let known_before = had.contains(&server[..]);
                let was_named =
                    before.0.get(&(owner.clone(), rtype::NS)).is_some_and(|set| set.contains(server));
                assert!(
                    names.contains(&server[..]) || (was_named && !known_before),
                    "{server:?} has no address"
                );
            }
        }
        for (owner, rtype) in self.0.keys().filter(|(_, rtype)| matches!(*rtype, rtype::A | rtype::AAAA)) {
            let was = before.0.contains_key(&(owner.clone(), *rtype));
            let mut above = &owner[..];
            let mut cut = false;
            while above.len() > 1 {
                cut |= self.0.contains_key(&(above.to_vec(), rtype::NS));
                above = wire::name::parent(above);
            }
            let had_cut = {
                let mut above = &owner[..];
                let mut cut = false;
                while above.len() > 1 {
                    cut |= before.0.contains_key(&(above.to_vec(), rtype::NS));
                    above = wire::name::parent(above);
                }
                cut
            };
            assert!(cut || (was && !had_cut), "{owner:?} is glue of nothing");
        }
    }
}
