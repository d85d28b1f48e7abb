//! `dnsrack zone sign` as a user meets it.

use crate::{dnsrack, output, stderr, stdout, write};
use std::process::{Command, Stdio};

const SORTED: &str = "$TTL 60\nexample. SOA ns.example. root.example. 5 1 1 1 1\nexample. NS ns.example.\n\
                      a.example. A 192.0.2.1\na.example. AAAA 2001:db8::1\nb.example. NS ns.b.example.\n\
                      ns.b.example. A 192.0.2.2\nns.example. A 192.0.2.3\n";

#[test]
fn any_order_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::create_dir(&keys).unwrap();
    let mut lines: Vec<&str> = SORTED.split_inclusive('\n').collect();
    lines[2..].reverse();
    let sorted = write(&folder, "sorted", SORTED);
    let unsorted = write(&folder, "unsorted", &lines.concat());
    let fixed = ["--algorithm", "ED25519", "--at", "20260820040000", "--keys", keys.to_str().unwrap()];
    for extra in [&[][..], &["--nsec3", "--opt-out", "--salt", "ab12", "--iterations", "2"], &["--zonemd"]] {
        let sign = |input: &str, to: &str| {
            let out = output(&[&["zone", "sign", input, "-o", to][..], &fixed, extra].concat());
            assert!(out.status.success(), "{}", stderr(&out));
            out
        };
        let file = folder.path().join("out");
        sign(&sorted, file.to_str().unwrap());
        let expected = std::fs::read_to_string(&file).unwrap();
        assert!(expected.lines().count() > 15, "{expected}");
        sign(&unsorted, file.to_str().unwrap());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
        // What has left through a pipe cannot be taken back: sorted before.
        assert_eq!(stdout(&sign(&unsorted, "-")), expected);
        let mut piped = dnsrack(&[&["zone", "sign", "-", "-o", "-"][..], &fixed, extra].concat());
        let input = std::fs::File::open(&unsorted).unwrap();
        let out = piped.stdin(input).stderr(Stdio::null()).output().unwrap();
        assert_eq!(stdout(&out), expected);
        assert_eq!(expected.contains("1 1 2 AB12"), extra.len() > 1, "{expected}");
    }
}

#[test]
fn a_disk_that_fills_up_leaves_no_zone() {
    let folder = tempfile::tempdir().unwrap();
    let zone: String = (0..20_000).map(|i| format!("a{i:05}.example. A 192.0.2.1\n")).collect();
    let input = write(
        &folder,
        "zone",
        &format!("{}{zone}", SORTED.split_inclusive('\n').take(3).collect::<String>()),
    );
    let out = folder.path().join("out");
    std::fs::write(&out, "as it was").unwrap();
    // A file of more than 100 KiB cannot be written.
    let script = "trap '' XFSZ; ulimit -f 100; exec \"$@\"";
    let program = env!("CARGO_BIN_EXE_dnsrack");
    let args = ["zone", "sign", &input, "--algorithm", "ED25519", "-o", out.to_str().unwrap()];
    let failed = Command::new("bash").args(["-c", script, "bash", program]).args(args).output().unwrap();
    assert_eq!(failed.status.code(), Some(1), "{}", stderr(&failed));
    assert!(stderr(&failed).contains("cannot write the zone: File too large"), "{}", stderr(&failed));
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "as it was");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing beside it");
    let full = output(&["zone", "sign", &input, "--algorithm", "ED25519", "-o", "/dev/full"]);
    assert_eq!(full.status.code(), Some(1));
    assert!(stderr(&full).contains("No space left"), "{}", stderr(&full));
}

#[test]
fn flags_that_do_not_fit_are_refused() {
    for (args, expected) in [
        (&["--opt-out"][..], "--nsec3"),
        (&["--nsec3", "--salt", "abc"], "two hexadecimal digits"),
        (&["--nsec3", "--iterations", "70000"], "--iterations"),
        (&["--algorithm", "RSAMD5"], "ECDSAP384SHA384"),
        (&["--ksk-bits", "512"], "--ksk-bits"),
    ] {
        let out = output(&[&["zone", "sign", "/nonexistent", "-o", "/dev/null"][..], args].concat());
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(stderr(&out).contains(expected), "{args:?}: {}", stderr(&out));
    }
    let out = output(&["zone", "sign", "/nonexistent", "-o", "/dev/null"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(stderr(&out).contains("/nonexistent: No such file"), "{}", stderr(&out));
}
