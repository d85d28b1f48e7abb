//! The three Parquet tables: trials as rows of (trial, name, value), histograms as buckets, series.

use crate::{Error, SeriesRow, TrialRecord};
use arrow::array::{Array, ArrayRef, Float64Builder, StringBuilder, UInt32Builder, UInt64Builder};
use arrow::array::{Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use measure::{Histogram, Metric, Named, Reason};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// A column of a table: name, type, whether it may be null.
type Column = (&'static str, DataType, bool);

const TRIALS: &[Column] = &[
    ("trial", DataType::UInt32, false),
    ("repeat", DataType::UInt32, false),
    ("kind", DataType::Utf8, false),
    ("name", DataType::Utf8, false),
    ("unit", DataType::Utf8, true),
    ("value", DataType::Float64, true),
    ("text", DataType::Utf8, true),
];

const LATENCY: &[Column] = &[
    ("trial", DataType::UInt32, false),
    ("histogram", DataType::Utf8, false),
    ("low_ns", DataType::UInt64, false),
    ("high_ns", DataType::UInt64, false),
    ("count", DataType::UInt64, false),
];

const SERIES: &[Column] = &[
    ("trial", DataType::UInt32, false),
    ("second", DataType::UInt32, false),
    ("metric", DataType::Utf8, false),
    ("unit", DataType::Utf8, false),
    ("value", DataType::Float64, false),
];

fn schema(columns: &[Column]) -> Arc<Schema> {
    Arc::new(Schema::new(
        columns.iter().map(|(n, t, null)| Field::new(*n, t.clone(), *null)).collect::<Vec<_>>(),
    ))
}

/// How columns are written. Whole numbers rise, or stay, from row to row: their differences take a few bits each, where
/// a dictionary of them would be as long as they are.
fn properties(columns: &[Column]) -> WriterProperties {
    let mut all = WriterProperties::builder().set_compression(Compression::SNAPPY);
    for (name, kind, _) in columns {
        if matches!(kind, DataType::UInt32 | DataType::UInt64) {
            let column = ColumnPath::from(*name);
            all = all
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
    }
    all.build()
}

fn write(columns: &[Column], arrays: Vec<ArrayRef>, out: &mut (impl Write + Send)) -> Result<(), String> {
    write_as(properties(columns), columns, arrays, out)
}

fn write_as(
    properties: WriterProperties,
    columns: &[Column],
    arrays: Vec<ArrayRef>,
    out: &mut (impl Write + Send),
) -> Result<(), String> {
    let schema = schema(columns);
    let batch = RecordBatch::try_new(schema.clone(), arrays).map_err(|e| e.to_string())?;
    let mut writer = ArrowWriter::try_new(out, schema, Some(properties)).map_err(|e| e.to_string())?;
    writer.write(&batch).map_err(|e| e.to_string())?;
    writer.close().map(|_| ()).map_err(|e| e.to_string())
}

/// Rows of `trials.parquet`: the first of each trial is `validity`/`valid` with 1 or 0, so that a
/// trial without parameters or metrics has a row too.
pub(crate) fn write_trials(trials: &[TrialRecord], out: &mut (impl Write + Send)) -> Result<(), String> {
    let (mut id, mut repeat) = (UInt32Builder::new(), UInt32Builder::new());
    let (mut kind, mut name, mut unit) = (StringBuilder::new(), StringBuilder::new(), StringBuilder::new());
    let (mut value, mut text) = (Float64Builder::new(), StringBuilder::new());
    for t in trials {
        let mut row = |k: &str, n: &str, u: Option<&str>, v: Option<f64>, x: Option<&str>| {
            id.append_value(t.id);
            repeat.append_value(t.repeat);
            kind.append_value(k);
            name.append_value(n);
            unit.append_option(u);
            value.append_option(v);
            text.append_option(x);
        };
        let validity = &t.outcome.validity;
        row("validity", "valid", Some("1"), Some(f64::from(u8::from(validity.valid))), None);
        t.params.iter().for_each(|(n, x)| row("param", n, None, None, Some(x)));
        t.outcome.metrics.iter().for_each(|m| row("metric", &m.name, Some(&m.unit), Some(m.value), None));
        validity.reasons.iter().for_each(|r| row("validity", &r.code, None, None, Some(&r.text)));
        validity.warnings.iter().for_each(|r| row("warning", &r.code, None, None, Some(&r.text)));
        t.error.iter().for_each(|e| row("error", "error", None, None, Some(e)));
        t.skipped.iter().for_each(|s| row("skipped", "skipped", None, None, Some(s)));
    }
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(id.finish()),
        Arc::new(repeat.finish()),
        Arc::new(kind.finish()),
        Arc::new(name.finish()),
        Arc::new(unit.finish()),
        Arc::new(value.finish()),
        Arc::new(text.finish()),
    ];
    write(TRIALS, arrays, out)
}

/// Rows of `latency.parquet`: the non-empty buckets; an empty histogram is one row with count 0.
pub(crate) fn write_latency(trials: &[TrialRecord], out: &mut (impl Write + Send)) -> Result<(), String> {
    write(LATENCY, latency(trials), out)
}

fn latency(trials: &[TrialRecord]) -> Vec<ArrayRef> {
    let (mut id, mut name) = (UInt32Builder::new(), StringBuilder::new());
    let (mut low, mut high, mut count) = (UInt64Builder::new(), UInt64Builder::new(), UInt64Builder::new());
    for t in trials {
        for h in &t.outcome.histograms {
            let empty = (h.value.count() == 0).then_some((0, 0, 0));
            for (l, u, n) in h.value.buckets().chain(empty) {
                id.append_value(t.id);
                name.append_value(&h.name);
                low.append_value(l);
                high.append_value(u);
                count.append_value(n);
            }
        }
    }
    vec![
        Arc::new(id.finish()),
        Arc::new(name.finish()),
        Arc::new(low.finish()),
        Arc::new(high.finish()),
        Arc::new(count.finish()),
    ]
}

/// Rows of `series.parquet`, as the records have them.
pub(crate) fn write_series(trials: &[TrialRecord], out: &mut (impl Write + Send)) -> Result<(), String> {
    let (mut id, mut second) = (UInt32Builder::new(), UInt32Builder::new());
    let (mut metric, mut unit, mut value) =
        (StringBuilder::new(), StringBuilder::new(), Float64Builder::new());
    for t in trials {
        for row in &t.series {
            id.append_value(t.id);
            second.append_value(row.second);
            metric.append_value(&row.metric);
            unit.append_value(&row.unit);
            value.append_value(row.value);
        }
    }
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(id.finish()),
        Arc::new(second.finish()),
        Arc::new(metric.finish()),
        Arc::new(unit.finish()),
        Arc::new(value.finish()),
    ];
    write(SERIES, arrays, out)
}

/// Reads a table batch by batch after checking that its columns are the ones expected.
fn read(
    path: &Path,
    columns: &[Column],
    each: &mut dyn FnMut(&RecordBatch) -> Result<(), String>,
) -> Result<(), Error> {
    let file = File::open(path).map_err(Error::io(path))?;
    let corrupt = |what: String| Error::corrupt(path, what);
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)
        .map_err(|e| corrupt(format!("not a readable Parquet file ({e})")))?;
    let found = builder.schema().clone();
    let same = found.fields().len() == columns.len()
        && found
            .fields()
            .iter()
            .zip(columns)
            .all(|(f, (name, kind, _))| f.name() == name && f.data_type() == kind);
    if !same {
        let names: Vec<String> =
            found.fields().iter().map(|f| format!("{} {}", f.name(), f.data_type())).collect();
        return Err(corrupt(format!("other columns than expected: {}", names.join(", "))));
    }
    for batch in builder.build().map_err(|e| corrupt(e.to_string()))? {
        let batch = batch.map_err(|e| corrupt(format!("unreadable rows ({e})")))?;
        // A null where none may be is a file that we did not write.
        for (i, (name, _, nullable)) in columns.iter().enumerate() {
            if !nullable && batch.column(i).null_count() > 0 {
                return Err(corrupt(format!("a row without {name}")));
            }
        }
        each(&batch).map_err(corrupt)?;
    }
    Ok(())
}

