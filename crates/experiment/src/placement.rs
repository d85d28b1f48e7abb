//! Which cores each part of an experiment gets: the server measured, the other servers, the generators, the path emulator and the captures.
//!
//! Parts get whole cores, so that no two of them share one core's hardware threads, and a part's cores are on one NUMA node where a
//! node has enough. Where there are too few cores, the other servers share some, then the captures are made on the server's, and the
//! paths on the generators'. What is shared is said.

use crate::Trial;
use crate::config::Cpus;
use rack::topology::Core;
use serde::Serialize;

/// The number of parts that an experiment has of each kind, the server measured apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The primary and the other secondaries of a distribution.
    pub others: usize,
    /// Hosts that ask.
    pub generators: usize,
    /// Paths are emulated.
    pub router: bool,
    /// Something is captured during a load.
    pub monitor: bool,
}

/// The CPUs of each part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// The server measured.
    pub server: Vec<usize>,
    /// Each other server.
    pub others: Vec<Vec<usize>>,
    /// Each generator.
    pub generators: Vec<Vec<usize>>,
    /// The path emulator; empty where there is none.
    pub router: Vec<usize>,
    /// The captures; empty where there are none.
    pub monitor: Vec<usize>,
}

impl Placement {
    /// Places the parts on these cores. What `given` names stands.
    pub fn of(cores: &[Core], parts: Parts, given: &Cpus) -> Self {
        let mut placed = Self::by_cores(cores, parts);
        // What has no cores of its own stays beside the servers or the generators, wherever these are put.
        let others_beside = placed.others.contains(&placed.server);
        let router_beside = placed.router == placed.generators.concat();
        let monitor_beside = placed.monitor == placed.server;
        let replace = |cpus: &mut Vec<usize>, given: &[usize]| {
            if !given.is_empty() {
                *cpus = given.to_vec();
            }
        };
        replace(&mut placed.server, &given.server);
        let beside = if others_beside { &given.server } else { &given.others };
        for other in &mut placed.others {
            replace(other, if given.others.is_empty() { beside } else { &given.others });
        }
        for (n, generator) in placed.generators.iter_mut().enumerate() {
            // Each of several has some of those that are given, as long as there are enough.
            let of_it: Vec<usize> = match given.generator.len() >= parts.generators {
                true => given.generator.iter().copied().skip(n).step_by(parts.generators).collect(),
                false => given.generator.clone(),
            };
            replace(generator, &of_it);
        }
        if parts.router {
            replace(&mut placed.router, if router_beside { &given.generator } else { &[] });
            replace(&mut placed.router, &given.router);
        }
        if parts.monitor {
            replace(&mut placed.monitor, if monitor_beside { &given.server } else { &[] });
            replace(&mut placed.monitor, &given.monitor);
        }
        placed
    }

    /// Why a trial cannot be made with this placement: it gives the server more CPUs than there are.
    pub fn refused(&self, trial: &Trial) -> Option<String> {
        let (wanted, have) = (trial.workers? as usize, self.server.len());
        (wanted > have).then(|| {
            format!("needs {wanted} CPUs for the server, and its host has {have} (cpus.server, or cpus in the rack file)")
        })
    }

    fn by_cores(cores: &[Core], parts: Parts) -> Self {
        let mut free = cores.to_vec();
        let everywhere = || -> Vec<usize> { cores.iter().flat_map(|core| core.cpus.clone()).collect() };
        if cores.len() < 2 {
            return Self {
                server: everywhere(),
                others: vec![everywhere(); parts.others],
                generators: vec![everywhere(); parts.generators],
                router: if parts.router { everywhere() } else { Vec::new() },
                monitor: if parts.monitor { everywhere() } else { Vec::new() },
            };
        }
        let servers = 1 + parts.others;
        // The emulator and the captures have cores of their own where every server and generator has one.
        let mut apart = |wanted: bool, kept: usize| {
            (wanted && free.len() > kept).then(|| free.pop()).flatten().map(|core| core.cpus)
        };
        let router = apart(parts.router, servers + parts.generators);
        let monitor = apart(parts.monitor, servers + parts.generators);
        let left = free.len();
        let (of_servers, of_generators) = split(left, servers, parts.generators);
        let mut generators = shared_out(&mut free, of_generators, parts.generators, true);
        generators.reverse();
        let (server, others) = if of_servers >= servers || of_servers == 1 {
            let mut all = shared_out(&mut free, of_servers, servers, false).into_iter();
            (all.next().unwrap_or_default(), all.collect())
        } else {
            // The one that is measured has a core of its own, before any other has.
            let own = take(&mut free, 1, false);
            (own, shared_out(&mut free, of_servers - 1, parts.others, false))
        };
        let generators_all = || -> Vec<usize> { generators.iter().flatten().copied().collect() };
        Self {
            router: router.unwrap_or_else(|| if parts.router { generators_all() } else { Vec::new() }),
            monitor: monitor.unwrap_or_else(|| if parts.monitor { server.clone() } else { Vec::new() }),
            server,
            others,
            generators,
        }
    }

