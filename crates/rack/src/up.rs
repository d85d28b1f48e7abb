//! Making a rack on this machine: hosts, each in a network namespace of its own, and what joins them: a cable between
//! two hosts, a switch between any other number of them.

use crate::link::{self, End, FIRST, Mac};
use crate::spec::SWITCH;
use crate::steering::{self, Steering};
use crate::{Error, Host, RackSpec};
use std::fs;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The name of a host's device.
pub const DEVICE: &str = "eth0";

/// Hosts joined by a cable or a switch. Nothing of it is pinned: it is gone when this is dropped (and the clones of its
/// hosts, and the processes on them), or when the process ends, however it ends.
#[derive(Debug)]
pub struct Rack {
    hosts: Vec<Host>,
    steering: Vec<Steering>,
    /// Held so that the bridge stays; none where there is a cable.
    switch: Option<OwnedFd>,
}

impl Rack {
    /// Makes the hosts and what joins them. Needs the privilege to make network namespaces: call
    /// [`crate::confine()`] at the start of the program, or be root. On an error nothing is left.
    pub fn up(spec: &RackSpec) -> Result<Self, Error> {
        spec.check()?;
        let mut hosts = Vec::with_capacity(spec.hosts.len());
        for (index, wanted) in spec.hosts.iter().enumerate() {
            let (v4, v6) = spec.addresses(index)?;
            let netns = namespace(&format!("host {}", wanted.name), &HOST_SYSCTLS)?;
            let host = Host {
                name: wanted.name.clone(),
                v4,
                v6,
                extra_addrs: wanted.extra_addrs.clone(),
                cpus: wanted.cpus.clone(),
                netns: Some(Arc::new(netns)),
            };
            crate::process::check_cpus("the receive path", &host, &host.cpus)?;
            hosts.push(host);
        }
        let ends: Vec<End<'_>> = hosts.iter().enumerate().map(|(index, host)| end(host, index)).collect();
        let switch = match &ends[..] {
            [one, other] => {
                link::add_link(one, other, spec.mtu)?;
                None
            }
            ends => Some(switch(&hosts, ends, spec.mtu)?),
        };
        let addresses: Vec<Vec<IpAddr>> = hosts.iter().map(Host::addresses).collect();
        for (index, host) in hosts.iter().enumerate() {
            let own: Vec<(IpAddr, u8)> = addresses[index].iter().map(|&a| (a, spec.prefix(a))).collect();
            let others: Vec<(IpAddr, Mac)> = (0..hosts.len())
                .filter(|&other| other != index)
                .flat_map(|other| addresses[other].iter().map(move |&a| (a, mac(0, other))))
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
        drop(ends);
        let steering: Vec<_> = hosts.iter().map(|host| steering::steer(host, DEVICE)).collect();
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
        Ok(Self { hosts, steering, switch })
    }

    /// The host of this name.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name == name)
    }

    /// All hosts, in the order of the specification.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// What was done so that each host receives on its own CPUs.
    pub fn steering(&self) -> &[Steering] {
        &self.steering
    }

    /// Whether a switch joins the hosts, and not a cable.
    pub fn has_switch(&self) -> bool {
        self.switch.is_some()
    }

    /// Every namespace of the rack with the name of what is in it, the switch last.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = (&str, BorrowedFd<'_>)> {
        let hosts = self.hosts.iter().filter_map(|h| Some((h.name.as_str(), h.netns.as_ref()?.as_fd())));
        hosts.chain(self.switch.iter().map(|switch| (SWITCH, switch.as_fd())))
    }
}

/// A host's end of its link.
fn end(host: &Host, index: usize) -> End<'_> {
    let netns = host.netns.as_ref().expect("hosts of a rack have one");
    End { namespace: netns.as_fd(), device: DEVICE, index: FIRST, mac: mac(0, index) }
}

/// Makes a switch and a link to each host.
fn switch(hosts: &[Host], ends: &[End<'_>], mtu: u32) -> Result<OwnedFd, Error> {
    let switch = namespace("the switch", &["net/ipv6/conf/default/disable_ipv6=1"])?;
    no_bridge_filter(switch.as_fd())?;
    link::add_switch(switch.as_fd(), SWITCH, mtu)?;
    for (index, (host, end)) in hosts.iter().zip(ends).enumerate() {
        let port = End {
            namespace: switch.as_fd(),
            device: &host.name,
            index: FIRST + 1 + index as u32,
            mac: mac(1, index),
        };
        link::add_link(&port, end, mtu)?;
        link::plug_in(&port, end.mac)?;
    }
    Ok(switch)
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

/// Locally administered addresses, the same in every rack.
fn mac(end: u8, index: usize) -> Mac {
    let [.., high, low] = (index as u32).to_be_bytes();
    [0x02, 0x53, 0x00, end, high, low]
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

/// A new network namespace with these settings, made before it has devices, so that they inherit them.
fn namespace(what: &str, sysctls: &[&str]) -> Result<OwnedFd, Error> {
    let failed = |doing: &str, e: io::Error| Error::Link {
        doing: format!("{what}: {doing}"),
        hint: crate::confine::hint(&e),
        message: e.to_string(),
    };
    let fd = net::ns::new_net_namespace().map_err(|e| failed("make a network namespace", e))?;
    for setting in sysctls {
        let (key, value) = setting.split_once('=').expect("a constant with '='");
        net::ns::in_net_namespace(fd.as_fd(), || fs::write(format!("/proc/sys/{key}"), value))
            .flatten()
            .map_err(|e| failed(&format!("sysctl {key}"), e))?;
    }
    Ok(fd)
}
