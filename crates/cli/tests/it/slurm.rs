//! `dnsrack experiment submit`: a cluster with Slurm's own daemons, each node a host of a rack that stands.

use crate::rack::User;
use crate::{TINY, has, stderr, write};
use results::RunDir;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NODES: [&str; 2] = ["n1", "n2"];

/// The daemons of a cluster; ended when it is dropped.
struct Cluster {
    user: User,
    folder: PathBuf,
    daemons: Vec<Child>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the controller's log:\n{}", self.controller_log());
        }
        for daemon in &mut self.daemons {
            // Their steps end with them.
            let _ = Command::new("kill").arg(daemon.id().to_string()).status();
        }
        let until = Instant::now() + Duration::from_secs(20);
        for daemon in &mut self.daemons {
            while daemon.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(50));
            }
            let _ = daemon.kill().and_then(|()| daemon.wait());
        }
    }
}

impl Cluster {
    fn up() -> Self {
        let user = User::all("l").remove(0);
        let hosts = NODES.iter().chain(&["control"]).map(|name| format!("[[hosts]]\nname = \"{name}\"\n"));
        user.up_with(&hosts.collect::<String>());
        let folder = user.folder.path().join("slurm");
        std::fs::create_dir_all(folder.join("state")).unwrap();
        let at = folder.display();
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let nodes: String = (1..)
            .zip(NODES)
            .map(|(n, node)| {
                format!("NodeName={node} NodeAddr=10.53.0.{n} NodeHostname={node} CPUs=1 State=UNKNOWN\n")
            })
            .collect();
        let config = format!(
            "ClusterName=test\nSlurmctldHost={}(10.53.0.3)\nAuthType=auth/munge\nAuthInfo=socket={at}/munge.socket\n\
             MpiDefault=none\nProctrackType=proctrack/linuxproc\nReturnToService=2\nSlurmctldPidFile={at}/ctld.pid\n\
             SlurmdPidFile={at}/%n.pid\nSlurmdSpoolDir={at}/spool-%n\nStateSaveLocation={at}/state\nSlurmUser=root\n\
             TaskPlugin=task/none\nSelectType=select/linear\nSlurmctldLogFile={at}/ctld.log\nSlurmdLogFile={at}/%n.log\n\
             KillWait=5\nSlurmdTimeout=15\nSlurmctldDebug=verbose\nDebugFlags=Steps\n{nodes}PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1\n\
             PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2\nPreemptType=preempt/partition_prio\n\
             PreemptMode=REQUEUE\n",
            name.trim().split('.').next().unwrap_or_default()
        );
        std::fs::write(folder.join("slurm.conf"), config).unwrap();
        std::fs::write(folder.join("cgroup.conf"), "CgroupPlugin=cgroup/v1\n").unwrap();
        let key = folder.join("munge.key");
        std::fs::write(&key, [b'k'; 64]).unwrap();
        let mut private = std::fs::metadata(&key).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut private, 0o600);
        std::fs::set_permissions(&key, private).unwrap();
        let mut cluster = Self { user, folder, daemons: Vec::new() };
        cluster.munged();
        cluster.daemon("control", &["slurmctld", "-D"]);
        for node in NODES {
            std::fs::create_dir(cluster.folder.join(format!("spool-{node}"))).unwrap();
            cluster.daemon(node, &["slurmd", "-D", "-N", node]);
        }
        cluster
    }

    fn munged(&mut self) {
        let file = |option: &str, name: &str| format!("--{option}={}", self.folder.join(name).display());
        let mut munged = Command::new("munged");
        munged.args(["--foreground", "--force"]).args([
            file("socket", "munge.socket"),
            file("key-file", "munge.key"),
            file("pid-file", "munge.pid"),
            file("log-file", "munge.log"),
            file("seed-file", "munge.seed"),
        ]);
        self.start(munged);
    }

    fn daemon(&mut self, host: &str, words: &[&str]) {
        let args = [&["exec", "--rack", self.user.name.as_str(), host], words].concat();
        let mut command = self.user.command(&args);
        command.arg("-f").arg(self.folder.join("slurm.conf"));
        self.start(command);
    }

    fn start(&mut self, mut command: Command) {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.daemons.push(child.expect("a daemon starts"));
    }

    fn controller_log(&self) -> String {
        std::fs::read_to_string(self.folder.join("ctld.log")).unwrap_or_default()
    }

    /// A command on the host that has the controller.
    fn command(&self, words: &[&str]) -> Command {
        let mut command =
            self.user.command(&[&["exec", "--rack", &self.user.name, "control"], words].concat());
        command.env("SLURM_CONF", self.folder.join("slurm.conf")).env("HOME", self.user.folder.path());
        command
    }

    fn wait_until_idle(&self) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let output = self.command(&["sinfo", "-h", "-o", "%D %t"]).output().unwrap();
            if String::from_utf8_lossy(&output.stdout).trim() == format!("{} idle", NODES.len()) {
                return;
            }
            assert!(Instant::now() < until, "{output:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Submits an experiment of several repeats, and waits until some trials are done.
    fn at_work(&self, dir: &Path, repeats: &str, options: &[&str]) -> Child {
        let mut running = self.submit(dir, TINY, &[repeats, "attempts=1"]);
        running.args(options);
        let mut running = running.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(90);
        while !RunDir::open(dir).is_ok_and(|run| !run.trials().is_empty()) {
            let ended = running.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < until, "{ended:?}: {}", self.log(dir));
            std::thread::sleep(Duration::from_millis(50));
        }
        running
    }

    /// The jobs that there are, each with its name and state.
    fn jobs(&self) -> String {
        let output = self.command(&["squeue", "-h", "-o", "%i %j %T"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The output of a run's jobs.
    fn log(&self, dir: &Path) -> String {
        std::fs::read_to_string(dir.with_extension("job.log")).unwrap_or_default()
    }

    /// The script of docs starts a scheduler and an executor on each node, and ends them.
    fn asks_in_sql(&self) {
        let Some(query) = crate::query_program() else { return };
        self.wait_until_idle();
        let at = |name: &str| self.folder.join(name).display().to_string();
        let (capture, rows, log) = (at("a.pcap"), at("rows.csv"), at("query.log"));
        let names = write(&self.user.folder, "names", "com\nnet\n");
        let made = ["traffic", "generate", "rzaia", "--names", &names, "--count", "5000", "-o", &capture];
        assert!(crate::output(&made).status.success());
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/query-on-slurm.sh");
        let variables = format!("ALL,DNSRACK={}", env!("CARGO_BIN_EXE_dnsrack"));
        let script = script.canonicalize().unwrap().display().to_string();
        let words = ["sbatch", "--wait", "-N2", "--exclusive", "-o", &log, "--export", &variables, &script];
        let sql = "SELECT count(*) AS n, count(DISTINCT qname) AS names FROM queries";
        let asked = [sql, &capture, "--format", "csv", "-o", &rows];
        let got = self.command(&[&words[..], &asked].concat()).output().unwrap();
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        assert!(got.status.success(), "{}{said}", stderr(&got));
        assert_eq!(said.matches("dnsrack query executor: at 10.53.0.").count(), 2, "{said}");
        let here = Command::new(&query).args([sql, &capture, "--format", "csv"]).output().unwrap();
        assert_eq!(std::fs::read_to_string(&rows).unwrap(), String::from_utf8_lossy(&here.stdout), "{said}");
    }

    /// A job whose nodes import a capture each at a time.
    fn imports_captures(&self) {
        self.wait_until_idle();
        let at = |name: &str| self.folder.join(name).display().to_string();
        let (table, log) = (at("table"), at("import.log"));
        let captures = ["one.pcap", "two.pcap", "three.pcap"].map(at);
        let names = write(&self.user.folder, "names", "com\nnet\n");
        for capture in &captures {
            let made = ["traffic", "generate", "rzaia", "--names", &names, "--count", "5000", "-o", capture];
            assert!(crate::output(&made).status.success());
        }
        let program = env!("CARGO_BIN_EXE_dnsrack");
        let import = format!("{program} trace import --apart --rack slurm -o {table} {}", captures.join(" "));
        let words = ["sbatch", "--wait", "-N2", "--exclusive", "-o", &log, "--wrap", &import];
        let got = self.command(&words).output().unwrap();
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        assert!(got.status.success(), "{}{said}", stderr(&got));
        assert!(said.contains("3 captures, 3 of them imported now\n15,000 rows in 3 files"), "{said}");
    }

    /// A job that its user cancels is not followed by another one.
    fn cancelled(&self) {
        self.wait_until_idle();
        let dir = self.user.folder.path().join("cancelled");
        let running = self.at_work(&dir, "repeats=40", &[]);
        assert!(self.command(&["scancel", "--name=dnsrack-tiny"]).status().unwrap().success());
        let got = running.wait_with_output().unwrap();
        let said = stderr(&got);
        assert_eq!(got.status.code(), Some(6), "{said}");
        assert_eq!(said.matches(": submitted").count(), 1, "{said}");
        assert!(said.contains("CANCELLED") && said.contains("some are left"), "{said}");
        assert!(RunDir::open(&dir).is_ok_and(|run| !run.trials().is_empty()), "{said}");
    }

    /// A node that dies ends the job; Slurm runs it again once there is a node, and it goes on where it was.
    fn without_a_node(&mut self) {
        self.wait_until_idle();
        let dir = self.user.folder.path().join("dead");
        let mut running = self.at_work(&dir, "repeats=8", &["--jobs", "1"]);
        // The generator's node dies. Its network goes first: if its processes closed connections, the job would end before Slurm
        // misses the node.
        self.link("down");
        let daemon = format!("slurmd -D -N {}", NODES[1]);
        let all = crate::kill::processes(self.user.folder.path());
        let net = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let of_node = all.iter().find(|(_, line)| line.starts_with(&daemon)).expect("its daemon").0;
        let node = net(of_node).expect("its network namespace");
        for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(pid) = pid.filter(|pid| net(*pid).as_ref() == Some(&node)) {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            }
        }
        let until = Instant::now() + Duration::from_secs(90);
        while !self.jobs().contains("PENDING") {
            assert!(Instant::now() < until && running.try_wait().unwrap().is_none(), "{}", self.log(&dir));
            std::thread::sleep(Duration::from_millis(200));
        }
        let before = RunDir::open(&dir).expect("the run directory is whole").trials().len();
        self.link("up");
        self.daemon(NODES[1], &["slurmd", "-D", "-N", NODES[1]]);
        self.wait_until_idle();
        // Slurm's controller may still be telling the node to end the job. The node's answer would remove it from the job if that
        // ran again by then. (Slurm itself waits two minutes.)
        std::thread::sleep(Duration::from_secs(5));
        self.start_now();
        let got = running.wait_with_output().unwrap();
        let said = stderr(&got);
        assert!(matches!(got.status.code(), Some(0 | 3)), "{said}");
        assert_eq!(said.matches(": submitted").count(), 1, "{said}");
        assert!(said.contains("DUE TO NODE FAILURE") && said.contains("PENDING"), "{said}");
        let kept = RunDir::open(&dir).expect("the run directory is whole");
        assert!(before < 8 && kept.trials().len() == 8 && kept.undone() == 0, "{before}: {said}");
    }

    /// Sets the network of the generator's node up or down.
    fn link(&self, state: &str) {
        let words = ["ip", "link", "set", "group", "default", state];
        let args = [&["exec", "--rack", self.user.name.as_str(), NODES[1]], &words[..]].concat();
        assert!(self.user.command(&args).status().unwrap().success());
    }

    /// A job that has to make room for a more urgent one waits, and goes on where it was.
    fn preempted(&self) {
        self.wait_until_idle();
        let dir = self.user.folder.path().join("preempted");
        let mut running = self.at_work(&dir, "repeats=8", &["--jobs", "1", "--partition", "all"]);
        let urgent = ["sbatch", "-p", "urgent", "-N2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1"];
        assert!(self.command(&urgent).stdout(Stdio::null()).status().unwrap().success());
        let until = Instant::now() + Duration::from_secs(90);
        while !self.jobs().contains("dnsrack-tiny PENDING") {
            assert!(Instant::now() < until && running.try_wait().unwrap().is_none(), "{}", self.log(&dir));
            std::thread::sleep(Duration::from_millis(100));
        }
        let before = RunDir::open(&dir).expect("the run directory is whole").trials().len();
        self.start_now();
        let got = running.wait_with_output().unwrap();
        let said = stderr(&got);
        assert!(matches!(got.status.code(), Some(0 | 3)), "{said}");
        assert_eq!(said.matches(": submitted").count(), 1, "{said}");
        assert!(said.contains("PREEMPTION") && said.contains("PENDING"), "{said}");
        let kept = RunDir::open(&dir).expect("the run directory is whole");
        assert!(before < 8 && kept.trials().len() == 8 && kept.undone() == 0, "{before}: {said}");
    }

    /// Slurm has a job wait for two minutes before it runs again: ours does not.
    fn start_now(&self) {
        let jobs = self.jobs();
        let ours = jobs.lines().find(|job| job.contains("dnsrack-tiny")).expect("a job");
        let id = ours.split_whitespace().next().expect("its number");
        let now = self.command(&["scontrol", "update", &format!("jobid={id}"), "StartTime=now"]).status();
        assert!(now.unwrap().success());
    }

    fn submit(&self, dir: &Path, text: &str, sets: &[&str]) -> Command {
        let experiment = write(&self.user.folder, "experiment.toml", text);
        let (program, dir) = (self.user.program_path(), dir.display().to_string());
        let mut words = vec![program.as_str(), "experiment", "submit", &experiment, "-o", &dir];
        words.extend(sets.iter().flat_map(|set| ["--set", set]));
        self.command(&words)
    }
}

#[test]
fn a_job_does_the_experiment_and_the_next_one_what_is_left() {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED: Slurm's daemons need root");
    }
    if !root || !["slurmctld", "slurmd", "srun", "munged", "nsd"].iter().all(|p| has(p)) {
        return;
    }
    let mut cluster = Cluster::up();
    cluster.wait_until_idle();
    let dir = cluster.user.folder.path().join("run");
    // What Slurm does before the time limit: the job is told to end while trials are left.
    let running = cluster.at_work(&dir, "repeats=4", &[]);
    let told =
        cluster.command(&["scancel", "--batch", "--signal=TERM", "--name=dnsrack-tiny"]).status().unwrap();
    assert!(told.success());
    let got = running.wait_with_output().unwrap();
    let said = stderr(&got);
    assert!(matches!(got.status.code(), Some(0 | 3)), "{said}");
    assert_eq!(said.matches(": submitted").count(), 2, "{said}");
    assert!(said.contains("some are left"), "{said}");
    let run = RunDir::open(&dir).expect("the run directory is whole");
    assert_eq!((run.trials().len(), run.undone()), (4, 0), "{said}");
    for trial in run.trials() {
        assert_eq!(trial.error, None, "{said}");
        assert_eq!(trial.outcome.metric_named("offered"), Some(500.0));
    }
    let machines = run.environment()["machines"].as_array().map(Vec::len);
    assert_eq!(machines, Some(2), "a node for each host");
    cluster.cancelled();
    cluster.preempted();
    cluster.asks_in_sql();
    cluster.imports_captures();
    cluster.without_a_node();
    // An experiment with more hosts than nodes is refused before a job is submitted.
    let none = cluster.user.folder.path().join("none");
    let got = cluster.submit(&none, TINY, &[]).args(["--hosts", "1"]).output().unwrap();
    assert_eq!(got.status.code(), Some(2));
    assert!(stderr(&got).contains("the experiment has 2 hosts: server, generator"), "{}", stderr(&got));
}

#[test]
#[ignore = "it takes long: scripts/machines.sh"]
fn a_job_is_ended_before_its_time_limit_and_the_next_one_goes_on() {
    let root = rustix::process::geteuid().is_root();
    if !root || !["slurmctld", "slurmd", "srun", "munged", "nsd"].iter().all(|p| has(p)) {
        eprintln!("SKIPPED: it needs root, Slurm's daemons and NSD");
        return;
    }
    let cluster = Cluster::up();
    cluster.wait_until_idle();
    let dir = cluster.user.folder.path().join("run");
    // Two minutes, of which the last is for the end; each trial takes more than a second.
    let text = TINY.replace("\"1s\"\nwarmup", "\"5s\"\nwarmup");
    let got =
        cluster.submit(&dir, &text, &["repeats=18", "attempts=1"]).args(["--time", "2"]).output().unwrap();
    let said = stderr(&got);
    assert!(matches!(got.status.code(), Some(0 | 3)), "{said}");
    assert!(said.matches(": submitted").count() >= 2, "{said}");
    let run = RunDir::open(&dir).expect("the run directory is whole");
    assert_eq!((run.trials().len(), run.undone()), (18, 0), "{said}");
    println!("{said}");
}
