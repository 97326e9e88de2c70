//! The config for a command.

use std::env;

use pincer_config::{ConfigError, Loaded, Places, find, load_with};
use pincer_runtime::{Promised, Vault, place};

use crate::WRONG_USAGE;
use crate::print::{chain, note};
use crate::state;
use crate::usage::PlaceArguments;

/// Where the config may be.
pub(crate) fn places_of(arguments: &PlaceArguments) -> Places {
    Places {
        named: arguments.config.clone(),
        here: env::current_dir().unwrap_or_default(),
        home: place("XDG_CONFIG_HOME", ".config"),
    }
}

/// Finds and reads the config.
pub(crate) fn read(arguments: &PlaceArguments) -> Result<Loaded, ConfigError> {
    let places = places_of(arguments);
    load_with(&places, &vault(arguments, &places))
}

/// The same for commands that only look at it: no secret is looked up, so nothing that the config names is started.
pub(crate) fn read_only(arguments: &PlaceArguments) -> Result<Loaded, ConfigError> {
    let places = places_of(arguments);
    load_with(&places, &Promised(vault(arguments, &places)))
}

fn vault(arguments: &PlaceArguments, places: &Places) -> Vault {
    Vault::new(state::directory(arguments), find(places).as_deref())
}

/// Warns, or ends the command with this exit code.
pub(crate) fn told(read: Result<Loaded, ConfigError>) -> Result<Loaded, u8> {
    match read {
        Ok(loaded) => {
            warn(&loaded);
            Ok(loaded)
        }
        Err(error) => {
            note(&format!("error: {}", chain(&error)));
            Err(WRONG_USAGE)
        }
    }
}

/// Finds and reads the config: warnings are told, and what is wrong ends the command with this exit code.
pub(crate) fn ready(arguments: &PlaceArguments) -> Result<Loaded, u8> {
    told(read(arguments))
}

/// Tells what is to be said of a config that can be used.
pub(crate) fn warn(loaded: &Loaded) {
    loaded.notes.iter().for_each(|text| note(&format!("warning: {text}")));
    loaded.parsed.warnings.iter().for_each(|warning| note(&format!("warning: {warning}")));
    for (name, server) in loaded.parsed.config.mcp.servers.iter().filter(|(_, server)| server.enabled) {
        if let Some(why) = server.unusable() {
            note(&format!("warning: the MCP server {name} is down: it {why}"));
        }
    }
}