/// The column as its type, which `read` has checked.
fn column<T: 'static>(batch: &RecordBatch, i: usize) -> Result<&T, String> {
    batch.column(i).as_any().downcast_ref::<T>().ok_or_else(|| format!("column {i} has another type"))
}

fn opt(array: &StringArray, i: usize) -> Option<String> {
    array.is_valid(i).then(|| array.value(i).to_owned())
}

/// Reads the trials of a run directory, without histograms and series.
pub(crate) fn read_trials(trials: &Path) -> Result<Vec<TrialRecord>, Error> {
    let mut records: Vec<TrialRecord> = Vec::new();
    let mut at: HashMap<u32, usize> = HashMap::new();
    read(trials, TRIALS, &mut |batch| {
        let (ids, repeats) = (column::<UInt32Array>(batch, 0)?, column::<UInt32Array>(batch, 1)?);
        let (kinds, names) = (column::<StringArray>(batch, 2)?, column::<StringArray>(batch, 3)?);
        let (units, texts) = (column::<StringArray>(batch, 4)?, column::<StringArray>(batch, 6)?);
        let values = column::<Float64Array>(batch, 5)?;
        for i in 0..batch.num_rows() {
            let id = ids.value(i);
            let index = *at.entry(id).or_insert_with(|| {
                records.push(TrialRecord { id, repeat: repeats.value(i), ..TrialRecord::default() });
                records.len() - 1
            });
            let record = &mut records[index];
            let name = names.value(i).to_owned();
            let value = values.is_valid(i).then(|| values.value(i));
            let text = opt(texts, i);
            let validity = &mut record.outcome.validity;
            match (kinds.value(i), value, text) {
                ("validity", Some(v), None) => validity.valid = v != 0.0,
                ("param", None, Some(text)) => record.params.push((name, text)),
                ("metric", Some(value), None) => {
                    let unit =
                        opt(units, i).ok_or_else(|| format!("metric {name} of trial {id} has no unit"))?;
                    record.outcome.metrics.push(Metric { name, unit, value });
                }
                ("validity", None, Some(text)) => validity.reasons.push(Reason { code: name, text }),
                ("warning", None, Some(text)) => validity.warnings.push(Reason { code: name, text }),
                ("error", None, Some(text)) => record.error = Some(text),
                ("skipped", None, Some(text)) => record.skipped = Some(text),
                (kind, ..) => return Err(format!("a row of kind '{kind}' of trial {id} makes no sense")),
            }
        }
        Ok(())
    })?;
    Ok(records)
}

