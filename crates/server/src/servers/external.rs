//! A server that somebody else runs: an address that already answers. Nothing is started, controlled or stopped.

use crate::driver::{Capabilities, Control, MemoryPerDelegation, NameServer, Prepared, Site};
use crate::error::{Error, Problem};
use crate::log::Line;
use crate::servers::Kind;
use rack::Cmd;

pub(crate) struct External;

impl NameServer for External {
    fn program(&self) -> &'static str {
        ""
    }

    fn package(&self) -> &'static str {
        ""
    }

    fn version_flag(&self) -> &'static str {
        ""
    }

    fn can(&self) -> Capabilities {
        Capabilities {
            reload: false,
            stats: false,
            update: false,
            signs: false,
            takes_signatures: false,
            ixfr_out: false,
            udp_cap: false,
        }
    }

    fn memory(&self) -> Option<MemoryPerDelegation> {
        None
    }

    fn prepare(&self, site: &Site<'_>) -> Result<Prepared, Error> {
        Err(Error::new(
            &site.spec.label,
            Problem::Unsupported { kind: Kind::External, what: "be started: it is not ours" },
        ))
    }

    fn control(&self, _site: &Site<'_>, _what: Control) -> Result<Option<Cmd>, Error> {
        Ok(None)
    }

    fn log(&self) -> &'static str {
        ""
    }

    fn judge(&self, _line: &str) -> Line {
        Line::Other
    }
}
