//! Results that ask for something first (2026-07-28): whoever made the call is asked, and the request is made again with the
//! answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use pincer_json::Json;
use rmcp::model::{ClientRequest, InputResponses};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::asks::Asks;
use crate::connection::{Connection, Failure};
use crate::greeting::Greeting;
use crate::inflight::Caller;
use crate::settings::ServerSettings;

/// How often a server may ask before it has to have a result.
const MOST_ROUNDS: usize = 8;

/// The type that a result states.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    result_type: String,
}

/// What a server wants to know before it goes on.
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
        // People who are asked in between take their time.
        let most = if round == 0 { left } else { settings.call_timeout() };
        let made = connection.request(request.clone(), most, caller.clone(), abort).await;
        let result = match made {
            // What was not made this time was made before.
            Err(Failure::NotMade(why) | Failure::TurnedAway(why)) if round > 0 => return Err(Failure::Lost(why)),
            made => made?,
        };
        if !result.to::<Kind>().is_ok_and(|kind| kind.result_type == "input_required") {
            return Ok(result);
        }
        let needed = result
            .to::<Needed>()
            .map_err(|error| Failure::Lost(format!("asked for input in a way that makes no sense ({error})")))?;
        let answers = tokio::select! {
            biased;
            () = abort.cancelled() => return Err(Failure::Aborted),
            answers = answers(&asks, needed.input_requests) => answers.map_err(Failure::Lost)?,
        };
        put(&mut request, answers, needed.request_state).map_err(Failure::Lost)?;
    }
    Err(Failure::Lost(format!("asked for input more than {MOST_ROUNDS} times")))
}

/// One after the other: it is people who are asked.
async fn answers(asks: &Asks<'_>, questions: BTreeMap<String, Input>) -> Result<InputResponses, String> {
    let mut answers = InputResponses::new();
    for (key, Input { method, params }) in questions {
        let answer = match method.as_str() {
            "elicitation/create" => serde_json::to_value(asks.elicited(params).await),
            "roots/list" => serde_json::to_value(asks.roots()),
            // There is no way to say no to this but to give up the call.
            "sampling/createMessage" => {
                let sampled = asks.sampled(params).await;
                serde_json::to_value(sampled.map_err(|why| format!("asked for a model's answer, but {why}"))?)
            }
            other => return Err(format!("asked for `{other}`, which Pincer does not know")),
        };
        answers.insert(key, answer.map_err(|error| error.to_string())?);
    }
    Ok(answers)
}

fn put(request: &mut ClientRequest, answers: InputResponses, state: Option<String>) -> Result<(), String> {
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
        _ => return Err("asked for input where none can be given".into()),
    };
    *responses = Some(answers);
    *request_state = state;
    Ok(())
}
