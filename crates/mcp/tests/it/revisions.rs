//! Servers of 2026-07-28: how they are greeted, what they ask for, and which arguments are headers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};

use crate::common::settings::{by_url, by_words, identified};
use crate::common_oauth::{MIB, Served, json as answered, response, serve};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response};
use pincer_catalog::{Catalog, Policy};
use pincer_mcp::{Greeting, Server, ServerSettings, Servers};
use pincer_store_sqlite::SqliteStore;
use pincer_tools::{BoxFuture, Call, CallError, Context, Door, Effect, RunCatalog, UpdateSink};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server that is given its answers: a result, or an error with a status.
type Says = fn(&Value) -> Result<Value, (u16, i32)>;

/// A message: its method, its params, and arguments among its headers.
type Message = (String, Value, Vec<String>);

struct Heard {
    served: Served,
    messages: Arc<Mutex<Vec<Message>>>,
}

impl Heard {
    async fn from(says: Says) -> Self {
        let messages: Arc<Mutex<Vec<_>>> = Arc::default();
        let heard = Arc::clone(&messages);
        let router = Router::new().fallback(move |request: Request<Body>| {
            let heard = Arc::clone(&heard);
            async move { hear(says, &heard, request).await }
        });
        Self { served: serve(router).await, messages }
    }

    fn methods(&self) -> Vec<String> {
        self.messages.lock().unwrap().drain(..).map(|(method, ..)| method).collect()
    }
}

async fn hear(says: Says, heard: &Mutex<Vec<Message>>, request: Request<Body>) -> Response<Body> {
    if request.method() != "POST" {
        return response(405, &[], "");
    }
    let (head, body) = request.into_parts();
    let message: Value = serde_json::from_slice(&to_bytes(body, MIB).await.unwrap()).unwrap();
    let mirrored = head.headers.iter().filter(|(name, _)| name.as_str().starts_with("mcp-param-"));
    let mirrored = mirrored.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    heard.lock().unwrap().push((message["method"].as_str().unwrap().to_owned(), message["params"].clone(), mirrored));
    if message.get("id").is_none() {
        return response(202, &[], "");
    }
    match says(&message) {
        Ok(result) => answered(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })),
        Err((status, code)) => {
            let error = json!({ "code": code, "message": "not with me" });
            let error = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
            response(status, &[("content-type", "application/json")], error.to_string())
        }
    }
}

fn discovered() -> Value {
    json!({
        "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "supportedVersions": ["2026-07-28"],
        "capabilities": { "tools": {} }, "serverInfo": { "name": "new", "version": "1" },
    })
}

fn listed(tools: &Value) -> Value {
    json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools })
}

fn one_tool() -> Value {
    json!([{ "name": "ask", "inputSchema": { "type": "object" } }])
}

fn done(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

/// Only what came with 2026-07-28, with this error for the rest.
fn new_only(message: &Value, refusal: (u16, i32)) -> Result<Value, (u16, i32)> {
    match message["method"].as_str().unwrap() {
        "server/discover" => Ok(discovered()),
        "tools/list" => Ok(listed(&one_tool())),
        _ => Err(refusal),
    }
}

struct House {
    servers: Servers,
    door: Arc<Door>,
    state: Arc<TempDir>,
}

/// A house with one server. Houses of one state remember what others have seen.
fn house(server: ServerSettings, state: Arc<TempDir>) -> House {
    let servers = Servers::new([identified(server)], Some(state.path().to_owned()));
    let store = SqliteStore::open(&state.path().join("store")).unwrap();
    let door = Arc::new(Door::builder().build(Arc::new(store)));
    servers.attach(&door);
    House { servers, door, state }
}

fn new_house(heard: &Heard) -> House {
    house(by_url("new", &heard.served.origin), Arc::new(tempfile::tempdir().unwrap()))
}

/// Whoever makes the calls, and writes down what is asked.
#[derive(Default)]
struct Person(Mutex<Vec<Value>>);

impl UpdateSink for Person {
    fn update(&self, _: Value) {}

    fn ask(&self, request: pincer_tools::Request) -> BoxFuture<'_, Option<Value>> {
        self.0.lock().unwrap().push(json!([request.from, request.method, request.params["message"]]));
        Box::pin(std::future::ready(Some(json!({ "action": "accept", "content": { "name": "Ada" } }))))
    }
}

