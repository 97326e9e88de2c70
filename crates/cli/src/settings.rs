//! The config for a command.

use std::env;

use pincer_config::{ConfigError, Loaded, Places, load};

use crate::WRONG_USAGE;
use crate::places::place;
use crate::print::{chain, note};
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
    load(&places_of(arguments), &|name| env::var(name).ok())
}

/// Tells what a person should know of the config.
pub(crate) fn warn(loaded: &Loaded) {
    loaded.notes.iter().for_each(|text| note(&format!("warning: {text}")));
    loaded.parsed.warnings.iter().for_each(|warning| note(&format!("warning: {warning}")));
}

/// The same for commands that only use it: warnings are told, and what is wrong ends the command with this exit code.
pub(crate) fn ready(arguments: &PlaceArguments) -> Result<Loaded, u8> {
    match read(arguments) {
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

/// Tells what is to be said of a config that can be used.
pub(crate) fn warn(loaded: &Loaded) {
    for warning in &loaded.parsed.warnings {
        note(&format!("warning: {warning}"));
    }
    for (name, server) in loaded.parsed.config.mcp.servers.iter().filter(|(_, server)| server.enabled) {
        if let Some(why) = server.unusable() {
            note(&format!("warning: the MCP server {name} is down: it {why}"));
        }
    }
}
