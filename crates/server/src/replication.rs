//! A server's part where a zone changes and is carried to others: primary or secondary, which servers it notifies, and which may transfer.

use crate::error::Error;
use crate::quote::quotable;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use update::TsigKey;

/// How soon changes are announced, transferred and served. The servers' default timers are floors in every figure of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timers {
    /// As the server has them.
    #[default]
    Default,
    /// No wait that can be switched off: BIND's `notify-delay` (5 s) and its limits on NOTIFY, SOA queries and transfers a
    /// second, NSD's `xfrd-reload-timeout` (1 s), PowerDNS's `xfr-cycle-interval` (60 s).
    Tuned,
}

/// The role of a server when its zone changes. It is a primary without [`Self::primaries`], a secondary with some.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replication {
    /// Signs updates, NOTIFY (where the server can) and transfers. It also permits transfers of the zone.
    pub key: TsigKey,
    /// Where it has the zone from; none: from the zone file.
    pub primaries: Vec<SocketAddr>,
    /// The servers that it notifies of changes (NOTIFY, RFC 1996).
    pub secondaries: Vec<SocketAddr>,
    /// A primary takes updates that are signed with the key (RFC 2136).
    pub updates: bool,
    /// It sends differences (IXFR, RFC 1995); otherwise whole zones alone.
    pub ixfr: bool,
    /// How soon.
    pub timers: Timers,
    /// Zones that changed are written to disk as the server does by default; otherwise to its journal at most.
    pub dump: bool,
    /// A folder with the zone's keys in BIND's format, where the primary signs what changes itself. Without, signatures and denials
    /// come with the updates, where the zone is signed.
    pub keys: Option<PathBuf>,
    /// How large its journal may grow, in bytes; otherwise so large that nothing is cut off.
    pub journal: Option<u64>,
}

impl Replication {
    /// A part with this key that does nothing yet: IXFR, default timers, no files written.
    pub fn new(key: TsigKey) -> Self {
        Self {
            key,
            primaries: Vec::new(),
            secondaries: Vec::new(),
            updates: false,
            ixfr: true,
            timers: Timers::Default,
            dump: false,
            keys: None,
            journal: None,
        }
    }

    /// Whether it has the zone from another server.
    pub fn is_secondary(&self) -> bool {
        !self.primaries.is_empty()
    }

    /// Whether waits are switched off.
    pub fn is_tuned(&self) -> bool {
        self.timers == Timers::Tuned
    }

    /// Each secondary and primary written by `one`, put together.
    pub(crate) fn each(list: &[SocketAddr], one: impl Fn(&SocketAddr) -> String) -> String {
        list.iter().map(one).collect()
    }
}

/// The journal's bound where none is given: more than a run can write.
pub(crate) const JOURNAL: u64 = 1 << 30;

/// A private key in BIND's format.
pub(crate) struct PrivateKey {
    /// `K….private`, in quotable letters.
    pub file: String,
    /// It signs keys (RFC 4034, section 2.1.1: flags 257).
    pub ksk: bool,
}

/// The private keys of a folder, in the order of their names.
pub(crate) fn private_keys(label: &str, folder: &Path) -> Result<Vec<PrivateKey>, Error> {
    let failed = |e| Error::file(label, "read the folder of keys", folder, e);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "private"));
    paths.sort();
    let key = |path: PathBuf| {
        let public = path.with_extension("key");
        let text =
            std::fs::read_to_string(&public).map_err(|e| Error::file(label, "read the key", &public, e))?;
        let ksk = text.split_whitespace().skip_while(|word| *word != "DNSKEY").nth(1) == Some("257");
        Ok(PrivateKey { file: quotable(label, "distribution.keys", &path)?.to_owned(), ksk })
    };
    paths.into_iter().map(key).collect()
}
