//! Captures as a table: only the columns that a statement needs are made, and queries that it does not want are left out early.

use crate::scan::ErrorText;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown};
use std::sync::atomic::{AtomicU64, Ordering};
use trace::rows::{Batches, Filter};
use wire::name::Name;

/// Gives rows to `take` until it returns false. The packets read are added to `seen`.
///
/// # Errors
/// A capture that cannot be read.
pub fn read(
    mut batches: Batches,
    seen: Option<&AtomicU64>,
    take: impl Fn(RecordBatch) -> bool,
) -> Result<()> {
    let mut before = 0;
    while let Some(batch) = batches.next().map_err(ErrorText::of)? {
        if let Some(seen) = seen {
            seen.fetch_add(batches.seen() - before, Ordering::Relaxed);
            before = batches.seen();
        }
        if !take(batch) {
            break;
        }
    }
    Ok(())
}

/// The filter of all conditions that the reader knows.
pub fn filter(conditions: &[Expr]) -> Filter {
    conditions.iter().fold(Filter::default(), |filter, expr| narrowed(&filter, expr).unwrap_or(filter))
}

/// Whether the reader can apply a condition. It may let more rows pass than it should, so the engine applies the condition again.
pub fn pushdown(condition: &Expr) -> TableProviderFilterPushDown {
    match narrowed(&Filter::default(), condition) {
        Some(_) => TableProviderFilterPushDown::Inexact,
        None => TableProviderFilterPushDown::Unsupported,
    }
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
