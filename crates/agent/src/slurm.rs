//! The nodes of a Slurm job as the machines of a rack, and Slurm's own programs.

use crate::Error;
use crate::machines::{HostEntry, NeededHost};
use std::net::{IpAddr, ToSocketAddrs};
use std::process::Command;

/// The hosts of an experiment on the nodes of the job that we are in, one each, in order: those of the first set first. Their agents
/// are steps of the job.
///
/// # Errors
/// [`Error::Machines`] where we are in no job, it has too few nodes, or a node has no address.
pub(crate) fn hosts(needed: &[NeededHost], set: u32) -> Result<Vec<HostEntry>, Error> {
    let nodes = nodes()?;
    let last = needed.len() * set as usize;
    if nodes.len() < last {
        let names: Vec<&str> = needed.iter().map(|host| host.name.as_str()).collect();
        let sets = if set > 1 { format!(", and there are {set} sets of them") } else { String::new() };
        return Err(Error::Machines(format!(
            "the job has {} nodes, and the experiment has {} hosts ({}){sets}: ask for {last} nodes",
            nodes.len(),
            needed.len(),
            names.join(", ")
        )));
    }
    let entry = |(host, node): (&NeededHost, &String)| -> Result<HostEntry, Error> {
        Ok(HostEntry {
            name: host.name.clone(),
            ssh: None,
            command: step(node),
            addresses: addresses(node, &said(Command::new("scontrol").args(["-o", "show", "node", node]))?)?,
            interface: None,
            cpus: Vec::new(),
            folder: None,
            program: None,
            set,
        })
    };
    needed.iter().zip(&nodes[last - needed.len()..]).map(entry).collect()
}

/// The nodes of the job that we are in.
///
/// # Errors
/// [`Error::Machines`] where we are in no job.
pub(crate) fn nodes() -> Result<Vec<String>, Error> {
    let list = std::env::var("SLURM_JOB_NODELIST").map_err(|_| {
        Error::Machines(
            "--rack slurm: this is in no job: use sbatch or salloc, or 'dnsrack experiment submit'".into(),
        )
    })?;
    let nodes = said(Command::new("scontrol").args(["show", "hostnames", &list]))?;
    Ok(nodes.lines().map(|node| node.trim().to_owned()).filter(|node| !node.is_empty()).collect())
}

/// What runs the words after it on a node of the job, beside its other steps, on all cores of the job there.
fn step(node: &str) -> Vec<String> {
    let node = format!("--nodelist={node}");
    ["srun", "--overlap", "--nodes=1", "--ntasks=1", "--cpu-bind=none", "--quiet", &node]
        .map(String::from)
        .to_vec()
}

/// The addresses of a node, of which `scontrol` says this.
fn addresses(node: &str, shown: &str) -> Result<Vec<IpAddr>, Error> {
    let given = value(shown, "NodeAddr=").unwrap_or(node);
    let found = match given.parse() {
        Ok(ip) => vec![ip],
        // Debian has a machine's own name at 127.0.1.1.
        Err(_) => (given, 0).to_socket_addrs().into_iter().flatten().map(|at| at.ip()).collect(),
    };
    let mut all: Vec<IpAddr> = found.into_iter().filter(|ip: &IpAddr| !ip.is_loopback()).collect();
    all.sort_unstable();
    all.dedup();
    if all.is_empty() {
        return Err(Error::Machines(format!(
            "node {node}: its address {given} is not known here, or is of loopback"
        )));
    }
    Ok(all)
}

/// Runs a program of Slurm's, and gives its output.
///
/// # Errors
/// [`Error::Machines`] where it cannot be run or fails, with its own words.
pub fn said(command: &mut Command) -> Result<String, Error> {
    let program = command.get_program().display().to_string();
    let failed = |why: String| Error::Machines(format!("{program}: {why}"));
    let output = command.output().map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().into()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The value of a `KEY=` in the output of `scontrol -o show`.
pub fn value<'a>(shown: &'a str, key: &str) -> Option<&'a str> {
    shown.split_whitespace().find_map(|word| word.strip_prefix(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_address_that_slurm_knows() {
        let shown = "NodeName=n1 Arch=x86_64 NodeAddr=10.53.0.7 NodeHostName=n1 CPUTot=2";
        assert_eq!(addresses("n1", shown).unwrap(), ["10.53.0.7".parse::<IpAddr>().unwrap()]);
        let error = addresses("n1", "NodeName=n1 NodeAddr=localhost").unwrap_err().to_string();
        assert!(error.contains("node n1: its address localhost"), "{error}");
    }
}
