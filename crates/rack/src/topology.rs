//! The cores that this process may use, each with its hardware threads and its NUMA node.

use crate::process::allowed_cpus;
use std::collections::BTreeMap;
use std::fs;

/// A core of the processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Its NUMA node; 0 where the kernel tells of none.
    pub node: usize,
    /// The CPUs that are its hardware threads, ascending.
    pub cpus: Vec<usize>,
}

/// The cores that this process may use, those of a node together.
pub fn cores() -> Vec<Core> {
    let mut found: BTreeMap<(usize, String), Vec<usize>> = BTreeMap::new();
    for cpu in allowed_cpus() {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
        let threads = fs::read_to_string(format!("{folder}/topology/thread_siblings_list"));
        // Without a word of the kernel's, each CPU is taken for a core.
        let threads = threads.map_or_else(|_| cpu.to_string(), |list| list.trim().to_owned());
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let node = entries.filter_map(|e| e.file_name().to_str()?.strip_prefix("node")?.parse().ok()).next();
        found.entry((node.unwrap_or(0), threads)).or_default().push(cpu);
    }
    let mut all: Vec<Core> = found.into_iter().map(|((node, _), cpus)| Core { node, cpus }).collect();
    all.sort_by_key(|core| (core.node, core.cpus[0]));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_is_in_one_core() {
        let mut cpus: Vec<usize> = cores().into_iter().flat_map(|core| core.cpus).collect();
        cpus.sort_unstable();
        assert_eq!(cpus, allowed_cpus());
    }
}
