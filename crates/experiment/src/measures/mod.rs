//! The ways to measure a server. Each is one file with one [`Measurement`]: what it needs of servers, its parameters, what it costs,
//! the figure that says how well a cell is known, and how a trial of it is made. [`of`] chooses it.

mod batches;
mod changed_zone;
mod churn;
mod durability;
mod lag;
mod latency;
mod load;
mod memory;
mod one_load;
mod peak;
mod throughput;
mod transfer;
mod update;

use crate::config::{Precision, Queried};
use crate::hosts::SERVER;
use crate::meter::AtWork;
use crate::replication::core_waits::CoreWaits;
use crate::replication::fleet::{self, Fleet, OtherServers, note_urged};
use crate::replication::outage::Outage;
use crate::resources::TimeBasis;
use crate::run_context;
use crate::system_under_test::SystemUnderTest;
use crate::{Error, Experiment, Measure, RunEvent, Trial};
use ::measure::{Definition, Parameter, Reason, metrics, params};
use agent::Server;
use results::TrialRecord;

/// One way to measure a server.
pub struct Measurement {
    /// The part of the server measured.
    pub part: Part,
    /// The changes of the zone while it is measured.
    pub changes: ZoneChanges,
    /// It depends on the kind of queries, so it is done for each variant.
    pub has_variants: bool,
    /// Its parameters beside those of every trial; with those they are the key of its cell.
    pub params: fn(&Experiment, &Trial) -> Vec<(Parameter, String)>,
    /// Seconds of a trial, about. The start of its servers is counted already.
    pub seconds: fn(e: &Experiment, trial: &Trial, of: &TimeBasis) -> f64,
    /// The figure by which the repeats of a cell are compared, and how well it must be known; none where repeats do not make it better
    /// known.
    pub known_by: Option<KnownBy>,
    /// How a trial is made.
    pub run: Run,
}

/// The part of the server measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It serves its zone file, alone.
    Alone,
    /// It serves its zone file, or what it has from its primary where the experiment has secondaries.
    Any,
    /// It takes updates.
    Primary,
    /// It takes updates, and there are no secondaries.
    LonePrimary,
    /// It is one of a primary and its secondaries.
    OneOfSeveral,
}

/// The changes of the zone while a server is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneChanges {
    /// None, or those that the measurement itself makes of its primary.
    None,
    /// In a distribution, updates at the rates of the experiment beside what is measured. `alone`: nothing else is.
    AtRates {
        /// Nothing else is measured.
        alone: bool,
    },
    /// The versions of a real zone.
    Versions,
    /// Those that the measurement itself sends to a primary whose secondary is measured.
    Own {
        /// With markers, by which they are seen.
        markers: bool,
    },
}

/// How a trial is made.
#[derive(Clone, Copy)]
pub enum Run {
    /// On a server that is ready, with the others of its distribution, and with the zone changing where it does.
    Ready(OnReadyServer),
    /// It starts the server itself.
    Start(Starting),
    /// It starts all servers of the distribution itself.
    StartAll(StartingAll),
}

/// A figure, and how well an experiment wants it known.
type KnownBy = (Definition, fn(&Precision) -> f64);
type OnReadyServer = fn(&mut Ready<'_>, &mut TrialRecord, &mut dyn FnMut(RunEvent)) -> Result<(), Error>;
type Starting = fn(&SystemUnderTest<'_>, &mut TrialRecord, &mut dyn FnMut(RunEvent)) -> Result<(), Error>;
type StartingAll =
    fn(&SystemUnderTest<'_>, &Fleet<'_>, &mut TrialRecord, &mut dyn FnMut(RunEvent)) -> Result<(), Error>;

/// A server that is ready to be measured, and the others of its distribution.
pub struct Ready<'a> {
    /// The server's zone, traffic and hosts.
    pub sut: SystemUnderTest<'a>,
    /// The trial.
    pub trial: &'a Trial,
    /// The server.
    pub server: Server,
    /// The distribution; none where the server is alone.
    pub fleet: Option<&'a Fleet<'a>>,
    /// The other servers.
    pub others: OtherServers,
    /// When a secondary was stopped for a while.
    pub absence: Option<Outage>,
}

/// The measurement of a measure.
pub fn of(measure: Measure) -> &'static Measurement {
    match measure {
        Measure::Latency => &latency::MEASUREMENT,
        Measure::Throughput => &throughput::MEASUREMENT,
        Measure::Peak => &peak::MEASUREMENT,
        Measure::Memory => &memory::MEASUREMENT,
        Measure::Load => &load::MEASUREMENT,
        Measure::Update => &update::MEASUREMENT,
        Measure::Lag => &lag::MEASUREMENT,
        Measure::Churn => &churn::MEASUREMENT,
        Measure::Transfer => &transfer::MEASUREMENT,
        Measure::Syncs => &durability::syncs::MEASUREMENT,
        Measure::PowerCut => &durability::power_cut::MEASUREMENT,
        Measure::Kill => &durability::kill::MEASUREMENT,
        Measure::Batches => &batches::MEASUREMENT,
    }
}

