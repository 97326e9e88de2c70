//! An authorization server, with a resource server that believes it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{Request, Response};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::{get, post};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::{Notify, Semaphore};
use url::Url;
use url::form_urlencoded;

use super::{Served, listener, notes, response, serve_at};

/// What the authority knows, and how it behaves.
#[derive(Default)]
pub(crate) struct Book {
    pub origin: String,
    made: usize,
    /// Codes, with what their login was asked for.
    codes: HashMap<String, HashMap<String, String>>,
    pub access: Vec<String>,
    /// What each token of a login is good for.
    rights: HashMap<String, String>,
    pub refresh: Vec<String>,
    /// What the resource server was sent, by path.
    pub seen: Vec<(String, Option<String>)>,
    /// Requests to `/authorize` and `/token`, and bodies of `/register`.
    pub authorized: Vec<HashMap<String, String>>,
    pub exchanged: Vec<HashMap<String, String>>,
    pub registered: Vec<Value>,
    pub behaves: Behaves,
}

pub(crate) struct Behaves {
    pub lifetime: Option<u64>,
    /// Added to what it says of itself.
    pub metadata: Value,
    /// Whether it gives a code.
    pub denies: bool,
    /// A scope without which nothing is allowed.
    pub wants_scope: Option<&'static str>,
    /// A client with a secret.
    pub secret: Option<(&'static str, &'static str)>,
    /// The status of answers to refreshes, if they fail though the token is right.
    pub broken: Option<u16>,
    /// Whether the body of a 403 repeats the token.
    pub echoes: bool,
}

impl Default for Behaves {
    fn default() -> Self {
        Self {
            lifetime: Some(3600),
            metadata: json!({}),
            denies: false,
            wants_scope: None,
            secret: None,
            broken: None,
            echoes: false,
        }
    }
}

pub(crate) struct Authority {
    pub served: Served,
    shared: Arc<Shared>,
}

struct Shared {
    book: Mutex<Book>,
    /// Refreshes are answered only with a permit.
    pub gate: Semaphore,
    pub asked: Notify,
}

impl Authority {
    pub(crate) async fn new() -> Self {
        let listener = listener().await;
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let book = Mutex::new(Book { origin, ..Book::default() });
        let shared = Arc::new(Shared { book, gate: Semaphore::new(1000), asked: Notify::new() });
        let resource = Router::new()
            .route_service("/mcp", notes())
            .route_service("/other", notes())
            .layer(from_fn_with_state(Arc::clone(&shared), guard));
        let router = Router::new()
            .route("/.well-known/oauth-protected-resource/mcp", get(resource_metadata))
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(Arc::clone(&shared))
            .merge(resource);
        Self { served: serve_at(listener, router), shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.served.origin)
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.shared.book.lock().unwrap()
    }

    /// Refreshes wait from now on, until [`Self::open`].
    pub(crate) fn close(&self) {
        self.shared.gate.forget_permits(1000);
    }

    pub(crate) fn open(&self) {
        self.shared.gate.add_permits(1000);
    }

    /// Waits until a refresh has been asked for.
    pub(crate) async fn asked(&self) {
        self.shared.asked.notified().await;
    }

    pub(crate) fn refreshes(&self) -> usize {
        self.book().exchanged.iter().filter(|form| form["grant_type"] == "refresh_token").count()
    }
}

impl Book {
    fn make(&mut self, kind: &str) -> String {
        self.made += 1;
        format!("{kind}-secret-{}", self.made)
    }

    fn grant(&mut self, scope: &str) -> Value {
        let (access, refresh) = (self.make("access"), self.make("refresh"));
        self.access.push(access.clone());
        self.rights.insert(access.clone(), scope.to_owned());
        self.refresh.push(refresh.clone());
        let mut granted = json!({ "access_token": access, "token_type": "Bearer", "refresh_token": refresh, "id_token": "id-secret" });
        if !scope.is_empty() {
            granted["scope"] = scope.into();
        }
        if let Some(lifetime) = self.behaves.lifetime {
            granted["expires_in"] = lifetime.into();
        }
        granted
    }
}

async fn guard(State(shared): State<Arc<Shared>>, request: Request<Body>, next: Next) -> Response<Body> {
    let header = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
    {
        let mut book = shared.book.lock().unwrap();
        book.seen.push((request.uri().path().to_owned(), header.clone()));
        let token = header.as_deref().and_then(|header| header.strip_prefix("Bearer ")).unwrap_or_default().to_owned();
        if !book.access.contains(&token) {
            let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", book.origin);
            return response(401, &[("www-authenticate", &format!("Bearer resource_metadata=\"{metadata}\""))], "");
        }
        if book.behaves.echoes {
            return response(403, &[], format!("you are Bearer {token}, go away"));
        }
        let rights = book.rights.get(&token).map(String::as_str).unwrap_or_default();
        if let Some(scope) = book.behaves.wants_scope
            && !rights.split(' ').any(|right| right == scope)
        {
            let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
            return response(403, &[("www-authenticate", &challenge)], "");
        }
    }
    next.run(request).await
}

