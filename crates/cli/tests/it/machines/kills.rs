//! Anything of a run on other machines is killed at a random instant: the run says what was lost and can go on, and nothing is left.

use super::lab::{Lab, Way};
use super::possible;
use crate::kill::{processes, wait_until};
use crate::{TINY, stderr, write};
use measure::Seed;
use results::RunDir;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Coordinator,
    Agent,
    Server,
    Generator,
    Session,
    /// The network between control and a machine, for three seconds.
    Network,
}

const VICTIMS: [Victim; 6] =
    [Victim::Coordinator, Victim::Agent, Victim::Server, Victim::Generator, Victim::Session, Victim::Network];

/// How long a run may take to end after something was killed: longer than ssh takes to find that a connection is dead.
const ENDS: Duration = Duration::from_secs(120);

/// Kills the first process whose command line has all of these parts. False: there is none now.
pub fn kill(parts: &[&str]) -> bool {
    let found = std::fs::read_dir("/proc").expect("/proc").flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse::<i32>().ok()?;
        let line =
            String::from_utf8_lossy(&std::fs::read(entry.path().join("cmdline")).ok()?).replace('\0', " ");
        parts.iter().all(|part| line.contains(part)).then_some(pid)
    });
    found.is_some_and(kill_process)
}

fn kill_process(pid: i32) -> bool {
    let status = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Kills a victim; false where there is none at this instant.
fn strike(lab: &Lab, victim: Victim, coordinator: u32) -> bool {
    let files = lab.files.path().display().to_string();
    match victim {
        Victim::Coordinator => kill_process(coordinator as i32),
        Victim::Agent => kill(&["role host --folder", &files]),
        Victim::Server => kill(&["nsd", "-c", &files]),
        Victim::Generator => kill(&[&files, "role load"]),
        Victim::Session => lab.sessions().first().is_some_and(|pid| kill_process(*pid)),
        Victim::Network => {
            let set = |state: &str| {
                lab.on("generator", &["ip", "link", "set", "eth0", state]).status().expect("ip")
            };
            set("down");
            std::thread::sleep(Duration::from_secs(3));
            // Addresses of IPv6 go with the link.
            set("up");
            let _ =
                lab.on("generator", &["ip", "addr", "add", "fd53::2/64", "dev", "eth0", "nodad"]).status();
            true
        }
    }
}

/// Kills something of a run at a random instant, so many times, and lets the run go on. Each number of the draw gives other instants.
fn kills(lab: &Lab, times: usize, number: u64) {
    let sets = ["repeats=3", "attempts=1", "measure=memory,latency"];
    let experiment = write(&lab.user.folder, "experiment.toml", TINY);
    let mut draw = Seed(20081).draw("instants of kills", number);
    let mut struck = 0;
    for n in 0..times {
        let victim = VICTIMS[n % VICTIMS.len()];
        let dir = lab.runs.path().join(format!("run-{n}"));
        let start = |resume: bool| {
            let mut command = lab.experiment(&dir, &experiment, &sets);
            command.args(resume.then_some("--resume")).stdout(Stdio::null()).stderr(Stdio::piped());
            command.spawn().expect("it starts")
        };
        let mut run = start(false);
        let coordinator = run.id();
        std::thread::sleep(Duration::from_millis(draw.below(12_000)));
        let began = Instant::now();
        while run.try_wait().unwrap().is_none() && !strike(lab, victim, coordinator) {
            // It is not there between two trials.
            assert!(began.elapsed() < ENDS, "{victim:?} is never there");
            std::thread::sleep(Duration::from_millis(10));
        }
        let before = RunDir::open(&dir).map_or_else(|_| Vec::new(), |kept| kept.trials().to_vec());
        wait_until("the end of a run", || run.try_wait().unwrap().is_some());
        let got = run.wait_with_output().unwrap();
        let said = stderr(&got);
        let complete = matches!(got.status.code(), Some(0 | 3));
        struck += usize::from(!complete);
        if !complete && victim != Victim::Coordinator {
            assert!(["server", "generator"].iter().any(|host| said.contains(host)), "{victim:?}: {said}");
            assert!(said.contains("--resume") || before.is_empty(), "{victim:?}: {said}");
        }
        wait_until("an end of all agents", || {
            processes(lab.files.path()).iter().all(|(_, line)| line.contains("rack exec"))
        });
        if !complete {
            let got = start(true).wait_with_output().unwrap();
            assert!(matches!(got.status.code(), Some(0 | 3)), "{victim:?}: {said}\nthen {}", stderr(&got));
        }
        let kept = RunDir::open(&dir).expect("the run directory is whole");
        assert_eq!(kept.trials().len(), 6, "{victim:?}: {said}");
        for trial in before.iter().filter(|trial| trial.is_valid()) {
            let again = kept.trials().iter().find(|t| t.id == trial.id).expect("it is kept");
            assert_eq!(again.outcome.metrics, trial.outcome.metrics, "{victim:?}: a valid trial was lost");
        }
        println!(
            "{victim:?}: {}",
            if complete { "the run was done or went on" } else { "the run ended, and went on" }
        );
        std::fs::remove_dir_all(&dir).unwrap();
    }
    println!("{times} kills, {struck} runs that ended");
    lab.assert_tidy();
}

const HOSTS: [(&str, u32); 2] = [("server", 0), ("generator", 1)];

#[test]
#[ignore = "it takes long: scripts/machines.sh"]
fn whatever_is_killed_the_run_can_go_on() {
    if possible(&["sshd", "nsd", "ip"]) {
        let set = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let times = set("DNSRACK_KILLS").unwrap_or(12);
        kills(&Lab::up("k", &HOSTS, Way::Ssh), times as usize, set("DNSRACK_DRAW").unwrap_or(0));
    }
}
