//! Row groups, encoded side by side, and the files that they are written to.

use super::{Error, SCHEMA};
use crate::rows::columns::{self, DIVERSE};
use crate::rows::row::Row;
use arrow::datatypes::Schema;
use measure::aside;
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Encoded rows.
pub(super) struct Group {
    columns: Vec<ArrowColumnChunk>,
    rows: u64,
}

/// Encodes rows.
pub(super) struct Encoder {
    schema: Arc<Schema>,
    factory: ArrowRowGroupWriterFactory,
}

fn properties() -> WriterProperties {
    let entry = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
    let builder = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(concat!("dnsrack version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![entry("dnsrack.schema", SCHEMA)]));
    let plain = |builder: parquet::file::properties::WriterPropertiesBuilder, name: &&str| {
        builder.set_column_dictionary_enabled(ColumnPath::from(*name), false)
    };
    DIVERSE.iter().fold(builder, plain).build()
}

fn writer<W: Write + Send>(out: W) -> Result<SerializedFileWriter<W>, ParquetError> {
    let schema = ArrowSchemaConverter::new().convert(&columns::schema())?;
    SerializedFileWriter::new(out, schema.root_schema_ptr(), Arc::new(properties()))
}

impl Encoder {
    pub fn new() -> Result<Self, ParquetError> {
        let schema = columns::schema();
        // A row group is encoded the same for any file of these columns.
        let factory = ArrowRowGroupWriterFactory::new(&writer(io::sink())?, schema.clone());
        Ok(Self { schema, factory })
    }

    pub fn encode(&mut self, rows: &[Row]) -> Result<Group, ParquetError> {
        let writers = self.factory.create_column_writers(0)?;
        let mut columns = Vec::with_capacity(writers.len());
        let arrays = columns::arrays(rows, 0..writers.len());
        for ((field, array), mut writer) in self.schema.fields().iter().zip(arrays).zip(writers) {
            for leaf in compute_leaves(field, &array)? {
                writer.write(&leaf)?;
            }
            columns.push(writer.close()?);
        }
        Ok(Group { columns, rows: rows.len() as u64 })
    }
}

/// The files, in a folder beside the one that they will be in.
pub(super) struct Files {
    folder: PathBuf,
    aside: TempDir,
    rows_per_file: u64,
    open: Option<(SerializedFileWriter<BufWriter<File>>, PathBuf, u64)>,
    count: u64,
    octets: u64,
}

impl Files {
    /// For `folder`, which must not exist or be empty.
    pub fn new(folder: &Path, rows_per_file: u64) -> Result<Self, Error> {
        let occupied = |what| Error::Occupied { path: folder.to_owned(), what };
        match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
            Ok(true) => {}
            Ok(false) => return Err(occupied("there is something in it")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Err(occupied("it is no folder")),
            Err(e) => return Err(Error::Io { path: folder.to_owned(), source: e }),
        }
        // Through links, so that the new folder is where the empty one is.
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let parent = folder.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let aside =
            aside::folder_in(parent).map_err(|source| Error::Io { path: parent.to_owned(), source })?;
        Ok(Self { folder, aside, rows_per_file, open: None, count: 0, octets: 0 })
    }

    /// The error for a table that cannot be written, with its file.
    pub fn failed(&self, source: ParquetError) -> Error {
        Error::Parquet { path: self.name(), source }
    }

    /// The file in sight, as it will be called.
    fn name(&self) -> PathBuf {
        self.folder.join(format!("part-{:05}.parquet", self.count))
    }

    /// Appends a row group to the file in sight, a new one where that is full.
    pub fn append(&mut self, group: Group) -> Result<(), Error> {
        if self.open.as_ref().is_some_and(|(.., rows)| rows + group.rows > self.rows_per_file) {
            self.close()?;
        }
        if self.open.is_none() {
            self.create()?;
        }
        let (writer, _, rows) = self.open.as_mut().expect("one was just opened");
        *rows += group.rows;
        let written = writer.next_row_group().and_then(|mut out| {
            group.columns.into_iter().try_for_each(|column| column.append_to_row_group(&mut out))?;
            out.close().map(drop)
        });
        written.map_err(|e| self.failed(e))
    }

    fn create(&mut self) -> Result<(), Error> {
        let path = self.aside.path().join(self.name().file_name().expect("a file has a name"));
        let file = File::create(&path).map_err(|source| Error::Io { path: self.name(), source })?;
        let writer = writer(BufWriter::with_capacity(1 << 20, file)).map_err(|e| self.failed(e))?;
        self.open = Some((writer, path, 0));
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        if let Some((writer, path, _)) = self.open.take() {
            writer.close().map_err(|e| self.failed(e))?;
            let length = fs::metadata(&path).map_err(|source| Error::Io { path: self.name(), source })?;
            self.octets += length.len();
            self.count += 1;
        }
        Ok(())
    }

    /// Gives the folder its name; says how many files there are, and their octets. There is at least one, so that also a
    /// table without rows has its columns.
    pub fn finish(mut self) -> Result<(u64, u64), Error> {
        if self.open.is_none() && self.count == 0 {
            self.create()?;
        }
        self.close()?;
        let at = |source| Error::Io { path: self.folder.clone(), source };
        fs::rename(self.aside.path(), &self.folder).map_err(at)?;
        // It is no longer there.
        let _ = self.aside.keep();
        Ok((self.count, self.octets))
    }
}
