//! Tools that the sender of a message executes itself.

use pincer_catalog::{Entry, ToolId};

use crate::error::AgentError;
use crate::request::ClientTool;

/// The owner of these tools in their ids.
const OWNER: &str = "caller";

/// Returns the tools as entries of a catalog.
pub(crate) fn entries(tools: &[ClientTool]) -> Result<Vec<Entry>, AgentError> {
    let entry = |tool: &ClientTool| {
        let id = format!("client:{OWNER}:{}", tool.name);
        let id = id
            .parse::<ToolId>()
            .map_err(|error| AgentError::Command(format!("client tool {:?}: {error}", tool.name)))?;
        Ok(Entry { input_schema: tool.parameters.clone(), ..Entry::new(id, tool.description.clone()) })
    };
    tools.iter().map(entry).collect()
}
