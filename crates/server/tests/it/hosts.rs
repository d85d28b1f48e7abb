//! A server on a host of a rack, asked from inside and from another host.

use crate::lab::{Lab, TIMEOUT};
use rack::{HostSpec, Local, Rack, RackSpec};
use server::{Kind, Problem, ServerSpec};

for_each_server! { serves_its_rack }

fn serves_its_rack(lab: &Lab, kind: Kind) {
    let hosts = vec![HostSpec::new("server", &[]), HostSpec::new("generator", &[])];
    let rack = match Rack::up(&RackSpec::new(hosts)) {
        Ok(rack) => rack,
        Err(e) => return eprintln!("SKIPPED: no rack here: {e}"),
    };
    let (home, elsewhere) = (rack.host("server").unwrap(), rack.host("generator").unwrap());
    // Port 53 and both addresses of the host, pinned: to the last CPU, as those that pin themselves begin with the first.
    let cpu = rack::allowed_cpus().pop().unwrap();
    let spec = ServerSpec { port: 53, workers: 2, cpus: vec![cpu], ..lab.spec(kind, &lab.zone(7)) };
    let probe = zone::probe(&spec.zone.file).unwrap();
    let mut server = server::start(Local, home, &spec, &lab.folder(&spec)).unwrap();
    server.ready(&probe, TIMEOUT).unwrap();
    assert_eq!(server.targets(), [(home.v4, 53).into(), (home.v6, 53).into()]);
    for pid in server.pids() {
        for thread in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            assert!(status.lines().any(|line| line == format!("Cpus_allowed_list:\t{cpu}")), "{status}");
        }
    }
    server.stats().unwrap();
    // The other host sees it over the switch, and has the same port free for a server of its own.
    let seen =
        ServerSpec { external: Some(server.targets()[0]), ..lab.spec(Kind::EXTERNAL, &spec.zone.file) };
    server::start(Local, elsewhere, &seen, &lab.folder(&seen)).unwrap().ready(&probe, TIMEOUT).unwrap();
    let second = ServerSpec { label: "second".into(), ..spec.clone() };
    let mut other = server::start(Local, elsewhere, &second, &lab.folder(&second)).unwrap();
    other.ready(&probe, TIMEOUT).unwrap();
    let third = ServerSpec { label: "third".into(), ..spec };
    let error = server::start(Local, home, &third, &lab.folder(&third)).unwrap_err();
    assert!(matches!(&*error.problem, Problem::PortInUse { host, .. } if host == "server"), "{error}");
    other.stop().unwrap();
    server.stop().unwrap();
}
