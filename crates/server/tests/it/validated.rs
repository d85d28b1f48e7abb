//! Zones that our signer signed: two validators of different houses, BIND's `delv` and Unbound's `unbound-host`,
//! validate what every server answers, from the trust anchor.

use crate::lab::{Lab, TIMEOUT};
use server::Kind;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use zone::sign::{Algorithm, Nsec3, Options, Summary};

for_each_server! { nsec_is_validated, nsec3_is_validated, nsec3_with_opt_out_is_validated }

/// Delegations with and without DS, a wildcard, an empty non-terminal (`ent.`), an alias.
const ZONE: &str = r#". 86400 IN SOA a.root-servers.test. hostmaster.root-servers.test. 1 1800 900 604800 86400
. 518400 IN NS a.root-servers.test.
alias. 3600 IN CNAME big.
big. 3600 IN TXT "x"
a.ent. 3600 IN A 192.0.2.1
a.root-servers.test. 518400 IN A 192.0.2.53
tld008. 172800 IN NS ns1.tld008.
tld008. 86400 IN DS 12345 13 2 abababababababababababababababababababababababababababababababab
ns1.tld008. 172800 IN A 192.0.2.8
tld009. 172800 IN NS ns1.tld009.
ns1.tld009. 172800 IN A 192.0.2.9
*.wild. 3600 IN TXT "wild"
"#;

/// What is asked; with opt-out, false is where a proof that a name does not exist passes over names of unsigned
/// delegations, so that the answer is insecure (RFC 5155 sections 9.2 and 12.2): also of a wildcard's answer.
const QUESTIONS: [(&str, &str, bool); 10] = [
    (".", "SOA", true),
    (".", "DNSKEY", true),
    ("big.", "TXT", true),
    ("alias.", "TXT", true),
    ("x.wild.", "TXT", false),
    ("big.", "AAAA", true),
    ("ent.", "A", true),
    ("tld008.", "DS", true),
    ("tld009.", "DS", false),
    ("tld0077.", "A", false),
];

fn nsec_is_validated(_: &Lab, kind: Kind) {
    for algorithm in [Algorithm::EcdsaP256Sha256, Algorithm::Ed25519, Algorithm::RsaSha256] {
        validated(&Lab::new(), kind, &options(algorithm), false);
    }
}

fn nsec3_is_validated(lab: &Lab, kind: Kind) {
    let nsec3 = Some(Nsec3::default());
    // YADIFA refuses a zone with ZONEMD.
    let zonemd = kind != Kind::YADIFA;
    validated(lab, kind, &Options { nsec3, zonemd, ..options(Algorithm::EcdsaP384Sha384) }, false);
}

fn nsec3_with_opt_out_is_validated(lab: &Lab, kind: Kind) {
    let nsec3 = Some(Nsec3 { opt_out: true, iterations: 2, salt: vec![0xab] });
    validated(lab, kind, &Options { nsec3, ..options(Algorithm::EcdsaP256Sha256) }, true);
}

fn options(algorithm: Algorithm) -> Options {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as u32;
    Options::new(algorithm, now - 3600)
}

fn validated(lab: &Lab, kind: Kind, options: &Options, opt_out: bool) {
    let (text, signed) = sign(options);
    let zone = lab.dir.path().join("ours.signed");
    std::fs::write(&zone, text).unwrap();
    let server = lab.serve(&lab.spec(kind, &zone));
    let at = server.targets()[0];
    for validator in validators(lab.dir.path(), at, &signed) {
        for (name, rtype, always) in QUESTIONS {
            let said = validator.ask(name, rtype);
            let insecure = said.contains("unsigned answer") || said.contains("(insecure)");
            assert!(is_secure(&said) || opt_out && !always && insecure, "{name} {rtype}: {said}");
        }
    }
    server.stop().unwrap();
}

/// Judges that accept everything would prove nothing: from the anchor of other keys they must not.
#[test]
fn a_wrong_trust_anchor_validates_nothing() {
    crate::lab::with(Kind::NSD, |lab, kind| {
        let (text, _) = sign(&options(Algorithm::Ed25519));
        let zone = lab.dir.path().join("ours.signed");
        std::fs::write(&zone, text).unwrap();
        let server = lab.serve(&lab.spec(kind, &zone));
        let (_, other) = sign(&options(Algorithm::Ed25519));
        for validator in validators(lab.dir.path(), server.targets()[0], &other) {
            let said = validator.ask("big.", "TXT");
            assert!(!is_secure(&said), "{said}");
        }
        server.stop().unwrap();
    });
}

/// The zone signed by `zone::sign` with new keys.
fn sign(options: &Options) -> (Vec<u8>, Summary) {
    let mut out = Vec::new();
    let mut source = zone::Scanner::new(ZONE.as_bytes(), "ZONE");
    let signed = zone::sign(&mut source, options, &mut out, &mut |_| {}).unwrap();
    (out, signed)
}

/// A validator with its arguments but the question.
struct Validator {
    program: &'static str,
    args: Vec<String>,
    /// What comes between type and name.
    unbound: bool,
}

/// Those that are installed; says loudly which is not.
fn validators(folder: &Path, at: SocketAddr, signed: &Summary) -> Vec<Validator> {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    std::fs::write(path("anchor"), &signed.trust_anchor).unwrap();
    let configuration = format!(
        "server:\n do-not-query-localhost: no\n module-config: \"validator iterator\"\n trust-anchor: \"{}\"\n\
         stub-zone:\n name: \".\"\n stub-addr: {}@{}\n stub-prime: no\n",
        signed.ds,
        at.ip(),
        at.port()
    );
    std::fs::write(path("unbound.conf"), configuration).unwrap();
    let at = [format!("@{}", at.ip()), "-p".into(), at.port().to_string()];
    let delv = [&at[..], &["-a".into(), path("anchor"), "+root=.".into()]].concat();
    let unbound = vec!["-v".into(), "-C".into(), path("unbound.conf"), "-t".into()];
    [
        ("delv", "bind9-dnsutils", "-v", Validator { program: "delv", args: delv, unbound: false }),
        (
            "unbound-host",
            "unbound-host",
            "-h",
            Validator { program: "unbound-host", args: unbound, unbound: true },
        ),
    ]
    .into_iter()
    .filter_map(|(program, package, flag, validator)| match Command::new(program).arg(flag).output() {
        Ok(_) => Some(validator),
        Err(e) => {
            eprintln!("SKIPPED: {program} cannot be run ({e}); apt-get install {package}");
            None
        }
    })
    .collect()
}

impl Validator {
    fn ask(&self, name: &str, rtype: &str) -> String {
        let question = if self.unbound { [rtype, name] } else { [name, rtype] };
        // A validator that finds nothing right may ask for long.
        let output = Command::new("timeout")
            .arg(TIMEOUT.as_secs().to_string())
            .arg(self.program)
            .args(&self.args)
            .args(question)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        format!("{}: {}", self.program, String::from_utf8_lossy(&said))
    }
}

/// Each of unbound-host's lines says what it is; delv says it once.
fn is_secure(said: &str) -> bool {
    let unbound = |line: &str| line.trim_end().ends_with("(secure)");
    said.contains("fully validated") || said.trim_end().lines().all(unbound)
}
