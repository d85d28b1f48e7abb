//! Could the generator offer what it claims? Thresholds and sentences of every reason.
//!
//! Nothing here looks at what the server did: loss, late and wrong answers are the outcome, not the validity.

use crate::Tally;
use engine::Stall;
use measure::clock::SECOND;
use measure::limits::{MEMORY_LIMIT, PACING_LIMIT, UNSENT_LIMIT};
use measure::sender_faults::{SenderFaults, Unsent, ms, share};
use measure::units::grouped;
use measure::{Nanos, Reason, Validity};
use net::scheduling::Scheduling;
use net::transport::Troubles;
use rack::server_watch::OtherPrograms;

/// Evidence about our own side.
pub(crate) struct Evidence<'a> {
    pub tally: &'a Tally,
    pub offered: u64,
    pub paced: bool,
    pub pacing_limit: Nanos,
    pub troubles: Troubles,
    pub stall: Stall,
    /// When the measured part began.
    pub base: Nanos,
    pub scheduling: Scheduling,
    /// Other generators of the same load have its cores too.
    pub shared_cpus: bool,
    /// Time that all workers together spent sending.
    pub worked: Nanos,
    /// From the start to the end.
    pub passed: Nanos,
    pub steal: f64,
    /// For which some program of the machine waited for memory.
    pub memory_stall: Nanos,
    /// The share of the server's cores that other programs took, where its processes are known.
    pub others: Option<OtherPrograms>,
    pub clock_step: i64,
    pub id_waits: u64,
    /// Queries that should have had no checksum or a wrong one, and were sent with the right one.
    pub checksums_right: u64,
    pub flows: u32,
    pub slots: usize,
    pub deadline: Nanos,
    pub recv_buffer_asked: usize,
    pub recv_buffer: usize,
    pub cut_short: bool,
}

/// In sentences.
const FAULTS: SenderFaults = SenderFaults { name: "generator", sends: "queries", pin: "--cpus" };

/// Judges a trial.
pub(crate) fn decide(e: &Evidence<'_>) -> Validity {
    let mut v = Validity::default();
    sending(e, &mut v);
    looking(e, &mut v);
    running(e, &mut v);
    receiving(e, &mut v);
    if e.cut_short {
        v.warn(Reason::new(
            "cut_short",
            format!(
                "the run was stopped after {} of its queries; {} were still waiting for their answers",
                grouped(e.offered),
                grouped(e.tally.in_flight)
            ),
        ));
    }
    v
}

fn sending(e: &Evidence<'_>, v: &mut Validity) {
    let t = e.tally;
    let unsent = Unsent { overdue: t.unsent_overdue, ids: t.unsent_ids, refused: t.unsent_refused };
    v.reject_for(FAULTS.unsent(unsent, e.offered));
    if t.unsent_ids > 0 || e.id_waits > 0 {
        let text = format!(
            "{} were all waiting for answers {}: {} flows hold {} ids each, and an id is held for up to {}; give more \
             --flows or a shorter --deadline",
            "the ids of every flow",
            if e.paced {
                format!("{} times when a query was due", grouped(t.unsent_ids))
            } else {
                "at times".into()
            },
            e.flows,
            grouped(e.slots as u64),
            ms(e.deadline),
        );
        let reason = Reason::new("flows_too_few", text);
        // Without a pace nothing was promised: it only sent less than it could have.
        if e.paced { v.reject(reason) } else { v.warn(reason) }
    }
    let refused = e.troubles.refused();
    if refused > 0 {
        let text = format!(
            "the kernel refused to send {} queries: {} for want of buffers, {} because a send buffer was full, {} for \
             other reasons{}; offer less, or look at the route to the target",
            grouped(refused),
            grouped(e.troubles.send_no_buffers),
            grouped(e.troubles.send_again),
            grouped(e.troubles.send_other),
            match e.troubles.send_errno {
                0 => String::new(),
                errno => format!(" (last: {})", std::io::Error::from_raw_os_error(errno)),
            }
        );
        let reason = Reason::new("send_errors", text);
        if share(refused, e.offered) > UNSENT_LIMIT { v.reject(reason) } else { v.warn(reason) }
    }
    v.reject_for(FAULTS.late(&t.pacing_error, e.pacing_limit).filter(|_| e.paced));
}

