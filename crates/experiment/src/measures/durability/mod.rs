//! Durability: whether what was acknowledged is on the disk (RFC 2136, section 3.5; ISC-TN-2008-1, section 6.3.2), and what
//! secondaries serve after they were killed.
//!
//! Three measures: `syncs` (a trace of the server's syncs, and its rate beside the disk's own syncs), `power-cut` (a disk that
//! drops what was not synced) and `kill` (secondaries under IXFR). How they decide: docs/durability.md.

mod acks;
pub mod kill;
pub mod power_cut;
pub mod syncs;

use crate::Error;
use crate::replication::running_updates::{finish, read};
use crate::system_under_test::SystemUnderTest;
use measure::{Event, clock};
use std::time::Duration;
use update::send::{SendResult, SendSpec};

impl SystemUnderTest<'_> {
    /// A time under load, drawn.
    fn life(&self, draw: &mut measure::Draw) -> Duration {
        let longest = self.context.experiment.durability.life.0;
        Duration::from_nanos(longest / 5 + draw.below(longest - longest / 5))
    }

    /// Has the first generator send updates until the file, the duration or the count is over.
    fn send(&self, spec: &SendSpec) -> Result<SendResult, Error> {
        let mut sender = self.role("update", spec)?;
        sender.start_at(clock::wall() + self.context.start_delay())?;
        while self.context.goes_on().is_ok() {
            if let Some(Event::Done { result }) = sender.next(Duration::from_millis(200))? {
                return read(result);
            }
        }
        finish(sender)
    }
}
