//! Our tables and scans as octets, for the other machines of a cluster.

use crate::scan::{Content, Memory, Scan, Table, Wanted};
use ballista_core::serde::{BallistaLogicalExtensionCodec, BallistaPhysicalExtensionCodec};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, Result, TableReference};
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// Our own encodings begin with this, and JSON follows. None of Ballista's can begin so: in protobuf 'd' would name a type that does not exist.
const OURS: &[u8] = b"dnsrack/1 ";

/// Ballista's codecs, with our tables and scans.
#[derive(Debug, Default)]
pub struct Codec {
    logical: BallistaLogicalExtensionCodec,
    physical: BallistaPhysicalExtensionCodec,
}

fn encode(value: &impl Serialize, octets: &mut Vec<u8>) -> Result<()> {
    octets.extend_from_slice(OURS);
    serde_json::to_writer(octets, value).map_err(|e| DataFusionError::External(Box::new(e)))
}

/// `None` where the octets are not one of our own encodings.
fn decode<T: DeserializeOwned>(octets: &[u8]) -> Option<Result<T>> {
    let json = octets.strip_prefix(OURS)?;
    let wrong = |e| {
        DataFusionError::Execution(format!(
            "a table that this machine does not understand: all programs of a cluster must be of one version ({e})"
        ))
    };
    Some(serde_json::from_slice(json).map_err(wrong))
}

impl LogicalExtensionCodec for Codec {
    fn try_decode(&self, octets: &[u8], inputs: &[LogicalPlan], context: &TaskContext) -> Result<Extension> {
        self.logical.try_decode(octets, inputs, context)
    }

    fn try_encode(&self, node: &Extension, octets: &mut Vec<u8>) -> Result<()> {
        self.logical.try_encode(node, octets)
    }

    fn try_decode_table_provider(
        &self,
        octets: &[u8],
        name: &TableReference,
        schema: SchemaRef,
        context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        let Some(ours) = decode::<(Content, u32)>(octets) else {
            return self.logical.try_decode_table_provider(octets, name, schema, context);
        };
        let (content, parts) = ours?;
        Ok(Arc::new(Table::new(content, parts, &Arc::new(Memory::default()))?))
    }

    fn try_encode_table_provider(
        &self,
        name: &TableReference,
        table: Arc<dyn TableProvider>,
        octets: &mut Vec<u8>,
    ) -> Result<()> {
        match table.downcast_ref::<Table>() {
            Some(table) => encode(&table.content(), octets),
            None => self.logical.try_encode_table_provider(name, table, octets),
        }
    }

    fn try_decode_file_format(
        &self,
        octets: &[u8],
        context: &TaskContext,
    ) -> Result<Arc<dyn FileFormatFactory>> {
        self.logical.try_decode_file_format(octets, context)
    }

    fn try_encode_file_format(&self, octets: &mut Vec<u8>, format: Arc<dyn FileFormatFactory>) -> Result<()> {
        self.logical.try_encode_file_format(octets, format)
    }
}

impl PhysicalExtensionCodec for Codec {
    fn try_decode(
        &self,
        octets: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(ours) = decode::<Wanted>(octets) else {
            return self.physical.try_decode(octets, inputs, context, converter);
        };
        let [input] = inputs else {
            return Err(DataFusionError::Internal("a scan has one input".into()));
        };
        Ok(Arc::new(Scan::new(ours?, input.clone(), Arc::default(), true)?))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        octets: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        match node.downcast_ref::<Scan>() {
            Some(scan) => encode(scan.wanted(), octets),
            None => self.physical.try_encode(node, octets, converter),
        }
    }
}
