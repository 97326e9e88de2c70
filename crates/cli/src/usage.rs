//! What the command line understands. Every command has an example.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// A code-mode runtime: JavaScript programs in a sandbox, suspended to a few kilobytes and continued anywhere.
#[derive(Parser)]
#[command(name = "pincer", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run one JavaScript program as a cell and print what it returns
    #[command(after_help = "\
Examples:
  pincer exec -e 'return [1, 2, 3].map((n) => n * n)'
  pincer exec program.js --json
  echo 'return 6 * 7' | pincer exec -

The program is the body of an async function: use `await` and `return` at its top level.
Exit codes: 0 completed, 1 failed, 2 wrong usage.")]
    Exec(ExecArguments),
    /// Show what Pincer does: a few cells, one of them suspended and continued
    #[command(after_help = "Example:\n  pincer demo")]
    Demo,
    /// Answer what waits for a person: list questions, allow or deny them; list and revoke grants
    #[command(after_help = "\
Examples:
  pincer approvals list
  pincer approvals allow ap_0199 --next 20
  pincer approvals deny ap_0199
  pincer approvals grants
  pincer approvals revoke gr_0199

An id may be shortened as long as only one question or grant begins so.")]
    Approvals(ApprovalsArguments),
    /// Measure
    Bench {
        #[command(subcommand)]
        command: BenchCommand,
    },
}

#[derive(Args)]
pub(crate) struct ExecArguments {
    /// The program itself
    #[arg(short = 'e', long = "eval", value_name = "CODE", conflicts_with = "file")]
    pub code: Option<String>,
    /// A file with the program, or - for standard input
    #[arg(required_unless_present = "code")]
    pub file: Option<PathBuf>,
    /// Print exactly one CodeModeResult as JSON
    #[arg(long)]
    pub json: bool,
    /// How long it may take, 100 to 60000
    #[arg(long, value_name = "N", default_value_t = pincer_codemode::TIMEOUT_MS_DEFAULT)]
    pub timeout_ms: u64,
}

#[derive(Args)]
pub(crate) struct ApprovalsArguments {
    #[command(subcommand)]
    pub command: ApprovalsCommand,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
    /// Where state is kept
    #[arg(long, global = true, value_name = "DIR", env = "PINCER_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// The questions that wait for an answer
    List,
    /// Allow a call
    Allow {
        /// The question
        id: String,
        /// And every later call of this tool
        #[arg(long, conflicts_with = "next")]
        always: bool,
        /// And the next calls of this tool in this run, N in all
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        next: Option<u32>,
    },
    /// Deny a call
    Deny {
        /// The question
        id: String,
    },
    /// What has been allowed for later calls too
    Grants,
    /// Take a grant back
    Revoke {
        /// The grant
        id: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// Fresh cells, suspending, continuing: time and size
    #[command(after_help = "Examples:\n  pincer bench cells\n  pincer bench cells --json --rounds 200")]
    Cells(BenchArguments),
    /// How well catalog search finds what is asked for
    #[command(after_help = "\
Example:
  pincer bench search --data DIR --json

DIR has pairs of files. NAME.tools.jsonl: {id, server, name, description, schema} on each line. NAME.queries.jsonl:
{query, relevant: [[id, …], …]}, where each inner list is one needed tool with its alternatives.")]
    Search(SearchArguments),
}

#[derive(Args)]
pub(crate) struct SearchArguments {
    /// The folder with the data
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Print one line of JSON per set and mode
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct BenchArguments {
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
    /// How often each program runs
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rounds: u32,
}
