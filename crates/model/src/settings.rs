//! Providers and their models, as they are set up.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::message::Api;
use crate::thinking::Reasoning;

/// A service that serves models.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Its id in the config.
    pub id: String,
    /// Its address, as the official clients take it: OpenAI's with `/v1`, Anthropic's without.
    pub base_url: Url,
    /// Its wire format.
    pub api: Api,
    /// Headers of every request. They may be secrets.
    pub headers: BTreeMap<String, String>,
    /// Bounds the connection, the wait for the answer and every gap in it. If absent, see [`crate::Idle`].
    pub timeout: Option<Duration>,
    /// The models with settings of their own.
    pub models: Vec<Model>,
}

/// A model with settings of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// Its id, as the provider calls it.
    pub id: String,
    /// The tokens that a conversation may have.
    pub context_window: Option<u64>,
    /// The most tokens of a reply.
    pub max_tokens: Option<u32>,
    /// How it thinks. If absent, as its name says.
    pub reasoning: Option<Reasoning>,
    /// Whether it takes pictures. If absent, it is not known, and pictures are sent.
    pub takes_images: Option<bool>,
    /// Its price.
    pub cost: Option<Cost>,
    /// Further members of the request's body.
    pub params: Map<String, Value>,
}

/// Dollars for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cost {
    /// Of the prompt.
    pub input: f64,
    /// Of the reply.
    pub output: f64,
    /// Read from the cache.
    pub cache_read: f64,
    /// Written to the cache.
    pub cache_write: f64,
}

impl Cost {
    /// Returns the dollars that a reply costs.
    pub fn of(&self, usage: &crate::Usage) -> f64 {
        let million = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        million(usage.input, self.input)
            + million(usage.output, self.output)
            + million(usage.cache_read, self.cache_read)
            + million(usage.cache_write, self.cache_write)
    }
}

/// One model of one provider.
#[derive(Clone, Debug)]
pub struct Target {
    /// The provider.
    pub provider: std::sync::Arc<Provider>,
    /// The model.
    pub model: Model,
}

impl Target {
    /// Returns the model of this id, with its settings if the provider has some.
    pub fn new(provider: &std::sync::Arc<Provider>, model: &str) -> Self {
        let known = provider.models.iter().find(|known| known.id == model).cloned();
        let model = known.unwrap_or_else(|| Model { id: model.to_owned(), ..Model::default() });
        Self { provider: std::sync::Arc::clone(provider), model }
    }

    /// Returns how the model thinks.
    pub fn reasoning(&self) -> Reasoning {
        self.model.reasoning.clone().unwrap_or_else(|| crate::known::reasoning(self.provider.api, &self.model.id))
    }

    /// Returns the tokens that a conversation may have: as the settings say, or as the model's name does. A server of one's own may
    /// serve a well-known model with any window, so its name says nothing there.
    pub fn context_window(&self) -> Option<u64> {
        let known = || (!self.provider.is_local()).then(|| crate::known::context_window(&self.model.id)).flatten();
        self.model.context_window.or_else(known)
    }

    /// Returns the most tokens of a reply, if requests say so.
    pub fn most_reply_tokens(&self) -> Option<u32> {
        self.model.max_tokens.or_else(|| (self.provider.api == Api::Messages).then(|| self.max_tokens()))
    }

    /// Returns the most tokens of a reply, where the format must say so.
    pub(crate) fn max_tokens(&self) -> u32 {
        self.model.max_tokens.unwrap_or_else(|| crate::known::max_tokens(&self.model.id))
    }
}

/// Written as `provider/model`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider.id, self.model.id)
    }
}

impl Provider {
    /// Returns the address of a request.
    pub(crate) fn endpoint(&self) -> Url {
        match self.api {
            Api::ChatCompletions => self.at("chat/completions"),
            Api::Responses => self.at("responses"),
            Api::Messages => self.at("v1/messages"),
        }
    }

    /// Returns the address of the provider's list of models.
    pub(crate) fn listing(&self) -> Url {
        match self.api {
            Api::ChatCompletions | Api::Responses => self.at("models"),
            Api::Messages => self.at("v1/models?limit=1000"),
        }
    }

