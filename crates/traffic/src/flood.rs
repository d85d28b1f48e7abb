//! Traffic beside the one that is measured: a flood of random labels ("random subdomains", "water torture").
//!
//! RZAIA (seed 003, section 3.3) fears directed attacks on servers with large signed zones. Each query of such a
//! flood is for another name, so that no cache helps: below the zone's own name the server has to deny it, below a
//! delegation to refer it. The good queries of a stream are the same with a flood among them as without it, but for
//! those in whose places the flood's are.

use crate::label::push_label;
use crate::pool::{Lists, Pick};
use crate::profile::{Background, Profile, Under};
use crate::random::{Draws, Keys, Table, threshold};
use measure::Seed;

/// Draws the queries of a flood.
#[derive(Clone)]
pub(crate) struct Flood {
    keys: Keys,
    share: u64,
    under: Under,
    label: u8,
    types: Table<u16>,
}

impl Flood {
    /// `None` where the profile has none.
    pub(crate) fn new(profile: &Profile, seed: Seed) -> Option<Self> {
        let Background { share, under, label, types } = &profile.background;
        (*share > 0.0).then(|| Self {
            keys: Keys::new(seed, "background"),
            share: threshold(*share),
            under: under.clone(),
            label: *label,
            types: Table::new(types.iter().map(|(&t, &w)| (t, w))),
        })
    }

    /// Whether query `index` belongs to the flood: its type, and the draws for its label.
    pub(crate) fn draw(&mut self, index: u64) -> Option<(u16, Draws)> {
        let mut draws = self.keys.draws(index);
        let bits = draws.bits();
        (bits & 0xffff_ffff < self.share).then(|| (self.types.get((bits >> 32) as u32), draws))
    }

    /// Appends the name that is asked for; `pick` is what a good query would ask for.
    pub(crate) fn push_name(&self, draws: &mut Draws, names: &Lists, pick: Pick, out: &mut Vec<u8>) {
        push_label(out, draws, usize::from(self.label));
        out.extend_from_slice(match &self.under {
            Under::Apex => names.origin(pick),
            Under::Names => names.name(pick),
            Under::Name(name) => name.as_wire(),
        });
    }
}
