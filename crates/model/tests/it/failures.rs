//! Failures: by kind, tried again where that is right, then asked of the next model.

use std::sync::Arc;

use pincer_model::{Api, Debug, ErrorKind, Event, Plan, Target};

use crate::common::{House, hello, house, house_with, key, script};

const OK: &str = "{ parts: [{ text: 'ok' }] }";

/// A plan whose provider asks for no long waits.
fn plan(house: &House, api: Api) -> Plan {
    Plan::new(house.target(api))
}

#[tokio::test]
async fn every_kind_of_failure_is_known_in_every_format() {
    for api in Api::ALL {
        for (reply, kind) in [
            ("{ status: 401 }", ErrorKind::Authentication),
            ("{ status: 404 }", ErrorKind::NotFound),
            ("{ status: 429 }", ErrorKind::RateLimit),
            ("{ status: 500 }", ErrorKind::Overloaded),
            ("{ status: 529 }", ErrorKind::Overloaded),
            ("{ status: 400 }", ErrorKind::BadRequest),
            (
                "{ recorded: { status: 302, headers: { location: 'http://127.0.0.1:1/' }, body: '' } }",
                ErrorKind::BadRequest,
            ),
            (
                "{ status: 400, error: { message: 'prompt is too long: 213462 tokens > 200000 maximum' } }",
                ErrorKind::ContextOverflow { used: Some(213_462), limit: Some(200_000) },
            ),
            (
                "{ parts: [{ text: 'x' }], streamError: { after: 0, type: 'overloaded_error', message: 'Overloaded' } }",
                ErrorKind::Overloaded,
            ),
            ("{ parts: [{ text: 'hello world' }], wire: { truncateAfter: 40 } }", ErrorKind::CutOff),
            (
                "{ parts: [{ text: 'x' }], wire: { insert: [{ at: 0, raw: 'data: {not json\\n\\n' }] } }",
                ErrorKind::Malformed,
            ),
            (
                "{ parts: [{ call: { id: 'a', name: 'exec', arguments: '{\"never' } }], stop: 'calls' }",
                ErrorKind::Malformed,
            ),
            (
                "{ recorded: { status: 200, headers: { 'content-type': 'application/json' }, body: '{\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}' } }",
                ErrorKind::Overloaded,
            ),
            (
                "{ recorded: { status: 200, headers: { 'content-type': 'text/html' }, body: '<html>' } }",
                ErrorKind::Malformed,
            ),
        ] {
            let house = house(&script(&[reply]));
            let error = house.error(api).await;
            assert_eq!(error.kind, kind, "{api:?} {reply}: {error}");
            assert!(error.to_string().starts_with("p/scripted: "), "{error}");
            assert!(!error.kind.remedy().is_empty());
        }
    }
    let nobody = house(&script(&[OK]));
    let mut provider = nobody.provider("p", Api::Messages);
    provider.base_url = "http://127.0.0.1:1".parse().unwrap();
    let plan = Plan { attempts: 1, ..Plan::new(Target::new(&Arc::new(provider), "m")) };
    let error = nobody.events(plan, hello()).await.1.unwrap();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Network, "nothing listens at 127.0.0.1:1"));
}

#[tokio::test]
async fn a_failure_that_may_pass_is_tried_again_and_told() {
    for api in Api::ALL {
        let house = house(&script(&["{ status: 503 }", "{ status: 429, headers: { 'retry-after-ms': '1' } }", OK]));
        // The key rests after the second failure; there is no other.
        let (events, error) = house.events(plan(&house, api), hello()).await;
        assert_eq!(error, None);
        let attempts: Vec<(ErrorKind, u32)> = events
            .iter()
            .filter_map(|event| {
                if let Event::Retrying { error, attempt, .. } = event { Some((error.kind, *attempt)) } else { None }
            })
            .collect();
        assert_eq!(attempts, [(ErrorKind::Overloaded, 2), (ErrorKind::RateLimit, 3)]);
        assert!(matches!(events.last(), Some(Event::Done(_))));
    }
}

#[tokio::test]
async fn a_reply_that_has_shown_something_is_not_begun_again() {
    for api in Api::ALL {
        let cut = "{ parts: [{ text: 'hello world, how are you' }], pieces: 3, streamError: { after: 6, type: 'overloaded_error', message: 'x' } }";
        let house = house(&script(&[cut, OK]));
        let fallback = Plan { targets: vec![house.target(api), house.target(api)], ..plan(&house, api) };
        let (events, error) = house.events(fallback, hello()).await;
        let error = error.expect("an error");
        assert!(error.has_shown && error.kind == ErrorKind::Overloaded, "{api:?}: {error:?} {events:?}");
        assert!(events.iter().any(|event| matches!(event, Event::Text(_))), "{api:?}: {events:?}");
        assert_eq!(house.server.requests().len(), 1, "nothing was asked again");
    }
}

#[tokio::test]
async fn fallbacks_are_asked_in_order_and_told() {
    for api in Api::ALL {
        let house = house(&script(&["{ status: 404 }", "{ status: 400 }", OK]));
        let models = ["a", "b", "c"].map(|model| Target::new(&Arc::new(house.provider("p", api)), model));
        let (events, error) = house.events(Plan { targets: models.into(), ..plan(&house, api) }, hello()).await;
        assert_eq!(error, None);
        let steps: Vec<(&str, &str)> = events
            .iter()
            .filter_map(|event| {
                if let Event::FallingBack { error, to } = event { Some((error.kind.name(), to.as_str())) } else { None }
            })
            .collect();
        assert_eq!(steps, [("not_found", "p/b"), ("bad_request", "p/c")]);
        let asked: Vec<String> =
            house.server.requests().iter().map(|request| request.body["model"].to_string()).collect();
        assert_eq!(asked, ["\"a\"", "\"b\"", "\"c\""]);
        let Some(Event::Done(reply)) = events.last() else { panic!("{events:?}") };
        assert_eq!(reply.message.origin.as_ref().unwrap().model, "c");
    }
}

