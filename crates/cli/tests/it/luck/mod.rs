//! Bad luck in the midst of a run: it ends or goes on with what is valid intact, and says what was lost.

pub mod clock;

use crate::kill::{kill, processes, wait_until};
use crate::{TINY, dnsrack, has, output, stderr, stdout, write};
use results::{RunDir, TrialRecord};
use rustix::process::{Pid, getpgid};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A run at work, heard through its events.
struct Run {
    folder: tempfile::TempDir,
    child: Child,
    events: Lines<BufReader<ChildStdout>>,
}

impl Run {
    /// Starts [`TINY`] with these settings; `more` arranges the command further.
    fn start(sets: &[&str], more: impl FnOnce(&Path, &mut Command)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        write(&folder, "tiny.toml", TINY);
        let mut command = resumed(folder.path(), sets);
        more(folder.path(), &mut command);
        let said = fs::File::create(folder.path().join("said")).expect("a file");
        let mut child = command.stdout(Stdio::piped()).stderr(said).spawn().expect("the program starts");
        let events = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { folder, child, events }
    }

    /// The next event of this name.
    fn hear(&mut self, name: &str) -> Value {
        let event = self.events.by_ref().map_while(Result::ok).map(|line| json(&line));
        let found = event.into_iter().find(|event| event["event"] == name);
        found.unwrap_or_else(|| panic!("no more '{name}': {}", self.said()))
    }

    /// Waits for a trial, and for the first second of its load.
    fn in_trial(&mut self, id: u64) {
        while self.hear("trial")["trial"] != id {}
        self.hear("second");
    }

    /// Its events until its end, and its exit status.
    fn end(&mut self) -> (Vec<Value>, Option<i32>) {
        let events = self.events.by_ref().map_while(Result::ok).map(|line| json(&line)).collect();
        (events, self.child.wait().expect("it ends").code())
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// What it wrote to standard error.
    fn said(&self) -> String {
        fs::read_to_string(self.folder.path().join("said")).unwrap_or_default()
    }

    fn trials(&self) -> Vec<TrialRecord> {
        let kept = RunDir::open(&self.dir()).unwrap_or_else(|e| panic!("{e}: {}", self.said()));
        kept.trials().to_vec()
    }

    fn interrupt(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    }

    fn nothing_at_work(&self) {
        wait_until("the end of all processes", || processes(self.folder.path()).is_empty());
    }
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))
}

/// The command that begins the run in a folder, or goes on with it.
fn resumed(folder: &Path, sets: &[&str]) -> Command {
    let mut command = dnsrack(&["experiment", "run", "--events"]);
    command.arg(folder.join("tiny.toml")).arg("-o").arg(folder.join("run"));
    if folder.join("run").exists() {
        command.arg("--resume");
    }
    for set in sets {
        command.args(["--set", set]);
    }
    command
}

/// Only that a trial did not fail: a busy machine may make it invalid.
fn done(trial: &TrialRecord) -> bool {
    trial.error.is_none() && trial.outcome.metric_named("answered").is_some_and(|n| n > 0.0)
}

#[test]
fn a_server_and_a_generator_that_are_killed_cost_their_trials_alone() {
    if !has("nsd") {
        return;
    }
    let mut run = Run::start(&["repeats=4", "latency.duration=3s", "attempts=1"], |_, _| {});
    // The one that was started, of a server's many.
    let find = |run: &Run, what: &str| {
        let leads = |pid: i32| {
            let group = Pid::from_raw(pid).and_then(|pid| getpgid(Some(pid)).ok());
            group.is_some_and(|group| group.as_raw_nonzero().get() == pid)
        };
        let all = processes(run.folder.path());
        all.into_iter().find(|(pid, line)| line.contains(what) && leads(*pid)).map(|(pid, _)| pid)
    };
    run.in_trial(2);
    kill(find(&run, "nsd -d").expect("the server"));
    run.in_trial(3);
    kill(find(&run, " role ").expect("the generator"));
    let (_, status) = run.end();
    assert_eq!(status, Some(3), "{}", run.said());
    let trials = run.trials();
    let failed: Vec<u32> = trials.iter().filter(|t| !done(t)).map(|t| t.id).collect();
    assert_eq!((trials.len(), failed), (4, vec![2, 3]), "{trials:?}");
    let why = |at: usize| trials[at].error.clone().unwrap_or_default();
    assert!(why(1).contains("server 'nsd': died (signal: 9 (SIGKILL))"), "{}", why(1));
    assert!(why(2).contains("load on host generator") && why(2).contains("SIGKILL"), "{}", why(2));
    let report = stdout(&output(&["report", run.dir().to_str().expect("a path")]));
    assert!(report.contains("died (signal: 9 (SIGKILL))"), "{report}");
    run.nothing_at_work();
}

