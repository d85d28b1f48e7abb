//! A connection to the agent of another machine: it sends requests as lines and receives their answers.

use crate::files::Carried;
use crate::message::{Order, Word};
use crate::program::{BUILD, Program};
use crate::request::Request;
use crate::{Error, lock};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long an agent may take to send each of its first messages.
const HELLO: Duration = Duration::from_secs(60);

/// How often a wait for an answer checks whether the run is to stop.
const LOOK: Duration = Duration::from_millis(20);

/// How many seconds pass between two orders that only say that the coordinator is there.
const ALIVE: u64 = 5;

/// How long an agent may take to end its servers and captures after the connection is closed.
const END: Duration = Duration::from_secs(60);

/// A connection to an agent. Dropped, its orders end: then the agent ends everything that it started.
pub(crate) struct Connection {
    /// The machine, for errors.
    name: String,
    orders: Arc<Mutex<Option<Orders>>>,
    heard: Arc<Heard>,
    last: AtomicU64,
    process: Mutex<Option<rack::Process>>,
    /// The standard error of that process, so far.
    said: Arc<Mutex<String>>,
    /// The folder of ours that has a counterpart there.
    pub root: PathBuf,
    /// Where the agent keeps our files.
    pub folder: PathBuf,
    pub carried: Mutex<Carried>,
}

/// Where orders go.
type Orders = Box<dyn Write + Send>;

/// The pipes to an agent that was started.
pub(crate) struct Ends {
    pub orders: Orders,
    pub words: Box<dyn Read + Send>,
    /// The program by which it is reached, and its standard error; it is waited for in the end.
    pub process: Option<(rack::Process, Box<dyn Read + Send>)>,
}

/// How much of the standard error is kept.
const SAID: usize = 4096;

/// The callers and roles that wait for messages of the agent.
#[derive(Default)]
struct Heard {
    gone: AtomicBool,
    answers: Mutex<BTreeMap<u64, Sender<Result<Value, Error>>>>,
    roles: Mutex<BTreeMap<u64, Sender<String>>>,
}

impl Connection {
    /// Waits for the first words of an agent that was started on a machine, and sends it one of these programs where it has not got
    /// it. Our files below `root` have counterparts there.
    ///
    /// # Errors
    /// [`Error::Lost`] where it does not say within a minute that it is there, or is another program.
    pub fn open(name: &str, root: &Path, programs: &[Program], ends: Ends) -> Result<Self, Error> {
        let Ends { orders, words, process } = ends;
        let heard = Arc::new(Heard::default());
        let (hello, there) = channel();
        let hears = Arc::clone(&heard);
        std::thread::spawn(move || hears.hear(BufReader::new(words), &hello));
        let said = Arc::new(Mutex::new(String::new()));
        let process = process.map(|(process, error)| {
            let kept = Arc::clone(&said);
            std::thread::spawn(move || keep(BufReader::new(error), &kept));
            process
        });
        let mut connection = Self {
            name: name.into(),
            orders: Arc::new(Mutex::new(Some(orders))),
            heard,
            last: AtomicU64::new(0),
            process: Mutex::new(process),
            said,
            root: std::path::absolute(root).map_err(|source| Error::File { path: root.into(), source })?,
            folder: PathBuf::new(),
            carried: Mutex::default(),
        };
        loop {
            match there.recv_timeout(HELLO) {
                Ok(Word::Hello { version, build, program, folder }) => {
                    let ours = env!("CARGO_PKG_VERSION");
                    let same = if BUILD.is_empty() { program == programs[0].sha256 } else { build == BUILD };
                    if !same {
                        return Err(connection.lost(format!(
                            "it has another dnsrack ({version}; this is {ours}): install the same there, or leave out 'program', \
                             so that this one is copied"
                        )));
                    }
                    connection.folder = folder;
                    let orders = Arc::clone(&connection.orders);
                    std::thread::spawn(move || keep_alive(&orders));
                    return Ok(connection);
                }
                Ok(Word::Program { there: false, processor }) => {
                    if let Some(program) = programs.iter().find(|p| p.processor == processor) {
                        connection.send_program(&program.path)?;
                    }
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(connection.lost(format!("it does not answer within {} s", HELLO.as_secs())));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(connection.lost(connection.end_of_process()));
                }
            }
        }
    }

    /// Sends a program.
    fn send_program(&self, path: &Path) -> Result<(), Error> {
        let sent = match lock(&self.orders).as_mut() {
            Some(orders) => File::open(path)
                .and_then(|mut file| io::copy(&mut file, orders))
                .and_then(|_| orders.flush())
                .map_err(|e| e.to_string()),
            None => Ok(()),
        };
        sent.map_err(|why| self.lost(format!("{why}; {}", self.end_of_process())))
    }