impl House {
    fn server(&self) -> &Arc<Server> {
        self.servers.get("new").unwrap()
    }

    async fn call(&self, input: Value, person: &Arc<Person>) -> Result<Value, (CallError, Effect)> {
        self.server().refresh().await.unwrap();
        self.servers.ready().await;
        let scope = RunCatalog::new(&Catalog::new(self.door.entries()).unwrap(), &Policy::open());
        let call = Call { id: "1".into(), tool: "mcp:new:ask".into(), input: input.into(), ..Call::default() };
        let person: Arc<dyn UpdateSink> = Arc::clone(person) as _;
        let outcome = self.door.call(&scope, &Context::default(), call, person).await;
        let effect = outcome.effect;
        outcome.value().map_err(|error| (error, effect))
    }
}

#[tokio::test]
async fn a_server_that_knows_no_initialize_is_discovered_and_remembered() {
    let refusals: [Says; 3] = [
        |message| new_only(message, (200, -32601)),
        |message| new_only(message, (404, -32601)),
        |message| new_only(message, (400, -32022)),
    ];
    for says in refusals {
        let heard = Heard::from(says).await;
        let first = new_house(&heard);
        let listing = first.server().refresh().await.unwrap();
        assert_eq!(listing.info.protocol_version.as_str(), "2026-07-28");
        first.servers.end().await;
        let methods = heard.methods();
        assert_eq!(methods[..3], ["initialize", "server/discover", "tools/list"]);

        let second = house(by_url("new", &heard.served.origin), first.state);
        second.server().refresh().await.unwrap();
        assert_eq!(heard.methods()[0], "server/discover");
    }
}

#[tokio::test]
async fn a_server_that_knows_no_discover_any_more_is_initialized() {
    let heard = Heard::from(|message| match message["method"].as_str().unwrap() {
        "initialize" => Ok(json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "old", "version": "1" },
        })),
        "tools/list" => Ok(json!({ "tools": [] })),
        _ => Err((400, -32000)),
    })
    .await;
    let house = new_house(&heard);
    house.server().expect(Greeting::Discover).await;
    house.server().refresh().await.unwrap();
    assert_eq!(heard.methods()[..2], ["server/discover", "initialize"]);
}

#[tokio::test]
async fn of_a_server_that_knows_neither_the_first_answer_is_told() {
    let heard = Heard::from(|_| Err((200, -32601))).await;
    let why = new_house(&heard).server().refresh().await.unwrap_err();
    assert_eq!(why.to_string(), "answered with error -32601: not with me");
    assert_eq!(heard.methods(), ["initialize", "server/discover"]);
}

/// A program that ends at this message, after saying no to it or not.
fn program(ends_at: &str, says: &str, state: &TempDir) -> ServerSettings {
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "old", "version": "1" },
    });
    let script = format!(
        r#"
        answer() {{ printf '{{"jsonrpc":"2.0","id":%s,%s}}\n' "$id" "$1"; }}
        while read -r line; do
            id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
            case "$line" in
                *'"{ends_at}"'*) {says} exit 1;;
                *'"initialize"'*) answer '"result":{hello}';;
                *'"server/discover"'*) answer '"result":{}';;
                *'"tools/list"'*) answer '"result":{}';;
            esac
        done"#,
        discovered(),
        listed(&one_tool()),
    );
    by_words("new", &["sh", "-c", &script], state.path(), state.path())
}

#[tokio::test]
async fn a_program_that_ends_at_one_greeting_is_started_again_for_the_other() {
    let refuses = r#"answer '"error":{"code":-32601,"message":"no"}';"#;
    let cases = [
        (Greeting::Initialize, "initialize", refuses, "2026-07-28"),
        (Greeting::Discover, "server/discover", refuses, "2025-11-25"),
        (Greeting::Discover, "server/discover", "", "2025-11-25"),
    ];
    for (first, ends_at, says, revision) in cases {
        let state = tempfile::tempdir().unwrap();
        let house = house(program(ends_at, says, &state), Arc::new(state));
        house.server().expect(first).await;
        let listing = house.server().refresh().await.unwrap();
        assert_eq!((listing.info.protocol_version.as_str(), listing.tools.len()), (revision, 1));
        house.servers.end().await;
    }
    // To somebody who ends without a word before the first greeting, there is nothing more to say.
    let state = tempfile::tempdir().unwrap();
    let house = house(program("initialize", "", &state), Arc::new(state));
    assert_eq!(house.server().refresh().await.unwrap_err().to_string(), "ended (exit status: 1)");
}

