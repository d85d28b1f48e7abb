//! Servers from the root folder of another distribution or release.

use crate::lab::{Lab, PLAIN, TIMEOUT, ask};
use domain::base::iana::{Rcode, Rtype};
use server::{Kind, Problem, Program, Replication, ServerSpec};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A root folder that has this machine's NSD with its checker and their libraries, and nothing else.
fn root_with_nsd(dir: &Path) -> PathBuf {
    let root = dir.join("root");
    for folder in ["usr/sbin", "usr/bin", "usr/lib", "usr/lib64", "etc"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for folder in ["sbin", "bin", "lib", "lib64"] {
        symlink(format!("usr/{folder}"), root.join(folder)).unwrap();
    }
    let nsd = server::installed(Kind::NSD).unwrap().path;
    for program in [nsd.clone(), nsd.with_file_name("nsd-checkconf")] {
        let libraries = Command::new("ldd").arg(&program).output().unwrap();
        let libraries = String::from_utf8(libraries.stdout).unwrap();
        let libraries = libraries.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
        for file in libraries.chain([program]) {
            let copy = root.join(file.strip_prefix("/").unwrap());
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(&file, copy).unwrap();
        }
    }
    root
}

/// A server is started from a root that has nothing but it, and the root stays as it was.
pub fn nsd_from_its_own_root(lab: &Lab, _: Kind) {
    let root = root_with_nsd(lab.dir.path());
    let spec = ServerSpec { root: Some(root.clone()), ..lab.spec(Kind::NSD, &lab.zone(7)) };
    let found = server::found(&Program { kind: Kind::NSD, path: None, root: Some(root.clone()) }).unwrap();
    let copy = root.join(found.path.strip_prefix("/").unwrap());
    let (inode, before) = (copy.metadata().unwrap().ino(), files(&root));
    let server = lab.serve(&spec);
    assert_eq!(server.version(), found.version);
    assert_eq!(ask(server.targets()[0], "www.tld007.", Rtype::A, PLAIN).authority, [Rtype::NS, Rtype::NS]);
    for pid in server.pids() {
        // It sees the program at the usual place, and it is the root's.
        assert_eq!(fs::metadata(format!("/proc/{pid}/exe")).unwrap().ino(), inode);
        assert_eq!(fs::read_link(format!("/proc/{pid}/exe")).unwrap(), found.path);
    }
    server.stop().unwrap();
    assert_eq!(files(&root), before);
    let knot = Program { kind: Kind::KNOT, path: None, root: Some(root.clone()) };
    let error = server::found(&knot).unwrap_err();
    assert!(matches!(*error.problem, Problem::Missing { .. }), "{error}");
    assert!(error.to_string().contains(&format!("of {}", root.display())), "{error}");
}

fn files(root: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path.clone());
            }
            all.push(path);
        }
    }
    all.sort();
    all
}

#[test]
fn a_root_with_nothing_but_nsd() {
    if rustix::process::getuid().is_root() {
        crate::lab::with(Kind::NSD, nsd_from_its_own_root);
    } else {
        eprintln!(
            "SKIPPED: mounting needs root; servers_run_without_privileges tries it in a user namespace"
        );
    }
}

/// The servers of the Debian release that ./test fetched.
#[test]
fn another_release_of_debian() {
    let Some(root) = std::env::var_os("DNSRACK_SERVER_ROOT").map(PathBuf::from) else {
        eprintln!(
            "SKIPPED: DNSRACK_SERVER_ROOT names no root folder (scripts/server-root.sh trixie FOLDER makes one)"
        );
        return;
    };
    if !rustix::process::getuid().is_root() {
        eprintln!("SKIPPED: mounting needs root");
        return;
    }
    let lab = Lab::new();
    for kind in Kind::ours() {
        let mut spec = ServerSpec { root: Some(root.clone()), ..lab.spec(kind, &lab.zone(7)) };
        spec.config = crate::life::without_caches(kind);
        let found = match server::found(&Program { kind, path: None, root: Some(root.clone()) }) {
            Ok(found) => found,
            Err(why) => {
                eprintln!("SKIPPED: {why}");
                continue;
            }
        };
        assert!(found.release.is_some_and(|release| release.starts_with("Debian")), "{kind}");
        let here = server::installed(kind);
        assert!(here.is_none_or(|here| here.version != found.version), "{kind}: as on this machine");
        let mut server = lab.serve(&spec);
        for &target in server.targets() {
            let answer = ask(target, "www.tld007.", Rtype::A, PLAIN);
            if kind == Kind::HICKORY {
                // As its file says: no referral.
                assert_eq!((answer.rcode, answer.aa), (Rcode::NXDOMAIN, true));
                assert_eq!(ask(target, "tld007.", Rtype::NS, PLAIN).answer, [Rtype::NS, Rtype::NS]);
            } else {
                assert_eq!(answer.authority, [Rtype::NS, Rtype::NS], "{kind}");
            }
            assert_eq!(ask(target, "tld0077.", Rtype::A, PLAIN).rcode, Rcode::NXDOMAIN, "{kind}");
        }
        // The client of YADIFA 3.0.2 refuses its own commands.
        if server::driver(kind).facts().can.reload && kind != Kind::YADIFA {
            let newer = lab.zone_of("root-7.zone", 8, 51);
            server.reload().unwrap();
            server.ready(&zone::probe(&newer).unwrap(), TIMEOUT).unwrap();
        }
        if server::driver(kind).facts().can.stats {
            server.stats().unwrap();
        }
        server.stop().unwrap();
    }
}

#[test]
fn what_hickory_cannot_do_is_refused() {
    let lab = Lab::new();
    let spec = lab.spec(Kind::HICKORY, &lab.zone(7));
    let refused = |spec: &ServerSpec| server::check(spec).unwrap_err().to_string();
    assert!(server::check(&spec).is_ok());
    let mut signed = spec.clone();
    signed.zone.signed = true;
    assert_eq!(refused(&signed), "server 'hickory': zone: hickory serves no zone that is signed already");
    let key = update::TsigKey::sha256("k", "AAAA");
    let distributed = ServerSpec { distribution: Some(Replication::new(key)), ..spec };
    assert_eq!(
        refused(&distributed),
        "server 'hickory': distribution: hickory makes no zone transfers with TSIG"
    );
}
