//! Statements on several machines: Ballista, which divides them among executors. A scheduler plans; executors read captures, run
//! directories and Parquet files from paths that all machines see, and send rows to each other and to the asking machine.
//!
//! Ballista has neither passwords nor encryption of its own that we use: whoever reaches a scheduler or an executor can read what its user
//! can read.

mod codec;
mod engine;

use crate::storage::{Settings, Stores};
use crate::{Error, functions};
use ballista::prelude::SessionContextExt;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::execution_plans::DistributedQueryExec;
use ballista_core::extension::SessionConfigExt;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::protobuf::CancelJobParams;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::utils::{create_grpc_client_endpoint, default_session_builder};
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::health::ExecutorHealth;
use ballista_scheduler::cluster::{BallistaCluster, ClusterStateEvent, ClusterStateEventStream};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use ballista_scheduler::scheduler_server::SchedulerServer;
use codec::Codec;
use datafusion::common::{DataFusionError, Result as EngineResult};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use engine::Engine;
use futures_util::{StreamExt, stream};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};

/// The port of a scheduler.
pub const PORT: u16 = 50050;
/// Octets of a message: the plan of a statement on tens of thousands of captures.
const MESSAGE: u32 = 256 << 20;
/// An executor that says nothing for so long is lost.
const LOST: Duration = Duration::from_secs(15);

/// A scheduler's address as users give it: `HOST`, `HOST:PORT`, or either after `df://`.
///
/// # Errors
/// The text is not such an address.
pub fn scheduler_address(text: &str) -> Result<String, String> {
    let plain = text.strip_prefix("df://").unwrap_or(text).trim_end_matches('/');
    let (host, port) = match plain.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (plain, None),
    };
    let has_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    let is_host = |host: &str| {
        !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || matches!(c, '/' | '@' | '?' | '#'))
    };
    if !has_port || !is_host(host) || host.contains(':') && !host.ends_with(']') {
        return Err("a scheduler has the form HOST:PORT, or [ADDRESS]:PORT for IPv6".into());
    }
    Ok(format!("{host}:{}", port.unwrap_or(&PORT.to_string())))
}

/// Checks that something listens at the address of a scheduler.
///
/// # Errors
/// Nothing does, or it does not answer.
pub(crate) async fn find(scheduler: &str) -> Result<(), Error> {
    let none = |why: &str| {
        Error::Cluster(format!(
            "no scheduler answers at {scheduler}: {why}; start one with 'dnsrack query scheduler'"
        ))
    };
    match tokio::time::timeout(Duration::from_secs(10), TcpStream::connect(scheduler)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(cause)) => Err(none(&cause.to_string())),
        Err(_) => Err(none("it was silent for 10 s")),
    }
}

/// A context whose statements are run by the cluster of a scheduler.
pub(crate) async fn context(
    scheduler: &str,
    parts: usize,
    runtime: Arc<RuntimeEnv>,
) -> EngineResult<SessionContext> {
    // The adaptive planner of Ballista 55.0.0 does not survive the loss of an executor: the statement never ends (apache/datafusion-ballista,
    // issues 1986 and 2150).
    let mut config = SessionConfig::new_with_ballista()
        .with_ballista_adaptive_query_planner(false)
        .with_target_partitions(parts)
        .with_ballista_grpc_client_max_message_size(MESSAGE as usize)
        .with_ballista_logical_extension_codec(Arc::new(Codec::default()));
    config.options_mut().sql_parser.collect_spans = true;
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_config(config)
        .with_runtime_env(runtime)
        .build();
    SessionContext::remote_with_state(&format!("df://{scheduler}"), state).await
}

