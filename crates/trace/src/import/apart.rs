//! Captures that are traces of their own, imported into one folder: several at the same time, on several machines, and in several goes.
//!
//! ```text
//! DIR/_manifest.jsonl                                 a line for each capture that is done
//! DIR/capture=monday.pcap.zst/part-00000.parquet …    its rows
//! ```
//!
//! The folders are named as Hive names partitions, so that DuckDB and Spark read all of them as one table with a column `capture`. A folder has its
//! name when all of its files are whole, and then the manifest gets its line. A folder without a line is removed when the import goes on, and its
//! capture is imported anew: no row is there twice.

use super::{Error, Spec, Summary, import_unless};
use measure::files::{Named, sha256};
use measure::{Files, aside};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The file that says what is done. Spark and Hive take no file for data whose name begins so.
pub const MANIFEST: &str = "_manifest.jsonl";

/// The name of its schema, in its first line.
pub const SCHEMA: &str = "dnsrack.trace.import.manifest/1";

/// What the names of the captures' folders begin with.
pub const FOLDER: &str = "capture=";

/// How many workers may be lost over a capture, before it is given up.
const TRIES: u32 = 3;

/// What may be wrong with an import of captures apart.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// An import was begun there.
    #[error("{}: an import was begun here: go on with it (--resume), or give another folder", .path.display())]
    Begun {
        /// The folder.
        path: PathBuf,
    },
    /// Another process imports into it.
    #[error("{}: another dnsrack imports into it now: wait for its end", .path.display())]
    AtWork {
        /// The folder.
        path: PathBuf,
    },
    /// It was begun with other settings.
    #[error("{}: this import was begun with --port {ports} and --rows-per-file {rows_per_file}: give the same, or another folder", .path.display())]
    OtherSettings {
        /// The folder.
        path: PathBuf,
        /// The ports, with commas between them.
        ports: String,
        /// Rows of a file.
        rows_per_file: u64,
    },
    /// A line of the manifest is none of this version.
    #[error("{}:{line}: no line of a manifest of this version: {what}; give another folder", .path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// The path of a capture cannot be written into the manifest.
    #[error("{}: the path is not UTF-8: give it a name that is", .path.display())]
    NotUtf8 {
        /// The capture.
        path: PathBuf,
    },
    /// A capture is another one than the one that was imported, or changed while it was read.
    #[error("{}: it changed since its import began: import it into another folder", .path.display())]
    Changed {
        /// The capture.
        path: PathBuf,
    },
}

/// How one capture is imported: the specification of the role `import`. Each machine sees capture and folder at these paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The capture.
    pub capture: PathBuf,
    /// The folder of its files.
    pub folder: PathBuf,
    /// How.
    pub spec: Spec,
}

impl Files for Task {
    fn files<E>(&mut self, _: &mut dyn FnMut(Named<'_>) -> Result<(), E>) -> Result<(), E> {
        // Nothing is sent: captures are large, and all machines see them.
        Ok(())
    }
}

/// A capture that is done: a line of the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Imported {
    /// The capture.
    pub capture: PathBuf,
    /// What it was.
    pub read: Stamp,
    /// Its SHA-256.
    pub sha256: String,
    /// The name of the folder of its files.
    pub folder: String,
    /// Its files.
    pub files: Vec<Part>,
    /// Counts.
    pub summary: Summary,
}

/// A capture at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stamp {
    /// Its octets.
    pub octets: u64,
    /// When it was changed: seconds since 1970, and nanoseconds of a second.
    pub changed: (i64, i64),
}

/// A file of rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its name in the folder.
    pub name: String,
    /// Its octets.
    pub octets: u64,
    /// Its SHA-256.
    pub sha256: String,
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
    move |source| Error::Io { path: path.to_owned(), source }
}

impl Stamp {
    fn of(path: &Path) -> Result<Self, Error> {
        let m = fs::metadata(path).map_err(at(path))?;
        Ok(Self { octets: m.len(), changed: (m.mtime(), m.mtime_nsec()) })
    }
}

