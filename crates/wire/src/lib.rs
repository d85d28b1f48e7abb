//! Hot-path DNS bytes: header, question, OPT, query templates, names and canonical order.

mod checksum;
pub mod class;
pub mod header;
pub mod name;
pub mod opt;
pub mod query;
pub mod question;
pub mod ranges;
pub mod rcode;
pub mod rtype;

pub use checksum::Checksum;
