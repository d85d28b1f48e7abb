//! The drivers of name servers, one file each. A further server is a file here, and a line in each of two lists: the modules below, and
//! the kinds in `kind.rs`.

mod bind;
mod external;
mod knot;
mod nsd;
mod powerdns;
mod yadifa;

use crate::driver::NameServer;
use crate::kind::{Kind, with_kinds};

/// Makes [`driver`] of the list of kinds.
macro_rules! drivers {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $driver:expr;)*) => {
        /// The driver of a kind.
        pub fn driver(kind: Kind) -> &'static dyn NameServer {
            match kind {
                $(Kind::$variant => &$driver,)*
            }
        }
    };
}

with_kinds!(drivers);
