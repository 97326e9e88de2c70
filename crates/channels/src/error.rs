//! Errors of channels.

use std::io;
use std::path::PathBuf;

use pincer_agent::AgentError;
use pincer_store::StoreError;

/// An error of channels.
#[derive(Debug, thiserror::Error)]
pub enum ChannelsError {
    /// There is no such channel in the config.
    #[error("there is no channel {name} in the config{}", near.as_ref().map(|near| format!(": did you mean {near}?")).unwrap_or_default())]
    NoChannel {
        /// The name.
        name: String,
        /// One that is there.
        near: Option<String>,
    },
    /// The config has no channel that could be run.
    #[error("no channel is turned on: name one under `channels` in the config")]
    Nothing,
    /// The channel is turned off.
    #[error("the channel {name} is turned off: set `channels.{name}.enabled` to true")]
    TurnedOff {
        /// The name.
        name: String,
    },
    /// The plugin of a channel is not there.
    #[error("channels.{channel}: {}", no_plugin(plugin.as_deref(), channel))]
    NoPlugin {
        /// The channel.
        channel: String,
        /// The plugin that the config names, if it names one.
        plugin: Option<String>,
    },
    /// The plugin does not say which of its channels is meant.
    #[error("channels.{channel}: the plugin {plugin} has no channel of this name, and not exactly one: it has {known}")]
    Ambiguous {
        /// The channel.
        channel: String,
        /// The plugin.
        plugin: String,
        /// Its channels.
        known: String,
    },
    /// Another process runs the channel.
    #[error("another process runs the channel {name}: end that one first")]
    RunElsewhere {
        /// The channel.
        name: String,
    },
    /// The directory of a channel cannot be used.
    #[error("{} cannot be used", path.display())]
    Directory {
        /// The directory, or the lock in it.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A channel refuses to start for good.
    #[error("the channel {name} cannot be started: {reason}")]
    Refused {
        /// The channel.
        name: String,
        /// The message of the plugin.
        reason: String,
    },
    /// The plugin of a channel was updated or removed, and its process has fallen since.
    #[error(
        "the channel {name} cannot go on: the plugin {plugin} was updated or removed while it ran. Start the channels again to use what \
         is there now"
    )]
    Replaced {
        /// The channel.
        name: String,
        /// The plugin.
        plugin: String,
    },
    /// The agent cannot be asked.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn no_plugin(plugin: Option<&str>, channel: &str) -> String {
    match plugin {
        Some(plugin) => format!("there is no plugin {plugin} that is turned on: `pincer plugins list` shows them"),
        None => format!(
            "no plugin has a channel called {channel}: name its plugin in `channels.{channel}.plugin`, and the plugin's folder in \
             `plugins.paths`"
        ),
    }
}
