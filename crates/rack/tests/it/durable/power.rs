//! Under full load the power is cut, at random, again and again; whatever was acknowledged before is looked for.

use super::sender;
use super::setting::{Kind, Place, Setting, Way, prepare};
use super::{Stop, TIMEOUT, free_port};
use measure::Seed;
use rack::disk::{Cut, Disk, Options};
use rack::{Host, Launcher, Local};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Cuts in a row, each with the server started again on what was left.
const CUTS: u64 = 4;

/// What one cut showed.
#[derive(Debug)]
struct Outcome {
    acknowledged: usize,
    /// Acknowledged and gone; none: the server did not even start again.
    lost: Option<Vec<String>>,
    cut: Cut,
}

/// None, said loudly, where it cannot be tried.
fn tried(setting: Setting, seed: u64, options: Options) -> Option<Vec<Outcome>> {
    if !setting.there() {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let [backing, data, rest] = ["backing", "data", "rest"].map(|name| dir.path().join(name));
    [&backing, &data, &rest].iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    let place = Place { made_in: backing.clone(), data: data.clone(), rest, port: free_port() };
    let cmd = prepare(setting, &place);
    let server = ([127, 0, 0, 1], place.port).into();
    let mut disk = match Disk::mount(&backing, &data, options) {
        Ok(disk) => disk,
        Err(e) if !rustix::process::geteuid().is_root() => {
            eprintln!("SKIPPED: {e}");
            return None;
        }
        Err(e) => panic!("{e}"),
    };
    let mut process = Local.spawn(&Host::loopback(), &cmd).unwrap();
    assert!(sender::ready(server, TIMEOUT).is_some(), "{setting:?}: it does not start");
    let mut draw = Seed(seed).draw("instants of cuts", 0);
    let (mut outcomes, mut known, mut first) = (Vec::new(), Vec::new(), 1);
    for _ in 0..CUTS {
        let stop = AtomicBool::new(false);
        let after = Duration::from_millis(300 + draw.below(500));
        let (cut, sent) = std::thread::scope(|scope| {
            let flood = scope.spawn(|| sender::updates(server, first, 60_000, 32, &stop));
            let _ends = Stop(&stop);
            std::thread::sleep(after);
            let cut = disk.cut().unwrap();
            process.kill().unwrap();
            stop.store(true, Ordering::Relaxed);
            (cut, flood.join().unwrap())
        });
        let before = sent.acknowledged.iter().filter(|ack| ack.at < cut.at).map(|ack| ack.number);
        let acknowledged = before.clone().count();
        known.extend(before);
        first = known.iter().max().map_or(first, |last| last + 1000);
        disk.remount().unwrap();
        process = Local.spawn(&Host::loopback(), &cmd).unwrap();
        let lost = sender::ready(server, Duration::from_secs(10)).map(|_| sender::missing(server, &known));
        let started = lost.is_some();
        // What is lost once is not looked for again.
        known.retain(|&number| !lost.iter().flatten().any(|name| *name == sender::name(number)));
        outcomes.push(Outcome { acknowledged, lost, cut });
        if !started {
            break;
        }
    }
    drop(process);
    if std::env::var_os("DNSRACK_KEEP").is_some() {
        for Outcome { acknowledged, lost, cut } in &outcomes {
            let lost = lost.as_ref().map(|lost| (lost.len(), lost.first()));
            eprintln!("{setting:?}, seed {seed}: acknowledged {acknowledged}, lost {lost:?}, {cut:?}");
        }
    }
    Some(outcomes)
}

/// Every second time some of what was not synced survives.
fn options(seed: u64) -> Options {
    Options { survivors: (seed % 2 == 1).then_some(Seed(seed)), ..Options::default() }
}

fn keeps_all(setting: Setting) {
    for seed in 0..2 {
        let Some(outcomes) = tried(setting, seed, options(seed)) else { return };
        for Outcome { acknowledged, lost, cut } in outcomes {
            assert!(acknowledged > 0 && cut.syncs > 0, "{setting:?}: {cut:?}");
            assert_eq!(lost, Some(Vec::new()), "{setting:?}, seed {seed}: of {acknowledged}; {cut:?}");
        }
    }
}

fn loses(setting: Setting) {
    for seed in 0..1 {
        let Some(outcomes) = tried(setting, seed, Options::default()) else { return };
        for Outcome { acknowledged, lost, cut } in outcomes {
            assert!(acknowledged > 0, "{setting:?}: {cut:?}");
            assert!(
                lost.is_none_or(|lost| !lost.is_empty()),
                "{setting:?}, seed {seed}: none of {acknowledged}; {cut:?}"
            );
        }
    }
}

#[test]
fn bind_keeps_what_it_acknowledged() {
    keeps_all(Setting::new(Kind::Bind, Way::Default));
}

#[test]
fn knot_keeps_what_it_acknowledged() {
    keeps_all(Setting::new(Kind::Knot, Way::Default));
}

/// By default Knot writes the zone file after each commit, renames it over the old one without a sync, and then notes in its
/// journal, synced, that the file has it. That is sound where a rename over a file flushes it, as on ext4; where it does not,
/// the zone file is empty after the cut, and the zone is not served.
#[test]
fn knot_with_its_zone_file_relies_on_the_file_system() {
    let setting = Setting { more: "    zonefile-sync: 0\n", ..Setting::new(Kind::Knot, Way::Default) };
    keeps_all(setting);
    let strict = Options { replace_by_rename: false, ..Options::default() };
    let Some(outcomes) = tried(setting, 0, strict) else { return };
    assert!(outcomes.iter().any(|outcome| outcome.lost.is_none()), "{outcomes:?}");
}

#[test]
fn powerdns_keeps_what_it_acknowledged() {
    keeps_all(Setting::new(Kind::Powerdns, Way::Default));
}

#[test]
fn yadifa_keeps_what_it_acknowledged() {
    keeps_all(Setting::new(Kind::Yadifa, Way::Default));
}

#[test]
fn bind_without_syncs_loses() {
    loses(Setting::new(Kind::Bind, Way::Preload));
}

#[test]
fn knot_without_syncs_loses() {
    loses(Setting::new(Kind::Knot, Way::Configured));
    loses(Setting::new(Kind::Knot, Way::Preload));
}

#[test]
fn powerdns_without_syncs_loses() {
    loses(Setting::new(Kind::Powerdns, Way::Configured));
}

/// SQLite with `journal_mode=delete` commits by a removal that nobody syncs: what was acknowledged last is lost, where the
/// power goes before the next sync of anything.
#[test]
fn powerdns_loses_the_last_where_its_journal_is_deleted() {
    let more = "gsqlite3-pragma-journal-mode=delete\n";
    let setting = Setting { more, ..Setting::new(Kind::Powerdns, Way::Default) };
    for seed in 0..8 {
        let Some(outcomes) = tried(setting, seed, Options::default()) else { return };
        let lost: Vec<_> = outcomes.iter().flat_map(|outcome| outcome.lost.as_ref().unwrap()).collect();
        assert!(lost.len() <= outcomes.len(), "more than the last: {outcomes:?}");
        if !lost.is_empty() {
            return;
        }
    }
    panic!("nothing lost in {} cuts", 8 * CUTS);
}

#[test]
fn yadifa_without_syncs_loses() {
    loses(Setting::new(Kind::Yadifa, Way::Preload));
}