impl Task {
    /// Imports the capture, until `stop` is set. `progress` hears the packets read so far.
    ///
    /// # Errors
    /// As of [`super::import`]; [`Fault::Changed`].
    pub fn run(&self, stop: &AtomicBool, progress: &mut dyn FnMut(u64)) -> Result<Imported, Error> {
        let read = Stamp::of(&self.capture)?;
        remove(&self.folder)?;
        let (summary, hash) = thread::scope(|scope| {
            // The kernel has most of what is read twice.
            let hash = scope.spawn(|| sha256(&self.capture));
            let captures = std::slice::from_ref(&self.capture);
            let summary = import_unless(stop, captures, &self.folder, &self.spec, progress);
            (summary, hash.join().expect("a hash does not panic"))
        });
        let (summary, hash) = (summary?, hash.map_err(at(&self.capture))?);
        if Stamp::of(&self.capture)? != read {
            remove(&self.folder)?;
            return Err(Fault::Changed { path: self.capture.clone() }.into());
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(at(&self.folder))? {
            let path = entry.map_err(at(&self.folder))?.path();
            files.push(Part {
                name: text_of(&path),
                octets: Stamp::of(&path)?.octets,
                sha256: sha256(&path).map_err(at(&path))?,
            });
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        let (capture, folder) = (self.capture.clone(), text_of(&self.folder));
        Ok(Imported { capture, read, sha256: hash, folder, files, summary })
    }
}

/// The last part of a path.
fn text_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Removes a folder that may be there.
fn remove(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(at(folder)(e)),
        _ => Ok(()),
    }
}

/// The first line of a manifest.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    schema: String,
    ports: Vec<u16>,
    rows_per_file: u64,
}

/// The folder of an import, which nobody else imports into meanwhile, and what is done there.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    spec: Spec,
    /// Locked.
    manifest: File,
    done: BTreeMap<PathBuf, Imported>,
}

