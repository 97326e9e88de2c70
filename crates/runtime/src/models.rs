//! From the config's `models` and `auth` to providers, keys and the models of an agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::nearest;
use pincer_config::keys::{
    ApiKey, ModelApi, ModelEntry, ModelEvents, ModelInput, ModelPayload, ModelProvider, ModelReasoning, ThinkingLevel,
};
use pincer_config::{Config, Loaded, Sources, Values, resolve};
use pincer_model::{
    Api, Cost, Debug, Events, Find, Idle, Keys, Level, Model, Models, PRESETS, Payload, Plan, Preset, Profile,
    Provider, Reasoning, Recorder, Secret, Target, known_provider,
};

use crate::secrets::Vault;
use crate::workspace::beside;

/// Why a model cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum ModelSetupError {
    /// Nothing is configured.
    #[error(
        "no model is configured: set `agents.defaults.model` to \"provider/model\", for example \"anthropic/NAME\" with \
         ANTHROPIC_API_KEY in the environment"
    )]
    NoModel,
    /// The text is no `provider/model`.
    #[error("`{0}` is not a model: write `provider/model`")]
    NoName(String),
    /// There is no such provider.
    #[error("there is no provider `{id}`{}: add it to `models.providers`", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    NoProvider {
        /// The id.
        id: String,
        /// One that is there.
        near: Option<String>,
    },
    /// A provider without an address.
    #[error("models.providers.{id}: it needs a `baseUrl`")]
    NoAddress {
        /// The provider.
        id: String,
    },
    /// An address that is none.
    #[error("models.providers.{id}.baseUrl is not an address: {reason}")]
    Address {
        /// The provider.
        id: String,
        /// Why.
        reason: String,
    },
    /// A string of a provider names something that is not there.
    #[error("models.providers.{id} {source}")]
    Unresolved {
        /// The provider.
        id: String,
        /// The missing thing.
        source: pincer_config::ResolveError,
    },
}

/// The providers of a config, and the way to their models.
pub struct ModelSetup {
    models: Models,
    config: Config,
    vault: Vault,
}

impl ModelSetup {
    /// Reads the config. No key is looked up, and no provider is asked.
    pub fn new(loaded: &Loaded, state: Option<&Path>) -> Self {
        let config = loaded.parsed.config.clone();
        let vault = Vault::new(state.map(Path::to_owned), loaded.file.as_deref());
        let ids = config.models.providers.keys().map(String::as_str).chain(PRESETS.iter().map(|preset| preset.id));
        let profiles = ids.map(|id| (id.to_owned(), profiles(&config, id, &vault))).collect();
        let debug = debug(&config).with_variables(|name| vault.variable(name));
        let record = config.models.record.as_ref().map(|directory| recorded_at(loaded, directory));
        let models = Models::new(Keys::new(profiles), debug, record.as_deref().map(Recorder::new));
        Self { models, config, vault }
    }

    /// Returns the way to the models.
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// Returns the ids of the providers of the config, then of the well-known ones whose key is set.
    pub fn providers(&self) -> Vec<String> {
        let configured = self.config.models.providers.keys().cloned();
        let known = PRESETS.iter().filter(|preset| {
            let is_set = |name: &&str| self.vault.variable(name).is_some_and(|value| !value.is_empty());
            !self.config.models.providers.contains_key(preset.id) && preset.variables.iter().any(is_set)
        });
        configured.chain(known.map(|preset| preset.id.to_owned())).collect()
    }

