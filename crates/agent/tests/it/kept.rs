//! What a run keeps when its process ends, and what it must not tell others.

use pincer_agent::{QueueMode, Request, Status, Stream};
use pincer_store::{Clock, Leases, Runs, SessionKey, Upkeep};
use pincer_tools::Answer;
use serde_json::json;

use crate::world::{USER, World, calls, conversation, text, within, world};

const CODE_MODE: &str = "tools: { codeMode: true }";
const ASK: &str = "approvals: { rules: [{ match: 'plugin:test:*', decision: 'ask' }] }";
const MONTH: i64 = 30 * 24 * 3_600_000;

fn exec(code: &str) -> String {
    format!("{{ parts: [{{ call: {{ id: 'x1', name: 'exec', arguments: {{ code: {} }} }} }}] }}", json!(code))
}

/// A program that marks, and then waits for the gate.
fn marks_and_waits() -> String {
    exec("await tools.mark({ n: 1 });\nawait tools.again({ n: 2 });\nreturn 'both'")
}

/// Lets a month pass for the programs of a store.
async fn a_month_passes(world: &World) {
    let store = world.agent.runtime().store();
    let later = store.now() + MONTH;
    store.expire_runs(later).await.unwrap();
    store.forget_runs(later).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_whose_process_died_goes_on_after_a_month() {
    let world = world(&conversation(&[marks_and_waits(), text("Done.")]), CODE_MODE);
    let run = world.send("Do it.").await;
    world.busy(1).await;
    world.dies().await;
    let other = world.another();
    // A program of another session has what was left behind settled.
    let program = world.agent.runtime().store().runs_of_agent(&run).await.unwrap().remove(0);
    let elsewhere: SessionKey = "elsewhere".into();
    other.agent.submit(USER, &elsewhere, Request::new("Do it."), None).await.unwrap();
    other.busy(1).await;
    a_month_passes(&other).await;
    assert!(!other.agent.runtime().store().run(&program).await.unwrap().state.is_final());
    other.gate.add_permits(10);
    other.agent.engage(USER, &other.key());
    let outcome = other.outcome(&run).await;
    assert_eq!((outcome.status, outcome.text()), (Status::Ok, "Done.".to_owned()), "{outcome:?}");
    let marks = other.effects.all().iter().filter(|effect| *effect == "mark 1").count();
    assert_eq!(marks, 2, "one for each of the two programs: {:?}", other.effects.all());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ends_in_order_leaves_its_programs_to_the_next_one() {
    let world = world(&conversation(&[marks_and_waits(), text("Done.")]), CODE_MODE);
    let run = world.send("Do it.").await;
    world.busy(1).await;
    world.agent.close().await;
    world.agent.runtime().shutdown(std::time::Duration::ZERO).await;
    world.agent.runtime().leases().release();
    let other = world.another();
    other.gate.add_permits(10);
    other.agent.engage(USER, &other.key());
    assert_eq!(other.outcome(&run).await.text(), "Done.");
    assert_eq!(other.server.requests()[1].body["messages"][3]["content"], "both");
    assert_eq!(other.effects.all(), ["mark 1", "again 2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_another_session_with_the_same_ids_are_not_told() {
    let world = world(&conversation(&[exec("await tools.gate({ n: 1 }); return 1"), text("Done.")]), CODE_MODE);
    let mine = world.send("Do it.").await;
    world.busy(1).await;
    let yours: SessionKey = "yours".into();
    let yours = world.agent.submit("you", &yours, Request::new("Do it."), None).await.unwrap().run_id;
    world.busy(2).await;
    world.gate.add_permits(2);
    world.outcome(&mine).await;
    within(world.agent.outcome("you", &yours)).await.unwrap();
    let events = world.events(&mine, 1).await;
    let nested = events.iter().filter(|event| event.stream == Stream::Tool && event.data.contains_key("line"));
    assert_eq!(nested.map(|event| event.phase()).collect::<Vec<_>>(), ["start", "result"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_question_is_not_needed_any_more_is_not_made_twice() {
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("I cannot know.")]), ASK);
    let run = world.send("Do it.").await;
    let question = world.outcome(&run).await.approvals.remove(0).approval_id;
    world.dies().await;
    // The rule has gone when the answer comes.
    let second = world.another_with("");
    second.agent.answer(&question, Answer::AllowOnce, "a person").await.unwrap();
    second.agent.engage(USER, &second.key());
    second.busy(1).await;
    second.dies().await;
    let third = second.another();
    third.gate.add_permits(10);
    third.agent.engage(USER, &third.key());
    assert_eq!(third.outcome(&run).await.text(), "I cannot know.");
    assert_eq!(third.effects.all(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_is_stopped_without_a_slot() {
    let ask = "approvals: { rules: [{ match: 'plugin:test:mark', decision: 'ask' }] }, \
               agents: { defaults: { model: 'scripted/scripted', maxConcurrent: 1 } }";
    let world = world(&conversation(&[calls(&[("mark", 1)]), calls(&[("gate", 2)]), text("Done.")]), ask);
    let waits = world.send("Do it.").await;
    let question = world.outcome(&waits).await.approvals.remove(0).approval_id;
    let busy: SessionKey = "busy".into();
    let other = world.agent.submit(USER, &busy, Request::new("Do it."), None).await.unwrap().run_id;
    let asked = within(world.agent.outcome(USER, &other)).await.unwrap().approvals.remove(0).approval_id;
    world.agent.answer(&asked, Answer::AllowOnce, "a person").await.unwrap();
    world.busy(1).await;
    // The answer is there, and the only slot is taken: the run waits for the slot when it is stopped.
    world.agent.answer(&question, Answer::AllowOnce, "a person").await.unwrap();
    world.agent.stop(USER, &waits).await.unwrap();
    assert_eq!(world.outcome(&waits).await.stop_reason.as_deref(), Some("aborted"));
    assert_eq!(world.effects.all(), ["mark 1"], "only that of the other session");
    world.gate.add_permits(1);
    assert_eq!(within(world.agent.outcome(USER, &other)).await.unwrap().text(), "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_were_left_out_are_told_to_the_run_that_others_join() {
    let config = "messages: { queue: { mode: 'steer', cap: 1, drop: 'summarize' } }";
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("One.")]), config);
    let run = world.send("Begin.").await;
    world.busy(1).await;
    world.send("secret plan").await;
    world.send("the other one").await;
    world.gate.add_permits(1);
    assert_eq!(world.outcome(&run).await.text(), "One.");
    let messages = world.server.requests()[1].body["messages"].to_string();
    assert!(messages.contains("- secret plan") && messages.contains("the other one"), "{messages}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_has_seen_the_end_gets_nothing_more() {
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("One.")]), "");
    let run = world.send("Begin.").await;
    world.busy(1).await;
    let queued = world.submit(Request { queue: Some(QueueMode::Followup), ..Request::new("b") }).await;
    world.agent.stop(USER, &queued).await.unwrap();
    world.gate.add_permits(1);
    world.outcome(&run).await;
    for run in [run, queued] {
        let last = world.events(&run, 1).await.last().unwrap().seq;
        assert_eq!(world.events(&run, last).await.len(), 1);
        assert_eq!(world.events(&run, last + 1).await, []);
        assert_eq!(world.events(&run, last + 2).await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_leaves_the_runs_behind_its_last_one_to_others() {
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("One."), text("Two.")]), "");
    let run = world.send("Begin.").await;
    world.agent.work_until(USER, &world.key(), &run);
    world.busy(1).await;
    let behind = world.submit(Request { queue: Some(QueueMode::Followup), ..Request::new("b") }).await;
    world.gate.add_permits(1);
    assert_eq!(world.outcome(&run).await.text(), "One.");
    // A driver that goes on would have begun with it long before.
    for _ in 0..500 {
        tokio::task::yield_now().await;
        let behind = world.agent.run(USER, &behind).await.unwrap();
        assert_eq!((behind.state, behind.generation), (pincer_store::AgentRunState::Queued, 0));
    }
    world.agent.close().await;
    assert_eq!(world.server.requests().len(), 2);
    let other = world.another();
    other.agent.engage(USER, &other.key());
    assert_eq!(other.outcome(&behind).await.text(), "Two.");
}
