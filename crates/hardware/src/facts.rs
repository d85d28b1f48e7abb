//! Facts about the machine that the kernel tells: caches, huge pages, memory, NUMA distances.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A cache of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// In octets.
    pub size: u64,
}

/// Facts about the machine; what the kernel does not tell is absent.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The caches of the first CPU.
    pub caches: Vec<Cache>,
    /// The last cache, in octets.
    pub last_cache: Option<u64>,
    /// `always`, `madvise` or `never`: whether memory may be had in huge pages without a reservation.
    pub huge_pages: Option<String>,
    /// Octets of memory that could be used now.
    pub available: u64,
    /// The distances between NUMA nodes, as the firmware gives them: 10 is the node itself.
    pub numa_distances: Vec<Vec<u32>>,
}

impl Facts {
    /// Reads them below /sys and /proc.
    pub fn read() -> Self {
        let caches = caches(Path::new("/sys/devices/system/cpu/cpu0/cache"));
        Self {
            last_cache: caches.iter().map(|cache| cache.size).max(),
            caches,
            huge_pages: fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
                .ok()
                .and_then(|text| Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())),
            available: rack::environment::memory_available().unwrap_or(0),
            numa_distances: distances(Path::new("/sys/devices/system/node")),
        }
    }

    /// As in `environment.json`.
    pub fn json(&self) -> Value {
        let caches = self
            .caches
            .iter()
            .map(|cache| json!({ "level": cache.level, "type": cache.kind, "size": cache.size }));
        json!({
            "caches": caches.collect::<Vec<_>>(),
            "huge_pages": self.huge_pages,
            "numa_distances": self.numa_distances,
        })
    }
}

fn caches(folder: &Path) -> Vec<Cache> {
    let text =
        |path: &Path, name: &str| fs::read_to_string(path.join(name)).ok().map(|text| text.trim().to_owned());
    let one = |path: &Path| {
        let size = text(path, "size")?;
        // `32K`, `16384K`.
        let size = size
            .strip_suffix('K')
            .map_or_else(|| size.parse().ok(), |k| k.parse().ok().map(|k: u64| k << 10))?;
        Some(Cache { level: text(path, "level")?.parse().ok()?, kind: text(path, "type")?, size })
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<Cache> = entries.filter_map(|entry| one(&entry.path())).collect();
    all.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    all
}

fn distances(folder: &Path) -> Vec<Vec<u32>> {
    let row = |node: u32| {
        let text = fs::read_to_string(folder.join(format!("node{node}/distance"))).ok()?;
        text.split_whitespace().map(|number| number.parse().ok()).collect()
    };
    (0..).map_while(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_and_distances_are_read_as_the_kernel_writes_them() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (index, level, kind, size) in
            [(3, "3", "Unified", "16384K"), (0, "1", "Data", "48K"), (1, "1", "Instruction", "32K")]
        {
            write(&format!("cache/index{index}/level"), &format!("{level}\n"));
            write(&format!("cache/index{index}/type"), &format!("{kind}\n"));
            write(&format!("cache/index{index}/size"), &format!("{size}\n"));
        }
        let found = caches(&dir.path().join("cache"));
        let sizes: Vec<_> = found.iter().map(|c| (c.level, c.kind.as_str(), c.size)).collect();
        assert_eq!(sizes, [(1, "Data", 48 << 10), (1, "Instruction", 32 << 10), (3, "Unified", 16 << 20)]);
        assert!(caches(Path::new("/nowhere")).is_empty());
        write("node/node0/distance", "10 21\n");
        write("node/node1/distance", "21 10\n");
        assert_eq!(distances(&dir.path().join("node")), [[10, 21], [21, 10]]);
    }
}
