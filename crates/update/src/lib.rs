//! Changing zones and carrying them: update streams, the RFC 2136 sender, zone transfers, convergence.
//!
//! - [`Key`]: the secret that signs updates and transfers (TSIG, RFC 8945).

mod error;
mod key;

pub use error::Error;
pub use key::Key;
