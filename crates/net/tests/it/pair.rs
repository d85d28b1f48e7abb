//! Two hosts and a cable.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;

/// Two network namespaces joined by a veth pair: 10.0.0.1 and fd00::1 here, 10.0.0.2 and fd00::2 there. Gone on drop.
pub struct Pair {
    pub here: OwnedFd,
    pub there: OwnedFd,
}

fn ip(args: &str) {
    let done = Command::new("ip").args(args.split_whitespace()).output().expect("ip(8) is installed");
    assert!(done.status.success(), "ip {args}: {}", String::from_utf8_lossy(&done.stderr));
}

impl Pair {
    /// `None` (and a word about it) where this cannot be done.
    pub fn new() -> Option<Self> {
        Self::with_queues(1)
    }

    /// The same with so many queues in each direction of both interfaces.
    pub fn with_queues(queues: u32) -> Option<Self> {
        if std::fs::metadata("/proc/self").map_or(true, |m| std::os::unix::fs::MetadataExt::uid(&m) != 0) {
            eprintln!("SKIPPED: AF_XDP needs root");
            return None;
        }
        let Ok(here) = net::ns::new_net_namespace() else {
            eprintln!("SKIPPED: no privilege to make a network namespace");
            return None;
        };
        let there = net::ns::new_net_namespace().unwrap();
        let quiet = || {
            for key in ["default/accept_dad", "default/router_solicitations", "all/accept_dad"] {
                std::fs::write(format!("/proc/sys/net/ipv6/conf/{key}"), "0").unwrap();
            }
            ip("link set lo up");
        };
        let peer = format!("/proc/{}/fd/{}", std::process::id(), there.as_raw_fd());
        let pair = Self { here, there };
        pair.here(|| {
            quiet();
            let of = format!("numtxqueues {queues} numrxqueues {queues}");
            ip(&format!("link add eth0 {of} type veth peer name eth1 {of}"));
            ip(&format!("link set eth1 netns {peer}"));
            ip("addr add 10.0.0.1/24 dev eth0");
            ip("addr add fd00::1/64 dev eth0 nodad");
        });
        pair.there(|| {
            quiet();
            ip("addr add 10.0.0.2/24 dev eth1");
            ip("addr add fd00::2/64 dev eth1 nodad");
            ip("link set eth1 up");
        });
        pair.here(|| ip("link set eth0 up"));
        Some(pair)
    }

    pub fn here<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        net::ns::in_net_namespace(self.here.as_fd(), f).unwrap()
    }

    pub fn there<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        net::ns::in_net_namespace(self.there.as_fd(), f).unwrap()
    }
}

pub fn ip_here(pair: &Pair, args: &str) {
    pair.here(|| ip(args));
}
