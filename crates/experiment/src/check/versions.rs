//! Are the versions of a real zone there, and can their primary take them?

use crate::config::Signing;
use crate::{Error, Experiment, Measure};

/// Whether what it takes to send versions is there.
///
/// # Errors
/// [`Error::Plan`], [`Error::Zone`].
pub fn check(e: &Experiment) -> Result<(), Error> {
    if !e.measure.contains(&Measure::Churn) {
        return Ok(());
    }
    let (Some(first), [_, ..]) = (&e.zone.file, &e.updates.series[..]) else {
        return Err(e.refuse(
            "it sends the versions of a real zone and brings none: give the first as --set zone.file=FIRST and those that came \
             after it, in order, as --set updates.series=SECOND,THIRD,… (zone files, not compressed)",
        ));
    };
    let probe = zone::probe(first)?;
    for d in e.distributions() {
        for label in d.primary.iter().chain(e.servers.iter().filter(|_| d.primary.is_none())) {
            let kind = e.kind(label)?;
            match e.signing_of(d, label) {
                Signing::Sent if !server::driver(kind).facts().can.takes_signatures => {
                    return Err(e.refuse(format!(
                        "'{label}': {kind} takes no signatures with updates: choose another distribution.primary (knot), or have the \
                         zone re-signed by its primary with --set distribution.signing=online --set zone.sign_file=true"
                    )));
                }
                Signing::Online if probe.signed && !e.zone.sign_file => {
                    return Err(e.refuse(format!(
                        "{}: it is signed, and its primary has no keys to sign what changes: have it re-signed with --set \
                         zone.sign_file=true (with --set zone.sign=ALGORITHM), or send the versions' own signatures with --set \
                         distribution.signing=sent",
                        first.display()
                    )));
                }
                _ => {}
            }
        }
    }
    for file in &e.updates.series {
        let next = zone::probe(file)?;
        if next.origin != probe.origin {
            return Err(e.refuse(format!(
                "updates.series: {} is the zone {}, {} is {}",
                file.display(),
                next.origin,
                first.display(),
                probe.origin
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_brings_no_versions_is_told_what_to_give() {
        let with = |sets: &[&str]| {
            let e = crate::open_with("root-churn", sets).unwrap();
            check(&e).err().map_or_else(String::new, |e| e.to_string())
        };
        let nothing = with(&[]);
        assert!(
            nothing.contains("zone.file=FIRST") && nothing.contains("updates.series=SECOND"),
            "{nothing}"
        );
        let dir = tempfile::tempdir().unwrap();
        let zone = |name: &str, owner: &str, rest: &str| {
            let file = dir.path().join(name);
            let text = format!("{owner} 60 SOA a. b. 1 1 1 1 1\n{owner} 60 NS a.\n{rest}");
            std::fs::write(&file, text).unwrap();
            file.display().to_string()
        };
        let signed = zone(
            "signed",
            "t.",
            "t. 60 DNSKEY 257 3 13 AAAA\nt. 60 RRSIG SOA 13 1 60 20300101000000 20200101000000 1 t. AAAA\n",
        );
        let (one, other) = (zone("one", "t.", ""), zone("other", "u.", ""));
        let refusal = |first: &str, second: &str, more: &str| {
            with(&[&format!("zone.file={first}"), &format!("updates.series={second}"), more])
        };
        assert_eq!(refusal(&one, &one, "distribution.signing=sent"), "");
        assert!(refusal(&one, &other, "distribution.signing=sent").contains("is the zone u."));
        assert_eq!(refusal(&signed, &one, "distribution.signing=sent"), "");
        assert!(refusal(&signed, &one, "distribution.signing=online").contains("zone.sign_file=true"));
        assert!(refusal(&one, &one, "distribution.primary=bind").contains("bind takes no signatures"));
        let none = refusal(&one, "/no/such/file", "distribution.signing=sent");
        assert!(none.contains("/no/such/file"), "{none}");
    }
}
