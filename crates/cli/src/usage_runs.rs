//! The arguments of `pincer runs`.

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
    List {
        /// The most that are listed
        #[arg(long, value_name = "N", default_value_t = RunsCommand::PAGE, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// Only those that began before this one: the first of the page after
        #[arg(long, value_name = "ID")]
        before: Option<String>,
    },
    /// One run with its calls and its last result
    Show {
        /// The run
        id: String,
    },
    /// End a run: the program, its calls, its snapshot
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
