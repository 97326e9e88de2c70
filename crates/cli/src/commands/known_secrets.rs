//! The secrets and the places of this machine that no file may have which is given away.

use std::env;
use std::path::{Path, PathBuf};

use pincer_config::{Loaded, Values};
use pincer_runtime::{Stored, redactor, usual_workspace};
use pincer_secrecy::{Cleaner, is_secret_variable};
use pincer_trajectory::About;
use serde_json::Value;

use crate::commands::sessions::about;
use crate::print::chain;
use crate::usage::LocationArguments;
use crate::{settings, state};

/// Facts about this machine.
pub(crate) struct Known {
    /// Takes out what must not leave it.
    pub cleaner: Cleaner,
    /// Facts for the metadata of a bundle.
    pub about: About,
    /// The usual workspace.
    pub workspace: PathBuf,
}

/// Finds out which secrets there are: those of the config, of the environment, and those that Pincer keeps.
pub(crate) fn known(locations: &LocationArguments) -> Known {
    let mut warnings = Vec::new();
    let loaded = match settings::read(locations) {
        Ok(loaded) => Some(loaded),
        Err(error) => {
            let why = chain(&error);
            warnings.push(format!("the config cannot be used, so its secrets are known by their looks only: {why}"));
            settings::read_only(locations).ok()
        }
    };
    let mut values: Vec<String> = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, value)| is_secret_variable(name, value))
        .map(|(_, value)| value)
        .collect();
    let mut cleaner = Cleaner::default();
    let (mut config, mut plugins, mut skills) = (Value::Null, Vec::new(), Vec::new());
    let mut workspace = PathBuf::from(".");
    if let Some(loaded) = &loaded {
        of_config(loaded, &mut values);
        of_vault(locations, loaded, &mut values, &mut warnings);
        cleaner = cleaner.matching(redactor(&loaded.parsed.config).patterns);
        config = loaded.parsed.shown();
        plugins = loaded.parsed.config.plugins.entries.keys().cloned().collect();
        skills = loaded.parsed.config.skills.entries.keys().cloned().collect();
        workspace = usual_workspace(loaded);
    }
    let cleaner = cleaner.knowing(values);
    let cleaner = [
        (env::home_dir(), "~"),
        (state::directory(locations), "$STATE_DIR"),
        (Some(workspace.clone()), "$WORKSPACE_DIR"),
    ]
    .into_iter()
    .filter_map(|(place, name)| Some((place?, name)))
    .fold(cleaner, |cleaner, (place, name)| placed(cleaner, &place, name));
    Known { cleaner, about: about(config, plugins, skills, warnings), workspace }
}

/// Adds a place as it is named, and as it is.
fn placed(cleaner: Cleaner, place: &Path, name: &str) -> Cleaner {
    let absolute = std::path::absolute(place).unwrap_or_else(|_| place.to_owned());
    let real = place.canonicalize().unwrap_or_else(|_| absolute.clone());
    let cleaner = if real == absolute { cleaner } else { cleaner.placing(&real.to_string_lossy(), name) };
    cleaner.placing(&absolute.to_string_lossy(), name)
}

/// Adds the texts of the config that are not shown.
fn of_config(loaded: &Loaded, values: &mut Vec<String>) {
    let config = &loaded.parsed.config;
    let real = serde_json::to_value(config).unwrap_or_default();
    differing(&real, &loaded.parsed.shown(), values);
    config.mcp.servers.values().for_each(|server| values.extend(server.secrets()));
}

/// Adds the texts that stand differently in a config that may be shown.
fn differing(real: &Value, shown: &Value, values: &mut Vec<String>) {
    match (real, shown) {
        (Value::Object(real), shown) => real.iter().for_each(|(name, value)| differing(value, &shown[name], values)),
        (Value::Array(real), shown) => {
            real.iter().enumerate().for_each(|(index, value)| differing(value, &shown[index], values));
        }
        // A path that a variable is a part of is no secret.
        (Value::String(text), shown) if shown != text && !text.starts_with(['/', '~', '.']) => {
            values.push(text.clone());
            values.extend(text.rsplit_once(' ').map(|(_, last)| last.to_owned()));
        }
        _ => {}
    }
}

/// Adds the secrets that Pincer keeps, and those that the config says where to find.
fn of_vault(locations: &LocationArguments, loaded: &Loaded, values: &mut Vec<String>, warnings: &mut Vec<String>) {
    let vault = settings::vault(locations, &settings::places_of(locations));
    match vault.stored() {
        Ok(stored) => {
            for (name, kept) in stored {
                match kept {
                    Stored::Value(value) => values.push(value),
                    Stored::Keychain => match vault.secret(&name, None) {
                        Ok(value) => values.push(value),
                        Err(error) => warnings.push(not_known(&name, &error)),
                    },
                }
            }
        }
        Err(error) => warnings.push(format!("secrets that are kept are known by their looks only: {}", chain(&error))),
    }
    for (name, source) in &loaded.parsed.config.secrets {
        match vault.secret(name, Some(source)) {
            Ok(value) => values.push(value),
            Err(error) => warnings.push(not_known(name, &error)),
        }
    }
}

fn not_known(name: &str, error: &dyn std::error::Error) -> String {
    format!("the secret {name} cannot be looked up, so it is known by its looks only: {}", chain(error))
}
