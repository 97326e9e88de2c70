//! The last gate: a request with other tools than the run may show is never sent.

use pincer_model::{Api, ErrorKind, Model, Plan, Surface};
use serde_json::json;

use crate::common::{coding, house, script, tool};

#[tokio::test]
async fn a_tool_that_something_planted_in_the_request_keeps_it_from_being_sent() {
    for api in Api::ALL {
        let planted = match api {
            Api::ChatCompletions => json!([{ "type": "function", "function": { "name": "rm", "parameters": {} } }]),
            Api::Responses => json!([{ "type": "function", "name": "rm", "parameters": {} }]),
            Api::Messages => json!([{ "name": "rm", "input_schema": {} }]),
        };
        for (key, value) in
            [("tools", planted), ("tools", json!(null)), ("mcp_servers", json!([])), ("web_search_options", json!({}))]
        {
            let house = house(&script(&["{ parts: [{ text: 'ok' }] }"]));
            let params = json!({ key: value }).as_object().unwrap().clone();
            // A fallback would be asked the same: the run ends.
            let target = house.target_with(api, Model { params, ..Model::default() });
            let plan = Plan { targets: vec![target, house.target(api)], ..Plan::new(house.target(api)) };
            let (events, error) = house.events(plan, coding()).await;
            let error = error.expect("an error");
            assert_eq!((error.kind, error.retry.is_right()), (ErrorKind::Surface, false), "{api:?} {key}: {error}");
            assert!(
                error.to_string().contains("the run may show `exec`, `wait` to the model and nothing else"),
                "{error}"
            );
            assert!(events.is_empty() && house.server.requests().is_empty(), "{api:?} {key}: nothing was sent");
        }
    }
}

#[tokio::test]
async fn a_surface_of_other_tools_is_compared_too() {
    for api in Api::ALL {
        let house = house(&script(&["{ expect: { tools: ['one', 'two'] }, parts: [{ text: 'ok' }] }"]));
        let request = pincer_model::Request {
            tools: vec![tool("one"), tool("two")],
            surface: ["one", "two"].into_iter().collect(),
            ..coding()
        };
        house.reply(api, request.clone()).await;
        let fewer: Surface = ["one"].into_iter().collect();
        let request = pincer_model::Request { surface: fewer, ..request };
        let (_, error) = house.events(Plan::new(house.target(api)), request).await;
        assert_eq!(error.unwrap().kind, ErrorKind::Surface);
        assert_eq!(house.server.requests().len(), 1);
    }
}
