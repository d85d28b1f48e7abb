//! The pages in docs/decisions, each against the kept run that it is of.

use results::RunDir;
use std::path::Path;

#[test]
fn each_page_says_what_its_run_says() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut pages = 0;
    for file in std::fs::read_dir(docs.join("decisions")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "md") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap();
        let run = RunDir::open(&docs.join("runs").join(name)).unwrap();
        let page = report::page(&run).unwrap().markdown();
        let kept = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            page, kept,
            "write it again: dnsrack report docs/runs/{name} --format md -o docs/decisions/{name}.md"
        );
        pages += 1;
    }
    assert!(pages > 0);
}
