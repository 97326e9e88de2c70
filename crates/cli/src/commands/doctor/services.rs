//! Checks of what Pincer connects to: providers of models, the models of agents, and MCP servers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use pincer_config::{Config, Loaded};
use pincer_mcp::{Sampling, Server};
use pincer_model::{ErrorKind, ModelError};
use pincer_runtime::{ModelSetup, mcp_servers, redactor};
use tokio::time::timeout;

use super::Watch;
use super::check::Check;
use crate::print::count;

/// How long looking up the key of a provider, and its answer, may each take.
const PROVIDER_PATIENCE: Duration = Duration::from_secs(15);
/// How long an MCP server may take beyond the time it has for its start.
const SERVER_PATIENCE: Duration = Duration::from_secs(5);

/// Whether anything beyond this process is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Everything,
    Offline,
}

/// Why a provider is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// The config or an agent names it.
    Named,
    /// Only its key is in the environment.
    Detected,
}

/// The models that a provider has listed, if it has.
type Listed = Option<Vec<String>>;

/// Checks the providers, and then the models of agents, as far as the providers' lists tell.
pub(super) async fn models(loaded: &Loaded, state: Option<&Path>, reach: Reach, watch: &Watch) -> Vec<Check> {
    let setup = ModelSetup::new(loaded, state);
    let choices = choices(&loaded.parsed.config);
    let mut ids: BTreeMap<String, Need> = setup.providers().into_iter().map(|id| (id, Need::Detected)).collect();
    let named = choices.iter().flat_map(|(_, names)| names).filter_map(|name| Some(name.split_once('/')?.0));
    // Those that are no provider at all are told with the model.
    let named =
        named.filter(|id| setup.provider(id).is_ok() || loaded.parsed.config.models.providers.contains_key(*id));
    let named = named.chain(loaded.parsed.config.models.providers.keys().map(String::as_str));
    ids.extend(named.map(|id| (id.to_owned(), Need::Named)));
    let setup = &setup;
    let asked = ids.iter().map(|(id, need)| async move {
        let name = format!("provider:{id}");
        watch.during(&name, provider(setup, id, *need, reach)).await
    });
    let asked = join_all(asked).await;
    let listed: BTreeMap<&str, &Listed> = ids.keys().map(String::as_str).zip(asked.iter().map(|(_, l)| l)).collect();
    let models: Vec<Check> = choices.iter().map(|(agent, names)| model(setup, agent, names, &listed)).collect();
    asked.iter().map(|(check, _)| check.clone()).chain(models).collect()
}

/// Returns the models of all agents, and then of each agent that has its own.
fn choices(config: &Config) -> Vec<(String, Vec<String>)> {
    let names = |agent: Option<&str>| -> Vec<String> {
        let choice = config.agent_setting(agent, |agent| agent.model.clone());
        choice.iter().flat_map(|choice| choice.all().map(str::to_owned)).collect()
    };
    let own = config.agents.iter().filter(|(id, agent)| *id != Config::DEFAULTS && agent.model.is_some());
    let own = own.map(|(id, _)| (format!("model:{id}"), names(Some(id))));
    std::iter::once(("model".to_owned(), names(None))).chain(own).collect()
}

async fn provider(setup: &ModelSetup, id: &str, need: Need, reach: Reach) -> (Check, Listed) {
    let name = format!("provider:{id}");
    let bad = |message: String, remedy: String| match need {
        Need::Named => Check::fail(&name, message, remedy),
        Need::Detected => Check::warn(&name, message, remedy),
    };
    let late = || {
        let seconds = PROVIDER_PATIENCE.as_secs();
        bad(
            format!("{id} has not answered within {seconds} s"),
            "check the network, and the provider's `baseUrl`".into(),
        )
    };
    let refused = |error: &ModelError| bad(format!("{id}: {}", error.message), error.kind.remedy().to_owned());
    let provider = match setup.provider(id) {
        Ok(provider) => provider,
        Err(error) => return (bad(error.to_string(), format!("correct models.providers.{id}")), None),
    };
    let api = provider.api.name();
    match timeout(PROVIDER_PATIENCE, setup.models().key(&provider)).await {
        Err(_) => return (late(), None),
        Ok(Err(error)) => return (refused(&error), None),
        Ok(Ok(_)) if reach == Reach::Offline => {
            return (Check::ok(&name, format!("{id} has what it needs ({api}), and was not asked")), None);
        }
        Ok(Ok(_)) => {}
    }
    match timeout(PROVIDER_PATIENCE, setup.models().list(&provider)).await {
        Err(_) => (late(), None),
        Ok(Ok(list)) => {
            (Check::ok(&name, format!("{id} answers ({api}), and lists {}", count(list.len(), "model"))), Some(list))
        }
        // Some servers have models, but no list of them.
        Ok(Err(error)) if error.kind == ErrorKind::NotFound => {
            let message = format!("{id} answers ({api}), but has no list of models: {}", error.message);
            (Check::warn(&name, message, "see whether `pincer models test` works; if not, check its `baseUrl`"), None)
        }
        Ok(Err(error)) => (refused(&error), None),
    }
}

