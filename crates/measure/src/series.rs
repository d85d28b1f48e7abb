//! The registry of figures by the second: what the series of a trial and the progress events of loads and updates have, beside metrics of
//! that second alone, which are those of [`metrics`](crate::metrics). In a search each load takes the place of a second
//! ([`Scope::Search`](metrics::Scope::Search)), and so does each power cut.

use crate::metrics::Better::{self, Less, Neither};
use crate::metrics::{self, Definition, Family, describe_in, families, registry, table};
use serde_json::{Map, Value};

/// What the processes of one side take in each second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processes {
    /// Share of a core.
    pub cpu: Definition,
    /// Resident set size.
    pub rss: Definition,
    /// Times that they gave up their core.
    pub switches: Definition,
    /// Times that their core was taken from them.
    pub preemptions: Definition,
    /// Octets read from disks.
    pub disk_read: Definition,
    /// Octets written to disks.
    pub disk_written: Definition,
}

impl Processes {
    const fn all(self) -> [Definition; 6] {
        [self.cpu, self.rss, self.switches, self.preemptions, self.disk_read, self.disk_written]
    }
}

macro_rules! processes {
    ($($id:ident $name:literal $whose:literal;)*) => {
        $(
            #[doc = concat!("The processes of ", $whose, ".")]
            pub const $id: Processes = Processes {
                cpu: Definition::new(concat!($name, "_cpu"), "%", Neither, concat!("share of a core that ", $whose, " took")),
                rss: Definition::new(concat!($name, "_rss"), "B", Less, concat!("RSS of ", $whose)),
                switches: Definition::new(
                    concat!($name, "_switches"), "1/s", Neither, concat!("times a second that ", $whose, " gave up a core")
                ),
                preemptions: Definition::new(
                    concat!($name, "_preemptions"), "1/s", Less, concat!("times a second that a core was taken from ", $whose)
                ),
                disk_read: Definition::new(
                    concat!($name, "_disk_read"), "B/s", Neither, concat!("octets a second that ", $whose, " read from disks")
                ),
                disk_written: Definition::new(
                    concat!($name, "_disk_written"), "B/s", Neither, concat!("octets a second that ", $whose, " wrote to disks")
                ),
            };
        )*
        const PROCESSES: &[Processes] = &[$($id),*];
    };
}

processes! {
    SERVER "server" "the server";
    GENERATOR "generator" "the generators";
}

registry! {
    FAILED "failed" "1" Less "answers with SERVFAIL or REFUSED";
    WRONG "wrong" "1" Less "answers that were mismatched, duplicate or unexpected";
    DROPS "drops" "1" Less "packets dropped on the generator's side";
    IN_FLIGHT "in_flight" "1" Neither "queries or updates that wait for their answers at the second's end";
    OPEN "open" "1" Neither "TCP connections open at the second's end";
    STALL_MAX "stall_max" "us" Less "longest time that the generator's loop stood still";
    BATCH "batch" "1" Neither "number of the batch of updates that is sent";
    BACKLOG_DROPS "backlog_drops" "1" Less "packets dropped as a core's backlog was full, on the whole machine";

    // The loads of a search, and those with a window: the number of the load stands for the second.
    SEARCH_DURATION "search_duration" "s" Neither "length of a load of the search";
    SEARCH_SERVER_DROPS "search_server_drops" "1" Less "packets dropped on the server's host in a load of the search";
    SEARCH_VALID "search_valid" "1" Neither "1: the load of the search is valid";
    SEARCH_DISTURBED "search_disturbed" "1" Neither "1: the machine disturbed the load of the search";
    SEARCH_PEAK_FRACTION "search_peak_fraction" "1" Neither "share of the greatest rate so far that a load of the search offers";
    WINDOW_ANSWERED_QPS "window_answered_qps" "1/s" More "queries answered a second in a load with a window, sustained";
    WINDOW_COUNTS "window_counts" "1" Neither "1: the load with a window counts for the capacity";
    WINDOW_SERVER_IDLE "window_server_idle" "%" Neither "share of the load with a window in which the server's cores were idle";
}

families! {
    USER_OF_CORE "user_core" "" "%" Neither "time of a core in programs";
    SYSTEM_OF_CORE "system_core" "" "%" Neither "time of a core in the kernel";
    SOFTIRQ_OF_CORE "softirq_core" "" "%" Neither "time of a core in the kernel's network work";
    STEAL_OF_CORE "steal_core" "" "%" Less "time of a core that the hypervisor took";
}

/// Every figure that is not of a family.
fn single() -> impl Iterator<Item = Definition> {
    SINGLE.iter().copied().chain(PROCESSES.iter().flat_map(|processes| processes.all()))
}

/// The unit and title of a figure by its name, also of a metric's; none where no registry has it.
pub fn describe(name: &str) -> Option<(&'static str, &'static str)> {
    describe_in(single(), FAMILIES.iter().copied(), name).or_else(|| metrics::describe(name))
}

/// Figures of a second, as an event has them.
pub fn values(figures: impl IntoIterator<Item = (Definition, f64)>) -> Value {
    let named = figures.into_iter().map(|(figure, value)| (figure.name(), value.into()));
    Value::Object(named.collect::<Map<String, Value>>())
}

/// The registry as a table of Markdown.
pub fn markdown() -> String {
    table(single(), FAMILIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_found_by_its_name() {
        assert_eq!(describe("answered_qps").unwrap().0, "1/s");
        assert_eq!(describe("server_cpu").unwrap().0, "%", "a metric of this name is in seconds");
        assert_eq!(describe("coordinator_cpu").unwrap().1, metrics::COORDINATOR_CPU.title);
        assert_eq!(describe("softirq_core12").unwrap().0, "%");
        assert_eq!(describe("search_lost_socket_full").unwrap().0, "1");
        assert_eq!(describe("answer"), None);
    }

    #[test]
    fn values_are_read_by_the_figure_that_they_are_of() {
        let values = values([(FAILED, 2.0), (metrics::SENT_QPS, 5.0)]);
        assert_eq!(FAILED.among(&values), Some(2.0));
        assert_eq!(metrics::SENT_QPS.among(&values), Some(5.0));
        assert_eq!(WRONG.among(&values), None);
    }
}
