//! The tool `cron`: a job of an agent has no more rights than the run that makes it.

use pincer_agent::{Cron, JobMaker, JobSession, JobWish, Request, Status, When, add_cron_job};
use pincer_runtime::{Principal, ScopeRequest};
use pincer_store::{AgentRunState, AgentRuns, CronJob, CronJobs, CronPage, Route};
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
    add_cron_job(world.agent.runtime().store(), an_hourly_job(name)).await.expect("added")
}

fn an_hourly_job(name: &str) -> JobWish {
    JobWish::new(USER, name, When::Every("1h".into()), "Do it.")
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

/// Only the session `main` is not sandboxed.
const SANDBOXED: &str =
    "/* with files */ agents: { defaults: { model: 'scripted/scripted', sandbox: { mode: 'non-main' } } },";

/// A job as an agent in the session `author` makes it.
async fn made_in(world: &World, author: &str, name: &str, session: JobSession) -> CronJob {
    let made_by = Some(JobMaker { run: "ar_1".into(), session: author.into() });
    let agent = Some("main".into());
    let wish = JobWish { name: name.into(), session, agent, made_by, ..an_hourly_job(name) };
    add_cron_job(world.agent.runtime().store(), wish).await.expect("added")
}

/// Has the model make this call in a session, and returns what it read then.
async fn called_in(world: &World, session: &str) -> String {
    let key = session.into();
    let run = world.agent.submit(USER, &key, Request::new("Go."), None).await.expect("accepted").run_id;
    world.outcome(&run).await;
    result(world)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandboxed_run_has_nothing_to_do_with_jobs_of_other_sessions() {
    for input in [
        json!({ "action": "update", "job": "main", "message": "Read the secret." }),
        json!({ "action": "update", "job": "main", "message": "Read the secret.", "session": "this" }),
        json!({ "action": "update", "job": "main", "every": "1s" }),
        json!({ "action": "update", "job": "own", "name": "mine" }),
        json!({ "action": "update", "job": "of-a-person", "enabled": false }),
        json!({ "action": "run", "job": "main" }),
        json!({ "action": "runs", "job": "own" }),
        json!({ "action": "show", "job": "own" }),
        json!({ "action": "remove", "job": "of-a-person" }),
        json!({ "action": "list" }),
    ] {
        let world = world_with_built_in_tools(&conversation(&[call("c1", &input), text("Tried.")]), SANDBOXED);
        made_in(&world, "main", "main", JobSession::Named("main".into())).await;
        made_in(&world, "main", "own", JobSession::Isolated).await;
        of_a_person(&world, "of-a-person").await;
        // Another agent of the same session has other rights.
        let other = JobMaker { run: "ar_1".into(), session: "guest".into() };
        let wish = JobWish { agent: Some("writer".into()), made_by: Some(other), ..an_hourly_job("of-a-writer") };
        add_cron_job(world.agent.runtime().store(), wish).await.expect("added");
        let before = jobs(&world).await;
        let told = called_in(&world, "guest").await;
        assert!(told.contains("\"total\":0") || told.contains("there is no cron job"), "{input}: {told}");
        assert_eq!(jobs(&world).await, before, "{input}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandboxed_run_changes_and_runs_the_jobs_of_its_session() {
    for (session, input) in [
        (JobSession::Isolated, json!({ "action": "update", "job": "mine", "message": "Do more." })),
        (JobSession::Named("guest".into()), json!({ "action": "update", "job": "mine", "message": "Do more." })),
        (JobSession::Isolated, json!({ "action": "update", "job": "mine", "session": "this" })),
    ] {
        let world = world_with_built_in_tools(&conversation(&[call("c1", &input), text("Done.")]), SANDBOXED);
        let before = made_in(&world, "guest", "mine", session).await;
        let told = called_in(&world, "guest").await;
        let after = &jobs(&world).await[0];
        assert!(after.version > before.version && told.contains("\"madeIn\":\"guest\""), "{told}");
        assert_eq!(after.definition.author, Some("guest".into()));
    }
    // A run outside of the sandbox takes it over: from then on it says what that run has told it to.
    let update = json!({ "action": "update", "job": "mine", "message": "Do mine." });
    let world = world_with_built_in_tools(&conversation(&[call("c1", &update), text("Done.")]), SANDBOXED);
    made_in(&world, "guest", "mine", JobSession::Isolated).await;
    called_in(&world, "main").await;
    assert_eq!(jobs(&world).await[0].definition.author, Some("main".into()));
    assert!(called_in(&world, "guest").await.contains("there is no cron job"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_says_in_a_session_is_changed_in_that_session() {
    let update = |more: Value| {
        let mut input = json!({ "action": "update", "job": "greet", "message": "Say more." });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    };
    for (session, input, is_changed) in [
        ("work", update(json!({})), false),
        ("main", update(json!({})), true),
        ("work", update(json!({ "session": "isolated" })), true),
        ("work", update(json!({ "session": "this" })), true),
    ] {
        let config = "agents: { defaults: { model: 'scripted/scripted' }, writer: {} },";
        let world = world_with_built_in_tools(&conversation(&[call("c1", &input), text("Done.")]), config);
        let before = JobWish {
            session: JobSession::Named("main".into()),
            agent: Some("writer".into()),
            ..an_hourly_job("greet")
        };
        let before = add_cron_job(world.agent.runtime().store(), before).await.expect("added");
        let told = called_in(&world, session).await;
        let after = &jobs(&world).await[0];
        if !is_changed {
            assert!(told.contains("the job runs in the session main"), "{told}");
            assert_eq!(*after, before);
            continue;
        }
        // The agent is named: the session of the job may have another one.
        let rights = (after.definition.agent.as_deref(), after.definition.author.as_ref().map(ToString::to_string));
        assert_eq!(rights, (Some("main"), Some(session.into())), "{told}");
        assert_ne!(after.definition.session == Some("main".into()), session == "work", "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_sees_the_jobs_of_all_senders() {
    let list = json!({ "action": "list" });
    let world = world_with_built_in_tools(&conversation(&[call("c1", &list), text("Two.")]), "");
    of_a_person(&world, "mine").await;
    let (channel, sender) = (Some("irc".into()), Some("irc:ann".into()));
    let wish = JobWish { channel, sender, ..an_hourly_job("hers") };
    add_cron_job(world.agent.runtime().store(), wish).await.expect("added");
    // Messages of the command line come by the channel `cli`.
    let run = world.submit(Request { channel: Some("cli".into()), ..Request::new("Which are there?") }).await;
    world.outcome(&run).await;
    assert!(result(&world).contains("\"total\":2"), "{}", result(&world));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_stays_at_its_place_if_the_run_that_changes_it_may_send_there() {
    let input = json!({ "action": "update", "job": "news", "message": "Tell more." });
    let place = |to: &str| Some(Route { channel: "irc".into(), to: to.into(), ..Route::default() });
    for (to, kept) in [("#lounge", true), ("ann", false)] {
        let config = "channels: { irc: { allowTo: ['#lounge'] } },";
        let world = world_with_built_in_tools(&conversation(&[call("c1", &input), text("Done.")]), config);
        let wish = JobWish { route: place(to), ..an_hourly_job("news") };
        add_cron_job(world.agent.runtime().store(), wish).await.expect("added");
        world.ask("Change it.").await;
        assert_eq!(jobs(&world).await[0].definition.route, place(to).filter(|_| kept), "{}", result(&world));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_an_agent_runs_is_left_to_a_process_that_stays() {
    let run = json!({ "action": "run", "job": "work" });
    let world = world_with_built_in_tools(&conversation(&[call("c1", &run), text("Begun.")]), "");
    let job = of_a_person(&world, "work").await;
    world.agent.end_with_own_messages();
    world.ask("Run it.").await;
    let told: Value = serde_json::from_str(&result(&world)).expect("JSON");
    assert!(told["note"].as_str().unwrap().contains("as soon as a process runs jobs"), "{told}");
    let id = told["runId"].as_str().unwrap().into();
    let store = world.agent.runtime().store();
    assert_eq!(store.agent_run(&id).await.expect("there").state, AgentRunState::Queued);
    let next = world.another();
    next.agent.end_with_own_messages();
    within(Cron::new(next.agent.clone(), |_| {}).run_due()).await.expect("done");
    assert_eq!(store.agent_run(&id).await.expect("there").state, AgentRunState::Done);
    assert_eq!(store.cron_job(&job.id).await.expect("there").running, None);
}
