//! What `pincer trajectory` understands.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Args)]
pub(crate) struct TrajectoryArguments {
    #[command(subcommand)]
    pub command: TrajectoryCommand,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Subcommand)]
pub(crate) enum TrajectoryCommand {
    /// Draw a bundle, say whether it is whole, and write it as one page for a browser
    #[command(after_help = "\
Examples:
  pincer trajectory view DIR
  pincer trajectory view DIR --html /tmp/report.html
  pincer trajectory view DIR --no-html --full | less -R
  pincer trajectory view DIR --json

The page is DIR/trajectory.html, and needs neither a server nor the network. The bundle may come from others: nothing of it is run,
no link in it is followed, and nothing in it can drive the terminal.
Exit codes: 0 the bundle is whole, 1 it is cut or damaged, 2 wrong usage or no bundle.")]
    View {
        /// The folder of the bundle
        dir: PathBuf,
        /// Where to write the page; otherwise trajectory.html in the folder
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
        /// Write no page
        #[arg(long, conflicts_with = "html")]
        no_html: bool,
        /// Shorten nothing
        #[arg(long)]
        full: bool,
    },
}
