//! `dnsrack query --cluster`: a scheduler and three executors, each on a machine of its own.

use super::possible;
use crate::machines::lab::{Lab, Way};
use crate::{query_program, stderr, write};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const HOSTS: [(&str, u32); 3] = [("one", 0), ("two", 1), ("three", 0)];
/// The machine that asks, and that has the scheduler.
const CONTROL: &str = "10.53.0.4";

struct Role(Child);

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Starts a scheduler or an executor on a machine, and waits until it says that it is there.
fn start(lab: &Lab, host: &str, words: &[&str]) -> Role {
    let program = query_program().expect("it was looked for");
    let words = [&[program.to_str().expect("a path")], words, &["--allow-external"]].concat();
    let mut child = lab.on(host, &words).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let first = said.next().expect("it says where it is").expect("text");
    assert!(first.contains(": at 10.53.0."), "{first}");
    std::thread::spawn(move || said.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
    Role(child)
}

fn executor(lab: &Lab, n: usize) -> Role {
    let (address, folder) = (format!("10.53.0.{}", n + 1), lab.files.path().display().to_string());
    let words =
        ["executor", "--scheduler", CONTROL, "--address", &address, "--threads", "1", "--spill", &folder];
    start(lab, HOSTS[n].0, &words)
}

/// Rows in an order of their own.
fn rows(mut command: Command) -> Vec<String> {
    let got = command.output().expect("it runs");
    assert!(got.status.success(), "{command:?}: {}", stderr(&got));
    let rows: Vec<Value> = serde_json::from_slice(&got.stdout).expect("an array of objects");
    let mut rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    rows.sort();
    rows
}

#[test]
fn a_cluster_of_machines_gives_the_same_rows_and_survives_the_loss_of_one() {
    if !possible(&[]) || query_program().is_none() {
        return;
    }
    let lab = Lab::up("q", &HOSTS, Way::Command);
    let at = |name: &str| lab.runs.path().join(name).display().to_string();
    let names = write(&lab.user.folder, "names", "com\nnet\norg\n");
    let captures: Vec<String> = (0..3).map(|n| at(&format!("{n}.pcap"))).collect();
    for (n, capture) in captures.iter().enumerate() {
        let seed = n.to_string();
        let made = [
            "traffic", "generate", "rzaia", "--names", &names, "--count", "200K", "--seed", &seed, "-o",
            capture,
        ];
        assert!(crate::output(&made).status.success());
    }
    let captures: Vec<&str> = captures.iter().map(String::as_str).collect();
    let table = at("table");
    let words = [&["trace", "import", "--apart", "-o", &table][..], &captures[..]].concat();
    assert!(crate::output(&words).status.success());

    let query = query_program().expect("it was looked for").display().to_string();
    let ask = |cluster: bool, words: &[&str]| {
        let mut all = vec![query.as_str(), "--format", "json"];
        all.extend(if cluster { &["--cluster", CONTROL, "--threads", "6"][..] } else { &[] });
        lab.on("control", &[&all[..], words].concat())
    };
    let _scheduler = start(&lab, "control", &["scheduler", "--address", CONTROL]);
    let mut executors: Vec<Role> = (0..HOSTS.len()).map(|n| executor(&lab, n)).collect();
    for name in ["@types", "@clients", "@latency", "@rssac002-unique-sources", "@rzaia-6"] {
        for sources in [&captures[..], &[table.as_str()]] {
            let words = [&["--apart", name][..], sources].concat();
            assert_eq!(rows(ask(true, &words)), rows(ask(false, &words)), "{name} of {sources:?}");
        }
    }

    // A machine is lost in the middle of a statement: some seconds of work.
    let many: Vec<&str> = captures.iter().copied().cycle().take(30).collect();
    let sql = "SELECT src, count(*) AS n, count(DISTINCT qname) AS names FROM queries GROUP BY src ORDER BY n DESC, src LIMIT 1000";
    let words = [&["--apart", sql][..], &many].concat();
    let here = rows(ask(false, &words));
    let began = Instant::now();
    let mut asked = ask(true, &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    std::thread::sleep(Duration::from_millis(700));
    assert!(asked.try_wait().expect("a child").is_none(), "it was over before a machine was lost");
    executors.remove(1);
    let got = asked.wait_with_output().expect("it ends");
    assert!(got.status.success(), "{}", stderr(&got));
    let mut there: Vec<String> =
        serde_json::from_slice::<Vec<Value>>(&got.stdout).unwrap().iter().map(Value::to_string).collect();
    there.sort();
    assert_eq!(there, here);
    eprintln!("a statement that lost a machine took {} ms", began.elapsed().as_millis());

    // Ctrl-C ends the statement there, too: the next one does not wait for it.
    let mut asked = ask(true, &words);
    let asked = asked.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    std::thread::sleep(Duration::from_secs(1));
    let pid = rustix::process::Pid::from_raw(asked.id() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a signal");
    let got = asked.wait_with_output().expect("it ends");
    assert_eq!(got.status.code(), Some(130), "{}", stderr(&got));
    let began = Instant::now();
    let words = ["SELECT count(*) AS n FROM queries", captures[0]];
    assert_eq!(rows(ask(true, &words)), [r#"{"n":200000}"#]);
    eprintln!("the next statement took {} ms", began.elapsed().as_millis());
}
