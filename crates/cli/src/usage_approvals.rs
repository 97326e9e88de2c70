//! The arguments of `pincer approvals`.

use clap::{Args, Subcommand};

#[derive(Args)]
pub(crate) struct ApprovalsArguments {
    #[command(subcommand)]
    pub command: ApprovalsCommand,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// The questions that wait for an answer
    #[command(after_help = "\
Examples:
  pincer approvals list
  pincer approvals list --json")]
    List,
    /// Allow a call
    #[command(after_help = "\
Examples:
  pincer approvals allow ap_0199
  pincer approvals allow ap_0199 --next 20
  pincer approvals allow ap_0199 --always")]
    Allow {
        /// The question
        id: String,
        /// And every later call of this tool; of `exec`, every command like this one
        #[arg(long, conflicts_with = "next")]
        always: bool,
        /// And the next such calls in this run, N in all
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        next: Option<u32>,
    },
    /// Deny a call
    #[command(after_help = "\
Example:
  pincer approvals deny ap_0199")]
    Deny {
        /// The question
        id: String,
    },
    /// What has been allowed for later calls too
    #[command(after_help = "\
Examples:
  pincer approvals grants
  pincer approvals grants --json")]
    Grants,
    /// Take a grant back
    #[command(after_help = "\
Example:
  pincer approvals revoke gr_0199")]
    Revoke {
        /// The grant
        id: String,
    },
}
