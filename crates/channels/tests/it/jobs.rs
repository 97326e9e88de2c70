//! Jobs that were made from a channel, and texts of jobs of the operator's for one.

use std::fs;

use pincer_agent::{AgentError, Cron, JobWish, When, add_cron_job};
use pincer_channels::{Receipt, Received};
use pincer_store::{
    AgentRunState, AgentRuns, CronBegun, CronJob, CronJobs, CronPage, CronRunState, DeliverySource, Route,
};
use serde_json::{Value, json};

use crate::world::{USER, World, from, in_group, text, within};

fn add(session: &str) -> String {
    let input =
        json!({ "action": "add", "name": "tea", "every": "1h", "message": "Tell of the tea.", "session": session });
    format!("{{ parts: [{{ call: {{ id: 'c1', name: 'cron', arguments: {input} }} }}] }}")
}

async fn only_job(world: &World) -> CronJob {
    let page = CronPage { user: None, after: None, limit: 9 };
    world.store().cron_jobs(page).await.expect("read").pop().expect("a job")
}

/// Has the agent make a job, and returns it when the answer was sent.
async fn made(world: &World, message: Received) -> CronJob {
    assert!(matches!(world.fake.receives(message).await, Receipt::Accepted { .. }));
    world.fake.sent(1).await;
    only_job(world).await
}