/// Queries that were not sent as they should look.
fn looking(e: &Evidence<'_>, v: &mut Validity) {
    if e.checksums_right > 0 {
        let text = format!(
            "{} queries should have had no UDP checksum or a wrong one, and were sent with the right one: sockets make no \
             others (--backend xdp does), IPv6 requires one, and a window would wait for the answers to wrong ones",
            grouped(e.checksums_right)
        );
        v.warn(Reason::new("checksums_right", text));
    }
}

fn running(e: &Evidence<'_>, v: &mut Validity) {
    v.reject_for(FAULTS.stalled(e.stall.length, (e.stall.at as f64 - e.base as f64) / SECOND as f64));
    let waited = share(e.scheduling.waited, e.worked);
    // Where only rates and losses matter, what counts is how late queries left; that is looked at by itself.
    let timed = e.paced && e.pacing_limit <= PACING_LIMIT;
    match FAULTS.preempted(waited, timed, e.scheduling.involuntary) {
        Some(_) if e.shared_cpus => v.warn(Reason::new(
            "generators_share_cores",
            format!(
                "generators share cores: this one waited for its own {:.1} % of the time, so that the rate may be theirs and not the \
                 server's",
                waited * 100.0
            ),
        )),
        preempted => v.reject_for(preempted),
    }
    v.warn_for(FAULTS.stolen(e.steal));
    v.reject_for(SenderFaults::clock_stepped(e.clock_step));
    machine(e, v);
}

/// Reasons that lie in the machine: it held up the server, or both sides.
fn machine(e: &Evidence<'_>, v: &mut Validity) {
    let stalled = share(e.memory_stall, e.passed);
    if stalled > MEMORY_LIMIT {
        v.reject(Reason::new(
            "memory_pressure",
            format!(
                "programs of this machine waited for memory for {:.1} % of the time (at most {} % is valid): pages had to be \
                 reclaimed or read again; free memory, or raise the limit of its control group",
                stalled * 100.0,
                MEMORY_LIMIT * 100.0
            ),
        ));
    }
    if let Some(others) = e.others.filter(OtherPrograms::disturbed) {
        let text = format!("{}; give it cores that nothing else uses", others.text());
        v.reject(Reason::new("server_core_shared", text));
    }
}