#[test]
fn a_generator_that_is_killed_while_a_server_loads_ends_the_trial_at_once() {
    if !has("nsd") {
        return;
    }
    // A server that takes as long as the test would wait, and more.
    let tools = tempfile::tempdir().expect("a folder");
    let slow = tools.path().join("slow-nsd");
    fs::write(&slow, "#!/bin/sh\n[ \"$1\" = -v ] && exec nsd -v\nsleep 600\nexit 1\n").expect("written");
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).expect("changed");
    let program = format!("server.slow.program={}", slow.display());
    let sets =
        ["measure=load", "servers=slow", "server.slow.kind=nsd", &program, "patience=500s", "attempts=1"];
    let mut run = Run::start(&sets, |_, _| {});
    while run.hear("trial")["trial"] != 1 {}
    let find = |what: &str| processes(run.folder.path()).into_iter().find(|(_, line)| line.contains(what));
    wait_until("the server and its generator", || {
        find("slow-nsd -d").is_some() && find(" role load").is_some()
    });
    let began = std::time::Instant::now();
    kill(find(" role load").expect("the generator").0);
    let (_, status) = run.end();
    assert_eq!(status, Some(3), "{}", run.said());
    assert!(began.elapsed().as_secs() < 100, "it waited on for the server");
    let trials = run.trials();
    let why = trials[0].error.clone().unwrap_or_default();
    assert!(why.contains("load on host generator") && why.contains("SIGKILL"), "{why}");
    run.nothing_at_work();
}

#[test]
fn a_coordinator_that_is_killed_leaves_what_was_done_and_resume_does_the_rest() {
    if !has("nsd") {
        return;
    }
    let sets = ["repeats=3", "latency.duration=2s"];
    let mut run = Run::start(&sets, |_, _| {});
    run.in_trial(2);
    let dir = run.dir();
    let kept = ["run.toml", "environment.json", "trials.parquet", "servers/1/nsd.conf", "servers/1/nsd.log"];
    let files = || kept.map(|name| fs::read(dir.join(name)).unwrap_or_else(|e| panic!("{name}: {e}")));
    let before = files();
    kill(run.child.id() as i32);
    run.nothing_at_work();
    let trials = run.trials();
    assert_eq!(trials.len(), 1, "a trial cut off is not a trial");
    assert!(before == files(), "byte for byte");
    // What a kill in the midst of writing would have left.
    let halves = [".dnsrack-half", "zones/.dnsrack-half"].map(|name| dir.join(name));
    halves.iter().for_each(|path| fs::write(path, "half").expect("written"));

    let mut again = resumed(run.folder.path(), &sets).stdout(Stdio::piped()).spawn().expect("it starts");
    let events = BufReader::new(again.stdout.take().expect("a pipe")).lines();
    let mut events = events.map_while(Result::ok).map(|line| json(&line));
    let first = events.find(|event| event["event"] == "trial").expect("a trial");
    assert_eq!((&first["trial"], &first["of"]), (&2.into(), &3.into()));
    // Nobody else may go on with it meanwhile, nor touch what the other has at work.
    let other = resumed(run.folder.path(), &sets).output().expect("it starts");
    assert_eq!(other.status.code(), Some(1), "{}", stdout(&other));
    assert!(stderr(&other).contains("another dnsrack is writing to this run"), "{}", stderr(&other));
    assert_eq!(events.filter(|event| event["event"] == "done").count(), 2);
    assert!(matches!(again.wait().expect("it ends").code(), Some(0 | 3)));
    let all = run.trials();
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(done) && all[0] == trials[0], "{all:?}");
    let left = [0, 1, 3, 4].map(|i| before[i] == files()[i]);
    assert_eq!(left, [true; 4], "nothing of the first trial was touched");
    assert!(!halves.iter().any(|path| path.exists()), "half-written files take room for nothing");
    run.nothing_at_work();
}

