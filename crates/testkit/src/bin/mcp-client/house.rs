//! One server in a config, the door before it, and a person who logs in when told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pincer_catalog::{Catalog, Policy};
use pincer_config::Loaded;
use pincer_config::keys::{McpAuth, McpServer};
use pincer_mcp::{Greeting, Logins, Reach, Remote, Sampling, Server, Servers, login};
use pincer_runtime::{mcp_server, mcp_servers};
use pincer_store_sqlite::SqliteStore;
use pincer_tools::{Call, Context, Door, RunCatalog};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::browser::visit;
use crate::caller::Obliging;
use crate::inputs::input;

const NAME: &str = "suite";
/// Somebody who is told to log in again and again gives up.
const MOST_LOGINS: usize = 3;
/// The document that the suite accepts as a client's id.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// What the suite says.
pub(crate) struct Scenario {
    pub name: String,
    /// The revision that is spoken.
    pub revision: String,
    pub url: String,
    pub context: Value,
}

pub(crate) struct House {
    servers: Servers,
    door: Arc<Door>,
    remote: Remote,
    logins: Logins,
    logged_in: AtomicUsize,
    _state: TempDir,
}

impl House {
    pub(crate) async fn new(scenario: &Scenario) -> Result<Self, String> {
        let state = tempfile::tempdir().map_err(|error| error.to_string())?;
        let directory = state.path();
        let mut loaded = Loaded::default();
        loaded.parsed.config.workspace = Some(directory.display().to_string());
        loaded.parsed.config.mcp.servers.insert(NAME.to_owned(), config(scenario));
        let settings = mcp_server(&loaded, Some(directory), NAME).ok_or("the server is not there")?;
        let Reach::Address(address) = &settings.reach else { return Err("the server has no address".into()) };
        let remote = Remote::new(NAME, address, settings.connect_timeout).map_err(|error| error.to_string())?;
        let servers = mcp_servers(&loaded, Some(directory), Sampling::Pass);
        let store = SqliteStore::open(&directory.join("store.sqlite")).map_err(|error| error.to_string())?;
        let door = Arc::new(Door::builder().build(Arc::new(store)));
        servers.attach(&door);
        let logins = Logins::new(directory);
        let house = Self { servers, door, remote, logins, logged_in: AtomicUsize::new(0), _state: state };
        // The suite has servers of one revision only, and takes a look at every message.
        if scenario.revision.as_str() >= "2026-07-28" {
            house.server()?.expect(Greeting::Discover).await;
        }
        Ok(house)
    }

    fn server(&self) -> Result<&Arc<Server>, String> {
        self.servers.get(NAME).ok_or_else(|| "the server is not there".to_owned())
    }

    /// Asks the server what it has.
    pub(crate) async fn listed(&self) -> Result<(), String> {
        loop {
            match self.server()?.refresh().await {
                Ok(_) => break,
                Err(error) => self.oblige(error.to_string()).await?,
            }
        }
        // Sees to it that all of it is at the door.
        self.servers.ready().await;
        Ok(())
    }

    /// The calls to make: those that the suite wants, or else one of each kind.
    pub(crate) fn calls(&self, context: &Value) -> Vec<(String, Value)> {
        if let Some(wanted) = context.get("toolCalls").and_then(Value::as_array) {
            let call = |call: &Value| Some((call.get("name")?.as_str()?.to_owned(), said(call.get("arguments")?)));
            return wanted.iter().filter_map(call).collect();
        }
        let entries = self.servers.entries();
        // It wants to see what has become of the schema of the other one.
        if let Some(echo) = entries.iter().find(|entry| entry.id.name() == "json_schema_echo") {
            let others = entries.iter().filter(|entry| entry.id != echo.id);
            return others.map(|other| (echo.id.name().to_owned(), json!({ "schema": other.input_schema }))).collect();
        }
        // What can be read and got is not known before it is listed.
        let later = |name: &str| matches!(name, "resources/read" | "prompts/get" | "completion/complete");
        let all = entries.iter().filter(|entry| !later(entry.id.name()));
        all.map(|entry| (entry.id.name().to_owned(), input(&entry.input_schema))).collect()
    }

    /// Makes a call, and those that it leads to.
    pub(crate) async fn called(&self, tool: &str, input: Value) -> Result<Value, String> {
        let value = self.made(tool, input).await?;
        let (list, key, then) = match tool {
            "resources/list" => ("resources", "uri", "resources/read"),
            "prompts/list" => ("prompts", "name", "prompts/get"),
            _ => return Ok(value),
        };
        for item in value.get(list).and_then(Value::as_array).into_iter().flatten() {
            self.made(then, json!({ key: item.get(key) })).await?;
        }
        Ok(value)
    }

    async fn made(&self, tool: &str, input: Value) -> Result<Value, String> {
        loop {
            let catalog = Catalog::new(self.door.entries()).map_err(|error| error.to_string())?;
            let scope = RunCatalog::new(&catalog, &Policy::open());
            let tool = format!("mcp:{NAME}:{tool}");
            let call = Call { id: "call".into(), tool, input: input.clone().into(), ..Call::default() };
            let outcome = self.door.call(&scope, &Context::default(), call, Arc::new(Obliging)).await;
            match outcome.value() {
                Ok(value) => return Ok(value),
                Err(error) => self.oblige(error.message).await?,
            }
        }
    }

    /// Does what a message tells people to do, if it tells them anything.
    async fn oblige(&self, message: String) -> Result<(), String> {
        eprintln!("mcp-client: {message}");
        let told = message.contains(&format!("pincer mcp login {NAME}"));
        if !told || self.logged_in.fetch_add(1, Ordering::Relaxed) >= MOST_LOGINS {
            return Err(message);
        }
        let page = |url: &str| drop(tokio::spawn(visit(url.to_owned())));
        login(&self.remote, &self.logins, page).await.map(drop).map_err(|error| error.to_string())
    }

    pub(crate) async fn end(&self) {
        self.servers.end().await;
    }
}

/// Arguments without those that say nothing: the door wants values of the right type, or none.
fn said(arguments: &Value) -> Value {
    let all = arguments.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    Value::Object(all.map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn config(scenario: &Scenario) -> McpServer {
    let text = |key: &str| scenario.context.get(key).and_then(Value::as_str).map(str::to_owned);
    let document = (scenario.name == "auth/basic-cimd").then(|| CLIENT_DOCUMENT.to_owned());
    let auth = McpAuth {
        client_id: text("client_id").or(document),
        client_secret: text("client_secret"),
        ..McpAuth::default()
    };
    McpServer { url: Some(scenario.url.clone()), auth, ..McpServer::default() }
}
