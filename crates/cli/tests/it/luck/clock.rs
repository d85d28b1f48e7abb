//! A wall clock that is stepped in the midst of a run.

use super::{Run, done};
use crate::has;
use measure::Reason;
use results::TrialRecord;
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const HOUR: i64 = 3_600_000_000_000;

/// The numbers that `clock_step.c` maps.
struct Clock(fs::File);

impl Clock {
    /// Stepped by so much from now on.
    fn step(&self, by: i64) {
        self.0.write_all_at(&by.to_ne_bytes(), 0).expect("written");
    }
}

/// Compiles the library; none, and says so loudly, where there is no compiler, or no way for it on this machine.
pub fn library(folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/luck/clock_step.c");
    let library = folder.join("clock_step.so");
    let command =
        Command::new("cc").args(["-O1", "-shared", "-fPIC", "-o"]).args([&library, &source]).output();
    match command {
        Ok(done) if done.status.success() => {}
        failed => {
            eprintln!("SKIPPED: cc cannot compile {}: {failed:?}", source.display());
            return None;
        }
    }
    let page = folder.join("page");
    fs::File::create(&page).and_then(|mut file| file.write_all(&[0; 16])).expect("written");
    let works =
        Command::new("date").env("LD_PRELOAD", &library).env("CLOCK_STEP", page).output().expect("date");
    if !works.status.success() {
        eprintln!("SKIPPED: the clock of a process cannot be stepped here: {works:?}");
        return None;
    }
    Some(library)
}

fn codes(of: &[Reason]) -> Vec<&str> {
    of.iter().map(|reason| reason.code.as_str()).collect()
}

#[test]
fn a_clock_step_changes_no_figure_or_makes_its_trial_invalid() {
    if !has("nsd") || !has("cc") {
        return;
    }
    let place = tempfile::tempdir().expect("a folder");
    let Some(library) = library(place.path()) else { return };
    let page = place.path().join("page");
    let clock = Clock(fs::File::options().write(true).open(&page).expect("the page"));
    // The first step falls between the instant that the coordinator names and the generator's look at its own clock.
    clock.0.write_all_at(&HOUR.to_ne_bytes(), 8).expect("written");
    let sets = ["measure=latency,load", "latency.rates=500,400", "latency.duration=3s", "attempts=1"];
    let mut run = Run::start(&sets, |_, command| {
        command.env("LD_PRELOAD", &library).env("CLOCK_STEP", &page);
    });
    run.in_trial(2);
    clock.step(0);
    while run.hear("trial")["measure"] != "load" {}
    run.hear("ready");
    clock.step(HOUR);
    let (_, status) = run.end();
    assert_eq!(status, Some(3), "invalid trials: {}", run.said());
    let trials = run.trials();
    assert_eq!(trials.len(), 3);
    assert!(trials.iter().all(|t| t.error.is_none()), "{trials:?}");
    let value_of = |trial: &TrialRecord, name: &str| trial.outcome.metric_named(name).unwrap_or(f64::NAN);

    // Stepped at the start: said, and without effect.
    let (first, validity) = (&trials[0], &trials[0].outcome.validity);
    assert!(codes(&validity.warnings).contains(&"clock_stepped"), "{validity:?}");
    assert!(!codes(&validity.reasons).contains(&"clock_stepped"), "{validity:?}");
    let text = &validity.warnings.iter().find(|r| r.code == "clock_stepped").expect("it is there").text;
    assert!(text.contains("the wall clock was set forward by 3600."), "{text}");
    assert!(done(first) && value_of(first, "offered") == 1500.0, "{:?}", first.outcome.metrics);
    assert!(value_of(first, "unsent") < 750.0, "it began when it should: {:?}", first.outcome.metrics);

    // Stepped back in the midst: the kernel's stamps jumped with it, and the generator rejects what it measured.
    let second = &trials[1].outcome.validity;
    assert!(codes(&second.reasons).contains(&"clock_stepped"), "{second:?}");
    assert_eq!(value_of(&trials[1], "sent") + value_of(&trials[1], "unsent"), 1200.0);

    // A server's life, with a step in it: durations are as they were.
    let third = &trials[2];
    assert!(
        codes(&third.outcome.validity.reasons).contains(&"clock_stepped"),
        "{:?}",
        third.outcome.validity
    );
    for duration in ["server_ready", "reload_seconds", "loading_silent", "served_silent", "reloading_silent"]
    {
        assert!(value_of(third, duration) < 60.0, "{duration}: {:?}", third.outcome.metrics);
    }
    run.nothing_at_work();
}