impl Folder {
    /// Begins an import in a folder that does not exist or is empty; with `resume`, goes on with one that was begun.
    ///
    /// # Errors
    /// [`Fault`]; [`Error::Occupied`]; a folder that cannot be made, read or written.
    pub fn open(path: &Path, spec: &Spec, resume: bool) -> Result<Self, Error> {
        let path = std::path::absolute(path).map_err(at(path))?;
        let file = path.join(MANIFEST);
        let is_new = !file.exists();
        if is_new && fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Error::Occupied {
                path,
                what: "there is something in it, and no manifest of an import",
            });
        }
        if !is_new && !resume {
            return Err(Fault::Begun { path }.into());
        }
        fs::create_dir_all(&path).map_err(at(&path))?;
        let manifest = File::options().read(true).append(true).create(true).open(&file).map_err(at(&file))?;
        match manifest.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(Fault::AtWork { path }.into()),
            Err(TryLockError::Error(e)) => return Err(at(&file)(e)),
            Ok(()) => {}
        }
        let text = fs::read(&file).map_err(at(&file))?;
        // A line that was cut off is not done.
        let whole = text.iter().rposition(|&octet| octet == b'\n').map_or(0, |end| end + 1);
        let (head, done) = parse(&text[..whole], &file)?;
        if whole < text.len() {
            manifest.set_len(whole as u64).map_err(at(&file))?;
        }
        let mut folder = Self { path, spec: spec.clone(), manifest, done };
        let ours =
            Head { schema: SCHEMA.into(), ports: spec.ports.clone(), rows_per_file: spec.rows_per_file };
        match head {
            None => folder.append(&ours)?,
            Some(head) if head == ours => folder.tidy()?,
            Some(Head { ports, rows_per_file, .. }) => {
                let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
                return Err(Fault::OtherSettings {
                    path: folder.path,
                    ports: ports.join(","),
                    rows_per_file,
                }
                .into());
            }
        }
        Ok(folder)
    }

    /// Removes folders that no line names. An import that was cut off leaves them, and so does a machine that was lost.
    fn tidy(&self) -> Result<(), Error> {
        let named: BTreeSet<&str> = self.done.values().map(|done| done.folder.as_str()).collect();
        for entry in fs::read_dir(&self.path).map_err(at(&self.path))? {
            let path = entry.map_err(at(&self.path))?.path();
            let name = text_of(&path);
            let ours = name.starts_with(FOLDER) || aside::is_aside(name.as_ref());
            if ours && path.is_dir() && !named.contains(name.as_str()) {
                remove(&path)?;
            }
        }
        Ok(())
    }

    fn append(&mut self, line: &impl Serialize) -> Result<(), Error> {
        let mut text = serde_json::to_string(line).expect("plain data");
        text.push('\n');
        let written = self.manifest.write_all(text.as_bytes()).and_then(|()| self.manifest.sync_data());
        written.map_err(at(&self.path.join(MANIFEST)))
    }

    /// What is to be done for these captures to be there, the longest first; one that is named twice is read once.
    ///
    /// # Errors
    /// A capture that cannot be looked at; [`Fault::Changed`].
    pub fn tasks(&self, captures: &[PathBuf]) -> Result<Vec<Task>, Error> {
        let mut taken: BTreeSet<String> = self.done.values().map(|done| done.folder.clone()).collect();
        let mut tasks: BTreeMap<PathBuf, (u64, Task)> = BTreeMap::new();
        for capture in captures {
            let capture = std::path::absolute(capture).map_err(at(capture))?;
            if capture.to_str().is_none() {
                return Err(Fault::NotUtf8 { path: capture }.into());
            }
            let stamp = Stamp::of(&capture)?;
            let done = self.done.get(&capture);
            if done.is_some_and(|done| done.read != stamp) {
                return Err(Fault::Changed { path: capture }.into());
            }
            if tasks.contains_key(&capture) || done.is_some_and(|done| self.has(done)) {
                continue;
            }
            let name = done.map_or_else(|| name(&capture, &taken), |done| done.folder.clone());
            let folder = self.path.join(&name);
            taken.insert(name);
            tasks.insert(capture.clone(), (stamp.octets, Task { capture, folder, spec: self.spec.clone() }));
        }
        let mut tasks: Vec<_> = tasks.into_values().collect();
        tasks.sort_by_key(|(octets, _)| std::cmp::Reverse(*octets));
        Ok(tasks.into_iter().map(|(_, task)| task).collect())
    }

    /// Whether the files of a capture are there, as long as they were.
    fn has(&self, done: &Imported) -> bool {
        let folder = self.path.join(&done.folder);
        let is_there = |part: &Part| {
            fs::metadata(folder.join(&part.name)).is_ok_and(|m| m.is_file() && m.len() == part.octets)
        };
        done.files.iter().all(is_there)
    }

    /// Captures that are done.
    pub fn done(&self) -> impl Iterator<Item = &Imported> {
        self.done.values()
    }

    fn keep(&mut self, imported: Imported) -> Result<(), Error> {
        self.append(&imported)?;
        self.done.insert(imported.capture.clone(), imported);
        Ok(())
    }

    /// Has these tasks done by workers, each one at a time, and writes into the manifest what is done. Ends when nothing is left, no worker is
    /// left, or `stop` is set.
    ///
    /// # Errors
    /// The manifest cannot be written, or what a lost worker left cannot be removed.
    pub fn work(
        &mut self,
        tasks: Vec<Task>,
        workers: Vec<Box<Worker<'_>>>,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<Outcome, Error> {
        let queue = Queue { left: Mutex::new((tasks.into_iter().map(|task| (task, 0)).collect(), 0)) };
        let mut outcome = Outcome::default();
        let mut packets = vec![0; workers.len()];
        let mut read = 0;
        let (say, said) = channel();
        thread::scope(|scope| {
            for (number, mut worker) in workers.into_iter().enumerate() {
                let (say, queue) = (say.clone(), &queue);
                scope.spawn(move || take_turns(number, &mut *worker, queue, stop, &say));
            }
            drop(say);
            for word in said {
                match word {
                    Said::Packets { worker, seen } => packets[worker] = seen,
                    Said::Done { worker, imported } => {
                        packets[worker] = 0;
                        read += imported.summary.packets;
                        outcome.imported += 1;
                        let kept = self.keep(*imported);
                        if kept.is_err() {
                            // The others end.
                            queue.clear();
                            kept?;
                        }
                    }
                    Said::Failed { worker, capture, why } => {
                        packets[worker] = 0;
                        tell(Event::Failed { capture: &capture, why: &why });
                        outcome.failed.push(Failed { capture, why });
                    }
                    Said::Lost { worker, why } => {
                        packets[worker] = 0;
                        tell(Event::Lost { why: &why });
                    }
                }
                tell(Event::Progress { packets: read + packets.iter().sum::<u64>() });
            }
            Ok::<_, Error>(())
        })?;
        self.tidy()?;
        outcome.undone = queue.len();
        Ok(outcome)
    }
}

