//! Files that go to another machine and come back.
//!
//! An agent elsewhere has a folder. `files` in it has what was sent, by its SHA-256: nothing is sent twice, in later runs neither.
//! `run-…` is of one coordinator, and goes with it; it has a place for each of the coordinator's files, to which those of `files` are
//! linked.

use crate::connection::Connection;
use crate::request::{At, Request};
use crate::{Agent, Error, lock};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use measure::Files;
use measure::files::Named;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::NamedTempFile;

/// Octets of a file that are sent at once.
const PIECE: u64 = 1 << 20;

/// Larger files of a trial stay where they are, and go with it.
const COLLECTED: u64 = 16 << 20;

/// What nobody has asked for in so long is removed from `files`.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// What a connection knows of the files there.
#[derive(Default)]
pub(crate) struct Carried {
    /// What is at each place.
    places: BTreeMap<PathBuf, Known>,
    hashes: BTreeMap<Known, String>,
    folders: BTreeSet<PathBuf>,
}

/// A file as it was at some time: device, number, length and time of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Known(u64, u64, u64, i64, i64);

impl Known {
    fn of(path: &Path) -> io::Result<Self> {
        let m = fs::metadata(path)?;
        Ok(Self(m.dev(), m.ino(), m.len(), m.mtime(), m.mtime_nsec()))
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, source }
}

impl Agent {
    /// Sends a file, or all files of a folder, unless its machine has it: the path there. On this machine: the path itself.
    ///
    /// # Errors
    /// Where it cannot be read here, or written there.
    pub fn put(&self, path: &Path) -> Result<PathBuf, Error> {
        let Some(connection) = self.connection() else { return Ok(path.to_owned()) };
        if path.is_dir() {
            for entry in fs::read_dir(path).map_err(failed(path))? {
                self.put(&entry.map_err(failed(path))?.path())?;
            }
            return Ok(connection.place(path));
        }
        let there = connection.place(path);
        let known = Known::of(path).map_err(failed(path))?;
        if lock(&connection.carried).places.get(&there) == Some(&known) {
            return Ok(there);
        }
        let hash = lock(&connection.carried).hashes.get(&known).cloned();
        let hash = hash.map_or_else(|| hash_of(path), Ok)?;
        if !self.ask(LinkFile { hash: hash.clone(), path: there.clone() })? {
            self.send(path, &hash)?;
            self.ask(LinkFile { hash: hash.clone(), path: there.clone() })?;
        }
        let mut carried = lock(&connection.carried);
        carried.hashes.insert(known, hash);
        carried.places.insert(there.clone(), known);
        Ok(there)
    }

    fn send(&self, path: &Path, hash: &str) -> Result<(), Error> {
        let mut file = File::open(path).map_err(failed(path))?;
        let part = crate::agent::Number::new(self, self.ask(StartReceiving {})?);
        loop {
            let piece = Piece::of(&mut file, path)?;
            if piece.octets == 0 {
                return self.ask(FinishReceiving { part: part.number, hash: hash.to_owned() });
            }
            self.ask(Receive { part: part.number, piece })?;
        }
    }

    /// The path at which its machine has what is written for a path of ours; the folder is made. On this machine: the path itself.
    ///
    /// # Errors
    /// Where the folder cannot be made.
    pub fn place(&self, path: &Path) -> Result<PathBuf, Error> {
        let Some(connection) = self.connection() else { return Ok(path.to_owned()) };
        let there = connection.place(path);
        let folder = there.parent().unwrap_or(Path::new("/")).to_owned();
        if lock(&connection.carried).folders.insert(folder.clone()) {
            self.ask(MakeFolder { folder })?;
        }
        Ok(there)
    }

