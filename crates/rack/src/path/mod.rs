//! Paths between hosts: delay, loss, duplication, reordering and rate, by an emulator in user space.
//!
//! ```text
//!            switch, in the namespace of the router
//!   primary ──┐   ┌─────────────────────────┐   ┌── sec1
//!             ├───┤ port  │ packet │  port  ├───┤
//!   generator ┘   │ ……………>│ socket │……………> │   └── sec2
//!                 └───────┴────────┴────────┘
//!                   frame → draws (seed, index) → heap of release times → frame
//! ```
//!
//! All hosts stay at one switch. Of two hosts that a path joins, each knows the other by an Ethernet address of the
//! router: what they send to each other goes to the router, is decided upon, waits there until it is due, and is sent
//! on; what others send goes the short way, and costs the emulator nothing. Captures at the router's port of a host see
//! what it sends before, and what it receives after the path. Nothing else of a frame is changed: no TTL, no checksum.
//!
//! - The delay counts from the kernel's stamp of arrival, not from when we came to read the frame; frames are never sent
//!   early. How late they are is the *delay error*, which is reported.
//! - Packets keep their order, also where the delay varies, unless `reorder` or `jitter_reorders` is asked for (netem
//!   reorders as soon as there is jitter). So packets wait behind one that takes long, as in a queue, and where many come
//!   while the delay of one lasts, nearly all take longer than was drawn: a delay that `hold`s keeps order and distribution.
//! - Decisions depend on the seed, the direction and the packet's index alone (with `hold` the delay on the time, too).
//! - What goes wrong on our side (`our_drops`, `socket_dropped`) makes a trial invalid: `path_dropped`.
//!
//! Hosts with a path send no segments larger than the MTU (TSO, GSO and GRO off), with whole checksums, and with the
//! congestion control that the rack file names. The kernel's netem would do the same where there is one; we do not use it,
//! so that a path is the same on every machine, and tell whether there is one ([`Emulation`]). (rattan-core, looked at
//! first, takes one system call a packet and an asynchronous runtime, and wants root.)

mod control;
mod delay;
mod forward;
pub mod keep;
mod line;
mod run;
mod spec;

pub use control::Paths;
pub use delay::{BUILT_IN, Delay};
pub use forward::fuzz_frames;
pub use line::Counts;
pub use run::run;
pub use spec::{Bursts, EVERY, Loss, PathSpec, Queue, Rate};
pub(crate) use spec::{Direction, directions, nanos};

use crate::RackSpec;
use crate::spec::SWITCH;
use measure::{Histogram, Nanos, Reason, Validity};
use serde::{Deserialize, Serialize};

/// Octets of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;

/// A delay error above this gives a warning, in microseconds.
const LATE_US: f64 = 200.0;

/// The emulator's orders: the specification of the role `path`, which runs in the router's namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The device that frames for the router come in at: the switch itself.
    pub device: String,
    /// The links' largest packet in octets, without the Ethernet header.
    pub mtu: u32,
    /// All hosts of the rack, in the order of their addresses.
    pub hosts: Vec<String>,
    /// The paths.
    pub paths: Vec<PathSpec>,
    /// For how many microseconds before a packet is due it waits busily: for a core of its own.
    #[serde(default)]
    pub spin_us: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self { device: SWITCH.into(), mtu: 1500, hosts: Vec::new(), paths: Vec::new(), spin_us: 0 }
    }
}

impl Plan {
    /// The emulator's plan for a rack that is not up yet.
    pub fn of(spec: &RackSpec) -> Self {
        Self {
            mtu: spec.mtu,
            hosts: spec.hosts.iter().map(|host| host.name.clone()).collect(),
            paths: spec.paths.clone(),
            spin_us: spec.router.as_ref().map_or(0, |router| router.spin / 1000),
            ..Self::default()
        }
    }

    /// Octets of the longest frame.
    pub(crate) fn room(&self) -> usize {
        self.mtu as usize + ETHERNET
    }
}

/// How a rack's paths are made, kept with the results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emulation {
    /// The place of the emulation: `user space`.
    pub method: String,
    /// Whether the kernel has the queueing discipline netem, which is not used, or what it said.
    pub netem: String,
    /// The congestion control of the hosts below.
    pub congestion_control: String,
    /// Offloads that were switched off at these hosts' devices.
    pub off: Vec<String>,
    /// The hosts that a path joins with another.
    pub hosts: Vec<String>,
}

/// How late packets were sent on, in microseconds after they were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Late {
    /// Half of them were no later.
    pub p50: f64,
    /// 99 % were no later.
    pub p99: f64,
    /// The latest.
    pub max: f64,
}

