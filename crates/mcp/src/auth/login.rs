//! Logging in: finding out where, becoming known there, sending the user's browser, and exchanging what it brings back.

use std::net::IpAddr;
use std::time::SystemTime;

use pincer_http::excerpt;
use reqwest::{Method, Url};
use rmcp::transport::auth::{AuthorizationMetadata, AuthorizationMetadataSource, OAuthClientConfig};
use rmcp::transport::{AuthError as RmcpError, AuthorizationManager};
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use super::answer::Granted;
use super::callback::{Callback, EXCERPT_CHARS, Returned};
use super::error::AuthError;
use super::logins::{Logins, SecretIn, Stored};
use crate::clock::unix_seconds;
use crate::http::{Call, HttpClient, HttpError, Proof, Remote};
use crate::settings::Speaks;

const CLIENT_NAME: &str = "Pincer";

/// What came of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedIn {
    /// Until when, if that is known.
    pub expires: Option<SystemTime>,
    /// Whether it is renewed then.
    pub renewable: bool,
    /// What it is good for.
    pub scopes: Vec<String>,
}

/// Logs in to `remote`. `on_url` is given the page at which the user says yes; the browser that shows it comes back to this
/// machine, which is waited for.
pub async fn login(remote: &Remote, logins: &Logins, on_url: impl FnOnce(&str)) -> Result<LoggedIn, AuthError> {
    let server = || remote.name.clone();
    if !matches!(remote.proof, Proof::Login) {
        return Err(AuthError::InConfig { server: server() });
    }
    logins.path(&remote.name)?;
    let callback = Callback::listen(remote.oauth.redirect_port).await?;
    let mut manager = manager(remote).await?;
    let found = discovered(remote, &mut manager).await?;
    let scopes = scopes(remote, logins, &manager).await;
    let client = client(remote, &mut manager, &callback.address(), &scopes, &found).await?;
    let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let page = manager.get_authorization_url(&scopes).await.map_err(|error| discovery(remote, &error))?;
    let asked = Asked::of(&page).ok_or_else(|| AuthError::NotOffered { server: server() })?;
    on_url(&page);
    let returned = tokio::time::timeout(logins.patience(), callback.returned(&asked.state)).await;
    let returned = returned
        .map_err(|_| AuthError::TimedOut { server: server(), seconds: logins.patience().as_secs() })?
        .map_err(|reason| AuthError::Denied { server: server(), reason })?;
    let granted = exchanged(remote, &manager, &returned, &asked.state).await?;
    let stored = Stored {
        version: Stored::VERSION,
        url: remote.url.to_string(),
        resource: asked.resource,
        token_endpoint: found.metadata.token_endpoint.clone(),
        client_id: client.client_id,
        // What is in the config stays there.
        client_secret: client.client_secret.filter(|_| remote.oauth.client_id.is_none()),
        secret_in: secret_in(&found.metadata),
        // Nothing said means that all was granted.
        scopes: match granted.scope {
            Some(granted) => granted.split_whitespace().map(str::to_owned).collect(),
            None => scopes.iter().map(ToString::to_string).collect(),
        },
        wanted: Vec::new(),
        access_token: granted.access_token,
        refresh_token: granted.refresh_token,
        received: unix_seconds(),
        lifetime: granted.expires_in,
    };
    let _lock = logins.lock(&remote.name).await?;
    logins.write(&remote.name, &stored).await?;
    Ok(LoggedIn { expires: stored.expires(), renewable: stored.refresh_token.is_some(), scopes: stored.scopes })
}

/// What we put into the address of the page, as rmcp has made it.
struct Asked {
    state: String,
    resource: String,
}

impl Asked {
    fn of(page: &str) -> Option<Self> {
        let page = Url::parse(page).ok()?;
        let value = |name: &str| page.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        Some(Self { state: value("state")?, resource: value("resource")? })
    }
}

/// What a server says about logging in to it.
struct Found {
    metadata: AuthorizationMetadata,
    source: AuthorizationMetadataSource,
}

async fn manager(remote: &Remote) -> Result<AuthorizationManager, AuthError> {
    // For rmcp's own clients, which may be the first of this process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A server of the internet must not have us ask around in this network; one that is within it may name others there.
    let made = if is_within(&remote.url).await {
        AuthorizationManager::new_allowing_private_addresses(remote.url.clone()).await
    } else {
        AuthorizationManager::new(remote.url.clone()).await
    };
    made.map_err(|error| discovery(remote, &error))
}

async fn is_within(url: &Url) -> bool {
    let private = |address: IpAddr| match address {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => address.is_unique_local(),
    };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let Ok(addresses) = tokio::net::lookup_host((host, 0)).await else { return false };
    let mut addresses = addresses.peekable();
    addresses.peek().is_some() && addresses.all(|address| private(address.ip()))
}

