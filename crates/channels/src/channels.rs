//! All channels that a process runs.

use std::sync::Arc;
use std::time::Duration;

use pincer_agent::Agent;
use pincer_catalog::nearest;
use pincer_config::Config;
use pincer_plugins::{ManifestChannel, PluginProcess};
use pincer_store::{Clock, Deliveries, DeliveryChange, Leases, Millis};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::hold::Hold;
use crate::hooks::TextHooks;
use crate::inbox::Shared;
use crate::outbox::Outbox;
use crate::typing::Typing;
use crate::{Channel, ChannelsError, Inbox, Notice, Observer, PluginChannel};

/// The time for which texts are kept that were sent or never will be.
const KEPT: Millis = 7 * 24 * 3_600_000;
/// The interval at which old texts are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(3600);
/// How often texts are looked for that no process sends.
const EXPIRE_EVERY: Duration = Duration::from_secs(60);

/// The channels that a process runs. While it does, their messages are answered here, also those that the process before has left.
pub struct Channels {
    shared: Arc<Shared>,
    channels: Vec<Arc<dyn Channel>>,
    /// Gone when this is dropped: other processes may run the channels then.
    _holds: Vec<Hold>,
}

/// Returns the channels of a config, by name, each with what its plugin declares. A channel that no plugin brings has its reason.
pub fn known_channels<'c>(
    config: &'c Config,
    plugins: &'c [Arc<PluginProcess>],
) -> Vec<(&'c str, Result<Declared<'c>, ChannelsError>)> {
    config.channels.keys().map(|name| (name.as_str(), declared(config, plugins, name))).collect()
}

/// The plugin that brings a channel.
pub struct Declared<'p> {
    /// Its process.
    pub process: &'p Arc<PluginProcess>,
    /// The channel as the plugin declares it.
    pub channel: &'p ManifestChannel,
}

/// Returns the plugin of a channel, and what that declares.
fn declared<'p>(config: &Config, plugins: &'p [Arc<PluginProcess>], name: &str) -> Result<Declared<'p>, ChannelsError> {
    let plugin = config.channels.get(name).and_then(|channel| channel.plugin.clone());
    let named = |process: &&Arc<PluginProcess>| match &plugin {
        Some(plugin) => process.id() == plugin,
        None => process.channels().iter().any(|channel| channel.name == name),
    };
    let Some(process) = plugins.iter().find(named) else {
        return Err(ChannelsError::NoPlugin { channel: name.to_owned(), plugin });
    };
    let channels = process.channels();
    let declared = channels.iter().find(|channel| channel.name == name).or(match channels {
        [only] => Some(only),
        _ => None,
    });
    declared.map(|channel| Declared { process, channel }).ok_or_else(|| {
        let names: Vec<&str> = channels.iter().map(|channel| channel.name.as_str()).collect();
        let known = if names.is_empty() { "none".into() } else { names.join(", ") };
        ChannelsError::Ambiguous { channel: name.to_owned(), plugin: process.id().to_owned(), known }
    })
}

impl Channels {
    /// Returns the channels of the config, or only those of these names. Their messages belong to `user`. Nothing is started.
    pub fn of_config(agent: Agent, user: &str, only: &[String], observer: Observer) -> Result<Self, ChannelsError> {
        let runtime = Arc::clone(agent.runtime());
        let config = runtime.config();
        for name in only {
            match config.channels.get(name) {
                Some(channel) if channel.enabled => {}
                Some(_) => return Err(ChannelsError::TurnedOff { name: name.clone() }),
                None => {
                    let near = nearest(name, config.channels.keys().map(|name| (name.clone(), name.clone())), 1).pop();
                    return Err(ChannelsError::NoChannel { name: name.clone(), near });
                }
            }
        }
        let wanted = config.channels.iter().filter(|(name, channel)| match only.is_empty() {
            true => channel.enabled,
            false => only.contains(name),
        });
        let (mut channels, mut holds) = (Vec::<Arc<dyn Channel>>::new(), Vec::new());
        for (name, settings) in wanted {
            let Declared { process, channel } = declared(config, runtime.plugins(), name)?;
            let hold = Hold::take(runtime.state_directory(), name)?;
            let directory = hold.directory.clone();
            let (process, config) = (Arc::clone(process), settings.config.clone());
            channels.push(Arc::new(PluginChannel::new(name, channel.clone(), process, config, directory)));
            holds.push(hold);
        }
        if channels.is_empty() {
            return Err(ChannelsError::Nothing);
        }
        Ok(Self { _holds: holds, ..Self::new(agent, user, channels, observer) })
    }

