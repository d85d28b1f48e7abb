//! From lines to answers.

use super::files::{Files, Renamed, Span};
use super::line::{self, End, What};
use super::message::{self, Update};
use super::report::{Answer, Basis, Report, SyncVerdict};
use super::verdict::Pending;
use super::{FileCount, Scope};
use memchr::memmem;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Updates that may wait for their answers; beyond, the oldest counts as unanswered.
const MAX_PENDING: usize = 65_536;

/// Files whose counts are kept.
const MAX_FILES: usize = 1000;

/// Octets of one direction of a connection that are no whole message yet.
const MAX_STREAM: usize = 2 + 65_535;

/// Connections, calls and descriptors that are kept track of.
const MAX_TRACKED: usize = 65_536;

/// How many lines pass between two looks at what can be forgotten.
const TIDY: u64 = 256;

/// A call that is not over.
struct Begun {
    name: Vec<u8>,
    args: Vec<u8>,
    line: u64,
    time: u64,
}

/// A call that is over.
struct Call<'a> {
    pid: u32,
    name: &'a [u8],
    args: &'a [u8],
    span: Span,
    /// Nanoseconds since 1970.
    time: u64,
    end: End<'a>,
}

/// Reads a trace line by line; memory is bounded by the updates that wait for an answer.
pub struct Analysis {
    scope: Scope,
    line: u64,
    begun: HashMap<u32, Begun>,
    files: Files,
    /// Descriptors opened with O_SYNC or O_DSYNC, with their files.
    synchronous: HashSet<(i64, PathBuf)>,
    streams: HashMap<(Vec<u8>, bool), Vec<u8>>,
    pending: HashMap<(SocketAddr, u16), Pending>,
    first: u64,
    report: Report,
}

impl Analysis {
    /// Nothing read yet.
    pub fn new(scope: Scope) -> Self {
        Self {
            scope,
            line: 0,
            begun: HashMap::new(),
            files: Files::default(),
            synchronous: HashSet::new(),
            streams: HashMap::new(),
            pending: HashMap::new(),
            first: 0,
            report: Report::default(),
        }
    }

    /// Reads the next line, without its end; answers go to `each`.
    pub fn line(&mut self, line: &[u8], each: &mut impl FnMut(Answer)) {
        self.line += 1;
        let here = self.line;
        if here.is_multiple_of(TIDY) {
            let oldest = self.pending.values().map(|pending| pending.received).min().unwrap_or(here);
            self.files.forget(oldest);
        }
        if line.is_empty() {
            return;
        }
        let Some(line) = line::parse(line) else {
            self.report.foreign_lines += 1;
            return;
        };
        match line.what {
            What::Other => (),
            What::Unfinished { name, args } => {
                if self.begun.len() < MAX_TRACKED {
                    let begun = Begun { name: name.into(), args: args.into(), line: here, time: line.time };
                    self.begun.insert(line.pid, begun);
                }
            }
            What::Call { name, args, end } => {
                let span = Span { begin: here, end: here };
                self.call(&Call { pid: line.pid, name, args, span, time: line.time, end }, each);
            }
            What::Resumed { name, args, end } => {
                // Without its begin it began before strace came.
                let Some(begun) = self.begun.remove(&line.pid).filter(|begun| begun.name == name) else {
                    return;
                };
                let args = [&begun.args[..], args].concat();
                let span = Span { begin: begun.line, end: here };
                self.call(&Call { pid: line.pid, name, args: &args, span, time: begun.time, end }, each);
            }
        }
    }

    /// The end of the trace.
    pub fn finish(mut self) -> Report {
        self.report.unanswered += self.pending.len() as u64;
        self.report
    }

    fn call(&mut self, call: &Call<'_>, each: &mut impl FnMut(Answer)) {
        match call.name {
            b"open" | b"openat" | b"openat2" | b"creat" => self.opened(call),
            b"write" | b"pwrite64" | b"writev" | b"pwritev" | b"pwritev2" => {
                // To a file or to a socket.
                self.wrote(call);
                self.sent(call, each);
            }
            b"ftruncate" | b"fallocate" => self.wrote(call),
            b"truncate" => {
                let path = self.named(call.args);
                if call.end.value == Some(0) && self.scope.holds(&path) {
                    self.count_write(&path, call.span, false, &[]);
                }
            }
            b"fsync" | b"fdatasync" => {
                if let Some((_, path)) = line::descriptor(call.args) {
                    self.synced(call, &PathBuf::from(OsStr::from_bytes(path)));
                }
            }
            b"msync" if memmem::find(call.args, b"MS_SYNC").is_some() => {
                if let Some(path) = hex(call.args).and_then(|at| self.files.at(at)).map(Path::to_owned) {
                    self.synced(call, &path);
                }
            }
            b"sync" | b"syncfs" if call.end.value == Some(0) => {
                self.files.synced_all(call.span);
                self.count_sync(call);
            }
            b"mmap" => self.mapped(call),
            b"rename" | b"renameat" | b"renameat2" | b"unlink" | b"unlinkat" => self.renamed(call),
            b"recvmsg" | b"recvmmsg" | b"recvfrom" | b"read" | b"readv" => self.received(call),
            b"sendmsg" | b"sendmmsg" | b"sendto" => self.sent(call, each),
            b"io_uring_setup" if call.end.value.is_some_and(|v| v >= 0) => {
                let what = "io_uring: what goes by way of it is not in the trace";
                if self.report.blind.is_empty() {
                    self.report.blind.push(what.into());
                }
            }
            _ => (),
        }
    }

