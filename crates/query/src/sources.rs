//! What a path is: a run directory, a folder of them, imported rows, or a capture.

use crate::Error;
use arrow::datatypes::{Field, Schema};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fmt::Display;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
pub(crate) use trace::import::apart::{FOLDER, MANIFEST};

/// Something that has tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A run directory.
    Run(PathBuf),
    /// Parquet files with the columns of `dnsrack trace import`.
    Imported {
        /// The file, or the folder.
        path: PathBuf,
        /// Its files.
        files: Vec<PathBuf>,
    },
    /// A capture.
    Capture(PathBuf),
}

/// What there is at a path; several where it is a folder of run directories. Whether a capture can be read is found when it is opened.
///
/// # Errors
/// A path that cannot be read or is none of these; Parquet files that are cut, or have not the columns of an imported trace.
pub fn at(path: &Path) -> Result<Vec<Source>, Error> {
    let is_parquet = |path: &Path| path.extension().is_some_and(|e| e == "parquet");
    if path.metadata().map_err(Error::io(path))?.is_file() {
        if !is_parquet(path) {
            return Ok(vec![Source::Capture(path.to_owned())]);
        }
        check(path)?;
        return Ok(vec![Source::Imported { path: path.to_owned(), files: vec![path.to_owned()] }]);
    }
    let is_run = |path: &Path| path.join("run.toml").is_file();
    if is_run(path) {
        return Ok(vec![Source::Run(path.to_owned())]);
    }
    let entries = fs::read_dir(path).map_err(|_| Error::NoSource { path: path.to_owned() })?;
    let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    inside.sort();
    let runs: Vec<_> = inside.iter().filter(|path| is_run(path)).cloned().map(Source::Run).collect();
    if !runs.is_empty() {
        return Ok(runs);
    }
    // Captures that were imported apart have a folder each.
    if inside.iter().any(|path| path.file_name().is_some_and(|name| name == MANIFEST)) {
        let is_whole = |path: &Path| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(FOLDER.as_bytes()))
        };
        let folders = inside.iter().filter(|path| is_whole(path));
        let sources: Vec<_> = folders.map(|folder| at(folder)).collect::<Result<_, _>>()?;
        return match sources.is_empty() {
            true => Err(Error::NoSource { path: path.to_owned() }),
            false => Ok(sources.concat()),
        };
    }
    let files: Vec<PathBuf> = inside.into_iter().filter(|path| is_parquet(path)).collect();
    if files.is_empty() {
        return Err(Error::NoSource { path: path.to_owned() });
    }
    files.iter().try_for_each(|file| check(file))?;
    Ok(vec![Source::Imported { path: path.to_owned(), files }])
}

/// Checks that a Parquet file is whole and has the columns of an imported trace.
fn check(path: &Path) -> Result<(), Error> {
    let file = File::open(path).map_err(Error::io(path))?;
    let found = ParquetRecordBatchReaderBuilder::try_new(file);
    check_columns(path, found.as_ref().map(|found| &**found.schema()))
}

/// Checks what was read at the end of a Parquet file.
pub(crate) fn check_columns(path: &Path, found: Result<&Schema, &impl Display>) -> Result<(), Error> {
    let wrong = |what: String| Error::Parquet { path: path.to_owned(), what };
    let schema =
        found.map_err(|e| wrong(format!("no Parquet file that can be read, or one that is cut ({e})")))?;
    let has = |field: &Field| {
        schema.field_with_name(field.name()).is_ok_and(|f| f.data_type() == field.data_type())
    };
    match trace::rows::schema().fields().iter().find(|field| !has(field)) {
        None => Ok(()),
        Some(field) => Err(wrong(format!(
            "it has no column {} of type {}: it is not of this version of 'dnsrack trace import'",
            field.name(),
            field.data_type()
        ))),
    }
}

/// A statement from a file.
///
/// # Errors
/// A file that cannot be read, or is not UTF-8.
pub fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(Error::io(path))
}
