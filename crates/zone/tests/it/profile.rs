//! Zone profiles as TOML.

use zone::profile::BUILT_IN;
use zone::{Error, Profile};

/// A small profile that says everything; tests break one line of it at a time.
pub const SMALL: &str = r#"about = "test"
delegations = 100

[apex]
origin = "example."
serial = 7
timers = [1, 2, 3, 4]
soa-ttl = 60
ns-ttl = 70
servers = ["ns1.example.", "a.nic.example.", "ns.elsewhere.org."]

[labels]
model = "words"
idn = 0.1
[labels.lengths]
8 = 1
9 = 1.5

[ns]
ttl = 300
[ns.counts]
2 = 3
3 = 1

[servers]
inside = 0.25
own = 0.25
providers = 0.05
[servers.under]
"example." = 1
"nic.example." = 1
"org." = 1

[glue]
aaaa = 0.5
ttl = 400

[ds]
share = 0.5
counts = { 1 = 1, 2 = 1 }
algorithms = { 8 = 1, 13 = 1 }
digests = { 2 = 3, 4 = 1 }
ttl = 500
"#;

#[test]
fn what_is_written_is_read_again() {
    let small = Profile::parse(SMALL, "small").unwrap();
    assert_eq!((small.servers.exponent, small.glue.a, small.apex.mailbox.as_deref()), (1.0, 1.0, None));
    for profile in BUILT_IN.map(|(name, _)| Profile::load(name).unwrap()).into_iter().chain([small]) {
        let text = profile.to_toml();
        assert_eq!(Profile::parse(&text, "again").unwrap(), profile, "{text}");
    }
    let mut odd = Profile::load("com").unwrap();
    odd.about = "a \"quoted\"\n\\ line".into();
    odd.glue.aaaa = 1.0 / 3.0;
    odd.apex.mailbox = None;
    assert_eq!(Profile::parse(&odd.to_toml(), "odd").unwrap(), odd);
}

#[test]
fn a_bad_knob_is_refused_with_its_place() {
    // A line of SMALL, what stands there instead, and the error.
    let cases = [
        ("aaaa = 0.5", "aaaa = 1.5", "p.toml:35:8: 1.5 is not a share"),
        ("aaaa = 0.5", "a = 0.5\naaaa = 0.25", "p.toml:36:8: 'a' and 'aaaa' are less than 1"),
        ("aaaa = 0.5", "aaaa = nan", "p.toml:35:8: NaN is not a share"),
        ("aaaa = 0.5", "aaaa = \"x\"", "p.toml:35:8: invalid type: string"),
        ("aaaa = 0.5", "aaa = 0.5", "p.toml:35:1: unknown field `aaa`"),
        ("inside = 0.25", "inside = 0.8", "p.toml:27:7: 'inside' and 'own' are more than 1"),
        ("providers = 0.05", "providers = 0", "p.toml:26:10: 'inside' and 'own' leave 0.500"),
        ("9 = 1.5", "64 = 1.5", "p.toml:17:6: 64 is not a length of labels"),
        ("9 = 1.5", "9 = -1", "p.toml:17:5: -1 is not a weight"),
        ("9 = 1.5", "nine = 1", "p.toml:17:1: "),
        ("2 = 3\n3 = 1", "2 = 0", "p.toml:21:1: no weights, or all are zero"),
        ("digests = { 2 = 3, 4 = 1 }", "digests = { 3 = 1 }", "p.toml:42:17: expected a digest type"),
        ("delegations = 100", "delegations = 0", "p.toml:2:15: give a number from 1 to 1G"),
        ("origin = \"example.\"", "origin = \"example\"", "p.toml:5:10: 'example' is not absolute"),
        ("origin = \"example.\"", "origin = \"e..x.\"", "p.toml:5:10: 'e..x.' is no name"),
        ("\"ns1.example.\", ", "\"A.nic.example.\", ", "p.toml:10:11: 'a.nic.example.' stands there twice"),
        ("\"org.\" = 1", "\"a.b.example.\" = 1", "p.toml:32:18: 'a.b.example.' is too deep"),
        ("\"org.\" = 1", "\"EXAMPLE.\" = 1", "is there twice under different spellings"),
        ("soa-ttl = 60", "soa-ttl = 3000000000", "p.toml:8:11: 3000000000 is no TTL"),
        ("about = \"test\"\n", "", "missing field `about`"),
        ("[glue]", "[glue", "p.toml:34:6: "),
    ];
    let mut wrong = Vec::new();
    for (line, instead, expected) in cases {
        assert!(SMALL.contains(line), "{line}");
        let error = Profile::parse(&SMALL.replacen(line, instead, 1), "p.toml").unwrap_err().to_string();
        if !error.contains(expected) {
            wrong.push(format!("{instead:?}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_profile_that_is_not_there_is_named() {
    let error = Profile::load("nowhere.toml").unwrap_err();
    assert!(matches!(error, Error::NoProfile { .. }), "{error}");
    assert!(error.to_string().contains("'nowhere.toml': give COM, PT, ROOT or the path"), "{error}");
    let error = Profile::load("/").unwrap_err();
    assert!(matches!(error, Error::Read { .. }), "{error}");
}
