//! Which addresses may be sent to.

use crate::Error;
use std::net::SocketAddr;

/// Refuses targets that are not on this machine.
pub(crate) fn refuse_external(targets: &[SocketAddr]) -> Result<(), Error> {
    let far = net::target::far(targets, &[])
        .map_err(|error| Error::System { what: "cannot list the network interfaces", error })?;
    far.map_or(Ok(()), |target| Err(Error::External { target }))
}
