//! Results that ask for something first (2026-07-28): the caller is asked, and the request is made again with the answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use pincer_json::{Json, JsonError};
use rmcp::model::{ClientRequest, InputResponses};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::asks::{Asks, SamplingError};
use crate::connection::{Connection, Failure};
use crate::greeting::Greeting;
use crate::inflight::Caller;
use crate::settings::ServerSettings;

/// The most times that a server may ask before it must have a result.
const MOST_ROUNDS: usize = 8;

/// The type that a result states.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    result_type: String,
}

/// The input that a server needs before it goes on.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Needed {
    #[serde(default)]
    input_requests: BTreeMap<String, Input>,
    /// Given back as it came.
    #[serde(default)]
    request_state: Option<String>,
}

#[derive(Deserialize)]
struct Input {
    method: String,
    #[serde(default)]
    params: Value,
}

/// The reason why a server that asks for input gets none, as a sentence that begins behind its name.
#[derive(Debug, thiserror::Error)]
enum RoundError {
    #[error("asked for input in a way that makes no sense ({0})")]
    Senseless(#[source] JsonError),
    #[error("asked for a model's answer, but {0}")]
    NotSampled(#[from] SamplingError),
    #[error("asked for `{0}`, which Pincer does not know")]
    UnknownMethod(String),
    #[error(transparent)]
    Answer(#[from] serde_json::Error),
    #[error("asked for input where none can be given")]
    NoPlace,
    #[error("asked for input more than {MOST_ROUNDS} times")]
    TooMany,
}

impl From<RoundError> for Failure {
    fn from(error: RoundError) -> Self {
        Self::Lost(error.to_string())
    }
}

/// Makes a request, as often as the server asks for more.
pub(crate) async fn request(
    connection: &Connection,
    settings: &ServerSettings,
    mut request: ClientRequest,
    caller: Option<Caller>,
    abort: &CancellationToken,
    deadline: Instant,
) -> Result<Json, Failure> {
    let left = deadline.saturating_duration_since(Instant::now());
    if Greeting::of(connection.info()) == Greeting::Initialize {
        return connection.request(request, left, caller, abort).await;
    }
    let asks = Asks { settings, caller: caller.as_ref().map(|caller| Arc::clone(&caller.updates)) };
    for round in 0..=MOST_ROUNDS {
        // A question to a person in between takes its time.
        let most = if round == 0 { left } else { settings.call_timeout };
        let made = connection.request(request.clone(), most, caller.clone(), abort).await;
        let result = match made {
            // What was not made this time was made before.
            Err(Failure::NotMade(why) | Failure::TurnedAway(why)) if round > 0 => return Err(Failure::Lost(why)),
            made => made?,
        };
        if !result.to::<Kind>().is_ok_and(|kind| kind.result_type == "input_required") {
            return Ok(result);
        }
        let needed = result.to::<Needed>().map_err(RoundError::Senseless)?;
        let answers = tokio::select! {
            biased;
            () = abort.cancelled() => return Err(Failure::Aborted),
            answers = answers(&asks, needed.input_requests) => answers?,
        };
        put(&mut request, answers, needed.request_state)?;
    }
    Err(RoundError::TooMany.into())
}

/// Asks the questions one after the other: people answer them.
async fn answers(asks: &Asks<'_>, questions: BTreeMap<String, Input>) -> Result<InputResponses, RoundError> {
    let mut answers = InputResponses::new();
    for (key, Input { method, params }) in questions {
        let answer = match method.as_str() {
            "elicitation/create" => serde_json::to_value(asks.elicited(params).await),
            "roots/list" => serde_json::to_value(asks.roots()),
            // There is no way to say no to this but to give up the call.
            "sampling/createMessage" => serde_json::to_value(asks.sampled(params).await?),
            _ => return Err(RoundError::UnknownMethod(method)),
        };
        answers.insert(key, answer?);
    }
    Ok(answers)
}

fn put(request: &mut ClientRequest, answers: InputResponses, state: Option<String>) -> Result<(), RoundError> {
    let (responses, request_state) = match request {
        ClientRequest::CallToolRequest(request) => {
            (&mut request.params.input_responses, &mut request.params.request_state)
        }
        ClientRequest::GetPromptRequest(request) => {
            (&mut request.params.input_responses, &mut request.params.request_state)
        }
        ClientRequest::ReadResourceRequest(request) => {
            (&mut request.params.input_responses, &mut request.params.request_state)
        }
        _ => return Err(RoundError::NoPlace),
    };
    *responses = Some(answers);
    *request_state = state;
    Ok(())
}
