//! What the traits promise about calls that the caller of a run executes itself.
use pincer_store::{AgentRunState, ClientCall};

use crate::Fresh;
use crate::session_words::*;

fn call(id: &str, run: &str) -> ClientCall {
    let (name, arguments) = ("look".into(), "{\"a\":1}".into());
    ClientCall { id: id.into(), run: run.into(), name, arguments, created_at: 5, result: None }
}

pub fn a_call_of_a_client_is_asked_once(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        let fence = held(one, "s", "main");
        for run in ["r1", "r2"] {
            accepted(one, &incoming(run, "main"));
        }
        turn(one, "s", fence, "r1", AgentRunState::Running);
        // In the order in which they were made, whatever their ids and times are.
        for (id, created_at) in [("z", 9), ("a", 7), ("m", 8)] {
            let new = ClientCall { created_at, ..call(id, "r1") };
            assert_eq!(one.ask_client(&new).expect("asked"), new);
        }
        let again = ClientCall { name: "other".into(), created_at: 99, ..call("a", "r1") };
        let stands = ClientCall { created_at: 7, ..call("a", "r1") };
        assert_eq!(two.ask_client(&again).expect("asked"), stands);
        assert_eq!(two.ask_client(&call("a", "r2")).expect("asked").run, "r2", "another run has ids of its own");
        let ids: Vec<_> = two.client_calls("r1").expect("read").into_iter().map(|call| call.id).collect();
        assert_eq!(ids, ["z", "a", "m"]);
        assert_eq!(two.client_calls("none").expect("read"), []);
        missing(two.ask_client(&call("a", "none")));
        assert!(two.answer_client("r1", "a", "1").expect("answered"));
        assert_eq!(one.ask_client(&again).expect("asked").result.as_deref(), Some("1"));
    });
}

pub fn the_first_answer_of_a_client_wins(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        let fence = held(one, "s", "main");
        accepted(one, &incoming("r", "main"));
        turn(one, "s", fence, "r", AgentRunState::Running);
        one.ask_client(&call("a", "r")).expect("asked");
        one.ask_client(&call("b", "r")).expect("asked");
        assert!(two.answer_client("r", "b", "\"first\"").expect("answered"));
        assert!(!one.answer_client("r", "b", "\"second\"").expect("told"));
        let results: Vec<_> = one.client_calls("r").expect("read").into_iter().map(|call| call.result).collect();
        assert_eq!(results, [None, Some("\"first\"".into())]);
        missing(one.answer_client("r", "none", "1"));
        missing(one.answer_client("none", "a", "1"));
        turn(one, "s", fence, "r", AgentRunState::Waiting);
        assert_eq!(one.client_calls("r").expect("read").len(), 2);
        turn(one, "s", fence, "r", AgentRunState::Failed);
        assert_eq!(one.client_calls("r").expect("read"), []);
        missing(two.answer_client("r", "a", "1"));
        // A worker that was thought dead leaves nothing behind.
        missing(two.ask_client(&call("c", "r")));
        assert_eq!(one.client_calls("r").expect("read"), []);
    });
}
