//! The tables of sources, and statements on them.

use crate::scan::{Content, ErrorText, KnownFile, Memory, SOURCE, Scan, Table, Trace};
use crate::sources::{self, Source};
use crate::storage::{self, Captures, Settings, Stores};
use crate::{Error, cluster, functions, runs};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::expr_fn::col;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::{DataFrame, ParquetReadOptions, SQLOptions, SessionConfig, SessionContext, lit};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// How statements are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Threads; on a cluster, parts that the work is divided into.
    pub threads: usize,
    /// The scheduler of the cluster that runs statements, as [`cluster::scheduler_address`] gives it; without: this process.
    pub cluster: Option<String>,
    /// Octets that sorts, joins and groups may take before they go on in files.
    pub memory: u64,
    /// The folder of these files; without: the system's for temporary files.
    pub spill: Option<PathBuf>,
    /// Ports of the servers, of captures.
    pub ports: Vec<u16>,
    /// Each source of queries is a trace of its own, and has a column `source`.
    pub apart: bool,
    /// Address and credentials of S3 storage, for sources whose names begin with `s3://`.
    pub storage: Settings,
}

impl Default for Options {
    /// One thread; a gigabyte; port 53; all captures are one trace.
    fn default() -> Self {
        Self {
            threads: 1,
            cluster: None,
            memory: 1_000_000_000,
            spill: None,
            ports: vec![53],
            apart: false,
            storage: Settings::default(),
        }
    }
}

/// Tables that can be asked.
pub struct Session {
    context: SessionContext,
    cluster: Option<String>,
    memory: Arc<Memory>,
    /// The plan of the last statement.
    plan: Mutex<Option<Arc<dyn ExecutionPlan>>>,
    /// How often a cluster lost an executor, so that a statement was started again.
    restarts: AtomicU64,
}

/// How often a statement is started on a cluster that loses executors.
const ATTEMPTS: u32 = 3;

/// How far a statement has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Packets of captures read so far, by all statements.
    pub packets: u64,
    /// Rows of other tables read so far, by the last statement.
    pub rows: u64,
    /// How many rows these tables have. Some need not be read, where their file says that none is wanted.
    pub most_rows: u64,
}

impl Session {
    /// Makes the tables of sources: `queries` of captures and imported traces, those of [`runs`] of run directories. Captures are not
    /// read yet.
    ///
    /// # Errors
    /// A source that is none, or cannot be read.
    pub async fn open(paths: &[PathBuf], options: &Options) -> Result<Self, Error> {
        let engine = |e: DataFusionError| Error::of(&e, "sources", "");
        let memory = usize::try_from(options.memory).unwrap_or(usize::MAX);
        let tracked = NonZeroUsize::new(3).expect("it is not zero");
        let mut runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(TrackConsumersPool::new(FairSpillPool::new(memory), tracked)))
            .with_max_temp_directory_size(u64::MAX)
            .with_object_store_registry(Stores::new(&options.storage));
        if let Some(folder) = &options.spill {
            runtime = runtime.with_temp_file_path(folder);
        }
        let runtime = runtime.build_arc().map_err(engine)?;
        let parts = options.threads.max(1);
        let context = match &options.cluster {
            Some(scheduler) => {
                cluster::find(scheduler).await?;
                cluster::context(scheduler, parts, runtime).await.map_err(engine)?
            }
            None => {
                let mut config =
                    SessionConfig::new().with_target_partitions(parts).with_information_schema(true);
                config.options_mut().sql_parser.collect_spans = true;
                // One type of text everywhere: captures, tables of runs, literals.
                config.options_mut().execution.parquet.schema_force_view_types = false;
                config.options_mut().sql_parser.map_string_types_to_utf8view = false;
                SessionContext::new_with_config_rt(config, runtime)
            }
        };
        functions::all().for_each(|function| context.register_udf(function));
        let session = Self {
            context,
            cluster: options.cluster.clone(),
            memory: Arc::default(),
            plan: Mutex::default(),
            restarts: AtomicU64::new(0),
        };

