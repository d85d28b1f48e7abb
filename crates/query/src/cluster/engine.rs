//! Tasks of an executor.

use ballista_core::JobId;
use ballista_core::serde::protobuf::{
    RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats, WindowStateReport,
};
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor};
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::prelude::SessionConfig;
use std::fmt;
use std::sync::Arc;

/// Ballista's own engine, without the metrics of its operators. The scheduler of Ballista 55.0.0 adds up the metrics of a stage's tasks. Where
/// the plan of a task has more or fewer operators with metrics than that of the first task, it fails to note that the task is done, and
/// the statement never ends: so it is with a union with a row that has no table. It accepts tasks without metrics.
pub struct Engine(DefaultExecutionEngine);

impl Default for Engine {
    /// It opens a new connection for each fetch from another executor, since the connection pool of Ballista's executor is not public.
    fn default() -> Self {
        Self(DefaultExecutionEngine::new())
    }
}

impl ExecutionEngine for Engine {
    fn create_query_stage_exec(
        &self,
        job: JobId,
        stage: usize,
        task: usize,
        partitions: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        folder: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        let inner = self.0.create_query_stage_exec(job, stage, task, partitions, plan, folder, config)?;
        Ok(Arc::new(Stage(inner)))
    }
}

/// A stage that gives no metrics.
#[derive(Debug)]
struct Stage(Arc<dyn QueryStageExecutor>);

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait::async_trait]
impl QueryStageExecutor for Stage {
    async fn execute_query_stage(
        &self,
        task: usize,
        context: Arc<TaskContext>,
    ) -> Result<Vec<ShuffleWritePartition>> {
        self.0.execute_query_stage(task, context).await
    }

    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        Vec::new()
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        self.0.collect_runtime_stats_reports()
    }

    fn collect_window_state_reports(&self) -> Result<Vec<WindowStateReport>> {
        self.0.collect_window_state_reports()
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        self.0.collect_column_stats()
    }
}