#[tokio::test]
async fn another_key_is_used_when_one_is_refused_and_the_session_stays_with_it() {
    let header = |api| if api == Api::Messages { "x-api-key" } else { "authorization" };
    for api in Api::ALL {
        let replies = script(&["{ status: 401 }", OK, OK, OK]);
        let house = house_with(&replies, vec![key("one", "first-key"), key("two", "second-key")], Debug::default());
        let ask = |session: &str| Plan { session: Some(session.to_owned()), ..plan(&house, api) };
        for session in ["s", "s", "t"] {
            let (_, error) = house.events(ask(session), hello()).await;
            assert_eq!(error, None);
        }
        let keys: Vec<String> = house
            .server
            .requests()
            .iter()
            .map(|request| request.header(header(api)).unwrap().replace("Bearer ", ""))
            .collect();
        assert_eq!(keys, ["first-key", "second-key", "second-key", "second-key"], "the first one rests");
    }
}

#[tokio::test]
async fn a_key_that_a_provider_repeats_is_not_in_the_error() {
    for api in Api::ALL {
        let reply = "{ status: 400, error: { message: 'bad key key-of-the-provider and sk-abcdefgh12345678 and own-header-value' } }";
        let house = house(&script(&[reply]));
        let mut provider = house.provider("p", api);
        provider.headers.insert("x-own".into(), "Token own-header-value".into());
        let target = Target::new(&Arc::new(provider), "scripted");
        let error = house.events(Plan { attempts: 1, ..Plan::new(target) }, hello()).await.1.unwrap();
        let shown = format!("{error} {error:?}");
        for secret in ["key-of-the-provider", "sk-abcdefgh", "own-header-value"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.contains("[redacted]"));
    }
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_not_waited_for() {
    let replies = script(&["{ status: 429, headers: { 'retry-after': '3600' } }", OK]);
    let alone = house(&replies);
    let error = alone.events(plan(&alone, Api::Messages), hello()).await.1.expect("an hour is too long");
    assert_eq!(error.kind, ErrorKind::RateLimit);
    let house = house(&replies);
    let other = Target::new(&Arc::new(house.provider("q", Api::Messages)), "other");
    let (events, error) = house
        .events(Plan { targets: vec![house.target(Api::Messages), other], ..plan(&house, Api::Messages) }, hello())
        .await;
    assert_eq!(error, None);
    assert!(matches!(&events[0], Event::FallingBack { to, .. } if to == "q/other"), "{events:?}");
}

#[tokio::test]
async fn a_reply_whose_call_is_broken_is_not_begun_again_once_it_has_shown_text() {
    for api in Api::ALL {
        let broken = "{ parts: [{ text: 'I will now do it.' }, { call: { id: 'a', name: 'exec', arguments: '{\"x\":' } }], stop: 'calls' }";
        // In one write, and event by event: the caller sees the same.
        for wire in ["cut: 100000", "cut: 1"] {
            let house = house(&script(&[&broken.replace("stop:", &format!("wire: {{ {wire} }}, stop:")), OK]));
            let (events, error) = house.events(plan(&house, api), hello()).await;
            let error = error.expect("an error");
            assert!(error.kind == ErrorKind::Malformed && error.has_shown, "{api:?} {wire}: {error:?}");
            let text: String = events
                .iter()
                .filter_map(|event| if let Event::Text(text) = event { Some(text.as_str()) } else { None })
                .collect();
            assert_eq!(text, "I will now do it.", "{api:?} {wire}");
            assert_eq!(house.server.requests().len(), 1, "{api:?} {wire}");
        }
    }
}

#[tokio::test]
async fn half_a_key_at_the_end_of_a_long_message_is_not_shown_either() {
    for length in (540..620).step_by(3) {
        let reply = format!("{{ status: 400, error: {{ message: '{} key-of-the-provider' }} }}", "x".repeat(length));
        let house = house(&script(&[&reply]));
        let error = house.error(Api::Messages).await;
        assert!(!error.message.contains("key-of"), "{length}: {error}");
    }
    let house = house("{ replies: [], models: [] }");
    let mut provider = house.provider("p", Api::Messages);
    provider.base_url = format!("{}/nowhere/key-of-the-provider", house.server.url()).parse().unwrap();
    let error = house.models.list(&provider).await.unwrap_err();
    assert!(!error.message.contains("key-of"), "{error}");
}

#[tokio::test]
async fn words_of_a_parser_are_shortened_and_empty_events_mean_nothing() {
    let long = format!("data: {{\\\"choices\\\":\\\"{}\\\"}}\\n\\n", "A".repeat(100_000));
    let reply = format!(
        "{{ parts: [{{ text: 'x' }}], wire: {{ insert: [{{ at: 0, raw: \"{}\" }}] }} }}",
        long.replace("\\\\", "\\")
    );
    let house_of = |reply: &str| house(&script(&[reply]));
    let broken = house_of(&reply);
    let error = broken.error(Api::ChatCompletions).await;
    assert!(error.kind == ErrorKind::Malformed && error.message.len() < 1000, "{}", error.message.len());
    for api in Api::ALL {
        let kept = house_of(
            "{ parts: [{ text: 'x' }], wire: { insert: [{ at: 0, raw: 'data:\\n\\n' }, { at: 1, raw: 'data: \\n\\n' }] } }",
        );
        assert_eq!(kept.reply(api, hello()).await.message.text(), "x", "{api:?}");
    }
}
