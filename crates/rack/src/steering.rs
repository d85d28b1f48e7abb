//! Receive steering: which core handles a host's received packets.
//!
//! A packet sent through veth is received, softirq and all, on the *sender's* core unless it is moved: by
//! receive packet steering (RPS, root only), which queues it to the backlog of one of the host's CPUs; or by
//! threaded NAPI (also without root), whose kernel threads the scheduler puts where it likes. Only RPS keeps
//! the work on the host's own cores. A backlog holds `net.core.netdev_max_backlog` packets (1000 unless raised)
//! and drops beyond, which counts as `rx_dropped` of the host's device and in `/proc/net/softnet_stat`.

use crate::Host;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How a host's received packets get to its own CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Receive packet steering to the host's CPUs.
    Rps,
    /// Kernel threads, on any CPU.
    ThreadedNapi,
    /// Not at all: received on the sender's CPU.
    None,
}

impl Method {
    /// Where packets are received, in few words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Rps => "on its CPUs (RPS)",
            Self::ThreadedNapi => "in threads (NAPI)",
            Self::None => "on the sender's CPU",
        }
    }
}

/// The steering of one host, kept with the results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steering {
    /// The host's name.
    pub host: String,
    /// Its CPUs.
    pub cpus: Vec<usize>,
    /// The mechanism that moves its received packets.
    pub method: Method,
    /// Mechanisms that were tried and refused, or why none was tried.
    pub notes: Vec<String>,
}

/// The kernel's text for a set of CPUs: hexadecimal words of 32, highest first.
fn mask(cpus: &[usize]) -> String {
    let words = cpus.iter().max().map_or(1, |cpu| cpu / 32 + 1);
    let mut bits = vec![0u32; words];
    for cpu in cpus {
        bits[cpu / 32] |= 1 << (cpu % 32);
    }
    let text: Vec<String> = bits.iter().rev().map(|word| format!("{word:08x}")).collect();
    text.join(",")
}

/// Steers what `device` of the host receives; `apart`: it must not merge packets, which receiving by NAPI is for. Runs on a thread inside the host, in mounts of its own, since
/// /sys/class/net shows the namespace in which sysfs was mounted.
pub(crate) fn steer(host: &Host, device: &str, apart: bool) -> Steering {
    let cpus = host.cpus.clone();
    let done = |method, notes| Steering { host: host.name.clone(), cpus: host.cpus.clone(), method, notes };
    if cpus.is_empty() {
        return done(Method::None, vec!["the host has no CPUs of its own".into()]);
    }
    let work = || -> (Method, Vec<String>) {
        let mut notes = Vec::new();
        let folder = match own_sysfs(device) {
            Ok(folder) => folder,
            Err(e) => return (Method::None, vec![format!("mount /sys: {e}")]),
        };
        match set_rps(&folder, &mask(&cpus)) {
            Ok(()) => return (Method::Rps, notes),
            Err(e) => notes.push(format!("rps_cpus: {e}")),
        }
        if apart {
            notes.push("no threaded NAPI: it needs GRO, which hosts with whole frames have off".into());
            return (Method::None, notes);
        }
        match net::link::set_receive_offload(device, true)
            .and_then(|()| net::link::set_segmentation(device, false))
            .and_then(|()| fs::write(folder.join("threaded"), "1"))
        {
            Ok(()) => {
                notes.push("the NAPI threads are not pinned: that needs root".into());
                (Method::ThreadedNapi, notes)
            }
            Err(e) => {
                notes.push(format!("threaded NAPI: {e}"));
                (Method::None, notes)
            }
        }
    };
    match host.run_in(work) {
        Ok((method, notes)) => done(method, notes),
        Err(e) => done(Method::None, vec![e.to_string()]),
    }
}

fn own_sysfs(device: &str) -> io::Result<PathBuf> {
    net::ns::unshare(net::ns::Namespaces::MOUNT)?;
    net::ns::make_mounts_private()?;
    net::ns::mount_sysfs()?;
    Ok(Path::new("/sys/class/net").join(device))
}

fn set_rps(folder: &Path, mask: &str) -> io::Result<()> {
    for queue in fs::read_dir(folder.join("queues"))? {
        let queue = queue?;
        if queue.file_name().as_encoded_bytes().starts_with(b"rx-") {
            fs::write(queue.path().join("rps_cpus"), mask)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_words_of_32_highest_first() {
        assert_eq!(mask(&[0]), "00000001");
        assert_eq!(mask(&[1, 3]), "0000000a");
        assert_eq!(mask(&[0, 32, 65]), "00000002,00000001,00000001");
    }
}
