//! Requests as they are written in each format.

use pincer_model::{
    Api, Assistant, Cache, Choice, Content, Event, Image, Level, Message, Model, Origin, Part, Plan, Reasoning,
    Request, ToolCall, ToolResult,
};
use serde_json::{Value, json};

use crate::common::{House, coding, hello, house, script};

fn answering() -> House {
    house(&script(&["{ parts: [{ text: 'ok' }], repeat: true }"]))
}

async fn sent(api: Api, model: Model, request: Request) -> Value {
    let house = answering();
    let (events, error) = house.events(Plan::new(house.target_with(api, model)), request).await;
    assert_eq!(error, None, "{events:?}");
    house.body(0)
}

fn conversation() -> Request {
    let picture = Image::Data { media_type: "image/png".into(), base64: "aWNvbg==".into() };
    let call = ToolCall {
        id: "c1".into(),
        name: "exec".into(),
        arguments: pincer_json::Json::parse(r#"{ "code" : 1 }"#).unwrap(),
        raw: None,
    };
    let reply = Assistant {
        parts: vec![
            Part::Thinking { text: "secret thought".into(), raw: None },
            Part::Text { text: "Calling.".into(), raw: None },
            Part::Call(call),
        ],
        origin: Some(Origin { provider: "elsewhere".into(), api: Api::Messages, model: "m".into() }),
    };
    let content = vec![Content::Text("What is this?".into()), Content::Image(picture.clone())];
    let results =
        vec![ToolResult { call: "c1".into(), content: vec!["failed".into(), Content::Image(picture)], is_error: true }];
    Request {
        system: vec!["Be brief.".into(), "Be kind.".into()],
        messages: vec![
            Message::User(content),
            Message::Assistant(reply),
            Message::Results(results),
            Message::user("And now?"),
        ],
        max_tokens: Some(99),
        temperature: Some(0.5),
        choice: Choice::Named("exec".into()),
        cache: Cache { after_system: true, after_messages: vec![0, 2], is_long: true, key: Some("session-1".into()) },
        ..coding()
    }
}

#[tokio::test]
async fn chat_completions_are_written_as_its_servers_want_them() {
    let body = sent(Api::ChatCompletions, Model::default(), conversation()).await;
    let image = json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,aWNvbg==" } });
    assert_eq!(
        body,
        json!({
            "model": "scripted",
            "messages": [
                { "role": "system", "content": "Be brief.\n\nBe kind." },
                { "role": "user", "content": [{ "type": "text", "text": "What is this?" }, image] },
                { "role": "assistant", "content": "Calling.", "tool_calls": [
                    { "id": "c1", "type": "function", "function": { "name": "exec", "arguments": "{ \"code\" : 1 }" } }] },
                { "role": "tool", "tool_call_id": "c1", "content": "failed" },
                { "role": "user", "content": [{ "type": "text", "text": "Pictures of the results above:" }, image] },
                { "role": "user", "content": "And now?" },
            ],
            "tools": [
                { "type": "function", "function": { "name": "exec", "description": "Does exec.", "parameters": { "type": "object", "properties": {} } } },
                { "type": "function", "function": { "name": "wait", "description": "Does wait.", "parameters": { "type": "object", "properties": {} } } },
            ],
            "tool_choice": { "type": "function", "function": { "name": "exec" } },
            "stream": true,
            "stream_options": { "include_usage": true },
            "max_tokens": 99,
            "temperature": 0.5,
        })
    );
}

#[tokio::test]
async fn responses_are_written_as_its_servers_want_them() {
    let body = sent(Api::Responses, Model::default(), conversation()).await;
    let image = json!({ "type": "input_image", "image_url": "data:image/png;base64,aWNvbg==", "detail": "auto" });
    assert_eq!(body["instructions"], "Be brief.\n\nBe kind.");
    assert_eq!(
        body["input"],
        json!([
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "What is this?" }, image] },
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "Calling.", "annotations": [] }] },
            { "type": "function_call", "call_id": "c1", "name": "exec", "arguments": "{ \"code\" : 1 }" },
            { "type": "function_call_output", "call_id": "c1", "output": [{ "type": "input_text", "text": "failed" }, image] },
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "And now?" }] },
        ])
    );
    assert_eq!(
        body["tools"][0],
        json!({ "type": "function", "name": "exec", "description": "Does exec.",
        "parameters": { "type": "object", "properties": {} }, "strict": false })
    );
    assert_eq!(
        (&body["store"], &body["prompt_cache_key"], &body["max_output_tokens"]),
        (&json!(false), &json!("session-1"), &json!(99))
    );
    assert_eq!(body["tool_choice"], json!({ "type": "function", "name": "exec" }));
}