    /// The parts that share CPUs with others, each pair in words.
    pub fn shared(&self) -> Vec<String> {
        let others: Vec<usize> = self.others.iter().flatten().copied().collect();
        let generators: Vec<usize> = self.generators.iter().flatten().copied().collect();
        let several = |all: &[Vec<usize>]| all.iter().map(Vec::len).sum::<usize>() > distinct(&all.concat());
        let mut said = Vec::new();
        let mut pair = |a: &[usize], b: &[usize], words: &str| {
            if a.iter().any(|cpu| b.contains(cpu)) {
                said.push(words.to_owned());
            }
        };
        pair(&self.server, &generators, "the server and the generators");
        pair(&self.server, &others, "the server and the other servers");
        pair(&others, &generators, "the other servers and the generators");
        pair(&self.server, &self.monitor, "the server and the captures");
        pair(&self.router, &generators, "the path emulator and the generators");
        if several(&self.others) {
            said.push("the other servers among themselves".into());
        }
        if several(&self.generators) {
            said.push("the generators among themselves".into());
        }
        said
    }

    /// All CPUs of all parts.
    pub fn all(&self) -> impl Iterator<Item = usize> + '_ {
        let lists = [&self.server, &self.router, &self.monitor].into_iter();
        lists.chain(&self.others).chain(&self.generators).flatten().copied()
    }

    /// In words, for a line of a list: `server on CPU 0, generator on CPU 1`.
    pub fn words(&self) -> String {
        let cpus = |cpus: &[usize]| {
            let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
            format!("CPU {}", list.join("+"))
        };
        let many = |all: &[Vec<usize>]| {
            let mut lists: Vec<String> = all.iter().map(|one| cpus(one)).collect();
            lists.dedup();
            lists.join(", ")
        };
        let mut words = vec![format!("server on {}", cpus(&self.server))];
        if !self.others.is_empty() {
            words.push(format!("{} other servers on {}", self.others.len(), many(&self.others)));
        }
        match self.generators.len() {
            1 => words.push(format!("generator on {}", many(&self.generators))),
            several => words.push(format!("{several} generators on {}", many(&self.generators))),
        }
        if !self.router.is_empty() {
            words.push(format!("paths on {}", cpus(&self.router)));
        }
        if !self.monitor.is_empty() {
            words.push(format!("captures on {}", cpus(&self.monitor)));
        }
        words.join("; ")
    }
}

fn distinct(cpus: &[usize]) -> usize {
    let mut all = cpus.to_vec();
    all.sort_unstable();
    all.dedup();
    all.len()
}

/// The cores of the servers and of the generators: half each, but a core for each part where there are enough.
fn split(cores: usize, servers: usize, generators: usize) -> (usize, usize) {
    let half = cores.div_ceil(2);
    let of_servers = match cores >= servers + generators {
        true => half.clamp(servers, cores - generators),
        // Several servers on few cores do more than the generators that ask one of them.
        false if servers > 1 => cores - generators.min(cores / 3).max(1),
        false => half,
    };
    (of_servers, cores - of_servers)
}

/// Takes `cores` cores, and gives each of `parts` parts as many; where there are fewer cores than parts, several parts have the same.
fn shared_out(free: &mut Vec<Core>, cores: usize, parts: usize, from_end: bool) -> Vec<Vec<usize>> {
    if parts == 0 {
        return Vec::new();
    }
    if cores < parts {
        let singles: Vec<Vec<usize>> = (0..cores).map(|_| take(free, 1, from_end)).collect();
        return (0..parts).map(|n| singles[n % singles.len()].clone()).collect();
    }
    // What is left over goes to the first.
    (0..parts).map(|n| take(free, cores / parts + usize::from(n < cores % parts), from_end)).collect()
}

