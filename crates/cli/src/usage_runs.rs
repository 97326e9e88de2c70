//! The arguments of `pincer runs`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Args)]
pub(crate) struct RunsArguments {
    #[command(subcommand)]
    pub command: Option<RunsCommand>,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
    /// Only those of this session
    #[arg(long, global = true, value_name = "KEY")]
    pub session: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum RunsCommand {
    /// The latest runs, those that have ended too, for a day
    #[command(after_help = "\
Examples:
  pincer runs list
  pincer runs list --limit 200 --json")]
    List {
        /// The most that are listed
        #[arg(long, value_name = "N", default_value_t = RunsCommand::PAGE, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// Only those that began before this one: the first of the page after
        #[arg(long, value_name = "ID")]
        before: Option<String>,
    },
    /// One run with its calls and its last result
    #[command(after_help = "\
Examples:
  pincer runs show cm_0199a1b2
  pincer runs show cm_0199a1b2 --json")]
    Show {
        /// The run
        id: String,
    },
    /// Run a program again, against what was recorded, and show each step
    #[command(after_help = "\
Examples:
  pincer runs replay cm_0199a1b2                      the steps, and where it takes another way
  pincer runs replay cm_0199a1b2 --code changed.js    another text against the same results
  pincer runs replay ./bundle --run cm_0199a1b2       a program of a trajectory bundle
  pincer runs replay ./bundle --json                  all of them, as one document

Nothing is called, changed or stored. Exit codes: 0 the same way, 1 another way or a damaged recording.")]
    Replay(ReplayArguments),
    /// End a run: the program, its calls, its snapshot
    #[command(after_help = "\
Example:
  pincer runs abort cm_0199a1b2")]
    Abort {
        /// The run
        id: String,
    },
}

impl RunsCommand {
    /// The runs on one page.
    const PAGE: u32 = 50;
    /// Without a command.
    pub(crate) const LATEST: Self = Self::List { limit: Self::PAGE, before: None };
}

#[derive(Args)]
pub(crate) struct ReplayArguments {
    /// The run, or the directory of a trajectory bundle
    #[arg(value_name = "RUN|DIR")]
    pub what: String,
    /// Of a bundle, only this program
    #[arg(long, value_name = "ID")]
    pub run: Option<String>,
    /// Run this text in place of the recorded one
    #[arg(long, value_name = "FILE")]
    pub code: Option<PathBuf>,
    /// Stop after so many steps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub until: Option<u32>,
    /// Show one step only, with all that belongs to it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub step: Option<u32>,
}
