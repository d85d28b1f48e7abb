//! Some rows and columns of captures, as batches of Arrow.

use super::{Rows, columns};
use crate::read::{self, Event, Message, Reader};
use arrow::datatypes::Schema;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use measure::Nanos;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;
use wire::{name, question};

/// The number of packets after which a batch is given, also where it has few rows or none.
const STEP: u64 = 1 << 16;

/// The queries that are wanted. Every query that has all of this has a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// At this time or later, in nanoseconds since 1970.
    pub from: Option<Nanos>,
    /// At this time or earlier.
    pub to: Option<Nanos>,
    /// From this address.
    pub client: Option<IpAddr>,
    /// For this name, on the wire, or one below it; in any case.
    pub under: Option<Vec<u8>>,
}

impl Filter {
    /// Whether a query is wanted.
    pub(super) fn takes(&self, query: &Message<'_>) -> bool {
        let Self { from, to, client, under } = self;
        from.is_none_or(|from| query.at >= from)
            && to.is_none_or(|to| query.at <= to)
            && client.is_none_or(|client| query.from.ip() == client)
            && under.as_ref().is_none_or(|zone| {
                question::parse(query.bytes).is_some_and(|asked| name::is_under(asked.qname, zone))
            })
    }
}

/// Reads captures as one trace, and gives rows.
pub struct Batches {
    reader: Reader,
    rows: Rows,
    columns: Vec<usize>,
    schema: Arc<Schema>,
    size: usize,
    /// How many of the rows that are ready were given.
    given: usize,
    over: bool,
}

impl Batches {
    /// The columns with these numbers, in this order, of the queries that `filter` takes; `size` rows in a batch. What no column
    /// needs is not looked for: names, EDNS, answers.
    ///
    /// # Panics
    /// Where there is no such column.
    pub fn new(reader: Reader, columns: &[usize], filter: &Filter, size: usize) -> Self {
        let schema = columns::schema().project(columns).expect("there are such columns");
        Self {
            reader,
            rows: Rows::new(columns::parts(columns), filter.clone()),
            columns: columns.to_vec(),
            schema: Arc::new(schema),
            size: size.max(1),
            given: 0,
            over: false,
        }
    }

    /// The columns.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Packets read so far, those of other parts included.
    pub fn seen(&self) -> u64 {
        self.reader.seen()
    }

    /// The next rows, possibly none; `None` at the end.
    ///
    /// # Errors
    /// As [`Reader::next`].
    #[allow(clippy::should_implement_trait, reason = "an iterator would give a result in an option")]
    pub fn next(&mut self) -> Result<Option<RecordBatch>, read::Error> {
        if self.given == self.rows.ready.len() {
            self.rows.ready.clear();
            self.given = 0;
        }
        let step = self.reader.seen() + STEP;
        while !self.over && self.rows.ready.len() < self.given + self.size && self.reader.seen() < step {
            match self.reader.next_event()? {
                Some(Event::Message(message)) => self.rows.add(&message),
                Some(_) => {}
                None => {
                    self.rows.give_up();
                    self.over = true;
                }
            }
        }
        let rows = &self.rows.ready[self.given..];
        if self.over && rows.is_empty() {
            return Ok(None);
        }
        let rows = &rows[..self.size.min(rows.len())];
        let arrays = columns::arrays(rows, self.columns.iter().copied()).collect();
        let sized = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &sized);
        self.given += rows.len();
        Ok(Some(batch.expect("the columns of the schema")))
    }
}
