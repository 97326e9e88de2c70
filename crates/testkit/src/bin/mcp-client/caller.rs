//! Whoever makes the calls, and says yes to all that a server asks.

use pincer_tools::{BoxFuture, Request, UpdateSink};
use serde_json::{Value, json};

use crate::inputs::input;

pub(crate) struct Obliging;

impl UpdateSink for Obliging {
    fn update(&self, _: Value) {}

    fn ask(&self, request: Request) -> BoxFuture<'_, Option<Value>> {
        let answer = match request.method {
            "elicitation/create" => {
                let form = request.params.get("requestedSchema").map(input);
                Some(json!({ "action": "accept", "content": form }))
            }
            "sampling/createMessage" => Some(json!({
                "role": "assistant", "content": { "type": "text", "text": "Yes." }, "model": "none", "stopReason": "endTurn",
            })),
            _ => None,
        };
        Box::pin(std::future::ready(answer))
    }
}
