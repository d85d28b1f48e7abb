//! Every unsafe packet and namespace call of dnsrack, behind safe functions.

pub mod ns;
