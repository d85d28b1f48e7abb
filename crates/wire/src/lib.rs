//! Hot-path DNS bytes: header, question, records, OPT, query templates, names and canonical order, zone transfers.

pub mod checksum;
pub mod class;
pub mod header;
pub mod name;
pub mod opt;
pub mod query;
pub mod question;
pub mod ranges;
pub mod rcode;
pub mod record;
pub mod rtype;
pub mod transfer;

pub use checksum::Checksum;
