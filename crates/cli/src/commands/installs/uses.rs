//! The places of a config that name something that is about to be removed.

use pincer_config::Config;
use pincer_install::Kind;
use pincer_plugins::ManifestChannel;
use serde_json::Value;

/// A place of the config.
pub(super) struct Use {
    pub path: String,
    pub consequence: &'static str,
}

/// Returns the places that name a plugin or a skill. The config is walked as a value, so that keys of later versions are found too.
/// `channels` are those that the plugin brings.
pub(super) fn of(config: &Config, kind: Kind, id: &str, channels: &[ManifestChannel]) -> Vec<Use> {
    let mut found = Vec::new();
    if kind == Kind::Plugin {
        found.extend(channel_uses(config, id, channels));
    }
    let value = serde_json::to_value(config).unwrap_or_default();
    let needle = match kind {
        Kind::Plugin => Needle { entries: "plugins.entries", list: None, prefix: Some(format!("plugin:{id}:")), id },
        Kind::Skill => Needle { entries: "skills.entries", list: Some("skills"), prefix: None, id },
    };
    walk(&value, "", &needle, &mut found);
    found
}

/// Returns the channels of the config that a plugin brings.
fn channel_uses(config: &Config, id: &str, channels: &[ManifestChannel]) -> impl Iterator<Item = Use> {
    let brought = config.channels.iter().filter(move |(name, channel)| match &channel.plugin {
        Some(plugin) => plugin == id,
        None => channels.iter().any(|channel| channel.name == **name),
    });
    brought.map(|(name, channel)| Use {
        path: format!("channels.{name}"),
        consequence: match channel.enabled {
            true => "without the plugin `pincer channels start` runs no channel until you take it out or turn it off",
            false => "it means nothing then",
        },
    })
}

struct Needle<'a> {
    /// The key under which each has settings.
    entries: &'static str,
    /// The key of lists of their names.
    list: Option<&'static str>,
    /// The beginning of names of what it brings.
    prefix: Option<String>,
    id: &'a str,
}

fn walk(value: &Value, path: &str, needle: &Needle, found: &mut Vec<Use>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let within = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                if path == needle.entries && key == needle.id {
                    let consequence = match path {
                        "plugins.entries" => "without the plugin Pincer does not start until you take it out",
                        _ => "it means nothing then",
                    };
                    found.push(Use { path: within, consequence });
                    continue;
                }
                walk(member, &within, needle, found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &format!("{path}[{index}]"), needle, found);
            }
        }
        Value::String(text) => {
            let is_brought = needle.prefix.as_ref().is_some_and(|prefix| text.starts_with(prefix));
            let list = path.rsplit_once('[').map_or("", |(list, _)| list.rsplit('.').next().unwrap_or(list));
            if is_brought || text == needle.id && needle.list == Some(list) {
                found.push(Use { path: path.to_owned(), consequence: "it means nothing then" });
            }
        }
        _ => {}
    }
}