fn receiving(e: &Evidence<'_>, v: &mut Validity) {
    let drops = e.troubles.socket_drops;
    if drops > 0 {
        v.reject(Reason::new(
            "socket_buffer_too_small",
            format!(
                "our own receive buffers of {} bytes for each of {} flows were full and dropped {} datagrams: they look \
                 like losses of the server; give a larger buffer, more --flows, or raise net.core.rmem_max",
                grouped(e.recv_buffer as u64),
                e.flows,
                grouped(drops),
            ),
        ));
    }
    // The smallest buffer that the kernel gives is larger than nothing: compare with what was asked for.
    if e.recv_buffer < e.recv_buffer_asked && drops == 0 {
        v.warn(Reason::new(
            "socket_buffer_limited",
            format!(
                "the kernel granted receive buffers of {} bytes where {} were asked for (nothing was dropped): raise \
                 net.core.rmem_max, or run as root",
                grouped(e.recv_buffer as u64),
                grouped(e.recv_buffer_asked as u64),
            ),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::limits::{PACING_LIMIT, STALL_LIMIT};

    fn evidence(tally: &Tally) -> Evidence<'_> {
        Evidence {
            tally,
            offered: 10_000,
            paced: true,
            pacing_limit: PACING_LIMIT,
            troubles: Troubles::default(),
            stall: Stall::default(),
            base: SECOND,
            scheduling: Scheduling::default(),
            shared_cpus: false,
            worked: 10 * SECOND,
            passed: 10 * SECOND,
            steal: 0.0,
            memory_stall: 0,
            others: None,
            clock_step: 0,
            id_waits: 0,
            checksums_right: 0,
            flows: 16,
            slots: 4096,
            deadline: 4 * SECOND,
            recv_buffer_asked: 1000,
            recv_buffer: 1000,
            cut_short: false,
        }
    }

    fn codes(v: &Validity) -> (Vec<&str>, Vec<&str>) {
        let names = |r: &'_ [Reason]| r.iter().map(|r| r.code.clone()).collect::<Vec<_>>();
        let leak = |v: Vec<String>| v.into_iter().map(|s| &*s.leak()).collect();
        (leak(names(&v.reasons)), leak(names(&v.warnings)))
    }

    #[test]
    fn the_servers_doing_is_never_a_reason() {
        let tally = Tally {
            sent: 10_000,
            answered: 10,
            lost: 9990,
            late: 500,
            mismatched: 9000,
            duplicates: 77,
            unexpected: 5,
            ..Tally::default()
        };
        assert_eq!(decide(&evidence(&tally)), Validity::default());
    }

    #[test]
    fn each_fault_of_ours_has_its_name() {
        let mut slow = Tally::default();
        slow.pacing_error.record_n(PACING_LIMIT * 3, 100);
        let few = Tally { unsent_ids: 1, ..Tally::default() };
        let overdue = Tally { unsent_overdue: 11, ..Tally::default() };
        let fine = Tally::default();
        let troubles = |f: fn(&mut Troubles)| {
            let mut t = Troubles::default();
            f(&mut t);
            t
        };
        let refused = Tally { unsent_refused: 100, ..Tally::default() };
        let cases: Vec<(Evidence<'_>, &[&str], &[&str])> = vec![
            (evidence(&overdue), &["unsent"], &[]),
            (evidence(&few), &["flows_too_few"], &[]),
            (evidence(&slow), &["pacing_error"], &[]),
            (Evidence { paced: false, id_waits: 4, ..evidence(&slow) }, &[], &["flows_too_few"]),
            (
                Evidence { stall: Stall { at: 3 * SECOND, length: STALL_LIMIT + 1 }, ..evidence(&fine) },
                &["generator_stalled"],
                &[],
            ),
            (
                Evidence { scheduling: Scheduling { waited: SECOND, involuntary: 5 }, ..evidence(&fine) },
                &["generator_preempted"],
                &[],
            ),
            (
                Evidence {
                    scheduling: Scheduling { waited: SECOND, involuntary: 5 },
                    shared_cpus: true,
                    ..evidence(&fine)
                },
                &[],
                &["generators_share_cores"],
            ),
            (Evidence { steal: 0.02, ..evidence(&fine) }, &[], &["steal"]),
            (Evidence { memory_stall: SECOND, ..evidence(&fine) }, &["memory_pressure"], &[]),
            (
                Evidence {
                    others: Some(OtherPrograms { waited: 0.1, used: 0.1, exact: true }),
                    ..evidence(&fine)
                },
                &["server_core_shared"],
                &[],
            ),
            (Evidence { clock_step: -6_000_000, ..evidence(&fine) }, &["clock_stepped"], &[]),
            (
                Evidence { troubles: troubles(|t| t.socket_drops = 1), ..evidence(&fine) },
                &["socket_buffer_too_small"],
                &[],
            ),
            (
                Evidence { troubles: troubles(|t| t.send_no_buffers = 100), ..evidence(&refused) },
                &["unsent", "send_errors"],
                &[],
            ),
            (Evidence { troubles: troubles(|t| t.send_again = 1), ..evidence(&fine) }, &[], &["send_errors"]),
            (Evidence { recv_buffer: 10, ..evidence(&fine) }, &[], &["socket_buffer_limited"]),
            (Evidence { cut_short: true, ..evidence(&fine) }, &[], &["cut_short"]),
        ];
        for (e, reasons, warnings) in cases {
            let v = decide(&e);
            assert_eq!(codes(&v), (reasons.to_vec(), warnings.to_vec()));
            assert_eq!(v.valid, reasons.is_empty());
        }
    }

    #[test]
    fn just_within_the_limits_is_valid() {
        let mut tally = Tally { unsent_overdue: 10, ..Tally::default() };
        tally.pacing_error.record_n(PACING_LIMIT - 200, 100);
        let e = Evidence {
            stall: Stall { at: 0, length: STALL_LIMIT },
            scheduling: Scheduling { waited: SECOND / 10, involuntary: 1000 },
            steal: 0.01,
            clock_step: 5_000_000,
            memory_stall: SECOND / 10,
            others: Some(OtherPrograms { waited: 0.01, used: 0.9, exact: true }),
            ..evidence(&tally)
        };
        assert_eq!(decide(&e), Validity::default());
        let mut hiccup = Tally::default();
        hiccup.pacing_error.record_n(1000, 50);
        hiccup.pacing_error.record_n(9_000_000, 9);
        assert_eq!(decide(&evidence(&hiccup)), Validity::default(), "nine late queries of a short trial");
    }
}
