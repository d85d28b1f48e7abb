//! A reader's counts, apart from those of skipped packets.

use derive_more::AddAssign;
use serde::Serialize;
use wire::header::Header;

/// Counts of packets and messages, apart from those that were skipped.
#[derive(AddAssign, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Packets in the files.
    pub packets: u64,
    /// Messages with QR clear.
    pub queries: u64,
    /// Messages with QR set.
    pub responses: u64,
    /// Of these messages, those over TCP.
    pub over_tcp: u64,
    /// Of these messages, those that the capture cut short.
    pub cut_short: u64,
    /// Of the packets, IP fragments.
    pub fragments: u64,
    /// TCP connections of which a SYN or data were seen.
    pub connections: u64,
    /// Of them, those of which there was a message.
    pub connections_with_dns: u64,
    /// TCP segments whose data were there before.
    pub retransmitted: u64,
    /// TCP segments from or to the ports.
    pub tcp_packets: u64,
    /// ICMP errors that quote a packet from or to the ports.
    pub quotes: u64,
    /// Packets that pcapng keeps without a time: they have the time of the packet before them.
    pub untimed: u64,
}

impl Counts {
    /// Counts a message of `length` octets, of which these were captured.
    pub(super) fn add(&mut self, bytes: &[u8], length: usize, tcp: bool) {
        let response = Header::new(bytes).expect("a message has a header").qr();
        *(if response { &mut self.responses } else { &mut self.queries }) += 1;
        self.over_tcp += u64::from(tcp);
        self.cut_short += u64::from(bytes.len() < length);
    }
}