    /// Returns a provider, with the variables and secrets of its address and headers in place.
    pub fn provider(&self, id: &str) -> Result<Arc<Provider>, ModelSetupError> {
        let preset = known_provider(id);
        let entry = self.config.models.providers.get(id);
        if preset.is_none() && entry.is_none() {
            let ids = self.config.models.providers.keys().cloned();
            let ids = ids.chain(PRESETS.iter().map(|preset| preset.id.to_owned()));
            let near = nearest(id, ids.map(|known| (known.clone(), known)), 1).pop();
            return Err(ModelSetupError::NoProvider { id: id.to_owned(), near });
        }
        let entry = entry.cloned().unwrap_or_default();
        let resolved = |text: &str| {
            let found = resolve(text, &self.vault, &self.config.secrets);
            found.map(|(text, _)| text).map_err(|source| ModelSetupError::Unresolved { id: id.to_owned(), source })
        };
        let url = match (&entry.base_url, preset) {
            (Some(url), _) => resolved(url)?,
            (None, Some(preset)) => preset.base_url.to_owned(),
            (None, None) => return Err(ModelSetupError::NoAddress { id: id.to_owned() }),
        };
        let base_url = url.parse().map_err(|error: url::ParseError| ModelSetupError::Address {
            id: id.to_owned(),
            reason: error.to_string(),
        })?;
        let headers = entry.headers.iter().map(|(name, value)| Ok((name.clone(), resolved(value)?)));
        Ok(Arc::new(Provider {
            id: id.to_owned(),
            base_url,
            api: entry.api.map(api).or(preset.map(|preset| preset.api)).unwrap_or(Api::ChatCompletions),
            headers: headers.collect::<Result<_, ModelSetupError>>()?,
            timeout: entry.timeout_seconds.map(Duration::from_secs),
            models: entry.models.iter().map(|model| self::model(model, entry.api.map(api))).collect(),
        }))
    }

    /// Returns the model of a name: `provider/model`.
    pub fn target(&self, name: &str) -> Result<Target, ModelSetupError> {
        let named = name.split_once('/').filter(|(provider, model)| !provider.is_empty() && !model.is_empty());
        let (provider, model) = named.ok_or_else(|| ModelSetupError::NoName(name.to_owned()))?;
        Ok(Target::new(&self.provider(provider)?, model))
    }

    /// Returns the names of the models that an agent asks, in order.
    pub fn names(&self, agent: Option<&str>) -> Vec<String> {
        let choice = self.config.agent_setting(agent, |agent| agent.model.clone());
        choice.iter().flat_map(|choice| choice.all().map(str::to_owned)).collect()
    }

    /// Returns the models that an agent asks, and how long they may be silent.
    pub fn plan(&self, agent: Option<&str>) -> Result<Plan, ModelSetupError> {
        let targets = self.names(agent).iter().map(|name| self.target(name)).collect::<Result<Vec<_>, _>>()?;
        let mut targets = targets.into_iter();
        let first = targets.next().ok_or(ModelSetupError::NoModel)?;
        let mut plan = Plan::new(first);
        plan.targets.extend(targets);
        let run = self.config.agent_setting(agent, |agent| agent.timeout_seconds).map(Duration::from_secs);
        plan.idle = Idle { run, ..Idle::default() };
        Ok(plan)
    }

    /// Returns how much an agent's model is to think.
    pub fn thinking(&self, agent: Option<&str>) -> Level {
        self.config.agent_setting(agent, |agent| agent.thinking_default).map(level).unwrap_or_default()
    }
}

fn recorded_at(loaded: &Loaded, directory: &str) -> PathBuf {
    beside(loaded.file.as_deref(), directory)
}

/// The keys of a provider, in the order in which they are used.
fn profiles(config: &Config, id: &str, vault: &Vault) -> Vec<Profile> {
    let found = |key: &ApiKey| finding(key.clone(), vault.clone(), config.secrets.clone());
    let order = config.auth.order.get(id).map(Vec::as_slice).unwrap_or_default();
    let rank = |name: &str| order.iter().position(|known| known == name).unwrap_or(order.len());
    let mut named: Vec<_> = config.auth.profiles.iter().filter(|(_, profile)| profile.provider == id).collect();
    named.sort_by_key(|(name, _)| rank(name));
    let named =
        named.into_iter().map(|(name, profile)| Profile { id: name.clone(), find: Some(found(&profile.api_key)) });
    let mut profiles: Vec<Profile> = named.collect();
    let entry = config.models.providers.get(id);
    if let Some(key) = entry.and_then(|entry| entry.api_key.as_ref()) {
        profiles.push(Profile { id: id.to_owned(), find: Some(found(key)) });
    }
    if profiles.is_empty() {
        let usual = known_provider(id).filter(|preset| is_at(entry, preset) && !preset.variables.is_empty());
        let find = usual.map(|preset| in_environment(preset, vault.clone()));
        profiles.push(Profile { id: id.to_owned(), find });
    }
    profiles
}

