//! Each format says what the script says, in the shape that clients of it expect.

use pincer_scripted::Format;
use serde_json::{Value, json};

use crate::client::{Next, Whole, ask, server, streamed};

const SCRIPT: &str = r#"{ replies: [{
  parts: [
    { thinking: "Two calls, then.", signature: "sig==", encrypted: "encrypted" },
    { text: "Grüße, world." },
    { call: { id: "call_1", name: "exec", arguments: { code: "return \"ä\\n\"" } } },
    { call: { id: "call_2", name: "wait", arguments: {} } },
  ],
  usage: { input: 10, cacheRead: 3, cacheWrite: 2, output: 9, thinking: 4 },
  repeat: true,
}] }"#;
const ARGUMENTS: &str = r#"{"code":"return \"ä\\n\""}"#;

async fn stream(format: Format) -> Whole {
    let whole = ask(&server(SCRIPT), format, &streamed()).await;
    assert_eq!((whole.status, &whole.end), (200, &Next::End));
    assert_eq!(whole.headers["content-type"], "text/event-stream; charset=utf-8");
    whole
}

/// Puts the strings at `pointer` of all events together.
fn joined(events: &[Value], pointer: &str) -> String {
    events.iter().filter_map(|event| event.pointer(pointer)?.as_str()).collect()
}

fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

