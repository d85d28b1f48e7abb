//! `dnsrack load run --host`: several hosts of a rack against one server there.

use crate::rack::User;
use crate::{has, write};
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const THREE: &str = "[[hosts]]\nname = \"server\"\n[[hosts]]\nname = \"g1\"\n[[hosts]]\nname = \"g2\"\n";

/// NSD on host `server`; killed when dropped.
struct Nsd(Child);

impl Drop for Nsd {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn nsd(user: &User) -> Nsd {
    let folder = user.folder.path().display();
    let zone =
        "$ORIGIN example.\n@ 60 SOA ns.example. h.example. 1 60 60 60 60\n@ 60 NS ns\nns 60 A 10.53.0.1\n";
    write(&user.folder, "zone", zone);
    let config = format!(
        "server:\n username: \"\"\n database: \"\"\n zonesdir: \"{folder}\"\n pidfile: \"\"\n xfrdfile: \"\"\n \
         zonelistfile: \"\"\n ip-address: 10.53.0.1\n server-count: 1\nremote-control:\n control-enable: no\n\
         zone:\n name: \"example.\"\n zonefile: \"zone\"\n"
    );
    let config = write(&user.folder, "nsd.conf", &config);
    let args = ["exec", "--rack", &user.name, "server", "nsd", "-d", "-c", &config];
    let child = user.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    Nsd(child)
}

/// A load from hosts of the user's rack: its events, the result last.
fn load(user: &User, args: &[&str]) -> Vec<Value> {
    let queries = write(&user.folder, "queries", "example. NS\nns.example. A\nno.example. A\n");
    let mut command =
        user.program(&["--events", "load", "run", "10.53.0.1", "--queries", &queries, "--deadline", "1s"]);
    command.args(args).args(["--rack", &user.name]);
    let got = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&got.stdout).into_owned();
    assert!(matches!(got.status.code(), Some(0 | 3)), "{text}{}", String::from_utf8_lossy(&got.stderr));
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn two_hosts_share_a_load() {
    if !has("nsd") {
        return;
    }
    for user in User::all("m") {
        user.up_with(THREE);
        let _nsd = nsd(&user);
        // Ready when it answers one of them.
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let events = load(&user, &["--host", "g1", "--rate", "20", "--duration", "200ms"]);
            let result = &events.last().expect("a result")["result"];
            assert_eq!(result["workers"], 1, "{result}");
            if result["answered"] != 0 {
                break;
            }
            assert!(Instant::now() < until, "NSD does not answer: {result}");
        }
        let events = load(
            &user,
            &["--host", "g1", "--host", "g2", "--rate", "1K", "--duration", "2s", "--warmup", "200ms"],
        );
        let result = &events.last().expect("a result")["result"];
        let value_of =
            |name: &str| result[name].as_u64().unwrap_or_else(|| panic!("no count {name} in {result}"));
        assert_eq!((value_of("offered"), value_of("workers")), (2000, 2), "{result}");
        assert_eq!(value_of("sent") + value_of("unsent"), 2000);
        assert_eq!(value_of("sent"), value_of("answered") + value_of("lost"));
        assert!(value_of("answered") > 0 && result["rcodes"]["NXDOMAIN"].as_u64() > Some(0), "{result}");
        assert_eq!(result["duration_s"], 2.0);
        let progress: Vec<_> = events.iter().filter(|e| e["event"] == "progress").collect();
        assert_eq!(progress.first().map(|e| &e["second"]), Some(&1.into()), "{events:?}");
        let started = events.iter().filter(|e| e["event"] == "started").count();
        assert_eq!(started, 1);

        let wrong = user
            .program(&[
                "load",
                "run",
                "10.53.0.1",
                "--queries",
                "q",
                "--flood",
                "--host",
                "g3",
                "--rack",
                &user.name,
            ])
            .output()
            .expect("it runs");
        let told = String::from_utf8_lossy(&wrong.stderr).into_owned();
        assert!(wrong.status.code() == Some(1) && told.contains("server, g1, g2"), "{told}");
    }
}
