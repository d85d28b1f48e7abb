//! Tables of captures and of run directories: what they consist of is plain data, which any machine can read.
//!
//! A [`Scan`] is an operator over the numbers of its parts: each row of its input is the number of a part to be read. The schedulers of a
//! cluster divide rows that are in memory among their tasks. They do not divide a table that they do not know: each task would read all
//! of it, and its rows would come several times.

use crate::storage::{Captures, is_stored};
use crate::{captures, runs};
use datafusion::arrow::array::{ArrayRef, AsArray, StringArray, UInt32Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::{RecordBatchReceiverStreamBuilder, RecordBatchStreamAdapter};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures_util::{TryStreamExt, stream};
use results::RunDir;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use trace::Reader;
use trace::rows::{Batches, Filter};

/// What a table consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// The queries of traces, with the columns of [`trace::rows`].
    Captures {
        /// The traces.
        traces: Vec<Trace>,
        /// How many parts each is read in.
        parts_each: u32,
        /// Ports of the servers.
        ports: Vec<u16>,
        /// There is one more column, [`SOURCE`]: the name of the trace.
        apart: bool,
    },
    /// A table of [`runs`].
    Runs {
        /// Its name.
        table: String,
        /// The run directories: what each is called, the folder, and the plan in it.
        runs: Vec<(String, PathBuf, KnownFile)>,
    },
}

/// The column that says which trace a query is of.
pub const SOURCE: &str = "source";

/// Captures that are one trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// What it is called.
    pub name: String,
    /// Its files.
    pub files: Vec<KnownFile>,
}

impl Content {
    fn schema(&self) -> Result<SchemaRef> {
        match self {
            Self::Captures { apart: false, .. } => Ok(trace::rows::schema()),
            Self::Captures { apart: true, .. } => {
                let source = Arc::new(Field::new(SOURCE, DataType::Utf8, false));
                let columns: Vec<_> =
                    trace::rows::schema().fields().iter().cloned().chain([source]).collect();
                Ok(Arc::new(Schema::new(columns)))
            }
            Self::Runs { table, .. } => runs::schema(table).ok_or_else(|| {
                DataFusionError::Plan(format!("there is no table {table} of run directories"))
            }),
        }
    }

    /// What each part costs to read, by its number. Those of run directories are `partitions` parts.
    fn costs(&self, partitions: u32) -> Vec<u64> {
        match self {
            Self::Captures { traces, parts_each, .. } => traces
                .iter()
                .flat_map(|trace| {
                    let octets = trace.files.iter().map(|file| file.octets).sum();
                    std::iter::repeat_n(octets, *parts_each as usize)
                })
                .collect(),
            Self::Runs { .. } => vec![1; partitions as usize],
        }
    }
}

/// A file, and what tells whether it is still the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownFile {
    /// Its absolute path, or its `s3://` name.
    pub path: PathBuf,
    /// Its length in octets.
    pub octets: u64,
    /// When it changed last, in seconds since 1970.
    pub modified: i64,
}

/// The text of an error. Ballista sends errors to other machines in their debug form, so this type's debug form is the text, too.
#[derive(thiserror::Error)]
#[error("{0}")]
pub struct ErrorText(String);

impl fmt::Debug for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ErrorText {
    /// The text of an error.
    pub fn of(error: impl fmt::Display) -> DataFusionError {
        DataFusionError::External(Box::new(Self(error.to_string())))
    }
}

/// Why a file is not the one that the asking machine saw.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error(
        "{}: {cause} on {}; all machines of a cluster must see the files of a statement at the same paths", .path.display(), machine()
    )]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error(
        "{}: on {} it has {} octets and changed at {} (seconds since 1970), and the asking machine saw {} octets and {}: it is another file, or it has changed since",
        .known.path.display(), machine(), .found.octets, .found.modified, .known.octets, .known.modified
    )]
    Other { known: KnownFile, found: KnownFile },
}

fn machine() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or("this machine".into(), |name| name.trim().to_owned())
}

impl KnownFile {
    /// The file that is at a path now.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn at(path: &Path) -> io::Result<Self> {
        let (path, now) = (std::path::absolute(path)?, path.metadata()?);
        Ok(Self { path, octets: now.len(), modified: now.mtime() })
    }

    /// Checks that this machine sees the file that the asking machine saw. Another file of the same name would give wrong rows.
    fn check(&self, place: &Captures) -> Result<()> {
        let unreadable = |cause| ErrorText::of(FileError::Unreadable { path: self.path.clone(), cause });
        let found = place.known(&self.path).map_err(unreadable)?;
        if found != *self {
            return Err(ErrorText::of(FileError::Other { known: self.clone(), found }));
        }
        // Storage has just said that this machine may read the object.
        match is_stored(&self.path) {
            true => Ok(()),
            false => fs::File::open(&self.path).map(drop).map_err(unreadable),
        }
    }
}