#[tokio::test]
async fn chat_completions_are_streamed_as_chunks() {
    let whole = stream(Format::Chat).await;
    assert_eq!(whole.events().last().unwrap().1, "[DONE]");
    let chunks = whole.data();
    for chunk in &chunks {
        assert_eq!(
            (&chunk["id"], &chunk["object"], &chunk["model"]),
            (&json!("chatcmpl-1"), &json!("chat.completion.chunk"), &json!("scripted"))
        );
        assert!(chunk["created"].is_u64());
    }
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(joined(&chunks, "/choices/0/delta/reasoning_content"), "Two calls, then.");
    assert_eq!(joined(&chunks, "/choices/0/delta/content"), "Grüße, world.");

    let calls: Vec<_> = chunks.iter().filter_map(|chunk| chunk.pointer("/choices/0/delta/tool_calls/0")).collect();
    let of = |index: usize| calls.iter().filter(move |call| call["index"] == index);
    let arguments = |index| of(index).map(|call| call["function"]["arguments"].as_str().unwrap()).collect::<String>();
    assert_eq!((arguments(0), arguments(1)), (ARGUMENTS.into(), "{}".into()));
    let begun: Vec<_> = calls.iter().filter(|call| call.get("id").is_some()).collect();
    assert_eq!(
        begun,
        [
            &&json!({ "index": 0, "id": "call_1", "type": "function", "function": { "name": "exec", "arguments": "" } }),
            &&json!({ "index": 1, "id": "call_2", "type": "function", "function": { "name": "wait", "arguments": "" } }),
        ]
    );

    let [.., last, usage] = &chunks[..] else { panic!("{chunks:?}") };
    assert_eq!((&last["choices"][0]["finish_reason"], &last["usage"]), (&json!("tool_calls"), &Value::Null));
    assert_eq!(usage["choices"], json!([]));
    assert_eq!((&usage["usage"]["prompt_tokens"], &usage["usage"]["completion_tokens"]), (&json!(15), &json!(9)));
    assert_eq!(usage["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
    assert_eq!(usage["usage"]["completion_tokens_details"]["reasoning_tokens"], 4);
}

#[tokio::test]
async fn chat_completions_have_no_usage_that_was_not_asked_for() {
    let whole = ask(&server(SCRIPT), Format::Chat, &json!({ "stream": true })).await;
    assert!(whole.data().iter().all(|chunk| chunk.get("usage").is_none() && chunk["choices"] != json!([])));
}

#[tokio::test]
async fn responses_are_streamed_as_numbered_events() {
    let whole = stream(Format::Responses).await;
    let events = whole.data();
    for (at, ((name, _), event)) in whole.events().iter().zip(&events).enumerate() {
        assert_eq!((&event["type"], &event["sequence_number"]), (&json!(name), &json!(at)));
    }
    let mut names: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    names.dedup();
    assert_eq!(
        names.iter().map(|name| name.strip_prefix("response.").unwrap()).collect::<Vec<_>>(),
        [
            "created",
            "in_progress",
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "completed",
        ]
    );
    let text = |kind: &str, output_index: usize| -> String {
        let deltas = of_type(&events, kind).into_iter().filter(|event| event["output_index"] == output_index);
        deltas.map(|event| event["delta"].as_str().unwrap()).collect()
    };
    assert_eq!(text("response.reasoning_summary_text.delta", 0), "Two calls, then.");
    assert_eq!(text("response.output_text.delta", 1), "Grüße, world.");
    assert_eq!(text("response.function_call_arguments.delta", 2), ARGUMENTS);
    assert_eq!(text("response.function_call_arguments.delta", 3), "{}");

    let begun = of_type(&events, "response.output_item.added");
    assert_eq!((&begun[0]["item"]["encrypted_content"], &begun[0]["item"]["summary"]), (&json!("encr"), &json!([])));
    let done = of_type(&events, "response.output_item.done");
    let output: Vec<_> = done.iter().map(|event| event["item"].clone()).collect();
    assert_eq!(
        output,
        [
            json!({ "id": "rs_1_0", "type": "reasoning", "encrypted_content": "encrypted",
                    "summary": [{ "type": "summary_text", "text": "Two calls, then." }] }),
            json!({ "id": "msg_1_1", "type": "message", "status": "completed", "role": "assistant",
                    "content": [{ "type": "output_text", "text": "Grüße, world.", "annotations": [], "logprobs": [] }] }),
            json!({ "id": "fc_1_2", "type": "function_call", "status": "completed", "call_id": "call_1", "name": "exec",
                    "arguments": ARGUMENTS }),
            json!({ "id": "fc_1_3", "type": "function_call", "status": "completed", "call_id": "call_2", "name": "wait",
                    "arguments": "{}" }),
        ]
    );
    let response = &events.last().unwrap()["response"];
    assert_eq!((&response["status"], &response["output"]), (&json!("completed"), &json!(output)));
    assert_eq!(
        response["usage"],
        json!({ "input_tokens": 15, "input_tokens_details": { "cached_tokens": 3, "cache_write_tokens": 2 },
                "output_tokens": 9, "output_tokens_details": { "reasoning_tokens": 4 }, "total_tokens": 24 })
    );
}

#[tokio::test]
async fn messages_are_streamed_as_blocks() {
    let whole = stream(Format::Messages).await;
    let events = whole.data();
    for ((name, _), event) in whole.events().iter().zip(&events) {
        assert_eq!(event["type"], json!(name));
    }
    let usage = &events[0]["message"]["usage"];
    assert_eq!((&usage["input_tokens"], &usage["cache_read_input_tokens"]), (&json!(10), &json!(3)));
    assert_eq!(usage["cache_creation_input_tokens"], 2);
    let blocks: Vec<_> = of_type(&events, "content_block_start").iter().map(|event| &event["content_block"]).collect();
    assert_eq!(
        blocks,
        [
            &json!({ "type": "thinking", "thinking": "", "signature": "" }),
            &json!({ "type": "text", "text": "" }),
            &json!({ "type": "tool_use", "id": "call_1", "name": "exec", "input": {} }),
            &json!({ "type": "tool_use", "id": "call_2", "name": "wait", "input": {} }),
        ]
    );
    let of = |index: usize| -> Vec<Value> { events.iter().filter(|event| event["index"] == index).cloned().collect() };
    assert_eq!(joined(&of(0), "/delta/thinking"), "Two calls, then.");
    assert_eq!(joined(&of(0), "/delta/signature"), "sig==");
    assert_eq!(joined(&of(1), "/delta/text"), "Grüße, world.");
    assert_eq!(joined(&of(2), "/delta/partial_json"), ARGUMENTS);
    assert_eq!(joined(&of(3), "/delta/partial_json"), "{}");
    for index in 0..4 {
        assert_eq!(of(index).last().unwrap()["type"], "content_block_stop");
    }
    let [.., delta, stop] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&delta["delta"]["stop_reason"], &stop["type"]), (&json!("tool_use"), &json!("message_stop")));
    assert_eq!((&delta["usage"]["output_tokens"], &delta["usage"]["input_tokens"]), (&json!(9), &json!(10)));
}

#[tokio::test]
async fn whole_replies_say_what_streams_say() {
    let server = server(SCRIPT);
    let chat = ask(&server, Format::Chat, &json!({})).await.json();
    let message = &chat["choices"][0]["message"];
    assert_eq!(
        (&message["content"], &message["reasoning_content"]),
        (&json!("Grüße, world."), &json!("Two calls, then."))
    );
    assert_eq!(message["tool_calls"][0]["function"], json!({ "name": "exec", "arguments": ARGUMENTS }));
    assert_eq!(
        (&chat["choices"][0]["finish_reason"], &chat["usage"]["total_tokens"]),
        (&json!("tool_calls"), &json!(24))
    );

    let responses = ask(&server, Format::Responses, &json!({})).await.json();
    let streamed = ask(&server, Format::Responses, &streamed()).await.data();
    let streamed = &streamed.last().unwrap()["response"];
    assert_eq!(responses["output"].to_string().replace("_2_", "_3_"), streamed["output"].to_string());
    assert_eq!(responses["usage"], streamed["usage"]);

    let messages = ask(&server, Format::Messages, &json!({ "model": "another" })).await.json();
    assert_eq!(messages["model"], "another");
    assert_eq!(
        messages["content"][0],
        json!({ "type": "thinking", "thinking": "Two calls, then.", "signature": "sig==" })
    );
    assert_eq!(messages["content"][2]["input"], serde_json::from_str::<Value>(ARGUMENTS).unwrap());
    assert_eq!((&messages["stop_reason"], &messages["usage"]["output_tokens"]), (&json!("tool_use"), &json!(9)));
}