#[tokio::test]
async fn input_that_is_required_is_asked_for_and_sent_with_the_state() {
    let heard = Heard::from(|message| {
        if message["method"] != "tools/call" {
            return new_only(message, (200, -32601));
        }
        let params = &message["params"];
        match (params["requestState"].as_str(), params["inputResponses"]["who"]["content"]["name"].as_str()) {
            (Some("sealed"), Some(name)) if params["inputResponses"]["where"]["roots"].is_array() => {
                Ok(done(&format!("Hello, {name}")))
            }
            _ => Ok(json!({
                "resultType": "input_required", "requestState": "sealed", "inputRequests": {
                    "who": { "method": "elicitation/create", "params": { "message": "Who?", "requestedSchema": {} } },
                    "where": { "method": "roots/list" },
                },
            })),
        }
    })
    .await;
    let person = Arc::new(Person::default());
    let value = new_house(&heard).call(json!({ "a": 1 }), &person).await.unwrap();
    assert_eq!(value["content"][0]["text"], "Hello, Ada");
    assert_eq!(*person.0.lock().unwrap(), [json!(["new", "elicitation/create", "Who?"])]);
    let calls: Vec<Value> =
        heard.messages.lock().unwrap().iter().map(|(_, params, _)| params["arguments"].clone()).collect();
    assert_eq!(calls.iter().filter(|arguments| **arguments == json!({ "a": 1 })).count(), 2);
}

#[tokio::test]
async fn a_server_that_asks_for_ever_or_for_what_it_cannot_have_fails_the_call() {
    type Case = (Says, usize, &'static str);
    let cases: [Case; 3] = [
        (
            |message| match message["method"].as_str() {
                Some("tools/call") => Ok(json!({ "resultType": "input_required", "requestState": "again" })),
                _ => new_only(message, (200, -32601)),
            },
            9,
            "the MCP server new asked for input more than 8 times, in the middle of the call",
        ),
        (
            |message| match message["method"].as_str() {
                Some("tools/call") => Ok(json!({ "resultType": "input_required", "inputRequests": {
                    "a": { "method": "sampling/createMessage", "params": {} },
                } })),
                _ => new_only(message, (200, -32601)),
            },
            1,
            "the MCP server new asked for a model's answer, but sampling is refused: the config says so, in the middle of the call",
        ),
        (
            |message| match message["method"].as_str() {
                Some("tools/call") => {
                    Ok(json!({ "resultType": "input_required", "inputRequests": { "a": { "method": "files/read" } } }))
                }
                _ => new_only(message, (200, -32601)),
            },
            1,
            "the MCP server new asked for `files/read`, which Pincer does not know, in the middle of the call",
        ),
    ];
    for (says, calls, expected) in cases {
        let heard = Heard::from(says).await;
        let (error, effect) = new_house(&heard).call(json!({}), &Arc::default()).await.unwrap_err();
        assert_eq!((error.message.as_str(), effect), (expected, Effect::Unknown));
        assert_eq!(heard.methods().iter().filter(|method| *method == "tools/call").count(), calls);
    }
}

#[tokio::test]
async fn arguments_are_headers_where_a_schema_says_so_rightly() {
    let heard = Heard::from(|message| match message["method"].as_str() {
        Some("tools/call") => Ok(done("")),
        Some("tools/list") => {
            let marked = |name: &str, kind: &str| {
                let properties = json!({ "region": { "type": kind, "x-mcp-header": "Region" } });
                json!({ "name": name, "inputSchema": { "type": "object", "properties": properties } })
            };
            Ok(listed(&json!([marked("ask", "string"), marked("wrong", "object")])))
        }
        _ => new_only(message, (200, -32601)),
    })
    .await;
    let house = new_house(&heard);
    house.call(json!({ "region": "Zürich" }), &Arc::default()).await.unwrap();
    let sent = heard.messages.lock().unwrap().pop().unwrap();
    assert_eq!(sent.2, ["mcp-param-region: =?base64?WsO8cmljaA==?="]);
    let listing = house.server().seen().listing.unwrap();
    assert_eq!(listing.remarks, ["1 tools have an `x-mcp-header` that cannot be followed, and are left out"]);
    assert_eq!(listing.tools.len(), 1);
}