#[tokio::test]
async fn messages_are_written_as_its_servers_want_them() {
    let body = sent(Api::Messages, Model::default(), conversation()).await;
    let mark = json!({ "type": "ephemeral", "ttl": "1h" });
    let image =
        json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "aWNvbg==" } });
    let mut marked_image = image.clone();
    marked_image["cache_control"] = mark.clone();
    assert_eq!(
        body["system"],
        json!([{ "type": "text", "text": "Be brief." }, { "type": "text", "text": "Be kind.", "cache_control": mark }])
    );
    assert_eq!(
        body["messages"],
        json!([
            { "role": "user", "content": [{ "type": "text", "text": "What is this?" }, marked_image] },
            { "role": "assistant", "content": [{ "type": "text", "text": "Calling." },
                { "type": "tool_use", "id": "c1", "name": "exec", "input": { "code": 1 } }] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "c1", "content": [{ "type": "text", "text": "failed" }, image], "is_error": true, "cache_control": mark },
                { "type": "text", "text": "And now?" }] },
        ])
    );
    assert_eq!(
        body["tools"][1],
        json!({ "name": "wait", "description": "Does wait.", "input_schema": { "type": "object", "properties": {} } })
    );
    assert_eq!((&body["tool_choice"], &body["max_tokens"]), (&json!({ "type": "tool", "name": "exec" }), &json!(99)));
    assert!(!body.to_string().contains("secret thought"), "a thought of another provider");
}

#[tokio::test]
async fn a_model_that_takes_text_only_is_sent_no_picture() {
    for api in Api::ALL {
        let body = sent(api, Model { takes_images: Some(false), ..Model::default() }, conversation()).await.to_string();
        assert!(!body.contains("aWNvbg==") && !body.contains("Pictures of the results"), "{api:?}: {body}");
        assert_eq!(body.matches("A picture was left out").count(), 2, "{api:?}: {body}");
    }
}

#[tokio::test]
async fn thinking_is_said_in_the_words_of_each_format_and_model() {
    use Level::{Adaptive, High, Low, Max, Medium, Off, XHigh};
    let effort = Reasoning::Effort(vec![Off, Low, Medium, High]);
    let adaptive = Reasoning::Adaptive(vec![Low, High, Max]);
    for (api, reasoning, level, path, expected, given) in [
        (Api::ChatCompletions, effort.clone(), High, "/reasoning_effort", json!("high"), None),
        (Api::ChatCompletions, effort.clone(), Off, "/reasoning_effort", json!("none"), None),
        (Api::ChatCompletions, effort.clone(), XHigh, "/reasoning_effort", json!("high"), Some(High)),
        (Api::ChatCompletions, Reasoning::None, High, "/reasoning_effort", Value::Null, Some(Off)),
        (Api::Responses, effort.clone(), Low, "/reasoning/effort", json!("low"), None),
        (Api::Responses, effort, Adaptive, "/reasoning/effort", json!("medium"), Some(Medium)),
        (Api::Messages, Reasoning::Budget, High, "/thinking/budget_tokens", json!(6144), None),
        (Api::Messages, Reasoning::Budget, Off, "/thinking", json!({ "type": "disabled" }), None),
        (Api::Messages, adaptive.clone(), Adaptive, "/thinking", json!({ "type": "adaptive" }), None),
        (Api::Messages, adaptive.clone(), Max, "/output_config/effort", json!("max"), None),
        (Api::Messages, adaptive, XHigh, "/output_config/effort", json!("high"), Some(High)),
        (Api::Messages, Reasoning::None, High, "/thinking", Value::Null, Some(Off)),
    ] {
        let house = answering();
        let model = Model { reasoning: Some(reasoning.clone()), ..Model::default() };
        let (events, error) =
            house.events(Plan::new(house.target_with(api, model)), Request { thinking: level, ..hello() }).await;
        assert_eq!(error, None);
        let body = house.body(0);
        assert_eq!(body.pointer(path).unwrap_or(&Value::Null), &expected, "{api:?} {reasoning:?} {level:?}: {body}");
        let told =
            events.iter().find_map(|event| if let Event::Adjusted { given, .. } = event { Some(*given) } else { None });
        assert_eq!(told, given, "{api:?} {reasoning:?} {level:?}");
    }
}

