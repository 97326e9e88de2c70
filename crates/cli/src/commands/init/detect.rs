//! What there is on this machine: keys of providers, model servers, and MCP clients with servers.

use std::env;
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use pincer_clients::Client;
use pincer_config::Loaded;
use pincer_config::keys::{ModelApi, ModelProvider};
use pincer_model::{PRESETS, Preset, known_provider};
use pincer_runtime::ModelSetup;
use tokio::time::timeout;

use super::choice::ranked;
use crate::commands::mcp::importable;
use crate::print::harmless;

/// How long a server on this machine may take to list its models.
const LOCAL_PATIENCE: Duration = Duration::from_millis(500);
/// How long a provider may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Names other model servers than the usual ones, as `name=url,…`, which get as long as a provider. For tests.
const LOCAL_VARIABLE: &str = "PINCER_INIT_LOCAL";

/// A provider whose key is set.
pub(super) struct Keyed {
    pub id: String,
    /// The variable that has the key.
    pub variable: &'static str,
    /// Its models, the best guess first; or why they are not known.
    pub models: Result<Vec<String>, String>,
}

/// A model server on this machine.
pub(super) struct Local {
    pub id: String,
    pub url: String,
    /// Its models, the best guess first.
    pub models: Vec<String>,
}

/// All that was found.
pub(super) struct Found {
    pub keyed: Vec<Keyed>,
    pub local: Vec<Local>,
    /// With the number of servers of each.
    pub clients: Vec<(Client, usize)>,
    /// The way to the providers.
    pub setup: ModelSetup,
}

impl Found {
    /// Looks for everything at once.
    pub(super) async fn look(state: Option<&Path>) -> Self {
        let (places, patience) = local_places();
        let mut loaded = Loaded::default();
        loaded.parsed.config.models.providers = places.iter().map(|(id, url)| (id.clone(), entry(url))).collect();
        let setup = ModelSetup::new(&loaded, state);
        let keyed = PRESETS.iter().filter_map(|preset| Some((preset, set_variable(preset)?)));
        let keyed = join_all(keyed.map(|(preset, variable)| ask(&setup, preset, variable)));
        let local = join_all(places.into_iter().map(|(id, url)| answers(&setup, id, url, patience)));
        let (keyed, local) = tokio::join!(keyed, local);
        Self { keyed, local: local.into_iter().flatten().collect(), clients: importable(), setup }
    }

    /// Returns the models of each provider that has told some.
    pub(super) fn models(&self) -> Vec<(&str, &[String])> {
        let keyed = self.keyed.iter().filter_map(|keyed| Some((keyed.id.as_str(), keyed.models.as_deref().ok()?)));
        let local = self.local.iter().map(|local| (local.id.as_str(), local.models.as_slice()));
        keyed.chain(local).filter(|(_, models)| !models.is_empty()).collect()
    }
}

/// Returns the variable of a preset that is set.
pub(super) fn set_variable(preset: &Preset) -> Option<&'static str> {
    let is_set = |name: &&&str| env::var(name).is_ok_and(|value| !value.trim().is_empty());
    preset.variables.iter().find(is_set).copied()
}

/// Returns where model servers usually are, and how long each may take: those of the well-known providers that need no key.
fn local_places() -> (Vec<(String, String)>, Duration) {
    match env::var(LOCAL_VARIABLE) {
        Ok(named) => {
            let pair = |text: &str| text.split_once('=').map(|(id, url)| (id.trim().to_owned(), url.trim().to_owned()));
            (named.split(',').filter_map(pair).collect(), PATIENCE)
        }
        Err(_) => {
            let local = PRESETS.iter().filter(|preset| preset.variables.is_empty());
            let local = local.map(|preset| (preset.id.to_owned(), preset.base_url.to_owned()));
            (local.collect(), LOCAL_PATIENCE)
        }
    }
}

fn entry(url: &str) -> ModelProvider {
    let api = Some(ModelApi::OpenaiCompletions);
    ModelProvider { base_url: Some(url.to_owned()), api, ..ModelProvider::default() }
}

async fn ask(setup: &ModelSetup, preset: &Preset, variable: &'static str) -> Keyed {
    let listed = match setup.provider(preset.id) {
        Ok(provider) => match timeout(PATIENCE, setup.models().list(&provider)).await {
            Ok(listed) => listed.map_err(|error| format!("{}: {}", harmless(&error.message), error.kind.remedy())),
            Err(_) => Err(format!("it has not answered within {} s", PATIENCE.as_secs())),
        },
        Err(error) => Err(error.to_string()),
    };
    Keyed { id: preset.id.to_owned(), variable, models: listed.map(|listed| ranked(preset.id, listed)) }
}

/// A server that does not list models is none.
async fn answers(setup: &ModelSetup, id: String, url: String, patience: Duration) -> Option<Local> {
    let provider = setup.provider(&id).ok()?;
    let listed = timeout(patience, setup.models().list(&provider)).await.ok()?.ok()?;
    Some(Local { models: ranked(&id, listed), id, url })
}

/// Returns the variables of a provider, if it is a well-known one that needs a key and has none.
pub(super) fn missing_key(id: &str) -> Option<String> {
    let preset = known_provider(id).filter(|preset| !preset.variables.is_empty() && set_variable(preset).is_none())?;
    Some(preset.variables.join(" or "))
}