/// Ends the job of a plan that nobody wants the rows of any more. A job that is over already is left alone.
pub(crate) async fn cancel(scheduler: &str, plan: &dyn ExecutionPlan) {
    let job =
        plan.downcast_ref::<DistributedQueryExec<LogicalPlanNode>>().and_then(DistributedQueryExec::job_id);
    let Some(job) = job else { return };
    let Ok(endpoint) = create_grpc_client_endpoint(format!("http://{scheduler}"), None) else { return };
    // Without an answer the scheduler is gone, and the job with it.
    let ask = async {
        let channel = endpoint.connect().await.ok()?;
        let job_id = job.as_str().to_owned();
        SchedulerGrpcClient::new(channel).cancel_job(CancelJobParams { job_id }).await.ok()
    };
    let _ = tokio::time::timeout(Duration::from_secs(5), ask).await;
}

/// A scheduler.
#[derive(Clone, Debug)]
pub struct Scheduler {
    /// The address that it listens on. Port 0 means any free port.
    pub at: SocketAddr,
    /// Address and credentials of S3 storage, for statements that read files there.
    pub storage: Settings,
}

/// An executor.
#[derive(Clone, Debug)]
pub struct Executor {
    /// Its scheduler, as [`scheduler_address`] gives it.
    pub scheduler: String,
    /// The address at which the other executors and the asking machine fetch rows. Tasks arrive at the next port. Port 0 means any two
    /// free ports.
    pub at: SocketAddr,
    /// The number of threads that run tasks.
    pub threads: usize,
    /// Octets that sorts, joins and groups of all threads may take; without: 70 % of the machine's or of the control group's.
    pub memory: Option<u64>,
    /// The folder for rows that others fetch, and for what does not fit in memory.
    pub folder: PathBuf,
    /// How long the scheduler may be silent, at the start or later, before the executor gives up.
    pub patience: Duration,
    /// Address and credentials of S3 storage, for statements that read files there.
    pub storage: Settings,
}

fn refused(what: &str) -> impl Fn(ballista_core::error::BallistaError) -> Error {
    move |cause| Error::Cluster(format!("{what}: {cause}"))
}

/// Refuses an address that other machines reach.
///
/// # Errors
/// [`Error::External`].
pub fn check_address(address: IpAddr, allow_external: bool) -> Result<(), Error> {
    match address.is_loopback() || allow_external {
        true => Ok(()),
        false => Err(Error::External(address)),
    }
}

/// Runs a scheduler until it fails. `ready` gets its address.
///
/// # Errors
/// It cannot listen.
pub async fn scheduler(scheduler: &Scheduler, ready: impl FnOnce(SocketAddr)) -> Result<(), Error> {
    let listen = |cause| Error::Cluster(format!("scheduler: {}: {cause}", scheduler.at));
    let listener = TcpListener::bind(scheduler.at).await.map_err(listen)?;
    let at = listener.local_addr().map_err(listen)?;
    let codec = Arc::new(Codec::default());
    let stores = RuntimeEnvBuilder::new().with_object_store_registry(Stores::new(&scheduler.storage));
    let runtime = stores.build_arc().map_err(|e| refused("scheduler")(e.into()))?;
    let config = SchedulerConfig {
        scheduling_policy: TaskSchedulingPolicy::PushStaged,
        bind_host: host_of(at.ip()),
        external_host: host_of(at.ip()),
        bind_port: at.port(),
        grpc_server_max_decoding_message_size: MESSAGE,
        grpc_server_max_encoding_message_size: MESSAGE,
        grpc_client_max_message_size: MESSAGE,
        executor_timeout_seconds: LOST.as_secs(),
        expire_dead_executor_interval_seconds: LOST.as_secs() / 5,
        no_executors_grace_period_seconds: 4 * LOST.as_secs(),
        // What Ballista does again in the middle of a statement is not to be trusted: see `cancel_after_a_loss`.
        task_max_failures: 1,
        stage_max_failures: 1,
        override_session_builder: Some(Arc::new(move |config| {
            let state = SessionStateBuilder::new_from_existing(default_session_builder(config)?);
            let context = SessionContext::new_with_state(state.with_runtime_env(runtime.clone()).build());
            functions::all().for_each(|function| context.register_udf(function));
            Ok(context.state())
        })),
        override_logical_codec: Some(codec.clone()),
        override_physical_codec: Some(codec),
        ..SchedulerConfig::default()
    };
    config.validate().map_err(refused("scheduler"))?;
    let cluster = BallistaCluster::new_from_config(&config).await.map_err(refused("scheduler"))?;
    let server = create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, Arc::new(config))
        .await
        .map_err(refused("scheduler"))?;
    let events = server.cluster_state_events().await.map_err(refused("scheduler"))?;
    tokio::spawn(cancel_after_a_loss(server.clone(), events));
    ready(at);
    start_grpc_service_with_listener(listener, server).await.map_err(refused("scheduler"))
}