        let (mut dirs, mut captures, mut imported) = (Vec::new(), Vec::new(), Vec::new());
        let runtime = session.context.runtime_env();
        for path in paths {
            let found = match storage::is_stored(path) {
                true => storage::at(&session.context.state(), path).await?,
                false => sources::at(path)?,
            };
            for source in found {
                match source {
                    Source::Run(path) => dirs.push(std::path::absolute(&path).map_err(Error::io(path))?),
                    Source::Capture(path) => captures.push(path),
                    Source::Imported { path, files } => imported.push((path, files)),
                }
            }
        }
        if !dirs.is_empty() {
            // A run directory that cannot be read is found here, before anything is asked.
            dirs.iter().try_for_each(|dir| session.memory.figures(dir).map(drop))?;
            let names = runs::names(&dirs);
            let run = |(name, dir): (String, PathBuf)| {
                let plan = KnownFile::at(&dir.join("run.toml")).map_err(Error::io(&dir))?;
                Ok((name, dir, plan))
            };
            let all = names.into_iter().zip(dirs).map(run).collect::<Result<Vec<_>, Error>>()?;
            for table in runs::tables() {
                let content = Content::Runs { table: table.to_owned(), runs: all.clone() };
                session.register(table, content, options.threads).map_err(engine)?;
            }
        }
        // A file that is no capture is found here, before anything is read.
        let (place, files) = (Arc::new(Captures::new(&runtime)), captures.clone());
        let opened = move || trace::Reader::open_at(place, &files, &trace::Options::default()).map(drop);
        tokio::task::spawn_blocking(opened).await.map_err(|e| Error::Engine(e.to_string()))??;
        if let Some(queries) = session.queries(captures, imported, options).await.map_err(engine)? {
            session.context.register_table("queries", queries.into_view()).map_err(engine)?;
        }
        Ok(session)
    }

    fn register(&self, name: &str, content: Content, parts: usize) -> Result<(), DataFusionError> {
        let parts = u32::try_from(parts).unwrap_or(u32::MAX);
        self.context.register_table(name, Arc::new(Table::new(content, parts, &self.memory)?)).map(drop)
    }

    /// The table of queries: of all captures, which are one trace, and of all imported traces.
    async fn queries(
        &self,
        captures: Vec<PathBuf>,
        imported: Vec<(PathBuf, Vec<PathBuf>)>,
        options: &Options,
    ) -> Result<Option<DataFrame>, DataFusionError> {
        let mut parts = Vec::new();
        let partitions = u32::try_from(options.threads).unwrap_or(u32::MAX).max(1);
        let runtime = self.context.runtime_env();
        let files_each = if options.apart { 1 } else { captures.len().max(1) };
        let mut traces = Vec::new();
        for paths in captures.chunks(files_each) {
            let mut files = Vec::new();
            for path in paths {
                files.push(storage::known(path, &runtime).await?);
            }
            traces.push(Trace { name: paths[0].display().to_string(), files });
        }
        if !traces.is_empty() {
            let parts_each = (partitions / traces.len() as u32).max(1);
            let (ports, apart) = (options.ports.clone(), options.apart);
            let content = Content::Captures { traces, parts_each, ports, apart };
            parts.push(self.context.read_table(Arc::new(Table::new(content, partitions, &self.memory)?))?);
        }
        for (path, files) in imported {
            let names = files.iter().map(|file| storage::engine_name(file, &runtime));
            let files = names.collect::<Result<Vec<_>, _>>().map_err(ErrorText::of)?;
            let rows = self.context.read_parquet(files, ParquetReadOptions::default()).await?;
            // The columns of this version, in their order.
            let columns = trace::rows::columns().map(|(name, ..)| col(name));
            let rows = rows.select(columns)?;
            parts.push(match options.apart {
                true => rows.with_column(SOURCE, lit(path.display().to_string()))?,
                false => rows,
            });
        }
        let mut whole: Option<DataFrame> = None;
        for part in parts {
            whole = Some(match whole {
                None => part,
                Some(whole) => whole.union(part)?,
            });
        }
        Ok(whole)
    }

    /// Plans a statement, and begins with it. `name` stands for it in errors: a file, or `SQL`. A cluster is waited for: it gives the first
    /// rows when it is done. Where it loses an executor, the statement is started again, twice at most.
    ///
    /// # Errors
    /// A statement that is wrong, or changes something; a parameter without a value.
    pub async fn ask(
        &self,
        sql: &str,
        name: &str,
        parameters: &BTreeMap<String, String>,
    ) -> Result<SendableRecordBatchStream, Error> {
        let wrong = |e: DataFusionError| match Error::of(&e, name, sql) {
            Error::Sql { name, text, line, column, message } if message.starts_with("table '") => {
                let there = self.table_names().join(", ");
                let message = format!("{message}; of these sources there are {there}");
                Error::Sql { name, text, line, column, message }
            }
            error => error,
        };
        let asks = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false);
        let mut rows = self.context.sql_with_options(sql, asks).await.map_err(wrong)?;
        let wanted = rows.logical_plan().get_parameter_names().map_err(wrong)?;
        let mut values = Vec::new();
        for name in wanted {
            let name = name.trim_start_matches('$').to_owned();
            let value = parameters.get(&name).ok_or_else(|| {
                Error::Parameter(format!("${name} has no value: give one with --set {name}=…"))
            })?;
            values.push((name, scalar(value)));
        }
        if let Some(name) = parameters.keys().find(|name| !values.iter().any(|(wanted, _)| wanted == *name)) {
            return Err(Error::Parameter(format!("--set {name}: the statement has no parameter ${name}")));
        }
        if !values.is_empty() {
            rows = rows.with_param_values(values).map_err(wrong)?;
        }
        match rows.logical_plan() {
            LogicalPlan::Analyze(_) if self.cluster.is_some() => {
                return Err(Error::Cluster(format!(
                    "{name}: EXPLAIN ANALYZE has no figures on a cluster: ask without --cluster"
                )));
            }
            // Tables are known here.
            LogicalPlan::DescribeTable(_) if self.cluster.is_some() => {
                let (state, plan) = rows.into_parts();
                let planner = DefaultPhysicalPlanner::default();
                let plan = planner.create_physical_plan(&plan, &state).await.map_err(wrong)?;
                return execute_stream(plan, state.task_ctx()).map_err(wrong);
            }
            _ => {}
        }
        for left in (0..ATTEMPTS).rev() {
            let context = Arc::new(rows.task_ctx());
            let plan = rows.clone().create_physical_plan().await.map_err(wrong)?;
            *self.plan.lock().expect("no one panics with it") = Some(plan.clone());
            let stream = execute_stream(plan, context).map_err(wrong)?;
            if self.cluster.is_none() {
                return Ok(stream);
            }
            match cluster::begun(stream).await {
                Err(error) if left > 0 && cluster::is_loss(&error) => {
                    self.restarts.fetch_add(1, Ordering::Relaxed);
                }
                begun => return begun.map_err(wrong),
            }
        }
        unreachable!("the last attempt returns")
    }

    /// How far the last statement has come.
    pub fn progress(&self) -> Progress {
        let mut progress =
            Progress { packets: self.memory.seen.load(Ordering::Relaxed), ..Progress::default() };
        if let Some(plan) = &*self.plan.lock().expect("no one panics with it") {
            count_rows(&**plan, &mut progress);
        }
        progress
    }

    /// Whether a cluster runs the statements.
    pub fn is_on_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    /// How often statements were started again, since the cluster lost an executor.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Ends what the last statement has running on a cluster, where nobody wants its rows any more.
    pub async fn cancel(&self) {
        let plan = self.plan.lock().expect("no one panics with it").clone();
        if let (Some(scheduler), Some(plan)) = (&self.cluster, plan) {
            cluster::cancel(scheduler, &*plan).await;
        }
    }

    /// The tables, each with its columns.
    pub async fn tables(&self) -> Vec<(String, Vec<String>)> {
        let mut tables = Vec::new();
        for name in self.table_names() {
            if let Ok(table) = self.context.table_provider(&name).await {
                tables
                    .push((name, table.schema().fields().iter().map(|field| field.name().clone()).collect()));
            }
        }
        tables
    }

    /// Names of the tables, sorted.
    fn table_names(&self) -> Vec<String> {
        let schema = self.context.catalog("datafusion").and_then(|catalog| catalog.schema("public"));
        let mut names = schema.map(|schema| schema.table_names()).unwrap_or_default();
        names.sort();
        names
    }
}

/// Adds the rows that the tables at the leaves of a plan have, and have given so far. Of a scan nobody knows how many there are.
fn count_rows(plan: &dyn ExecutionPlan, progress: &mut Progress) {
    if plan.is::<Scan>() {
        return;
    }
    let children = plan.children();
    children.iter().for_each(|child| count_rows(&***child, progress));
    if children.is_empty()
        && let Ok(statistics) = StatisticsContext::new().compute(plan, &StatisticsArgs::new())
        && let Some(&most) = statistics.num_rows.get_value()
    {
        let given = plan.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or(0);
        progress.rows += given as u64;
        progress.most_rows += most as u64;
    }
}

/// A number where the text is one.
fn scalar(text: &str) -> ScalarValue {
    if let Ok(whole) = text.parse::<i64>() {
        return whole.into();
    }
    text.parse::<f64>().map_or_else(|_| text.into(), ScalarValue::from)
}