    /// Fetches what was written at the place of a path of ours, and removes it there.
    ///
    /// # Errors
    /// Where it cannot be read there, or written here.
    pub fn fetch(&self, path: &Path) -> Result<(), Error> {
        let Some(connection) = self.connection() else { return Ok(()) };
        let there = connection.place(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed(folder))?;
        }
        let mut file = File::create(path).map_err(failed(path))?;
        let mut from = 0;
        loop {
            let piece = self.ask(Fetch { path: there.clone(), from })?;
            if piece.octets == 0 {
                return self.ask(RemoveFile { path: there });
            }
            from += piece.octets;
            file.write_all(&piece.read(path)?).map_err(failed(path))?;
        }
    }

    /// Fetches what was written below the place of a folder of ours and is not here, files of up to 16 MiB alone, and removes
    /// all of it from its machine.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub fn collect(&self, folder: &Path) -> Result<(), Error> {
        let Some(connection) = self.connection() else { return Ok(()) };
        let there = connection.place(folder);
        for (path, octets) in self.ask(List { folder: there.clone() })? {
            let here = folder.join(&path);
            let is_ours = lock(&connection.carried).places.contains_key(&there.join(&path));
            if octets <= COLLECTED && !is_ours && !here.exists() {
                self.fetch(&here)?;
            }
        }
        let mut carried = lock(&connection.carried);
        carried.places.retain(|place, _| !place.starts_with(&there));
        carried.folders.retain(|place| !place.starts_with(&there));
        drop(carried);
        self.ask(RemoveFolder { folder: there })
    }

    /// Sends the files that a specification names; gives it with their paths there.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub(crate) fn carry<S: Files + Clone>(&self, spec: &S) -> Result<S, Error> {
        let mut carried = spec.clone();
        carried.files(&mut |file| -> Result<(), Error> {
            match file {
                Named::Read(path) => *path = self.put(path)?,
                Named::Written(path) => *path = self.place(path)?,
            }
            Ok(())
        })?;
        Ok(carried)
    }
}

impl Connection {
    /// The place of a path of ours there.
    fn place(&self, path: &Path) -> PathBuf {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        match path.strip_prefix(&self.root) {
            Ok(inside) => self.folder.join("run").join(inside),
            Err(_) => self.folder.join("other").join(path.strip_prefix("/").unwrap_or(&path)),
        }
    }
}

/// The SHA-256 of a file, as hexadecimal digits.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn hash_of(path: &Path) -> Result<String, Error> {
    measure::files::sha256(path).map_err(failed(path))
}

/// A part of a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// Of the file; 0: its end.
    octets: u64,
    /// Compressed with zstd, in base64.
    data: String,
}

impl Piece {
    fn of(file: &mut File, path: &Path) -> Result<Self, Error> {
        let mut data = Vec::new();
        let octets = file.take(PIECE).read_to_end(&mut data).map_err(failed(path))? as u64;
        let data = zstd::bulk::compress(&data, 1).map_err(failed(path))?;
        Ok(Self { octets, data: BASE64_STANDARD.encode(data) })
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, Error> {
        let data = BASE64_STANDARD.decode(&self.data).map_err(io::Error::other);
        let data = data.and_then(|data| zstd::bulk::decompress(&data, PIECE as usize));
        data.map_err(failed(path))
    }
}

/// The folder of an agent elsewhere; its part of one coordinator is removed when this is dropped.
pub(crate) struct Folder {
    store: PathBuf,
    /// Of this coordinator.
    pub run: PathBuf,
    /// Locked for as long as this is there.
    _lock: File,
}

const LOCK: &str = "lock";

impl Folder {
    /// Makes a folder for a coordinator, and removes what earlier ones left, which are gone.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let folder = std::path::absolute(folder).map_err(failed(folder))?;
        let store = folder.join("files");
        fs::create_dir_all(&store).map_err(failed(&store))?;
        tidy(&folder, &store);
        let made = tempfile::Builder::new().prefix("run-").tempdir_in(&folder).map_err(failed(&folder))?;
        let run = made.keep();
        let lock = run.join(LOCK);
        let lock = File::create(&lock).and_then(|file| file.lock().map(|()| file)).map_err(failed(&lock))?;
        Ok(Self { store, run, _lock: lock })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.run);
    }
}

/// Removes folders of coordinators that are gone, and files that nobody has used for long. What cannot be removed stays.
fn tidy(folder: &Path, store: &Path) {
    for run in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_run = run.file_name().to_string_lossy().starts_with("run-");
        if is_run && File::open(run.path().join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(run.path());
        }
    }
    for file in fs::read_dir(store).into_iter().flatten().flatten() {
        let used = file.metadata().and_then(|m| m.modified());
        if used.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > KEPT)) {
            let _ = fs::remove_file(file.path());
        }
    }
}

/// Links a file that was sent to its place. False: it was not sent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LinkFile {
    hash: String,
    path: PathBuf,
}

impl Request for LinkFile {
    const NAME: &'static str = "LinkFile";
    type Answer = bool;

