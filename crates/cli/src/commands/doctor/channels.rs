//! Checks of the channels of the config, and of the texts that they are to send. Nothing of a channel is started.

use std::collections::BTreeSet;
use std::path::Path;

use pincer_channels::{ChannelsError, Declared, known_channels};
use pincer_config::{Config, Loaded};
use pincer_plugins::{Found, PluginProcess, PluginSettings};
use pincer_runtime::{Observer, found_plugins};
use pincer_store::{Clock, Deliveries, Delivery, DeliveryPage, DeliveryState, Millis, StoreError};
use pincer_store_sqlite::SqliteStore;
use pincer_tools::one_line;

use super::check::Check;
use super::words::{MOST_REASON, quoted};
use crate::commands::sessions::lasted;
use crate::print::{chain, count};

/// A text that waits for so long waits for something.
const LONG: Millis = 5 * 60_000;
/// How many texts of a state are read: the latest ones. A text may have a megabyte.
const READ: u32 = 100;

/// Checks whether each channel of the config could be started.
pub(super) fn channels(loaded: &Loaded, state: Option<&Path>) -> Vec<Check> {
    let config = &loaded.parsed.config;
    if config.channels.is_empty() {
        return vec![Check::ok("channels", "there are no channels but the command line")];
    }
    // The plugins themselves have a check of their own.
    let Ok(found) = found_plugins(loaded, state, &Observer::default()) else {
        let message = "no channel can be run, since the plugins cannot be read";
        return vec![Check::fail("channels", message, "do first what the check `plugins` says")];
    };
    let is_on = |found: &&Found| config.plugins.entries.get(&found.manifest.id).is_none_or(|entry| entry.enabled);
    let used = found.iter().filter(is_on);
    let plugins: Vec<_> = used.map(|found| PluginProcess::new(found, PluginSettings::default())).collect();
    known_channels(config, &plugins)
        .into_iter()
        .map(|(name, declared)| channel(config, &found, name, declared))
        .collect()
}

fn channel(config: &Config, found: &[Found], name: &str, declared: Result<Declared<'_>, ChannelsError>) -> Check {
    let (of, settings) = (format!("channel:{name}"), &config.channels[name]);
    let off = format!("set `channels.{name}.enabled` to false to do without it");
    let named = |found: &&Found| match &settings.plugin {
        Some(plugin) => found.manifest.id == *plugin,
        None => found.manifest.channels.iter().any(|channel| channel.name == name),
    };
    match declared {
        _ if !settings.enabled => Check::ok(of, format!("the channel {name} is turned off")),
        Ok(Declared { process, .. }) if settings.allow_from.is_empty() => Check::warn(
            of,
            format!("the channel {name} of the plugin {} takes no message: `allowFrom` is empty", process.id()),
            format!("name the senders in `channels.{name}.allowFrom`"),
        ),
        Ok(Declared { process, .. }) => {
            Check::ok(of, format!("the channel {name} of the plugin {} can be started", process.id()))
        }
        Err(ChannelsError::NoPlugin { plugin, .. }) => match (found.iter().find(named), plugin) {
            (Some(plugin), _) => {
                let id = &plugin.manifest.id;
                let message = format!("the channel {name} cannot be started: its plugin {id} is turned off");
                Check::fail(of, message, format!("set `plugins.entries.{id}.enabled` to true, or {off}"))
            }
            (None, Some(plugin)) => Check::fail(
                of,
                format!("the channel {name} cannot be started: there is no plugin {}", one_line(&plugin, MOST_REASON)),
                format!("install it with `pincer plugins install DIR`, name its folder in `plugins.paths`, or {off}"),
            ),
            (None, None) => Check::fail(
                of,
                format!("the channel {name} cannot be started: no plugin has a channel of this name"),
                format!(
                    "install its plugin with `pincer plugins install DIR`, name the plugin's folder in `plugins.paths`, or the plugin in \
                     `channels.{name}.plugin`; or {off}"
                ),
            ),
        },
        Err(ChannelsError::Ambiguous { plugin, known, .. }) => Check::fail(
            of,
            format!(
                "the channel {name} cannot be started: the plugin {plugin} has no channel of this name (it has: {known})"
            ),
            format!(
                "`pincer plugins show {plugin}` tells what it has: call the channel so, name another plugin, or {off}"
            ),
        ),
        Err(error) => Check::fail(of, format!("the channel {name} cannot be started: {}", chain(&error)), off),
    }
}