#[tokio::test]
async fn encrypted_thinking_alone_is_redacted() {
    let script = r#"{ replies: [{ parts: [{ encrypted: "data" }, { text: "Hi" }], repeat: true }] }"#;
    let server = server(script);
    let events = ask(&server, Format::Messages, &streamed()).await.data();
    assert_eq!(events[1]["content_block"], json!({ "type": "redacted_thinking", "data": "data" }));
    assert_eq!(events[2]["type"], "content_block_stop");
    let events = ask(&server, Format::Responses, &streamed()).await.data();
    assert_eq!(
        events[3]["item"],
        json!({ "id": "rs_2_0", "type": "reasoning", "summary": [], "encrypted_content": "data" })
    );
    let chunks = ask(&server, Format::Chat, &streamed()).await.data();
    assert_eq!(joined(&chunks, "/choices/0/delta/reasoning_content"), "");
}

#[tokio::test]
async fn text_and_refusal_are_contents_of_one_message_in_responses() {
    let script = r#"{ replies: [{ parts: [{ text: "I" }, { refusal: "cannot" }], repeat: true }] }"#;
    let server = server(script);
    let events = ask(&server, Format::Responses, &streamed()).await.data();
    let delta = of_type(&events, "response.refusal.delta")[0];
    assert_eq!((&delta["content_index"], &delta["delta"]), (&json!(1), &json!("cannot")));
    assert_eq!(events.last().unwrap()["response"]["output"].as_array().unwrap().len(), 1);
    let chat = ask(&server, Format::Chat, &json!({})).await.json();
    assert_eq!(chat["choices"][0]["message"]["refusal"], "cannot");
    assert_eq!(ask(&server, Format::Messages, &json!({})).await.json()["stop_reason"], "refusal");
}

#[tokio::test]
async fn every_stop_has_a_word_in_every_format() {
    let table = [
        ("end", "stop", "completed", "end_turn"),
        ("calls", "tool_calls", "completed", "tool_use"),
        ("length", "length", "incomplete max_output_tokens", "max_tokens"),
        ("window", "length", "incomplete max_output_tokens", "model_context_window_exceeded"),
        ("refusal", "stop", "completed", "refusal"),
        ("pause", "stop", "completed", "pause_turn"),
        ("filter", "content_filter", "incomplete content_filter", "refusal"),
    ];
    for (stop, chat, responses, messages) in table {
        let server = server(&format!("{{ replies: [{{ parts: [{{ text: 'Hi' }}], stop: '{stop}', repeat: true }}] }}"));
        let found = ask(&server, Format::Chat, &json!({})).await.json();
        assert_eq!(found["choices"][0]["finish_reason"], chat, "{stop}");
        let found = ask(&server, Format::Responses, &streamed()).await.data().pop().unwrap();
        let (status, reason) = responses.split_once(' ').unwrap_or((responses, ""));
        assert_eq!(found["type"], format!("response.{status}"), "{stop}");
        let response = &found["response"];
        assert_eq!(response["incomplete_details"]["reason"].as_str().unwrap_or_default(), reason, "{stop}");
        assert_eq!(response["output"][0]["status"], status, "{stop}");
        let found = ask(&server, Format::Messages, &json!({})).await.json();
        assert_eq!(found["stop_reason"], messages, "{stop}");
    }
}

#[tokio::test]
async fn arguments_may_be_text_that_is_no_json() {
    let script = r#"{ replies: [{ parts: [{ call: { name: "exec", arguments: "{\"code\": " } }], repeat: true }] }"#;
    let server = server(script);
    let chat = ask(&server, Format::Chat, &json!({})).await.json();
    assert_eq!(chat["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], "{\"code\": ");
    let events = ask(&server, Format::Messages, &streamed()).await.data();
    assert_eq!(joined(&events, "/delta/partial_json"), "{\"code\": ");
    assert_eq!(events[1]["content_block"]["id"], "toolu_2_1");
}
