//! The memory of a server's processes, map by map, as `pmap -x` shows it.

use crate::Error;
use procfs::process::{MMPermissions, MMapPath, Process};
use serde::{Deserialize, Serialize};

/// The use of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The heap that grows by brk(2).
    Heap,
    /// Memory without a file: mmap(2)'s, where allocators put what is large or many; shared or not.
    Anonymous,
    /// The program and its shared libraries.
    Program,
    /// Other files: databases and zones that are mapped.
    File,
    /// The stack of the first thread; those of others are anonymous.
    Stack,
    /// The kernel's.
    Other,
}

impl Kind {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 6] =
        [Self::Heap, Self::Anonymous, Self::Program, Self::File, Self::Stack, Self::Other];

    /// The word in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Anonymous => "anonymous",
            Self::Program => "program",
            Self::File => "file",
            Self::Stack => "stack",
            Self::Other => "other",
        }
    }
}

/// One map of one process; sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Map {
    /// The process.
    pub pid: u32,
    /// Where it begins.
    pub address: u64,
    /// Its use.
    pub kind: Kind,
    /// Addresses, backed by memory or not.
    pub size: u64,
    /// Resident; pages that several processes share count for each.
    pub rss: u64,
    /// Resident; a page that n processes share counts 1/n.
    pub pss: u64,
    /// The file, or the kernel's word.
    pub name: String,
}

/// The maps of these processes. The kernel walks all their pages: some 10 ms per GB.
///
/// # Errors
/// [`Error::Sample`] where a process is gone, or not ours.
pub fn maps(pids: &[u32]) -> Result<Vec<Map>, Error> {
    let mut all = Vec::new();
    for &pid in pids {
        let path = format!("/proc/{pid}/smaps");
        let read = Process::new(pid as i32).and_then(|p| p.smaps());
        let read = read.map_err(|e| Error::Sample { path, message: e.to_string() })?;
        for map in &read {
            let value_of = |name: &str| map.extension.map.get(name).copied().unwrap_or(0);
            let (kind, name) = match &map.pathname {
                MMapPath::Heap => (Kind::Heap, "[heap]".into()),
                MMapPath::Anonymous => (Kind::Anonymous, "[anon]".into()),
                MMapPath::Stack | MMapPath::TStack(_) => (Kind::Stack, "[stack]".into()),
                MMapPath::Path(path) => {
                    let name = path.display().to_string();
                    // Memory that processes share has a name, but no file behind it.
                    let shared =
                        ["/dev/zero", "/memfd:", "/dev/shm/"].iter().any(|prefix| name.starts_with(prefix));
                    // A library's data are mapped privately, and need not be executable.
                    let library = map.perms.contains(MMPermissions::EXECUTE) || name.contains(".so");
                    let kind = match () {
                        () if shared => Kind::Anonymous,
                        () if library || is_program(pid, path) => Kind::Program,
                        () => Kind::File,
                    };
                    (kind, name)
                }
                other => (Kind::Other, format!("{other:?}").to_lowercase()),
            };
            let size = map.address.1 - map.address.0;
            all.push(Map {
                pid,
                address: map.address.0,
                kind,
                size,
                rss: value_of("Rss"),
                pss: value_of("Pss"),
                name,
            });
        }
    }
    Ok(all)
}

/// How many processes the kernel has killed since the machine's start because no memory was left (or none of their cgroup's);
/// none where it does not count them.
pub fn kills() -> Option<u64> {
    procfs::vmstat().ok()?.get("oom_kill")?.to_owned().try_into().ok()
}

fn is_program(pid: u32, path: &std::path::Path) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == path)
}

/// The maps as text, a line each.
pub fn text(maps: &[Map]) -> String {
    let mut out = format!(
        "{:>7} {:>16} {:>12} {:>12} {:>12}  {:<9} name\n",
        "pid", "address", "size kB", "rss kB", "pss kB", "kind"
    );
    for map in maps {
        out += &format!(
            "{:>7} {:>16x} {:>12} {:>12} {:>12}  {:<9} {}\n",
            map.pid,
            map.address,
            map.size / 1024,
            map.rss / 1024,
            map.pss / 1024,
            map.kind.word(),
            map.name
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_maps_have_all_there_is() {
        let block = vec![1u8; 64 << 20];
        let maps = maps(&[std::process::id()]).unwrap();
        assert!(block.iter().all(|&octet| octet == 1));
        let sum = |kind: Kind| maps.iter().filter(|m| m.kind == kind).map(|m| m.rss).sum::<u64>();
        assert!(sum(Kind::Anonymous) >= 64 << 20, "{}", text(&maps));
        assert!(sum(Kind::Program) > 0 && sum(Kind::Stack) > 0);
        assert!(maps.iter().all(|m| m.pss <= m.rss && m.rss <= m.size));
        let rollup =
            crate::resource_counters::pss(std::time::Duration::ZERO, || vec![std::process::id()]).unwrap();
        let pss: u64 = maps.iter().map(|m| m.pss).sum();
        assert!(pss.abs_diff(rollup) < rollup / 10 + (1 << 20), "{pss} {rollup}");
        assert_eq!(text(&maps).lines().count(), maps.len() + 1);
    }
}