/// Checks the models of one agent. Providers that do not work have their own check.
fn model(setup: &ModelSetup, name: &str, names: &[String], listed: &BTreeMap<&str, &Listed>) -> Check {
    if names.is_empty() {
        let remedy = "set `agents.defaults.model` in the config to one of those that `pincer models list` shows";
        return Check::warn(name, "no model is set for agents", remedy);
    }
    let wrong: Vec<String> = names.iter().filter_map(|name| setup.target(name).err().map(|e| e.to_string())).collect();
    if !wrong.is_empty() {
        return Check::fail(name, wrong.join("\n"), "correct the model in the config; `pincer models list` shows them");
    }
    let is_missing = |name: &&String| {
        let Some((provider, model)) = name.split_once('/') else { return false };
        let known = listed.get(provider).and_then(|listed| listed.as_ref());
        known.is_some_and(|known| !known.iter().any(|known| known == model))
    };
    let missing: BTreeSet<&str> = names.iter().filter(is_missing).map(String::as_str).collect();
    if missing.is_empty() {
        return Check::ok(name, format!("agents use {}", names.join(", then ")));
    }
    let missing = missing.into_iter().collect::<Vec<_>>().join(", ");
    let remedy =
        "`pincer models list` shows what the provider has; `pincer models test` tells whether it answers anyway";
    Check::warn(name, format!("{missing} is not in the list of its provider"), remedy)
}

/// Checks the MCP servers of the config: each is started, and lists its tools.
pub(super) async fn servers(loaded: &Loaded, state: Option<&Path>, reach: Reach, watch: &Watch) -> Vec<Check> {
    let configured = &loaded.parsed.config.mcp.servers;
    if configured.is_empty() {
        return vec![Check::ok("mcp", "there are no MCP servers")];
    }
    let servers = mcp_servers(loaded, state, Sampling::Refuse);
    let (known, hiding) = (&servers, &redactor(&loaded.parsed.config));
    let checks = configured.iter().map(|(id, entry)| async move {
        let (name, server) = (format!("mcp:{id}"), format!("the MCP server {id}"));
        // Only those that are turned on are there.
        let Some(running) = known.get(id) else { return Check::ok(name, format!("{server} is turned off")) };
        if let Some(why) = entry.unusable() {
            return Check::fail(name, format!("{server} {why}"), "set what is missing, or turn the server off");
        }
        if reach == Reach::Offline {
            return Check::ok(name, format!("{server} was not started"));
        }
        let Check { name, verdict, message } = watch.during(&name, started(running)).await;
        Check { name, verdict, message: hiding.text(&message) }
    });
    let checks = join_all(checks).await;
    servers.end().await;
    checks
}

async fn started(server: &Arc<Server>) -> Check {
    let id = server.name();
    let name = format!("mcp:{id}");
    let remedy = format!("`pincer mcp test {id}` tells more; to do without it, set mcp.servers.{id}.enabled to false");
    let patience = server.settings().connect_timeout + SERVER_PATIENCE;
    match timeout(patience, server.refresh()).await {
        Err(_) => Check::fail(
            name,
            format!("the MCP server {id} has not listed its tools within {} s", patience.as_secs()),
            remedy,
        ),
        Ok(Err(why)) => Check::fail(name, format!("the MCP server {id} {why}"), remedy),
        Ok(Ok(listing)) => {
            let tools = count(listing.tools.len(), "tool");
            let remarks = match listing.remarks.len() {
                0 => String::new(),
                remarks => format!(", with {} that `pincer mcp test {id}` shows", count(remarks, "remark")),
            };
            Check::ok(name, format!("the MCP server {id} lists {tools}{remarks}"))
        }
    }
}
