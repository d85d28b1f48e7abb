//! The name servers: a file each, and the list of their kinds. Another server is a file here, its module, and its line in the list.

use crate::driver::NameServer;
use crate::kind::Kind;
use serde::de::{Deserialize, Deserializer, Error as _};
use std::str::FromStr;

mod bind;
mod external;
mod hickory;
mod knot;
mod nsd;
mod powerdns;
mod yadifa;

/// Makes the kinds, and [`DRIVERS`], of lines `CONSTANT = "name", driver;` in the order in which kinds are shown. A driver is the type
/// in a server's file.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $driver:expr;)*) => {
        impl Kind {
            $($(#[$doc])* pub const $kind: Kind = Kind::named($name);)*

            /// All kinds, in the order in which they are shown.
            pub const ALL: [Kind; [$($name),*].len()] = [$(Kind::$kind),*];
        }

        const DRIVERS: [(Kind, &dyn NameServer); Kind::ALL.len()] = [$((Kind::$kind, &$driver)),*];
    };
}

kinds! {
    /// BIND 9 (`named`).
    BIND = "bind", bind::Bind;
    /// NSD.
    NSD = "nsd", nsd::Nsd;
    /// Knot DNS (`knotd`).
    KNOT = "knot", knot::Knot;
    /// PowerDNS authoritative server with its bind backend (`pdns_server`).
    POWERDNS = "powerdns", powerdns::Powerdns;
    /// YADIFA (`yadifad`).
    YADIFA = "yadifa", yadifa::Yadifa;
    /// Hickory DNS (`hickory-dns`).
    HICKORY = "hickory", hickory::Hickory;
    /// An address that already answers; nothing is started there.
    EXTERNAL = "external", external::External;
}

/// The driver of a kind.
pub fn driver(kind: Kind) -> &'static dyn NameServer {
    DRIVERS.into_iter().find(|(listed, _)| *listed == kind).expect("every kind is in the list").1
}

impl Kind {
    /// The kinds that are started here, in the order in which they are shown.
    pub fn ours() -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(|kind| *kind != Kind::EXTERNAL)
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

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_as_in_experiments() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse::<Kind>().unwrap(), kind);
            assert!(kind == Kind::EXTERNAL || !driver(kind).facts().program.is_empty(), "{kind}");
        }
        assert!(
            "named"
                .parse::<Kind>()
                .unwrap_err()
                .contains("bind, nsd, knot, powerdns, yadifa, hickory or external")
        );
    }
}
