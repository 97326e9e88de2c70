//! The models that a provider says it has.

use pincer_http::failure;
use serde_json::Value;

use crate::attempt::{Limits, headers, refused, unreachable};
use crate::error::{ErrorKind, ModelError};
use crate::keys::Key;
use crate::limits::MOST_EVENT_NODES;
use crate::models::{Models, hiding, shortened};
use crate::settings::Provider;
use crate::timeouts::{Idle, within};

/// The bytes of a list.
const MOST_BYTES: usize = 16 << 20;

impl Models {
    /// Asks a provider which models it has. Returns their ids.
    pub async fn list(&self, provider: &Provider) -> Result<Vec<String>, ModelError> {
        let key = self.keys().get(&provider.id, None, &[], false).await?;
        let secret = key.secret.iter().map(|secret| secret.expose().to_owned());
        let hiding = hiding(provider, self.keys().secrets().into_iter().chain(secret));
        self.listed(provider, &key).await.map_err(|mut error| {
            error.message = shortened(&hiding.text(&error.message));
            error
        })
    }

    async fn listed(&self, provider: &Provider, key: &Key) -> Result<Vec<String>, ModelError> {
        let client = self.client(provider)?;
        let url = provider.listing();
        let window = Idle::default().window(provider);
        let request = client.get(url.clone()).headers(headers(provider, key.secret.as_ref())?);
        let sent = within(request.send(), window, None, "the provider has not answered").await?;
        let mut response = sent.map_err(|error| unreachable(failure(error, &url), window))?;
        if !response.status().is_success() {
            return Err(refused(response, Limits { window, deadline: None }, |_| ()).await);
        }
        let mut body = Vec::new();
        loop {
            let chunk = within(response.chunk(), window, None, "the provider has sent nothing").await?;
            let chunk = chunk.map_err(|error| unreachable(failure(error, &url), window))?;
            let Some(bytes) = chunk else { break };
            if body.len() + bytes.len() > MOST_BYTES {
                return Err(ModelError::new(
                    ErrorKind::TooLarge,
                    format!("the list has more than {} MiB", MOST_BYTES >> 20),
                ));
            }
            body.extend_from_slice(&bytes);
        }
        if pincer_json::nodes(&body) > MOST_EVENT_NODES {
            return Err(ModelError::new(ErrorKind::TooLarge, "the list has more values than any list of models"));
        }
        let unreadable = |error: serde_json::Error| {
            ModelError::new(ErrorKind::Malformed, format!("the list cannot be read: {error}"))
        };
        let list: Value = serde_json::from_slice(&body).map_err(unreadable)?;
        let entries = list["data"].as_array().or_else(|| list["models"].as_array()).or_else(|| list.as_array());
        let entries =
            entries.ok_or_else(|| ModelError::new(ErrorKind::Malformed, "the answer has no list of models"))?;
        let id = |entry: &Value| entry["id"].as_str().or(entry["name"].as_str()).or(entry.as_str()).map(str::to_owned);
        Ok(entries.iter().filter_map(id).collect())
    }
}