    /// Returns these channels. Their messages belong to `user`. Nothing is started, and no other process is kept from running them.
    pub fn new(agent: Agent, user: &str, channels: Vec<Arc<dyn Channel>>, observer: Observer) -> Self {
        let shared = Shared { agent, user: user.to_owned(), observer, wake: Notify::new(), typing: Typing::default() };
        Self { shared: Arc::new(shared), channels, _holds: Vec::new() }
    }

    /// Adds a channel that a front brings.
    #[must_use]
    pub fn with(mut self, channel: Arc<dyn Channel>) -> Self {
        self.channels.push(channel);
        self
    }

    /// Returns the names of the channels.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.channels.iter().map(|channel| channel.name())
    }

    /// Runs the channels until `stop`. A channel that falls is started again; one that can never work ends all of this.
    pub async fn run(&self, stop: &CancellationToken) -> Result<(), ChannelsError> {
        let agent = &self.shared.agent;
        let runtime = agent.runtime();
        // From now on other processes see that this one is alive, and leave its texts to it.
        runtime.leases().hold().await?;
        let ours = |request: &pincer_agent::Request| {
            request.channel.as_deref().is_some_and(|channel| self.names().any(|name| name == channel))
        };
        agent.engage_open(&self.shared.user, ours).await?;
        let (ended, outbox) = (stop.child_token(), Outbox::new(Arc::clone(&self.shared), self.channels.clone()));
        let mut running = JoinSet::new();
        for channel in &self.channels {
            let settings = runtime.config().channels.get(channel.name()).cloned().unwrap_or_default();
            let inbox = Inbox::new(Arc::clone(&self.shared), Arc::clone(channel), settings);
            let (channel, ended) = (Arc::clone(channel), ended.clone());
            running.spawn(async move { channel.run(inbox, ended).await });
        }
        // Texts are sent for as long as channels may take them: they end after it.
        let sending = CancellationToken::new();
        let sender = tokio::spawn(outbox.run(sending.clone()));
        let mut forget = tokio::time::interval(FORGET_EVERY);
        let mut expire = tokio::time::interval(EXPIRE_EVERY);
        let ended_by = loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break Ok(()),
                Some(done) = running.join_next() => match done {
                    // The others have nothing to do with it.
                    Ok(Err(ChannelsError::Replaced { name, .. })) if !running.is_empty() => {
                        let why = "its plugin was updated or removed: start the channels again to use what is there now";
                        self.shared.observer.tell(Notice::Ended { channel: name, why: why.into() });
                    }
                    Ok(Err(error)) => break Err(error),
                    Ok(Ok(())) => {}
                    Err(broken) => tracing::error!("a channel broke down: this is a bug: {broken}"),
                },
                _ = forget.tick() => self.forget_old().await,
                _ = expire.tick() => self.expire().await,
            }
        };
        sending.cancel();
        let _ = sender.await;
        ended.cancel();
        while running.join_next().await.is_some() {}
        ended_by
    }

    /// Ends texts that were not sent in their time, also those for channels that no process runs.
    async fn expire(&self) {
        let store = self.shared.agent.runtime().store();
        loop {
            let ended = match store.expire_deliveries(store.now()).await {
                Ok(ended) if ended.is_empty() => return,
                Ok(ended) => ended,
                Err(error) => {
                    tracing::warn!("texts whose time is over are looked for later: {error}");
                    return;
                }
            };
            for delivery in ended {
                let (channel, id) = (delivery.route.channel.clone(), delivery.id.to_string());
                let why = delivery.error.clone().unwrap_or_default();
                self.shared.observer.tell(Notice::NotDelivered { channel, delivery: id, why: why.clone() });
                if let Some(hooks) = TextHooks::of(&self.shared, &delivery).await {
                    let end = DeliveryChange::Failed { error: why, at: store.now() };
                    hooks.tell(&delivery, &delivery.text, &end).await;
                }
            }
        }
    }

    async fn forget_old(&self) {
        let store = self.shared.agent.runtime().store();
        // A few at a time: other processes use the store too.
        while store.forget_deliveries(store.now().saturating_sub(KEPT)).await.is_ok_and(|count| count > 0) {}
    }
}
