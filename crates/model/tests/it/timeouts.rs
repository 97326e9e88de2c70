//! Silence: bounded where it may not last, and never the sum of a reply that makes progress.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use pincer_model::{Api, ErrorKind, Event, Plan, Target};
use pincer_scripted::End;

use crate::common::{House, NEVER, hello, house, script};

fn impatient(house: &House, api: Api) -> Plan {
    let mut provider = house.provider("p", api);
    provider.timeout = Some(Duration::from_millis(300));
    Plan { attempts: 1, ..Plan::new(Target::new(&Arc::new(provider), "scripted")) }
}

#[tokio::test]
async fn a_provider_that_falls_silent_is_given_up() {
    for api in Api::ALL {
        for (wire, shown) in [("headersAfterMs: 60000", false), ("stallAfter: 1", false), ("stallAfter: 5", true)] {
            let house = house(&script(&[&format!(
                "{{ parts: [{{ text: 'hello world out there' }}], pieces: 2, wire: {{ {wire} }} }}"
            )]));
            let (events, error) = house.events(impatient(&house, api), hello()).await;
            let error = error.expect("an error");
            assert_eq!(error.kind, ErrorKind::Idle, "{api:?} {wire}: {error}");
            assert!(error.message.contains("for 0.3 s"), "{error}");
            assert!(error.retry.is_right());
            assert!(!shown || error.has_shown, "{api:?} {wire}: {events:?}");
        }
    }
}

#[tokio::test]
async fn a_reply_that_makes_progress_may_take_any_time() {
    let house = house(&script(&[
        "{ parts: [{ text: 'one two three four five six seven eight nine ten' }], wire: { everyMs: 60 } }",
    ]));
    let begun = Instant::now();
    let (events, error) = house.events(impatient(&house, Api::ChatCompletions), hello()).await;
    assert_eq!(error, None);
    assert!(matches!(events.last(), Some(Event::Done(_))) && begun.elapsed() > Duration::from_millis(300));
}

#[tokio::test]
async fn the_deadline_of_the_run_stands_above_all() {
    for api in Api::ALL {
        let house = house(&script(&["{ parts: [{ text: 'x' }], wire: { stallAfter: 1 } }"]));
        let plan = Plan { deadline: Some(Instant::now() + Duration::from_millis(200)), ..Plan::new(house.target(api)) };
        let (_, error) = house.events(plan, hello()).await;
        let error = error.expect("an error");
        assert_eq!((error.kind, error.retry.is_right()), (ErrorKind::Deadline, false), "{error}");
    }
}

#[tokio::test]
async fn the_deadline_ends_a_reply_that_never_pauses() {
    let house = house(&script(&[
        "{ parts: [{ text: 'one two three four five six seven eight nine ten' }], pieces: 1, wire: { everyMs: 20 } }",
    ]));
    let plan =
        Plan { deadline: Some(Instant::now() + Duration::from_millis(100)), ..Plan::new(house.target(Api::Messages)) };
    let mut stream = house.models.ask(plan, hello());
    let mut last = None;
    while let Some(event) = stream.next().await {
        // A caller that is slower than the provider.
        tokio::time::sleep(Duration::from_millis(30)).await;
        last = Some(event);
    }
    assert_eq!(last.unwrap().unwrap_err().kind, ErrorKind::Deadline);
}

#[tokio::test]
async fn a_request_that_is_cancelled_closes_its_connection_at_once() {
    for api in Api::ALL {
        let house = house(&script(&["{ parts: [{ text: 'one two three' }], wire: { stallAfter: 4 } }"]));
        let mut stream = house.models.ask(Plan::new(house.target(api)), hello());
        let begun = tokio::time::timeout(NEVER, stream.next()).await.unwrap();
        assert!(matches!(begun, Some(Ok(Event::Began { .. }))), "{begun:?}");
        tokio::time::timeout(NEVER, house.server.stalled(0)).await.unwrap();
        drop(stream);
        let end = tokio::time::timeout(NEVER, house.server.ended(0)).await.unwrap();
        assert_eq!(end, End::Left, "{api:?}");
    }
}