    fn at(&self, path: &str) -> Url {
        let mut url = self.base_url.clone();
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let base = url.path().trim_end_matches('/').to_owned();
        // An address with `/v1`, for a format that has it in its paths already.
        let path = match base.rsplit('/').next() {
            Some("v1") => path.strip_prefix("v1/").unwrap_or(path),
            _ => path,
        };
        url.set_path(&format!("{base}/{path}"));
        if query.is_some() {
            url.set_query(query);
        }
        url
    }

    /// Returns whether it runs on this machine or in this network.
    pub fn is_local(&self) -> bool {
        let host = self.base_url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        match host.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => {
                // 100.64.0.0/10 is what a provider of networks, or an overlay, gives its members.
                let is_shared = address.octets()[0] == 100 && (64..128).contains(&address.octets()[1]);
                address.is_loopback()
                    || address.is_private()
                    || address.is_link_local()
                    || is_shared
                    || address.is_unspecified()
            }
            Ok(IpAddr::V6(address)) => {
                let mapped =
                    address.to_ipv4_mapped().is_some_and(|address| address.is_loopback() || address.is_private());
                address.is_loopback()
                    || address.is_unique_local()
                    || address.is_unicast_link_local()
                    || address.is_unspecified()
                    || mapped
            }
            Err(_) => {
                let host = host.trim_end_matches('.').to_ascii_lowercase();
                // A name without a dot is one of this network; so are these by convention.
                let ends = [".localhost", ".local", ".internal", ".lan", ".home.arpa"];
                host == "localhost" || !host.contains('.') || ends.iter().any(|end| host.ends_with(end))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(api: Api, url: &str) -> Provider {
        Provider {
            id: "p".into(),
            base_url: url.parse().expect("an address"),
            api,
            headers: BTreeMap::new(),
            timeout: None,
            models: Vec::new(),
        }
    }

    #[test]
    fn addresses_are_those_of_the_official_clients() {
        let at = |api, url: &str| provider(api, url).endpoint().to_string();
        assert_eq!(at(Api::ChatCompletions, "http://h/v1"), "http://h/v1/chat/completions");
        assert_eq!(at(Api::ChatCompletions, "http://h/v1/"), "http://h/v1/chat/completions");
        assert_eq!(
            at(Api::Responses, "https://h/openai/v1?api-version=x"),
            "https://h/openai/v1/responses?api-version=x"
        );
        assert_eq!(at(Api::Messages, "https://h"), "https://h/v1/messages");
        assert_eq!(at(Api::Messages, "https://h/v1"), "https://h/v1/messages");
        assert_eq!(at(Api::Messages, "https://h/anthropic"), "https://h/anthropic/v1/messages");
        assert_eq!(provider(Api::Messages, "https://h").listing().to_string(), "https://h/v1/models?limit=1000");
    }

    #[test]
    fn a_window_is_as_the_settings_say_or_the_name_at_its_own_provider() {
        let window = |url: &str, set: Option<u64>| {
            let model = Model { id: "claude-sonnet-4-5".into(), context_window: set, ..Model::default() };
            let provider = std::sync::Arc::new(provider(Api::Messages, url));
            Target { provider, model }.context_window()
        };
        assert_eq!(window("https://api.example.com", None), Some(200_000));
        assert_eq!(window("https://api.example.com", Some(9_000)), Some(9_000));
        assert_eq!(window("http://127.0.0.1:8080", None), None);
    }

    #[test]
    fn local_is_loopback_or_a_private_address() {
        for (url, expected) in [
            ("http://127.0.0.1:8080/v1", true),
            ("http://[::1]/v1", true),
            ("http://localhost:11434/v1", true),
            ("http://10.1.2.3/v1", true),
            ("http://192.168.0.5/v1", true),
            ("http://172.20.0.1", true),
            ("http://100.100.1.1", true),
            ("http://[fd00::1]", true),
            ("http://[::ffff:10.0.0.1]", true),
            ("http://gpu-box/v1", true),
            ("http://models.local/v1", true),
            ("https://api.example.com/v1", false),
            ("http://172.32.0.1", false),
            ("http://100.128.1.1", false),
            ("http://8.8.8.8", false),
            ("http://localhost.example.com", false),
        ] {
            assert_eq!(provider(Api::Messages, url).is_local(), expected, "{url}");
        }
    }
}
