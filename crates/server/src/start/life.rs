//! Requests to a server that was started, and its end.

use super::Server;
use super::processes::pin;
use crate::driver::Control;
use crate::error::{Error, Problem};
use crate::log::{self, Which};
use crate::ready::{Asker, Client, Seen};
use crate::replication::Replication;
use rack::Cmd;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wire::rtype;
use zone::Probe;

/// How long a server may take to end by itself: it gives back the memory of millions of records first.
pub(super) const GRACE: Duration = Duration::from_secs(30);

/// How long a server may take to tell its counters: NSD's never comes where its disk is full.
const COUNTERS: Duration = Duration::from_secs(20);

/// How long a secondary may take to its zone until it is told to ask for it; twice as long until the next time, and so on.
const URGED: Duration = Duration::from_secs(4);

/// How long an external server may take to answer, and how often it is asked.
const EXTERNAL: (Duration, u32) = (Duration::from_millis(700), 3);

impl Server {
    /// Waits until every address serves the probe's serial and answers its question rightly, and returns the
    /// time from the start (or the last [`Server::reload`]) to the first right answer.
    ///
    /// The time is known to 10 ms, or to 1 % of itself up to 100 ms, as that is the interval of the questions.
    ///
    /// Threads that tied themselves to CPUs (YADIFA's, from CPU 0 on) are led back then to those of
    /// [`ServerSpec::cpus`], all of them to each, where some are named.
    ///
    /// # Errors
    /// [`Problem::Died`], [`Problem::Refused`] as soon as it is seen. [`Problem::WrongSerial`] and
    /// [`Problem::WrongAnswer`] as soon as they are seen after a start, at the end of `timeout` after a reload (the
    /// old zone is served until the new one is there). [`Problem::Stopped`] where it is told to. Else
    /// [`Problem::NotReady`] after `timeout`.
    pub fn ready(&mut self, probe: &Probe, timeout: Duration) -> Result<Duration, Error> {
        let began = Instant::now();
        let (host, mut first) = (self.host.clone(), None);
        // Where it gives no referrals, a delegation's records are an answer.
        let delegation = probe.delegation && self.driver.facts().can.referrals;
        let probe = &Probe { delegation, ..probe.clone() };
        for target in self.place.listen.clone() {
            let mut asker = Asker::new(&host, target, probe).map_err(|e| self.error(Problem::Rack(e)))?;
            loop {
                let asked = Instant::now();
                let pause = (self.since.elapsed() / 100)
                    .clamp(Duration::from_millis(10), Duration::from_millis(100))
                    .min(timeout.saturating_sub(began.elapsed()).max(Duration::from_millis(1)));
                let last = match asker.ask(pause) {
                    Seen::Right => break,
                    Seen::Wrong(problem) if !self.reloaded => return Err(self.error(problem)),
                    other => other,
                };
                self.still_trying()?;
                self.urge();
                if began.elapsed() >= timeout {
                    return Err(self.error(match last {
                        Seen::Wrong(problem) => problem,
                        Seen::NotYet(last) => {
                            Problem::NotReady { after: began.elapsed(), last, cause: self.cause(Which::Last) }
                        }
                        Seen::Right => unreachable!("left the loop above"),
                    }));
                }
                std::thread::sleep(pause.saturating_sub(asked.elapsed()));
            }
            first.get_or_insert_with(|| self.since.elapsed());
        }
        self.pids().into_iter().try_for_each(|pid| pin(pid, &self.place.spec.cpus)).map_err(|source| {
            Error::file(&self.place.spec.label, "pin the threads listed in", Path::new("/proc"), source)
        })?;
        first.ok_or_else(|| {
            self.error(Problem::Spec { field: "addresses", why: "there is none to ask at".into() })
        })
    }

    /// Tells a secondary that still has no zone to ask for it, where it is known to forget that.
    fn urge(&mut self) {
        let secondary = self.place.spec.distribution.as_ref().is_some_and(Replication::is_secondary);
        if !secondary || self.reloaded || self.since.elapsed() < URGED * (1 << self.urged.min(10)) {
            return;
        }
        if let Ok(Some(cmd)) = self.driver.urge(&self.place.site()) {
            self.urged += 1;
            // Where that fails the wait goes on, and says in the end what it waited for.
            let _ = self.tools().run(&cmd.cwd(&self.place.dir));
        }
    }