/// The folder's name for a capture: its file's name, with as many of the folders above as make it another one than those that are taken.
fn name(capture: &Path, taken: &BTreeSet<String>) -> String {
    let mut text = Vec::new();
    let mut name = String::new();
    for part in capture.iter().rev() {
        let behind = std::mem::replace(&mut text, part.as_bytes().to_vec());
        if !behind.is_empty() {
            text.push(b'/');
            text.extend(behind);
        }
        name = format!("{FOLDER}{}", escaped(&text));
        if !taken.contains(&name) {
            break;
        }
    }
    name
}

/// As Hive writes values of partitions: what may not be in a name is in hexadecimal digits after a `%`.
fn escaped(text: &[u8]) -> String {
    let plain = |octet: u8| octet.is_ascii_alphanumeric() || b".-_+,@".contains(&octet);
    text.iter()
        .map(|&octet| if plain(octet) { char::from(octet).to_string() } else { format!("%{octet:02X}") })
        .collect()
}

/// The lines of a manifest.
fn parse(text: &[u8], path: &Path) -> Result<(Option<Head>, BTreeMap<PathBuf, Imported>), Fault> {
    let mut lines = text.split(|&octet| octet == b'\n').filter(|line| !line.is_empty()).enumerate();
    let wrong = |line: usize, e: serde_json::Error| Fault::Manifest {
        path: path.to_owned(),
        line: line + 1,
        what: e.to_string(),
    };
    let Some((_, head)) = lines.next() else { return Ok((None, BTreeMap::new())) };
    let head: Head = serde_json::from_slice(head).map_err(|e| wrong(0, e))?;
    if head.schema != SCHEMA {
        let what = format!("its schema is {}", head.schema);
        return Err(Fault::Manifest { path: path.to_owned(), line: 1, what });
    }
    let mut done = BTreeMap::new();
    for (number, line) in lines {
        let imported: Imported = serde_json::from_slice(line).map_err(|e| wrong(number, e))?;
        // One that was imported again has a later line.
        done.insert(imported.capture.clone(), imported);
    }
    Ok((Some(head), done))
}

/// Imports one capture after the other, somewhere; the function that it is given hears the packets read so far. A capture that cannot be
/// imported is an inner error; an outer one: the worker is lost.
pub type Worker<'a> =
    dyn FnMut(&Task, &mut dyn FnMut(u64)) -> Result<Result<Imported, String>, String> + Send + 'a;

/// What happens while captures are imported.
#[derive(Debug)]
pub enum Event<'a> {
    /// So many packets were read.
    Progress {
        /// By all workers.
        packets: u64,
    },
    /// A capture cannot be imported.
    Failed {
        /// Which.
        capture: &'a Path,
        /// Why.
        why: &'a str,
    },
    /// A worker is lost. If others are left, they read its capture.
    Lost {
        /// Why.
        why: &'a str,
    },
}

/// A capture that could not be imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// The capture.
    pub capture: PathBuf,
    /// Why.
    pub why: String,
}