impl Measurement {
    /// Whether updates go to the server measured.
    pub fn takes_updates(&self) -> bool {
        matches!(self.part, Part::Primary | Part::LonePrimary)
    }

    /// Whether updates with markers among them are sent meanwhile, where there is a distribution.
    pub fn has_markers(&self) -> bool {
        matches!(self.changes, ZoneChanges::AtRates { .. } | ZoneChanges::Own { markers: true })
    }

    /// Whether it needs secondaries.
    pub fn needs_secondaries(&self) -> bool {
        self.part == Part::OneOfSeveral
    }
}

/// Whether the server has a part in a distribution while this is measured.
pub fn is_distributed(e: &Experiment, measure: Measure, variant: Option<&str>) -> bool {
    let d = e.distribution_of(variant);
    match of(measure).part {
        Part::Alone => false,
        Part::Any => d.secondaries > 0 && (d.measures.is_empty() || d.measures.contains(&measure)),
        Part::Primary | Part::LonePrimary | Part::OneOfSeveral => true,
    }
}

/// Whether all secondaries are asked while this is measured of one.
pub fn asks_all(e: &Experiment, measure: Measure, variant: Option<&str>) -> bool {
    let one_load = matches!(measure, Measure::Latency | Measure::Throughput);
    let d = e.distribution_of(variant);
    one_load && is_distributed(e, measure, variant) && d.queried == Queried::All
}

/// The labels of a trial's servers: of the one measured alone, or of the primary and then its secondaries.
pub fn labels(e: &Experiment, trial: &Trial) -> Vec<String> {
    servers(e, trial).into_iter().map(|(_, label)| label).collect()
}

/// The same, each with the name of its host before it.
pub fn servers(e: &Experiment, trial: &Trial) -> Vec<(String, String)> {
    let variant = trial.variant.as_deref();
    if !is_distributed(e, trial.measure, variant) {
        return vec![(SERVER.into(), trial.server.clone())];
    }
    let d = e.distribution_of(variant);
    let primary = d.primary.as_ref().unwrap_or(&trial.server).clone();
    let labels = std::iter::once(primary).chain(d.labels(&trial.server));
    // The primary's is the first of both.
    let mut hosts = fleet::hosts(d);
    hosts.insert(usize::from(d.primary.is_some()), SERVER.into());
    hosts.into_iter().zip(labels).collect()
}

/// Whether zones change in any trial of the experiment.
pub fn zones_change(e: &Experiment) -> bool {
    let carried = e.distributions().iter().any(|d| d.secondaries > 0);
    let changes = |m: &Measurement| m.takes_updates() || carried && m.changes != ZoneChanges::None;
    e.measure.iter().any(|&m| changes(of(m)))
}

/// Makes one trial.
///
/// # Errors
/// The errors of the servers, of the roles and of the captures.
pub fn run(
    sut: SystemUnderTest<'_>,
    trial: &Trial,
    fleet: Option<&Fleet<'_>>,
    record: &mut TrialRecord,
    tell: &mut dyn FnMut(RunEvent),
) -> Result<(), Error> {
    if sut.spec.external.is_none() {
        tell(RunEvent::Starting { servers: labels(sut.context.experiment, trial) });
    }
    match of(trial.measure).run {
        Run::Start(start) => start(&sut, record, tell),
        Run::StartAll(start) => start(&sut, fleet.expect("it is distributed"), record, tell),
        Run::Ready(measure) => on_a_fresh_server(measure, sut, trial, fleet, record, tell),
    }
}