async fn resource_metadata(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let origin = shared.book.lock().unwrap().origin.clone();
    super::json(
        &json!({ "resource": format!("{origin}/mcp"), "authorization_servers": [origin], "scopes_supported": ["notes"] }),
    )
}

async fn metadata(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let book = shared.book.lock().unwrap();
    let origin = &book.origin;
    let mut metadata = json!({
        "issuer": origin,
        "authorization_endpoint": format!("{origin}/authorize"),
        "token_endpoint": format!("{origin}/token"),
        "registration_endpoint": format!("{origin}/register"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
    });
    for (key, value) in book.behaves.metadata.as_object().unwrap() {
        metadata[key] = value.clone();
    }
    super::json(&metadata)
}

async fn register(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response<Body> {
    let body: Value = serde_json::from_slice(&to_bytes(request.into_body(), 1 << 20).await.unwrap()).unwrap();
    let mut book = shared.book.lock().unwrap();
    let id = format!("client-{}", book.registered.len());
    let answer = json!({ "client_id": id, "redirect_uris": body["redirect_uris"] });
    book.registered.push(body);
    response(201, &[("content-type", "application/json")], answer.to_string())
}

/// Says yes at once, as a user would.
async fn authorize(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response<Body> {
    let asked = pairs(request.uri().query().unwrap_or_default());
    let mut book = shared.book.lock().unwrap();
    let mut back = Url::parse(&asked["redirect_uri"]).unwrap();
    back.query_pairs_mut().append_pair("state", &asked["state"]).append_pair("iss", &book.origin);
    if book.behaves.denies {
        back.query_pairs_mut().append_pair("error", "access_denied").append_pair("error_description", "not today");
    } else {
        let code = book.make("code");
        back.query_pairs_mut().append_pair("code", &code);
        book.codes.insert(code, asked.clone());
    }
    book.authorized.push(asked);
    response(302, &[("location", back.as_str())], "")
}

async fn token(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response<Body> {
    let basic = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let mut form = pairs(std::str::from_utf8(&body).unwrap());
    if let Some(basic) = basic {
        form.insert("basic".into(), basic);
    }
    let refreshes = form["grant_type"] == "refresh_token";
    shared.book.lock().unwrap().exchanged.push(form.clone());
    if refreshes {
        shared.asked.notify_one();
        let _permit = shared.gate.acquire().await.unwrap();
        return refreshed(&mut shared.book.lock().unwrap(), &form);
    }
    exchanged(&mut shared.book.lock().unwrap(), &form)
}

fn exchanged(book: &mut Book, form: &HashMap<String, String>) -> Response<Body> {
    let Some(asked) = book.codes.remove(&form["code"]) else { return refused("invalid_grant") };
    let challenge = base64url(&Sha256::digest(form["code_verifier"].as_bytes()));
    let right = challenge == asked["code_challenge"]
        && asked["code_challenge_method"] == "S256"
        && form["redirect_uri"] == asked["redirect_uri"]
        && form["resource"] == asked["resource"];
    if !right || !knows_client(book, form, &asked["client_id"]) {
        return refused("invalid_grant");
    }
    let scope = asked.get("scope").cloned().unwrap_or_default();
    super::json(&book.grant(&scope))
}

/// A token that is used twice was stolen once: then all are worthless.
fn refreshed(book: &mut Book, form: &HashMap<String, String>) -> Response<Body> {
    if let Some(status) = book.behaves.broken {
        return response(status, &[("content-type", "text/plain")], format!("cannot use {}", form["refresh_token"]));
    }
    let known = book.refresh.iter().position(|token| *token == form["refresh_token"]);
    let Some(at) = known else {
        book.access.clear();
        book.refresh.clear();
        return refused("invalid_grant");
    };
    let client = form.get("client_id").cloned().unwrap_or_default();
    if !knows_client(book, form, &client) {
        return refused("invalid_client");
    }
    book.refresh.remove(at);
    super::json(&book.grant(""))
}

fn knows_client(book: &Book, form: &HashMap<String, String>, id: &str) -> bool {
    match book.behaves.secret {
        Some((id, secret)) => {
            form.get("basic") == Some(&format!("Basic {}", base64(format!("{id}:{secret}").as_bytes())))
        }
        None => form.get("client_id").is_some_and(|known| known == id),
    }
}

fn refused(error: &str) -> Response<Body> {
    response(400, &[("content-type", "application/json")], json!({ "error": error }).to_string())
}

fn pairs(text: &str) -> HashMap<String, String> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

fn base64url(bytes: &[u8]) -> String {
    base64(bytes).replace('+', "-").replace('/', "_").replace('=', "")
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}