/// A file system of its own for a run, `$DIR`; the run's command with more arguments, bounded in time; 77: nothing may be mounted.
const SMALL: &str = r#"
mount -t tmpfs -o size="$SIZE" none "$DIR" || exit 77
run() { timeout -k 5 120 "$BIN" experiment run "$FILE" -o "$DIR/run" --events "$@"; }
until_said() {
    i=0
    until grep -q "$1" "$OUT/events"; do
        i=$((i + 1)); [ $i -lt 3000 ] || exit 78
        sleep 0.01
    done
}
fill() { dd if=/dev/zero of="$DIR/filler" bs=1M 2>/dev/null; dd if=/dev/zero of="$DIR/filler2" bs=4k 2>/dev/null; }
"#;

/// It fills while a trial is at work, and is given room again.
const FILLS_IN_A_TRIAL: &str = r#"
run --set repeats=3 >"$OUT/events" 2>"$OUT/said" &
until_said '"event":"done"'
cp "$DIR/run/trials.parquet" "$OUT/before"
fill
wait $!; echo $? >"$OUT/status"
cmp "$DIR/run/trials.parquet" "$OUT/before" || exit 79
"$BIN" report "$DIR/run" -o "$OUT/page.html" >"$OUT/report" || exit 80
rm "$DIR"/filler*
run --set repeats=3 --resume >"$OUT/resumed" 2>&1
echo $? >"$OUT/status-resumed"
cp -r "$DIR/run" "$OUT"
"#;

/// It fills while a zone is made for a run that has a smaller one done, and is given room again.
const FILLS_IN_A_ZONE: &str = r#"
sizes="zone.delegations=300,400K"
run --set "$sizes" >"$OUT/events" 2>"$OUT/said" &
until_said '"doing":"generating".*400K'
fill
wait $!; echo $? >"$OUT/status"
find "$DIR/run" -name '.*' -type f >"$OUT/halves"
rm "$DIR"/filler*
run --set "$sizes" --resume >"$OUT/resumed" 2>&1
echo $? >"$OUT/status-resumed"
cp -r "$DIR/run" "$OUT"
"#;

