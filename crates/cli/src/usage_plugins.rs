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
    List,
    /// Tell everything that is wrong with the plugin in a folder
    Check {
        /// The folder
        dir: PathBuf,
    },
    /// Show one plugin and everything that it brings
    Show {
        /// Its id
        id: String,
    },
    /// Install the plugin in a folder or an archive
    Install(InstallArguments),
    /// Replace an installed plugin by a newer one
    Update(UpdateArguments),
    /// Remove an installed plugin
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