/// What a session remembers of its tables.
#[derive(Debug, Default)]
pub struct Memory {
    /// Packets of captures that were read so far, by all statements.
    pub seen: AtomicU64,
    /// Run directories without their histograms and series.
    runs: Mutex<HashMap<PathBuf, Arc<RunDir>>>,
    /// Parts of tables of run directories.
    batches: Mutex<HashMap<(String, u32), RecordBatch>>,
}

impl Memory {
    /// A run directory without its histograms and series, which is read once.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn figures(&self, path: &Path) -> Result<Arc<RunDir>, results::Error> {
        if let Some(known) = self.runs.lock().expect("no one panics with it").get(path) {
            return Ok(known.clone());
        }
        let dir = Arc::new(RunDir::open_figures(path)?);
        self.runs.lock().expect("no one panics with it").insert(path.to_owned(), dir.clone());
        Ok(dir)
    }

    /// The rows of a part, which are made once.
    fn batch(
        &self,
        key: (String, u32),
        make: impl FnOnce() -> Result<RecordBatch, results::Error>,
    ) -> Result<RecordBatch> {
        if let Some(known) = self.batches.lock().expect("no one panics with it").get(&key) {
            return Ok(known.clone());
        }
        let batch = make().map_err(ErrorText::of)?;
        self.batches.lock().expect("no one panics with it").insert(key, batch.clone());
        Ok(batch)
    }
}

/// A table that is read in parts.
#[derive(Debug)]
pub struct Table {
    content: Content,
    partitions: u32,
    schema: SchemaRef,
    memory: Arc<Memory>,
}

impl Table {
    /// The table of this content, which `partitions` threads or tasks read side by side: each its parts one after the other, since the
    /// reader of a capture needs memory for the queries that wait for their answers.
    ///
    /// # Errors
    /// There is no such table.
    pub fn new(content: Content, partitions: u32, memory: &Arc<Memory>) -> Result<Self> {
        let (schema, partitions) = (content.schema()?, partitions.max(1));
        Ok(Self { content, partitions, schema, memory: memory.clone() })
    }

    /// What it consists of, and how many threads or tasks read it.
    pub fn content(&self) -> (&Content, u32) {
        (&self.content, self.partitions)
    }
}

#[async_trait::async_trait]
impl TableProvider for Table {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let of = |expr: &&Expr| match &self.content {
            Content::Captures { .. } => captures::pushdown(expr),
            Content::Runs { .. } => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(of).collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let costs = self.content.costs(self.partitions);
        let wanted = Wanted {
            content: self.content.clone(),
            parts: costs.len() as u32,
            columns,
            filter: captures::filter(filters),
        };
        let numbers = Arc::new(Schema::new(vec![Field::new("part", DataType::UInt32, false)]));
        let partition = |parts: Vec<u32>| {
            let column: ArrayRef = Arc::new(UInt32Array::from(parts));
            RecordBatch::try_new(numbers.clone(), vec![column]).map(|batch| vec![batch])
        };
        let shares = shares(&costs, self.partitions as usize);
        let parts = shares.into_iter().map(partition).collect::<Result<Vec<_>, _>>()?;
        let input = MemorySourceConfig::try_new_exec(&parts, numbers.clone(), None)?;
        Ok(Arc::new(Scan::new(wanted, input, self.memory.clone(), false)?))
    }
}

/// Divides parts of these costs among partitions: the dearest first, each to the partition that has least. No partition is empty.
fn shares(costs: &[u64], partitions: usize) -> Vec<Vec<u32>> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by_key(|&n| Reverse(costs[n]));
    let mut shares: Vec<(u64, Vec<u32>)> = vec![(0, Vec::new()); partitions.clamp(1, costs.len().max(1))];
    for n in order {
        let (cost, share) =
            shares.iter_mut().min_by_key(|(cost, share)| (*cost, share.len())).expect("there is one");
        *cost += costs[n];
        share.push(n as u32);
    }
    shares.into_iter().map(|(_, share)| share).collect()
}

/// The rows and columns that a statement wants of a table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wanted {
    content: Content,
    parts: u32,
    columns: Vec<usize>,
    filter: Filter,
}

/// Reads the parts whose numbers its input gives.
#[derive(Debug)]
pub struct Scan {
    wanted: Arc<Wanted>,
    input: Arc<dyn ExecutionPlan>,
    memory: Arc<Memory>,
    asked: bool,
    properties: Arc<PlanProperties>,
}

impl Scan {
    /// Of an input with the column `part`. The files that another machine `asked` for are checked before they are read.
    ///
    /// # Errors
    /// There is no such table or column.
    pub fn new(
        wanted: Wanted,
        input: Arc<dyn ExecutionPlan>,
        memory: Arc<Memory>,
        asked: bool,
    ) -> Result<Self> {
        let schema = Arc::new(wanted.content.schema()?.project(&wanted.columns)?);
        let count = input.properties().output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(count),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self { wanted: Arc::new(wanted), input, memory, asked, properties: Arc::new(properties) })
    }

    /// What it reads.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }
}

impl DisplayAs for Scan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.wanted.content {
            Content::Captures { traces, .. } => write!(f, "Scan: traces={}", traces.len())?,
            Content::Runs { table, runs } => write!(f, "Scan: table={table}, runs={}", runs.len())?,
        }
        write!(f, ", columns={:?}, filter={:?}", self.wanted.columns, self.wanted.filter)
    }
}

