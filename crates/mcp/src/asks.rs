//! Answers to what servers ask for, whether in a request of their own or in place of a result.
#![expect(deprecated, reason = "servers of today ask for roots and samples, whatever comes later")]

use std::sync::Arc;

use pincer_tools::{Request, UpdateSink};
use rmcp::model::{CreateMessageResult, ElicitResult, ElicitationAction, ListRootsResult, Root};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::settings::{Elicitation, Sampling, ServerSettings};

/// A server, and the caller that is asked on its behalf.
pub(crate) struct Asks<'a> {
    pub settings: &'a ServerSettings,
    pub caller: Option<Arc<dyn UpdateSink>>,
}

/// The reason why a server gets no answer of a model.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SamplingError {
    #[error("sampling is refused: the config says so")]
    Refused,
    #[error("sampling is refused: nobody is there who could do it")]
    NoClient,
    #[error("the call is over")]
    CallOver,
}

impl Asks<'_> {
    /// Returns the answer to a question. Without a caller it is a no.
    pub(crate) async fn elicited(&self, params: Value) -> ElicitResult {
        let declined = ElicitResult::new(ElicitationAction::Decline);
        if self.settings.elicitation == Elicitation::Refuse {
            return declined;
        }
        self.ask("elicitation/create", params).await.unwrap_or(declined)
    }

    /// Returns the answer of a model.
    pub(crate) async fn sampled(&self, params: Value) -> Result<CreateMessageResult, SamplingError> {
        if self.settings.sampling == Sampling::Refuse {
            return Err(SamplingError::Refused);
        }
        let answer = self.ask("sampling/createMessage", params).await;
        answer.ok_or(SamplingError::NoClient)
    }

    /// Returns the directories that the config names for the server, and no others: a server that is told of one may forget those
    /// it was started for.
    pub(crate) fn roots(&self) -> ListRootsResult {
        ListRootsResult::new(self.settings.roots.iter().map(|root| Root::new(file_uri(root))).collect())
    }

    async fn ask<A: DeserializeOwned>(&self, method: &'static str, params: Value) -> Option<A> {
        let caller = self.caller.as_ref()?;
        let answer = caller.ask(Request { from: self.settings.name.clone(), method, params }).await?;
        serde_json::from_value(answer).ok()
    }
}

/// Returns a path as servers want it. Characters that are not plain are written as `%XX`.
fn file_uri(path: &std::path::Path) -> String {
    let mut uri = String::from("file://");
    for byte in path.to_string_lossy().bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => uri.push(byte as char),
            _ if byte.is_ascii_alphanumeric() => uri.push(byte as char),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}
