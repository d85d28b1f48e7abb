//! What a machine is, and what is installed there.

use crate::Error;
use crate::request::{At, Request};
use net::interface::Interface;
use rack::environment;
use rack::process::allowed_cpus;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use server::{Found, Program};
use std::net::IpAddr;

/// Describes the machine, before a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Describe {
    /// Addresses that it should have.
    pub addresses: Vec<IpAddr>,
}

/// Looks for servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Installed {
    /// The program of each.
    pub servers: Vec<Program>,
}

impl Request for Installed {
    const NAME: &'static str = "Installed";
    /// Each server that was found, or why it was not.
    type Answer = Vec<Result<Found, String>>;

    fn act(self, _: &At<'_>) -> Result<Self::Answer, Error> {
        Ok(self
            .servers
            .iter()
            .map(|program| server::found(program).map_err(|e| e.problem.to_string()))
            .collect())
    }
}

/// What a machine is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Described {
    /// As in `environment.json`: see [`hardware::environment`].
    pub environment: Value,
    /// The kernel's release.
    pub kernel: String,
    /// The CPUs that its programs may use.
    pub cpus: Vec<usize>,
    /// Bytes of memory that could be used now.
    pub memory_available: u64,
    /// Bytes that its agent may still write.
    pub disk_available: u64,
    /// The device that has each address, where one has it.
    pub devices: Vec<Option<String>>,
    /// These devices.
    pub interfaces: Vec<Interface>,
}

impl Request for Describe {
    const NAME: &'static str = "Describe";
    type Answer = Described;

    fn act(self, at: &At<'_>) -> Result<Described, Error> {
        let machine = rack::environment(&[]);
        let list = at.host.run_in(net::link::addresses)?;
        let list = list.map_err(|source| Error::File { path: "network interfaces".into(), source })?;
        let device = |ip: &IpAddr| list.iter().find(|a| a.addr == *ip).map(|a| a.name.clone());
        let devices: Vec<Option<String>> = self.addresses.iter().map(device).collect();
        let mut names: Vec<&String> = devices.iter().flatten().collect();
        names.sort_unstable();
        names.dedup();
        let describe = || names.iter().map(|name| Interface::of(name)).collect();
        let interfaces = at.host.run_in(describe)?;
        let folder = at.here.folder().map_or_else(|_| std::env::temp_dir(), |folder| folder.run.clone());
        Ok(Described {
            kernel: machine.kernel.split(' ').next().unwrap_or_default().into(),
            environment: hardware::environment(&machine),
            cpus: allowed_cpus(),
            memory_available: environment::memory_available()?,
            disk_available: environment::disk_available(&folder)?,
            devices,
            interfaces,
        })
    }
}