/// Checks the texts that channels are to send.
pub(super) fn outbox(config: &Config, store: &SqliteStore) -> Result<Vec<Check>, StoreError> {
    let of_state = |state| store.deliveries(DeliveryPage { channel: None, state: Some(state), limit: READ }).wait();
    let (pending, failed) = (of_state(DeliveryState::Pending)?, of_state(DeliveryState::Failed)?);
    let stored = pending.iter().chain(&failed).map(|delivery| delivery.route.channel.as_str());
    let names: BTreeSet<&str> = config.channels.keys().map(String::as_str).chain(stored).collect();
    let all = if failed.len() < READ as usize { "" } else { "at least " };
    let mut checks = Vec::new();
    for name in names {
        let failed: Vec<&Delivery> = failed.iter().filter(|delivery| delivery.route.channel == name).collect();
        checks.extend(waiting(config, store, name)?);
        checks.extend(given_up(&failed, name, all, store.now()));
    }
    if checks.is_empty() {
        checks.push(Check::ok("outbox", "no text waits for long, and none has failed"));
    }
    Ok(checks)
}

/// Checks the texts of a channel that wait: of those for one place, the first holds up all others.
fn waiting(config: &Config, store: &SqliteStore, name: &str) -> Result<Option<Check>, StoreError> {
    let now = store.now();
    let mut first = store.first_deliveries(name).wait()?;
    first.retain(|delivery| now - delivery.created_at >= LONG);
    let Some(oldest) = first.iter().min_by_key(|delivery| delivery.created_at) else { return Ok(None) };
    let since = lasted(now - oldest.created_at);
    let places = count(first.len(), "place");
    let message = format!("texts for {places} of the channel {name} wait, the oldest for {since}");
    let shown = format!("`pincer channels deliveries --channel {0} --state pending` shows them", quoted(name));
    let cancel = "`pincer channels cancel ID` takes one back";
    let name_of = format!("outbox:{name}");
    let is_on = config.channels.get(name).is_some_and(|channel| channel.enabled);
    Ok(Some(match (&oldest.error, is_on) {
        (_, false) => {
            let message = format!("{message}: no channel of this name is turned on");
            Check::warn(name_of, message, format!("set `channels.{name}` in the config; {shown}; {cancel}"))
        }
        (None, true) => {
            let message = format!("{message}: no process has tried to send that one");
            Check::warn(name_of, message, format!("run `pincer channels start {}`; {shown}", quoted(name)))
        }
        (Some(error), true) => {
            let tried = count(oldest.attempts as usize, "attempt");
            let message = format!("{message}, after {tried}: {}", one_line(error, MOST_REASON));
            let start = format!("`pincer channels start {}` tries again, unless it runs already", quoted(name));
            Check::warn(name_of, message, format!("{start}; {shown}; {cancel}"))
        }
    }))
}

fn given_up(failed: &[&Delivery], name: &str, all: &str, now: Millis) -> Option<Check> {
    let last = failed.iter().max_by_key(|delivery| delivery.ended_at)?;
    let reason = last.error.as_deref().map(|error| format!(": {}", one_line(error, MOST_REASON))).unwrap_or_default();
    let since = lasted(now - last.ended_at.unwrap_or(last.created_at));
    let texts = count(failed.len(), "text");
    let message =
        format!("{all}{texts} of the channel {name} will never arrive, the last one given up {since} ago{reason}");
    let shown = format!("`pincer channels deliveries --channel {} --state failed` shows them for a week", quoted(name));
    let remedy = format!("{shown}; `pincer channels send` sends a text anew");
    Some(Check::warn(format!("undelivered:{name}"), message, remedy))
}
