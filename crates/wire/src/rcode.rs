//! Names of response codes (RFC 1035, 2136, 8490; IANA "DNS RCODEs").

/// The name of a response code of a header (the low four bits count), such as `NXDOMAIN`; `RCODE12` to
/// `RCODE15` are not assigned.
pub fn to_text(rcode: u8) -> &'static str {
    const NAMES: [&str; 16] = [
        "NOERROR",
        "FORMERR",
        "SERVFAIL",
        "NXDOMAIN",
        "NOTIMP",
        "REFUSED",
        "YXDOMAIN",
        "YXRRSET",
        "NXRRSET",
        "NOTAUTH",
        "NOTZONE",
        "DSOTYPENI",
        "RCODE12",
        "RCODE13",
        "RCODE14",
        "RCODE15",
    ];
    NAMES[usize::from(rcode & 15)]
}

/// The name of a response code with the upper eight bits of an OPT record (RFC 6891, section 6.1.3; RFC 8945, 2930, 7873).
pub fn extended_to_text(rcode: u16) -> String {
    match rcode {
        0..16 => to_text(rcode as u8).into(),
        16 => "BADVERS".into(),
        17 => "BADKEY".into(),
        18 => "BADTIME".into(),
        19 => "BADMODE".into(),
        20 => "BADNAME".into(),
        21 => "BADALG".into(),
        22 => "BADTRUNC".into(),
        23 => "BADCOOKIE".into(),
        other => format!("RCODE{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_their_names() {
        assert_eq!(
            [0, 1, 2, 3, 5, 9].map(to_text).join(" "),
            "NOERROR FORMERR SERVFAIL NXDOMAIN REFUSED NOTAUTH"
        );
    }
}
