//! Programs that are run on a host to their end, and transfers that are made there.

use crate::Error;
use crate::request::{At, Request};
use rack::{Cmd, Launcher, Local, Output};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;
use update::pairs::{self, Pair};
use update::{PairsSpec, TransferSpec};

/// Runs a program, and gives what it says on both outputs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tool {
    /// The program; without a slash it is looked up on PATH.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// It is killed after so long.
    pub patience: Duration,
}

impl Request for Tool {
    const NAME: &'static str = "Tool";
    type Answer = String;

    fn act(self, at: &At<'_>) -> Result<String, Error> {
        let file = tempfile::NamedTempFile::new();
        let mut file = file.map_err(|source| Error::File { path: std::env::temp_dir(), source })?;
        let output = Output::File(file.path().to_owned());
        let cmd = Cmd::new(self.program).args(self.args).stdout(output.clone()).stderr(output);
        let mut process = Local.spawn(at.host, &cmd)?;
        if process.wait_timeout(self.patience)?.is_none() {
            process.kill()?;
        }
        let mut said = Vec::new();
        let read = file.as_file_mut().read_to_end(&mut said);
        read.map_err(|source| Error::File { path: file.path().to_owned(), source })?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

/// Transfers a zone to the host, and gives the octets of TCP payload that this took; none where it did not come whole.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Axfr {
    /// The transfer.
    pub spec: TransferSpec,
}

impl Request for Axfr {
    const NAME: &'static str = "Axfr";
    type Answer = Option<u64>;

    fn act(self, at: &At<'_>) -> Result<Option<u64>, Error> {
        let result = at.host.run_in(|| update::transfer(&self.spec, None, at.stop, &mut |_| {}))??;
        Ok(result.complete.then_some(result.tcp_bytes))
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
