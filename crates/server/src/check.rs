//! Checks before anything is started.

use crate::error::{Error, Problem};
use crate::kind::Kind;
use crate::quote::{quotable, unquotable};
use crate::servers::driver;
use crate::spec::ServerSpec;
use rack::Host;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};

/// Checks what a specification says, without looking outside.
///
/// # Errors
/// [`Problem::Spec`], naming the field.
pub fn spec(spec: &ServerSpec) -> Result<(), Error> {
    let refuse = |field, why: String| Err(Error::new(&spec.label, Problem::Spec { field, why }));
    if spec.kind == Kind::EXTERNAL {
        return match spec.external {
            Some(_) => Ok(()),
            None => refuse("external", "name the ADDRESS:PORT at which the server answers".into()),
        };
    }
    if spec.external.is_some() {
        return refuse("external", format!("an address is for kind external, not {}", spec.kind));
    }
    if spec.workers == 0 {
        return refuse("workers", "a server needs at least 1".into());
    }
    if spec.port == 0 {
        return refuse("port", "0 is no port to serve on: give 1 to 65535".into());
    }
    if spec.udp_size < 512 {
        return refuse("udp_size", format!("{} is less than the 512 octets of RFC 1035", spec.udp_size));
    }
    if let Err(e) = wire::name::Name::parse_text(&spec.zone.origin, None) {
        return refuse("zone.origin", format!("'{}' is no domain name: {e}", spec.zone.origin));
    }
    // Names and paths are put between quotes in five syntaxes that escape differently.
    if unquotable(&spec.zone.origin) || spec.zone.origin.contains(' ') {
        return refuse("zone.origin", format!("'{}' has quotes, escapes or blanks", spec.zone.origin));
    }
    let can = driver(spec.kind).facts().can;
    if let Some(lacking) = can.lacking(spec.zone.signed, false) {
        return refuse("zone", format!("{} {lacking}", spec.kind));
    }
    if let Some(lacking) = can.lacking(false, spec.distribution.is_some()) {
        return refuse("distribution", format!("{} {lacking}", spec.kind));
    }
    distribution(spec)
}

/// Checks what a specification says of changes.
///
/// # Errors
/// [`Problem::Spec`], naming the field.
fn distribution(spec: &ServerSpec) -> Result<(), Error> {
    let Some(part) = &spec.distribution else { return Ok(()) };
    let refuse = |why: String| Err(Error::new(&spec.label, Problem::Spec { field: "distribution", why }));
    let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if part.key.name.is_empty() || !part.key.name.chars().all(named) {
        return refuse(format!("key {}: give it a name of letters, digits, hyphens and dots", part.key.name));
    }
    if let Err(wrong) = part.key.tsig() {
        return refuse(wrong.to_string());
    }
    if part.updates && part.is_secondary() {
        return refuse("a secondary takes no updates: send them to its primary".into());
    }
    if part.keys.is_some() && part.is_secondary() {
        return refuse("a secondary does not sign: its primary does".into());
    }
    let can = driver(spec.kind).facts().can;
    if part.updates && !can.update {
        return refuse(format!("{} takes no updates (RFC 2136) as it is set up here", spec.kind));
    }
    if part.keys.is_some() && !can.signs {
        return refuse(format!("{} does not sign what changes", spec.kind));
    }
    if part.keys.is_some() && !spec.zone.signed {
        return refuse("the zone is not signed: keys are of no use".into());
    }
    if part.updates && spec.zone.signed && part.keys.is_none() && !can.takes_signatures {
        return refuse(format!(
            "{} takes no signatures with updates of a signed zone: give it the zone's keys, so that it signs itself",
            spec.kind
        ));
    }
    if let Some(keys) = &part.keys {
        quotable(&spec.label, "distribution.keys", keys)?;
    }
    Ok(())
}

/// The zone file's absolute path, if it is a file that can be read.
pub(crate) fn zone_file(spec: &ServerSpec) -> Result<PathBuf, Error> {
    let path = &spec.zone.file;
    let problem = |source| Error::new(&spec.label, Problem::Zone { path: path.clone(), source });
    let file = File::open(path).map_err(problem)?;
    if !file.metadata().map_err(problem)?.is_file() {
        return Err(problem(io::Error::other("not a regular file, which every server needs")));
    }
    std::path::absolute(path).map_err(problem)
}

/// Fails where somebody else listens on one of the addresses, or the host does not have it.
pub(crate) fn ports_free(spec: &ServerSpec, host: &Host, listen: &[SocketAddr]) -> Result<(), Error> {
    for &address in listen {
        let tried = host
            .run_in(|| (UdpSocket::bind(address).map(drop), TcpListener::bind(address).map(drop)))
            .map_err(|e| Error::new(&spec.label, Problem::Rack(e)))?;
        for (transport, result) in [("UDP", tried.0), ("TCP", tried.1)] {
            let host = host.name.clone();
            match result {
                Ok(()) => (),
                Err(e) if e.kind() == ErrorKind::AddrInUse => {
                    return Err(Error::new(&spec.label, Problem::PortInUse { transport, address, host }));
                }
                Err(source) => {
                    return Err(Error::new(&spec.label, Problem::Address { address, host, source }));
                }
            }
        }
    }
    Ok(())
}

