//! `dnsrack rack`: up, exec, list, down; as root if we are, and without privileges.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A user of `rack` with a rack name of its own and a folder for files.
pub struct User {
    nobody: bool,
    program: PathBuf,
    pub folder: tempfile::TempDir,
    pub name: String,
}

impl User {
    pub fn all(test: &str) -> Vec<User> {
        let root = rustix::process::geteuid().is_root();
        if !root {
            eprintln!("SKIPPED: the tests as root, since we are not");
        }
        let ways: &[bool] = if root { &[false, true] } else { &[false] };
        ways.iter().map(|&nobody| User::new(test, nobody)).collect()
    }

    fn new(test: &str, nobody: bool) -> User {
        // A copy that anybody can read: the target folder may be below a private one.
        let open = fs::Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new().permissions(open).tempdir_in("/tmp").unwrap();
        let program = folder.path().join("dnsrack");
        fs::copy(env!("CARGO_BIN_EXE_dnsrack"), &program).unwrap();
        let name = format!("{test}{}{}", std::process::id() % 1_000_000, if nobody { "n" } else { "" });
        User { nobody, program, folder, name }
    }

    pub fn command(&self, args: &[&str]) -> Command {
        self.program(&[&["rack"], args].concat())
    }

    /// Any command of the program.
    pub fn program(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).env_remove("XDG_RUNTIME_DIR").current_dir("/");
        if self.nobody {
            command.uid(65534).gid(65534);
        }
        command
    }

    /// Where the user's copy of the program is.
    pub fn program_path(&self) -> String {
        self.program.display().to_string()
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    pub fn good(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Exit status 1, and the message.
    pub fn fails(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    pub fn file(&self, text: &str) -> String {
        let path = self.folder.path().join("rack.toml");
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn up(&self) {
        self.up_with(TWO);
    }

    /// A rack of the hosts in `text`, the first with 10.53.0.1.
    pub fn up_with(&self, text: &str) {
        let file = self.file(text);
        let shown = self.good(&["up", &file, "--name", &self.name]);
        assert!(shown.contains("10.53.0.1") && shown.contains(&self.name), "{shown}");
    }

    /// Our rack as `rack list --json` has it.
    pub fn listed(&self) -> Option<serde_json::Value> {
        let all: serde_json::Value = serde_json::from_str(&self.good(&["list", "--json"])).unwrap();
        assert_eq!(all["schema"], "dnsrack.rack.list/1");
        all["racks"].as_array().unwrap().iter().find(|rack| rack["name"] == *self.name).cloned()
    }

    pub fn assert_nothing_left(&self) {
        assert_eq!(self.listed(), None);
        for folder in ["/run/dnsrack", "/tmp/dnsrack-65534"] {
            assert!(!PathBuf::from(folder).join(&self.name).exists(), "{folder}/{} is left", self.name);
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(&self.name), "{mounts}");
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.run(&["down", &self.name]);
    }
}

const TWO: &str = "[[hosts]]\nname = \"server\"\ncpus = [0]\n[[hosts]]\nname = \"generator\"\n";

#[test]
fn a_rack_comes_up_runs_commands_and_goes_down_with_its_processes() {
    for user in User::all("u") {
        user.up();
        let name = user.name.as_str();
        let again = user.fails(&["up", &user.file(TWO), "--name", name]);
        assert!(again.contains("is up already") && again.contains("rack down"), "{again}");
        let inside = user.run(&[
            "exec",
            "--rack",
            name,
            "server",
            "sh",
            "-c",
            "cat /proc/net/if_inet6; grep Cpus_allowed_list /proc/self/status; exit 7",
        ]);
        assert_eq!(inside.status.code(), Some(7), "{inside:?}");
        let text = String::from_utf8(inside.stdout).unwrap();
        assert!(text.contains("fd530000000000000000000000000001"), "{text}");
        assert!(text.contains("Cpus_allowed_list:\t0\n"), "{text}");
        let mut sleeper =
            user.command(&["exec", "--rack", name, "generator", "sleep", "1000"]).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        let process = loop {
            let rack = user.listed().expect("it is up");
            assert_eq!(
                (&rack["alive"], &rack["hosts"][0]["addresses"][0]),
                (&true.into(), &"10.53.0.1".into())
            );
            if let Some(process) = rack["processes"].as_array().unwrap().first() {
                break process.clone();
            }
            assert!(Instant::now() < until, "the process is not listed: {rack}");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!((&process["host"], &process["pid"]), (&"generator".into(), &sleeper.id().into()));
        user.good(&["down", name]);
        assert!(!sleeper.wait().unwrap().success());
        user.assert_nothing_left();
        assert!(user.fails(&["down", name]).contains(name));
    }
}

#[test]
fn errors_come_before_anything_is_made() {
    for user in User::all("e") {
        let name = user.name.as_str();
        let up = |text: &str| user.fails(&["up", &user.file(text), "--name", name]);
        let unknown = up("[[hosts]]\nname = \"a\"\ncpu = [0]\n");
        assert!(unknown.contains("rack.toml:3:1: ") && unknown.contains("cpu"), "{unknown}");
        let cpu = up("[[hosts]]\nname = \"a\"\ncpus = [1000]\n");
        assert!(cpu.contains("CPU 1000") && cpu.contains("host a"), "{cpu}");
        assert!(up("[[hosts]]\nname = \"two words\"\n").contains("two words"));
        assert!(user.fails(&["up", "/no/such/file.toml"]).contains("/no/such/file.toml"));
        user.assert_nothing_left();
        assert!(user.fails(&["exec", "--rack", name, "a", "true"]).contains("rack list"));
        user.up();
        let host = user.fails(&["exec", "--rack", name, "nobody", "true"]);
        assert!(host.contains("server, generator"), "{host}");
        let program = user.fails(&["exec", "--rack", name, "server", "no-such-program"]);
        assert!(program.contains("no-such-program") && program.contains("no such program"), "{program}");
    }
}

#[test]
fn killing_up_at_any_moment_leaves_nothing_that_down_does_not_remove() {
    for user in User::all("k") {
        let file = user.file(TWO);
        for delay in [0, 1, 2, 4, 6, 8, 12, 16] {
            let mut up = user.command(&["up", &file, "--name", &user.name]).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(delay));
            up.kill().unwrap();
            up.wait().unwrap();
            if user.listed().is_some() {
                user.good(&["down", &user.name]);
            }
            user.assert_nothing_left();
        }
        user.up();
    }
}

#[test]
fn a_rack_whose_holder_was_killed_is_shown_as_gone_and_can_be_cleared() {
    for user in User::all("h") {
        user.up();
        let rack = user.listed().unwrap();
        let Some(holder) = rack["holder"].as_i64() else { continue };
        let pid = rustix::process::Pid::from_raw(holder as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while user.listed().unwrap()["alive"] == true {
            assert!(Instant::now() < until, "still alive without its holder");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(user.fails(&["exec", "--rack", &user.name, "server", "true"]).contains("gone"));
        user.good(&["down", &user.name]);
        user.assert_nothing_left();
    }
}
