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
    /// The channels of the config, the plugin of each, and the number of texts that wait for it
    List,
    /// Run channels until this is ended: take messages, have them answered, and send what waits
    Start {
        /// Those of these names; otherwise all that are turned on
        names: Vec<String>,
    },
    /// Send a text
    Send(SendArguments),
    /// The texts that were to be sent, the latest first
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
