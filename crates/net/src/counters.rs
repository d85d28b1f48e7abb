//! The counters of a network namespace, as the kernel writes them in `net/snmp`, `net/snmp6` and `net/dev` of /proc. Read by name: kernels
//! add counters, and `snmp` has some settings that may be negative.

use derive_more::{Add, Sum};
use serde::{Deserialize, Serialize};
use std::fs;

/// Makes [`Counters`] of its fields.
macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// Counters of a network namespace since it was made, IPv4 and IPv6 together.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Add, Sum, Serialize, Deserialize)]
        pub struct Counters {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Counters {
            /// The difference to `earlier`.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.saturating_sub(earlier.$field),)* }
            }
        }
    };
}

counters! {
    /// UDP datagrams given to sockets.
    udp_received,
    /// UDP datagrams to a port that nobody had open.
    udp_no_port,
    /// UDP datagrams that were not given to a socket for another reason; includes those for which a buffer was full.
    udp_in_errors,
    /// UDP datagrams dropped because the socket's receive buffer was full.
    udp_receive_buffer_errors,
    /// UDP datagrams with a wrong checksum, which the kernel drops. They are among [`Self::udp_in_errors`].
    udp_checksum_errors,
    /// IPv4 packets with a wrong header: a wrong checksum of it, for instance.
    ip_header_errors,
    /// UDP datagrams sent.
    udp_sent,
    /// UDP datagrams not sent because the socket's send buffer was full.
    udp_send_buffer_errors,
    /// IP fragments received.
    fragments,
    /// Datagrams that could not be put together of their fragments.
    incomplete,
    /// Packets received by devices other than lo.
    received_packets,
    /// Bytes received, with Ethernet headers.
    received_bytes,
    /// Packets dropped on receipt: on a veth device, where the backlog was full.
    received_dropped,
    /// Packets sent.
    sent_packets,
    /// Bytes sent, with Ethernet headers.
    sent_bytes,
    /// Packets dropped when sent.
    sent_dropped,
}

impl Counters {
    /// Of the calling thread's namespace; what the kernel does not tell is zero.
    pub fn read() -> Self {
        let text =
            |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        let mut sum = Self::default();
        sum.add_snmp(&text("snmp"));
        sum.add_snmp6(&text("snmp6"));
        sum
    }

    /// Of the texts of `snmp`, `snmp6` and `dev`; `snmp6` is empty where there is no IPv6.
    ///
    /// # Errors
    /// The file that is not as the kernel writes it.
    pub fn parse(snmp: &str, snmp6: &str, dev: &str) -> Result<Self, &'static str> {
        let mut sum = Self::default();
        if !sum.add_snmp(snmp) {
            return Err("snmp");
        }
        sum.add_snmp6(snmp6);
        for device in devices(dev).ok_or("dev")?.iter().filter(|device| device.name != "lo") {
            sum.received_bytes += device.received_bytes;
            sum.received_packets += device.received_packets;
            sum.received_dropped += device.received_dropped;
            sum.sent_bytes += device.sent_bytes;
            sum.sent_packets += device.sent_packets;
            sum.sent_dropped += device.sent_dropped;
        }
        Ok(sum)
    }

    /// Packets and datagrams lost inside the host: at its devices, and at full socket buffers. Those that came with a wrong checksum
    /// were spoiled before, and are not among them.
    pub fn drops(&self) -> u64 {
        let udp = self.udp_in_errors.saturating_sub(self.udp_checksum_errors);
        self.received_dropped + self.sent_dropped + udp + self.udp_send_buffer_errors
    }

    /// Packets that came with a wrong UDP checksum or a wrong IP header, and were dropped for it.
    pub fn spoiled(&self) -> u64 {
        self.udp_checksum_errors + self.ip_header_errors
    }

    /// Adds those of `snmp`: of each protocol a line of names, then a line of values. False where there are none of UDP.
    fn add_snmp(&mut self, text: &str) -> bool {
        for protocol in ["Ip", "Udp"] {
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(": "));
            let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return false };
            for (name, value) in names.split(' ').zip(values.split(' ')) {
                self.add(protocol, name, value);
            }
        }
        true
    }

    /// Adds those of `snmp6`: `Udp6InDatagrams 3` a line.
    fn add_snmp6(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
            match (name.strip_prefix("Udp6"), name.strip_prefix("Ip6")) {
                (Some(name), _) => self.add("Udp", name, value),
                // IPv6's headers have no checksum: what is wrong there is something else.
                (_, Some(name)) if name != "InHdrErrors" => self.add("Ip", name, value),
                _ => {}
            }
        }
    }

    fn add(&mut self, protocol: &str, name: &str, value: &str) {
        let counter = match (protocol, name) {
            ("Udp", "InDatagrams") => &mut self.udp_received,
            ("Udp", "NoPorts") => &mut self.udp_no_port,
            ("Udp", "InErrors") => &mut self.udp_in_errors,
            ("Udp", "RcvbufErrors") => &mut self.udp_receive_buffer_errors,
            ("Udp", "InCsumErrors") => &mut self.udp_checksum_errors,
            ("Ip", "InHdrErrors") => &mut self.ip_header_errors,
            ("Udp", "OutDatagrams") => &mut self.udp_sent,
            ("Udp", "SndbufErrors") => &mut self.udp_send_buffer_errors,
            ("Ip", "ReasmReqds") => &mut self.fragments,
            ("Ip", "ReasmFails") => &mut self.incomplete,
            _ => return,
        };
        *counter += value.parse::<u64>().unwrap_or(0);
    }
}