async fn discovered(remote: &Remote, manager: &mut AuthorizationManager) -> Result<Found, AuthError> {
    let challenge = challenge(remote)
        .await
        .map_err(|source| AuthError::Server { server: remote.name.clone(), source: Box::new(source) })?;
    let resolved = manager.resolve_metadata_from_challenge(challenge.as_deref()).await;
    let resolved = resolved.map_err(|error| discovery(remote, &error))?;
    if resolved.source == AuthorizationMetadataSource::LegacyEndpointFallback && challenge.is_none() {
        return Err(AuthError::NotOffered { server: remote.name.clone() });
    }
    let metadata = resolved.metadata;
    let endpoints = [
        Some(&metadata.authorization_endpoint),
        Some(&metadata.token_endpoint),
        metadata.registration_endpoint.as_ref(),
    ];
    for endpoint in endpoints.into_iter().flatten() {
        // The first is given to a browser, which does more with an address than look at a page.
        let allowed = Url::parse(endpoint)
            .is_ok_and(|url| url.scheme() == "https" || (url.scheme() == "http" && remote.url.scheme() == "http"));
        if !allowed {
            return Err(AuthError::Endpoint { server: remote.name.clone(), endpoint: short(endpoint) });
        }
    }
    manager.set_metadata(metadata.clone());
    Ok(Found { metadata, source: resolved.source })
}

/// Returns the challenge of the server to a client it does not know. Some send it only to messages of the protocol.
async fn challenge(remote: &Remote) -> Result<Option<String>, HttpError> {
    let http = HttpClient::new(remote, None)?;
    let call = match remote.speaks {
        Speaks::Events => Call::new(Method::GET, remote.url.clone(), "text/event-stream"),
        Speaks::Streamable | Speaks::Either => {
            let message = serde_json::json!({ "jsonrpc": "2.0", "id": 0, "method": "ping" });
            Call::new(Method::POST, remote.url.clone(), "application/json, text/event-stream").json(&message)?
        }
    };
    tokio::time::timeout(remote.connect_timeout, http.challenge(call))
        .await
        .unwrap_or(Err(HttpError::Timeout { limit: remote.connect_timeout }))
}

/// What to ask for: what the config says or else what the server says, and what it has asked for since the last login.
async fn scopes(remote: &Remote, logins: &Logins, manager: &AuthorizationManager) -> Vec<String> {
    let mut scopes = match remote.oauth.scopes.as_slice() {
        [] => manager.select_initial_scopes(&[]).await,
        configured => configured.to_vec(),
    };
    // A file that cannot be read is about to be replaced.
    let before =
        logins.read(&remote.name).ok().flatten().filter(|stored| stored.fits(remote) && !stored.wanted.is_empty());
    for scope in before.into_iter().flat_map(|stored| stored.scopes.into_iter().chain(stored.wanted)) {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    scopes
}

async fn client(
    remote: &Remote,
    manager: &mut AuthorizationManager,
    address: &str,
    scopes: &[String],
    found: &Found,
) -> Result<OAuthClientConfig, AuthError> {
    if let Some(id) = &remote.oauth.client_id {
        let mut client = OAuthClientConfig::new(id, address);
        client.client_secret.clone_from(&remote.oauth.client_secret);
        manager.configure_client(client.clone()).map_err(|error| discovery(remote, &error))?;
        return Ok(client);
    }
    let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let registered = manager.register_client(CLIENT_NAME, address, &scopes).await;
    registered.map_err(|error| match found.source {
        // The server has not said that one can register there.
        AuthorizationMetadataSource::LegacyEndpointFallback => AuthError::NotOffered { server: remote.name.clone() },
        _ => AuthError::Register { server: remote.name.clone(), reason: short(&error.to_string()) },
    })
}

async fn exchanged(
    remote: &Remote,
    manager: &AuthorizationManager,
    returned: &Returned,
    state: &str,
) -> Result<Granted, AuthError> {
    let failed = |reason: String| AuthError::Exchange { server: remote.name.clone(), reason };
    let exchange = manager
        .exchange_code_for_token_with_issuer(&returned.code, state, returned.issuer.as_deref())
        // rmcp logs the code, and what comes with the token.
        .with_subscriber(NoSubscriber::default());
    let token = exchange.await.map_err(|error| failed(short(&error.to_string().replace(&returned.code, "…"))))?;
    // The traits to look into it are of a crate that rmcp keeps to itself.
    let token = serde_json::to_value(&token).and_then(serde_json::from_value::<Granted>);
    let token = token.map_err(|_| failed("the answer has no token in it".into()))?;
    if !token.is_bearer() {
        return Err(failed("it is no bearer token".into()));
    }
    Ok(token)
}

/// As rmcp sends it when the code is exchanged.
fn secret_in(metadata: &AuthorizationMetadata) -> SecretIn {
    let methods = metadata.additional_fields.get("token_endpoint_auth_methods_supported");
    let has = |method: &str| {
        methods
            .and_then(|methods| methods.as_array())
            .is_some_and(|methods| methods.iter().any(|known| known == method))
    };
    if has("client_secret_post") && !has("client_secret_basic") { SecretIn::Body } else { SecretIn::Header }
}

fn discovery(remote: &Remote, error: &RmcpError) -> AuthError {
    AuthError::Discovery { server: remote.name.clone(), reason: short(&error.to_string()) }
}

fn short(text: &str) -> String {
    excerpt(text, EXCERPT_CHARS)
}