/// The emulator's counters since it began. In progress events `delay_error_us` is that of the last second alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// For how long, in seconds.
    pub duration_s: f64,
    /// Each direction that leads through the router.
    pub directions: Vec<Counts>,
    /// How late packets were sent on.
    pub delay_error_us: Late,
    /// Frames that were not read in time.
    pub socket_dropped: u64,
    /// Frames that a full backlog dropped at a port of the router, in either direction, on a path or not.
    pub port_dropped: u64,
    /// Frames above the MTU, which are dropped (and are among `our_drops`).
    pub oversized: u64,
    /// Frames for nobody: multicast above all.
    pub ignored: u64,
    /// Whether the scheduler runs the emulator before ordinary programs.
    pub runs_first: bool,
    /// Whether what passed the paths can be believed.
    pub validity: Validity,
}

impl Report {
    fn new(
        duration: Nanos,
        forward: &forward::Forwarder,
        errors: &Histogram,
        socket_dropped: u64,
        port_dropped: u64,
        runs_first: bool,
    ) -> Self {
        let us = |n: Nanos| n as f64 / 1e3;
        let late =
            Late { p50: us(errors.quantile(0.5)), p99: us(errors.quantile(0.99)), max: us(errors.max()) };
        let mut report = Self {
            duration_s: duration as f64 / 1e9,
            directions: forward.counts().cloned().collect(),
            delay_error_us: late,
            socket_dropped,
            port_dropped,
            oversized: forward.oversized,
            ignored: forward.ignored,
            runs_first,
            validity: Validity::default(),
        };
        report.decide_validity();
        report
    }

    /// The counts of one direction.
    pub fn direction(&self, from: &str, to: &str) -> Option<&Counts> {
        self.directions.iter().find(|d| d.from == from && d.to == to)
    }

    fn decide_validity(&mut self) {
        let ours: u64 = self.directions.iter().map(|d| d.our_drops).sum();
        if self.oversized > 0 {
            let text = format!(
                "{} frames were larger than the MTU: a host's segmentation offload is on again",
                self.oversized
            );
            self.validity.reject(Reason::new("path_oversized", text));
        }
        let dropped = ours - self.oversized + self.socket_dropped;
        if dropped > 0 {
            let text = format!(
                "the path emulator lost {dropped} packets that it was not asked to lose ({} not read in time, {} not sent): \
                 give it a core of its own, or offer less",
                self.socket_dropped,
                ours - self.oversized
            );
            self.validity.reject(Reason::new("path_dropped", text));
        }
        if self.port_dropped > 0 {
            let text = format!(
                "{} packets, on paths or not, found a full backlog at a port of the router: a host does not keep up, or \
                 net.core.netdev_max_backlog is too small",
                self.port_dropped
            );
            self.validity.warn(Reason::new("path_backlog", text));
        }
        if self.delay_error_us.p99 > LATE_US {
            let text = format!(
                "packets left the path emulator {:.0} us late (p99), more than {LATE_US} us: give it a core of its own",
                self.delay_error_us.p99
            );
            self.validity.warn(Reason::new("path_late", text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_we_drop_makes_a_report_invalid_and_what_was_asked_for_does_not() {
        let with = |change: fn(&mut Report)| {
            let asked =
                Counts { packets_in: 9, lost: 5, queue_dropped: 3, delivered: 1, ..Counts::default() };
            let mut report = Report { directions: vec![asked], ..Report::default() };
            change(&mut report);
            report.decide_validity();
            let codes = |reasons: &[Reason]| reasons.iter().map(|r| r.code.clone()).collect::<Vec<_>>();
            (report.validity.valid, codes(&report.validity.reasons), codes(&report.validity.warnings))
        };
        let none: Vec<String> = Vec::new();
        assert_eq!(with(|_| ()), (true, none.clone(), none.clone()));
        let dropped = (false, vec!["path_dropped".to_owned()], none.clone());
        assert_eq!(with(|r| r.socket_dropped = 1), dropped);
        assert_eq!(with(|r| r.directions[0].our_drops = 1), dropped);
        let oversized = (false, vec!["path_oversized".to_owned()], none.clone());
        assert_eq!(with(|r| (r.oversized, r.directions[0].our_drops) = (2, 2)), oversized);
        // A host that does not keep up is not the emulator.
        let backlog = (true, none.clone(), vec!["path_backlog".to_owned()]);
        assert_eq!(with(|r| r.port_dropped = 1), backlog);
        let late = (true, none, vec!["path_late".to_owned()]);
        assert_eq!(with(|r| r.delay_error_us.p99 = 201.0), late);
    }
}
