//! Traffic: profiles, name lists and the query source.
//!
//! A [`QuerySource`] gives query after query, from a file of queries ([`Queries`]) or from a
//! [`Profile`] over [`Lists`] of [`Names`], a zone's or a file's ([`Synthesis`]). A [`SourceSpec`] says which; it is what
//! travels to the roles that send. Query `n` of a source is the same whatever the number of workers
//! that share it: worker `w` of `W` takes the queries `w`, `w + W`, `w + 2W`, and so on.

mod addresses;
mod below;
mod cut;
mod error;
mod flood;
mod label;
mod lines;
mod lists;
mod misses;
mod names;
mod pool;
mod popular;
mod profile;
mod profile_changes;
mod queries;
mod query;
mod random;
mod spec;
mod synthesis;
mod tally;
mod weights;

pub mod clients;

pub use addresses::fuzz_address;
pub use cut::{CutQueries, cut_queries};
pub use error::Error;
pub use lists::{LISTS_MAX, NameList};
pub use names::{Found, Kind, NAMES_MAX, Names, Want, fuzz_names};
pub use pool::{List, Lists};
pub use popular::LeftOut;
pub use profile::{
    AddressFile, BELOW_MAX, BUILT_IN, Background, CLASSES_MAX, CLIENTS_MAX, Class, Law, Order, POPULAR_MAX,
    Port, Ports, Profile, SHAPES_MAX, Shape, Under, ZIPF_MAX, fuzz_profile,
};
pub use profile_changes::{Crowd, ProfileChanges, Types, nonexistent};
pub use queries::{Queries, check_queries_file, fuzz_line, names_asked_for, write_line};
pub use query::{Query, QuerySource};
pub use spec::{EdnsSpec, ProfileSpec, QueriesSpec, SourceSpec};
pub use synthesis::Synthesis;
pub use tally::Tally;
