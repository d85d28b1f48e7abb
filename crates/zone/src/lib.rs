//! Zone families, streaming generator, scanner, signer, slicer, differences and facts.
//!
//! Everything is a stream: [`Scanner`] reads records, [`sign()`] is an adapter over any
//! [`RecordSource`], [`generate()`] writes, [`info()`] and [`probe()`] are one pass each,
//! [`slice`] cuts, [`diff()`] reads two versions side by side, [`grow()`] merges a zone with what makes it larger. Nothing here keeps a zone in memory.

pub mod codec;
pub mod conformance;
pub mod contents;
pub mod diff;
pub mod edit;
pub mod error;
pub mod fit;
pub mod generate;
pub mod grow;
pub mod info;
pub mod order;
mod ordered;
pub mod probe;
pub mod profile;
pub mod scan;
pub mod sign;
pub mod slice;
pub mod sort;
pub mod source;
pub mod strip;
pub mod text;
pub mod time;

pub use contents::Contents;
pub use diff::{Diff, diff};
pub use edit::{Edits, Glue, edit};
pub use error::{Error, Place};
pub use fit::fit;
pub use generate::{Family, Shape, generate};
pub use grow::{Grown, Size, grow};
pub use info::{Info, info};
pub use probe::{Probe, delegations, is_signed_in_part, probe};
pub use profile::Profile;
pub use scan::{Record, Scanner};
pub use sign::{generate_signed, sign};
pub use source::RecordSource;
pub use strip::{Stripped, strip};