    fn opened(&mut self, call: &Call<'_>) {
        let Some((fd, path)) = line::descriptor(call.end.result) else { return };
        let path = PathBuf::from(OsStr::from_bytes(path));
        if !self.scope.holds(&path) {
            return;
        }
        // Behind the file's name, which may hold any words.
        let flags = memchr::memrchr(b'"', call.args).map_or(&[][..], |at| &call.args[at..]);
        let synchronous =
            memmem::find(flags, b"O_SYNC").is_some() || memmem::find(flags, b"O_DSYNC").is_some();
        let key = (fd, path);
        if !synchronous {
            self.synchronous.remove(&key);
        } else if self.synchronous.len() < MAX_TRACKED {
            self.synchronous.insert(key);
        }
    }

    fn wrote(&mut self, call: &Call<'_>) {
        let Some((fd, path)) = line::descriptor(call.args) else { return };
        let path = PathBuf::from(OsStr::from_bytes(path));
        if !self.scope.holds(&path) || call.end.value.is_none_or(|value| value < 0) {
            return;
        }
        let flagged = call.name == b"pwritev2" && {
            let flags = memchr::memrchr(b']', call.args).map_or(&[][..], |at| &call.args[at..]);
            memmem::find(flags, b"RWF_SYNC").is_some() || memmem::find(flags, b"RWF_DSYNC").is_some()
        };
        let key = (fd, path);
        let synced = flagged || self.synchronous.contains(&key);
        let (content, cut) = line::buffers(call.args);
        self.report.cut_off += u64::from(cut && self.first > 0);
        self.count_write(&key.1, call.span, synced, &content);
    }

    fn count_write(&mut self, path: &Path, span: Span, synced: bool, content: &[u8]) {
        self.files.wrote(path, span, synced);
        if self.first == 0 {
            return;
        }
        self.count(path, |count| {
            count.writes += 1;
            count.synced_writes += u64::from(synced);
        });
        self.report.syncs += u64::from(synced);
        if content.is_empty() {
            return;
        }
        let content = content.to_ascii_lowercase();
        for pending in self.pending.values_mut().filter(|pending| span.begin > pending.received) {
            if pending.marks.iter().any(|mark| memmem::find(&content, mark).is_some()) {
                pending.marked.entry(path.into()).or_insert((!synced).then_some(span));
            }
        }
    }

    fn synced(&mut self, call: &Call<'_>, path: &Path) {
        if !self.scope.folders.iter().any(|folder| path.starts_with(folder)) {
            return;
        }
        let ok = call.end.value == Some(0);
        self.files.synced(path, call.span, ok);
        if self.first > 0 {
            if ok {
                self.count(path, |count| count.syncs += 1);
            }
            self.report.syncs_failed += u64::from(!ok);
        }
        if ok {
            self.count_sync(call);
        }
    }

    fn count_sync(&mut self, call: &Call<'_>) {
        if self.first > 0 {
            self.report.syncs += 1;
            self.report.sync_latency.record(call.end.took);
        }
    }

    fn count(&mut self, path: &Path, add: impl FnOnce(&mut FileCount)) {
        let files = &mut self.report.files;
        if files.len() < MAX_FILES || files.contains_key(path) {
            add(files.entry(path.into()).or_default());
        }
    }

    fn mapped(&mut self, call: &Call<'_>) {
        let parts: Vec<&[u8]> = call.args.splitn(5, |&b| b == b',').map(<[u8]>::trim_ascii).collect();
        let [_, len, prot, flags, fd] = parts[..] else { return };
        let writable =
            memmem::find(prot, b"PROT_WRITE").is_some() && memmem::find(flags, b"MAP_SHARED").is_some();
        let (Some((_, path)), Some(start)) = (line::descriptor(fd), call.end.value) else { return };
        let path = PathBuf::from(OsStr::from_bytes(path));
        if writable && start > 0 && self.scope.holds(&path) {
            let len = std::str::from_utf8(len).ok().and_then(|len| len.parse().ok()).unwrap_or(0);
            self.files.mapped(start as u64, len, &path);
        }
    }

    fn renamed(&mut self, call: &Call<'_>) {
        let path = self.named(call.args);
        if call.end.value == Some(0) && self.scope.holds(&path) {
            self.files.renamed(Renamed { span: call.span, pid: call.pid, file: path });
        }
    }

