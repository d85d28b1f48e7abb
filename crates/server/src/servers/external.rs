//! A server that somebody else runs: an address that already answers. Nothing is started, configured or stopped.

use crate::driver::{Capabilities, Commit, Control, Facts, Line, NameServer, Prepared, Site};
use crate::error::{Error, Problem};
use crate::kind::Kind;
use rack::Cmd;

pub(crate) struct External;

const FACTS: Facts = Facts {
    program: "",
    package: "",
    version_flag: "",
    can: Capabilities {
        reload: false,
        stats: false,
        // Its user says so by giving a key.
        update: true,
        signs: false,
        takes_signatures: false,
        ixfr_out: false,
        udp_cap: false,
        referrals: true,
        signed: true,
        transfers: true,
    },
    memory: None,
    start_per_record: 0.0,
    commit: Commit::UNKNOWN,
    without_syncs: None,
    log: "",
    stats_file: None,
};

impl NameServer for External {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn prepare(&self, site: &Site<'_>) -> Result<Prepared, Error> {
        Err(Error::new(
            &site.spec.label,
            Problem::Unsupported { kind: Kind::EXTERNAL, what: "be started: it is not ours" },
        ))
    }

    fn control(&self, _site: &Site<'_>, _what: Control) -> Result<Option<Cmd>, Error> {
        Ok(None)
    }

    fn classify(&self, _line: &str) -> Line {
        Line::Other
    }
}
