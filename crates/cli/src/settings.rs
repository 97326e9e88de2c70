//! The config for a command.

use std::env;

use pincer_config::{Candidates, ConfigError, Loaded, find, load_with};
use pincer_runtime::{Promised, Vault, user_directory};

use crate::WRONG_USAGE;
use crate::print::{chain, note};
use crate::state;
use crate::usage::LocationArguments;

/// Where the config may be.
pub(crate) fn places_of(arguments: &LocationArguments) -> Candidates {
    Candidates {
        named: arguments.config.clone(),
        here: env::current_dir().unwrap_or_default(),
        home: user_directory("XDG_CONFIG_HOME", ".config"),
    }
}

/// Finds and reads the config.
pub(crate) fn read(arguments: &LocationArguments) -> Result<Loaded, ConfigError> {
    let locations = places_of(arguments);
    load_with(&locations, &vault(arguments, &locations))
}

/// The same for commands that only look at it: no secret is looked up, so nothing that the config names is started.
pub(crate) fn read_only(arguments: &LocationArguments) -> Result<Loaded, ConfigError> {
    let locations = places_of(arguments);
    load_with(&locations, &Promised(vault(arguments, &locations)))
}

/// Looks up the secrets that a config names.
pub(crate) fn vault(arguments: &LocationArguments, locations: &Candidates) -> Vault {
    Vault::new(state::directory(arguments), find(locations).as_deref())
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
pub(crate) fn ready(arguments: &LocationArguments) -> Result<Loaded, u8> {
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
