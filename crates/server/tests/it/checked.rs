//! What every server answers about zones of many kinds is right, as `load::check` compares it: the check has no false
//! alarms, and what a server does wrong is known by name.

use crate::lab::{Lab, TIMEOUT, free_port};
use load::check::{CheckResult, CheckSpec, Sample, verify};
use server::{Kind, Problem, ServerSpec, ZoneRef};
use std::collections::BTreeSet;
use std::io::{Cursor, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use wire::name::{self, Name};
use wire::query::Edns;
use wire::rtype;
use zone::sign::{Algorithm, Nsec3, Options};
use zone::{Family, Scanner};

for_each_server! {
    all_of_a_zone_is_right, another_zone_is_noticed, families_are_right, the_real_root_is_right,
}

/// Everything that a zone may have: aliases within and out of it, DNAME, wildcards, empty non-terminals, delegations
/// with and without DS, with glue of their own and their siblings'.
const ZONE: &str = "\
example. 3600 IN SOA ns.example. host.example. 7 1800 900 604800 300
@ NS ns
@ NS ns.other.
@ MX 10 a
a A 192.0.2.1
a A 192.0.2.2
a TXT one
a TXT two
alias CNAME a
aliasalias CNAME Alias
away CNAME www.other.
below CNAME www.secure
d DNAME target
nothing CNAME does-not-exist
x.y.ent A 192.0.2.3
ns A 192.0.2.53
ns AAAA 2001:db8::53
Secure NS ns.secure
secure NS ns.unsigned
secure DS 1 13 2 abababababababababababababababababababababababababababababababab
ns.secure A 192.0.2.4
ns.secure AAAA 2001:db8::4
srv SRV 1 2 3 a
x.target A 192.0.2.5
unsigned NS ns.unsigned
deep.er.unsigned2 NS ns.other.
ns.unsigned A 192.0.2.6
*.w TXT wild
*.alias2 CNAME a
b.w A 192.0.2.7
";

/// The zone without what YADIFA cannot do: it takes no DNAME, and puts the names in NSEC into lower case, so that the
/// signature fails.
fn zone_for(kind: Kind) -> String {
    match kind {
        Kind::YADIFA => ZONE.replace("d DNAME target\n", "").replace("Secure NS", "secure NS"),
        _ => ZONE.to_owned(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Denial {
    Unsigned,
    Nsec,
    Nsec3,
    OptOut,
}

const ALL: [Denial; 4] = [Denial::Unsigned, Denial::Nsec, Denial::Nsec3, Denial::OptOut];

/// Writes a zone, signed as wanted.
fn write(lab: &Lab, label: &str, text: &[u8], origin: &str, denial: Denial) -> ServerSpec {
    let file = lab.dir.path().join(format!("{label}-{denial:?}.zone"));
    let mut out = Vec::new();
    let origin_name: Name = origin.parse().unwrap();
    if denial == Denial::Unsigned {
        out.extend_from_slice(format!("$ORIGIN {origin}\n").as_bytes());
        out.extend_from_slice(text);
    } else {
        let source = Scanner::new(Cursor::new(text.to_vec()), label).with_origin(origin_name.as_wire());
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as u32;
        let nsec3 = Nsec3 { opt_out: denial == Denial::OptOut, iterations: 1, salt: vec![0xab] };
        let nsec3 = (denial != Denial::Nsec).then_some(nsec3);
        let options = Options { nsec3, ..Options::new(Algorithm::EcdsaP256Sha256, now - 3600) };
        zone::sign(&mut zone::sort::sorted(source, &mut |_| {}).unwrap(), &options, &mut out, &mut |_| {})
            .unwrap();
    }
    std::fs::write(&file, out).unwrap();
    let zone = ZoneRef { origin: origin.to_owned(), file, signed: denial != Denial::Unsigned };
    ServerSpec { port: free_port(), ..ServerSpec::new(Kind::NSD, zone) }
}

/// Names to ask for: owners, names above, beside and below them; `most` of them, spread over the zone.
fn names(zone: &Path, most: usize) -> Vec<Name> {
    let mut scanner = Scanner::open(zone).unwrap();
    let mut names = BTreeSet::new();
    while let Some(record) = scanner.next().unwrap() {
        if matches!(record.rtype, rtype::NSEC3 | rtype::RRSIG) {
            continue;
        }
        let owner = Name::from_wire(record.owner).unwrap();
        let apex = owner.as_wire().len() == scanner.apex().unwrap().len();
        names.insert(Name::parse_text("WwW", Some(owner.as_wire())).unwrap());
        if !apex {
            let parent = name::parent(owner.as_wire()).to_vec();
            names.insert(Name::from_wire(&parent).unwrap());
            let label =
                String::from_utf8_lossy(&owner.as_wire()[1..=usize::from(owner.as_wire()[0])]).into_owned();
            names
                .insert(Name::parse_text(format!("{}-", label.replace('*', "star")), Some(&parent)).unwrap());
        }
        names.insert(owner);
    }
    let step = names.len().div_ceil(most);
    names.into_iter().step_by(step).collect()
}

/// How questions are asked: EDNS, and whether over TCP.
type Way = (Option<Edns>, bool);

const SMALL: [Way; 3] = [(None, false), (edns(512, false), false), (edns(512, true), false)];
const USUAL: [Way; 2] = [(edns(1232, true), false), (edns(1232, true), true)];

const fn edns(udp_size: u16, do_bit: bool) -> Option<Edns> {
    Some(Edns { udp_size, do_bit })
}

/// Asks everything in these ways, over TCP only a part, and gives the answers as a load would have sampled them.
fn ask_all(target: SocketAddr, names: &[Name], types: &[u16], ways: &[Way]) -> Vec<Sample> {
    let udp = UdpSocket::bind(if target.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }).unwrap();
    udp.set_read_timeout(Some(TIMEOUT)).unwrap();
    udp.connect(target).unwrap();
    let (mut query, mut buffer, mut samples) = (Vec::new(), vec![0; 65535], Vec::new());
    for &(edns, over_tcp) in ways {
        let step = if over_tcp { names.len().div_ceil(20) } else { 1 };
        for name in names.iter().step_by(step) {
            for &rtype in types {
                wire::query::write(&mut query, 7, name.as_wire(), rtype, edns);
                let len = match over_tcp {
                    true => tcp(target, &query, &mut buffer),
                    false => {
                        udp.send(&query).unwrap();
                        udp.recv(&mut buffer).unwrap_or_else(|e| panic!("{name} {rtype}: {e}"))
                    }
                };
                let at = samples.len() as u64;
                samples.push(Sample { target, at, bytes: buffer[..len].to_vec(), len });
            }
        }
    }
    samples
}

fn tcp(target: SocketAddr, query: &[u8], buffer: &mut [u8]) -> usize {
    let mut tcp = TcpStream::connect_timeout(&target, TIMEOUT).unwrap();
    tcp.set_read_timeout(Some(TIMEOUT)).unwrap();
    tcp.write_all(&[&(query.len() as u16).to_be_bytes()[..], query].concat()).unwrap();
    let mut len = [0; 2];
    tcp.read_exact(&mut len).unwrap();
    let len = usize::from(u16::from_be_bytes(len));
    tcp.read_exact(&mut buffer[..len]).unwrap();
    len
}

/// The answers of a server to questions about its zone.
fn answers(
    lab: &Lab,
    kind: Kind,
    spec: &ServerSpec,
    most: usize,
    types: &[u16],
    ways: &[Way],
) -> Vec<Sample> {
    let port = free_port();
    let label = format!("{kind}-{port}");
    // PowerDNS ignores DNAME records unless this is set.
    let config = (kind == Kind::POWERDNS).then(|| "dname-processing=yes\n".to_owned());
    let spec = ServerSpec { kind, label, port, config, ..spec.clone() };
    let server = lab.serve(&spec);
    let samples = ask_all(server.targets()[0], &names(&spec.zone.file, most), types, ways);
    server.stop().unwrap();
    samples
}

fn faults(result: &CheckResult) -> BTreeSet<&str> {
    result.wrong.keys().map(String::as_str).collect()
}

fn all_of_a_zone_is_right(lab: &Lab, kind: Kind) {
    // PowerDNS truncates ANY, follows aliases with it, and has its own thoughts about NSEC: not asked.
    let types = [
        rtype::A,
        rtype::AAAA,
        rtype::NS,
        rtype::SOA,
        rtype::MX,
        rtype::TXT,
        rtype::DS,
        rtype::CNAME,
        rtype::DNSKEY,
        rtype::SRV,
        rtype::DNAME,
        rtype::ANY,
        rtype::NSEC,
    ];
    let types = if kind == Kind::POWERDNS { &types[..11] } else { &types };
    for denial in ALL {
        let spec = write(lab, "all", zone_for(kind).as_bytes(), "example.", denial);
        let samples = answers(lab, kind, &spec, 1000, types, &[&SMALL[..], &USUAL].concat());
        let result = verify(&CheckSpec::new(&spec.zone.file), samples).unwrap();
        let mut known = BTreeSet::new();
        if kind == Kind::POWERDNS {
            // A wildcard's CNAME, asked for by its type, comes with a SOA.
            known.extend(["authority_extra", "ttl"]);
        }
        if kind == Kind::YADIFA && denial != Denial::Unsigned {
            // Nothing proves that only the wildcard could give a CNAME.
            known.insert("proof");
        }
        if denial == Denial::OptOut && matches!(kind, Kind::NSD | Kind::POWERDNS) {
            // Below an empty non-terminal that the chain passes over they prove nothing; delv says "broken trust chain".
            known.insert("proof");
        }
        assert_eq!(faults(&result), known, "{kind} {denial:?} {result:#?}");
        let most = if kind == Kind::YADIFA { 95 } else { 99 };
        let enough = result.right * 100 > result.checked * most && result.checked * 100 > result.sampled * 95;
        assert!(enough, "{kind} {denial:?} {result:#?}");
        for kind in ["alias", "answer", "nodata", "nxdomain", "referral"] {
            assert!(result.kinds[kind] > 30, "{result:#?}");
        }
        let signed = denial != Denial::Unsigned;
        assert_eq!((result.dnssec > 1000, result.signatures > 40), (signed, signed), "{result:#?}");
        assert!(result.serials.len() == 1 && result.serials[0].changes == 0);
    }
}

/// Right answers are wrong against another zone than the server's, each by the fault that the change makes.
fn another_zone_is_noticed(lab: &Lab, kind: Kind) {
    let types = [rtype::A, rtype::SOA, rtype::TXT, rtype::MX, rtype::DS];
    for denial in [Denial::Unsigned, Denial::Nsec] {
        let spec = write(lab, "one", zone_for(kind).as_bytes(), "example.", denial);
        let samples = answers(lab, kind, &spec, 1000, &types, &USUAL);
        let right = std::fs::read_to_string(&spec.zone.file).unwrap();
        for (from, to, fault) in [
            ("192.0.2.1\n", "192.0.2.111\n", "foreign_record"),
            ("192.0.2.4\n", "192.0.2.44\n", "foreign_record"),
            (" 7 1800", " 8 1800", "old_serial"),
            (" 604800 300\n", " 604800 299\n", "negative_ttl"),
            ("$END", "www.a.example. 3600 IN A 192.0.2.9\n", "rcode"),
            ("$END", "b.w.example. 3600 IN MX 1 a.example.\n", "answer_missing"),
            ("$END", "a.example. 3600 IN A 192.0.2.9\n", "incomplete_rrset"),
            ("$END", "ns.unsigned.example. 3600 IN AAAA 2001:db8::9\n", "glue_incomplete"),
            ("$END", "unsigned.example. 3600 IN DS 1 13 2 abcd\n", "ds_missing"),
            ("$END", "secure.example. 3600 IN NS b.w.example.\n", "incomplete_rrset"),
            ("$END", "x.d.example. 3600 IN NS a.example.\n", ""),
        ] {
            let other = lab.dir.path().join("other.zone");
            let changed = match from {
                "$END" => format!("{right}{to}"),
                _ => right.replace(from, to),
            };
            assert_ne!(changed, right, "{from}");
            std::fs::write(&other, changed).unwrap();
            let result = verify(&CheckSpec::new(&other), samples.clone()).unwrap();
            // What has DNSSEC only is no fault of an unsigned zone; what a DNAME hides is none at all.
            let seen = fault != "ds_missing" || denial == Denial::Nsec;
            let found = fault.is_empty() || !seen || result.wrong.contains_key(fault);
            assert!(found, "{kind} {denial:?} {to} {fault}: {result:#?}");
            let faulty = matches!(kind, Kind::POWERDNS | Kind::YADIFA);
            assert!(!fault.is_empty() || result.is_right() || faulty, "{result:#?}");
        }
    }
}

fn families_are_right(lab: &Lab, kind: Kind) {
    for (family, denial) in [
        (Family::U4Ds0, Denial::Unsigned),
        (Family::S6Ds10, Denial::Nsec),
        (Family::S6Ds50, Denial::Nsec3),
        (Family::Com, Denial::OptOut),
        (Family::Root, Denial::Nsec),
        (Family::Nominet, Denial::Nsec),
    ] {
        let mut text = Vec::new();
        zone::generate(family, 400, measure::Seed(1), &mut text, &mut |_| {}).unwrap();
        let mut scanner = Scanner::new(Cursor::new(text.clone()), "family");
        scanner.next().unwrap();
        let origin = Name::from_wire(scanner.apex().unwrap()).unwrap().to_string();
        let spec = write(lab, &family.to_string(), &text, &origin, denial);
        right_but_for_glue(lab, kind, &spec, &[rtype::A, rtype::NS, rtype::DS, rtype::MX]);
    }
}

fn the_real_root_is_right(lab: &Lab, kind: Kind) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/root-zone");
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let Some(packed) = files.filter(|p| p.extension().is_some_and(|e| e == "xz")).max() else {
        return eprintln!("SKIPPED: no real root zone in {}", folder.display());
    };
    let text = match Command::new("xz").arg("-dc").arg(&packed).output() {
        Ok(output) if output.status.success() => output.stdout,
        other => return eprintln!("SKIPPED: xz cannot unpack the root zone: {other:?}"),
    };
    for denial in [Denial::Unsigned, Denial::Nsec] {
        let spec = write(lab, "root", &text, ".", denial);
        if kind == Kind::YADIFA {
            let mut server = lab.start(&ServerSpec { kind, ..spec.clone() }).unwrap();
            let error = server.ready(&zone::probe(&spec.zone.file).unwrap(), TIMEOUT).unwrap_err();
            assert!(matches!(*error.problem, Problem::Refused { .. }), "{error}");
            assert!(error.to_string().contains("ZONEMD"), "{error}");
            return;
        }
        right_but_for_glue(lab, kind, &spec, &[rtype::A, rtype::DS]);
    }
}

/// All is right, but where an answer of 512 octets has no room for the glue: there BIND 9.18, NSD 4.6 and YADIFA
/// 2.6 leave some out without setting TC, against RFC 9471.
fn right_but_for_glue(lab: &Lab, kind: Kind, spec: &ServerSpec, types: &[u16]) {
    let check = |ways: &[Way]| {
        let samples = answers(lab, kind, spec, 200, types, ways);
        verify(&CheckSpec::new(&spec.zone.file), samples).unwrap()
    };
    let small = check(&SMALL);
    let old = matches!(kind, Kind::BIND | Kind::NSD | Kind::YADIFA);
    let known = BTreeSet::from(["glue_incomplete", "glue_missing"]);
    assert!(
        faults(&small).is_empty() || old && faults(&small).is_subset(&known),
        "{kind} {spec:?} {small:#?}"
    );
    let usual = check(&USUAL);
    assert!(usual.is_right(), "{kind} {spec:?} {usual:#?}");
    assert!(usual.unchecked.is_empty() && usual.checked > 400);
    assert_eq!(usual.dnssec, if spec.zone.signed { usual.checked } else { 0 });
}
