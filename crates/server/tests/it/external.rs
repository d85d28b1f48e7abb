//! A server that somebody else runs.

use crate::lab::{Lab, PLAIN, TIMEOUT, ask};
use domain::base::iana::Rtype;
use server::{Kind, Problem, ServerSpec};
use std::net::UdpSocket;

for_each_server! { is_checked_and_left_alone }

fn is_checked_and_left_alone(lab: &Lab, kind: Kind) {
    let theirs = lab.serve(&lab.spec(kind, &lab.zone(7)));
    let target = theirs.targets()[0];
    let spec = ServerSpec { external: Some(target), ..lab.spec(Kind::EXTERNAL, &lab.zone(7)) };
    let mut server = lab.start(&spec).unwrap();
    assert!(!lab.folder(&spec).exists());
    server.ready(&zone::probe(&lab.zone(7)).unwrap(), TIMEOUT).unwrap();
    let error = server.ready(&zone::probe(&lab.zone(8)).unwrap(), TIMEOUT).unwrap_err();
    assert!(matches!(*error.problem, Problem::WrongSerial { expected: 8, got: 7, .. }), "{error}");
    assert!(matches!(*server.reload().unwrap_err().problem, Problem::Unsupported { .. }));
    assert!(matches!(*server.stats().unwrap_err().problem, Problem::Unsupported { .. }));
    assert!(server.pids().is_empty());
    server.stop().unwrap();
    assert_eq!(ask(target, ".", Rtype::SOA, PLAIN).answer, [Rtype::SOA]);
    let mut server = lab.start(&spec).unwrap();
    theirs.stop().unwrap();
    let error = server.alive().unwrap_err();
    assert!(matches!(*error.problem, Problem::Silent { .. }), "{error}");
}

#[test]
fn silence_is_named() {
    let lab = Lab::new();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = silent.local_addr().unwrap();
    let spec = ServerSpec { external: Some(target), ..lab.spec(Kind::EXTERNAL, &lab.zone(7)) };
    let error = lab.start(&spec).unwrap_err();
    assert!(matches!(*error.problem, Problem::Silent { address, .. } if address == target), "{error}");
    assert!(error.to_string().contains("no answer"), "{error}");
    drop(silent);
    assert!(lab.start(&spec).unwrap_err().to_string().contains("nothing listens"));
}