    fn act(self, at: &At<'_>) -> Result<bool, Error> {
        let kept = at.here.folder()?.store.join(&self.hash);
        let used = File::options().append(true).open(&kept).and_then(|f| f.set_modified(SystemTime::now()));
        if used.is_err() {
            return Ok(false);
        }
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(failed(folder))?;
        // Aside first: a server may read what is at the place now.
        let aside = self.path.with_extension("new");
        let _ = fs::remove_file(&aside);
        // What is small may be a key, which a server may write to in place.
        let is_large = fs::metadata(&kept).is_ok_and(|m| m.len() > PIECE);
        let linked = if is_large { fs::hard_link(&kept, &aside) } else { Err(io::ErrorKind::Other.into()) };
        let linked = linked.or_else(|_| fs::copy(&kept, &aside).map(drop));
        linked.and_then(|()| fs::rename(&aside, &self.path)).map_err(failed(&self.path))?;
        // A rename of one link of a file to another does nothing.
        let _ = fs::remove_file(&aside);
        Ok(true)
    }
}

/// Begins to receive a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StartReceiving {}

impl Request for StartReceiving {
    const NAME: &'static str = "StartReceiving";
    type Answer = u64;

    fn act(self, at: &At<'_>) -> Result<u64, Error> {
        let run = &at.here.folder()?.run;
        let file = NamedTempFile::new_in(run).map_err(failed(run))?;
        Ok(at.here.keep(file))
    }
}

/// Receives a piece of a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Receive {
    part: u64,
    piece: Piece,
}

impl Request for Receive {
    const NAME: &'static str = "Receive";
    type Answer = ();

    fn act(self, at: &At<'_>) -> Result<(), Error> {
        at.here.with(self.part, |part: &mut NamedTempFile| {
            let path = part.path().to_owned();
            let data = self.piece.read(&path)?;
            part.write_all(&data).map_err(failed(&path))
        })?
    }
}

/// Ends a file that was sent, and keeps it by its hash.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FinishReceiving {
    part: u64,
    hash: String,
}

impl Request for FinishReceiving {
    const NAME: &'static str = "FinishReceiving";
    type Answer = ();

    fn act(self, at: &At<'_>) -> Result<(), Error> {
        let part = at.here.take::<NamedTempFile>(self.part)?;
        let path = part.path().to_owned();
        let hash = hash_of(&path)?;
        if hash != self.hash {
            let source = io::Error::other(format!("it was sent with SHA-256 {}, and has {hash}", self.hash));
            return Err(failed(&path)(source));
        }
        let kept = at.here.folder()?.store.join(hash);
        part.persist(&kept).map(drop).map_err(|e| failed(&kept)(e.error))
    }
}

/// Makes a folder, and those above it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MakeFolder {
    folder: PathBuf,
}

impl Request for MakeFolder {
    const NAME: &'static str = "MakeFolder";
    type Answer = ();

    fn act(self, _: &At<'_>) -> Result<(), Error> {
        fs::create_dir_all(&self.folder).map_err(failed(&self.folder))
    }
}

/// Reads a piece of a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Fetch {
    path: PathBuf,
    from: u64,
}

impl Request for Fetch {
    const NAME: &'static str = "Fetch";
    type Answer = Piece;

    fn act(self, _: &At<'_>) -> Result<Piece, Error> {
        let mut file = File::open(&self.path).map_err(failed(&self.path))?;
        file.seek(SeekFrom::Start(self.from)).map_err(failed(&self.path))?;
        Piece::of(&mut file, &self.path)
    }
}

/// Removes a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RemoveFile {
    path: PathBuf,
}

impl Request for RemoveFile {
    const NAME: &'static str = "RemoveFile";
    type Answer = ();

    fn act(self, _: &At<'_>) -> Result<(), Error> {
        fs::remove_file(&self.path).map_err(failed(&self.path))
    }
}

/// Lists the regular files below a folder, each with its length in octets.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct List {
    folder: PathBuf,
}

impl Request for List {
    const NAME: &'static str = "List";
    type Answer = Vec<(PathBuf, u64)>;

    fn act(self, _: &At<'_>) -> Result<Self::Answer, Error> {
        let (mut found, mut folders) = (Vec::new(), vec![self.folder.clone()]);
        while let Some(folder) = folders.pop() {
            // Nothing was written there.
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries {
                let entry = entry.map_err(failed(&folder))?;
                let kind = entry.file_type().map_err(failed(&folder))?;
                let path = entry.path();
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_file() {
                    let octets = entry.metadata().map_err(failed(&path))?.len();
                    found.push((path.strip_prefix(&self.folder).unwrap_or(&path).to_owned(), octets));
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

/// Removes a folder with everything in it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RemoveFolder {
    folder: PathBuf,
}

impl Request for RemoveFolder {
    const NAME: &'static str = "RemoveFolder";
    type Answer = ();

    fn act(self, _: &At<'_>) -> Result<(), Error> {
        match fs::remove_dir_all(&self.folder) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed(&self.folder)(e)),
            _ => Ok(()),
        }
    }
}
