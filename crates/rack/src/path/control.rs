//! Starting and ending the emulator of a rack, as the role `path` on its router.

use super::{PathSpec, Report};
use crate::{Error, Launcher, Rack, Role};
use measure::Event;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long it may take to be ready, and to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// The paths of a rack at work; cut when dropped: then nothing passes them.
#[derive(Debug)]
pub struct Paths {
    role: Role,
    latest: Option<Report>,
}

impl Paths {
    /// Opens the paths of a rack as `paths` say, which may differ from its specification's in what they do, but not in whom
    /// they join. What the emulator says goes to `log`. It runs on the router's CPUs.
    ///
    /// # Errors
    /// The errors of the launcher; [`Error::Role`]; [`Error::Spec`] where the rack has no such paths.
    pub fn start(
        launcher: &dyn Launcher,
        rack: &Rack,
        paths: &[PathSpec],
        log: &Path,
    ) -> Result<Self, Error> {
        let plan = rack.plan(paths)?;
        let router = rack.router().ok_or_else(|| Error::Spec("the rack has no paths".into()))?;
        let mut role = Role::start(launcher, router, "path", &plan, &router.cpus, log)?;
        role.ready(PATIENCE)?;
        Ok(Self { role, latest: None })
    }

    /// The report up to the last full second; none in the first.
    ///
    /// # Errors
    /// [`Error::Role`] where the emulator is gone.
    pub fn latest(&mut self) -> Result<Option<&Report>, Error> {
        while let Some(event) = self.role.next(Duration::ZERO)? {
            if let Event::Progress { values, .. } = event {
                self.latest = Some(self.read(values)?);
            }
        }
        Ok(self.latest.as_ref())
    }

    /// Cuts them: what they did in all.
    ///
    /// # Errors
    /// [`Error::Role`] where the emulator is gone or does not end.
    pub fn finish(mut self) -> Result<Report, Error> {
        self.role.stop();
        let until = Instant::now() + PATIENCE;
        loop {
            match self.role.next(until.saturating_duration_since(Instant::now()))? {
                Some(Event::Done { result }) => return self.read(result),
                Some(_) => {}
                None => return Err(self.role.failed("does not end")),
            }
        }
    }

    /// The emulator's process id.
    pub fn pid(&self) -> u32 {
        self.role.pid()
    }

    fn read(&self, values: serde_json::Value) -> Result<Report, Error> {
        serde_json::from_value(values).map_err(|e| self.role.failed(format!("said what is no report: {e}")))
    }
}
