//! What the machine's idle cores do: sleep, as the kernel and the hypervisor have it, or poll.
//!
//! A core that sleeps takes time to wake: microseconds on hardware, milliseconds in a virtual machine whose host is busy. A server
//! that waits for a query answers it later by that time. The kernel takes requests for the longest time that waking may
//! take at `/dev/cpu_dma_latency`, from privileged programs, and keeps to the strictest as long as its file is open.

use crate::Error;
use std::fs::File;
use std::io::Write as _;

/// See the kernel's `Documentation/power/pm_qos_interface.rst`.
const DEVICE: &str = "/dev/cpu_dma_latency";

/// Idle cores of this machine poll until this is dropped, or its process ends.
#[derive(Debug)]
pub struct IdlePolling {
    /// The request is withdrawn when it is closed.
    _open: File,
}

impl IdlePolling {
    /// Asks the kernel for no time to wake at all.
    ///
    /// # Errors
    /// [`Error::Sample`] where the kernel has no such device, or it is not for us.
    pub fn start() -> Result<Self, Error> {
        let open = || {
            let mut device = File::options().write(true).open(DEVICE)?;
            device.write_all(&0i32.to_ne_bytes())?;
            Ok(device)
        };
        open().map(|open| Self { _open: open }).map_err(|e: std::io::Error| Error::Sample {
            path: DEVICE.into(),
            message: format!(
                "{e}; idle cores cannot be kept awake: run as root, or leave out idle = \"poll\""
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    /// The longest time in microseconds that waking may take now.
    fn longest() -> std::io::Result<i32> {
        let mut octets = [0; 4];
        File::open(DEVICE)?.read_exact(&mut octets)?;
        Ok(i32::from_ne_bytes(octets))
    }

    #[test]
    fn the_kernel_keeps_to_the_request_while_it_stands() {
        match (longest(), IdlePolling::start()) {
            (Ok(before), Ok(polling)) => {
                assert_eq!(longest().unwrap(), 0);
                drop(polling);
                assert_eq!(longest().unwrap(), before);
            }
            (_, polling) => {
                let error = polling.expect_err("it cannot even be read").to_string();
                assert!(error.starts_with(DEVICE) && error.contains("run as root"), "{error}");
                eprintln!("SKIPPED: {error}");
            }
        }
    }
}