    /// The path that a call names first: relative to the folder that strace tells, or else to the server's.
    fn named(&self, args: &[u8]) -> PathBuf {
        let Some(quote) = memchr::memchr(b'"', args) else { return PathBuf::new() };
        let (name, ..) = line::string(&args[quote + 1..]);
        let path_of_descriptor = memchr::memchr(b'<', &args[..quote])
            .and_then(|at| Some(&args[at + 1..at + memchr::memchr(b'>', &args[at..quote])?]));
        let folder =
            path_of_descriptor.map(|path_of_descriptor| Path::new(OsStr::from_bytes(path_of_descriptor)));
        folder
            .or(self.scope.folders.first().map(|f| &**f))
            .unwrap_or(Path::new("/"))
            .join(OsStr::from_bytes(&name))
    }

    /// The messages of a call on a socket, each with the address of the other end.
    fn messages(&mut self, call: &Call<'_>, receives: bool) -> Vec<(SocketAddr, Vec<u8>)> {
        if call.end.value.is_none_or(|value| value <= 0) {
            return Vec::new();
        }
        let Some((_, socket)) = line::descriptor(call.args) else { return Vec::new() };
        let peer = line::peer(socket);
        if socket.starts_with(b"UDP") {
            let messages = line::messages(call.name, call.args);
            self.report.cut_off += messages.iter().filter(|(_, _, cut)| *cut).count() as u64;
            return messages
                .into_iter()
                .filter_map(|(from, bytes, _)| Some((from.or(peer)?, bytes)))
                .collect();
        }
        let (Some(peer), true) = (peer, socket.starts_with(b"TCP")) else { return Vec::new() };
        let key = (socket.to_vec(), receives);
        if self.streams.len() >= MAX_TRACKED && !self.streams.contains_key(&key) {
            self.streams.clear();
        }
        let stream = self.streams.entry(key).or_default();
        for (_, bytes, cut) in line::messages(call.name, call.args) {
            stream.extend(bytes);
            if cut {
                // Where the next message begins is not known any more.
                self.report.cut_off += 1;
                stream.clear();
            }
        }
        let mut whole = Vec::new();
        while let [a, b, rest @ ..] = &stream[..] {
            let len = usize::from(u16::from_be_bytes([*a, *b]));
            if rest.len() < len {
                break;
            }
            whole.push((peer, rest[..len].to_vec()));
            stream.drain(..2 + len);
        }
        debug_assert!(stream.len() <= MAX_STREAM);
        whole
    }

    fn received(&mut self, call: &Call<'_>) {
        for (from, bytes) in self.messages(call, true) {
            let Some(Update { id, answer: false, marks, .. }) = message::update(&bytes) else { continue };
            if self.first == 0 {
                self.first = call.time;
            }
            self.report.updates += 1;
            if self.pending.contains_key(&(from, id)) {
                continue; // sent again
            }
            if self.pending.len() >= MAX_PENDING {
                let oldest = self.pending.iter().min_by_key(|(_, p)| p.received).map(|(key, _)| *key);
                oldest.and_then(|key| self.pending.remove(&key));
                self.report.unanswered += 1;
            }
            // Their answers may be on their way, and only seen when that call is over.
            let before: HashSet<_> = self.pending.keys().copied().collect();
            for other in self.pending.values_mut() {
                other.next.get_or_insert(call.span.end);
            }
            let pending = Pending {
                received: call.span.end,
                time: call.time.saturating_add(call.end.took),
                marks,
                before,
                next: None,
                marked: BTreeMap::new(),
            };
            self.pending.insert((from, id), pending);
        }
    }

    fn sent(&mut self, call: &Call<'_>, each: &mut impl FnMut(Answer)) {
        for (client, bytes) in self.messages(call, false) {
            let Some(Update { id, answer: true, rcode, .. }) = message::update(&bytes) else { continue };
            let Some(pending) = self.pending.remove(&(client, id)) else { continue };
            for other in self.pending.values_mut().filter(|other| call.span.begin < other.received) {
                other.before.remove(&(client, id));
            }
            let (basis, verdict) = match rcode {
                0 => pending.verdict(&self.files, call.span.begin, call.pid),
                _ => (Basis::All, SyncVerdict::Refused),
            };
            self.report.span = call.time.saturating_sub(self.first);
            let answer = Answer {
                client,
                id,
                rcode,
                name: pending
                    .marks
                    .first()
                    .map(|m| String::from_utf8_lossy(m).into_owned())
                    .unwrap_or_default(),
                lines: (pending.received, call.span.begin),
                took: call.time.saturating_sub(pending.time),
                basis,
                verdict,
            };
            match &answer.verdict {
                SyncVerdict::Covered => self.report.covered += 1,
                SyncVerdict::NothingWritten => self.report.nothing_written += 1,
                SyncVerdict::Refused => self.report.refused += 1,
                SyncVerdict::NotCovered { .. } => {
                    self.report.not_covered += 1;
                    self.report.first_not_covered.get_or_insert_with(|| answer.clone());
                }
            }
            self.report.by_order += u64::from(answer.basis == Basis::Order);
            each(answer);
        }
    }
}

/// The address that a call's arguments begin with.
fn hex(args: &[u8]) -> Option<u64> {
    let digits = args.strip_prefix(b"0x")?;
    let len = digits.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    u64::from_str_radix(std::str::from_utf8(&digits[..len]).ok()?, 16).ok()
}
