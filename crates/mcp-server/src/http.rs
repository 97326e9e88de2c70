//! Clients over streamable HTTP: who may connect, and from where.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::connection::Connection;
use crate::face::{Face, User};

/// A request may have so many bytes.
const MOST_REQUEST_BYTES: usize = 4 << 20;
/// A session that nobody uses for so long is over. A person may take an hour over a question.
const IDLE: Duration = Duration::from_secs(2 * 3600);
/// Where the protocol is spoken.
const PATH: &str = "/mcp";

/// Where to listen, and who may connect.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Where to listen.
    pub address: SocketAddr,
    /// The users by name, each with their token. Empty: nobody has to say who they are.
    pub tokens: BTreeMap<String, String>,
    /// Names by which this server is reached, besides those of this machine.
    pub allowed_hosts: Vec<String>,
    /// Web pages that may use it, besides those of this machine.
    pub allowed_origins: Vec<String>,
}

/// Why nobody can connect.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Anybody could.
    #[error(
        "{0} is reachable from other machines, and nobody would have to say who they are: set a token in \
         `mcp.serve.tokens`, or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// Anybody could pass for this user.
    #[error("the token of `{0}` in `mcp.serve.tokens` is empty: is the variable set that it comes from?")]
    EmptyToken(String),
    /// They could not be told apart.
    #[error("`{0}` and `{1}` have the same token in `mcp.serve.tokens`")]
    SameToken(String, String),
    /// The address cannot be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It broke down.
    #[error("the server broke down")]
    Serve(#[source] std::io::Error),
}

/// A server that listens.
pub struct HttpServer {
    listener: TcpListener,
    settings: HttpSettings,
    users: BTreeMap<Digested, String>,
}

impl HttpServer {
    /// Begins to listen. Beyond this machine only with tokens.
    pub async fn bind(settings: HttpSettings) -> Result<Self, HttpError> {
        let address = settings.address;
        if !address.ip().is_loopback() && settings.tokens.is_empty() {
            return Err(HttpError::Open(address));
        }
        let users = users(&settings.tokens)?;
        let listener = TcpListener::bind(address).await.map_err(|source| HttpError::Listen { address, source })?;
        Ok(Self { listener, settings, users })
    }

    /// Where clients reach it.
    pub fn url(&self) -> String {
        let address = self.listener.local_addr().unwrap_or(self.settings.address);
        format!("http://{address}{PATH}")
    }

    /// Serves until `end` is cancelled.
    pub async fn serve(self, face: Arc<Face>, end: CancellationToken) -> Result<(), HttpError> {
        let HttpSettings { address, allowed_hosts, allowed_origins, .. } = self.settings;
        let mut config = StreamableHttpServerConfig::default().enforce_origin_validation();
        config.cancellation_token = end.child_token();
        let this_machine = ["localhost", "127.0.0.1", "[::1]"];
        config.allowed_hosts = this_machine.iter().map(|host| (*host).to_owned()).chain(allowed_hosts).collect();
        if !address.ip().is_unspecified() && !address.ip().is_loopback() {
            config.allowed_hosts.push(address.ip().to_string());
        }
        let pages = this_machine.iter().flat_map(|host| [format!("http://{host}:*"), format!("https://{host}:*")]);
        config.allowed_origins = pages.chain(allowed_origins).collect();
        // Each user has sessions of their own: that of another is one that does not exist.
        let service = |user: User| {
            let face = Arc::clone(&face);
            let mut sessions = LocalSessionManager::default();
            sessions.session_config.keep_alive = Some(IDLE);
            let connection = move || Ok(Connection::new(Arc::clone(&face), user.clone()));
            StreamableHttpService::new(connection, Arc::new(sessions), config.clone())
        };
        let front = if self.users.is_empty() {
            Front::Anybody(service(face.parts.user.clone()))
        } else {
            let named = self.users.into_iter().map(|(token, name)| (token, service(User(format!("token:{name}")))));
            Front::Users(named.collect())
        };
        let router = Router::new().route(PATH, any(admit)).with_state(Arc::new(front));
        let serving = axum::serve(self.listener, router).with_graceful_shutdown(end.cancelled_owned());
        serving.await.map_err(HttpError::Serve)
    }
}

type Service = StreamableHttpService<Connection, LocalSessionManager>;

/// Who is served.
enum Front {
    Anybody(Service),
    /// Whoever has one of these tokens.
    Users(BTreeMap<Digested, Service>),
}

/// Tokens are compared by their digests: how long that takes tells nothing of them.
type Digested = [u8; 32];

fn digest(token: &str) -> Digested {
    Sha256::digest(token.trim()).into()
}

fn users(tokens: &BTreeMap<String, String>) -> Result<BTreeMap<Digested, String>, HttpError> {
    let mut users = BTreeMap::new();
    for (name, token) in tokens {
        if token.trim().is_empty() {
            return Err(HttpError::EmptyToken(name.clone()));
        }
        if let Some(other) = users.insert(digest(token), name.clone()) {
            return Err(HttpError::SameToken(other, name.clone()));
        }
    }
    Ok(users)
}

impl Front {
    /// The service of whoever makes a request, if they say who they are where that is asked.
    fn service(&self, request: &Request) -> Option<&Service> {
        match self {
            Self::Anybody(service) => Some(service),
            Self::Users(users) => {
                let given = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
                let (scheme, token) = given.split_once(' ')?;
                if scheme.eq_ignore_ascii_case("bearer") { users.get(&digest(token)) } else { None }
            }
        }
    }
}

/// Lets a request in if it says who makes it, where that is asked, and if it is not too large.
async fn admit(State(front): State<Arc<Front>>, request: Request) -> Response {
    let Some(service) = front.service(&request) else {
        let why = "send a token of mcp.serve.tokens: Authorization: Bearer TOKEN\n";
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], why).into_response();
    };
    let (parts, body) = request.into_parts();
    match to_bytes(body, MOST_REQUEST_BYTES).await {
        Ok(body) => service.handle(Request::from_parts(parts, Body::from(body))).await.into_response(),
        Err(_) => {
            let why = format!("a request has at most {MOST_REQUEST_BYTES} bytes\n");
            (StatusCode::PAYLOAD_TOO_LARGE, why).into_response()
        }
    }
}