/// Whether a provider is where the well-known one of its name is: the key of the environment is for that address alone.
fn is_at(entry: Option<&ModelProvider>, preset: &Preset) -> bool {
    let Some(url) = entry.and_then(|entry| entry.base_url.as_deref()) else { return true };
    let origin = |url: &str| url.parse::<url::Url>().ok().map(|url| url.origin());
    origin(url).is_some_and(|own| origin(preset.base_url) == Some(own))
}

fn finding(key: ApiKey, vault: Vault, sources: Sources) -> Arc<Find> {
    Arc::new(move || {
        let text = match &key {
            ApiKey::Text(text) => {
                resolve(text, &vault, &sources).map(|(text, _)| text).map_err(|error| format!("it {error}"))
            }
            ApiKey::Source(source) => vault.secret("", Some(source)).map_err(|error| error.to_string()),
        }?;
        match text.trim() {
            "" => Err("it is empty".to_owned()),
            text => Ok(Secret::new(text)),
        }
    })
}

fn in_environment(preset: &'static Preset, vault: Vault) -> Arc<Find> {
    Arc::new(move || {
        let values = preset.variables.iter().filter_map(|name| vault.variable(name));
        let key = values.map(|value| value.trim().to_owned()).find(|value| !value.is_empty());
        let missing = || {
            let names = preset.variables.join(" or ");
            format!("set {names} in the environment, or `models.providers.{}.apiKey` in the config", preset.id)
        };
        key.map(Secret::new).ok_or_else(missing)
    })
}

fn api(api: ModelApi) -> Api {
    match api {
        ModelApi::OpenaiCompletions => Api::ChatCompletions,
        ModelApi::OpenaiResponses => Api::Responses,
        ModelApi::AnthropicMessages => Api::Messages,
    }
}

fn model(entry: &ModelEntry, api: Option<Api>) -> Model {
    let ModelEntry { id, context_window, max_tokens, reasoning, input, cost, params, .. } = entry.clone();
    let all = || [Level::Off, Level::Low, Level::Medium, Level::High].to_vec();
    let reasoning = reasoning.map(|reasoning| match (reasoning, api) {
        (ModelReasoning::Switch(false), _) => Reasoning::None,
        (ModelReasoning::Switch(true), Some(Api::Messages)) => Reasoning::Budget,
        (ModelReasoning::Switch(true), _) => Reasoning::Effort(all()),
        (ModelReasoning::Levels(levels), Some(Api::Messages)) => {
            Reasoning::Adaptive(levels.into_iter().map(level).filter(|level| *level != Level::Off).collect())
        }
        (ModelReasoning::Levels(levels), _) => Reasoning::Effort(levels.into_iter().map(level).collect()),
    });
    Model {
        id,
        context_window,
        max_tokens,
        reasoning,
        takes_images: input.map(|input| input.contains(&ModelInput::Image)),
        cost: cost.map(|cost| Cost {
            input: cost.input,
            output: cost.output,
            cache_read: cost.cache_read,
            cache_write: cost.cache_write,
        }),
        params,
    }
}

fn level(level: ThinkingLevel) -> Level {
    match level {
        ThinkingLevel::Off => Level::Off,
        ThinkingLevel::Minimal => Level::Minimal,
        ThinkingLevel::Low => Level::Low,
        ThinkingLevel::Medium => Level::Medium,
        ThinkingLevel::High => Level::High,
        ThinkingLevel::XHigh => Level::XHigh,
        ThinkingLevel::Adaptive => Level::Adaptive,
        ThinkingLevel::Max => Level::Max,
    }
}

