//! `dnsrack impact` with a real server: the zones, the trials, and the report that sets them side by side.

use crate::{has, output, stderr, stdout};

#[test]
fn a_zone_is_set_beside_what_it_will_be() {
    if !has("nsd") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let (zone, run) = (path("my.zone"), path("run"));
    let made = output(&["zone", "generate", "--family", "ROOT", "--delegations", "300", "-o", &zone]);
    assert!(made.status.success(), "{}", stderr(&made));
    let short = [
        "measure=memory,latency",
        "latency.duration=500ms",
        "memory.settle=200ms",
        "settle=0s",
        // On a machine that others share, few loads of half a second are on time; this test is not about time.
        "latency.pacing=1s",
        "precision.budget=1s",
        "attempts=8",
    ];
    let short: Vec<&str> = short.iter().flat_map(|set| ["--set", set]).collect();
    let asked = [
        "impact",
        "--zone",
        &zone,
        "--sign",
        "ECDSAP256SHA256",
        "--grow",
        "2x",
        "--servers",
        "nsd",
        "--rate",
        "200",
    ];
    let got = output(&[&asked[..], &["--quick", "-o", &run], &short].concat());
    assert!(matches!(got.status.code(), Some(0 | 3)), "{}", stderr(&got));
    for said in ["today: my.zone\n", "grown-signed: my.zone, grown to 2x, signed (ECDSAP256SHA256, NSEC)\n"] {
        assert!(stderr(&got).contains(said), "{said}: {}", stderr(&got));
    }
    let report = stdout(&output(&["report", &run]));
    for said in [
        "│ figure",
        "┆ today ┆",
        "┆ grown-signed",
        "memory (PSS)",
        "median latency at 2,000/s",
        "signed against today: my.zone, signed (ECDSAP256SHA256, NSEC)",
        "grown against today: my.zone, grown to 2x",
        "Signing the zone: ",
        "Queries lost at the fixed rates: nsd ",
    ] {
        assert!(report.contains(said) || report.replace("  ", "").contains(said), "{said}: {report}");
    }
    let page = std::fs::read_to_string(folder.path().join("run/report.html")).expect("a page");
    assert!(page.contains("grown-signed against today: "), "the page has the sentences");
    // One page for a decision, with the same sentences.
    let decision = stdout(&output(&["report", &run, "--format", "md", "-o", "-"]));
    for said in [
        "# My zone today against my zone tomorrow",
        "| **Memory** | nsd ",
        "## signed against today: ",
        "Repeat it:",
    ] {
        assert!(decision.contains(said), "{said}: {decision}");
    }
    if has("chromium") {
        for (format, magic) in [("png", &b"\x89PNG"[..]), ("pdf", b"%PDF")] {
            let file = path(&format!("page.{format}"));
            let drawn = output(&["report", &run, "--format", format, "-o", &file]);
            assert!(drawn.status.success(), "{}", stderr(&drawn));
            assert!(std::fs::read(&file).expect("a file").starts_with(magic), "{format}");
        }
    }
    // The run beside itself: every figure, and no difference.
    let both = stdout(&output(&["report", &run, &run, "-o", &path("both.html")]));
    assert!(both.starts_with("Runs side by side\n") && both.contains("memory (PSS), today 300"), "{both}");
    // The same by name, between two of them.
    let across =
        ["compare", &run, "--across", "family", "--base", "today", "--candidate", "grown-signed", "--json"];
    let compared: serde_json::Value = serde_json::from_str(&stdout(&output(&across))).expect("JSON");
    let pss = compared["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .find(|c| c["params"]["measure"] == "memory")
        .expect("memory");
    let pss = pss["figures"]
        .as_array()
        .expect("figures")
        .iter()
        .find(|f| f["name"] == "server_pss")
        .expect("its PSS");
    assert_eq!((pss["a"]["repeats"].as_u64(), pss["b"]["repeats"].as_u64()), (Some(3), Some(3)));
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let (zone, signed) = (path("zone"), path("signed"));
    let made = output(&["zone", "generate", "--family", "ROOT", "--delegations", "50", "-o", &zone]);
    assert!(made.status.success(), "{}", stderr(&made));
    assert!(output(&["zone", "sign", &zone, "-o", &signed]).status.success());
    let partly = path("partly");
    let text = std::fs::read_to_string(&signed).expect("a zone");
    let unsigned = text.lines().filter(|line| !line.contains("\tRRSIG\t")).map(|line| format!("{line}\n"));
    std::fs::write(&partly, unsigned.collect::<String>()).expect("it can be written");
    for (args, wanted) in [
        (vec!["--zone", &zone], "nothing changes: give --sign, --grow, or both"),
        (vec!["--zone", &signed, "--grow", "2x"], "add --sign ALGORITHM"),
        (vec!["--zone", &partly, "--sign", "rzaia"], "signed only in part, with 0 signatures for 51 NSEC"),
        (vec!["--zone", &zone, "--grow", "0.5x"], "is no size"),
        (vec!["--zone", &zone, "--nsec3"], "--sign"),
        (vec!["--zone", &zone, "--sign", "MD5"], "zone.sign"),
        (vec!["--zone", &signed, "--sign", "rzaia", "--updates", "8"], "leave --updates out"),
        (
            vec!["--zone", &zone, "--sign", "rzaia", "--updates", "8", "--primary", "nsd"],
            "nsd takes no updates",
        ),
    ] {
        let got = output(&[&["impact"][..], &args].concat());
        assert!(!got.status.success() && stderr(&got).contains(wanted), "{args:?}: {}", stderr(&got));
    }
}
