//! Rows as a table, CSV, JSON or Parquet, batch by batch.

use crate::Error;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::arrow::json::{ArrayWriter, WriterBuilder, writer::JsonArray};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use serde_json::json;
use std::io::Write;
use std::sync::Arc;

/// The form of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people: at most [`ROWS_SHOWN`] rows.
    Table,
    /// With a line of names before.
    Csv,
    /// An array of objects.
    Json,
    /// One object on one line, with the schema `dnsrack.query/1`: `columns`, each with `name` and `type`, and `rows`.
    Object,
    /// As `dnsrack trace import` writes it.
    Parquet,
}

/// Rows of a table that are shown.
pub const ROWS_SHOWN: usize = 1000;

/// Writes rows.
pub struct Output<W: Write + Send> {
    schema: SchemaRef,
    rows: u64,
    writer: Writer<W>,
}

enum Writer<W: Write + Send> {
    Table(W, Vec<Vec<String>>),
    Csv(Box<csv::Writer<W>>),
    /// With what follows the rows.
    Json(Box<ArrayWriter<W>>, &'static str),
    Parquet(Box<ArrowWriter<W>>),
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Engine(format!("rows cannot be written: {error}"))
}

impl<W: Write + Send> Output<W> {
    /// Rows of this schema will go to `out`.
    ///
    /// # Errors
    /// A type that the format does not have.
    pub fn new(format: Format, schema: &SchemaRef, mut out: W) -> Result<Self, Error> {
        let writer = match format {
            Format::Table => Writer::Table(out, Vec::new()),
            Format::Csv => {
                // Also where no row follows.
                let names: Vec<_> = schema.fields().iter().map(|field| quoted(field.name())).collect();
                writeln!(out, "{}", names.join(",")).map_err(failed)?;
                Writer::Csv(Box::new(csv::WriterBuilder::new().with_header(false).build(out)))
            }
            Format::Json | Format::Object => {
                if format == Format::Object {
                    let column = |field: &Arc<Field>| json!({ "name": field.name(), "type": field.data_type().to_string() });
                    let columns: Vec<_> = schema.fields().iter().map(column).collect();
                    let columns = serde_json::Value::from(columns);
                    write!(out, r#"{{"schema":"dnsrack.query/1","columns":{columns},"rows":"#)
                        .map_err(failed)?;
                }
                let writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, JsonArray>(out);
                Writer::Json(Box::new(writer), if format == Format::Object { "}\n" } else { "\n" })
            }
            Format::Parquet => {
                let snappy = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                let writer = ArrowWriter::try_new(out, schema.clone(), Some(snappy)).map_err(failed)?;
                Writer::Parquet(Box::new(writer))
            }
        };
        Ok(Self { schema: schema.clone(), rows: 0, writer })
    }

    /// Writes rows.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.rows += batch.num_rows() as u64;
        match &mut self.writer {
            Writer::Table(_, shown) => {
                let some = batch.slice(0, batch.num_rows().min(ROWS_SHOWN - shown.len()));
                let options = FormatOptions::default().with_null("");
                let columns: Vec<ArrayFormatter<'_>> = some
                    .columns()
                    .iter()
                    .map(|array: &ArrayRef| ArrayFormatter::try_new(array, &options).map_err(failed))
                    .collect::<Result<_, _>>()?;
                shown.extend(
                    (0..some.num_rows()).map(|n| columns.iter().map(|of| of.value(n).to_string()).collect()),
                );
                Ok(())
            }
            Writer::Csv(writer) => writer.write(batch).map_err(failed),
            Writer::Json(writer, _) => writer.write(batch).map_err(failed),
            Writer::Parquet(writer) => writer.write(batch).map_err(failed),
        }
    }

    /// Writes what is left; gives the number of rows.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn finish(self) -> Result<u64, Error> {
        match self.writer {
            Writer::Table(mut out, shown) => {
                let text = table(&self.schema, &shown, self.rows);
                out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(failed)?;
            }
            Writer::Csv(writer) => writer.into_inner().flush().map_err(failed)?,
            Writer::Json(mut writer, end) => {
                writer.finish().map_err(failed)?;
                let mut out = writer.into_inner();
                out.write_all(end.as_bytes()).and_then(|()| out.flush()).map_err(failed)?;
            }
            Writer::Parquet(writer) => {
                writer.close().map_err(failed)?;
            }
        }
        Ok(self.rows)
    }
}

/// A name as CSV has it (RFC 4180).
fn quoted(name: &str) -> String {
    if name.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.into()
    }
}

/// Numbers to the right, the rest to the left.
fn table(schema: &SchemaRef, shown: &[Vec<String>], rows: u64) -> String {
    use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(schema.fields().iter().map(|field| field.name()));
    for row in shown {
        let cell = |(text, field): (&String, &Arc<Field>)| {
            Cell::new(if field.data_type().is_floating() { rounded(text) } else { printable(text) })
        };
        table.add_row(row.iter().zip(schema.fields()).map(cell));
    }
    for (column, field) in table.column_iter_mut().zip(schema.fields()) {
        let right = field.data_type().is_numeric() || matches!(field.data_type(), DataType::Boolean);
        column.set_cell_alignment(if right { CellAlignment::Right } else { CellAlignment::Left });
    }
    let more = rows - shown.len() as u64;
    let counted = measure::units::counted(rows, "row");
    let rest = if more > 0 {
        format!("{counted}, of which the first {} are shown: --format csv has all", shown.len())
    } else {
        counted
    };
    format!("{table}\n{rest}\n")
}

/// A number with nine digits at most, as people read it; the other formats have all.
fn rounded(text: &str) -> String {
    let Ok(number) = text.parse::<f64>() else { return text.to_owned() };
    let whole = number.abs().log10().floor().max(0.0);
    // Of 0 and of what is no number there is no logarithm.
    let digits = if whole.is_finite() { (8.0 - whole).max(0.0) as usize } else { 0 };
    let short = format!("{number:.digits$}");
    if number == 0.0 || short.parse() == Ok(0.0) {
        return text.to_owned();
    }
    if short.contains('.') { short.trim_end_matches('0').trim_end_matches('.').to_owned() } else { short }
}

/// Text without what moves the cursor of a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
