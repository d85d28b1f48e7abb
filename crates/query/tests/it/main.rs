//! Statements on captures that are made here, on real ones, and on the run directories of docs.

mod bad_input;
mod capture;
mod cluster;
mod commands;
mod runs;
mod storage;
mod traces;

use futures_util::StreamExt;
use query::output::{Format, Output};
use query::shipped::Shipped;
use query::{Error, Options, Session};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Rows as JSON objects.
pub fn ask(
    sources: &[PathBuf],
    options: &Options,
    sql: &str,
    set: &[(&str, &str)],
) -> Result<Vec<Value>, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let parameters: BTreeMap<String, String> =
        set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let text = runtime.block_on(async {
        let session = Session::open(sources, options).await?;
        let mut stream = session.ask(sql, "SQL", &parameters).await?;
        let mut text = Vec::new();
        let mut output = Output::new(Format::Json, &stream.schema(), &mut text)?;
        while let Some(batch) = stream.next().await {
            output.write(&batch.map_err(|e| Error::of(&e, "SQL", sql))?)?;
        }
        output.finish()?;
        Ok::<_, Error>(text)
    })?;
    Ok(serde_json::from_slice(&text).expect("an array of objects"))
}

/// Rows of a shipped query, with the values that its parameters have by themselves.
pub fn shipped(sources: &[PathBuf], options: &Options, name: &str) -> Vec<Value> {
    let query = Shipped::find(name).unwrap();
    let set: Vec<_> = query.parameters().map(|p| (p.name, p.value)).collect();
    ask(sources, options, query.sql, &set).unwrap_or_else(|error| panic!("@{name}: {error}"))
}

/// Two threads.
pub fn two_threads() -> Options {
    Options { threads: 2, ..Options::default() }
}

/// A made capture, and its folder.
pub fn made(count: u32) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.pcap");
    capture::write(&path, count, 1);
    (folder, path)
}

/// Run directories that docs keep.
pub fn kept_runs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs")
}
