//! The name servers: a file each, and the list of their kinds. Another server is a file here, its module, and its line in the list.

use crate::driver::NameServer;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

mod bind;
mod external;
mod knot;
mod nsd;
mod powerdns;
mod yadifa;

/// Makes [`Kind`] and [`driver`] of lines `VARIANT = "name", driver;` in the order in which kinds are shown. A driver is the type in a
/// server's file.
macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $driver:expr;)*) => {
        /// A kind of name server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Kind {
            $($(#[$doc])* $variant,)*
        }

        impl Kind {
            /// All kinds, in the order in which they are shown.
            pub const ALL: [Kind; [$($name),*].len()] = [$(Kind::$variant),*];

            /// Its name in experiments and on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$variant => $name,)*
                }
            }
        }

        /// The driver of a kind.
        pub fn driver(kind: Kind) -> &'static dyn NameServer {
            match kind {
                $(Kind::$variant => &$driver,)*
            }
        }
    };
}

kinds! {
    /// BIND 9 (`named`).
    Bind = "bind", bind::Bind;
    /// NSD.
    Nsd = "nsd", nsd::Nsd;
    /// Knot DNS (`knotd`).
    Knot = "knot", knot::Knot;
    /// PowerDNS authoritative server with its bind backend (`pdns_server`).
    Powerdns = "powerdns", powerdns::Powerdns;
    /// YADIFA (`yadifad`).
    Yadifa = "yadifa", yadifa::Yadifa;
    /// An address that already answers; nothing is started there.
    External = "external", external::External;
}

impl Kind {
    /// The kinds that are started here, in the order in which they are shown.
    pub fn ours() -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(|kind| *kind != Kind::External)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    /// # Errors
    /// A sentence that names the kinds there are.
    fn from_str(text: &str) -> Result<Self, String> {
        Kind::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Kind::ours().map(Kind::name).collect();
            format!("'{text}' is not a kind of server: give {} or external", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_as_in_experiments() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse::<Kind>().unwrap(), kind);
        }
        assert!(
            "named".parse::<Kind>().unwrap_err().contains("bind, nsd, knot, powerdns, yadifa or external")
        );
    }
}
