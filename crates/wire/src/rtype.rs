//! Record types by number and by name (IANA's registry; RFC 3597 section 5 for the rest).

macro_rules! types {
    ($($name:ident $number:literal $what:literal;)*) => {
        $(#[doc = $what] pub const $name: u16 = $number;)*

        /// The name of a type that has one here.
        pub fn name(rtype: u16) -> Option<&'static str> {
            match rtype {
                $($number => Some(stringify!($name)),)*
                _ => None,
            }
        }

        fn number(name: &[u8]) -> Option<u16> {
            $(if name == stringify!($name).as_bytes() { return Some($number); })*
            None
        }
    };
}

// The frequent ones first: that is the order of search.
types! {
    NS 2 "Name server (RFC 1035).";
    A 1 "IPv4 address (RFC 1035).";
    AAAA 28 "IPv6 address (RFC 3596).";
    DS 43 "Delegation signer (RFC 4034).";
    RRSIG 46 "Signature (RFC 4034).";
    NSEC 47 "Next name (RFC 4034).";
    NSEC3 50 "Next hashed name (RFC 5155).";
    CNAME 5 "Alias (RFC 1035).";
    SOA 6 "Start of authority (RFC 1035).";
    MX 15 "Mail exchange (RFC 1035).";
    TXT 16 "Text (RFC 1035).";
    PTR 12 "Pointer (RFC 1035).";
    HINFO 13 "Host information (RFC 1035; RFC 8482).";
    SRV 33 "Service location (RFC 2782).";
    A6 38 "IPv6 Address, historic (RFC 2874, RFC 6563); ISC's stream of 2006 has it.";
    NAPTR 35 "Naming authority pointer (RFC 3403).";
    DNAME 39 "Alias of a subtree (RFC 6672).";
    OPT 41 "EDNS (RFC 6891); in messages only.";
    SSHFP 44 "SSH key fingerprint (RFC 4255).";
    DNSKEY 48 "Key (RFC 4034).";
    NSEC3PARAM 51 "NSEC3 parameters (RFC 5155).";
    TLSA 52 "TLS association (RFC 6698).";
    CDS 59 "DS for the parent (RFC 7344).";
    CDNSKEY 60 "DNSKEY for the parent (RFC 7344).";
    ZONEMD 63 "Zone digest (RFC 8976).";
    SVCB 64 "Service binding (RFC 9460).";
    HTTPS 65 "Service binding of HTTPS (RFC 9460).";
    SPF 99 "Sender policy (RFC 4408, obsolete).";
    IXFR 251 "Incremental transfer (RFC 1995); in questions only.";
    AXFR 252 "Transfer (RFC 5936); in questions only.";
    ANY 255 "Any type (RFC 8482); in questions only.";
    CAA 257 "Certification authorities (RFC 8659).";
}

/// The type that a text names, in any case: a name above, or `TYPE` and a number.
#[inline]
pub fn from_text(text: impl AsRef<[u8]>) -> Option<u16> {
    match text.as_ref() {
        b"NS" => Some(NS),
        b"A" => Some(A),
        b"AAAA" => Some(AAAA),
        b"DS" => Some(DS),
        b"RRSIG" => Some(RRSIG),
        b"NSEC" => Some(NSEC),
        text => in_any_case(text),
    }
}

fn in_any_case(text: &[u8]) -> Option<u16> {
    let mut upper = [0u8; 16];
    let upper = upper.get_mut(..text.len())?;
    upper.copy_from_slice(text);
    upper.make_ascii_uppercase();
    if let Some(digits) = upper.strip_prefix(b"TYPE") {
        let digits = std::str::from_utf8(digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_digit()))?;
        return digits.parse().ok();
    }
    number(upper)
}

/// The name of a type, `TYPE` and its number where it has none here.
pub fn to_text(rtype: u16) -> String {
    name(rtype).map_or_else(|| format!("TYPE{rtype}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::iana::Rtype;

    #[test]
    fn numbers_are_those_of_domain() {
        for n in 0..=u16::MAX {
            let text = to_text(n);
            assert_eq!(from_text(&text), Some(n));
            if let Some(name) = name(n) {
                let other: Rtype = name.parse().unwrap();
                assert_eq!(other.to_int(), n, "{name}");
            }
        }
    }

    #[test]
    fn what_is_no_type_is_none() {
        for bad in ["", "NSX", "TYPE", "TYPE65536", "TYPE+1", "TYPE-1", "a-very-long-type-name"] {
            assert_eq!(from_text(bad), None, "{bad}");
        }
        assert_eq!(from_text("aaaa"), Some(AAAA));
        assert_eq!(from_text("type1"), Some(A));
    }
}
