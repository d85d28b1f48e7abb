//! The registry of parameters: the conditions of a trial, which say to what cell it belongs. Code that writes them and code that reads
//! them use these items, so a name that is written wrong does not compile. `docs/metrics.md` has them as a table.

use std::fmt::Write as _;

/// A parameter of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    name: &'static str,
    /// What it is, for people.
    pub title: &'static str,
}

impl Parameter {
    /// The name, in snake case: `zone_size`.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Whether this is its name, or the one that durations had in older run directories: `deadline_s`.
    pub fn is(self, name: &str) -> bool {
        name.strip_prefix(self.name).is_some_and(|rest| matches!(rest, "" | "_s"))
    }
}

macro_rules! parameters {
    ($($id:ident $name:literal $title:literal;)*) => {
        $(
            #[doc = concat!($title, ".")]
            pub const $id: Parameter = Parameter { name: $name, title: $title };
        )*
        const ALL: &[Parameter] = &[$($id),*];
    };
}

parameters! {
    EXPERIMENT "experiment" "name of the experiment";
    MEASURE "measure" "what was measured: `latency`, `throughput`, `peak`, `memory` …";
    SERVER "server" "label of the server";
    KIND "kind" "kind of the server: `bind`, `nsd` …";
    VERSION "version" "version of the server";
    PROGRAM "program" "program of the server, where it was named";
    VARIANT "variant" "variant of the experiment";
    PUBLISHED "published" "published tables that the trial has values for";
    FAMILY "family" "family of the zone, or its file";
    ZONE_SIZE "zone_size" "delegations of the zone";
    ZONE_MADE "zone_made" "how the zone of a scenario is made";
    ZONE_BYTES "zone_bytes" "octets of the zone file";
    SIGNED "signed" "`no`, or how the zone is signed";
    TRAFFIC "traffic" "profile of the queries, or their file";
    TRANSPORT "transport" "transport of the queries";
    WORKERS "workers" "CPUs of the server, each with a worker, where the experiment tries several numbers";
    SET "set" "set of hosts that made the trial, where several made trials at the same time";
    UDP_SIZE "udp_size" "largest UDP answer that the server may send, in octets";
    RECEIVE_BUFFER "receive_buffer" "receive buffer that all servers were given, in octets";
    QUERIED "queried" "secondaries that are asked: `all`, or absent for the one that is measured";
    GENERATORS "generators" "hosts that send";
    ADDRESSES "addresses" "addresses that each of them sends from";
    RATE "rate" "queries offered a second";
    WINDOW "window" "queries or updates in flight, or the time in which the power is cut";
    DURATION "duration" "length of the load";
    DEADLINE "deadline" "time after which an answer counts as lost";
    LOSS_GOAL "loss_goal" "share of queries that may be lost below the knee";
    TRIAL_DURATION "trial_duration" "length of a load of the search";
    DURATION_SUM "duration_sum" "length of all loads by which one rate is decided";
    BUDGET "budget" "time that the search may take";
    QUERIES "queries" "queries offered a second beside batches of updates";
    UPDATES "updates" "updates offered a second beside what was measured";
    COUNT "count" "updates sent, or queries of a load that ends with them";
    MIX "mix" "mix of the updates";
    SHARE "share" "share of the zone that changes";
    BATCHES "batches" "batches of updates in which it changes";
    VERSIONS "versions" "versions of a real zone";
    EVERY "every" "time between two versions";
    SIGNING "signing" "who signs what changes";
    PRIMARY "primary" "label of the primary";
    PRIMARY_KIND "primary_kind" "kind of the primary";
    SECONDARIES "secondaries" "number of secondaries";
    TIMERS "timers" "timers of the distribution: `default` or `tuned`";
    AWAY "away" "time for which a secondary was stopped";
    PATH "path" "path between primary and secondaries";
    PATH_RTT_MS "path_rtt_ms" "round trip of the path, in milliseconds";
    PATH_LOSS "path_loss" "share of packets that the path loses";
    SYNCS "syncs" "when the server syncs updates to its disk";
    CUTS "cuts" "power cuts";
    KILLS "kills" "kills of the secondary";
    FIRST_NOT_COVERED "first_not_covered" "the first answer before the sync of what it acknowledges";
    FIRST_MIXED_BY_QUERY "first_mixed_by_query" "the first pair of names of which one was new and the other old";
    FIRST_HALF_BY_TRANSFER "first_half_by_transfer" "the first transferred zone with a half of a change";
    TEST "test" "test of the machine: `memory latency`, `STREAM` …";
    CASE "case" "case of a test of the machine";
    WORKING_SET "working_set" "octets that a test of the machine works on";
    THREADS "threads" "threads that a test of the machine runs at the same time";
    NOT_BACK "not_back" "why the server did not serve again";
}

/// All of them, in the order of the registry.
pub fn all() -> impl Iterator<Item = Parameter> {
    ALL.iter().copied()
}

/// The parameter of a name; none where there is none.
pub fn find(name: &str) -> Option<Parameter> {
    ALL.iter().find(|parameter| parameter.is(name)).copied()
}

/// The registry as a table of Markdown.
pub fn markdown() -> String {
    let mut text = String::from("| parameter | what it is |\n|---|---|\n");
    for parameter in ALL {
        writeln!(text, "| `{}` | {} |", parameter.name, parameter.title).expect("a String takes it");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_of_one_parameter() {
        for one in ALL {
            assert_eq!(ALL.iter().filter(|p| p.is(one.name)).count(), 1, "{}", one.name);
        }
        assert!(DEADLINE.is("deadline_s"));
        assert!(!PATH.is("path_loss"));
    }
}
