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
    List,
    /// Tell what is wrong: missing programs and variables, damaged files, names that are there twice
    Check,
    /// Print the text of a skill
    Show {
        /// Its name
        name: String,
    },
    /// Install the skill in a folder or an archive
    Install(InstallArguments),
    /// Replace an installed skill by a newer one
    Update(UpdateArguments),
    /// Remove an installed skill
    Remove(RemoveArguments),
}
