//! Clients over streamable HTTP: who may connect, and from where.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::connection::Connection;
use crate::face::{Face, User};

/// A request may have so many bytes.
const MOST_REQUEST_BYTES: usize = 4 << 20;
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
}

impl HttpServer {
    /// Begins to listen. Beyond this machine only with tokens.
    pub async fn bind(settings: HttpSettings) -> Result<Self, HttpError> {
        let address = settings.address;
        if !address.ip().is_loopback() && settings.tokens.is_empty() {
            return Err(HttpError::Open(address));
        }
        let listener = TcpListener::bind(address).await.map_err(|source| HttpError::Listen { address, source })?;
        Ok(Self { listener, settings })
    }

    /// Where clients reach it.
    pub fn url(&self) -> String {
        let address = self.listener.local_addr().unwrap_or(self.settings.address);
        format!("http://{address}{PATH}")
    }

    /// Serves until `end` is cancelled.
    pub async fn serve(self, face: Arc<Face>, end: CancellationToken) -> Result<(), HttpError> {
        let HttpSettings { address, tokens, allowed_hosts, allowed_origins } = self.settings;
        let mut config = StreamableHttpServerConfig::default().enforce_origin_validation();
        config.cancellation_token = end.child_token();
        let this_machine = ["localhost", "127.0.0.1", "[::1]"];
        config.allowed_hosts = this_machine.iter().map(|host| (*host).to_owned()).chain(allowed_hosts).collect();
        if !address.ip().is_unspecified() && !address.ip().is_loopback() {
            config.allowed_hosts.push(address.ip().to_string());
        }
        let pages = this_machine.iter().flat_map(|host| [format!("http://{host}:*"), format!("https://{host}:*")]);
        config.allowed_origins = pages.chain(allowed_origins).collect();
        let service = StreamableHttpService::new(
            move || Ok(Connection::new(Arc::clone(&face))),
            Arc::new(LocalSessionManager::default()),
            config,
        );
        let users: Users = Arc::new(tokens.iter().map(|(name, token)| (digest(token), name.clone())).collect());
        let router = Router::new().route_service(PATH, service).layer(from_fn_with_state(users, admit));
        let serving = axum::serve(self.listener, router).with_graceful_shutdown(end.cancelled_owned());
        serving.await.map_err(HttpError::Serve)
    }
}

type Users = Arc<BTreeMap<[u8; 32], String>>;

/// Tokens are compared by their digests: how long that takes tells nothing of them.
fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Lets a request in if it says who makes it, where that is asked, and if it is not too large.
async fn admit(State(users): State<Users>, mut request: Request, next: Next) -> Response {
    if !users.is_empty() {
        let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        match given.and_then(|token| users.get(&digest(token))) {
            Some(name) => {
                let user = User(format!("token:{name}"));
                request.extensions_mut().insert(user);
            }
            None => {
                let why = "send a token of mcp.serve.tokens: Authorization: Bearer TOKEN\n";
                return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], why).into_response();
            }
        }
    }
    let (parts, body) = request.into_parts();
    match to_bytes(body, MOST_REQUEST_BYTES).await {
        Ok(body) => next.run(Request::from_parts(parts, Body::from(body))).await,
        Err(_) => {
            let why = format!("a request has at most {MOST_REQUEST_BYTES} bytes\n");
            (StatusCode::PAYLOAD_TOO_LARGE, why).into_response()
        }
    }
}
