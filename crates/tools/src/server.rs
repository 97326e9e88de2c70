//! An MCP server, as the door knows it: its tools, and whether it is there.

use std::sync::Arc;

use pincer_catalog::Entry;

use crate::Tool;

/// What an MCP server has. Registered as a whole, and again whenever something of it changes.
pub struct Server {
    /// Its name in the config.
    pub name: String,
    /// How it is.
    pub state: ServerState,
    /// Its tools. Their ids are `mcp:<name>:<tool>`.
    pub tools: Vec<(Arc<Entry>, Arc<dyn Tool>)>,
}

/// How an MCP server is. A server that is not there may still have tools: those it had when it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// It is there, or will be when it is needed.
    Available,
    /// Nobody knows yet: it is being connected to for the first time.
    Starting,
    /// It is not there. This is why.
    Down(String),
}
