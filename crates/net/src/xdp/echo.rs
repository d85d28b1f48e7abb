//! The other end for calibration, in the kernel: an XDP program that sends queries back as they arrive.

use super::program::Answer;
use super::{Mode, XdpError, attach, refusal};
use crate::bpf::{Attach, Link};
use std::net::SocketAddr;

/// Answers every DNS query to one address with itself and QR set, without leaving the driver; ends on drop.
///
/// Queries must carry a whole UDP checksum or none: between virtual interfaces sockets leave it to be computed by
/// hardware, unless transmission checksum offload is off at the sender. And what is sent back through a veth
/// arrives only where the other end has an XDP program too, as [`super::XdpFlows`] and this have (receive offload alone
/// has it wait in a ring for a packet that wakes the receiver).
#[derive(Debug)]
pub struct Echo {
    _link: Link,
    answer: Answer,
    attach: Attach,
    interface: String,
}

impl Echo {
    /// Attaches it to the interface that has the address.
    ///
    /// # Errors
    /// [`XdpError::NoInterface`], [`XdpError::Busy`], [`XdpError::Privilege`], [`XdpError::System`].
    pub fn open(addr: SocketAddr, mode: Mode) -> Result<Self, XdpError> {
        let nowhere = || XdpError::NoInterface(addr.ip());
        let all = crate::link::addresses().unwrap_or_default();
        let home =
            all.into_iter().find(|a| a.addr == addr.ip() && !a.addr.is_loopback()).ok_or_else(nowhere)?;
        let index = crate::link::index(&home.name).map_err(|_| nowhere())?;
        let answer = Answer::new(addr).map_err(refusal("load an XDP program", &home.name))?;
        let (link, attach) =
            attach(&answer.program, index, mode).map_err(refusal("attach an XDP program", &home.name))?;
        Ok(Self { _link: link, answer, attach, interface: home.name })
    }

    /// How many datagrams came to the address so far, and how many of them were queries and were sent back.
    ///
    /// # Errors
    /// [`XdpError::System`], where the kernel does not tell.
    pub fn counts(&self) -> Result<(u64, u64), XdpError> {
        self.answer.counts().map_err(refusal("read the counts of an XDP program", &self.interface))
    }

    /// Where it runs: `xdp-native` or `xdp-generic`.
    pub fn backend(&self) -> &'static str {
        self.attach.name()
    }

    /// The interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }
}