/// Takes so many cores, of one NUMA node where one has enough.
fn take(free: &mut Vec<Core>, count: usize, from_end: bool) -> Vec<usize> {
    if from_end {
        free.reverse();
    }
    let enough = |node: usize| free.iter().filter(|core| core.node == node).count() >= count;
    let node = free.iter().map(|core| core.node).find(|&node| enough(node));
    let mut taken = Vec::new();
    free.retain(|core| {
        let takes = taken.len() < count && node.is_none_or(|node| core.node == node);
        if takes {
            taken.push(core.clone());
        }
        !takes
    });
    if from_end {
        free.reverse();
    }
    let mut cpus: Vec<usize> = taken.into_iter().flat_map(|core| core.cpus).collect();
    cpus.sort_unstable();
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cores(nodes: usize, each: usize, threads: usize) -> Vec<Core> {
        let all = nodes * each;
        let core = |n: usize| Core { node: n / each, cpus: (0..threads).map(|t| n + t * all).collect() };
        (0..all).map(core).collect()
    }

    const ALONE: Parts = Parts { others: 0, generators: 1, router: false, monitor: false };

    fn place(cores: &[Core], parts: Parts) -> Placement {
        Placement::of(cores, parts, &Cpus::default())
    }

    #[test]
    fn one_server_has_half_of_the_cores() {
        let two = place(&cores(1, 2, 1), Parts { monitor: true, ..ALONE });
        assert_eq!((two.server.clone(), two.generators.clone()), (vec![0], vec![vec![1]]));
        assert_eq!(two.shared(), ["the server and the captures"]);
        let eight = place(&cores(1, 8, 1), ALONE);
        assert_eq!((eight.server, eight.generators), (vec![0, 1, 2, 3], vec![vec![4, 5, 6, 7]]));
        let one = place(&cores(1, 1, 1), ALONE);
        assert_eq!(one.shared(), ["the server and the generators"]);
    }

    #[test]
    fn hardware_threads_of_a_core_stay_together() {
        let placed = place(&cores(1, 2, 2), ALONE);
        assert_eq!((placed.server, placed.generators), (vec![0, 2], vec![vec![1, 3]]));
    }

    #[test]
    fn thirteen_servers_have_cores_of_their_own_where_there_are_enough() {
        let parts = Parts { others: 13, generators: 1, router: true, monitor: true };
        let enough = place(&cores(2, 16, 1), parts);
        assert!(enough.shared().is_empty(), "{enough:?}");
        let few = place(&cores(1, 8, 1), parts);
        assert_eq!(few.server, [0], "{few:?}");
        assert!(few.others.iter().all(|other| !other.contains(&0)), "{few:?}");
        assert!(few.shared().contains(&"the other servers among themselves".to_owned()), "{few:?}");
        let two = place(&cores(1, 2, 1), parts);
        assert!(two.others.iter().all(|other| *other == [0]) && two.generators == [[1]], "{two:?}");
    }

    #[test]
    fn what_is_given_stands() {
        let given = Cpus { server: vec![5], generator: vec![6, 7], others: vec![4], ..Cpus::default() };
        let parts = Parts { others: 2, generators: 2, router: false, monitor: false };
        let placed = Placement::of(&cores(1, 8, 1), parts, &given);
        assert_eq!((placed.server, placed.others), (vec![5], vec![vec![4], vec![4]]));
        assert_eq!(placed.generators, [[6], [7]]);
        // On two cores that are given the other way round, everything follows.
        let given = Cpus { server: vec![1], generator: vec![0], ..Cpus::default() };
        let parts = Parts { others: 2, generators: 1, router: true, monitor: true };
        let placed = Placement::of(&cores(1, 2, 1), parts, &given);
        assert_eq!((&placed.others, &placed.monitor), (&vec![vec![1], vec![1]], &vec![1]));
        assert_eq!((placed.router, placed.generators), (vec![0], vec![vec![0]]));
    }

    proptest! {
        #[test]
        fn every_part_has_cores_and_shares_them_only_where_there_are_too_few(
            nodes in 1usize..4, each in 1usize..20, threads in 1usize..3,
            others in 0usize..16, generators in 1usize..5, router: bool, monitor: bool,
        ) {
            let (cores, parts) = (cores(nodes, each, threads), Parts { others, generators, router, monitor });
            let placed = place(&cores, parts);
            prop_assert_eq!(placed.others.len(), others);
            prop_assert_eq!(placed.generators.len(), generators);
            let lists = [&placed.server].into_iter().chain(&placed.others).chain(&placed.generators);
            prop_assert!(lists.clone().all(|list| !list.is_empty()), "{placed:?}");
            prop_assert_eq!((placed.router.is_empty(), placed.monitor.is_empty()), (!router, !monitor));
            let wanted = 1 + others + generators + usize::from(router) + usize::from(monitor);
            if nodes * each >= wanted {
                prop_assert!(placed.shared().is_empty(), "{placed:?}");
            }
            for core in &cores {
                let users = lists.clone().filter(|list| list.iter().any(|cpu| core.cpus.contains(cpu)));
                let whole = users.clone().all(|list| core.cpus.iter().all(|cpu| list.contains(cpu)));
                prop_assert!(whole, "a core is split: {placed:?}");
            }
        }
    }
}
