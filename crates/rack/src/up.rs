//! Making a rack on this machine: hosts, each in a network namespace of its own, and what joins them: a cable between
//! two hosts, a switch between any other number of them and where there are paths.

use crate::host::DEVICE;
use crate::link::{self, End, FIRST, Mac, mac};
use crate::path::{Direction, Emulation, PathSpec, Plan, directions};
use crate::spec::{ROUTER, SWITCH};
use crate::steering::{self, Steering};
use crate::{Error, Host, RackSpec};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Hosts joined by a cable or a switch. Nothing of it is pinned: it is gone when this is dropped (and the clones of its
/// hosts, and the processes on them), or when the process ends, however it ends.
#[derive(Debug)]
pub struct Rack {
    hosts: Vec<Host>,
    steering: Vec<Steering>,
    /// Held so that the bridge stays; none where there is a cable.
    switch: Option<Arc<OwnedFd>>,
    routed: Option<Routed>,
}

/// The router of a rack with paths.
#[derive(Debug)]
struct Routed {
    router: Host,
    plan: Plan,
    emulation: Emulation,
}

impl Rack {
    /// Makes the hosts and what joins them. Needs the privilege to make network namespaces: call
    /// [`crate::confine()`] at the start of the program, or be root. On an error nothing is left.
    ///
    /// Paths are closed until [`crate::Paths::start`] opens them: nothing passes between the hosts that they join.
    pub fn up(spec: &RackSpec) -> Result<Self, Error> {
        spec.check()?;
        let directions = spec.directions()?;
        // Where there is one direction there is the other one.
        let on_path: BTreeSet<usize> = directions.iter().map(|d| d.from).collect();
        let mut hosts = Vec::with_capacity(spec.hosts.len());
        for (index, wanted) in spec.hosts.iter().enumerate() {
            let (v4, v6) = spec.addresses(index)?;
            let mut sysctls = HOST_SYSCTLS.to_vec();
            if on_path.contains(&index) {
                sysctls.push(NO_MEMORY);
            }
            let netns = namespace(&format!("host {}", wanted.name), &sysctls)?;
            let host = Host {
                name: wanted.name.clone(),
                v4,
                v6,
                extra_addrs: wanted.extra_addrs.clone(),
                cpus: wanted.cpus.clone(),
                device: DEVICE.into(),
                netns: Some(Arc::new(netns)),
            };
            crate::process::check_cpus("the receive path", &host, &host.cpus)?;
            hosts.push(host);
        }
        let ends: Vec<End<'_>> = hosts.iter().enumerate().map(|(index, host)| end(host, index)).collect();
        let switch = match &ends[..] {
            [one, other] if on_path.is_empty() => {
                link::add_link(one, other, spec.mtu)?;
                None
            }
            ends => Some(Arc::new(switch(&hosts, ends, spec.mtu)?)),
        };
        let addresses: Vec<Vec<IpAddr>> = hosts.iter().map(Host::addresses).collect();
        for (index, host) in hosts.iter().enumerate() {
            let own: Vec<(IpAddr, u8)> = addresses[index].iter().map(|&a| (a, spec.prefix(a))).collect();
            let others: Vec<(IpAddr, Mac)> = (0..hosts.len())
                .filter(|&other| other != index)
                .flat_map(|other| addresses[other].iter().map(move |&a| (a, mac(End::HOST, other))))
                .collect();
            link::configure(&ends[index], &host.name, &own, &others)?;
        }
        let until = Instant::now() + READY;
        for host in &hosts {
            for address in host.addresses().into_iter().filter(IpAddr::is_ipv6) {
                bind(host, address, until)?;
            }
        }
        for host in hosts.iter().skip(1) {
            meet(&hosts[0], host)?;
        }
        let routed = match &switch {
            Some(switch) if !on_path.is_empty() => {
                Some(route(spec, &hosts, &ends, &directions, &on_path, switch)?)
            }
            _ => None,
        };
        drop(ends);
        let whole = |index: usize| spec.whole_frames || on_path.contains(&index);
        for (_, host) in hosts.iter().enumerate().filter(|(index, _)| whole(*index)) {
            host.run_in(whole_frames)?.map_err(|e| host.error("turn its segmentation off", e))?;
        }
        let steer = |(index, host): (usize, &Host)| steering::steer(host, DEVICE, whole(index));
        let steering: Vec<_> = hosts.iter().enumerate().map(steer).collect();
        let threads = steering.iter().any(|s: &Steering| s.method == steering::Method::ThreadedNapi);
        if let (Some(switch), true) = (&switch, threads) {
            // A port, too, must not hand segments to a host that is to receive by NAPI.
            let ports = || hosts.iter().try_for_each(|h| net::link::set_segmentation(&h.name, false));
            net::ns::in_net_namespace(switch.as_fd(), ports).flatten().map_err(|source| Error::Host {
                host: SWITCH.into(),
                doing: "turn segmentation off".into(),
                source,
            })?;
        }
        Ok(Self { hosts, steering, switch, routed })
    }

    /// The host of this name.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name == name)
    }

    /// All hosts, in the order of the specification.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// How each host was made to receive on its own CPUs.
    pub fn steering(&self) -> &[Steering] {
        &self.steering
    }

    /// Has a host receive on other CPUs of its own than it had at first, where its packets are steered (RPS).
    ///
    /// # Errors
    /// [`Error::Host`] where that cannot be set.
    pub fn steer(&self, host: &Host) -> Result<(), Error> {
        let is_steered = |s: &Steering| s.host == host.name && s.method == steering::Method::Rps;
        if self.steering.iter().any(is_steered)
            && steering::steer(host, DEVICE, true).method != steering::Method::Rps
        {
            return Err(host.error("steer what it receives", std::io::Error::other("RPS was refused")));
        }
        Ok(())
    }

    /// Whether a switch joins the hosts, and not a cable.
    pub fn has_switch(&self) -> bool {
        self.switch.is_some()
    }

    /// The router, in a rack with paths: a host without addresses, where the switch is. Its ports have the names of the
    /// hosts behind them: [`crate::Capture::start_on`].
    pub fn router(&self) -> Option<&Host> {
        self.routed.as_ref().map(|routed| &routed.router)
    }

    /// How the paths are made; none: there are no paths.
    pub fn emulation(&self) -> Option<&Emulation> {
        self.routed.as_ref().map(|routed| &routed.emulation)
    }

    /// The emulator's orders for these paths, which must join the same hosts as the specification's.
    ///
    /// # Errors
    /// [`Error::Spec`] where they do not, or cannot be.
    pub fn plan(&self, paths: &[PathSpec]) -> Result<Plan, Error> {
        let wrong = |text: String| Err(Error::Spec(text));
        let Some(routed) = &self.routed else { return wrong("the rack has no paths".into()) };
        let names: Vec<&str> = routed.plan.hosts.iter().map(String::as_str).collect();
        let joined = |paths: &[PathSpec]| -> Result<Vec<(usize, usize)>, Error> {
            Ok(directions(&names, paths)?.iter().map(|d| (d.from, d.to)).collect())
        };
        let (ours, wanted) = (joined(&routed.plan.paths)?, joined(paths)?);
        let differ = ours.iter().find(|pair| !wanted.contains(pair));
        if let Some((a, b)) = differ.or_else(|| wanted.iter().find(|pair| !ours.contains(pair))) {
            return wrong(format!(
                "paths: {} and {} are joined in the rack or by these paths, but not in both; make another rack",
                names[*a], names[*b]
            ));
        }
        Ok(Plan { paths: paths.to_vec(), ..routed.plan.clone() })
    }

    /// Every namespace of the rack with the name of what is in it, the switch's last.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = (&str, BorrowedFd<'_>)> {
        let hosts = self.hosts.iter().filter_map(|h| Some((h.name.as_str(), h.netns.as_ref()?.as_fd())));
        let name = if self.routed.is_some() { ROUTER } else { SWITCH };
        hosts.chain(self.switch.iter().map(move |switch| (name, switch.as_fd())))
    }
}

