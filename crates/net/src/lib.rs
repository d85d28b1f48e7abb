//! Every unsafe packet and namespace call of dnsrack, behind safe functions.

pub mod batch;
mod bpf;
pub mod link;
mod mmsg;
pub mod ns;
pub mod route;
mod sys;
pub mod tcp;
pub mod transport;
pub mod udp;
pub mod xdp;