/// Cancels all jobs that run when an executor is lost: [`Session::ask`](crate::Session::ask) starts them again from the beginning. Ballista
/// 55.0.0 does parts of a job again, and then gives some rows twice, or never ends (test `a_killed_executor_costs_no_row_and_gives_none_twice`).
async fn cancel_after_a_loss(
    server: SchedulerServer<LogicalPlanNode, PhysicalPlanNode>,
    mut events: ClusterStateEventStream,
) {
    while let Some(event) = events.next().await {
        if matches!(event, ClusterStateEvent::RemovedExecutor { .. }) {
            for job in server.state.task_manager.get_running_job_cache().keys() {
                if let Err(cause) = server.cancel_job(job.clone()).await {
                    log::error!("the job {job} cannot be cancelled after the loss of an executor: {cause}");
                }
            }
        }
    }
}

/// Whether a statement failed because an executor was lost.
pub(crate) fn is_loss(error: &DataFusionError) -> bool {
    let text = error.to_string();
    [" failed: Cancelled", " has failed 1 times", "FetchFailed", "tcp connect error"]
        .iter()
        .any(|sign| text.contains(sign))
}

/// Waits for the first rows of a statement, which come when the cluster is done with it.
pub(crate) async fn begun(mut stream: SendableRecordBatchStream) -> EngineResult<SendableRecordBatchStream> {
    let schema = stream.schema();
    let first = stream.next().await.transpose()?;
    let rows = stream::iter(first.map(Ok)).chain(stream);
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

/// The error of a job as an executor wrote it, without the names that Ballista wraps it in; `None` for other messages.
pub(crate) fn message_of_job(message: &str) -> Option<String> {
    let inner = message.strip_prefix("Job ")?.split_once(" failed: ")?.1;
    let inner = inner.rsplit_once("error: ").map_or(inner, |(_, inner)| inner);
    let mut inner = inner.trim_end();
    let unwrapped = |text| {
        let names = ["DataFusionError(", "Shared(", "External(", "Execution("];
        names.iter().find_map(|name| str::strip_prefix(text, name)?.strip_suffix(')'))
    };
    while let Some(less) = unwrapped(inner) {
        inner = less;
    }
    Some(format!("the cluster failed: {}", inner.trim_matches('"')))
}

/// The addresses for rows and for tasks: where `at` has a port, that one and the next, and otherwise two that are free now. Ballista listens
/// itself, and has to know them before.
async fn ports(at: SocketAddr) -> io::Result<(SocketAddr, SocketAddr)> {
    let next = match at.port() {
        0 => 0,
        port => {
            port.checked_add(1).ok_or_else(|| io::Error::other("there is no port after 65535 for tasks"))?
        }
    };
    // Both are held until both are known, so that they differ.
    let (rows, tasks) = (TcpListener::bind(at).await?, TcpListener::bind((at.ip(), next)).await?);
    Ok((rows.local_addr()?, tasks.local_addr()?))
}

/// Runs an executor until it is ended by SIGINT or SIGTERM. `ready` gets its address when the scheduler knows it.
///
/// # Errors
/// It cannot listen; the scheduler cannot be reached, or is silent for too long.
pub async fn executor(executor: &Executor, ready: impl FnOnce(SocketAddr)) -> Result<(), Error> {
    let Executor { scheduler, at, threads, memory, folder, patience, storage } = executor;
    let gone = |what: &str| {
        Error::Cluster(format!("executor: the scheduler {scheduler} {what} for {} s", patience.as_secs()))
    };
    let began = Instant::now();
    while TcpStream::connect(scheduler).await.is_err() {
        if began.elapsed() > *patience {
            return Err(gone("could not be reached"));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let (at, tasks_at) =
        ports(*at).await.map_err(|cause| Error::Cluster(format!("executor: {at}: {cause}")))?;
    let (host, port) = scheduler.rsplit_once(':').expect("it has a port");
    let mut registry = BallistaFunctionRegistry::default();
    let ours = functions::all().map(|function| (function.name().to_owned(), Arc::new(function)));
    registry.scalar_functions.extend(ours);
    let health = ExecutorHealth::new();
    let codec = Arc::new(Codec::default());
    let (stores, spilled) = (Stores::new(storage), folder.clone());
    let config = ExecutorProcessConfig {
        bind_host: host_of(at.ip()),
        external_host: Some(host_of(at.ip())),
        port: at.port(),
        grpc_port: tasks_at.port(),
        executor_heartbeat_interval_seconds: LOST.as_secs() / 5,
        scheduler_host: host.to_owned(),
        scheduler_port: port.parse().expect("it was checked"),
        scheduler_connect_timeout_seconds: u16::try_from(patience.as_secs()).unwrap_or(u16::MAX).max(1),
        vcores: *threads,
        task_scheduling_policy: TaskSchedulingPolicy::PushStaged,
        work_dir: Some(folder.display().to_string()),
        grpc_max_decoding_message_size: MESSAGE,
        grpc_max_encoding_message_size: MESSAGE,
        memory_pool_size: *memory,
        override_runtime_producer: Some(Arc::new(move |_| {
            let stores = RuntimeEnvBuilder::new().with_object_store_registry(stores.clone());
            stores.with_temp_file_path(&spilled).build_arc()
        })),
        override_function_registry: Some(Arc::new(registry)),
        override_logical_codec: Some(codec.clone()),
        override_physical_codec: Some(codec),
        override_execution_engine: Some(Arc::new(Engine::default())),
        health: health.clone(),
        ..ExecutorProcessConfig::default()
    };
    let work = start_executor_process(Arc::new(config));
    let watch = async {
        let (mut ready, mut heard) = (Some(ready), Instant::now());
        loop {
            if health.is_ready() {
                heard = Instant::now();
                if let Some(ready) = ready.take() {
                    ready(at);
                }
            } else if heard.elapsed() > *patience {
                return gone("did not answer");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        done = work => done.map_err(refused("executor")),
        silent = watch => Err(silent),
    }
}

fn host_of(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_executors_have_no_wrapping() {
        let message = "Job 038GV73V1P000 failed: Job failed due to stage 1 failed: Task failed due to runtime execution error: \
                       DataFusionError(Shared(External(DataFusionError(External(a.pcap: it is no capture)))))\n";
        assert_eq!(message_of_job(message).as_deref(), Some("the cluster failed: a.pcap: it is no capture"));
        assert_eq!(
            message_of_job("Job 1 failed: Cancelled").as_deref(),
            Some("the cluster failed: Cancelled")
        );
        assert_eq!(message_of_job("the table is gone"), None);
    }

    #[test]
    fn schedulers_are_named_in_several_ways() {
        for (text, address) in [
            ("10.0.0.1", "10.0.0.1:50050"),
            ("df://10.0.0.1:7/", "10.0.0.1:7"),
            ("node-1.cluster:50051", "node-1.cluster:50051"),
            ("[fd00::1]:50051", "[fd00::1]:50051"),
            ("[fd00::1]", "[fd00::1]:50050"),
        ] {
            assert_eq!(scheduler_address(text).as_deref(), Ok(address), "{text}");
        }
        for text in
            ["", ":50050", "a b", "host:0", "host:99999", "host:port", "fd00::1", "http://a/b:1", "u@h"]
        {
            assert!(scheduler_address(text).is_err(), "{text}");
        }
    }
}