/// What came of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Captures that were imported now.
    pub imported: usize,
    /// Those that could not be.
    pub failed: Vec<Failed>,
    /// Those that nobody came to.
    pub undone: usize,
}

/// What a worker says.
enum Said {
    Packets { worker: usize, seen: u64 },
    Done { worker: usize, imported: Box<Imported> },
    Failed { worker: usize, capture: PathBuf, why: String },
    Lost { worker: usize, why: String },
}

/// Tasks that nobody has begun, each with the number of workers that were lost over it; and how many are at work.
struct Queue {
    left: Mutex<(VecDeque<(Task, u32)>, usize)>,
}

/// What a worker does next.
enum Next {
    Task(Task, u32),
    Wait,
    End,
}

impl Queue {
    fn with<T>(&self, change: impl FnOnce(&mut VecDeque<(Task, u32)>, &mut usize) -> T) -> T {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let (queue, busy) = &mut *left;
        change(queue, busy)
    }

    fn next(&self) -> Next {
        self.with(|queue, busy| match queue.pop_front() {
            Some((task, lost)) => {
                *busy += 1;
                Next::Task(task, lost)
            }
            // Another worker may be lost, and its capture is to be read.
            None if *busy > 0 => Next::Wait,
            None => Next::End,
        })
    }

    fn clear(&self) {
        self.with(|queue, _| queue.clear());
    }

    fn len(&self) -> usize {
        self.with(|queue, _| queue.len())
    }
}

/// How long a worker waits that has nothing to do.
const PAUSE: Duration = Duration::from_millis(50);

/// The thread of a worker.
fn take_turns(number: usize, worker: &mut Worker<'_>, queue: &Queue, stop: &AtomicBool, say: &Sender<Said>) {
    // Nobody listens any more where the manifest could not be written.
    while !stop.load(Ordering::Relaxed) {
        let (task, lost) = match queue.next() {
            Next::Task(task, lost) => (task, lost + 1),
            Next::Wait => {
                thread::sleep(PAUSE);
                continue;
            }
            Next::End => return,
        };
        let done = worker(&task, &mut |seen| drop(say.send(Said::Packets { worker: number, seen })));
        let stopped = stop.load(Ordering::Relaxed) && !matches!(done, Ok(Ok(_)));
        let again = stopped || (done.is_err() && lost < TRIES);
        queue.with(|queue, busy| {
            *busy -= 1;
            if again {
                queue.push_back((task.clone(), lost));
            }
        });
        if stopped {
            return;
        }
        let is_lost = done.is_err();
        match done {
            Ok(Ok(imported)) => {
                let _ = say.send(Said::Done { worker: number, imported: Box::new(imported) });
            }
            Ok(Err(why)) => {
                let _ = say.send(Said::Failed { worker: number, capture: task.capture, why });
            }
            Err(why) => {
                if !again {
                    let (worker, why) =
                        (number, format!("{TRIES} processes ended that read it, the last one: {why}"));
                    let _ = say.send(Said::Failed { worker, capture: task.capture, why });
                }
                let _ = say.send(Said::Lost { worker: number, why });
            }
        }
        if is_lost {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_manifest_is_read_or_refused(lines in proptest::collection::vec("\\PC{0,60}", 0..5)) {
            let head = format!("{{\"schema\":\"{SCHEMA}\",\"ports\":[53],\"rows_per_file\":1}}\n");
            let _ = parse(lines.join("\n").as_bytes(), Path::new("m"));
            let _ = parse((head + &lines.join("\n")).as_bytes(), Path::new("m"));
        }

        #[test]
        fn no_two_captures_have_one_folder(paths in proptest::collection::btree_set("(/[a-c%]{1,2}){1,3}", 1..9)) {
            let mut taken = BTreeSet::new();
            for path in &paths {
                let name = name(Path::new(path), &taken);
                prop_assert!(!name.contains('/'), "{}", name);
                prop_assert!(taken.insert(name.clone()), "{} of {:?}", name, paths);
            }
        }
    }
}
