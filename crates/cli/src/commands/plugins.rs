//! `pincer plugins`: which plugins there are, what they bring, and whether one is right.

use std::fmt::Write;

use pincer_catalog::nearest;
use pincer_install::{Installs, Kind};
use pincer_plugins::{Found, LoadError, load};
use pincer_runtime::found_plugins;
use pincer_skills::{Place, Source, discover};
use serde_json::{Value, json};

use crate::commands::installs::{self, Change};
use crate::print::{chain, line, note};
use crate::usage::LocationArguments;
use crate::usage_plugins::{PluginsArguments, PluginsCommand};
use crate::{DONE, FAILED, WRONG_USAGE, notices, settings, state};

pub(crate) fn run(locations: &LocationArguments, arguments: &PluginsArguments) -> u8 {
    let changed = |change: Change| installs::run(locations, Kind::Plugin, &change, arguments.json);
    match &arguments.command {
        PluginsCommand::Check { dir } => return check(load(dir), arguments.json),
        PluginsCommand::Install(arguments) => return changed(Change::Install(arguments)),
        PluginsCommand::Update(arguments) => return changed(Change::Update(arguments)),
        PluginsCommand::Remove(arguments) => return changed(Change::Remove(arguments)),
        PluginsCommand::List | PluginsCommand::Show { .. } => {}
    }
    let loaded = match settings::ready(locations) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let found = match found_plugins(&loaded, state::directory(locations).as_deref(), &notices::observer()) {
        Ok(found) => found,
        Err(error) => {
            note(&format!("error: {}", chain(&error)));
            return WRONG_USAGE;
        }
    };
    let installs = state::directory(locations).map(|state| Installs::new(&state));
    let enabled = |id: &str| loaded.parsed.config.plugins.entries.get(id).is_none_or(|entry| entry.enabled);
    match &arguments.command {
        PluginsCommand::Show { id } => {
            let Some(plugin) = found.iter().find(|plugin| plugin.manifest.id == *id) else {
                let near =
                    nearest(id, found.iter().map(|plugin| (plugin.manifest.id.clone(), plugin.manifest.id.clone())), 1);
                let near = near.first().map(|near| format!(", did you mean {near}?")).unwrap_or_default();
                note(&format!("error: there is no plugin {id}{near}; `pincer plugins list` shows them"));
                return FAILED;
            };
            let enabled = enabled(id);
            line(&if arguments.json {
                installed(document(plugin, enabled), installs.as_ref()).to_string()
            } else {
                shown(plugin, enabled)
            });
        }
        _ if arguments.json => {
            let all: Vec<Value> = found
                .iter()
                .map(|plugin| installed(document(plugin, enabled(&plugin.manifest.id)), installs.as_ref()))
                .collect();
            line(&json!(all).to_string());
        }
        _ if found.is_empty() => line("there are no plugins: name their folders in plugins.paths"),
        _ => found.iter().for_each(|plugin| line(&row(plugin, enabled(&plugin.manifest.id)))),
    }
    DONE
}

fn check(loaded: Result<Found, LoadError>, json: bool) -> u8 {
    match loaded {
        Ok(found) => {
            line(&if json {
                json!({ "valid": true, "plugin": document(&found, true) }).to_string()
            } else {
                shown(&found, true)
            });
            DONE
        }
        Err(error) => {
            let problems = match &error {
                LoadError::Wrong { problems, .. } => json!(problems.0),
                other => json!([{ "path": "", "message": chain(other) }]),
            };
            if json {
                line(&json!({ "valid": false, "problems": problems }).to_string());
            } else {
                note(&format!("error: {}", chain(&error)));
            }
            WRONG_USAGE
        }
    }
}

fn document(plugin: &Found, enabled: bool) -> Value {
    let mut document = json!(plugin.manifest);
    document["folder"] = json!(plugin.folder);
    document["enabled"] = json!(enabled);
    document
}

/// Adds where a plugin was installed from, and whether its files are still those.
fn installed(mut document: Value, installs: Option<&Installs>) -> Value {
    let record = installs.and_then(|installs| {
        let records = installs.list(Kind::Plugin).ok()?;
        let record = records.into_iter().find(|record| document["id"] == record.id)?;
        let place = installs.place(Kind::Plugin, &record.id).canonicalize().ok()?;
        (document["folder"] == json!(place)).then(|| (installs.has_changed(&record), record))
    });
    if let Some((changed, record)) = record {
        document["installed"] =
            json!({ "source": record.source, "digest": record.digest, "at": record.at, "changed": changed });
    }
    document
}

fn row(plugin: &Found, enabled: bool) -> String {
    let manifest = &plugin.manifest;
    let state = if enabled { "" } else { "  (turned off)" };
    let description = manifest.description.as_deref().unwrap_or_default();
    format!("{} {}{state}  {description}", manifest.id, manifest.version)
}

fn shown(plugin: &Found, enabled: bool) -> String {
    let manifest = &plugin.manifest;
    let mut text = format!(
        "{}\n  folder     {}\n  command    {}",
        row(plugin, enabled),
        plugin.folder.display(),
        manifest.command.join(" ")
    );
    for tool in &manifest.tools {
        let _ = write!(text, "\n  tool       plugin:{}:{}", manifest.id, tool.name);
    }
    for hook in &manifest.hooks {
        let event = json!(hook.event);
        let matcher = if hook.matcher.is_empty() { "every tool".to_owned() } else { hook.matcher.join(", ") };
        let _ = write!(text, "\n  hook       {} on {matcher}", event.as_str().unwrap_or_default());
    }
    for namespace in &manifest.namespaces {
        let members: Vec<&str> = namespace.scope.keys().map(String::as_str).collect();
        let _ = write!(text, "\n  namespace  {}: {}", namespace.global_name, members.join(", "));
    }
    for channel in &manifest.channels {
        let _ = write!(text, "\n  channel    {}", channel.name);
    }
    let place = Place::open(Source::Plugin(manifest.id.clone()), &plugin.folder);
    for skill in place.map(|place| discover(&[place]).skills).unwrap_or_default() {
        let _ = write!(text, "\n  skill      {}  {}", skill.name, skill.description);
    }
    text
}