    /// Whether there is sense in waiting on: it lives, and its log does not say that it refused the zone.
    pub(super) fn still_trying(&mut self) -> Result<(), Error> {
        if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(self.error(Problem::Stopped));
        }
        let Some(process) = &mut self.process else { return Ok(()) };
        let ended = process.try_wait().map_err(|e| Error::new(&self.place.spec.label, Problem::Rack(e)))?;
        if let Some(status) = ended {
            return Err(self.died(status.to_string()));
        }
        if self.watch.refused(self.driver) {
            return Err(self.error(Problem::Refused { cause: self.cause(Which::First) }));
        }
        Ok(())
    }

    /// Whether it still lives. An external server must answer a question, within 0.7 s in one of three attempts.
    ///
    /// # Errors
    /// [`Problem::Died`] with its log's cause; [`Problem::Silent`].
    pub fn alive(&mut self) -> Result<(), Error> {
        let Some(process) = &mut self.process else { return self.external_answers() };
        match process.try_wait().map_err(|e| Error::new(&self.place.spec.label, Problem::Rack(e)))? {
            None => Ok(()),
            Some(status) => Err(self.died(status.to_string())),
        }
    }

    fn external_answers(&self) -> Result<(), Error> {
        let spec = &self.place.spec;
        let origin = wire::name::Name::parse_text(&spec.zone.origin, None)
            .map_err(|e| self.error(Problem::Spec { field: "zone.origin", why: e.to_string() }))?;
        for &address in &self.place.listen {
            let mut client = Client::new(&self.host, address).map_err(|e| self.error(Problem::Rack(e)))?;
            let mut last = String::new();
            let answered = (0..EXTERNAL.1).any(|_| {
                let asked = Instant::now();
                let answer = client.ask(0x5d5f, &origin, rtype::SOA, EXTERNAL.0);
                if let Err(why) = &answer {
                    last.clone_from(why);
                    std::thread::sleep(EXTERNAL.0.saturating_sub(asked.elapsed()));
                }
                answer.is_ok()
            });
            if !answered {
                return Err(self.error(Problem::Silent { address, last }));
            }
        }
        Ok(())
    }
    /// the new file waits for it, and gives the time from here.
    ///
    /// # Errors
    /// [`Problem::Unsupported`] for an external server, [`Problem::Died`], [`Problem::Tool`].
    pub fn reload(&mut self) -> Result<(), Error> {
        self.alive()?;
        let cmd = self.command(Control::Reload, "be reloaded: it is not ours")?;
        self.watch.skip();
        self.reloaded = true;
        self.since = Instant::now();
        match self.tools().run(&cmd) {
            Err(Error { problem, .. }) if matches!(&*problem, Problem::Tool { said, .. } if self.driver.still_works(said)) => {
                Ok(())
            }
            other => other.map(drop).map_err(|e| e.hiding(&self.place.secret)),
        }
    }

    /// Its own counters since its start as it tells them, kept in `stats-N.txt` in its folder as well.
    ///
    /// # Errors
    /// [`Problem::Unsupported`] for an external server, [`Problem::Died`], [`Problem::Tool`], [`Problem::File`].
    pub fn stats(&mut self) -> Result<String, Error> {
        self.alive()?;
        let label = &self.place.spec.label;
        let cmd = self.command(Control::Stats, "tell its counters: it is not ours")?;
        let mut text = self.tools().run_within(COUNTERS, &cmd)?;
        if let Some(name) = self.driver.facts().stats_file {
            let path = self.place.dir.join(name);
            text = fs::read_to_string(&path).map_err(|e| Error::file(label, "read", &path, e))?;
            fs::remove_file(&path).map_err(|e| Error::file(label, "remove", &path, e))?;
        }
        self.stats += 1;
        let path = self.place.dir.join(format!("stats-{}.txt", self.stats));
        fs::write(&path, &text).map_err(|e| Error::file(label, "write", &path, e))?;
        Ok(text)
    }

    fn command(&self, what: Control, unsupported: &'static str) -> Result<Cmd, Error> {
        match self.driver.control(&self.place.site(), what)? {
            Some(cmd) => Ok(cmd.cwd(&self.place.dir)),
            None => Err(self.error(Problem::Unsupported { kind: self.place.spec.kind, what: unsupported })),
        }
    }

    /// Asks it to end, and kills it after 30 s; none of its processes is left. Does nothing to an external server.
    ///
    /// # Errors
    /// [`Problem::Died`] where it had ended by itself before.
    pub fn stop(mut self) -> Result<(), Error> {
        if self.process.is_none() {
            return Ok(());
        }
        self.alive()?;
        let ended = self.process.as_mut().map(|process| process.terminate(GRACE));
        self.wait_until_gone();
        match ended {
            Some(Err(e)) => Err(self.error(Problem::Rack(e))),
            _ => Ok(()),
        }
    }

    pub(super) fn cause(&self, which: Which) -> crate::Cause {
        if self.process.is_none() {
            return crate::Cause::default();
        }
        let cause = log::cause(self.driver, &self.log_path(), self.watch.began(), which);
        if !cause.lines.is_empty() {
            return cause;
        }
        // Who dies before it opens its log speaks here; and who was killed after a reload has said nothing since.
        let output = log::cause(self.driver, &self.place.dir.join("output.log"), 0, which);
        if output.lines.is_empty() { log::cause(self.driver, &self.log_path(), 0, which) } else { output }
    }

    fn died(&self, status: String) -> Error {
        self.wait_until_gone();
        let killed =
            rack::memory::kills().zip(self.kills).map_or(0, |(now, before)| now.saturating_sub(before));
        self.error(Problem::Died { status, killed, cause: self.cause(Which::Last) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // There is nobody to tell of a failure; dropping the process tries again.
            let _ = process.kill();
            self.wait_until_gone();
        }
    }
}
