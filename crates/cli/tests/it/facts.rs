//! `zone info --against` and `zone fit`: verdicts, exit statuses, refusals.

use crate::{output, stderr, write};
use serde_json::Value;

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let got = output(args);
    (got.status.code(), String::from_utf8(got.stdout.clone()).expect("UTF-8"), stderr(&got))
}

#[test]
fn a_zone_is_compared_with_rows_and_profiles() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let (zone, profile) = (path("zone"), path("fitted.toml"));
    let made = output(&["zone", "generate", "--family", "S-6-DS50", "--delegations", "1K", "-o", &zone]);
    assert!(made.status.success(), "{}", stderr(&made));

    let (code, text, _) = run(&["zone", "info", &zone, "--against", "rzaia:S-6-DS50:1K"]);
    assert_eq!(code, Some(0), "{text}");
    for part in [
        "RZAIA table 1.1, S-6-DS50, 1,000 TLDs",
        "all within their bounds",
        "not compared",
        "in uncompressed wire",
    ] {
        assert!(text.to_lowercase().contains(&part.to_lowercase()), "no '{part}' in {text}");
    }
    let (code, text, _) = run(&["zone", "info", &zone, "--against", "rzaia:U-6-DS0:1K", "--json"]);
    assert_eq!(code, Some(3), "{text}");
    let verdict = &serde_json::from_str::<Value>(&text).expect("JSON")["verdict"];
    assert_eq!(verdict["within"], false);
    let findings = verdict["findings"].as_array().expect("findings");
    let out: Vec<_> = findings.iter().filter(|f| f["within"] == false).map(|f| f["what"].clone()).collect();
    assert_eq!(out, ["DS records"], "{text}");
    assert_eq!((findings[4]["expected"].as_f64(), findings[4]["bound"][1].as_f64()), (Some(0.0), Some(0.0)));

    let made = output(&["zone", "generate", "--profile", "ROOT", "--delegations", "1K", "-o", &zone]);
    assert!(made.status.success(), "{}", stderr(&made));
    let (code, text, error) = run(&["zone", "fit", &zone, "-o", &profile]);
    assert_eq!((code, text.as_str(), error.as_str()), (Some(0), "", ""));
    let (code, text, _) = run(&["zone", "info", &zone, "--against", &profile]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text, _) = run(&["zone", "info", &zone, "--against", "COM"]);
    assert!(code == Some(3) && text.contains("OUT OF BOUNDS"), "{text}");
    let (code, text, _) = run(&["zone", "fit", &zone, "-o", &profile, "--json"]);
    let fitted = serde_json::from_str::<Value>(&text).expect("JSON");
    assert_eq!((code, &fitted["schema"]), (Some(0), &"dnsrack.zone.fit/1".into()));
    assert_eq!(fitted["profile"]["delegations"], 1000);
}

#[test]
fn what_cannot_be_compared_or_fitted_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let flat =
        write(&folder, "flat.zone", "flat. 60 SOA ns.flat. host.flat. 1 2 3 4 5\nns.flat. 60 A 192.0.2.1\n");
    let bad = write(&folder, "bad.toml", "about = 1\n");
    let left = folder.path().join("left.toml");
    let against = |what: &str| run(&["zone", "info", &flat, "--against", what]);
    for (what, status, part) in [
        ("rzaia:U-4-DS0", 2, "--against rzaia:U-4-DS0: expected rzaia:FAMILY:SIZE"),
        ("rzaia:U-5-DS0:1K", 2, "'U-5-DS0' is no"),
        ("rzaia:U-4-DS0:2K", 2, "give one of these"),
        ("rzaia:U-4-DS0:many", 2, "many"),
        ("NOSUCH", 1, "NOSUCH"),
        (&bad, 1, "bad.toml:1:9"),
    ] {
        let (code, text, error) = against(what);
        assert!(code == Some(status) && text.is_empty() && error.contains(part), "{what}: {code:?} {error}");
    }
    let (code, _, error) = run(&["zone", "fit", &flat, "-o", left.to_str().expect("a path")]);
    assert!(code == Some(1) && error.contains("the zone flat. has no delegations"), "{error}");
    assert!(!left.exists());
}
