//! `pincer savings` as it is asked for on the command line.

use clap::{Args, ValueEnum};

pub(crate) const EXAMPLES: &str = "\
Examples:
  pincer savings
  pincer savings --since 7d
  pincer savings --session main --since 2026-11-01
  pincer savings --by day --json

Tools and instructions are in every request of a run. SENT is what they took in all requests that were answered, DIRECT what the same
requests would have taken with every tool in them, SAVED the difference: below zero if direct exposure would have been cheaper. All
three are tokens, estimated at four letters each. A run counts when it ends, or waits. docs/telemetry.md has each figure.
What the prompt of an MCP client carries with and without Pincer is another question: `pincer mcp savings`.
Exit codes: 0 done, 1 failed, 2 wrong usage: no such session, a time that cannot be read.";

#[derive(Args)]
pub(crate) struct SavingsArguments {
    /// Only the runs of this session, those before a reset too
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
    /// Only runs that ended since: 7d, 12h, 2026-11-01, 2026-11-01T08:00
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// A line for each
    #[arg(long, value_name = "WHAT", default_value = "session")]
    pub by: By,
    /// The most lines; the total is of all
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The subject of a line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// The runs under one key
    Session,
    /// The runs that ended on one day, in local time
    Day,
}
