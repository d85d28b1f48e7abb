//! Machines to test with: hosts of a rack that stands, each with a folder of its own, reached by a command or by ssh.

use crate::rack::User;
use crate::write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How the machines are reached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Command,
    Ssh,
}

/// A rack with a host for each machine, and one more, `control`, on which dnsrack runs.
pub struct Lab {
    pub user: User,
    /// The hosts, with the core of each.
    hosts: Vec<(&'static str, u32)>,
    /// Where ssh is found, which has the keys.
    bin: PathBuf,
    sshds: Vec<Child>,
    /// Run directories.
    pub runs: tempfile::TempDir,
    /// The folders of the agents.
    pub files: tempfile::TempDir,
    /// The rack file.
    pub rack: String,
}

impl Drop for Lab {
    fn drop(&mut self) {
        for sshd in &mut self.sshds {
            let _ = sshd.kill().and_then(|()| sshd.wait());
        }
    }
}

impl Lab {
    pub fn up(name: &str, hosts: &[(&'static str, u32)], way: Way) -> Self {
        let user = User::all(name).remove(0);
        let host = |(name, cpu): &(&str, u32)| format!("[[hosts]]\nname = \"{name}\"\ncpus = [{cpu}]\n");
        let all: String = hosts.iter().map(host).collect();
        user.up_with(&(all + "[[hosts]]\nname = \"control\"\n"));
        let folder = || tempfile::tempdir_in("/tmp").expect("a folder");
        let bin = user.folder.path().join("bin");
        let mut lab = Self {
            hosts: hosts.to_vec(),
            bin,
            sshds: Vec::new(),
            runs: folder(),
            files: folder(),
            rack: String::new(),
            user,
        };
        if way == Way::Ssh {
            lab.start_sshds();
        }
        let text: String = (1..).zip(hosts).map(|(n, (host, cpu))| lab.entry(n, host, *cpu, way)).collect();
        lab.rack = write(&lab.user.folder, "machines.toml", &text);
        lab
    }

    fn entry(&self, n: u32, host: &str, cpu: u32, way: Way) -> String {
        let way = match way {
            Way::Command => {
                let (program, rack) = (self.user.program_path(), &self.user.name);
                format!("command = [\"{program}\", \"rack\", \"exec\", \"--rack\", \"{rack}\", \"{host}\"]")
            }
            Way::Ssh => format!("ssh = \"root@10.53.0.{n}\""),
        };
        format!(
            "[[hosts]]\nname = \"{host}\"\n{way}\naddresses = [\"10.53.0.{n}\", \"fd53::{n:x}\"]\ncpus = [{cpu}]\nfolder = \"{}\"\n",
            self.files.path().join(host).display()
        )
    }

    /// An sshd on each host, and an ssh that has the key, as a user's ~/.ssh/config says it.
    fn start_sshds(&mut self) {
        let folder = self.user.folder.path().to_owned();
        let key = |name: &str| {
            let file = folder.join(name);
            let made =
                Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&file).status();
            assert!(made.expect("ssh-keygen").success());
            file.display().to_string()
        };
        let (own, of_hosts) = (key("id"), key("host"));
        std::fs::create_dir_all("/run/sshd").expect("sshd's folder");
        for (n, (host, _)) in (1..).zip(&self.hosts) {
            let rack = self.user.name.as_str();
            let mut args =
                vec!["exec", "--rack", rack, host, "/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null"];
            let (keys, at) = (format!("AuthorizedKeysFile={own}.pub"), format!("ListenAddress=10.53.0.{n}"));
            args.extend([
                "-h",
                &of_hosts,
                "-o",
                &keys,
                "-o",
                &at,
                "-o",
                "StrictModes=no",
                "-o",
                "PidFile=none",
            ]);
            self.sshds.push(self.user.command(&args).stderr(Stdio::null()).spawn().expect("sshd"));
        }
        let config = format!(
            "Host *\nIdentityFile {own}\nStrictHostKeyChecking no\nUserKnownHostsFile {}\nUser root\nLogLevel ERROR\n",
            folder.join("known").display()
        );
        let config = write(&self.user.folder, "ssh_config", &config);
        std::fs::create_dir(&self.bin).unwrap();
        let wrapper = self.bin.join("ssh");
        std::fs::write(&wrapper, format!("#!/bin/sh\nexec /usr/bin/ssh -F {config} \"$@\"\n")).unwrap();
        std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        for n in 1..=self.hosts.len() {
            let to = format!("10.53.0.{n}");
            while !self.on("control", &["ssh", &to, "true"]).output().expect("ssh").status.success() {
                assert!(Instant::now() < until, "no sshd at {to}");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }

    /// The processes of ssh sessions: children of our daemons.
    pub fn sessions(&self) -> Vec<i32> {
        let daemons: Vec<String> = self.sshds.iter().map(|sshd| sshd.id().to_string()).collect();
        let parent_is_ours = |pid: &i32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // After the name, which may have spaces: state, then parent.
            let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
            parent.is_some_and(|parent| daemons.iter().any(|daemon| daemon == parent))
        };
        let all = std::fs::read_dir("/proc").expect("/proc").flatten();
        all.filter_map(|e| e.file_name().to_str()?.parse().ok()).filter(parent_is_ours).collect()
    }

    /// A command on a host, in the place of `rack exec`.
    pub fn on(&self, host: &str, words: &[&str]) -> Command {
        let path = format!("PATH={}:{}", self.bin.display(), std::env::var("PATH").unwrap_or_default());
        self.user.command(&[&["exec", "--rack", &self.user.name, host, "env", &path], words].concat())
    }

    /// An experiment on the machines.
    pub fn experiment(&self, dir: &Path, name: &str, sets: &[&str]) -> Command {
        let (program, dir) = (self.user.program_path(), dir.display().to_string());
        let mut words = vec![program.as_str(), "experiment", "run", name, "--rack", &self.rack, "-o", &dir];
        words.extend(sets.iter().flat_map(|set| ["--set", set]));
        self.on("control", &words)
    }

    /// The same of an experiment file with this text, run to its end.
    pub fn run(&self, dir: &Path, text: &str, sets: &[&str]) -> Output {
        let experiment = write(&self.user.folder, "experiment.toml", text);
        self.experiment(dir, &experiment, sets).output().expect("it runs")
    }

    /// Whether an agent of these machines is at work.
    pub fn is_at_work(&self) -> bool {
        !crate::kill::processes(self.files.path()).is_empty()
    }

    /// The files of agents that are at work: none.
    pub fn assert_tidy(&self) {
        for entry in std::fs::read_dir(self.files.path()).expect("folders").flatten() {
            let names = std::fs::read_dir(entry.path()).expect("its folder").map(|e| e.unwrap().file_name());
            let names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
            assert!(names.iter().all(|n| n == "files" || n.starts_with("dnsrack-")), "{names:?}");
            assert_eq!(names.len(), 2, "{names:?}");
        }
    }
}
