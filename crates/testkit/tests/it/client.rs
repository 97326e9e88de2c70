//! Pincer's client and the fixture, in the revision without sessions.

use std::sync::Arc;

use pincer_catalog::{Catalog, Policy};
use pincer_config::Loaded;
use pincer_config::keys::McpServer;
use pincer_mcp::{Greeting, Sampling};
use pincer_runtime::mcp_servers;
use pincer_store_sqlite::SqliteStore;
use pincer_tools::{BoxFuture, Call, Context, Door, Request, RunCatalog, UpdateSink};
use serde_json::{Value, json};

struct Person;

impl UpdateSink for Person {
    fn update(&self, _: Value) {}

    fn ask(&self, request: Request) -> BoxFuture<'_, Option<Value>> {
        let answer = match request.method {
            "elicitation/create" => {
                json!({ "action": "accept", "content": { "name": "Ada", "color": "blue", "ok": true } })
            }
            _ => json!({ "role": "assistant", "content": { "type": "text", "text": "Paris" }, "model": "none" }),
        };
        Box::pin(std::future::ready(Some(answer)))
    }
}

#[tokio::test]
async fn tools_that_ask_for_input_get_it() {
    let state = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_mcp-fixture").to_owned();
    let server = McpServer {
        command: Some(program),
        args: vec!["stdio".into()],
        roots: vec![".".into()],
        ..McpServer::default()
    };
    let mut loaded = Loaded::default();
    loaded.parsed.config.workspace = Some(state.path().display().to_string());
    loaded.parsed.config.mcp.servers.insert("fixture".to_owned(), server);
    let servers = mcp_servers(&loaded, None, Sampling::Pass);
    let door = Arc::new(Door::builder().build(Arc::new(SqliteStore::open(&state.path().join("store")).unwrap())));
    servers.attach(&door);
    let server = servers.get("fixture").unwrap();
    server.expect(Greeting::Discover).await;
    let listing = server.refresh().await.unwrap();
    assert_eq!(listing.info.protocol_version.as_str(), "2026-07-28");
    servers.ready().await;

    let scope = RunCatalog::new(&Catalog::new(door.entries()).unwrap(), &Policy::open());
    let cases = [
        ("elicitation", "Hello, Ada!"),
        ("sampling", "Paris"),
        ("list_roots", "Roots: [{"),
        ("request_state", "state-ok"),
        ("multiple_inputs", "All three were given."),
        ("multi_round", "blue it is."),
        ("capabilities", "Nothing more is needed."),
    ];
    for (seq, (tool, expected)) in (0..).zip(cases) {
        let tool = format!("mcp:fixture:test_input_required_result_{tool}");
        let call = Call {
            id: format!("call-{seq}").into(),
            seq,
            tool: tool.clone(),
            input: json!({}).into(),
            ..Call::default()
        };
        let outcome = door.call(&scope, &Context::default(), call, Arc::new(Person)).await;
        let value = outcome.value().unwrap();
        let text = value["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with(expected), "{tool}: {text}");
    }
    servers.end().await;
}