/// What a script left in a folder; none where no file system may be mounted.
fn on_a_small_disk(size: &str, script: &str) -> Option<tempfile::TempDir> {
    if !has("nsd") || !has("unshare") {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(&folder, "tiny.toml", TINY);
    let small = folder.path().join("small");
    fs::create_dir(&small).expect("a folder");
    let kinds = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
    let ran = Command::new("unshare")
        .args([kinds, "sh", "-uc", &format!("{SMALL}{script}")])
        .env("BIN", env!("CARGO_BIN_EXE_dnsrack"))
        .env("SIZE", size)
        .envs([("DIR", small.as_path()), ("OUT", folder.path()), ("FILE", Path::new(&file))])
        .output()
        .expect("unshare starts");
    if ran.status.code() == Some(77) || stderr(&ran).contains("unshare failed") {
        eprintln!("SKIPPED: no file system may be mounted here: {}", stderr(&ran));
        return None;
    }
    assert!(ran.status.success(), "{:?} {}\n{}", ran.status, stderr(&ran), text(&folder, "said"));
    Some(folder)
}

fn text(folder: &tempfile::TempDir, name: &str) -> String {
    fs::read_to_string(folder.path().join(name)).unwrap_or_default()
}

#[test]
fn a_disk_that_fills_ends_the_run_and_resume_goes_on_when_there_is_room() {
    let Some(folder) = on_a_small_disk("16m", FILLS_IN_A_TRIAL) else { return };
    let said = text(&folder, "said");
    assert_eq!(text(&folder, "status").trim(), "1", "{said}");
    let run = folder.path().join("small/run");
    for part in [
        "trial 2 (nsd on U-4-DS0-300, latency at 500 queries/s, repeat 2) is lost",
        &format!("{}", run.display()),
        "No space left on device",
        &format!("go on with --resume -o {}", run.display()),
    ] {
        assert!(said.contains(part), "no '{part}' in: {said}");
    }
    assert!(text(&folder, "report").contains("nsd"), "{}", text(&folder, "report"));
    assert!(matches!(text(&folder, "status-resumed").trim(), "0" | "3"), "{}", text(&folder, "resumed"));
    let kept = RunDir::open(&folder.path().join("run")).expect("the run directory is whole");
    assert_eq!(kept.trials().len(), 3);
    assert!(kept.trials().iter().all(done), "{:?}", kept.trials());
}

#[test]
fn a_disk_that_fills_while_a_zone_is_made_ends_the_run_and_resume_makes_the_zone() {
    let Some(folder) = on_a_small_disk("400m", FILLS_IN_A_ZONE) else { return };
    let said = text(&folder, "said");
    assert_eq!(text(&folder, "status").trim(), "1", "{said}");
    for part in ["No space left on device", "U-4-DS0-400K", "--resume -o"] {
        assert!(said.contains(part), "no '{part}' in: {said}");
    }
    assert_eq!(text(&folder, "halves").trim(), "", "half a zone takes room for nothing");
    assert!(matches!(text(&folder, "status-resumed").trim(), "0" | "3"), "{}", text(&folder, "resumed"));
    let kept = RunDir::open(&folder.path().join("run")).expect("the run directory is whole");
    assert_eq!(kept.trials().len(), 2);
    assert!(kept.trials().iter().all(done), "{:?}", kept.trials());
}

/// A script to start instead of a server; it tells its version as NSD does.
fn instead(folder: &Path, name: &str, script: &str) -> String {
    let path = folder.join(name);
    let text = format!(
        "#!/bin/sh\nPATH=$PATH:/usr/sbin:/usr/local/sbin\n[ \"$1\" = -v ] && exec nsd -v\n{script}\n"
    );
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("made executable");
    format!("server.{name}.program={}", path.display())
}

/// Serves a zone other than the one it is told.
const OTHER: &str = r#"
printf 'other. 60 SOA a. b. 1 2 3 4 5\nother. 60 NS a.\n' >other.zone
sed 's/^\tname:.*/\tname: "other."/; s/^\tzonefile:.*/\tzonefile: "other.zone"/' "$3" >other.conf
exec nsd -d -c "$PWD/other.conf"
"#;

#[test]
fn servers_that_never_get_ready_are_given_up_with_what_was_seen_and_the_others_go_on() {
    if !has("nsd") {
        return;
    }
    let sets = ["servers=sleeps,other,nsd", "patience=2s", "server.sleeps.kind=nsd", "server.other.kind=nsd"];
    let mut run = Run::start(&sets, |folder, command| {
        for set in [instead(folder, "sleeps", "sleep 1000"), instead(folder, "other", OTHER)] {
            command.args(["--set", &set]);
        }
    });
    let (_, status) = run.end();
    assert_eq!(status, Some(3), "{}", run.said());
    let trials = run.trials();
    let why = |at: usize| trials[at].error.clone().unwrap_or_default();
    assert_eq!(trials.len(), 3);
    assert!(why(0).contains("server 'sleeps': not ready after 2."), "{}", why(0));
    assert!(why(0).contains("nothing listens on UDP port"), "{}", why(0));
    assert!(why(1).contains("server 'other': not ready after 2."), "{}", why(1));
    assert!(why(1).contains("answers REFUSED for the zone's SOA"), "{}", why(1));
    assert!(done(&trials[2]), "{:?}", trials[2]);
    run.nothing_at_work();
}

#[test]
fn ctrl_c_is_heard_while_a_server_gets_ready_or_is_watched() {
    if !has("nsd") {
        return;
    }
    // Within the time that a test waits for anything nothing of this would end by itself.
    for measure in ["measure=latency", "measure=load"] {
        let sets = [measure, "servers=sleeps", "patience=1h", "server.sleeps.kind=nsd"];
        let mut run = Run::start(&sets, |folder, command| {
            command.args(["--set", &instead(folder, "sleeps", "sleep 1000")]);
        });
        wait_until("the server", || {
            processes(run.folder.path()).iter().any(|(_, line)| line.contains("sleeps -d"))
        });
        run.interrupt();
        wait_until("the end", || run.child.try_wait().expect("a status").is_some());
        assert_eq!(run.end().1, Some(6), "{}", run.said());
        assert!(run.said().contains("cut short: 1 trials undone"), "{}", run.said());
        assert_eq!(run.trials().len(), 0);
        run.nothing_at_work();
    }
    let mut run = Run::start(&["measure=load"], |_, _| {});
    run.hear("ready");
    run.interrupt();
    let (events, status) = run.end();
    assert_eq!((events, status), (Vec::new(), Some(6)), "it was reloaded all the same");
    assert_eq!(run.trials().len(), 0);
    run.nothing_at_work();
}