/// The place of each trial, by its number.
fn places(records: &[TrialRecord]) -> HashMap<u32, usize> {
    records.iter().enumerate().map(|(index, record)| (record.id, index)).collect()
}

/// Adds the histograms of a run directory to its trials. Those of other trials are left out: the run was stopped before they were
/// committed.
pub(crate) fn add_histograms(latency: &Path, records: &mut [TrialRecord]) -> Result<(), Error> {
    let at = places(records);
    read(latency, LATENCY, &mut |batch| {
        let (ids, names) = (column::<UInt32Array>(batch, 0)?, column::<StringArray>(batch, 1)?);
        let (highs, counts) = (column::<UInt64Array>(batch, 3)?, column::<UInt64Array>(batch, 4)?);
        for i in 0..batch.num_rows() {
            let Some(&index) = at.get(&ids.value(i)) else { continue };
            let all = &mut records[index].outcome.histograms;
            let name = names.value(i);
            // Rows of one histogram follow each other; a histogram's name occurs once in a trial.
            if all.last().is_none_or(|h| h.name != name) {
                all.push(Named::new(name, Histogram::default()));
            }
            let histogram = &mut all.last_mut().expect("one was just added").value;
            let count = counts.value(i);
            if histogram.count().checked_add(count).is_none() {
                return Err(format!("histogram {name} of trial {} counts too many values", ids.value(i)));
            }
            if count > 0 {
                histogram.record_n(highs.value(i), count);
            }
        }
        Ok(())
    })
}