    /// A number that was not given before.
    pub fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Sends a request and waits for its answer. Once `stop` is set, the agent sets its own flag with the number `flag`.
    pub fn ask<R: Request>(
        &self,
        host: &str,
        (stop, flag): (&AtomicBool, u64),
        request: &R,
    ) -> Result<R::Answer, Error> {
        let number = self.number();
        let (sender, answer) = channel();
        lock(&self.heard.answers).insert(number, sender);
        let request = serde_json::to_value(request).map_err(|e| self.lost(e.to_string()))?;
        self.say(&Order::Act { number, stop: flag, host: host.into(), name: R::NAME.into(), request })?;
        let mut told = false;
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(answer) => {
                    return serde_json::from_value(answer?).map_err(|e| {
                        self.lost(format!("its answer is not of this version of dnsrack: {e}"))
                    });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.lost(self.end_of_process())),
                Err(RecvTimeoutError::Timeout) => {
                    if !told && stop.load(Ordering::Relaxed) {
                        self.say(&Order::Stop { stop: flag })?;
                        told = true;
                    }
                }
            }
        }
    }

    /// The lines of a role that is about to be started with this number.
    pub fn lines_of(&self, role: u64) -> Receiver<String> {
        let (sender, lines) = channel();
        lock(&self.heard.roles).insert(role, sender);
        lines
    }

    /// Ends the orders.
    pub fn hang_up(&self) {
        *lock(&self.orders) = None;
    }

    /// Sends an order.
    pub fn say(&self, order: &Order) -> Result<(), Error> {
        let line = serde_json::to_string(order).map_err(|e| self.lost(e.to_string()))?;
        let said = match lock(&self.orders).as_mut() {
            Some(orders) => writeln!(orders, "{line}").and_then(|()| orders.flush()).is_ok(),
            None => false,
        };
        match said && !self.heard.gone.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(self.lost(self.end_of_process())),
        }
    }

    fn lost(&self, why: String) -> Error {
        Error::Lost { host: self.name.clone(), why }
    }

    /// How the process ended by which the agent was reached.
    fn end_of_process(&self) -> String {
        let mut process = lock(&self.process);
        let ended = process.as_mut().and_then(|p| p.wait_timeout(Duration::from_secs(1)).ok().flatten());
        let how =
            ended.map_or_else(|| "it said nothing more".into(), |status| format!("it ended with {status}"));
        let said = lock(&self.said);
        if said.trim().is_empty() { how } else { format!("{how}: {}", said.trim()) }
    }
}

/// Tells an agent again and again that the coordinator is still there, until the orders end.
fn keep_alive(orders: &Mutex<Option<Orders>>) {
    let line = serde_json::to_string(&Order::Alive).expect("an order is plain data");
    // It looks more often than it speaks, so that it ends soon after the orders.
    for look in 0u64.. {
        let mut orders = lock(orders);
        let Some(to) = orders.as_mut() else { return };
        if look.is_multiple_of(ALIVE) && writeln!(to, "{line}").and_then(|()| to.flush()).is_err() {
            return;
        }
        drop(orders);
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Keeps the end of what a program says.
fn keep(said: impl BufRead, kept: &Mutex<String>) {
    for line in said.lines().map_while(Result::ok) {
        let mut kept = lock(kept);
        kept.push_str(&line);
        kept.push('\n');
        let over = kept.len().saturating_sub(SAID);
        let from = (over..=kept.len()).find(|&at| kept.is_char_boundary(at)).unwrap_or(0);
        kept.drain(..from);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.hang_up();
        // It ends its servers, which may take a while; the process is killed when it is dropped.
        if let Some(process) = lock(&self.process).as_mut() {
            let _ = process.wait_timeout(END);
        }
    }
}

impl Heard {
    /// Takes words until there are no more.
    fn hear(&self, words: impl BufRead, hello: &Sender<Word>) {
        for line in words.lines().map_while(Result::ok) {
            // What is no word is another program's: a shell's greeting.
            let Ok(word) = serde_json::from_str(&line) else { continue };
            match word {
                first @ (Word::Program { .. } | Word::Hello { .. }) => drop(hello.send(first)),
                Word::Answer { number, answer } => self.answer(number, Ok(answer)),
                Word::Failed { number, message, zone_refused } => {
                    self.answer(number, Err(Error::There { message, zone_refused }));
                }
                Word::Role { role, line: Some(line) } => {
                    let roles = lock(&self.roles);
                    // Nobody listens any more to a role that was dropped.
                    roles.get(&role).map(|lines| lines.send(line));
                }
                Word::Role { role, line: None } => drop(lock(&self.roles).remove(&role)),
            }
        }
        self.gone.store(true, Ordering::SeqCst);
        lock(&self.answers).clear();
        lock(&self.roles).clear();
    }

    fn answer(&self, number: u64, answer: Result<Value, Error>) {
        if let Some(waiting) = lock(&self.answers).remove(&number) {
            let _ = waiting.send(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_no_word_is_passed_over(lines in proptest::collection::vec(any::<Vec<u8>>(), 0..9)) {
            let heard = Heard::default();
            let (hello, there) = channel();
            let mut words: Vec<u8> = lines.join(&b'\n');
            words.retain(|octet| octet.is_ascii());
            words.extend(b"\n{\"program\":{\"there\":true,\"processor\":\"x86_64\"}}\n");
            heard.hear(&*words, &hello);
            let said = matches!(there.try_recv(), Ok(Word::Program { there: true, .. }));
            prop_assert!(said);
            prop_assert!(heard.gone.load(Ordering::SeqCst));
        }
    }
}