/// The traffic of one network device since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device<'a> {
    /// Its name.
    pub name: &'a str,
    /// Bytes received, with Ethernet headers.
    pub received_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Packets dropped on receipt.
    pub received_dropped: u64,
    /// Bytes sent, with Ethernet headers.
    pub sent_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets dropped when sent.
    pub sent_dropped: u64,
}

/// The devices in a text of `net/dev`: two lines of heading, then of each its name, eight numbers of what it received and eight of what
/// it sent. None where a line is not as the kernel writes it.
pub fn devices(dev: &str) -> Option<Vec<Device<'_>>> {
    dev.lines().skip(2).map(device).collect()
}

fn device(line: &str) -> Option<Device<'_>> {
    let (name, numbers) = line.split_once(':')?;
    let numbers: Vec<u64> = numbers.split_ascii_whitespace().map_while(|n| n.parse().ok()).collect();
    let [received, sent] = numbers.as_chunks::<8>().0 else { return None };
    Some(Device {
        name: name.trim(),
        received_bytes: received[0],
        received_packets: received[1],
        received_dropped: received[3],
        sent_bytes: sent[0],
        sent_packets: sent[1],
        sent_dropped: sent[3],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "Ip: Forwarding InHdrErrors ReasmReqds ReasmFails\nIp: -1 3 4 5\nTcp: A\nTcp: 1\n\
                        Udp: InDatagrams InErrors RcvbufErrors SndbufErrors InCsumErrors New\nUdp: 306 70 62 5 8 9\nUdpLite: X\nUdpLite: 1\n";

    #[test]
    fn counters_are_found_by_name() {
        let snmp6 = "Ip6InHdrErrors 7\nIp6ReasmReqds 1\nUdp6InErrors 1\nUdp6RcvbufErrors      \t 42\n";
        let dev = "Inter-| Receive\n face |bytes\n    lo: 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9\n\
                   primary: 1 2 3 40 5 6 7 8 9 10 11 1200 13 14 15 16\n";
        let counters = Counters::parse(SNMP, snmp6, dev).unwrap();
        let expected = Counters {
            udp_received: 306,
            udp_in_errors: 71,
            udp_receive_buffer_errors: 104,
            udp_send_buffer_errors: 5,
            udp_checksum_errors: 8,
            ip_header_errors: 3,
            fragments: 5,
            incomplete: 5,
            received_bytes: 1,
            received_packets: 2,
            received_dropped: 40,
            sent_bytes: 9,
            sent_packets: 10,
            sent_dropped: 1200,
            ..Counters::default()
        };
        assert_eq!(counters, expected);
        // The eight with a wrong checksum are among the 71.
        assert_eq!((counters.drops(), counters.spoiled()), (40 + 1200 + 63 + 5, 11));
        assert_eq!(counters.since(&counters), Counters::default());
        assert_eq!(Counters::parse("", "", ""), Err("snmp"));
        assert_eq!(Counters::parse(SNMP, "", "a\nb\nlo 1\n"), Err("dev"));
        assert_eq!(Counters::parse(SNMP, "", "a\nb\nlo: 1 2 3\n"), Err("dev"));
    }

    #[test]
    fn this_namespace_has_counters() {
        let (before, sender) = (Counters::read(), std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        sender.send_to(&[0], sender.local_addr().unwrap()).unwrap();
        assert!(Counters::read().since(&before).udp_sent > 0);
    }
}