impl ExecutionPlan for Scan {
    fn name(&self) -> &'static str {
        "Scan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    /// The numbers of parts are divided already.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().ok_or_else(|| DataFusionError::Internal("a scan has an input".into()))?;
        Ok(Arc::new(Self::new((*self.wanted).clone(), input, self.memory.clone(), self.asked)?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let numbers = self.input.execute(partition, context.clone())?;
        let (schema, size) = (self.schema(), context.session_config().batch_size());
        let (wanted, memory, asked) = (self.wanted.clone(), self.memory.clone(), self.asked);
        let (rows_schema, place) = (schema.clone(), Arc::new(Captures::new(&context.runtime_env())));
        let rows = numbers
            .map_ok(move |batch| {
                let numbers: Vec<u32> = batch.column(0).as_primitive::<UInt32Type>().values().to_vec();
                let (wanted, memory, schema) = (wanted.clone(), memory.clone(), rows_schema.clone());
                let place = place.clone();
                let part = move |n| {
                    Ok::<_, DataFusionError>(read_part((n, size), asked, &place, &wanted, &memory, &schema))
                };
                stream::iter(numbers.into_iter().map(part)).try_flatten()
            })
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// Rows of a trace with its name in the column behind the `ours` that it has itself, where that is wanted.
fn named(
    batch: RecordBatch,
    name: &str,
    columns: &[usize],
    ours: usize,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    if columns.iter().all(|&column| column < ours) {
        return Ok(batch);
    }
    let (rows, mut of_trace) = (batch.num_rows(), batch.columns().iter());
    let name: ArrayRef = Arc::new(StringArray::from_iter_values(std::iter::repeat_n(name, rows)));
    let column = |&column: &usize| match column < ours {
        true => of_trace.next().expect("the reader gave it").clone(),
        false => name.clone(),
    };
    let arrays = columns.iter().map(column).collect();
    Ok(RecordBatch::try_new(schema.clone(), arrays)?)
}

/// Reads a part in a thread of its own.
fn read_part(
    (n, size): (u32, usize),
    asked: bool,
    place: &Arc<Captures>,
    wanted: &Arc<Wanted>,
    memory: &Arc<Memory>,
    schema: &SchemaRef,
) -> SendableRecordBatchStream {
    let mut stream = RecordBatchReceiverStreamBuilder::new(schema.clone(), 2);
    let (to, wanted, memory, schema) = (stream.tx(), wanted.clone(), memory.clone(), schema.clone());
    let place = place.clone();
    stream.spawn_blocking(move || {
        let Wanted { content, parts, columns, filter } = &*wanted;
        // Only what this part reads is checked: there may be very many files.
        let check = |known: &KnownFile| if asked { known.check(&place) } else { Ok(()) };
        match content {
            Content::Captures { traces, parts_each, ports, apart: _ } => {
                let trace = &traces[(n / parts_each) as usize];
                trace.files.iter().try_for_each(check)?;
                let paths: Vec<PathBuf> = trace.files.iter().map(|file| file.path.clone()).collect();
                let options = trace::Options { ports: ports.clone(), part: (n % parts_each, *parts_each) };
                let ours = trace::rows::columns().count();
                let of_trace: Vec<usize> = columns.iter().copied().filter(|&column| column < ours).collect();
                let reader = Reader::open_at(place.clone(), &paths, &options).map_err(ErrorText::of)?;
                let batches = Batches::new(reader, &of_trace, filter, size);
                // All parts see all packets.
                let seen = (options.part.0 == 0).then_some(&memory.seen);
                captures::read(batches, seen, |batch| {
                    to.blocking_send(named(batch, &trace.name, columns, ours, &schema)).is_ok()
                })
            }
            Content::Runs { table, runs } => {
                let mine: Vec<_> = runs.iter().skip(n as usize).step_by(*parts as usize).collect();
                mine.iter().try_for_each(|(.., plan)| check(plan))?;
                let mine: Vec<(&str, &Path)> =
                    mine.iter().map(|(name, path, _)| (name.as_str(), path.as_path())).collect();
                let make = || runs::rows(table, &mine, |path| memory.figures(path));
                let batch = memory.batch((table.clone(), n), make)?.project(columns)?;
                let mut from = 0;
                while from < batch.num_rows() {
                    let count = size.min(batch.num_rows() - from);
                    if to.blocking_send(Ok(batch.slice(from, count))).is_err() {
                        break;
                    }
                    from += count;
                }
                Ok(())
            }
        }
    });
    stream.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_divided_by_cost() {
        assert_eq!(shares(&[1, 9, 4, 4], 2), [vec![1], vec![2, 3, 0]]);
        assert_eq!(shares(&[0, 0, 0], 2), [vec![0, 2], vec![1]]);
        assert_eq!(shares(&[5], 16), [vec![0]]);
        assert_eq!(shares(&[], 4), [Vec::<u32>::new()]);
    }
}
