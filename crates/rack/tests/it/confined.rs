//! Starting the example program, as the user of the tests or as nobody.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// As whom a test runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum As {
    /// The user of the tests.
    Us,
    /// User 65534, without any privilege.
    Nobody,
    /// As in a container: root without privileges but the one that a user namespace of root needs, with a part of /proc hidden, so that no other /proc can be mounted, and /proc/sys
    /// read-only.
    Contained,
}

/// The ways that can be tested here: without privileges always, as root if we are.
pub fn ways() -> Vec<As> {
    if rustix::process::geteuid().is_root() {
        vec![As::Us, As::Nobody, As::Contained]
    } else {
        eprintln!("SKIPPED: the tests as root, since we are not");
        vec![As::Us, As::Contained]
    }
}

/// Those of [`ways`] in which hosts can have paths between them.
pub fn ways_with_paths() -> Vec<As> {
    ways().into_iter().filter(|who| *who != As::Contained).collect()
}

/// The example program `confined` with these arguments, its output in pipes.
pub fn command(who: As, args: &[&str]) -> Command {
    // One place for all runs: nothing drops a static, so a folder for each would stay behind.
    static COPY: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    example(who, COPY.get_or_init(|| copy("confined")), args)
}

/// The example program `paths` with these arguments, its output in pipes.
pub fn paths(who: As, args: &[&str]) -> Command {
    static COPY: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    example(who, COPY.get_or_init(|| copy("paths")), args)
}

/// A copy of an example program that others can read, as the target folder may be below a private one.
fn copy(name: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let built = std::env::current_exe().unwrap().parent().unwrap().join("../examples").join(name);
    assert!(
        built.exists(),
        "{} is missing: cargo test builds it, also `cargo build --examples`",
        built.display()
    );
    let folder = PathBuf::from(format!("/tmp/dnsrack-tests-{}", rustix::process::getuid().as_raw()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = folder.join(name);
    let aside = tempfile::NamedTempFile::new_in(&folder).unwrap().into_temp_path();
    std::fs::copy(&built, &aside).unwrap();
    aside.persist(&copy).unwrap();
    copy
}

fn example(who: As, program: &PathBuf, args: &[&str]) -> Command {
    let mut command = match who {
        As::Us | As::Nobody => Command::new(program),
        // All of these are replaced by the next: the program has the process id of the first.
        As::Contained => {
            let script = "mount --bind /dev/null /proc/devices && mount --rbind /proc/sys /proc/sys \
                          && mount -o remount,bind,ro /proc/sys && exec setpriv --bounding-set=-all,+setfcap \"$0\" \"$@\"";
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg(program);
            command
        }
    };
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if who == As::Nobody {
        command.uid(65534).gid(65534);
    }
    command
}

/// Runs it to its end and returns its one line of JSON.
pub fn json(who: As, args: &[&str]) -> serde_json::Value {
    json_of(&mut command(who, args), who, args)
}

/// As [`json`], of a command.
pub fn json_of(command: &mut Command, who: As, args: &[&str]) -> serde_json::Value {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{who:?} {args:?}: {}: {errors}", output.status);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{who:?} {args:?}: {e}: {errors}"))
}
