//! Flows as numbers: 100,000 of them take 8 octets each, and one hash table finds them by what they receive.

use super::XdpError;
use super::packet::Template;
use crate::route::{self, Path};
use crate::udp::Flow;
use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// One flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The number of its template.
    pub template: u32,
    /// Its source port.
    pub port: u16,
}

/// All flows, with the headers of their packets.
#[derive(Debug)]
pub(super) struct Table {
    pub templates: Vec<Template>,
    pub rows: Vec<Row>,
    /// Flow numbers plus one by their source address and port; 0 is a free place.
    places: Vec<u32>,
}

fn hash(ip: IpAddr, port: u16) -> u64 {
    let bits = match ip {
        IpAddr::V4(ip) => u64::from(ip.to_bits()),
        IpAddr::V6(ip) => (ip.to_bits() >> 64) as u64 ^ (ip.to_bits() as u64).rotate_left(7),
    };
    (bits ^ u64::from(port) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Table {
    /// Settles the source addresses and ports of all flows; `path` tells the way to a target.
    pub fn new(
        flows: &[Flow],
        ports: Range<u16>,
        busy: &HashSet<u16>,
        path: &mut dyn FnMut(IpAddr) -> Result<Path, XdpError>,
    ) -> Result<(Self, Path), XdpError> {
        let Some(first) = flows.first() else { return Err(XdpError::NoFlows) };
        let way = path(first.target.ip())?;
        let mut templates = Vec::new();
        let mut numbers = BTreeMap::new();
        let mut rows = Vec::with_capacity(flows.len());
        for flow in flows {
            let key = (flow.source.ip(), flow.target);
            let template = match numbers.get(&key) {
                Some(&number) => number,
                None => {
                    let to = path(flow.target.ip())?;
                    if to.index != way.index {
                        return Err(XdpError::Interfaces(way.interface, to.interface));
                    }
                    let source = if key.0.is_unspecified() { to.source } else { key.0 };
                    if source.is_ipv4() != flow.target.is_ipv4() {
                        return Err(XdpError::Families(source, flow.target));
                    }
                    let number = templates.len() as u32;
                    templates.push(Template::new(to.mac, to.next_mac, source, flow.target));
                    numbers.insert(key, number);
                    number
                }
            };
            rows.push(Row { template, port: flow.source.port() });
        }
        let size = (rows.len() * 2).next_power_of_two();
        let mut table = Self { templates, rows, places: vec![0; size] };
        for flow in 0..table.rows.len() {
            if table.rows[flow].port != 0 && !table.insert(flow) {
                return Err(XdpError::Twice(table.source(flow as u32)));
            }
        }
        table.choose(ports, busy)?;
        Ok((table, way))
    }

    /// Gives a port to each flow that has none.
    fn choose(&mut self, ports: Range<u16>, busy: &HashSet<u16>) -> Result<(), XdpError> {
        let mut next = BTreeMap::<IpAddr, u16>::new();
        for flow in 0..self.rows.len() {
            if self.rows[flow].port != 0 {
                continue;
            }
            let source = self.template(flow as u32).source;
            let next = next.entry(source).or_insert(ports.start.max(1));
            loop {
                let port = *next;
                if port >= ports.end {
                    return Err(XdpError::Ports { address: source, ports });
                }
                *next += 1;
                self.rows[flow].port = port;
                if !busy.contains(&port) && self.insert(flow) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether the flow's source was free and is now its own.
    fn insert(&mut self, flow: usize) -> bool {
        let source = self.source(flow as u32);
        match self.look_up(source) {
            Ok(_) => false,
            Err(place) => {
                self.places[place] = flow as u32 + 1;
                true
            }
        }
    }

    /// The flow with this source, or the free place where it would be.
    fn look_up(&self, source: SocketAddr) -> Result<u32, usize> {
        let mask = self.places.len() - 1;
        let mut place = (hash(source.ip(), source.port()) >> 32) as usize & mask;
        loop {
            // At most half of the places are taken.
            let Some(flow) = self.places[place].checked_sub(1) else { return Err(place) };
            let row = self.rows[flow as usize];
            if row.port == source.port() && self.templates[row.template as usize].source == source.ip() {
                return Ok(flow);
            }
            place = (place + 1) & mask;
        }
    }

    /// The flow that receives at this address and port.
    pub fn find(&self, source: SocketAddr) -> Option<u32> {
        self.look_up(source).ok()
    }

    pub fn template(&self, flow: u32) -> &Template {
        &self.templates[self.rows[flow as usize].template as usize]
    }

    pub fn source(&self, flow: u32) -> SocketAddr {
        SocketAddr::new(self.template(flow).source, self.rows[flow as usize].port)
    }

    /// Octets of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.places[..]) + size_of_val(&self.rows[..]) + size_of_val(&self.templates[..])
    }
}

/// Asks for each target once.
pub(super) fn paths() -> impl FnMut(IpAddr) -> Result<Path, XdpError> {
    let mut known = BTreeMap::<IpAddr, Path>::new();
    move |target| {
        if let Some(path) = known.get(&target) {
            return Ok(path.clone());
        }
        let path = route::path_to(target)?;
        known.insert(target, path.clone());
        Ok(path)
    }
}

/// The UDP ports at which sockets of this network namespace receive.
pub(super) fn busy_ports() -> HashSet<u16> {
    let mut ports = HashSet::new();
    for file in ["udp", "udp6"] {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        // "sl local_address rem_address …", an address as HEX:PORT.
        ports.extend(text.lines().skip(1).filter_map(|line| {
            let local = line.split_whitespace().nth(1)?;
            u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()
        }));
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(target: IpAddr) -> Result<Path, XdpError> {
        let source = if target.is_ipv4() { "10.0.0.9" } else { "fd00::9" }.parse().unwrap();
        let index = if target.to_string() == "10.9.9.9" { 8 } else { 7 };
        Ok(Path {
            index,
            interface: format!("if{index}"),
            mtu: 1500,
            mac: [2; 6],
            next_hop: target,
            next_mac: [4; 6],
            source,
        })
    }

    fn flow(source: &str, target: &str) -> Flow {
        Flow { source: source.parse().unwrap(), target: target.parse().unwrap() }
    }

    fn table(flows: &[Flow], ports: Range<u16>, busy: &[u16]) -> Result<Table, XdpError> {
        Table::new(flows, ports, &busy.iter().copied().collect(), &mut path).map(|(table, _)| table)
    }

    #[test]
    fn a_hundred_thousand_flows_are_found_again() {
        let flows: Vec<Flow> = (0..100_000)
            .map(|i| {
                let source = format!("10.1.0.{}:0", i % 4);
                flow(&source, if i % 8 < 4 { "10.0.0.1:53" } else { "10.0.0.2:5353" })
            })
            .collect();
        let t = table(&flows, 20_000..60_000, &[20_005]).unwrap();
        let sources: HashSet<SocketAddr> = (0..100_000).map(|i| t.source(i)).collect();
        assert_eq!((sources.len(), t.templates.len()), (100_000, 8));
        assert!(sources.iter().all(|s| s.port() >= 20_000 && s.port() != 20_005));
        assert!((0..100_000).all(|i| t.find(t.source(i)) == Some(i)));
        assert_eq!(t.find("10.1.0.0:19999".parse().unwrap()), None);
        assert_eq!(t.find("10.1.0.9:20000".parse().unwrap()), None);
        assert!(t.bytes() < 2 << 20, "{} octets", t.bytes());
    }

    #[test]
    fn chosen_ports_leave_stated_ones_alone() {
        let t = table(
            &[
                flow("0.0.0.0:0", "10.0.0.1:53"),
                flow("10.0.0.9:1000", "10.0.0.1:53"),
                flow("[::]:0", "[fd00::1]:53"),
                flow("0.0.0.0:0", "10.0.0.1:53"),
            ],
            1000..1003,
            &[1001],
        );
        let error = t.unwrap_err().to_string();
        assert!(error.contains("10.0.0.9") && error.contains("1000"), "{error}");
        let t = table(
            &[flow("0.0.0.0:0", "10.0.0.1:53"), flow("10.0.0.9:1000", "10.0.0.1:53")],
            1000..1003,
            &[1001],
        )
        .unwrap();
        assert_eq!((t.source(0).port(), t.source(1).port()), (1002, 1000));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let error = |flows: &[Flow]| table(flows, 1..9, &[]).unwrap_err();
        assert!(matches!(error(&[]), XdpError::NoFlows));
        let twice = [flow("10.0.0.9:7", "10.0.0.1:53"), flow("0.0.0.0:7", "10.0.0.2:53")];
        assert!(matches!(error(&twice), XdpError::Twice(s) if s == "10.0.0.9:7".parse().unwrap()));
        let apart = [flow("0.0.0.0:0", "10.0.0.1:53"), flow("0.0.0.0:0", "10.9.9.9:53")];
        assert!(
            matches!(error(&apart), XdpError::Interfaces(a, b) if (a.as_str(), b.as_str()) == ("if7", "if8"))
        );
        assert!(matches!(error(&[flow("[fd00::9]:0", "10.0.0.1:53")]), XdpError::Families(..)));
    }
}
