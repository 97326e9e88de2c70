//! What `pincer sessions` understands.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Args)]
pub(crate) struct SessionsArguments {
    #[command(subcommand)]
    pub command: SessionsCommand,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
}

/// One session.
#[derive(Args)]
pub(crate) struct SessionName {
    /// The key of the session, or the beginning of its id
    #[arg(value_name = "KEY")]
    pub key: String,
    /// KEY is an id, or its beginning: for a session that a reset left behind
    #[arg(long)]
    pub id: bool,
}

#[derive(Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions: key, name, state, entries, tokens, last change
    #[command(after_help = "\
Examples:
  pincer sessions list
  pincer sessions list --all
  pincer sessions list --limit 200 --json

The state is idle, working, waiting (for a person, or for the sender of the message) or queued N. With --all those that a reset
left behind are listed too, as ended, with their ids.")]
    List {
        /// Those that a reset left behind, too
        #[arg(long)]
        all: bool,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
    },
    /// Show a session: messages, replies, programs and their calls, questions, stops
    #[command(after_help = "\
Examples:
  pincer sessions show main
  pincer sessions show main --full | less
  pincer sessions show main --all-branches
  pincer sessions show 0199a1b2 --id --json

Below a program are the calls that it made, each with the line that made it. #ID is the id of an entry, for `fork --at`.")]
    Show {
        #[command(flatten)]
        session: SessionName,
        /// Entries that are not on the branch in use, too, each marked
        #[arg(long)]
        all_branches: bool,
        /// Shorten nothing
        #[arg(long)]
        full: bool,
    },
    /// Find entries that contain all these words, the latest first
    #[command(after_help = "\
Examples:
  pincer sessions search invoice
  pincer sessions search invoice march --limit 5
  pincer sessions search 'the exact words' --json

Upper and lower case are the same. Sessions that a reset left behind are searched too.")]
    Search {
        /// What the entries contain
        #[arg(required = true, value_name = "WORDS", value_parser = clap::builder::NonEmptyStringValueParser::new())]
        words: Vec<String>,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    /// Give a session a name, or remove it
    #[command(after_help = "\
Examples:
  pincer sessions rename main 'Trip to Rome'
  pincer sessions rename main ''")]
    Rename {
        #[command(flatten)]
        session: SessionName,
        /// The name; an empty one removes it
        name: String,
    },
    /// Begin another session with a copy of this one, up to an entry
    #[command(after_help = "\
Examples:
  pincer sessions fork main other
  pincer sessions fork main other --at 0199a1b2c3

`show` has the ids of entries, as #ID. The session that is copied stays as it is.")]
    Fork {
        #[command(flatten)]
        session: SessionName,
        /// The key of the new session
        new_key: String,
        /// The last entry of the copy: its id, or the beginning of it; otherwise the last one there is
        #[arg(long, value_name = "ENTRY")]
        at: Option<String>,
    },
    /// Replace the older part of a conversation by a summary, so that the model is sent less
    #[command(after_help = "\
Examples:
  pincer sessions compact main
  pincer sessions compact main --instructions 'keep all file names'

The model of the session writes the summary. Nothing is deleted: `show` shows all, and `fork --at` forks it anywhere. Runs that were
accepted before come first. A session that waits for an answer is not compacted.")]
    Compact {
        /// The key of the session
        key: String,
        /// Wishes for the summary, such as points to keep
        #[arg(long, value_name = "TEXT")]
        instructions: Option<String>,
    },
    /// Begin anew under the same key; the session before stays readable by its id
    #[command(after_help = "\
Examples:
  pincer sessions reset main

The run that is going on or waiting is stopped first, and messages that have not begun are taken back.")]
    Reset {
        /// The key of the session
        key: String,
    },
    /// Stop what goes on in a session, and take back the messages that wait
    #[command(after_help = "\
Examples:
  pincer sessions abort main

The run is stopped wherever it is worked on, and also if it waits for a person or its process is gone. The command ends when the run
has ended.")]
    Abort {
        /// The key of the session
        key: String,
    },
    /// Forget a session with all its entries
    #[command(after_help = "\
Examples:
  pincer sessions delete main
  pincer sessions delete main --yes
  pincer sessions delete 0199a1b2 --id --yes

A session in which a run is going on, waiting or queued is not deleted: abort it first. Sessions that a reset left behind have ids of
their own, and stay.")]
    Delete {
        #[command(flatten)]
        session: SessionName,
        /// Do not ask
        #[arg(long, short = 'y')]
        yes: bool,
    },
    /// Write a session as JSON Lines
    #[command(after_help = "\
Examples:
  pincer sessions export main main.jsonl
  pincer sessions export main | gzip > main.jsonl.gz

The format is version 3 of the usual one: a header, then an entry per line. A file that is there already is replaced once the new one
is complete. Only you can read it.")]
    Export {
        #[command(flatten)]
        session: SessionName,
        /// The file, or - for standard output
        #[arg(default_value = "-")]
        file: PathBuf,
    },
    /// Write what happened in a session as a folder that can be given away: without secrets, with programs and their calls
    #[command(after_help = "\
Examples:
  pincer sessions export-trajectory main
  pincer sessions export-trajectory main --output ./for-the-report
  pincer sessions export-trajectory 0199a1b2 --id --json

Without --output the folder is made in the workspace, below .openclaw/trajectory-exports. Secrets, places of this machine and binary
data are taken out; look through it all the same before you give it to others. `pincer trajectory view DIR` shows it.")]
    ExportTrajectory {
        #[command(flatten)]
        session: SessionName,
        /// The folder of the bundle: it must not be there yet, or be empty
        #[arg(long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
    /// Make a session from JSON Lines
    #[command(after_help = "\
Examples:
  pincer sessions import main.jsonl
  pincer sessions import main.jsonl trip
  gunzip < main.jsonl.gz | pincer sessions import - trip

Versions 1 to 3 are read. If the file is damaged, nothing is stored.")]
    Import {
        /// The file, or - for standard input
        file: PathBuf,
        /// The key of the new session; otherwise imported-ID, with the id in the file
        key: Option<String>,
    },
}
