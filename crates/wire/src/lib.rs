//! Hot-path DNS bytes: header, question, OPT, query templates, names and canonical order.

pub mod header;
pub mod query;
pub mod question;
pub mod rcode;
