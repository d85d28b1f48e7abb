//! Names that are asked for more often than others.

use crate::Lists;
use crate::pool::Pick;
use crate::random::Table;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use wire::name::Name;

/// A popular name that is not asked for: what the profile says of it does not hold over these names. Its share goes to
/// the names of the lists, or to made ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeftOut {
    /// The name.
    #[serde(serialize_with = "as_text")]
    pub name: Name,
    /// Its share of the queries for names that exist, or of those for names that do not.
    pub share: f64,
    /// It was to exist, and does not; otherwise it was not to exist, but does, or is not of the zone.
    pub exist: bool,
}

fn as_text<S: Serializer>(name: &Name, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(name)
}

/// How a popular name is asked for.
#[derive(Clone, Debug)]
pub(crate) enum PopularName {
    /// It is a name of a list.
    Listed(Pick),
    /// As it is; `below`: labels go before it.
    Literal { name: Name, below: bool },
}

/// Draws popular names.
#[derive(Clone, Debug)]
pub(crate) struct Popular {
    /// 0: none of them.
    table: Table<u16>,
    ways: Vec<PopularName>,
}

impl Popular {
    /// `None` where there are none. Those that do not exist where they shall (`exist`), or do where they shall not, go to
    /// `left_out`.
    pub(crate) fn new(
        names: &BTreeMap<Name, f64>,
        lists: &Lists,
        exist: bool,
        left_out: &mut Vec<LeftOut>,
    ) -> Option<Self> {
        let (mut ways, mut shares) = (Vec::new(), Vec::new());
        for (name, &share) in names.iter().filter(|(_, share)| **share > 0.0) {
            let way = if exist { existing(name, lists) } else { absent(name, lists) };
            match way {
                Some(way) => {
                    ways.push(way);
                    shares.push((ways.len() as u16, share));
                }
                None => left_out.push(LeftOut { name: name.clone(), share, exist }),
            }
        }
        let rest = (1.0 - shares.iter().map(|s| s.1).sum::<f64>()).max(0.0);
        shares.push((0, rest));
        (!ways.is_empty()).then(|| Self { table: Table::new(shares), ways })
    }

    pub(crate) fn draw(&self, bits: u32) -> Option<&PopularName> {
        usize::from(self.table.get(bits)).checked_sub(1).map(|n| &self.ways[n])
    }
}

fn existing(name: &Name, lists: &Lists) -> Option<PopularName> {
    if let Some(pick) = lists.find(name.as_wire()) {
        return Some(PopularName::Listed(pick));
    }
    let literal = |below| Some(PopularName::Literal { name: name.clone(), below });
    match lists.exists(name.as_wire()) {
        Some(true) => literal(false),
        Some(false) => None,
        // Of a sample nobody knows: most names of a zone of delegations are some, but the zone's own is not.
        None => literal(lists.has_delegations() && !lists.is_origin(name.as_wire())),
    }
}

fn absent(name: &Name, lists: &Lists) -> Option<PopularName> {
    let there = lists.exists(name.as_wire()) == Some(true) || !lists.is_in_zone(name.as_wire());
    (!there).then(|| PopularName::Literal { name: name.clone(), below: true })
}
