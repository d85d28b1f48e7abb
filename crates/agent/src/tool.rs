//! Programs that are run on a host to their end, and transfers that are made there.

use crate::Error;
use crate::request::{At, Request};
use measure::Reason;
use rack::{Cmd, Launcher, Local, Output};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;
use update::additions::{self, Halves};
use update::pairs::{self, Pair};
use update::{PairsSpec, TransferResult, TransferSpec};

/// Runs a program to its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tool {
    /// The program; without a slash it is looked up on PATH.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// It is killed after so long.
    pub patience: Duration,
}

/// The end of a program that was run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ran {
    /// Its words on both outputs.
    pub said: String,
    /// Why it failed; none where it ended with status 0.
    pub failed: Option<String>,
}

impl Request for Tool {
    const NAME: &'static str = "Tool";
    type Answer = Ran;

    fn act(self, at: &At<'_>) -> Result<Ran, Error> {
        let file = tempfile::NamedTempFile::new();
        let mut file = file.map_err(|source| Error::File { path: std::env::temp_dir(), source })?;
        let output = Output::File(file.path().to_owned());
        let cmd = Cmd::new(self.program).args(self.args).stdout(output.clone()).stderr(output);
        let mut process = Local.spawn(at.host, &cmd)?;
        let failed = match process.wait_timeout(self.patience)? {
            Some(status) if status.success() => None,
            Some(status) => Some(format!("it ended with {status}")),
            None => {
                process.kill()?;
                Some(format!("it did not end within {} s", self.patience.as_secs()))
            }
        };
        let mut said = Vec::new();
        let read = file.as_file_mut().read_to_end(&mut said);
        read.map_err(|source| Error::File { path: file.path().to_owned(), source })?;
        Ok(Ran { said: String::from_utf8_lossy(&said).into_owned(), failed })
    }
}

/// Transfers a zone to the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Axfr {
    /// The transfer.
    pub spec: TransferSpec,
}

impl Request for Axfr {
    const NAME: &'static str = "Axfr";
    type Answer = TransferResult;

    fn act(self, at: &At<'_>) -> Result<TransferResult, Error> {
        Ok(at.host.run_in(|| update::transfer(&self.spec, None, at.stop, &mut |_| {}))??)
    }
}

/// Transfers a zone to the host, and gives the counters at its two names (see [`update::pairs`]) and how many records it has; none where
/// it did not come whole.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Counters {
    /// The server and the names.
    pub spec: PairsSpec,
}

impl Request for Counters {
    const NAME: &'static str = "Counters";
    type Answer = Option<(Pair, u64)>;

    fn act(self, at: &At<'_>) -> Result<Self::Answer, Error> {
        Ok(at.host.run_in(|| pairs::counters(&self.spec))??)
    }
}

/// Transfers a zone to the host, and gives which halves of which updates it has (see [`update::additions`]), or why it could not be
/// transferred.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FindAdditions {
    /// The transfer.
    pub spec: TransferSpec,
}

impl Request for FindAdditions {
    const NAME: &'static str = "FindAdditions";
    type Answer = Result<Halves, Reason>;

    fn act(self, at: &At<'_>) -> Result<Self::Answer, Error> {
        Ok(at.host.run_in(|| additions::find(&self.spec, at.stop))??)
    }
}
