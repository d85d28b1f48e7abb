//! The page of the made-up run: complete, self-contained, escaped.

use crate::fixture;
use std::path::Path;
use std::sync::LazyLock;

fn page() -> &'static str {
    static PAGE: LazyLock<String> = LazyLock::new(make);
    &PAGE
}

fn make() -> String {
    let folder = tempfile::tempdir().unwrap();
    let run = fixture::write(&folder.path().join("run"));
    // As the program does: from what is on disk.
    report::html(&[results::RunDir::open(run.dir()).unwrap()]).unwrap()
}

/// The page's text without style and pictures: what a reader without graphics has.
fn skeleton(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        let name =
            rest[at + 1..].split(|c: char| !c.is_ascii_alphanumeric() && c != '/').next().unwrap_or("");
        let skip = ["svg", "style", "pre"].iter().find(|t| **t == name).map(|t| format!("</{t}>"));
        let end = skip.unwrap_or_else(|| ">".into());
        let to = rest[at..].find(&end).map_or(rest.len(), |e| at + e + end.len());
        if matches!(name, "tr" | "h1" | "h2" | "h3" | "h4" | "li" | "p" | "figcaption" | "summary" | "div") {
            out.push('\n');
        } else {
            out.push(' ');
        }
        rest = &rest[to..];
    }
    for (code, text) in
        [("&#x2f;", "/"), ("&gt;", ">"), ("&lt;", "<"), ("&quot;", "\""), ("&#x27;", "'"), ("&nbsp;", " ")]
    {
        out = out.replace(code, text);
    }
    let lines = out.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|l| !l.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_text_of_the_page() {
    insta::assert_snapshot!(skeleton(page()));
}

#[test]
fn the_page_needs_nothing_else() {
    let html = page();
    for outside in ["http://", "https://", "src=", "<script", "<link", "@import", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert!(html.starts_with("\n<!doctype html>") || html.trim_start().starts_with("<!doctype html>"));
    assert!(
        !html.contains("<b>not markup</b>") && html.contains("&lt;b&gt;not markup"),
        "the command is escaped"
    );
    assert!(!html.contains("<zone>") && html.contains("&lt;zone&gt;"), "causes from logs are escaped");
    assert!(!html.contains("NaN") && !html.contains("inf "), "no figure is broken");
}

#[test]
fn every_link_leads_somewhere_and_every_trial_has_its_row() {
    let html = page();
    let ids: std::collections::HashSet<&str> =
        html.split(" id=\"").skip(1).filter_map(|s| s.split('"').next()).collect();
    assert_eq!(html.split(" id=\"").count() - 1, ids.len(), "an id is there twice");
    for link in html.split("href=\"#").skip(1).filter_map(|s| s.split('"').next()) {
        assert!(ids.contains(link), "#{link} leads nowhere");
    }
    for trial in 1..=96 {
        assert!(ids.contains(format!("r0-t{trial}").as_str()), "trial {trial} has no row");
        assert!(html.contains(&format!("href=\"#r0-t{trial}\"")), "no figure leads to trial {trial}");
    }
}

#[test]
fn pictures_can_be_read_aloud_and_tables_have_headings() {
    let html = page();
    let pictures = html.matches("<svg viewBox").count();
    assert!(pictures >= 60, "{pictures}");
    assert_eq!(html.matches("role=\"img\"><title>").count(), pictures);
    assert_eq!(html.matches("</title><desc>").count(), pictures);
    assert_eq!(html.matches("<table").count(), html.matches("<thead>").count());
    // Four zones, each with two distributions with dashes and four figures by the second, and the legends.
    assert!(html.matches("class=\"line s0 \"").count() > 32);
}

#[test]
fn published_series_are_drawn_as_what_they_are() {
    let html = page();
    let figure = |id: &str| {
        let from = html.find(&format!("<figure id=\"r0-{id}\">")).unwrap_or_else(|| panic!("no figure {id}"));
        html[from..].split("</figure>").next().unwrap()
    };
    let (unsigned, signed) = (figure("over-median-5000-0"), figure("over-median-5000-1"));
    for of in [unsigned, signed] {
        assert!(of.contains("BIND 9.6.0-P1 (RZAIA 2009)") && of.contains("NSD 3.2.1 (RZAIA 2009)"));
    }
    // Hollow markers, one for each cell that is a number, and one in the legend: five cells of each server; of the signed
    // zones BIND's two bounds are arrows, and NSD's last cell is another zone's.
    let marks = |of: &str, style: u32| of.matches(&format!("class=\"mark s{style} past\"")).count();
    let arrows = |of: &str| of.matches("class=\"range s0 past\"").count();
    assert_eq!((marks(unsigned, 0), marks(unsigned, 1), arrows(unsigned)), (5 + 1, 5 + 1, 0));
    assert_eq!((marks(signed, 0), marks(signed, 1), arrows(signed)), (3 + 1, 4 + 1, 2));
    assert!(signed.contains("NSD at 10M: 0.3†") && !unsigned.contains('†'));
    // What was measured has solid ones: two sizes, and the legend.
    assert_eq!(unsigned.matches("class=\"mark s2 solid\"").count(), 2 + 1);
}

/// Writes the made-up run and its page to the new folder `REPORT_FIXTURE`, to look at them.
#[test]
fn the_page_to_look_at() {
    match std::env::var_os("REPORT_FIXTURE") {
        Some(folder) => {
            fixture::write(Path::new(&folder));
            std::fs::write(Path::new(&folder).join("report.html"), page()).unwrap();
        }
        None => {
            eprintln!("SKIPPED: set REPORT_FIXTURE=FOLDER to have the made-up run and its page written there")
        }
    }
}
