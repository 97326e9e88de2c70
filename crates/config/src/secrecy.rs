//! A config that may be shown, and the secrets of its servers.

use pincer_secrecy::{REDACTED, address_parts, is_secret, secret_parts, shown_address, shown_words};
use serde_json::Value;

use crate::keys::{CommandLine, McpServer};

impl McpServer {
    /// A copy that may be shown: without the values of its environment and headers, and without secrets in arguments and addresses.
    pub fn shown(&self) -> Self {
        let mut shown = self.clone();
        shown.args = shown_words(&self.args);
        shown.url = self.url.as_deref().map(shown_address);
        let values = shown.env.values_mut().chain(shown.headers.values_mut());
        let secrets = [&mut shown.auth.token, &mut shown.auth.client_secret].into_iter().flatten();
        values.chain(secrets).filter(|value| !value.is_empty()).for_each(|value| *value = REDACTED.into());
        shown
    }

    /// The texts that no message about this server may have in it, the longest first.
    pub fn secrets(&self) -> Vec<String> {
        /// Shorter ones are parts of other words.
        const LEAST: usize = 4;
        let env = self.env.iter().filter(|(name, value)| is_secret(name, value)).map(|(_, value)| value.as_str());
        let headers =
            self.headers.values().flat_map(|value| [Some(value.as_str()), value.rsplit(' ').next()]).flatten();
        let auth = [&self.auth.token, &self.auth.client_secret].into_iter().flatten().map(String::as_str);
        let args = secret_parts(&self.args).into_iter().map(|(word, part)| &self.args[word][part]);
        let url = self.url.iter().flat_map(|url| address_parts(url).into_iter().map(|part| &url[part]));
        let given = self.given.iter().map(String::as_str);
        let all = env.chain(headers).chain(auth).chain(args).chain(url).chain(given);
        let mut all: Vec<String> = all.filter(|text| text.len() >= LEAST).map(str::to_owned).collect();
        all.sort_by_key(|text| std::cmp::Reverse(text.len()));
        all.dedup();
        all
    }
}

/// Takes the secrets out of a whole config that is to be shown.
pub(crate) fn hide(config: &crate::Config, shown: &mut Value) {
    for (name, server) in &config.mcp.servers {
        shown["mcp"]["servers"][name] = serde_json::to_value(server.shown()).unwrap_or_default();
    }
    let environments = config.plugins.entries.keys().map(|id| format!("/plugins/entries/{}/env", pointer(id)));
    let of_skills = config.skills.entries.keys().map(|name| format!("/skills/entries/{}/env", pointer(name)));
    for place in environments.chain(of_skills).chain(["/tools/exec/env".to_owned()]) {
        let values = shown.pointer_mut(&place).and_then(Value::as_object_mut);
        values.into_iter().flatten().for_each(|(_, value)| *value = REDACTED.into());
    }
    let providers = config.models.providers.iter();
    for (id, provider) in providers {
        let place = &mut shown["models"]["providers"][id];
        if let Some(url) = &provider.base_url {
            place["baseUrl"] = shown_address(url).into();
        }
        let values = place["headers"].as_object_mut().into_iter().flatten().map(|(_, value)| value);
        values.filter(|value| !is_reference(value)).for_each(|value| *value = REDACTED.into());
        hide_key(&mut place["apiKey"]);
    }
    for id in config.auth.profiles.keys() {
        hide_key(&mut shown["auth"]["profiles"][id]["apiKey"]);
    }
    for name in config.channels.keys() {
        hide_named(&mut shown["channels"][name]["config"]);
    }
    let hide = |place: &mut Value, command: &CommandLine| {
        *place = match command {
            CommandLine::Shell(line) => shown_words(std::slice::from_ref(line)).concat().into(),
            CommandLine::Words(words) => shown_words(words).into(),
        };
    };
    for (name, hooks) in config.hooks.about_tools() {
        for (index, hook) in hooks.iter().enumerate() {
            hide(&mut shown["hooks"][name][index]["command"], &hook.command);
        }
    }
    for (name, hooks) in config.hooks.others() {
        for (index, hook) in hooks.iter().enumerate() {
            hide(&mut shown["hooks"][name][index]["command"], &hook.command);
        }
    }
}

/// Takes out of a value what is secret by the name that it has there, unless it only names where the secret is.
fn hide_named(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(hide_named),
        Value::Object(members) => {
            for (name, member) in members {
                match member.as_str().is_some_and(|text| is_secret(name, text)) {
                    true => hide_key(member),
                    false => hide_named(member),
                }
            }
        }
        _ => {}
    }
}

/// Takes a key out, unless it only names where the key is.
fn hide_key(key: &mut Value) {
    if key.is_string() && !is_reference(key) {
        *key = REDACTED.into();
    }
}

/// Returns whether a text is one reference and nothing else: then it is shown as it was written.
fn is_reference(value: &Value) -> bool {
    let inner = value.as_str().and_then(|text| text.strip_prefix("${")?.strip_suffix('}'));
    inner.is_some_and(|inner| !inner.contains(['{', '}']))
}

/// A key as a part of a JSON pointer.
fn pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