#[tokio::test]
async fn each_format_proves_itself_with_its_own_header() {
    for (api, header, value) in [
        (Api::ChatCompletions, "authorization", "Bearer key-of-the-provider"),
        (Api::Responses, "authorization", "Bearer key-of-the-provider"),
        (Api::Messages, "x-api-key", "key-of-the-provider"),
    ] {
        let house = answering();
        let mut provider = house.provider("p", api);
        provider.headers.insert("X-Own".into(), "yes".into());
        let target = pincer_model::Target::new(&std::sync::Arc::new(provider), "scripted");
        house.events(Plan::new(target), hello()).await;
        let request = house.server.requests()[0].clone();
        assert_eq!(request.header(header), Some(value));
        assert_eq!(request.header("x-own"), Some("yes"));
        assert_eq!(request.header("anthropic-version").is_some(), api == Api::Messages);
    }
}

#[tokio::test]
async fn the_provider_says_which_models_it_has() {
    let house = house("{ models: ['one', 'two'], replies: [] }");
    for api in Api::ALL {
        assert_eq!(house.models.list(&house.provider("p", api)).await.unwrap(), ["one", "two"], "{api:?}");
    }
}

#[tokio::test]
async fn the_boundary_is_behind_what_stays_the_same_in_every_format() {
    let request = |system: &[&str], suffix: Option<&str>| Request {
        system: system.iter().map(|text| (*text).to_owned()).collect(),
        suffix: suffix.map(str::to_owned),
        cache: Cache { after_system: true, ..Cache::default() },
        ..coding()
    };
    let whole = || request(&["Be brief.", "Be kind.", ""], Some("Today is Friday."));
    let mark = json!({ "type": "ephemeral" });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let marked = json!({ "type": "text", "text": "Be kind.", "cache_control": mark });
    let body = sent(Api::Messages, Model::default(), whole()).await;
    assert_eq!(body["system"], json!([text("Be brief."), marked, text("Today is Friday.")]));
    assert_eq!(body["tools"][1].get("cache_control"), None);
    // Without anything that stays the same, the tools are what stays.
    let body = sent(Api::Messages, Model::default(), request(&[], Some("Today is Friday."))).await;
    assert_eq!(body["system"], json!([text("Today is Friday.")]));
    assert_eq!(body["tools"][1]["cache_control"], mark);
    let joined = "Be brief.\n\nBe kind.\n\nToday is Friday.";
    let body = sent(Api::ChatCompletions, Model::default(), whole()).await;
    assert_eq!(body["messages"][0], json!({ "role": "system", "content": joined }));
    let body = sent(Api::Responses, Model::default(), whole()).await;
    assert_eq!(body["instructions"], joined);
}

/// A model can call anything, and the provider reads the call again in each later request.
#[tokio::test]
async fn calls_with_names_that_no_provider_takes_are_sent_with_others() {
    for (name, wanted) in [
        ("openclaw:core:read", "openclaw_core_read"),
        ("read file", "read_file"),
        ("", "_"),
        ("\u{fc}ber", "_ber"),
        (&*"x".repeat(100), &*"x".repeat(64)),
        ("read-file_2", "read-file_2"),
    ] {
        for api in [Api::ChatCompletions, Api::Responses, Api::Messages] {
            for raw in [None, Some(json!({ "type": "function_call", "name": name, "arguments": "{}" }))] {
                let raw = raw.map(|raw| pincer_json::Json::of(&raw).unwrap());
                let arguments = pincer_json::Json::parse("{}").unwrap();
                let call = ToolCall { id: "c1".into(), name: name.into(), arguments, raw };
                let origin = Some(Origin { provider: "test".into(), api, model: "m".into() });
                let reply = Assistant { parts: vec![Part::Call(call)], origin };
                let result = ToolResult { call: "c1".into(), content: vec!["none".into()], is_error: true };
                let messages = vec![Message::user("Go."), Message::Assistant(reply), Message::Results(vec![result])];
                let body = sent(api, Model::default(), Request { messages, ..coding() }).await.to_string();
                assert!(body.contains(&format!(r#""name":"{wanted}""#)), "{api:?} {name:?}: {body}");
                assert!(name == wanted || !body.contains(&format!(r#""name":"{name}""#)), "{api:?} {name:?}: {body}");
            }
        }
    }
}
