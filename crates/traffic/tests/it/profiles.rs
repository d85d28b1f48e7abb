//! Profile files: what is wrong is named with line and column.

use traffic::{BUILT_IN, Profile};

const GOOD: &str = r#"about = "a test"

[edns]
share = 0.5
do = 0.2

[edns.sizes]
1232 = 1

[names]
nonexistent = 0.1
below = [1, 2]

[types]
A = 3
AAAA = 1
"#;

#[test]
fn built_in_profiles_are_read() {
    for (name, text) in BUILT_IN {
        assert_eq!(Profile::load(name).unwrap(), Profile::parse(text, name).unwrap());
        assert!(!Profile::load(name).unwrap().about.is_empty());
    }
    Profile::parse(GOOD, "good.toml").unwrap();
}

#[test]
fn faults_are_named_with_line_and_column() {
    let cases = [
        ("nonexistent = 0.1", "nonexistant = 0.1"),
        ("[names]", "[nams]"),
        ("nonexistent = 0.1", "nonexistent = 30"),
        ("share = 0.5", "share = \"half\""),
        ("do = 0.2", "do = 0.6"),
        ("1232 = 1", "70000 = 1"),
        ("1232 = 1", ""),
        ("1232 = 1", "1232 = 0"),
        ("[names]", "[edns.sizes-do]\n70000 = 1\n[names]"),
        ("do = 0.2", "sizes-do = { 1232 = 1 }"),
        ("AAAA = 1", "AAAAA = 1"),
        ("AAAA = 1", "AAAA = -1"),
        ("AAAA = 1", "TYPE1 = 1"),
        ("A = 3\nAAAA = 1", ""),
        ("below = [1, 2]", "below = []"),
        ("below = [1, 2]", "order = \"random\""),
        ("A = 3", "A = 3\nA = 4"),
        ("about = \"a test\"", "about = \"a test"),
        ("about = \"a test\"", ""),
        ("[types]", "[clients]\ncount = 0\n[types]"),
        ("[types]", "[clients]\nzipf = -1.0\n[types]"),
        ("[types]", "[clients]\nports = { 0 = 1 }\n[types]"),
        ("[types]", "[background]\nshare = 2.0\n[types]"),
        ("[types]", "[background]\nunder = \"a..b\"\n[types]"),
        ("[types]", "[background]\nlabel = 64\n[types]"),
        ("[types]", "[background]\ntypes = { AA = 1 }\n[types]"),
    ];
    let mut shown = String::new();
    for (from, to) in cases {
        let error = Profile::parse(&GOOD.replacen(from, to, 1), "my.toml").expect_err(to);
        shown += &format!("{}\n    {error}\n", to.replace('\n', " | "));
    }
    insta::assert_snapshot!(shown);
}
