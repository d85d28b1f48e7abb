//! Durability: whether what was acknowledged is on the disk (RFC 2136, section 3.5; ISC-TN-2008-1, section 6.3.2), and what
//! secondaries serve after they were killed.
//!
//! Three measures: `syncs` (a trace of the server's syncs, and its rate beside the disk's own syncs), `power-cut` (a disk that
//! drops what was not synced) and `kill` (secondaries under IXFR). How they decide: docs/durability.md.

mod acks;
pub mod kill;
pub mod power_cut;
mod stream;
pub mod syncs;

use crate::Error;
use crate::system_under_test::SystemUnderTest;
use measure::Nanos;
use measure::clock;
use rack::Host;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use update::send::{SendResult, SendSpec};

/// How long a sender may take until it begins.
const BEGIN: Duration = Duration::from_secs(60);

/// How long from being ready to the first update, in nanoseconds.
const DELAY: Nanos = 20_000_000;

impl SystemUnderTest<'_> {
    /// A time under load, drawn.
    fn life(&self, draw: &mut measure::Draw) -> Duration {
        let longest = self.context.experiment.durability.life.0;
        Duration::from_nanos(longest / 5 + draw.below(longest - longest / 5))
    }
}

/// Sends updates from a host until the file, the duration or the count is over, or `stop` is set; `began` is told
/// the instant (monotonic) from which the sender's times count.
fn send(
    host: &Host,
    spec: &SendSpec,
    began: impl FnOnce(Nanos) + Send,
    stop: &AtomicBool,
) -> Result<SendResult, Error> {
    let start = || {
        let at = clock::now() + DELAY;
        began(at);
        at
    };
    Ok(host.run_in(|| update::send::run(spec, start, stop, &mut |_| {}))??)
}
