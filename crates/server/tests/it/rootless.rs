//! Servers inside a user namespace, as its root: what a rack without privileges gives them.

use crate::lab::{Lab, PLAIN, ask};
use domain::base::iana::Rtype;
use server::Kind;
use std::process::Command;

/// Starts this test program again in new user and network namespaces, where the ignored test below runs; by an
/// unprivileged user where we are root and that user can reach the program.
#[test]
fn servers_run_without_privileges() {
    let program = std::env::current_exe().unwrap();
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let reachable = Command::new("setpriv").args(nobody).arg("test").arg("-x").arg(&program).status();
    let dir = tempfile::tempdir().unwrap();
    let mut command = if rustix::process::getuid().is_root() && reachable.is_ok_and(|status| status.success())
    {
        let mut command = Command::new("setpriv");
        command.args(nobody).arg("unshare");
        rustix::fs::chown(dir.path(), Some(rustix::fs::Uid::from_raw(65534)), None).unwrap();
        command
    } else {
        Command::new("unshare")
    };
    let output = command
        .args(["--user", "--map-root-user", "--net"])
        .arg(&program)
        .args(["--exact", "rootless::inside", "--ignored", "--nocapture", "--test-threads=1"])
        .env("TMPDIR", dir.path())
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && said.contains("unshare: ") {
        eprintln!("SKIPPED: no user namespaces here: {said}");
        return;
    }
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    for line in said.lines().filter(|line| line.contains("SKIPPED")) {
        eprintln!("{line}");
    }
}

#[test]
#[ignore = "run by servers_run_without_privileges in namespaces of its own"]
fn inside() {
    assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    for kind in [Kind::BIND, Kind::NSD, Kind::KNOT, Kind::POWERDNS, Kind::YADIFA] {
        crate::lab::with(kind, |lab: &Lab, kind| {
            let zone = lab.signed_zone(&[]).unwrap_or_else(|| lab.zone(7));
            let mut server = lab.serve(&lab.spec(kind, &zone));
            server.stats().unwrap();
            for &target in server.targets() {
                assert_eq!(ask(target, "tld001.", Rtype::NS, PLAIN).authority.len(), 2);
            }
            server.stop().unwrap();
        });
    }
    crate::lab::with(Kind::NSD, crate::roots::nsd_from_its_own_root);
}
