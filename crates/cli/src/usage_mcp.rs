//! What `pincer mcp` understands.

use std::net::SocketAddr;

use clap::{Args, Subcommand, ValueEnum};

use crate::usage_tools::ScopeArguments;

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
    /// Take the servers of a client into the config, and say what puts Pincer into the client
    #[command(after_help = "\
Examples:
  pincer mcp import
  pincer mcp import claude-desktop cursor --dry-run
  pincer mcp import codex --secrets variables
  pincer mcp import .vscode/mcp.json --write
  pincer mcp import --undo

Clients: claude-desktop, claude-code, cursor, vscode, codex; without a name, all that are found. The client's own file is not
changed unless --write is given: then Pincer takes the place of the servers in it, and a copy of the file stays beside it.
--undo takes that back, unless one of the files has been changed since: then it changes nothing, and says which.")]
    Import(ImportArguments),
    /// Log in to a server that asks who you are (OAuth)
    #[command(after_help = "\
Example:
  pincer mcp login linear

The address to open is printed; on a terminal a browser is opened too. What comes of it is kept in the state directory, for you
alone, and renewed by itself.")]
    Login {
        /// Its name in the config
        name: String,
        /// Only print the address
        #[arg(long)]
        no_browser: bool,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Forget a login
    #[command(after_help = "Example:\n  pincer mcp logout linear")]
    Logout {
        /// Its name in the config
        name: String,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Compare what a prompt carries with all tools of the servers in it, and with Pincer
    #[command(after_help = "\
Example:
  pincer mcp savings

Tokens are those of o200k_base. What the runs of agents have saved is summed by `pincer savings`.")]
    Savings {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        scope: ScopeArguments,
    },
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

#[derive(Args)]
pub(crate) struct ImportArguments {
    /// A client or a file; several are read one after the other
    #[arg(value_name = "CLIENT|FILE")]
    pub from: Vec<String>,
    /// What happens to secrets that stand in the file
    #[arg(long, value_enum, default_value_t = SecretsArgument::Keep)]
    pub secrets: SecretsArgument,
    /// Replace servers of the same name in the config
    #[arg(long)]
    pub replace: bool,
    /// Put Pincer into the client's own file, in place of what was taken; a copy is kept
    #[arg(long, conflicts_with = "dry_run")]
    pub write: bool,
    /// With --write: leave the other servers in the client's file
    #[arg(long, requires = "write")]
    pub keep: bool,
    /// Write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Bring back the config and the clients' files as they were before the last import with --write
    #[arg(long, conflicts_with_all = ["from", "secrets", "replace", "write", "keep", "dry_run"])]
    pub undo: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SecretsArgument {
    /// They are copied
    Keep,
    /// They become variables of the environment, which you must set
    Variables,
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
