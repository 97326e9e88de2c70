//! The tool `cron`: a job of an agent has no more rights than the run that makes it.

use pincer_agent::{JobWish, Request, Status, When, add_cron_job};
use pincer_runtime::{Principal, ScopeRequest};
use pincer_store::{CronJob, CronJobs, CronPage};
use serde_json::{Value, json};

use crate::world::{USER, World, conversation, text, within, world_with_built_in_tools};

/// A reply with one call of the tool.
fn call(id: &str, input: &Value) -> String {
    format!("{{ parts: [{{ call: {{ id: '{id}', name: 'cron', arguments: {input} }} }}] }}")
}

/// The result that the model read last.
fn result(world: &World) -> String {
    let requests = world.server.requests();
    let messages = requests.last().expect("a request").body["messages"].as_array().expect("messages").clone();
    let last = messages.iter().rev().find(|message| message["role"] == "tool").expect("a result");
    last["content"].as_str().expect("text").to_owned()
}

async fn jobs(world: &World) -> Vec<CronJob> {
    let page = CronPage { user: None, after: None, limit: 99 };
    world.agent.runtime().store().cron_jobs(page).await.expect("read")
}

async fn of_a_person(world: &World, name: &str) -> CronJob {
    let wish = JobWish::new(USER, name, When::Every("1h".into()), "Do it.");
    add_cron_job(world.agent.runtime().store(), wish).await.expect("added")
}

fn from_tom(message: &str) -> Request {
    Request {
        channel: Some("irc".into()),
        sender: Some("tom".into()),
        model: Some("scripted/scripted".into()),
        ..Request::new(message)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_an_agent_has_the_rights_of_the_run_that_made_it() {
    let add = json!({ "action": "add", "name": "report", "cron": "0 9 * * 1-5", "tz": "Europe/Berlin", "message": "Sum up." });
    let world = world_with_built_in_tools(&conversation(&[call("c1", &add), text("Added.")]), "");
    let run = world.submit(from_tom("Each morning, please.")).await;
    assert_eq!(world.outcome(&run).await.text(), "Added.");
    let made = &jobs(&world).await[0];
    assert_eq!((made.user.as_str(), made.made_by.as_ref()), (USER, Some(&run)));
    let definition = &made.definition;
    let rights = (definition.channel.as_deref(), definition.sender.as_deref(), definition.model.as_deref());
    assert_eq!(rights, (Some("irc"), Some("tom"), Some("scripted/scripted")));
    assert_eq!((definition.session.as_ref(), &*definition.message), (None, "Sum up."));
    let told: Value = serde_json::from_str(&result(&world)).expect("JSON");
    assert_eq!((&told["createdBy"], &told["when"]), (&json!("agent"), &json!("0 9 * * 1-5 (Europe/Berlin)")));
    // It runs with these rights, and says what it is.
    let begun = world.agent.run_cron_job(made).await.expect("asked");
    let pincer_store::CronBegun::Begun(begun) = begun else { panic!("{begun:?}") };
    assert!(begun.request.contains("\"sender\":\"tom\"") && begun.request.contains("\"channel\":\"irc\""));
    within(world.agent.outcome(USER, &begun.id)).await.expect("an outcome");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_runs_of_agents_have_the_tool_and_policy_takes_it_away() {
    let reply = conversation(&[text("Hi.")]);
    for (config, is_there) in [
        ("", true),
        ("tools: { deny: ['cron'] },", false),
        ("tools: { deny: ['automations'] },", false),
        ("tools: { deny: ['group:automation'] },", false),
        ("tools: { profile: 'coding' },", true),
        ("tools: { profile: 'minimal' },", false),
        ("cron: { enabled: false },", false),
    ] {
        let world = world_with_built_in_tools(&reply, config);
        assert_eq!(world.ask("Hello.").await.status, Status::Ok);
        assert_eq!(world.shown(0).contains(&"cron".to_owned()), is_there, "{config}");
        let runtime = world.agent.runtime();
        let scope = runtime.scope(&ScopeRequest::new(Principal::new(USER), "main")).expect("a scope");
        let tools = runtime.tools(&scope);
        assert!(!tools.catalog().iter().any(|entry| entry.id.to_string() == "openclaw:core:cron"), "{config}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_sees_no_job_of_another_one() {
    let actions = [
        json!({ "action": "list" }),
        json!({ "action": "show", "job": "secret" }),
        json!({ "action": "update", "job": "secret", "message": "Do as I say." }),
        json!({ "action": "remove", "job": "secret" }),
        json!({ "action": "run", "job": "secret" }),
        json!({ "action": "runs", "job": "secret" }),
    ];
    for action in actions {
        let world = world_with_built_in_tools(&conversation(&[call("c1", &action), text("Tried.")]), "");
        let job = of_a_person(&world, "secret").await;
        let run = world.submit(from_tom("What is there?")).await;
        world.outcome(&run).await;
        let told = result(&world);
        assert!(told.contains("\"total\":0") || told.contains("there is no cron job secret"), "{action}: {told}");
        assert_eq!(jobs(&world).await, [job], "{action}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_says_something_else_has_the_rights_of_the_run_that_said_so() {
    let update = |message: Option<&str>| {
        let mut input = json!({ "action": "update", "job": "report", "every": "2h", "enabled": false });
        if let Some(message) = message {
            input["message"] = message.into();
        }
        input
    };
    for (message, model) in [(None, None), (Some("Do more."), Some("scripted/scripted"))] {
        let world = world_with_built_in_tools(&conversation(&[call("c1", &update(message)), text("Done.")]), "");
        of_a_person(&world, "report").await;
        let request = Request { model: Some("scripted/scripted".into()), ..Request::new("Change it.") };
        let run = world.submit(request).await;
        world.outcome(&run).await;
        let job = &jobs(&world).await[0];
        assert_eq!((job.definition.model.as_deref(), job.is_enabled, job.next_at), (model, false, None));
        assert!(job.definition.schedule.contains("7200000"), "{}", result(&world));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_call_is_told_and_changes_nothing() {
    let add = |more: Value| {
        let mut input = json!({ "action": "add", "name": "job", "message": "Do it." });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    };
    for (input, told) in [
        (add(json!({})), "give one of"),
        (add(json!({ "at": "20m", "every": "5m" })), "not several"),
        (add(json!({ "cron": "61 * * * *" })), "the minute field"),
        (add(json!({ "every": "1ms" })), "is no duration"),
        (add(json!({ "cron": "0 9 * * *", "tz": "Mars/North" })), "no time zone"),
        (add(json!({ "every": "5m", "model": "other/one" })), "model"),
        (json!({ "action": "show" }), "`job` is missing"),
        (json!({ "action": "fly" }), "action"),
    ] {
        let world = world_with_built_in_tools(&conversation(&[call("c1", &input), text("Hm.")]), "");
        world.ask("Try.").await;
        let result = result(&world);
        assert!(result.contains(told), "{input}: {result}");
        assert!(jobs(&world).await.is_empty(), "{input}");
    }
}
