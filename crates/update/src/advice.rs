//! The meaning of a response code for the sender of an update or the client of a transfer, and what to do about it.

/// The request that a response code answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// An update (RFC 2136).
    Update,
    /// A zone transfer (RFC 5936, RFC 1995).
    Transfer,
}

/// Advice on a response code, by its name (TSIG's among them, RFC 8945); none where there is nothing to say beside it.
pub fn advice(code: &str, asked: Asked) -> Option<&'static str> {
    let of_keys = match code {
        "BADSIG" => {
            Some("the server has another secret under this key's name: give --tsig the file that it has")
        }
        "BADKEY" => Some(
            "the server knows no key of this name and algorithm: look at its configuration, or give --tsig another key",
        ),
        "BADTIME" => Some("the clocks here and at the server are more than five minutes apart: set them"),
        "BADTRUNC" => Some("the server wants a longer signature than was sent"),
        _ => None,
    };
    of_keys.or(match asked {
        Asked::Update => of_updates(code),
        Asked::Transfer => of_transfers(code),
    })
}

fn of_updates(code: &str) -> Option<&'static str> {
    Some(match code {
        "FORMERR" => "the server cannot read the message: is it one that takes updates (RFC 2136)?",
        "SERVFAIL" => {
            "the server could not apply it: its log says why (no keys for a zone that it should sign, a full disk or journal, a file \
             that it may not write)"
        }
        "NOTIMP" => "the server takes no updates at all: send them to the zone's primary",
        "REFUSED" => {
            "the server lets nobody change this zone from here or with this key, or not this record: allow it there (BIND allow-update \
             or update-policy, Knot DNS an acl with the action update, PowerDNS dnsupdate and TSIG-ALLOW-DNSUPDATE), or give --tsig its \
             key"
        }
        "NOTAUTH" => {
            "the server is not the primary of this zone: look at the zone's name in the file, and at TARGET; or it wants a key (--tsig)"
        }
        "NOTZONE" => "a name lies outside the zone",
        "NXDOMAIN" | "YXDOMAIN" | "YXRRSET" | "NXRRSET" => {
            "a prerequisite does not hold: the zone is not as the file supposes; was it changed by others, or was the file sent before?"
        }
        _ => return None,
    })
}

fn of_transfers(code: &str) -> Option<&'static str> {
    Some(match code {
        "REFUSED" => {
            "it lets nobody transfer the zone from here or with this key, or does not have the zone: allow it there (allow-transfer, \
             provide-xfr, an acl), or give --tsig its key"
        }
        "NOTAUTH" => "it does not have the zone, or wants a key: look at the zone's name, and at --tsig",
        "SERVFAIL" => {
            "it has no copy of the zone that it may serve (not loaded, or expired): its log says why"
        }
        "NOTIMP" | "FORMERR" => "it does not do this kind of transfer: leave --ixfr out",
        "NXDOMAIN" => "it does not have the zone: look at the zone's name",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_updates_has_its_advice() {
        for code in 1..=10 {
            let name = crate::tsig::code_name(code);
            assert!(advice(&name, Asked::Update).is_some(), "{name}");
        }
        for code in [16, 17, 18, 22] {
            let name = crate::tsig::code_name(code);
            assert_eq!(advice(&name, Asked::Update), advice(&name, Asked::Transfer));
            assert!(advice(&name, Asked::Update).is_some(), "{name}");
        }
        assert_eq!(advice("NOERROR", Asked::Update), None);
    }
}
