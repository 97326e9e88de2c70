//! Asking for a new token.
//!
//! Not by rmcp: to send the right `resource` it would have to find out everything about the server anew each time, it forgets
//! the secret of a registered client, and it asks again though another process has just done so.

use std::time::Duration;

use pincer_http::client;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, Url};
use url::form_urlencoded::{Serializer, byte_serialize};

use super::answer::{Granted, Refusal};
use super::error::AuthError;
use super::logins::{SecretIn, Stored};
use crate::http::Remote;

const PATIENCE: Duration = Duration::from_secs(30);
const MOST_BYTES: usize = 1 << 20;

/// The outcome of a refresh.
pub(super) enum Refreshed {
    Granted(Granted),
    /// There will be no more tokens for this login.
    Refused,
}

/// Uses the refresh token of `stored`, which the server may make worthless by that: the answer must be stored.
pub(super) async fn refresh(remote: &Remote, stored: &Stored, token: &str) -> Result<Refreshed, AuthError> {
    let failed = |reason: String| AuthError::Renew { server: remote.name.clone(), reason };
    let endpoint = Url::parse(&stored.token_endpoint).map_err(|_| failed("there is no address for it".into()))?;
    let client = client(&endpoint)
        // Only the endpoint gets to see the token.
        .redirect(Policy::none())
        .connect_timeout(PATIENCE)
        .timeout(PATIENCE)
        .build()
        .map_err(AuthError::Client)?;
    let request = client.post(endpoint.clone()).header(ACCEPT, "application/json");
    let request = with_form(request, remote, stored, token);
    let host = endpoint.host_str().unwrap_or_default().to_owned();
    let response = request.send().await.map_err(|_| failed(format!("{host} cannot be reached")))?;
    let status = response.status();
    let body = body(response).await.map_err(|reason| failed(format!("{host} {reason}")))?;
    if status.is_success() {
        // serde's message would quote what it does not like, which may be a token.
        let granted: Granted =
            serde_json::from_slice(&body).map_err(|_| failed(format!("{host} answered without a token")))?;
        if !granted.is_bearer() {
            return Err(failed(format!("{host} gave a token that is no bearer token")));
        }
        return Ok(Refreshed::Granted(granted));
    }
    match serde_json::from_slice::<Refusal>(&body) {
        Ok(refusal) if refusal.is_final() && status.is_client_error() => Ok(Refreshed::Refused),
        Ok(refusal) => Err(failed(format!("{host} answered {status} ({})", refusal.code()))),
        Err(_) => Err(failed(format!("{host} answered {status}"))),
    }
}

fn with_form(request: RequestBuilder, remote: &Remote, stored: &Stored, token: &str) -> RequestBuilder {
    let secret = remote.oauth.client_secret.as_ref().or(stored.client_secret.as_ref());
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "refresh_token");
    form.append_pair("refresh_token", token);
    form.append_pair("resource", &stored.resource);
    let request = match (secret, stored.secret_in) {
        (Some(secret), SecretIn::Header) => request.basic_auth(encoded(&stored.client_id), Some(encoded(secret))),
        (Some(secret), SecretIn::Body) => {
            form.append_pair("client_id", &stored.client_id).append_pair("client_secret", secret);
            request
        }
        (None, _) => {
            form.append_pair("client_id", &stored.client_id);
            request
        }
    };
    request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form.finish())
}

/// Ids and secrets are encoded before they are put into the header (RFC 6749, 2.3.1).
fn encoded(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

/// The reason why an answer cannot be read, as a sentence that begins behind the host.
#[derive(Debug, thiserror::Error)]
enum BodyError {
    #[error("broke off its answer")]
    BrokenOff(#[source] reqwest::Error),
    #[error("answered too much")]
    TooMuch,
}

async fn body(mut response: reqwest::Response) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(BodyError::BrokenOff)? {
        if body.len() + chunk.len() > MOST_BYTES {
            return Err(BodyError::TooMuch);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
