//! The arguments of `pincer tools`, and of all commands that show a catalog.

use clap::{Args, Subcommand};

#[derive(Args)]
pub(crate) struct ToolsArguments {
    #[command(subcommand)]
    pub command: ToolsCommand,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub scope: ScopeArguments,
}

/// For whom the catalog is made.
#[derive(Args)]
pub(crate) struct ScopeArguments {
    /// As this agent
    #[arg(long, global = true, value_name = "ID")]
    pub agent: Option<String>,
    /// With a model of this provider
    #[arg(long, global = true, value_name = "NAME")]
    pub provider: Option<String>,
    /// With this model of the provider
    #[arg(long, global = true, value_name = "NAME", requires = "provider")]
    pub model: Option<String>,
    /// For a message of this sender
    #[arg(long, global = true, value_name = "NAME")]
    pub sender: Option<String>,
    /// In a sandboxed session
    #[arg(long, global = true)]
    pub sandboxed: bool,
}

#[derive(Subcommand)]
pub(crate) enum ToolsCommand {
    /// All tools that policy leaves
    #[command(after_help = "\
Examples:
  pincer tools list
  pincer tools list --agent writer --json")]
    List,
    /// The tools that fit a few words best
    #[command(after_help = "\
Examples:
  pincer tools search 'find text in files'
  pincer tools search calendar --limit 5")]
    Search {
        /// What the tool should do
        query: String,
        /// How many at most, up to 50
        #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=50))]
        limit: u32,
    },
    /// One tool with its schemas
    #[command(after_help = "\
Examples:
  pincer tools describe read
  pincer tools describe read --json")]
    Describe {
        /// Its id or name
        tool: String,
    },
    /// Why a tool is there or not: what each layer of policy says
    #[command(after_help = "\
Example:
  pincer tools explain openclaw:core:exec --agent writer")]
    Explain {
        /// Its id or name
        tool: String,
    },
    /// All tools as TypeScript
    #[command(after_help = "\
Example:
  pincer tools declarations > tools.d.ts")]
    Declarations,
    /// Call one tool, as a program would
    #[command(after_help = "\
Examples:
  pincer tools call read '{\"path\": \"README.md\"}'
  pincer tools call exec '{\"command\": \"cargo build\"}' --json
  echo '{\"pattern\": \"TODO\"}' | pincer tools call grep -

A question is asked here if this is a terminal; otherwise it is stored, and the exit code is 3: answer it with
`pincer approvals`, and call again.
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 waits for an answer, 130 interrupted.")]
    Call {
        /// Its id or name
        tool: String,
        /// The input as JSON, or - for standard input
        #[arg(default_value = "{}", value_name = "JSON")]
        input: String,
        /// The session it belongs to
        #[arg(long, value_name = "KEY", default_value = "main")]
        session: String,
    },
}

impl ToolsCommand {
    /// The one tool that all is about.
    pub(crate) fn tool(&self) -> Option<&str> {
        match self {
            Self::Describe { tool } | Self::Explain { tool } | Self::Call { tool, .. } => Some(tool),
            Self::List | Self::Search { .. } | Self::Declarations => None,
        }
    }
}
