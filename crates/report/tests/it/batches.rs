//! Tables of batches, from a run with MADE-UP figures.

use crate::durable::trial;
use results::RunDir;
use serde_json::json;

/// A run of trials from BIND to BIND without times of single batches: for each the octets and the seconds of all batches, where it has them.
fn untimed(trials: &[(Option<f64>, Option<f64>)]) -> (tempfile::TempDir, RunDir) {
    let folder = tempfile::tempdir().unwrap();
    let plan = "name = \"made-up\"\npublished = [\"rzaia-5.2\", \"rzaia-5.3\"]";
    let mut run = RunDir::create(&folder.path().join("run"), plan, &json!({})).unwrap();
    for (id, (octets, total)) in (1..).zip(trials) {
        let mut metrics = vec![("batches_planned", 288.0), ("batches", 288.0)];
        metrics.extend(octets.map(|octets| ("batches_bytes", octets)));
        metrics.extend(total.map(|total| ("batches_seconds", total)));
        let params = [
            ("server", "bind"),
            ("kind", "bind"),
            ("primary_kind", "bind"),
            ("timers", "default"),
            ("share", "0.1"),
            ("batches", "288"),
        ];
        run.append(trial(id, "batches", "default timers", &metrics, &params)).unwrap();
    }
    (folder, run)
}

#[test]
fn the_time_of_all_batches_is_that_of_all_trials() {
    let table = "Time of all batches";
    let (_folder, run) = untimed(&[(Some(6e5), Some(1437.0)), (Some(6e5), Some(1441.0))]);
    let all = report::terminal(&run).unwrap();
    assert!(all.contains(table) && all.contains("1,440 s"), "{all}");
    assert!(all.contains("recorded no times of single batches"), "{all}");
    let (_folder, run) = untimed(&[(Some(6e5), Some(1437.0)), (Some(6e5), None)]);
    let one = report::terminal(&run).unwrap();
    assert!(one.contains("586 KiB") && !one.contains(table), "the slow trial is not in the median: {one}");
}

#[test]
fn a_value_has_as_many_repeats_as_trials_have_it() {
    let (_folder, run) = untimed(&[(Some(6e5), None), (None, None), (Some(6e5), None)]);
    let text = report::terminal(&run).unwrap();
    assert!(text.contains("from 2 of 3 trials"), "{text}");
    let pairs = report::pairs(&run).unwrap();
    let [pair] = pairs.as_slice() else { panic!("octets alone: {pairs:?}") };
    assert_eq!((pair.table.id.as_str(), pair.repeats, pair.trials.len()), ("rzaia-5.2", 2, 3));
    let (_folder, run) = untimed(&[(None, None)]);
    assert_eq!(report::pairs(&run).unwrap().len(), 0);
}
