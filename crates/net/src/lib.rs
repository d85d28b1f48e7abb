//! Every unsafe packet and namespace call of dnsrack, behind safe functions.

pub mod arrivals;
pub mod batch;
mod bpf;
pub mod counters;
pub mod interface;
pub mod link;
mod mmsg;
pub mod ns;
pub mod packet;
pub mod route;
pub mod scheduling;
mod sys;
pub mod target;
pub mod tcp;
pub mod transport;
pub mod udp;
pub mod xdp;