/// Runs a job to its end.
async fn ran(world: &World, job: &CronJob) {
    let begun = world.agent.run_cron_job(job).await.expect("asked");
    let CronBegun::Begun(run) = begun else { panic!("{begun:?}") };
    within(world.agent.outcome(USER, &run.id)).await.expect("an outcome");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_answers_in_the_conversation_that_it_was_made_in() {
    let thread = Received { thread: Some("t1".into()), ..in_group("ann", "#lounge", "m1", "Each hour, please.") };
    for (message, session) in [
        (from("ann", "m1", "Each hour, please."), "isolated"),
        (from("ann", "m1", "Each hour, please."), "this"),
        (thread, "isolated"),
    ] {
        let world = World::new(&[add(session), text("I will."), text("Tea time!")]);
        let route = message.route("fake");
        let job = made(&world, message).await;
        assert_eq!(job.definition.route, Some(route.clone()));
        ran(&world, &job).await;
        let sent = world.fake.sent(2).await;
        assert_eq!((&sent[1].route, sent[1].text.as_str(), &sent[1].reply_to), (&route, "Tea time!", &None));
        // The agent is not told that it speaks to no one.
        let asked = world.server.requests().last().unwrap().text.clone();
        assert!(asked.contains("on the channel fake") && !asked.contains("no person reads along"), "{asked}");
        world.ends().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_answers_though_the_process_that_made_it_is_gone() {
    let world = World::new(&[add("isolated"), text("I will."), text("Tea time!")]);
    let job = made(&world, from("ann", "m1", "Each hour, please.")).await;
    let dead = world.dies().await;
    let next = dead.another(4000);
    ran(&next, &job).await;
    assert_eq!(next.fake.texts(1).await, ["Tea time!"]);
    assert_eq!(next.fake.sent(1).await[0].route.to, "ann");
    next.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_nothing_to_tell_sends_nothing() {
    let world = World::new(&[add("isolated"), text("I will."), text("NO_REPLY"), text("Tea time!")]);
    let job = made(&world, from("ann", "m1", "Each hour, please.")).await;
    ran(&world, &job).await;
    ran(&world, &job).await;
    assert_eq!(world.fake.texts(2).await, ["I will.", "Tea time!"]);
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_the_operators_answers_at_a_place_and_uses_the_message_tool_there() {
    let say =
        "{ parts: [{ call: { id: 'c1', name: 'message', arguments: { text: 'The build is red.' } } }] }".to_owned();
    let world = World::new(&[say, text("It needs a look.")]);
    let route = Route { channel: "fake".into(), to: "#lounge".into(), ..Route::default() };
    let wish = JobWish {
        route: Some(route.clone()),
        ..JobWish::new(USER, "build", When::Every("1h".into()), "Look at the build.")
    };
    let job = add_cron_job(world.store(), wish).await.expect("added");
    ran(&world, &job).await;
    let sent = world.fake.sent(2).await;
    assert!(sent.iter().all(|sent| sent.route == route));
    assert_eq!(world.fake.texts(2).await, ["The build is red.", "It needs a look."]);
    assert!(world.deliveries().await.iter().any(|delivery| delivery.source == DeliverySource::Tool));
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_know_the_sender_of_a_job() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("told").display().to_string();
    let command = json!(["sh", "-c", format!("cat >> {file}; echo >> {file}")]);
    let hooks = format!("hooks: {{ tool_result_persist: [{{ command: {command} }}] }}, ");
    let look = "{ parts: [{ call: { id: 'c2', name: 'ls', arguments: {} } }] }".to_owned();
    let world = World::with(&[add("isolated"), text("I will."), look, text("Done.")], "allowFrom: ['ann']", &hooks);
    let job = made(&world, from("ann", "m1", "Each hour, please.")).await;
    // One that was made before jobs had places is no one else's either.
    let mut change = pincer_store::CronChange {
        seen: job.version,
        definition: job.definition.clone(),
        is_enabled: true,
        next_at: job.next_at,
        now: 1,
    };
    change.definition.route = None;
    let job = world.store().change_cron_job(&job.id, change).await.expect("changed");
    ran(&world, &job).await;
    let told = fs::read_to_string(directory.path().join("told")).unwrap();
    let events: Vec<Value> = told.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of_job = events.iter().find(|event| event["toolName"] == "ls").expect("an event");
    assert_eq!((&of_job["senderId"], &of_job["channelId"]), (&json!("fake:ann"), &json!("fake")), "{told}");
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_a_sender_who_has_lost_the_channel_does_not_run() {
    let world = World::new(&[add("isolated"), text("I will."), text("Never.")]);
    let job = made(&world, from("ann", "m1", "Each hour, please.")).await;
    let dead = world.dies().await;
    let next = dead.another_for("'ben'");
    let refused = next.agent.run_cron_job(&job).await;
    assert!(matches!(&refused, Err(AgentError::NotTaken { sender, .. }) if sender == "ann"), "{refused:?}");
    // The same when it is due.
    let due = Cron::new(next.agent.clone(), |_| {});
    let at = job.next_at.expect("a time");
    let change = pincer_store::CronChange {
        seen: job.version,
        definition: job.definition.clone(),
        is_enabled: true,
        next_at: Some(at - 7_200_000),
        now: at,
    };
    next.store().change_cron_job(&job.id, change).await.expect("changed");
    within(due.run_due()).await.expect("done");
    let runs = next.store().cron_runs(&job.id, None, 9).await.expect("read");
    assert_eq!((runs.len(), runs[0].state), (1, CronRunState::Refused));
    assert!(runs[0].error.as_deref().unwrap().contains("`channels.fake.allowFrom`"), "{runs:?}");
    assert_eq!(next.server.requests().len(), 2, "no model was asked");
    next.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_sender_has_lost_the_channel_is_not_run() {
    let world = World::new(&[text("Never.")]);
    // It is accepted, and its process begins nothing any more.
    let inbox = world.fake.inbox().await;
    world.agent.close().await;
    let Ok(Receipt::Accepted { run, .. }) = inbox.receive(from("ann", "m1", "Hello.")).await else {
        panic!("not taken")
    };
    let dead = world.dies().await;
    let next = dead.another_for("'ben'");
    let outcome = within(next.agent.outcome(USER, &run)).await.expect("an outcome");
    assert!(outcome.error.as_deref().unwrap().contains("takes no messages of ann"), "{outcome:?}");
    assert_eq!(next.store().agent_run(&run).await.expect("there").state, AgentRunState::Failed);
    assert!(next.server.requests().is_empty() && next.deliveries().await.is_empty());
    next.ends().await;
}
