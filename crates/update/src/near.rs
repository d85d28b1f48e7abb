//! What may be sent to, and the core that it is done on.

use crate::Error;
use std::net::SocketAddr;

/// Refuses targets that are not on this machine.
pub(crate) fn refuse_external(targets: &[SocketAddr]) -> Result<(), Error> {
    let far = net::target::far(targets, &[])
        .map_err(|error| Error::System { what: "cannot list the network interfaces", error })?;
    far.map_or(Ok(()), |target| Err(Error::External { target }))
}

/// Keeps the calling thread on a core.
pub(crate) fn pin(cpu: usize) -> Result<(), Error> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).map_err(|error| Error::Pin { cpu, error: error.into() })
}