/// A host's end of its link.
fn end(host: &Host, index: usize) -> End<'_> {
    let netns = host.netns.as_ref().expect("hosts of a rack have one");
    End { namespace: netns.as_fd(), device: DEVICE, index: FIRST, mac: mac(End::HOST, index) }
}

/// Makes a switch and a link to each host.
fn switch(hosts: &[Host], ends: &[End<'_>], mtu: u32) -> Result<OwnedFd, Error> {
    let switch = namespace("the switch", &["net/ipv6/conf/default/disable_ipv6=1", "net/ipv4/ip_forward=0"])?;
    no_bridge_filter(switch.as_fd())?;
    link::add_switch(switch.as_fd(), SWITCH, mtu)?;
    for (index, (host, end)) in hosts.iter().zip(ends).enumerate() {
        let port = End {
            namespace: switch.as_fd(),
            device: &host.name,
            index: FIRST + 1 + index as u32,
            mac: mac(End::PORT, index),
        };
        link::add_link(&port, end, mtu)?;
        link::plug_in(&port, end.mac)?;
    }
    Ok(switch)
}

/// Leads paths through the router, and has their hosts send frames as they would go over a cable.
fn route(
    spec: &RackSpec,
    hosts: &[Host],
    ends: &[End<'_>],
    directions: &[Direction],
    on_path: &BTreeSet<usize>,
    switch: &Arc<OwnedFd>,
) -> Result<Routed, Error> {
    let given = spec.router.clone().unwrap_or_default();
    let router = Host {
        name: ROUTER.into(),
        v4: Ipv4Addr::UNSPECIFIED,
        v6: Ipv6Addr::UNSPECIFIED,
        extra_addrs: Vec::new(),
        cpus: given.cpus,
        device: SWITCH.into(),
        netns: Some(switch.clone()),
    };
    crate::process::check_cpus("the path emulator", &router, &router.cpus)?;
    let addresses: Vec<Mac> = on_path.iter().map(|&index| mac(End::PATH, index)).collect();
    link::keep_at_switch(switch.as_fd(), &addresses)?;
    for &index in on_path {
        let (host, end) = (&hosts[index], &ends[index]);
        let peers = directions.iter().filter(|d| d.from == index).map(|d| d.to);
        let neighbours: Vec<(IpAddr, Mac)> = peers
            .flat_map(|to| hosts[to].addresses().into_iter().map(move |a| (a, mac(End::PATH, to))))
            .collect();
        link::meet_at(end, &host.name, &neighbours)?;
        let subnets = [(spec.subnet, IpAddr::V4(host.v4)), (spec.subnet6, host.v6.into())]
            .map(|(subnet, own)| (subnet.network, subnet.prefix, own));
        link::pin_congestion_control(end, &host.name, subnets, &given.congestion_control)?;
        host.run_in(|| net::link::set_transmit_checksums(DEVICE, false))?
            .map_err(|e| host.error("turn its checksum offload off", e))?;
    }
    let emulation = Emulation {
        method: "user space".into(),
        netem: match crate::environment::try_qdisc("netem") {
            Ok(_) => "present, not used".into(),
            Err(e) => format!("absent: {e}"),
        },
        congestion_control: given.congestion_control,
        off: ["tx-checksumming", "tso", "gso", "gro"].map(String::from).to_vec(),
        hosts: on_path.iter().map(|&index| hosts[index].name.clone()).collect(),
    };
    Ok(Routed { router, plan: Plan::of(spec), emulation })
}

/// Packets leave a host no longer than the MTU says, and nothing that arrives is put together: nobody behind the router would cut it
/// up, and a capture has the frames of a cable.
fn whole_frames() -> io::Result<()> {
    net::link::set_segmentation(DEVICE, false)?;
    net::link::set_generic_segmentation(DEVICE, false)?;
    net::link::set_receive_offload(DEVICE, false)
}

/// How long we wait for links that should be ready at once.
const READY: Duration = Duration::from_secs(10);

/// Waits until the hosts reach each other. The kernel opens a new port of a bridge only when its link watch comes
/// round, which takes up to a second; and IPv6 addresses, too, can be bound a moment after they were added, even
/// without duplicate address detection.
fn meet(a: &Host, b: &Host) -> Result<(), Error> {
    let until = Instant::now() + READY;
    let pairs = [(IpAddr::V4(a.v4), IpAddr::V4(b.v4)), (a.v6.into(), b.v6.into())];
    for (from, to) in pairs {
        let (here, there) = (bind(a, from, until)?, bind(b, to, until)?);
        pass(a, &here, b, &there, until)?;
        pass(b, &there, a, &here, until)?;
    }
    Ok(())
}

fn bind(host: &Host, address: IpAddr, until: Instant) -> Result<UdpSocket, Error> {
    loop {
        match host.udp_socket((address, 0).into()) {
            Err(Error::Host { source, .. })
                if source.kind() == io::ErrorKind::AddrNotAvailable && Instant::now() < until =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

/// Sends datagrams until one arrives.
fn pass(a: &Host, from: &UdpSocket, b: &Host, to: &UdpSocket, until: Instant) -> Result<(), Error> {
    let failed = |e| b.error(&format!("receive a first datagram from host {}", a.name), e);
    let target = to.local_addr().map_err(failed)?;
    to.set_read_timeout(Some(Duration::from_millis(10))).map_err(failed)?;
    loop {
        // Refused (no carrier yet) is as good as lost: what counts is that it arrives.
        let _ = from.send_to(b"dnsrack", target);
        match to.recv_from(&mut [0; 16]) {
            Ok(_) => return Ok(()),
            Err(e) if Instant::now() > until => return Err(failed(e)),
            Err(_) => (),
        }
    }
}

/// No duplicate address detection (addresses work at once), no router solicitations or advertisements (no
/// packets but the trial's).
const HOST_SYSCTLS: [&str; 5] = [
    "net/ipv6/conf/default/accept_dad=0",
    "net/ipv6/conf/default/dad_transmits=0",
    "net/ipv6/conf/default/accept_ra=0",
    "net/ipv6/conf/default/router_solicitations=0",
    "net/ipv6/conf/all/accept_dad=0",
];

/// TCP does not begin a connection with what it has learnt from an earlier one over the same path. There is no path where it cannot be set.
const NO_MEMORY: &str = "net/ipv4/tcp_no_metrics_save=1";

/// Where the machine has loaded br_netfilter (container engines do), every packet through a bridge also passes IP's
/// netfilter hooks, a tenth of its cost; a switch does not.
fn no_bridge_filter(switch: BorrowedFd<'_>) -> Result<(), Error> {
    net::ns::in_net_namespace(switch, || {
        for table in ["iptables", "ip6tables", "arptables"] {
            // Absent where the module is not loaded.
            let _ = fs::write(format!("/proc/sys/net/bridge/bridge-nf-call-{table}"), "0");
        }
    })
    .map_err(|source| Error::Host { host: SWITCH.into(), doing: "enter it".into(), source })
}

/// A new network namespace with these settings, made before it has devices, so that they inherit them. In a container /proc/sys may be
/// read-only. Then the few packets are sent that the settings avoid. Our addresses work at once there, too: they are added without
/// duplicate address detection.
fn namespace(what: &str, sysctls: &[&str]) -> Result<OwnedFd, Error> {
    let failed = |doing: &str, e: io::Error| Error::Link {
        doing: format!("{what}: {doing}"),
        hint: crate::error::hint(&e),
        message: e.to_string(),
    };
    let fd = net::ns::new_net_namespace().map_err(|e| failed("make a network namespace", e))?;
    for setting in sysctls {
        let (key, value) = setting.split_once('=').expect("a constant with '='");
        net::ns::in_net_namespace(fd.as_fd(), || fs::write(format!("/proc/sys/{key}"), value))
            .flatten()
            .or_else(|e| match e.kind() {
                io::ErrorKind::ReadOnlyFilesystem if *setting != NO_MEMORY => Ok(()),
                _ => Err(failed(&format!("sysctl {key}"), e)),
            })?;
    }
    Ok(fd)
}
