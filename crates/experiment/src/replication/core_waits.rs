//! How long the servers of a distribution waited for their cores while their zone changed, and whether other programs were the cause.

use super::fleet::OtherServers;
use crate::Error;
use crate::meter::held_up;
use agent::{Readings, Server, Watched};
use measure::{Outcome, Reason, metrics};
use rack::server_watch::{OtherPrograms, Snapshot, WAITED_LIMIT};
use std::time::Duration;

/// A watch on the processes of all servers of a distribution. It looks twice, at its beginning and at its end. So it takes nothing from the
/// servers meanwhile, and it does not see short absences of their cores as [`crate::meter::AtWork`] does.
pub struct CoreWaits(Vec<(String, Readings, Snapshot)>);

impl CoreWaits {
    /// Begins to watch the server that is measured, and those beside it. Servers that we did not start are left out.
    ///
    /// # Errors
    /// The agents'.
    pub fn begin(server: &Server, others: &OtherServers) -> Result<Self, Error> {
        let mut all = Vec::new();
        let servers = others.primary.iter().chain(&others.secondaries).chain([server]);
        for server in servers.filter(|server| server.is_ours()) {
            let mut watched = Watched::default();
            watched.server(server, false);
            let readings = Readings::open(server.agent(), watched)?;
            if let Some(first) = readings.server()? {
                all.push((server.agent().host.name.clone(), readings, first));
            }
        }
        Ok(Self(all))
    }

    /// Records the share of the time that the servers waited, added up over all of them: the changes took at most so much longer because of
    /// it. The trial is invalid if another program held one of the servers up. If other trials of the run used the same cores, it is
    /// also invalid if the share is above the limit: `shared` is what the user can do about it. `what` says what the servers did:
    /// `batches`.
    ///
    /// # Errors
    /// The agents'.
    pub fn end(self, what: &str, shared: Option<&str>, outcome: &mut Outcome) -> Result<(), Error> {
        let validity = &mut outcome.validity;
        let mut sum = 0.0;
        for (host, readings, first) in &self.0 {
            let Some(last) = readings.server()? else { continue };
            let others = OtherPrograms::between(first, &last, Duration::ZERO);
            sum += others.waited;
            if let Some(why) = held_up(&others.beside_servers_of_the_rack()) {
                validity.reject(Reason::new(&why.code, format!("during the {what} at {host}, {}", why.text)));
            }
            if shared.is_some() && last.since(first).ran.is_zero() {
                // It has run, so the kernel's figure of its waiting would be 0, too, whatever it was.
                let text = "the kernel does not say how long a server waited for a core (/proc/PID/task/TID/schedstat): leave out --parallel";
                validity.reject(Reason::new("server_core_shared", text));
            }
        }
        outcome.metrics.push(metrics::SERVERS_WAITED.of(100.0 * sum));
        if let Some(advice) = shared.filter(|_| sum > WAITED_LIMIT) {
            let text = format!(
                "the servers waited for a core for {:.1} % of the time, as trials at the same time share it: {advice}",
                100.0 * sum
            );
            validity.reject(Reason::new("server_core_shared", text));
        }
        Ok(())
    }
}
