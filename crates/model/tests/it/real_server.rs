//! Replies of a real server, llama.cpp's with SmolLM2-135M, byte for byte as they were recorded.
//!
//! To record one again, start `interop/servers/llamacpp.py` and run the example `ask` with `--record`. The files have things in them
//! that the official servers never send: events of Responses without `sequence_number` and `output_index`, a `created` without a
//! model, `completed` at the limit of tokens, OpenAI's form of errors in Anthropic's format, ids of another format.

use std::path::Path;

use pincer_model::{Api, ErrorKind, Event, ModelError, Plan, Reply, Stop, Usage};
use pincer_scripted::{Script, Server};
use proptest::prelude::*;
use serde_json::Value;

use crate::common::{House, hello, house, script};

/// Asks for what was recorded as `what`. Returns the pieces of text, and the end.
async fn replay(api: Api, what: &str) -> (Vec<String>, Result<Reply, ModelError>) {
    let name = format!("llamacpp-{}-{what}.json", api.name());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name);
    let house = House { server: Server::start(Script::from_file(&file).unwrap()).unwrap(), ..house(&script(&[])) };
    let (events, error) = house.events(Plan::new(house.target(api)), hello()).await;
    let (mut texts, mut end) = (Vec::new(), error.map(Err));
    for event in events {
        match event {
            Event::Began { id, .. } => assert!(id.is_some(), "{api:?}"),
            Event::Text(text) => texts.push(text),
            Event::Done(reply) => end = Some(Ok(*reply)),
            other => panic!("{api:?}: {other:?}"),
        }
    }
    (texts, end.expect("an end"))
}

#[tokio::test]
async fn a_reply_is_read_up_to_its_end() {
    for api in Api::ALL {
        let (texts, end) = replay(api, "end").await;
        let reply = end.unwrap();
        assert_eq!(texts.len(), 11, "{api:?}: {texts:?}");
        assert_eq!(reply.message.text(), "The answer to this classic math problem is 4.", "{api:?}");
        assert_eq!(reply.message.parts.len(), 1, "{api:?}");
        assert_eq!((reply.stop, reply.usage.prompt(), reply.usage.output), (Stop::End, 37, 12), "{api:?}");
    }
}

#[tokio::test]
async fn a_reply_stops_at_the_most_tokens() {
    for (api, stop) in [
        (Api::ChatCompletions, Stop::Length),
        // The server says `completed`: nothing in its reply tells this from the end.
        (Api::Responses, Stop::End),
        (Api::Messages, Stop::Length),
    ] {
        let (texts, end) = replay(api, "length").await;
        let reply = end.unwrap();
        assert_eq!(texts, ["The", " answer", " to", " this"], "{api:?}");
        assert_eq!(reply.stop, stop, "{api:?}");
        assert_eq!(reply.usage, Usage { input: 1, cache_read: 36, output: 4, ..Usage::default() }, "{api:?}");
    }
}

#[tokio::test]
async fn a_prompt_beyond_the_window_is_an_overflow_with_its_numbers() {
    for api in Api::ALL {
        let (texts, end) = replay(api, "overflow").await;
        let error = end.unwrap_err();
        assert_eq!(texts, Vec::<String>::new(), "{api:?}");
        assert_eq!(error.kind, ErrorKind::ContextOverflow { used: Some(629), limit: Some(512) }, "{api:?}");
        assert_eq!(error.status, Some(400), "{api:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_split_of_a_recorded_stream_gives_the_same_events(places in proptest::collection::btree_set(1..100_000_usize, 0..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for api in Api::ALL {
            let name = format!("llamacpp-{}-end.json", api.name());
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name);
            let mut exchange: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
            let length = exchange["replies"][0]["recorded"]["body"].as_str().unwrap().len();
            let mut events = |cuts: Vec<usize>| {
                exchange["replies"][0]["recorded"]["cuts"] = cuts.into();
                let house = house(&exchange.to_string());
                runtime.block_on(house.events(Plan::new(house.target(api)), hello()))
            };
            let cuts: std::collections::BTreeSet<usize> = places.iter().map(|place| 1 + place % (length - 1)).collect();
            prop_assert!(events(cuts.into_iter().collect()) == events(Vec::new()), "{:?}", api);
        }
    }
}
