//! Servers for the tests, on real sockets.

#![allow(dead_code, reason = "each test file uses its own part of this")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

pub(crate) mod authority;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use pincer_mcp::{Address, Logins, Remote, Speaks, Wire, explain_call, explain_start, opened};
use rmcp::handler::server::ServerHandler;
use rmcp::model::{ClientRequest, ListToolsRequest, ListToolsResult, PaginatedRequestParams, Tool};
use rmcp::service::{RequestContext, RunningService, ServiceError};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleClient, RoleServer, ServiceExt};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(crate) const MIB: usize = 1 << 20;
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that ends with the test.
pub(crate) struct Served {
    pub origin: String,
    task: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) async fn serve(router: Router) -> Served {
    serve_at(listener().await, router)
}

pub(crate) async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

pub(crate) fn serve_at(listener: TcpListener, router: Router) -> Served {
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    Served { origin, task }
}

/// One handler for everything that is asked.
pub(crate) async fn answer(with: impl Fn(Request<Body>) -> Response<Body> + Clone + Send + Sync + 'static) -> Served {
    serve(Router::new().fallback(move |request: Request<Body>| async move { with(request) })).await
}

pub(crate) fn response(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body.into()).unwrap()
}

pub(crate) fn json(value: &serde_json::Value) -> Response<Body> {
    response(200, &[("content-type", "application/json")], value.to_string())
}

#[derive(Clone)]
struct Notes;

impl ServerHandler for Notes {
    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![Tool::new("read", "Reads a note.", serde_json::Map::new())]))
    }
}

/// A streamable HTTP server with one tool.
pub(crate) fn notes() -> StreamableHttpService<impl ServerHandler, LocalSessionManager> {
    StreamableHttpService::new(
        || Ok(Notes),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    )
}

/// A server by its URL.
pub(crate) fn address(url: &str) -> Address {
    Address { url: url.into(), ..Address::default() }
}

pub(crate) fn remote(url: &str) -> Remote {
    remote_at(&address(url))
}

pub(crate) fn remote_at(address: &Address) -> Remote {
    remote_within(address, CONNECT_TIMEOUT)
}

pub(crate) fn remote_within(address: &Address, connect_timeout: Duration) -> Remote {
    Remote::new("notes", address, connect_timeout).unwrap()
}

pub(crate) fn state() -> (TempDir, Logins) {
    let state = tempfile::tempdir().unwrap();
    let logins = Logins::new(state.path());
    (state, logins)
}

pub(crate) type Client = RunningService<RoleClient, ()>;

pub(crate) async fn connect(remote: &Remote, logins: &Logins) -> Result<Client, String> {
    let wire = Wire::to(remote, Some(logins)).await.map_err(|error| error.to_string())?;
    let trouble = wire.trouble();
    ().serve(wire).await.map_err(|error| explain_start(&error, &trouble))
}

/// Connects and asks for the tools.
pub(crate) async fn tools(remote: &Remote, logins: &Logins) -> Result<Vec<String>, String> {
    let wire = Wire::to(remote, Some(logins)).await.map_err(|error| error.to_string())?;
    let trouble = wire.trouble();
    let client = ().serve(wire).await.map_err(|error| explain_start(&error, &trouble))?;
    let tools = list(&client).await.map_err(|error| explain_call(&error, &trouble));
    client.cancel().await.unwrap();
    tools
}

/// The names of a server's tools. Results come as they were sent.
pub(crate) async fn list(client: &Client) -> Result<Vec<String>, ServiceError> {
    let request = ClientRequest::ListToolsRequest(ListToolsRequest::default());
    let result: Value = opened(client.send_request(request).await?).unwrap().to().unwrap();
    let names = result["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
    Ok(names.collect())
}

pub(crate) fn streamable(url: &str) -> Address {
    Address { speaks: Speaks::Streamable, ..address(url) }
}

pub(crate) async fn refused(address: &Address) -> String {
    refused_within(address, CONNECT_TIMEOUT).await
}

pub(crate) async fn refused_within(address: &Address, connect_timeout: Duration) -> String {
    let (_state, logins) = state();
    tools(&remote_within(address, connect_timeout), &logins).await.unwrap_err()
}

/// Says `initialize` rightly, and gives everything else to `then`.
pub(crate) async fn begun(then: impl Fn(Value) -> Response<Body> + Clone + Send + Sync + 'static) -> Served {
    let router = Router::new().fallback(move |request: Request<Body>| async move {
        if request.method() != "POST" {
            return response(405, &[], "");
        }
        let body = axum::body::to_bytes(request.into_body(), MIB).await.unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap();
        match message["method"].as_str() {
            Some("initialize") => json(&serde_json::json!({ "jsonrpc": "2.0", "id": message["id"], "result": {
                "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": { "name": "n", "version": "1" },
            } })),
            Some("notifications/initialized") => response(202, &[], ""),
            _ => then(message),
        }
    });
    serve(router).await
}
