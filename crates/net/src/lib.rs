//! Every unsafe packet and namespace call of dnsrack, behind safe functions.

pub mod batch;
mod bpf;
pub mod counters;
pub mod link;
mod mmsg;
pub mod ns;
pub mod own;
pub mod packet;
pub mod route;
mod sys;
pub mod target;
pub mod tcp;
pub mod transport;
pub mod udp;
pub mod xdp;
