//! Could the sender offer what it claims? Nothing here looks at what the server did.

use super::sender::SenderReport;
use super::spec::SendSpec;
use super::tally::Tally;
use engine::Stall;
use measure::clock::SECOND;
use measure::sender_faults::{SenderFaults, Unsent, share};
use measure::units::grouped;
use measure::{Nanos, Reason, Validity};
use net::transport::Troubles;

/// Evidence about our own side.
pub(super) struct Evidence<'a> {
    pub spec: &'a SendSpec,
    pub tally: &'a Tally,
    pub did: &'a SenderReport,
    pub troubles: Troubles,
    pub start: Nanos,
    pub steal: f64,
    pub recv_buffer: usize,
    pub across_clients: u64,
}

/// In sentences.
const FAULTS: SenderFaults = SenderFaults { name: "sender", sends: "messages", pin: "--cpu" };

/// Judges a run.
pub(super) fn decide(e: &Evidence<'_>) -> Validity {
    let mut v = Validity::default();
    sending(e, &mut v);
    running(e, &mut v);
    order(e, &mut v);
    let drops = e.troubles.socket_drops;
    if drops > 0 {
        let text = format!(
            "our own receive buffers of {} bytes were full and dropped {} datagrams: they look like losses of the server; give more \
             --clients or raise net.core.rmem_max",
            grouped(e.recv_buffer as u64),
            grouped(drops)
        );
        v.reject(Reason::new("socket_buffer_too_small", text));
    }
    if e.did.gave_up {
        let text = format!(
            "no valid answer came for {} s while {} messages waited, so it ended before the file did (--patience)",
            e.spec.patience / SECOND,
            grouped(e.tally.in_flight + e.tally.lost)
        );
        v.warn(Reason::new("server_silent", text));
    } else if e.did.cut_short {
        v.warn(Reason::new(
            "cut_short",
            format!("the run was stopped after {} messages", grouped(e.tally.offered)),
        ));
    }
    v
}

fn sending(e: &Evidence<'_>, v: &mut Validity) {
    let t = e.tally;
    let unsent = Unsent { overdue: t.unsent_overdue, ids: t.unsent_ids, refused: t.unsent_refused };
    v.reject_for(FAULTS.unsent(unsent, t.offered));
    if t.unsent_refused > 0 {
        let why = match e.troubles.send_errno {
            0 => String::new(),
            errno => format!(" (last: {})", std::io::Error::from_raw_os_error(errno)),
        };
        let text = format!(
            "the kernel refused {} messages{why}, which are missing from the stream: what comes after them may not fit the zone",
            grouped(t.unsent_refused)
        );
        v.warn(Reason::new("send_errors", text));
    }
    if e.did.id_waits > 0 && !matches!(e.spec.pace, measure::Pace::Flood) {
        v.warn(Reason::new(
            "clients_too_few",
            "the ids of a client were all waiting at times: give more --clients",
        ));
    }
    v.reject_for(FAULTS.late(&t.pacing_error, e.spec.pacing_limit));
}

fn running(e: &Evidence<'_>, v: &mut Validity) {
    let Stall { at, length } = e.did.stall;
    v.reject_for(FAULTS.stalled(length, at.saturating_sub(e.start) as f64 / SECOND as f64));
    let waited = share(e.did.scheduling.waited, e.did.length);
    v.reject_for(FAULTS.preempted(waited, e.spec.is_paced(), e.did.scheduling.involuntary));
    v.warn_for(FAULTS.stolen(e.steal));
    v.reject_for(SenderFaults::clock_stepped(e.did.clock_step));
}

/// Warns where updates may arrive in another order than the file's.
fn order(e: &Evidence<'_>, v: &mut Validity) {
    if e.across_clients > 0 {
        let text = format!(
            "{} transactions change names that belong to several clients: between those the order of the file is not kept; give \
             --clients 1, or make the file with --batch 1",
            grouped(e.across_clients)
        );
        v.warn(Reason::new("order_across_clients", text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Pace;
    use measure::limits::STALL_LIMIT;
    use net::scheduling::Scheduling;

    #[test]
    fn the_servers_doing_is_never_a_reason_and_ours_has_a_name() {
        let spec = SendSpec::new("127.0.0.1:53".parse().unwrap(), "f", Pace::Closed { window: 1 });
        let did = || SenderReport { length: 10 * SECOND, ..SenderReport::default() };
        let codes = |tally: Tally, did: SenderReport, troubles: Troubles| {
            let evidence = Evidence {
                spec: &spec,
                tally: &tally,
                did: &did,
                troubles,
                start: 0,
                steal: 0.0,
                recv_buffer: 1,
                across_clients: 0,
            };
            let v = decide(&evidence);
            let codes: Vec<_> = v.reasons.iter().chain(&v.warnings).map(|r| r.code.clone()).collect();
            (v.valid, codes.join(" "))
        };
        let fine =
            Tally { offered: 100, sent: 100, lost: 90, mismatched: 5, bad_tsig: 7, ..Tally::default() };
        assert_eq!(codes(fine.clone(), did(), Troubles::default()), (true, String::new()));
        let case = |tally: Tally, did: SenderReport| codes(tally, did, Troubles::default());
        let overdue = Tally { unsent_overdue: 1, ..fine.clone() };
        assert_eq!(case(overdue, did()), (false, "unsent".into()));
        let mut slow = fine.clone();
        slow.pacing_error.record_n(SECOND / 1000, 50);
        assert_eq!(case(slow, did()), (false, "pacing_error".into()));
        let stalled = SenderReport { stall: Stall { at: SECOND, length: STALL_LIMIT + 1 }, ..did() };
        assert_eq!(case(fine.clone(), stalled), (false, "generator_stalled".into()));
        let preempted = SenderReport { scheduling: Scheduling { waited: SECOND, involuntary: 9 }, ..did() };
        assert_eq!(case(fine.clone(), preempted), (false, "generator_preempted".into()));
        assert_eq!(
            case(fine.clone(), SenderReport { clock_step: -6_000_000, ..did() }),
            (false, "clock_stepped".into())
        );
        assert_eq!(case(fine.clone(), SenderReport { cut_short: true, ..did() }), (true, "cut_short".into()));
        let gave_up = SenderReport { cut_short: true, gave_up: true, ..did() };
        assert_eq!(case(fine.clone(), gave_up), (true, "server_silent".into()));
        let drops = Troubles { socket_drops: 1, ..Troubles::default() };
        assert_eq!(codes(fine, did(), drops), (false, "socket_buffer_too_small".into()));
    }
}
