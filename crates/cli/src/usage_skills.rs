//! The arguments of `pincer skills`.

use clap::{Args, Subcommand};

use crate::usage_plugins::{InstallArguments, RemoveArguments, UpdateArguments};

#[derive(Args)]
pub(crate) struct SkillsArguments {
    #[command(subcommand)]
    pub command: SkillsCommand,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
    /// As this agent has them
    #[arg(long, global = true, value_name = "ID")]
    pub agent: Option<String>,
    /// As they are in this session
    #[arg(long, global = true, value_name = "KEY", default_value = "main")]
    pub session: String,
}

#[derive(Subcommand)]
pub(crate) enum SkillsCommand {
    /// The skills that models are told of
    #[command(after_help = "\
Examples:
  pincer skills list
  pincer skills list --agent writer --json")]
    List,
    /// Tell what is wrong: missing programs and variables, damaged files, names that are there twice
    #[command(after_help = "\
Examples:
  pincer skills check
  pincer skills check --session work")]
    Check,
    /// Print the text of a skill
    #[command(after_help = "\
Examples:
  pincer skills show pdf
  pincer skills show pdf --json")]
    Show {
        /// Its name
        name: String,
    },
    /// Install the skill in a folder or an archive
    #[command(after_help = "\
Examples:
  pincer skills install ./my-skill
  pincer skills install pdf.zip --dry-run
  pincer skills install pdf.zip --yes --json")]
    Install(InstallArguments),
    /// Replace an installed skill by a newer one
    #[command(after_help = "\
Examples:
  pincer skills update pdf
  pincer skills update pdf pdf-2.zip --yes")]
    Update(UpdateArguments),
    /// Remove an installed skill
    #[command(after_help = "\
Examples:
  pincer skills remove pdf
  pincer skills remove pdf --dry-run")]
    Remove(RemoveArguments),
}
