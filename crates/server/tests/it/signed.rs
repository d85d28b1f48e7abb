//! Signed zones: every server gives the proofs with the answers.

use crate::lab::{Answer, How, Lab, PLAIN, ask};
use domain::base::iana::{Rcode, Rtype};
use server::Kind;

for_each_server! { serves_nsec, serves_nsec3, serves_nsec3_with_opt_out }

const DNSSEC: How = How { dnssec: true, ..PLAIN };

fn serves_nsec(lab: &Lab, kind: Kind) {
    serves(lab, kind, &[], Rtype::NSEC, 2);
}

fn serves_nsec3(lab: &Lab, kind: Kind) {
    serves(lab, kind, &["-3", "-", "-H", "0"], Rtype::NSEC3, 3);
}

fn serves_nsec3_with_opt_out(lab: &Lab, kind: Kind) {
    serves(lab, kind, &["-3", "ab", "-H", "2", "-A"], Rtype::NSEC3, 3);
}

/// `at_most` records of type `proof` prove that a name does not exist: fewer where one proves two things.
fn serves(lab: &Lab, kind: Kind, options: &[&str], proof: Rtype, at_most: usize) {
    let Some(zone) = lab.signed_zone(options) else { return };
    let server = lab.serve(&lab.spec(kind, &zone));
    for &target in server.targets() {
        let keys = ask(target, ".", Rtype::DNSKEY, DNSSEC);
        assert!(keys.aa);
        assert_eq!(Answer::count(&keys.answer, Rtype::DNSKEY), 2);
        assert_eq!(Answer::count(&keys.answer, Rtype::RRSIG), 1);
        let secure = ask(target, "www.tld008.", Rtype::A, DNSSEC).authority;
        let counts = [Rtype::NS, Rtype::DS, Rtype::RRSIG, proof].map(|t| Answer::count(&secure, t));
        assert_eq!(counts, [2, 1, 1, 0], "{secure:?}");
        let insecure = ask(target, "www.tld009.", Rtype::A, DNSSEC).authority;
        let [ns, ds, signatures, proofs] =
            [Rtype::NS, Rtype::DS, Rtype::RRSIG, proof].map(|t| Answer::count(&insecure, t));
        assert_eq!((ns, ds), (2, 0), "{insecure:?}");
        assert!((1..=2).contains(&proofs) && signatures == proofs, "{insecure:?}");
        let none = ask(target, "tld0077.", Rtype::A, DNSSEC);
        assert_eq!(none.rcode, Rcode::NXDOMAIN);
        let [soa, signatures, proofs] =
            [Rtype::SOA, Rtype::RRSIG, proof].map(|t| Answer::count(&none.authority, t));
        assert_eq!(soa, 1);
        assert!((1..=at_most).contains(&proofs) && signatures == proofs + 1, "{none:?}");
        // Who does not ask for signatures gets none; PowerDNS adds the DS all the same.
        let plain = ask(target, "www.tld008.", Rtype::A, PLAIN).authority;
        assert_eq!(
            (plain.len(), Answer::count(&plain, Rtype::NS)),
            (if kind == Kind::POWERDNS { 3 } else { 2 }, 2)
        );
    }
    server.stop().unwrap();
}
