//! Tables of run directories that are read when a statement first asks for them: the histograms and series are nearly all of a run.

use crate::runs;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// A table of run directories.
#[derive(Debug)]
pub struct Late {
    dirs: Vec<PathBuf>,
    read: runs::Read,
    schema: SchemaRef,
    table: OnceCell<MemTable>,
}

impl Late {
    /// The table that `read` makes of these run directories.
    pub fn new(dirs: Vec<PathBuf>, read: runs::Read) -> Result<Self, results::Error> {
        Ok(Self { dirs, read, schema: read(&[])?.schema(), table: OnceCell::new() })
    }

    async fn table(&self) -> Result<&MemTable> {
        let (dirs, read) = (self.dirs.clone(), self.read);
        let load = || async move {
            let read = tokio::task::spawn_blocking(move || read(&dirs)).await;
            let batch = read
                .map_err(|e| DataFusionError::External(Box::new(e)))?
                .map_err(|e| DataFusionError::External(Box::new(e)))?;
            MemTable::try_new(batch.schema(), vec![vec![batch]])
        };
        self.table.get_or_try_init(load).await
    }
}

#[async_trait::async_trait]
impl TableProvider for Late {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.table().await?.scan(session, projection, filters, limit).await
    }
}
