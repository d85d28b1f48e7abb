//! Names that do not exist.

use crate::Lists;
use crate::below::{Below, with_room};
use crate::label::push_label;
use crate::pool::Pick;
use crate::popular::{LeftOut, Popular, PopularName};
use crate::profile::Profile;
use crate::random::{Draws, Table};
use std::collections::BTreeMap;
use wire::name::{MAX_LABEL, Name};

/// Lengths of labels that are made not to exist, in octets, with weights in per cent: as seen in one
/// minute at a root-like server (shared data, nsd-live.pcap.xz, last labels of NXDOMAIN answers).
const LENGTHS: [(u8, f64); 18] = [
    (1, 1.0),
    (2, 3.0),
    (3, 11.0),
    (4, 12.0),
    (5, 14.0),
    (6, 4.0),
    (7, 7.0),
    (8, 6.0),
    (9, 7.0),
    (10, 5.0),
    (11, 6.0),
    (12, 4.0),
    (13, 5.0),
    (14, 5.0),
    (15, 5.0),
    (19, 2.0),
    (24, 2.0),
    (34, 1.0),
];

/// Attempts at a name of one length before a longer one is tried.
const ATTEMPTS: u8 = 16;

/// How names that do not exist are made.
#[derive(Clone)]
pub(crate) struct Misses {
    pub(crate) below: Below,
    popular: Often,
    /// Lengths of made labels, where shapes do not say them.
    lengths: Table<u8>,
}

/// Popular names, or none.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "one a source, in the way of every query")]
enum Often {
    /// Whatever goes before them.
    All(Option<Popular>),
    /// By the length of the label that would have to exist first: in real traffic what goes before goes with it.
    ByLength(Box<[Option<Popular>]>),
}

impl Misses {
    /// Popular names that do exist go to `left_out`.
    pub(crate) fn new(profile: &Profile, lists: &Lists, left_out: &mut Vec<LeftOut>) -> Self {
        let lengths = match profile.lengths.is_empty() {
            true => Table::new(LENGTHS),
            false => Table::new(profile.lengths.iter().map(|(&length, &weight)| (length, weight))),
        };
        let (known, names) = (left_out.len(), &profile.popular_nonexistent);
        let popular = Popular::new(names, lists, false, left_out);
        let shapes = &profile.shapes_nonexistent;
        if shapes.is_empty() {
            let below = Below::new(&profile.below_nonexistent, shapes);
            return Self { below, popular: Often::All(popular), lengths };
        }
        let gone = &left_out[known..];
        let mut by_length: Vec<BTreeMap<Name, f64>> = vec![BTreeMap::new(); MAX_LABEL + 1];
        for (name, &share) in names.iter().filter(|(name, _)| !gone.iter().any(|left| left.name == **name)) {
            by_length[usize::from(name.as_wire()[0])].insert(name.clone(), share);
        }
        let least = std::array::from_fn(|length| by_length[length].values().sum());
        let (shapes, shares) = with_room(shapes, &least);
        let popular = |(names, share): (&mut BTreeMap<Name, f64>, f64)| {
            names.values_mut().for_each(|of_all| *of_all = (*of_all / share).min(1.0));
            Popular::new(names, lists, false, &mut Vec::new())
        };
        let popular = by_length.iter_mut().zip(shares).map(popular).collect();
        Self { below: Below::new(&[], &shapes), popular: Often::ByLength(popular), lengths }
    }

    /// A popular name, where `bits` draw one; `length` is the one that the shape says, if there is one.
    pub(crate) fn popular(&self, length: Option<u8>, bits: u32) -> Option<&PopularName> {
        let names = match &self.popular {
            Often::All(names) => names,
            Often::ByLength(names) => &names[usize::from(length?)],
        };
        names.as_ref()?.draw(bits)
    }

    /// Appends a name that does not exist: a made label before the zone's name, of a length if that is said.
    ///
    /// Where all names are known it is looked up, and made longer until it is not among them. Where
    /// only a sample is known it cannot be there by construction (but for a wildcard): its third and
    /// fourth characters are hyphens, as in no name that a registry hands out but those that begin
    /// with "xn" (RFC 5890, section 2.3.1), and as in no delegation that `zone generate` makes.
    pub(crate) fn push(
        &self,
        draws: &mut Draws,
        names: &Lists,
        (pick, length): (Pick, Option<u8>),
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        for attempt in 0u8.. {
            let len = match length {
                Some(length) => length + attempt / ATTEMPTS,
                None => self.lengths.get(draws.bits() as u32) + attempt,
            };
            // More attempts than a label has room cannot be, but this ends even so: as in a sample.
            if !names.is_complete() || usize::from(len) > MAX_LABEL || attempt == u8::MAX {
                push_label(out, draws, (usize::from(len) + 4).min(MAX_LABEL));
                // The first letter must not make "xn--" of it.
                out[start + 1] = b'q';
                out[start + 3..start + 5].copy_from_slice(b"--");
                out.extend_from_slice(names.origin(pick));
                return;
            }
            push_label(out, draws, usize::from(len));
            out.extend_from_slice(names.origin(pick));
            if !names.contains(&out[start..]) {
                return;
            }
            out.truncate(start);
        }
    }
}
