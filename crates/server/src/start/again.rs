//! A server that is killed, or ends, and is started again where it was, as after a crash, a lost power or some rest.

use super::Server;
use super::life::GRACE;
use crate::error::{Error, Problem};
use crate::log::Which;
use crate::ready::{self, Client};
use std::time::{Duration, Instant};
use wire::name::Name;

/// How long an answer is waited for, and how often a server is asked whether it is back.
const ASK: Duration = Duration::from_millis(20);

impl Server {
    /// Kills it with all its processes (SIGKILL): nothing that it has not written yet is written any more. Does nothing to an
    /// external server, or where it has ended.
    ///
    /// # Errors
    /// [`Problem::Rack`].
    pub fn kill(&mut self) -> Result<(), Error> {
        let Some(process) = &mut self.process else { return Ok(()) };
        let killed = process.kill();
        self.wait_until_gone();
        killed.map(drop).map_err(|e| self.error(Problem::Rack(e)))
    }

    /// Asks it to end, and kills it after 30 s, for [`Server::start_again`]: what it writes as it ends stays.
    ///
    /// # Errors
    /// [`Problem::Died`] where it had ended by itself before, [`Problem::Rack`].
    pub fn end(&mut self) -> Result<(), Error> {
        self.alive()?;
        let Some(process) = &mut self.process else { return Ok(()) };
        let ended = process.terminate(GRACE);
        self.wait_until_gone();
        ended.map(drop).map_err(|e| self.error(Problem::Rack(e)))
    }

    /// Starts it again after [`Server::kill`] or [`Server::end`] by the same command, with its folder as it is now:
    /// [`Server::back`] waits for it.
    ///
    /// # Errors
    /// [`Problem::Unsupported`] for an external server, [`Problem::Rack`].
    pub fn start_again(&mut self) -> Result<(), Error> {
        let Some(cmd) = &self.cmd else {
            let kind = self.place.spec.kind;
            return Err(self.error(Problem::Unsupported { kind, what: "be started again: it is not ours" }));
        };
        self.watch.skip();
        self.since = Instant::now();
        let process = self.launcher.spawn(&self.host, cmd).map_err(|e| self.error(Problem::Rack(e)))?;
        self.process = Some(process);
        Ok(())
    }

    /// Waits until it serves its zone at its first address, whichever version of it; how long that took from the start, and
    /// the serial.
    ///
    /// # Errors
    /// [`Problem::Died`], [`Problem::Refused`] as soon as it is seen, [`Problem::Stopped`] where it is told to; else
    /// [`Problem::NotReady`] after `timeout`.
    pub fn back(&mut self, timeout: Duration) -> Result<(Duration, u32), Error> {
        let spec = |field, why| Problem::Spec { field, why };
        let origin = Name::parse_text(&self.place.spec.zone.origin, None)
            .map_err(|e| self.error(spec("zone.origin", e.to_string())))?;
        let target = *self
            .place
            .listen
            .first()
            .ok_or_else(|| self.error(spec("addresses", "there is none to ask at".into())))?;
        let host = self.host.clone();
        let mut client = Client::new(&host, target).map_err(|e| self.error(Problem::Rack(e)))?;
        loop {
            let asked = Instant::now();
            let last = match ready::serial(&mut client, &origin, ASK) {
                Ok(serial) => return Ok((self.since.elapsed(), serial)),
                Err(why) => why,
            };
            self.still_trying()?;
            let after = self.since.elapsed();
            if after >= timeout {
                let cause = self.cause(Which::Last);
                return Err(self.error(Problem::NotReady { after, last, cause }));
            }
            std::thread::sleep(ASK.saturating_sub(asked.elapsed()));
        }
    }
}
