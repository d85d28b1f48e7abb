//! New addresses for clients: one client, one address, in the order of their first packets.

use super::{Error, Net};
use std::collections::HashMap;
use std::net::IpAddr;

/// The new address of each client.
pub(super) struct Clients {
    v4: Option<Net>,
    v6: Option<Net>,
    /// IPv4 addresses, and which client it is: the bulk of the memory.
    known_v4: HashMap<u32, u32>,
    known_v6: HashMap<[u8; 16], u32>,
}

impl Clients {
    /// With a block of each family; where there are several of one, the first.
    pub fn new(nets: &[Net]) -> Self {
        let net = |v4| nets.iter().copied().find(|net| net.is_ipv4() == v4);
        Self { v4: net(true), v6: net(false), known_v4: HashMap::new(), known_v6: HashMap::new() }
    }

    /// No client's address is to change.
    pub fn is_idle(&self) -> bool {
        self.v4.is_none() && self.v6.is_none()
    }

    /// The address that a client gets; none where there is no block of its family. Where a block has too few, they are
    /// used again, and [`Self::check`] says so at the end.
    pub fn get(&mut self, address: IpAddr) -> Option<IpAddr> {
        let (net, n) = match address {
            IpAddr::V4(address) => {
                let next = self.known_v4.len() as u32;
                (self.v4?, *self.known_v4.entry(address.to_bits()).or_insert(next))
            }
            IpAddr::V6(address) => {
                let next = self.known_v6.len() as u32;
                (self.v6?, *self.known_v6.entry(address.octets()).or_insert(next))
            }
        };
        Some(net.client(n.into()))
    }

    /// How many clients there are.
    pub fn count(&self) -> u64 {
        (self.known_v4.len() + self.known_v6.len()) as u64
    }

    /// There were addresses for all.
    pub fn check(&self) -> Result<(), Error> {
        for (net, clients) in [(self.v4, self.known_v4.len() as u64), (self.v6, self.known_v6.len() as u64)] {
            if let Some(net) = net.filter(|net| net.room() < u128::from(clients)) {
                let (room, length) = (net.room(), net.length_for(clients));
                return Err(Error::TooManyClients { net, room, clients, length });
            }
        }
        Ok(())
    }
}
