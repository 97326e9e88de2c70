//! What `pincer mcp` understands.

use std::net::SocketAddr;

use clap::{Args, Subcommand, ValueEnum};

use crate::usage::ScopeArguments;

#[derive(Args)]
pub(crate) struct McpArguments {
    #[command(subcommand)]
    pub command: McpCommand,
}

#[derive(Subcommand)]
pub(crate) enum McpCommand {
    /// Be an MCP server: exec and wait for any MCP client, with all configured servers behind them
    #[command(after_help = "\
Examples:
  pincer mcp serve
  pincer mcp serve --http 127.0.0.1:8808
  pincer mcp serve --surface direct

Without --http, one client is served on standard input and output: that is what clients start. With it, clients connect to
http://ADDR/mcp; beyond this machine they need a token of `mcp.serve.tokens`.")]
    Serve(ServeArguments),
    /// Look at the configured servers: state, transport, tools, latency, last error
    #[command(after_help = "\
Examples:
  pincer mcp list
  pincer mcp list --cached --json

All servers are asked at once; --cached asks none, and shows what is stored of them.")]
    List {
        /// Ask nobody
        #[arg(long)]
        cached: bool,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Try one server: connect, list, and say how long each step took or why it failed
    #[command(after_help = "\
Example:
  pincer mcp test github

Exit codes: 0 it works, 1 it does not, 2 there is no such server.")]
    Test {
        /// Its name in the config
        name: String,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
pub(crate) struct ServeArguments {
    /// Listen here instead of serving standard input and output
    #[arg(long, value_name = "ADDR")]
    pub http: Option<SocketAddr>,
    /// What clients are shown
    #[arg(long, value_enum, default_value_t = SurfaceArgument::Code)]
    pub surface: SurfaceArgument,
    /// The session that everything belongs to
    #[arg(long, value_name = "KEY", default_value = "main")]
    pub session: String,
    #[command(flatten)]
    pub scope: ScopeArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SurfaceArgument {
    /// exec and wait
    Code,
    /// Every tool under its own name, with resources and prompts
    Direct,
    /// tool_search, tool_describe and tool_call
    Search,
}