/// Adds the series of a run directory to its trials, as [`add_histograms`] does.
pub(crate) fn add_series(series: &Path, records: &mut [TrialRecord]) -> Result<(), Error> {
    let at = places(records);
    read(series, SERIES, &mut |batch| {
        let (ids, seconds) = (column::<UInt32Array>(batch, 0)?, column::<UInt32Array>(batch, 1)?);
        let (metrics, units) = (column::<StringArray>(batch, 2)?, column::<StringArray>(batch, 3)?);
        let values = column::<Float64Array>(batch, 4)?;
        for i in 0..batch.num_rows() {
            let Some(&index) = at.get(&ids.value(i)) else { continue };
            records[index].series.push(SeriesRow {
                second: seconds.value(i),
                metric: metrics.value(i).to_owned(),
                unit: units.value(i).to_owned(),
                value: values.value(i),
            });
        }
        Ok(())
    })
}

/// Reads `bytes` as each of the tables, for fuzzing: any bytes may give an error, none may do worse.
pub fn fuzz_tables(folder: &Path, bytes: &[u8]) {
    let path = folder.join("fuzz.parquet");
    if std::fs::write(&path, bytes).is_ok() {
        for columns in [TRIALS, LATENCY, SERIES] {
            let _ = read(&path, columns, &mut |_| Ok(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::metadata::ParquetMetaDataReader;

    fn records() -> Vec<TrialRecord> {
        let mut draw = measure::Seed(5).draw("tables", 0);
        let record = |id: u32| {
            let mut record = TrialRecord { id, repeat: 1, ..TrialRecord::default() };
            let mut histogram = Histogram::default();
            (0..5000).for_each(|_| histogram.record(50_000 + draw.below(5_000_000)));
            record.outcome.histograms = vec![Named::new("latency", histogram)];
            record
        };
        (1..4).map(record).collect()
    }

    /// The size of a table with the histograms of some trials, and what is read from it.
    fn kept(trials: &[TrialRecord], properties: WriterProperties) -> (u64, Vec<TrialRecord>, bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let create = |name: &str| File::create(path(name)).unwrap();
        write_as(properties, LATENCY, latency(trials), &mut create("latency")).unwrap();
        write_trials(trials, &mut create("trials")).unwrap();
        write_series(trials, &mut create("series")).unwrap();
        let mut read = read_trials(&path("trials")).unwrap();
        add_histograms(&path("latency"), &mut read).unwrap();
        add_series(&path("series"), &mut read).unwrap();
        let file = File::open(path("latency")).unwrap();
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
        let mut encodings = metadata.row_group(0).columns()[2].encodings();
        (file.metadata().unwrap().len(), read, encodings.any(|e| e == Encoding::DELTA_BINARY_PACKED))
    }

    #[test]
    fn histograms_take_less_than_half_of_what_they_did_and_older_files_are_read() {
        let trials = records();
        let (size, read, packed) = kept(&trials, properties(LATENCY));
        let before = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let (older, read_older, older_packed) = kept(&trials, before);
        assert!(packed && !older_packed);
        assert!(size * 2 < older, "{size} of {older}");
        assert_eq!((&read, &read_older), (&trials, &trials));
    }
}
