//! A trace as a table: a row for each query, beside its answer.
//!
//! A query without an answer has NULL in the answer's columns; an answer without a query has no row. Answers are found by [`crate::pair`].
//!
//! The columns have the names of ENTRADA's, SIDN Labs' warehouse of DNS traffic, where it has them: the schema
//! `src/main/resources/avro/dns-query.avsc` of its repository, SIDN/entrada (Wullink, Moura, Müller and Hesselman,
//! "ENTRADA: a high-performance network traffic data streaming warehouse", NOMS 2016). What differs:
//!
//! - `time` is a timestamp in microseconds where ENTRADA has milliseconds since 1970 in an integer; `time_ns` has the
//!   nanoseconds. `proc_time` and `tcp_hs_rtt` are ENTRADA's in milliseconds; `proc_time_ns` and `tcp_hs_rtt_ns` exact.
//! - `rcode` is NULL without an answer (there -1), and has the upper bits of the OPT record.
//! - `qdcount` is the query's (there the answer's where there is one).
//! - `labels` is NULL without a question (there 0). `req_ip_df` and `res_ip_df` are NULL where there is no such bit to be
//!   known: over IPv6 and over TCP.
//! - Left out, as a capture does not say them: `country`, `asn`, `asn_organisation` and the like of client subnets,
//!   `pub_resolver`, `server_location`; `domainname`, which wants the public suffix list of the day; `pcap_file`, as all
//!   captures are one trace; `edns_ping`, an option that never got a number.
//! - Ours alone: the columns that end in `_ns`, those of the answer that begin with `res_` but for `res_len` and
//!   `res_ip_df`, `req_checksum`, `edns_ext_error`.
//!
//! [`crate::import`] writes the table to files, and [`Batches`] gives some of its columns, and some of its rows, as batches of
//! Arrow.

mod batches;
pub(crate) mod columns;
pub(crate) mod row;

pub use batches::{Batches, Filter};
pub use columns::{Kind, columns, schema};

use crate::pair::Pairs;
use crate::read::Message;
use row::{Parts, Row};

/// Makes rows of messages.
pub(crate) struct Rows {
    parts: Parts,
    filter: Filter,
    /// Queries that wait for their answers; those without a row are filtered out.
    pairs: Pairs<Option<Box<Row>>>,
    /// Rows to which nothing is added any more.
    pub ready: Vec<Row>,
    /// Queries with an answer, where answers are looked for.
    pub answered: u64,
    /// Queries without one.
    pub unanswered: u64,
    /// Answers without a query.
    pub unsolicited: u64,
}

impl Rows {
    pub fn new(parts: Parts, filter: Filter) -> Self {
        let (pairs, ready) = (Pairs::default(), Vec::new());
        Self { parts, filter, pairs, ready, answered: 0, unanswered: 0, unsolicited: 0 }
    }

    /// Adds a message of the trace.
    pub fn add(&mut self, message: &Message<'_>) {
        let is_query = !message.header().qr();
        if !self.parts.answer {
            if is_query && self.filter.takes(message) {
                self.ready.push(Row::new(message, self.parts));
            }
        } else if is_query {
            let (ready, unanswered) = (&mut self.ready, &mut self.unanswered);
            self.pairs.expire(message.at, |row| {
                ready.extend(row.map(|row| *row));
                *unanswered += 1;
            });
            let row = self.filter.takes(message).then(|| Box::new(Row::new(message, self.parts)));
            self.pairs.query(message, row);
        } else if let Some((row, latency)) = self.pairs.answer(message) {
            if let Some(mut row) = row {
                row.answer(message, latency, self.parts);
                self.ready.push(*row);
            }
            self.answered += 1;
        } else {
            self.unsolicited += 1;
        }
    }

    /// No more answers will come.
    pub fn give_up(&mut self) {
        let (ready, unanswered) = (&mut self.ready, &mut self.unanswered);
        self.pairs.finish(|row| {
            ready.extend(row.map(|row| *row));
            *unanswered += 1;
        });
    }
}
