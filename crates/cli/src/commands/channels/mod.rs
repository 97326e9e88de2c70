//! `pincer channels`: which there are, run them, and look at what they are to send.

mod deliveries;
mod start;

use pincer_channels::{Declared, known_channels};
use pincer_plugins::{PluginProcess, PluginSettings};
use pincer_runtime::found_plugins;
use pincer_store::Deliveries;
use serde_json::{Value, json};

use crate::print::{chain, count, line, note};
use crate::usage::LocationArguments;
use crate::usage_channels::{ChannelsArguments, ChannelsCommand};
use crate::{DONE, FAILED, WRONG_USAGE, notices, settings, state};

pub(crate) fn run(locations: &LocationArguments, arguments: &ChannelsArguments) -> u8 {
    match &arguments.command {
        ChannelsCommand::List => list(locations, arguments.json).unwrap_or_else(|code| code),
        ChannelsCommand::Start { names } => start::run(locations, names, arguments.json),
        ChannelsCommand::Send(send) => deliveries::send(locations, send, arguments.json),
        ChannelsCommand::Deliveries { channel, state, limit } => {
            deliveries::list(locations, channel.clone(), state.map(Into::into), *limit, arguments.json)
        }
        ChannelsCommand::Cancel { id } => deliveries::cancel(locations, id, arguments.json),
    }
}

/// Lists the channels. Nothing is started for that.
fn list(locations: &LocationArguments, as_json: bool) -> Result<u8, u8> {
    let loaded = settings::ready(locations)?;
    let directory = state::directory(locations);
    let found = found_plugins(&loaded, directory.as_deref(), &notices::observer()).map_err(|error| {
        note(&format!("error: {}", chain(&error)));
        WRONG_USAGE
    })?;
    let config = &loaded.parsed.config;
    let is_used = |id: &str| config.plugins.entries.get(id).is_none_or(|entry| entry.enabled);
    let used = found.iter().filter(|found| is_used(&found.manifest.id));
    let plugins: Vec<_> = used.map(|found| PluginProcess::new(found, PluginSettings::default())).collect();
    let store = state::open(locations).map_err(|error| {
        note(&format!("error: {}", chain(&error)));
        FAILED
    })?;
    let mut documents = vec![json!({ "name": "cli", "builtIn": true, "enabled": true })];
    let mut rows = vec!["cli  (built in)  the command line: pincer agent".to_owned()];
    for (name, declared) in known_channels(config, &plugins) {
        let settings = &config.channels[name];
        let waiting = store.first_deliveries(name).wait().map_or(0, |first| first.len());
        let mut document = json!({
            "name": name,
            "builtIn": false,
            "enabled": settings.enabled,
            "agent": settings.agent.as_deref().unwrap_or("main"),
            "allowFrom": settings.allow_from,
            "allowTo": settings.allow_to,
            "placesWaiting": waiting,
        });
        let mut row = match &declared {
            Ok(Declared { process, channel: kind }) => {
                document["plugin"] = process.id().into();
                document["kind"] = kind.name.as_str().into();
                document["description"] = json!(kind.description);
                document["capabilities"] = json!(kind.capabilities);
                let description = kind.description.as_deref().unwrap_or_default();
                format!("{name}  ({} of the plugin {})  {description}", kind.name, process.id())
            }
            Err(error) => {
                document["problem"] = chain(error).into();
                format!("{name}  cannot be run: {}", chain(error))
            }
        };
        if !settings.enabled {
            row.push_str("  (turned off)");
        } else if settings.allow_from.is_empty() {
            row.push_str("  (takes no messages: allowFrom is empty)");
        }
        if waiting > 0 {
            row.push_str(&format!("  texts wait for {}", count(waiting, "place")));
        }
        documents.push(document);
        rows.push(row);
    }
    match as_json {
        true => line(&Value::from(documents).to_string()),
        false => rows.iter().for_each(|row| line(row)),
    }
    Ok(DONE)
}
