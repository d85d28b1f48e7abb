//! Every unsafe packet and namespace call of dnsrack, behind safe functions.

pub mod link;
mod mmsg;
pub mod ns;
mod sys;
pub mod tcp;
pub mod transport;
pub mod udp;
