//! Captures as a table: only the columns that a statement needs are made, and queries that it does not want are left out early.

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc::Sender;
use trace::Options;
use trace::rows::{Batches, Filter, schema};
use wire::name::Name;

/// Captures that are one trace, with the columns of [`trace::rows`].
#[derive(Debug)]
pub struct Captures {
    paths: Arc<Vec<PathBuf>>,
    ports: Vec<u16>,
    /// Readers, each of a part of the trace.
    parts: u32,
    schema: SchemaRef,
    /// Packets read so far, by all statements.
    seen: Arc<AtomicU64>,
}

impl Captures {
    /// The trace of these files, which `parts` threads read side by side; packets that were read are added to `seen`.
    pub fn new(paths: Vec<PathBuf>, ports: &[u16], parts: u32, seen: &Arc<AtomicU64>) -> Self {
        let (ports, seen) = (ports.to_vec(), seen.clone());
        Self { paths: Arc::new(paths), ports, parts: parts.max(1), schema: schema(), seen }
    }
}

#[async_trait::async_trait]
impl TableProvider for Captures {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let of = |expr: &&Expr| match narrowed(&Filter::default(), expr) {
            // The engine looks again, so a filter may let too many pass.
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(of).collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&columns)?);
        let filter =
            filters.iter().fold(Filter::default(), |filter, expr| narrowed(&filter, expr).unwrap_or(filter));
        let part = |n| -> Arc<dyn PartitionStream> {
            Arc::new(Part {
                paths: self.paths.clone(),
                options: Options { ports: self.ports.clone(), part: (n, self.parts) },
                columns: columns.clone(),
                filter: filter.clone(),
                schema: schema.clone(),
                seen: self.seen.clone(),
            })
        };
        let parts = (0..self.parts).map(part).collect();
        Ok(Arc::new(StreamingTableExec::try_new(schema.clone(), parts, None, [], false, limit)?))
    }
}

/// A part of a trace, which one thread reads.
#[derive(Debug)]
struct Part {
    paths: Arc<Vec<PathBuf>>,
    options: Options,
    columns: Vec<usize>,
    filter: Filter,
    schema: SchemaRef,
    seen: Arc<AtomicU64>,
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream = RecordBatchReceiverStreamBuilder::new(self.schema.clone(), 2);
        let (to, rows) = (stream.tx(), context.session_config().batch_size());
        let (paths, options, columns) = (self.paths.clone(), self.options.clone(), self.columns.clone());
        let (filter, seen) = (self.filter.clone(), self.seen.clone());
        stream.spawn_blocking(move || {
            let batches = Batches::open(&paths, &options, &columns, &filter, rows).map_err(external)?;
            // All parts see all packets.
            let seen = (options.part.0 == 0).then_some(seen);
            give(batches, &to, seen.as_deref())
        });
        stream.build()
    }
}

/// Gives all batches, until nobody wants more.
fn give(mut batches: Batches, to: &Sender<Result<RecordBatch>>, seen: Option<&AtomicU64>) -> Result<()> {
    let mut before = 0;
    while let Some(batch) = batches.next().map_err(external)? {
        if let Some(seen) = seen {
            seen.fetch_add(batches.seen() - before, Ordering::Relaxed);
            before = batches.seen();
        }
        if to.blocking_send(Ok(batch)).is_err() {
            break;
        }
    }
    Ok(())
}

fn external(error: trace::read::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The filter with a condition added; `None` where the condition is none that the reader knows. It lets pass all that the condition is
/// true for, and possibly more.
fn narrowed(filter: &Filter, condition: &Expr) -> Option<Filter> {
    let mut filter = filter.clone();
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (column, op, literal) = match (&**left, &**right) {
                (Expr::Column(column), Expr::Literal(literal, _)) => (column, *op, literal),
                (Expr::Literal(literal, _), Expr::Column(column)) => (column, op.swap()?, literal),
                _ => return None,
            };
            match column.name.as_str() {
                "time" => by_time(&mut filter, op, micros(literal)?.checked_mul(1000)?, 999)?,
                "time_ns" => by_time(&mut filter, op, int(literal)?, 0)?,
                "src" if op == Operator::Eq => {
                    // A client in a way that no row is written in is no client.
                    filter.client = Some(text(literal)?.parse().ok()?);
                }
                "qname" if op == Operator::Eq => below(&mut filter, text(literal)?)?,
                _ => return None,
            }
        }
        Expr::Between(between) if !between.negated => {
            let Expr::Column(column) = &*between.expr else { return None };
            let (Expr::Literal(low, _), Expr::Literal(high, _)) = (&*between.low, &*between.high) else {
                return None;
            };
            let at = |literal| match column.name.as_str() {
                "time" => micros(literal)?.checked_mul(1000),
                "time_ns" => int(literal),
                _ => None,
            };
            by_time(&mut filter, Operator::GtEq, at(low)?, 0)?;
            by_time(&mut filter, Operator::LtEq, at(high)?, 999)?;
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "under" => {
            let [Expr::Column(column), Expr::Literal(zone, _)] = &args[..] else { return None };
            if column.name != "qname" {
                return None;
            }
            below(&mut filter, text(zone)?)?;
        }
        _ => return None,
    }
    Some(filter)
}

/// Narrows by time. The column is in steps of `step` + 1 nanoseconds, so that as much may lie between two of its values.
fn by_time(filter: &mut Filter, op: Operator, at: i64, step: u64) -> Option<()> {
    // Before 1970 there is no packet.
    let at = at.max(0) as u64;
    let (from, to) = match op {
        Operator::Gt | Operator::GtEq => (Some(at), None),
        Operator::Lt | Operator::LtEq => (None, Some(at.saturating_add(step))),
        Operator::Eq => (Some(at), Some(at.saturating_add(step))),
        _ => return None,
    };
    filter.from = filter.from.max(from);
    filter.to = match (filter.to, to) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    Some(())
}

/// Narrows by name. Of two zones one is left to the engine.
fn below(filter: &mut Filter, zone: &str) -> Option<()> {
    let zone = Name::parse_text(zone, Some(b"\0")).ok()?;
    filter.under.get_or_insert_with(|| zone.as_wire().to_vec());
    Some(())
}

fn text(literal: &ScalarValue) -> Option<&str> {
    literal.try_as_str().flatten()
}

fn int(literal: &ScalarValue) -> Option<i64> {
    match literal.cast_to(&DataType::Int64).ok()? {
        ScalarValue::Int64(value) => value,
        _ => None,
    }
}

fn micros(literal: &ScalarValue) -> Option<i64> {
    match literal {
        ScalarValue::TimestampMicrosecond(value, _) => *value,
        _ => None,
    }
}
