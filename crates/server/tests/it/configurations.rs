//! Each server's configuration as it is written.

use crate::lab::Lab;
use rack::Cmd;
use server::{Kind, ServerSpec, Site, ZoneRef, driver};
use std::fmt::Write;
use std::path::Path;

for_each_server! { plain, signed_with_extra_configuration }

fn plain(_: &Lab, kind: Kind) {
    let zone = ZoneRef { origin: ".".into(), file: "root.zone".into(), signed: false };
    insta::assert_snapshot!(
        format!("{kind}-plain"),
        text(&ServerSpec::new(kind, zone), Path::new("/zones/root.zone"))
    );
}

fn signed_with_extra_configuration(lab: &Lab, kind: Kind) {
    // PowerDNS looks into the file for NSEC3.
    let file = lab.dir.path().join("com.zone");
    std::fs::write(&file, "com. 0 IN NSEC3PARAM 1 0 0 -\n0P.com. 1 IN NSEC3 1 1 0 - ( 1P NS )\n").unwrap();
    let config = match kind {
        Kind::BIND => "\tnotify yes;\n",
        Kind::NSD => "\ttcp-count: 1000",
        Kind::KNOT => "mod-stats:\n  - id: all\n",
        Kind::YADIFA => "<main>\n\tmax-tcp-queries 1000\n</main>",
        _ => "cache-ttl=0\n",
    };
    let zone = ZoneRef { origin: "com.".into(), file: file.clone(), signed: true };
    let spec = ServerSpec {
        label: "second".into(),
        config: Some(config.into()),
        workers: 4,
        udp_size: 4096,
        port: 5353,
        addresses: vec!["2001:db8::1".parse().unwrap()],
        ..ServerSpec::new(kind, zone)
    };
    insta::assert_snapshot!(
        format!("{kind}-signed"),
        text(&spec, &file).replace(&file.display().to_string(), "[ZONE]")
    );
}

fn text(spec: &ServerSpec, zone_file: &Path) -> String {
    let listen = spec.targets(&rack::Host::loopback());
    let program = server::installed(spec.kind).unwrap().path;
    let site = Site {
        spec,
        dir: Path::new("/run/1"),
        zone_file,
        listen: &listen,
        program: &program,
        root: None,
        version: "4.7.0",
        control: ([127, 0, 0, 1], 953).into(),
        secret: "c2VjcmV0",
        package: server::package(spec.kind),
    };
    let prepared = driver(spec.kind).prepare(&site).unwrap();
    let line = |cmd: &Cmd| {
        let args = cmd.args.iter().map(|arg| format!(" {}", arg.display()));
        format!("{}{}\n", cmd.program.file_name().unwrap().display(), args.collect::<String>())
    };
    let mut text = String::new();
    for (name, content) in &prepared.files {
        write!(text, "== {name}\n{content}").unwrap();
    }
    text += "== commands\n";
    text.extend(prepared.check.iter().chain(&prepared.before).map(line));
    text + &line(&prepared.start)
}
