//! A server's processes: which they are, where they run, when they are gone.

use super::Server;
use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, sched_setaffinity};
use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// How long the kernel may take to end killed processes: it frees their memory.
const KILLED: Duration = Duration::from_secs(60);

impl Server {
    /// All its processes now, the one started first; of an external server none. NSD's change with each reload.
    pub fn pids(&self) -> Vec<u32> {
        let Some(process) = &self.process else { return Vec::new() };
        let mut pids = processes(process.pid());
        pids.retain(|&pid| pid != process.pid());
        pids.insert(0, process.pid());
        pids
    }

    /// Its killed processes hold memory and ports until they are really gone.
    pub(super) fn wait_until_gone(&self) {
        let Some(process) = &self.process else { return };
        let until = Instant::now() + KILLED;
        while !processes(process.pid()).is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Pins all threads of a process to these CPUs; empty: leaves them where they are. Threads that end meanwhile are no
/// error.
pub(super) fn pin(pid: u32, cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    let threads = match fs::read_dir(format!("/proc/{pid}/task")) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        threads => threads?,
    };
    for thread in threads {
        let name = thread?.file_name();
        let Some(id) = name.to_str().and_then(|id| Pid::from_raw(id.parse().ok()?)) else { continue };
        match sched_setaffinity(Some(id), &set) {
            Ok(()) | Err(Errno::SRCH) => (),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// The processes, zombies apart, of the session that a server's first process leads. The parent of a child may have ended,
/// but its session stays (see the launcher).
pub fn processes(leader: u32) -> Vec<u32> {
    let all = procfs::process::all_processes().into_iter().flatten();
    let mut pids: Vec<u32> = all
        .filter_map(|entry| {
            let stat = entry.ok()?.stat().ok()?;
            let ours = stat.session == leader as i32 || stat.pgrp == leader as i32;
            (ours && !matches!(stat.state, 'Z' | 'X')).then_some(stat.pid as u32)
        })
        .collect();
    pids.sort_unstable();
    pids
}
