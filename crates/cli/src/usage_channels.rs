//! The arguments of `pincer channels`.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use pincer_store::DeliveryState;

#[derive(Args)]
pub(crate) struct ChannelsArguments {
    #[command(subcommand)]
    pub command: ChannelsCommand,
    /// Print one JSON document; `start` prints one line of JSON for each thing that happens
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Subcommand)]
pub(crate) enum ChannelsCommand {
    /// The channels of the config, whose plugin brings each, and how many texts wait for it
    #[command(after_help = "\
Examples:
  pincer channels list
  pincer channels list --json

Nothing is started. A channel that cannot be run has the reason beside its name.")]
    List,
    /// Run channels until this is ended: take messages, have them answered, and send what waits
    #[command(after_help = "\
Examples:
  pincer channels start                           all that are turned on
  pincer channels start irc                       only this one
  pincer channels start --json                    one line of JSON for each thing that happens

Exit codes: 0 ended by a signal, 1 a channel cannot work, or another process runs it, 2 wrong usage or config: no such channel,
one that is turned off, or one whose plugin is missing.")]
    Start {
        /// Those of these names; otherwise all that are turned on
        names: Vec<String>,
    },
    /// Send a text
    #[command(after_help = "\
Examples:
  pincer channels send irc --to '#lounge' -m 'The build is done.'
  make 2>&1 | tail -n 5 | pincer channels send irc --to ann -m -
  pincer channels send irc --to ann -m 'Release 4 is out.' --id release-4

Exit codes: 0 sent, 1 failed, 2 wrong usage or config, 3 it still waits.")]
    Send(SendArguments),
    /// The texts that were to be sent, the latest first
    #[command(after_help = "\
Examples:
  pincer channels deliveries
  pincer channels deliveries --channel irc --state failed
  pincer channels deliveries --limit 500 --json")]
    Deliveries {
        /// Only those of this channel
        #[arg(long, value_name = "NAME")]
        channel: Option<String>,
        /// Only those that stand so
        #[arg(long, value_name = "STATE")]
        state: Option<StateArgument>,
        /// The most that are listed
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Do not send a text any more
    #[command(after_help = "\
Examples:
  pincer channels cancel dl_0199a1b2c3

The beginning of an id is enough if no other begins so.")]
    Cancel {
        /// The delivery
        id: String,
    },
}

#[derive(Args)]
pub(crate) struct SendArguments {
    /// The channel
    pub name: String,
    /// The person or group, as the channel names it
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub to: String,
    /// The thread in there
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub thread: Option<String>,
    /// The text; - reads it from standard input
    #[arg(short = 'm', long, value_name = "TEXT", allow_hyphen_values = true)]
    pub message: String,
    /// A word of your own for this text: sent again, it is the same one
    #[arg(long = "id", value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    pub key: Option<String>,
    /// The longest to wait until it is sent
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub timeout: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum StateArgument {
    /// They wait, or are being sent
    Pending,
    /// The channel has taken them
    Sent,
    /// They never arrive
    Failed,
    /// They are not to be sent
    Cancelled,
}

impl From<StateArgument> for DeliveryState {
    fn from(state: StateArgument) -> Self {
        match state {
            StateArgument::Pending => Self::Pending,
            StateArgument::Sent => Self::Sent,
            StateArgument::Failed => Self::Failed,
            StateArgument::Cancelled => Self::Cancelled,
        }
    }
}