fn debug(config: &Config) -> Debug {
    let debug = &config.models.debug;
    Debug {
        transport: debug.transport,
        payload: match debug.payload {
            ModelPayload::Off => Payload::Off,
            ModelPayload::Summary => Payload::Summary,
            ModelPayload::Tools => Payload::Tools,
            ModelPayload::FullRedacted => Payload::FullRedacted,
        },
        events: match debug.sse {
            ModelEvents::Off => Events::Off,
            ModelEvents::Events => Events::Events,
            ModelEvents::Peek => Events::Peek,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(text: &str) -> ModelSetup {
        let parsed = pincer_config::parse(text, &|_| None).expect("a config");
        ModelSetup::new(&Loaded { parsed, ..Loaded::default() }, None)
    }

    #[test]
    fn a_well_known_provider_needs_no_entry_and_any_other_an_address() {
        let setup = setup(
            "{ models: { providers: { mine: { baseUrl: 'http://127.0.0.1:9/v1', api: 'openai-responses', \
             models: [{ id: 'm', maxTokens: 7, reasoning: ['low', 'high'], input: ['text'] }] }, bare: {} } } }",
        );
        let known = setup.target("anthropic/claude-x/y").expect("a target");
        assert_eq!(
            (known.provider.base_url.as_str(), known.provider.api),
            ("https://api.anthropic.com/", Api::Messages)
        );
        assert_eq!(known.model.id, "claude-x/y");
        let own = setup.target("mine/m").expect("a target");
        assert_eq!(
            (own.provider.api, own.model.max_tokens, own.model.takes_images),
            (Api::Responses, Some(7), Some(false))
        );
        assert_eq!(own.reasoning(), Reasoning::Effort(vec![Level::Low, Level::High]));
        let told = |name: &str| setup.target(name).expect_err(name).to_string();
        assert!(told("bare/x").contains("it needs a `baseUrl`"));
        assert!(told("antropic/x").contains("did you mean `anthropic`?"), "{}", told("antropic/x"));
        assert!(told("x").contains("write `provider/model`"));
        assert!(setup.plan(None).expect_err("nothing").to_string().contains("agents.defaults.model"));
    }

    #[test]
    fn an_agent_has_its_own_model_or_that_of_all() {
        let setup = setup(
            "{ agents: { defaults: { model: { primary: 'openai/a', fallbacks: ['anthropic/b'] }, thinkingDefault: 'high', \
             timeoutSeconds: 30 }, writer: { model: 'ollama/c' } } }",
        );
        let names =
            |agent| setup.plan(agent).expect("a plan").targets.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(None), ["openai/a", "anthropic/b"]);
        assert_eq!(names(Some("writer")), ["ollama/c"]);
        assert_eq!(names(Some("defaults")), ["openai/a", "anthropic/b"]);
        assert_eq!(setup.thinking(Some("writer")), Level::High);
        assert_eq!(setup.plan(None).expect("a plan").idle.run, Some(Duration::from_secs(30)));
    }

    #[test]
    fn keys_come_in_their_order_and_that_of_the_environment_goes_to_its_own_address_alone() {
        let text = "{ auth: { profiles: { a: { provider: 'openai', apiKey: 'ka' }, b: { provider: 'openai', apiKey: 'kb' }, \
             c: { provider: 'openai', apiKey: 'kc' } }, order: { openai: ['c'] } }, \
             models: { providers: { openai: { apiKey: 'own' }, anthropic: { baseUrl: 'https://proxy.example.com' } } } }";
        let config = pincer_config::parse(text, &|_| None).expect("a config").config;
        let vault = Vault::new(None, None);
        let ids = |id: &str| profiles(&config, id, &vault).iter().map(|profile| profile.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids("openai"), ["c", "a", "b", "openai"]);
        let first = profiles(&config, "openai", &vault).remove(0).find.expect("a key")();
        assert_eq!(first.expect("a key").expose(), "kc");
        assert!(profiles(&config, "anthropic", &vault)[0].find.is_none(), "another address");
        assert!(profiles(&config, "mistral", &vault)[0].find.is_some());
        assert!(profiles(&config, "ollama", &vault)[0].find.is_none());
    }
}
