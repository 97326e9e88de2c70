//! The arguments for plugins and skills, which are installed alike.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Args)]
pub(crate) struct PluginsArguments {
    #[command(subcommand)]
    pub command: PluginsCommand,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Subcommand)]
pub(crate) enum PluginsCommand {
    /// All plugins, those that are turned off too
    #[command(after_help = "\
Examples:
  pincer plugins list
  pincer plugins list --json")]
    List,
    /// Tell everything that is wrong with the plugin in a folder
    #[command(after_help = "\
Examples:
  pincer plugins check ./my-plugin
  pincer plugins check ./my-plugin --json")]
    Check {
        /// The folder
        dir: PathBuf,
    },
    /// Show one plugin and everything that it brings
    #[command(after_help = "\
Examples:
  pincer plugins show notes
  pincer plugins show notes --json")]
    Show {
        /// Its id
        id: String,
    },
    /// Install the plugin in a folder or an archive
    #[command(after_help = "\
Examples:
  pincer plugins install notes.tar.gz
  pincer plugins install ./my-plugin --dry-run
  pincer plugins install ./my-plugin --yes --json")]
    Install(InstallArguments),
    /// Replace an installed plugin by a newer one
    #[command(after_help = "\
Examples:
  pincer plugins update notes
  pincer plugins update notes notes-2.zip --yes")]
    Update(UpdateArguments),
    /// Remove an installed plugin
    #[command(after_help = "\
Examples:
  pincer plugins remove notes
  pincer plugins remove notes --dry-run")]
    Remove(RemoveArguments),
}

/// Something new.
#[derive(Args)]
pub(crate) struct InstallArguments {
    /// The folder, or a .tar, .tar.gz or .zip
    #[arg(value_name = "DIR|ARCHIVE")]
    pub source: PathBuf,
    #[command(flatten)]
    pub agreement: AgreementArguments,
}

/// Something that is there.
#[derive(Args)]
pub(crate) struct UpdateArguments {
    /// Its id or name
    pub id: String,
    /// The folder or archive; otherwise the one that it came from
    #[arg(value_name = "DIR|ARCHIVE")]
    pub source: Option<PathBuf>,
    #[command(flatten)]
    pub agreement: AgreementArguments,
}

/// Consent in advance, or a look without changes.
#[derive(Args, Clone, Copy)]
pub(crate) struct AgreementArguments {
    /// Ask nothing; critical findings are refused all the same
    #[arg(long)]
    pub yes: bool,
    /// With --yes: ask nothing about critical findings either
    #[arg(long, requires = "yes")]
    pub accept_findings: bool,
    /// Show everything and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Something that is to go.
#[derive(Args)]
pub(crate) struct RemoveArguments {
    /// Its id or name
    pub id: String,
    /// Ask nothing
    #[arg(long)]
    pub yes: bool,
    /// Show the folder that would be removed and its uses, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}