/// A free TCP address of the host for control: on its loopback, which no other host reaches, where that is up.
pub(crate) fn control_address(spec: &ServerSpec, host: &Host) -> Result<SocketAddr, Error> {
    let free =
        |ip: Ipv4Addr| TcpListener::bind((IpAddr::V4(ip), 0)).and_then(|listener| listener.local_addr());
    let found = host
        .run_in(|| free(Ipv4Addr::LOCALHOST).or_else(|_| free(host.v4)))
        .map_err(|e| Error::new(&spec.label, Problem::Rack(e)))?;
    found.map_err(|source| {
        let address = SocketAddr::new(host.v4.into(), 0);
        Error::new(&spec.label, Problem::Address { address, host: host.name.clone(), source })
    })
}

/// The server's folder: made if it is not there, refused if it holds anything; absolute.
pub(crate) fn folder(spec: &ServerSpec, dir: &Path) -> Result<PathBuf, Error> {
    let failed = |source| Error::file(&spec.label, "use the folder", dir, source);
    fs::create_dir_all(dir).map_err(failed)?;
    if fs::read_dir(dir).map_err(failed)?.next().is_some() {
        return Err(Error::new(&spec.label, Problem::DirectoryNotEmpty(dir.into())));
    }
    dir.canonicalize().map_err(failed)
}

/// Whether AppArmor would confine this program to the distribution's folders (Debian ships such a profile for
/// `named`), so that it could not read a configuration of ours. Profiles go by path.
pub(crate) fn confined(program: &Path, root: &Path) -> bool {
    let enabled = fs::read_to_string(root.join("sys/module/apparmor/parameters/enabled"))
        .is_ok_and(|text| text.starts_with('Y'));
    let program = program.canonicalize().unwrap_or_else(|_| program.into());
    let profile = program.to_string_lossy().trim_start_matches('/').replace('/', ".");
    enabled
        && root.join("etc/apparmor.d").join(&profile).exists()
        && !root.join("etc/apparmor.d/disable").join(&profile).exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ZoneRef;

    #[test]
    fn what_is_wrong_is_named() {
        let field = |wrong: &ServerSpec| match *super::spec(wrong).unwrap_err().problem {
            Problem::Spec { field, .. } => field,
            other => panic!("{other:?}"),
        };
        assert!(super::spec(&of(Kind::BIND)).is_ok());
        assert_eq!(field(&of(Kind::EXTERNAL)), "external");
        assert_eq!(field(&ServerSpec { workers: 0, ..of(Kind::NSD) }), "workers");
        assert_eq!(field(&ServerSpec { port: 0, ..of(Kind::NSD) }), "port");
        assert_eq!(field(&ServerSpec { udp_size: 100, ..of(Kind::NSD) }), "udp_size");
        assert_eq!(
            field(&ServerSpec { external: Some(([127, 0, 0, 1], 53).into()), ..of(Kind::NSD) }),
            "external"
        );
        for origin in ["a\"b.", "a..b", "a b.", ".\n"] {
            let mut spec = of(Kind::KNOT);
            spec.zone.origin = origin.into();
            assert_eq!(field(&spec), "zone.origin", "{origin:?}");
        }
    }

    fn nsd() -> ServerSpec {
        of(Kind::NSD)
    }

    fn of(kind: Kind) -> ServerSpec {
        ServerSpec::new(kind, ZoneRef { origin: ".".into(), file: "/".into(), signed: false })
    }

    #[test]
    fn a_folder_is_no_zone_file_and_must_be_fresh() {
        let error = zone_file(&nsd()).unwrap_err().to_string();
        assert!(error.starts_with("server 'nsd': cannot read the zone file /:"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let fresh = dir.path().join("a/b");
        assert_eq!(folder(&nsd(), &fresh).unwrap(), fresh.canonicalize().unwrap());
        fs::write(fresh.join("old"), "").unwrap();
        assert!(matches!(*folder(&nsd(), &fresh).unwrap_err().problem, Problem::DirectoryNotEmpty(_)));
    }

    #[test]
    fn foreign_addresses_are_told_from_occupied_ones() {
        let host = Host::loopback();
        // A port that no TCP connection of before still has.
        let both = || {
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            TcpListener::bind(udp.local_addr().unwrap()).is_ok().then_some(udp)
        };
        let udp = (0..1000).find_map(|_| both()).expect("a port that is free");
        let taken = udp.local_addr().unwrap();
        let problem = |address| *ports_free(&nsd(), &host, &[address]).unwrap_err().problem;
        assert!(
            matches!(problem(taken), Problem::PortInUse { transport: "UDP", address, .. } if address == taken)
        );
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(matches!(problem(tcp.local_addr().unwrap()), Problem::PortInUse { transport: "TCP", .. }));
        assert!(matches!(problem("192.0.2.1:5300".parse().unwrap()), Problem::Address { .. }));
        drop(udp);
        assert!(ports_free(&nsd(), &host, &[taken]).is_ok());
        assert!(control_address(&nsd(), &host).unwrap().ip().is_loopback());
    }

    #[test]
    fn confinement_goes_by_path_and_can_be_disabled() {
        let root = tempfile::tempdir().unwrap();
        let make = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let named = Path::new("/nowhere/sbin/named");
        make("etc/apparmor.d/nowhere.sbin.named", "");
        assert!(!confined(named, root.path()));
        make("sys/module/apparmor/parameters/enabled", "Y\n");
        assert!(confined(named, root.path()));
        assert!(!confined(Path::new("/nowhere/sbin/nsd"), root.path()));
        make("etc/apparmor.d/disable/nowhere.sbin.named", "");
        assert!(!confined(named, root.path()));
    }
}
