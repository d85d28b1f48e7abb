//! What an interface is: its driver, speed, queues, rings, offloads, and which cores take its interrupts.

use crate::link::{self, ethtool_numbers};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// An interface of the network namespace that we are in, as its driver and the kernel tell; none where they do not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The kernel's name of its driver.
    pub driver: Option<String>,
    /// The largest packet, in bytes, without the Ethernet header.
    pub mtu: Option<u32>,
    /// Mbit/s.
    pub speed: Option<u32>,
    /// Queues that it receives on.
    pub receive_queues: Option<u32>,
    /// Packets that its receive and send rings hold.
    pub rings: Option<(u32, u32)>,
    /// Whether each offload is on.
    pub offloads: BTreeMap<String, bool>,
    /// The cores that may take each of its interrupts, by the number of the interrupt.
    pub interrupts: BTreeMap<u32, String>,
}

/// Offloads by their names in `ethtool -k`, with the command that asks for each.
const OFFLOADS: [(&str, u32); 5] =
    [("rx-checksumming", 0x14), ("tx-checksumming", 0x16), ("tso", 0x1e), ("gso", 0x23), ("gro", 0x2b)];

impl Interface {
    /// Describes the interface of this name.
    pub fn of(name: &str) -> Self {
        let offload = |&(offload, command): &(&str, u32)| {
            let [_, on] = ethtool_numbers(name, [command, 0]).ok()?;
            Some((offload.to_owned(), on != 0))
        };
        Self {
            name: name.into(),
            driver: link::driver(name).ok().filter(|driver| !driver.is_empty()),
            mtu: link::mtu(name).ok(),
            speed: speed(name),
            receive_queues: link::receive_queues(name).ok(),
            rings: rings(name),
            offloads: OFFLOADS.iter().filter_map(offload).collect(),
            interrupts: interrupts(name),
        }
    }
}

/// `struct ethtool_ringparam`: command, then the most, then the present length of the receive, mini, jumbo and send rings.
fn rings(name: &str) -> Option<(u32, u32)> {
    const GRINGPARAM: u32 = 0x10;
    let rings = ethtool_numbers(name, [GRINGPARAM, 0, 0, 0, 0, 0, 0, 0, 0]).ok()?;
    Some((rings[5], rings[8]))
}

/// `struct ethtool_cmd`: the lower half of the speed is in the fourth number, the upper half in the eighth.
fn speed(name: &str) -> Option<u32> {
    const GSET: u32 = 1;
    let cmd = ethtool_numbers(name, [GSET, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).ok()?;
    let speed = cmd[3] & 0xffff | cmd[7] << 16;
    // Without a cable it is -1 or 0.
    Some(speed).filter(|speed| *speed > 0 && *speed < 0xffff_ffff && *speed != 0xffff)
}

fn interrupts(name: &str) -> BTreeMap<u32, String> {
    let folder = Path::new("/sys/class/net").join(name);
    // /sys may be that of another network namespace.
    let index = fs::read_to_string(folder.join("ifindex")).ok().and_then(|text| text.trim().parse().ok());
    if index.is_none() || index != link::index(name).ok() {
        return BTreeMap::new();
    }
    let numbers = fs::read_dir(folder.join("device/msi_irqs")).into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let cores = |number: u32| {
        let cores = fs::read_to_string(format!("/proc/irq/{number}/smp_affinity_list")).ok()?;
        Some((number, cores.trim().to_owned()))
    };
    numbers.filter_map(cores).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_described() {
        let lo = Interface::of("lo");
        assert!(lo.mtu.is_some_and(|mtu| mtu >= 1280), "{lo:?}");
        assert!(lo.offloads.contains_key("gso"), "{lo:?}");
        assert_eq!(Interface::of("no-such").offloads, BTreeMap::new());
    }
}
