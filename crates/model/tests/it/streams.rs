//! Replies as they come in: the same from every format, however the bytes are cut.

use pincer_model::{Api, Assistant, Event, Message, Part, Plan, Request, Stop, ToolResult, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{hello, house, script};

const REPLY: &str = r#"{ parts: [
    { thinking: "Let me see…\nTwo lines.", signature: "c2lnbmF0dXJl", encrypted: "Y2lwaGVy" },
    { text: "Grüße, 世界 🌍! \"quoted\" \\ back" },
    { call: { id: "call_1", name: "exec", arguments: { code: "return \"ä\\n\\u0007\" + 1" } } },
    { call: { id: "call_2", name: "wait", arguments: {} } }],
  usage: { input: 100, cacheRead: 40, cacheWrite: 0, output: 20, thinking: 5 }, stop: "calls""#;

#[tokio::test]
async fn every_format_gives_the_same_reply() {
    for api in Api::ALL {
        let house = house(&script(&[&format!("{REPLY} }}")]));
        let (events, error) = house.events(Plan::new(house.target(api)), hello()).await;
        assert_eq!(error, None);
        let text: String = events
            .iter()
            .filter_map(|event| if let Event::Text(text) = event { Some(text.as_str()) } else { None })
            .collect();
        assert_eq!(text, "Grüße, 世界 🌍! \"quoted\" \\ back");
        let thought: String = events
            .iter()
            .filter_map(|event| if let Event::Thinking(text) = event { Some(text.as_str()) } else { None })
            .collect();
        assert_eq!(thought, "Let me see…\nTwo lines.", "{api:?}");
        let Some(Event::Done(reply)) = events.last() else { panic!("{events:?}") };
        assert_eq!(reply.stop, Stop::Calls);
        assert_eq!((reply.usage.input, reply.usage.cache_read, reply.usage.output), (100, 40, 20), "{api:?}");
        let calls: Vec<(&str, &str, Value)> = reply
            .message
            .calls()
            .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.to().unwrap()))
            .collect();
        assert_eq!(calls[0], ("call_1", "exec", json!({ "code": r#"return "ä\n\u0007" + 1"# })));
        assert_eq!(calls[1], ("call_2", "wait", json!({})));
        assert!(events.iter().any(|event| matches!(event, Event::CallBegan { index: 1, name, .. } if name == "wait")));
        assert!(matches!(&events[0], Event::Began { id: Some(_), model: Some(_) }), "{:?}", events[0]);
    }
}

#[tokio::test]
async fn the_same_events_come_out_however_the_bytes_are_cut() {
    for api in Api::ALL {
        let whole = house(&script(&[&format!("{REPLY} }}")]));
        let (expected, _) = whole.events(Plan::new(whole.target(api)), hello()).await;
        for wire in [
            "cut: 1",
            "cut: 2",
            "cut: 7",
            "cut: 1000",
            "cut: 3, lineEnd: '\\r\\n'",
            "cut: 1, lineEnd: '\\r'",
            "pings: true, cut: 5",
        ] {
            let house = house(&script(&[&format!("{REPLY}, wire: {{ {wire} }} }}")]));
            let (events, error) = house.events(Plan::new(house.target(api)), hello()).await;
            assert_eq!(error, None, "{api:?} {wire}");
            assert!(events == expected, "{api:?} {wire}: {events:?}");
        }
    }
}

fn parts() -> impl Strategy<Value = Vec<(u8, String, Value)>> {
    let text = || proptest::string::string_regex("[a-zA-Z0-9 äß世🌍\"\\\\\n{}\\[\\]:,']{1,30}").unwrap();
    let value = prop_oneof![Just(json!({})), text().prop_map(|text| json!({ "a b": text, "n": [1, 2.5, null, true] }))];
    proptest::collection::vec((0..3_u8, text(), value), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Two things are lost on the way: thoughts that nothing follows, and in Chat Completions the order of text and calls.
    #[test]
    fn any_reply_survives_the_way_in_and_out_again(parts in parts(), cuts in 1..40_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let scripted: Vec<Value> = parts.iter().enumerate().map(|(index, (kind, text, value))| match kind {
                0 => json!({ "text": text }),
                1 => json!({ "thinking": text, "signature": "c2ln", "encrypted": "ZW5j" }),
                _ => json!({ "call": { "id": format!("call_{index}"), "name": "exec", "arguments": value } }),
            }).collect();
            let first = json!({ "parts": scripted, "wire": { "cut": cuts } }).to_string();
            for api in Api::ALL {
                let house = house(&script(&[&first, "{ parts: [{ text: 'ok' }] }"]));
                let reply = house.reply(api, hello()).await;
                let said = |message: &Assistant| -> (String, String, Vec<(String, Value)>) {
                    let thoughts = message.parts.iter().filter_map(|part| if let Part::Thinking { text, .. } = part { Some(text.as_str()) } else { None });
                    let calls = message.calls().map(|call| (call.id.clone(), call.arguments.to().unwrap()));
                    (message.text(), thoughts.collect(), calls.collect())
                };
                let joined = |kind: u8| parts.iter().filter(|part| part.0 == kind).map(|part| part.1.as_str()).collect::<String>();
                let calls: Vec<(String, Value)> = parts.iter().enumerate().filter(|(_, part)| part.0 == 2)
                    .map(|(index, part)| (format!("call_{index}"), part.2.clone())).collect();
                prop_assert_eq!(said(&reply.message), (joined(0), joined(1), calls.clone()), "{:?}", api);
                // And back: kept, stored as JSON, sent.
                let stored = serde_json::to_string(&reply.message).unwrap();
                let message: Assistant = serde_json::from_str(&stored).unwrap();
                prop_assert_eq!(&message, &reply.message);
                let results = calls.iter().map(|(id, _)| ToolResult { call: id.clone(), content: vec!["done".into()], is_error: false });
                let mut messages = vec![Message::user("Hello."), Message::Assistant(message)];
                if !calls.is_empty() {
                    messages.push(Message::Results(results.collect()));
                }
                messages.push(Message::user("Go on."));
                house.reply(api, Request { messages, ..Request::default() }).await;
                let sent = house.body(1).to_string();
                let last = parts.iter().rposition(|part| part.0 != 1);
                for (index, (kind, text, value)) in parts.iter().enumerate() {
                    if *kind == 1 && last.is_none_or(|last| last < index) {
                        continue;
                    }
                    let text = if *kind == 2 { value["a b"].as_str().unwrap_or("") } else { text.as_str() };
                    let escaped = Value::from(text).to_string();
                    let escaped = if *kind == 2 { Value::from(&escaped[1..escaped.len() - 1]).to_string() } else { escaped };
                    let plain = Value::from(text).to_string();
                    let found = |text: &str| sent.contains(text.trim_matches('"'));
                    prop_assert!(found(&escaped) || found(&plain), "{:?}: {} in {}", api, text, sent);
                }
            }
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn what_only_the_provider_understands_goes_back_to_it_unchanged_and_to_no_other() {
    for api in Api::ALL {
        let house = house(&script(&[&format!("{REPLY} }}"), "{ parts: [{ text: 'ok' }], repeat: true }"]));
        let reply = house.reply(api, hello()).await;
        let results = ["call_1", "call_2"].map(|call| ToolResult {
            call: call.into(),
            content: vec!["1".into()],
            is_error: false,
        });
        let messages =
            vec![Message::user("Hello."), Message::Assistant(reply.message.clone()), Message::Results(results.into())];
        let request = Request { messages, ..Request::default() };
        house.reply(api, request.clone()).await;
        let sent = house.body(1).to_string();
        let secret = match api {
            Api::ChatCompletions => "\"reasoning_content\":\"Let me see…\\nTwo lines.\"",
            Api::Responses => "\"encrypted_content\":\"Y2lwaGVy\"",
            Api::Messages => "\"signature\":\"c2lnbmF0dXJl\"",
        };
        assert!(sent.contains(secret), "{api:?}: {sent}");
        // The same conversation at another provider that speaks the same format.
        let other = pincer_model::Target::new(&std::sync::Arc::new(house.provider("q", api)), "scripted");
        house.events(Plan::new(other), request.clone()).await;
        let sent = house.body(2).to_string();
        assert!(!sent.contains(secret) && !sent.contains("Let me see"), "{api:?}: {sent}");
        assert!(sent.contains("Grüße") && sent.contains("call_2"), "the rest is for everybody: {sent}");
    }
}

#[tokio::test]
async fn every_way_to_stop_has_its_name() {
    for (word, expected) in [
        ("end", [Stop::End, Stop::End, Stop::End]),
        ("length", [Stop::Length, Stop::Length, Stop::Length]),
        ("refusal", [Stop::End, Stop::End, Stop::Refusal]),
        ("filter", [Stop::Refusal, Stop::Refusal, Stop::Refusal]),
        ("pause", [Stop::End, Stop::End, Stop::Pause]),
        ("window", [Stop::Length, Stop::Length, Stop::Window]),
    ] {
        for (api, expected) in Api::ALL.into_iter().zip(expected) {
            let house = house(&script(&[&format!("{{ parts: [{{ text: 'x' }}], stop: '{word}' }}")]));
            let (events, error) = house.events(Plan::new(house.target(api)), hello()).await;
            match (events.last(), error) {
                (Some(Event::Done(reply)), None) => assert_eq!(reply.stop, expected, "{word} {api:?}"),
                // Not every format has every reason.
                (_, error) => panic!("{word} {api:?}: {error:?} {:?}", house.server.complaints()),
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_is_a_part_of_its_own() {
    for api in [Api::ChatCompletions, Api::Responses] {
        let house = house(&script(&["{ parts: [{ refusal: 'I would rather not.' }] }"]));
        let reply = house.reply(api, hello()).await;
        assert!(
            matches!(&reply.message.parts[..], [Part::Refusal { text, .. }] if text == "I would rather not."),
            "{reply:?}"
        );
        assert_eq!(reply.stop, Stop::Refusal);
    }
}

#[tokio::test]
async fn a_count_of_tokens_that_is_nonsense_is_bounded() {
    let most = 1 << 40;
    for api in Api::ALL {
        let max = u64::MAX;
        let house = house(&script(&[&format!(
            "{{ parts: [{{ text: 'Hi.' }}], usage: {{ input: {max}, cacheRead: 3, output: {max}, thinking: {max} }} }}"
        )]));
        let usage = house.reply(api, hello()).await.usage;
        assert!((most - 3..=most).contains(&usage.input), "{api:?} {usage:?}");
        assert_eq!((usage.cache_read, usage.output, usage.thinking), (3, most, most), "{api:?}");
    }
}

#[tokio::test]
async fn calls_are_told_apart_by_their_ids_before_their_indices() {
    let chunk =
        |calls: &str| format!(r#"data: {{"id":"c","choices":[{{"index":0,"delta":{{"tool_calls":[{calls}]}}}}]}}"#);
    let body = [
        // Some servers give all calls the index 0, or none.
        chunk(r#"{"index":0,"id":"a","function":{"name":"one","arguments":"{\"x\":"}}"#),
        chunk(r#"{"index":0,"id":"a","function":{"arguments":"1}"}}"#),
        chunk(r#"{"index":0,"id":"b","function":{"name":"two","arguments":"{}"}}"#),
        // Or give two calls the same id.
        chunk(r#"{"index":5,"id":"b","function":{"name":"namesake","arguments":"{\"z\":"}}"#),
        chunk(r#"{"index":5,"id":"b","function":{"arguments":"3}"}}"#),
        chunk(r#"{"function":{"name":"three","arguments":""}}"#),
        chunk(r#"{"function":{"arguments":{"y":2}}}"#),
        r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#.to_owned(),
    ];
    let body = Value::from(format!("{}\n\n", body.join("\n\n"))).to_string();
    let house = house(&script(&[&format!(
        "{{ recorded: {{ status: 200, headers: {{ 'content-type': 'text/event-stream' }}, body: {body} }} }}"
    )]));
    let reply = house.reply(Api::ChatCompletions, hello()).await;
    let calls: Vec<(&str, &str, &str)> =
        reply.message.calls().map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(
        calls,
        [
            ("a", "one", r#"{"x":1}"#),
            ("b", "two", "{}"),
            ("call_c_2", "namesake", r#"{"z":3}"#),
            ("call_c_3", "three", r#"{"y":2}"#),
        ]
    );
    assert_eq!(reply.stop, Stop::Calls, "although it said `stop`");
    assert_eq!(reply.usage, Usage::default());
}

#[tokio::test]
async fn two_calls_of_one_tool_under_one_id_are_two_calls() {
    let calls = |calls: &str| format!(r#"{{"id":"c","choices":[{{"index":0,"delta":{{"tool_calls":[{calls}]}}}}]}}"#);
    let begun = |index: u32, arguments: &str| {
        calls(&format!(r#"{{"index":{index},"id":"a","function":{{"name":"t","arguments":{arguments:?}}}}}"#))
    };
    let more = |index: u32, id: &str, arguments: &str| {
        calls(&format!(r#"{{"index":{index}{id},"function":{{"arguments":{arguments:?}}}}}"#))
    };
    let same = r#","id":"a""#;
    for chunks in [
        vec![begun(0, "{\"n\":1}"), begun(1, "{\"n\":2}")],
        vec![begun(0, ""), more(0, "", "{\"n\":1}"), begun(1, ""), more(1, "", "{\"n\":2}")],
        vec![begun(0, "{\"n\":"), more(0, same, "1}"), begun(1, "{\"n\":"), more(1, same, "2}")],
        vec![begun(0, ""), begun(1, ""), more(1, same, "{\"n\":2}"), more(0, same, "{\"n\":1}")],
    ] {
        let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned();
        let body: String = chunks.iter().chain([&end]).map(|chunk| format!("data: {chunk}\n\n")).collect();
        let body = Value::from(body).to_string();
        let house = house(&script(&[&format!(
            "{{ recorded: {{ status: 200, headers: {{ 'content-type': 'text/event-stream' }}, body: {body} }} }}"
        )]));
        let reply = house.reply(Api::ChatCompletions, hello()).await;
        let calls: Vec<(&str, &str)> =
            reply.message.calls().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
        assert_eq!(calls, [("a", r#"{"n":1}"#), ("call_c_1", r#"{"n":2}"#)], "{chunks:?}");
    }
}

#[tokio::test]
async fn ids_that_are_made_up_differ_between_replies() {
    let body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"t\",\"arguments\":\"{}\"}}]},\
                \"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let recorded = format!(
        "{{ recorded: {{ status: 200, headers: {{ 'content-type': 'text/event-stream' }}, body: {} }} }}",
        Value::from(body)
    );
    let house = house(&script(&[&recorded, &recorded]));
    let mut ids = Vec::new();
    for _ in 0..2 {
        let reply = house.reply(Api::ChatCompletions, hello()).await;
        ids.extend(reply.message.calls().map(|call| call.id.clone()));
    }
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
}

#[tokio::test]
async fn a_call_that_was_not_announced_has_its_own_name_and_id() {
    let body = [
        r#"data: {"type":"response.created","response":{"id":"r"}}"#,
        r#"data: {"type":"response.function_call_arguments.delta","item_id":"fc_1","delta":"{}"}"#,
        r#"data: {"type":"response.output_item.done","item":{"id":"fc_1","type":"function_call","call_id":"call_9","name":"exec","arguments":"{}"}}"#,
        r#"data: {"type":"response.completed","response":{"id":"r","status":"completed"}}"#,
    ];
    let body = Value::from(format!("{}\n\n", body.join("\n\n"))).to_string();
    let recorded =
        format!("{{ recorded: {{ status: 200, headers: {{ 'content-type': 'text/event-stream' }}, body: {body} }} }}");
    let house = house(&script(&[&recorded]));
    let reply = house.reply(Api::Responses, hello()).await;
    let calls: Vec<(&str, &str)> = reply.message.calls().map(|call| (call.id.as_str(), call.name.as_str())).collect();
    assert_eq!(calls, [("call_9", "exec")]);
}