/// Starts the server and what is beside it, measures it, and ends all of them.
fn on_a_fresh_server(
    measure: OnReadyServer,
    sut: SystemUnderTest<'_>,
    trial: &Trial,
    fleet: Option<&Fleet<'_>>,
    record: &mut TrialRecord,
    tell: &mut dyn FnMut(RunEvent),
) -> Result<(), Error> {
    let (context, spec, zone) = (sut.context, sut.spec, sut.zone);
    sut.reset()?;
    let primary = fleet.map(Fleet::start_primary).transpose()?.flatten();
    // Beside others its folder is one of several.
    let folder = if fleet.is_some() { sut.dir.join("server") } else { sut.dir.to_owned() };
    let mut server = Server::start(context.server, spec, &folder)?;
    record.add_param(params::VERSION, server.version());
    let is_alone = fleet.is_none_or(|fleet| fleet.plan().secondaries == 0);
    let starting =
        if is_alone { AtWork::watch(&server, None)? } else { AtWork::watch_one_of_several(&server)? };
    let took = server.ready(&zone.probe, context.patience(zone))?;
    tell(RunEvent::Ready { seconds: took.as_secs_f64() });
    // An external server was not started here.
    if spec.external.is_none() {
        match starting.map(AtWork::end).transpose()?.flatten() {
            None => record.outcome.metrics.push(metrics::SERVER_READY.of(took.as_secs_f64())),
            // What is measured later does not depend on it.
            Some(why) => record.outcome.validity.warn(Reason::new(
                "start_disturbed",
                format!("the time of the server's start is left out: {}", why.text),
            )),
        }
    }
    let mut others = OtherServers { primary, ..OtherServers::default() };
    if let Some(fleet) = fleet {
        others.secondaries = fleet.start_secondaries(&trial.server)?;
        let all = others.secondaries.iter().chain([&server]);
        all.for_each(|server| note_urged(server, &mut record.outcome));
    }
    if trial.repeat == 1 && zone.trust_anchor.is_some() {
        sut.validate(record)?;
    }
    let changes = match (fleet, of(trial.measure).changes, trial.updates) {
        (Some(fleet), ZoneChanges::Versions, _) => Some(sut.send_versions(fleet)?),
        (Some(fleet), ZoneChanges::AtRates { alone }, Some(rate)) => {
            Some(sut.start_updates(fleet, rate, alone, zone.seed.nth(u64::from(trial.id)))?)
        }
        _ => None,
    };
    if spec.external.is_none() {
        sut.receive_buffers(&server, context.experiment.receive_buffer_of(trial.variant.as_deref()), record);
    }
    let waits = changes.as_ref().map(|_| CoreWaits::begin(&server, &others)).transpose()?;
    let mut ready = Ready { sut, trial, server, fleet, others, absence: None };
    let measured = measure(&mut ready, record, tell);
    let Ready { sut, mut server, mut others, absence, .. } = ready;
    // A server that died explains a role's odd end better than the role does.
    server.alive()?;
    others.alive()?;
    measured?;
    if let Some(waits) = waits {
        waits.end(
            "updates",
            context.shared_cores.map(|_| "give a smaller --parallel"),
            &mut record.outcome,
        )?;
    }
    if let Some(changes) = changes {
        changes.end(context, absence.as_ref(), record, tell)?;
    }
    record.outcome.metrics.extend(others.memory()?);
    others.stop()?;
    record.outcome.metrics.extend(run_context::end(context, server, sut.spec, Ok(()))?);
    Ok(())
}

/// Parameters of a load at a fixed rate or with a window: its length and its deadline.
fn load_params(duration: ::measure::Time, deadline: ::measure::Time) -> [(Parameter, String); 2] {
    [(params::DURATION, duration.to_string()), (params::DEADLINE, deadline.to_string())]
}
