//! Hooks: a test for each row of the table that is about runs, messages and sessions. Those about tools are at the door.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pincer_agent::{Request, Status};
use pincer_hooks::events::*;
use pincer_hooks::{FnHook, Hook, HookError, Nothing, Point, Registration};
use pincer_tools::hooks::PersistHook;
use pincer_tools::{Matcher, Plugin};
use serde_json::{Value, json};

use crate::world::{KEY, USER, World, calls, conversation, text, world};

pub(crate) type Log<T> = Arc<Mutex<Vec<T>>>;

pub(crate) fn seen<T: Clone>(log: &Log<T>) -> Vec<T> {
    log.lock().unwrap().clone()
}

fn register(world: &World, plugin: Plugin) {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let id = format!("hook-{}", MADE.fetch_add(1, Ordering::SeqCst));
    world.agent.runtime().door().register(Plugin { id, ..plugin }).expect("registered");
}

/// Registers a closure as a hook with a priority.
fn hook_at<P: Point>(
    world: &World,
    priority: i32,
    closure: impl Fn(&P) -> Result<P::Answer, HookError> + Send + Sync + 'static,
) where
    Registration: From<Hook<P>>,
{
    let hook = Hook::new("of the test", FnHook(closure)).priority(priority);
    register(world, Plugin { others: vec![hook.into()], ..Plugin::default() });
}

pub(crate) fn hook<P: Point>(
    world: &World,
    closure: impl Fn(&P) -> Result<P::Answer, HookError> + Send + Sync + 'static,
) where
    Registration: From<Hook<P>>,
{
    hook_at(world, 0, closure);
}

/// Registers an observer that keeps what it makes of the events.
pub(crate) fn observe<P: Point<Answer = Nothing>, T: Send + 'static>(
    world: &World,
    keep: impl Fn(&P) -> T + Send + Sync + 'static,
) -> Log<T>
where
    Registration: From<Hook<P>>,
{
    let log: Log<T> = Arc::default();
    let kept = Arc::clone(&log);
    hook(world, move |event: &P| {
        kept.lock().unwrap().push(keep(event));
        Ok(Nothing {})
    });
    log
}

fn failure() -> HookError {
    HookError::Answer("nonsense".into())
}

/// The texts of a request's messages, with their roles.
pub(crate) fn sent(world: &World, request: usize) -> Vec<String> {
    let messages = world.server.requests()[request].body["messages"].as_array().unwrap().clone();
    let text = |content: &Value| match content {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        parts => parts
            .as_array()
            .unwrap()
            .iter()
            .map(|part| part["text"].as_str().unwrap_or("?"))
            .collect::<Vec<_>>()
            .join("|"),
    };
    messages
        .iter()
        .map(|message| format!("{}: {}", message["role"].as_str().unwrap(), text(&message["content"])))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn message_received_tells_of_each_message_once() {
    let world = world(&conversation(&[text("Hello.")]), "");
    let log = observe(&world, |event: &MessageReceived| {
        (event.from.clone(), event.content.clone(), event.message_id.clone(), event.context.session_key.clone())
    });
    let request = || Request { sender: Some("ann".into()), ..Request::new("Hi") };
    for _ in 0..2 {
        let sent = world.agent.submit(USER, &world.key(), request(), Some("m1".into())).await.expect("accepted");
        world.outcome(&sent.run_id).await;
    }
    world.send("/status").await;
    world.agent.close().await;
    let main = KEY.to_owned();
    assert_eq!(
        seen(&log),
        [("ann".into(), "Hi".into(), Some("m1".into()), main.clone()), (USER.to_owned(), "/status".into(), None, main)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn command_tells_of_commands_that_were_obeyed() {
    let world = world(&conversation(&[text("Hello.")]), "");
    let log = observe(&world, |event: &Command| event.action.clone());
    world.ask("Hi").await;
    for command in ["/new", "/think high", "/stop", "/nonsense"] {
        let _ = world.agent.submit(USER, &world.key(), Request::new(command), None).await;
    }
    world.agent.close().await;
    assert_eq!(seen(&log), ["new", "think", "stop"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn before_reset_session_end_and_session_start_tell_of_the_life_of_a_session() {
    let world = world(&conversation(&[text("Hello."), text("Again.")]), "");
    let log: Log<String> = Arc::default();
    let (resets, ends, starts) = (Arc::clone(&log), Arc::clone(&log), Arc::clone(&log));
    hook(&world, move |event: &BeforeReset| {
        resets.lock().unwrap().push(format!("before {} with {}", event.reason, event.messages.len()));
        Ok(Nothing {})
    });
    hook(&world, move |event: &SessionEnd| {
        let has_next = event.next_session_id.is_some() && event.next_session_id != event.context.session_id;
        ends.lock().unwrap().push(format!("end {} of {}, {has_next}", event.reason, event.message_count));
        Ok(Nothing {})
    });
    hook(&world, move |event: &SessionStart| {
        starts.lock().unwrap().push(format!("start {}", event.resumed_from.is_some()));
        Ok(Nothing {})
    });
    world.ask("Hi").await;
    world.ask("Hi again").await;
    world.ask("/new Once more").await;
    world.agent.close().await;
    assert_eq!(seen(&log), ["start false", "before new with 4", "end new of 4, true", "start true"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn before_agent_reply_answers_without_a_model_or_keeps_silent() {
    let world = world(&conversation(&[text("Never."), text("From the model.")]), "");
    hook_at(&world, 1, |event: &BeforeAgentReply| match event.cleaned_body.as_str() {
        "fail" => Err(failure()),
        _ => Ok(ReplyAnswer::default()),
    });
    hook(&world, |event: &BeforeAgentReply| {
        let reply = (event.cleaned_body == "ping").then(|| "pong".to_owned());
        Ok(ReplyAnswer { handled: event.cleaned_body != "else", reply, reason: None })
    });
    let outcome = world.ask("ping").await;
    assert_eq!((outcome.status, outcome.text().as_str()), (Status::Ok, "pong"));
    let outcome = world.ask("fail").await;
    assert_eq!((outcome.status, outcome.result.payloads.len()), (Status::Ok, 0), "{outcome:?}");
    assert!(world.server.requests().is_empty());
    assert_eq!(world.entries().await[..2], ["user: ping", "assistant: pong"]);
    assert_eq!(world.ask("else").await.text(), "From the model.");
}

#[tokio::test(flavor = "multi_thread")]
async fn before_model_resolve_chooses_the_model_and_the_highest_priority_wins() {
    let world = world(&conversation(&[text("Hello.")]), "");
    let answer = |provider: Option<&str>, model: &str| ModelOverride {
        provider_override: provider.map(str::to_owned),
        model_override: Some(model.to_owned()),
    };
    hook_at(&world, 1, move |_: &BeforeModelResolve| Ok(answer(Some("scripted"), "narrow")));
    hook_at(&world, 2, |_: &BeforeModelResolve| Err(failure()));
    hook_at(&world, 0, move |_: &BeforeModelResolve| Ok(answer(None, "scripted/coder")));
    let outcome = world.ask("Hi").await;
    assert_eq!(outcome.result.model.as_deref(), Some("scripted/narrow"));
    assert_eq!(world.server.requests()[0].body["model"], "narrow");
}

#[tokio::test(flavor = "multi_thread")]
async fn before_agent_start_does_what_both_explicit_hooks_do_and_gives_way_to_them() {
    let world = world(&conversation(&[text("Hello.")]), "");
    hook(&world, |event: &BeforeAgentStart| {
        assert_eq!((event.prompt.as_str(), event.messages.len()), ("Hi", 1));
        Ok(StartAnswer {
            model: ModelOverride { model_override: Some("scripted/narrow".into()), ..ModelOverride::default() },
            prompt: PromptAdditions {
                system_prompt: Some("Of the old one.".into()),
                append_system_context: Some("Besides.".into()),
                ..PromptAdditions::default()
            },
        })
    });
    hook(&world, |_: &BeforePromptBuild| {
        Ok(PromptAdditions { system_prompt: Some("Of the new one.".into()), ..PromptAdditions::default() })
    });
    assert_eq!(world.ask("Hi").await.result.model.as_deref(), Some("scripted/narrow"));
    assert_eq!(sent(&world, 0)[0], "system: Of the new one.\n\nBesides.");
}

#[tokio::test(flavor = "multi_thread")]
async fn before_prompt_build_adds_to_the_instructions_and_to_the_turn_of_the_user() {
    let script = conversation(&[calls(&[("mark", 1)]), text("Hello."), text("Again.")]);
    let world = world(&script, "approvals: { rules: [{ match: 'mark', decision: 'ask' }] },");
    let asked: Arc<AtomicUsize> = Arc::default();
    let count = Arc::clone(&asked);
    hook_at(&world, 1, move |event: &BeforePromptBuild| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let added = |place: &str| Some(format!("{place} {number}"));
        Ok(PromptAdditions {
            prepend_context: added("before"),
            append_context: added("after"),
            prepend_system_context: Some(format!("first, for {}", event.prompt)),
            tools_allow: Some(vec!["mark".into(), "look".into()]),
            ..PromptAdditions::default()
        })
    });
    hook_at(&world, 0, |_: &BeforePromptBuild| {
        Ok(PromptAdditions {
            prepend_system_context: Some("second".into()),
            tools_allow: Some(vec!["look".into(), "mark".into(), "step".into()]),
            ..PromptAdditions::default()
        })
    });
    let run = world.send("Hi").await;
    assert_eq!(world.outcome(&run).await.status, Status::Waiting);
    // Another process goes on with it, asks no hook again, and sends the model the same.
    world.dies().await;
    let later = world.another();
    let outcome = later.outcome(&run).await;
    let approval = outcome.approvals[0].approval_id.clone();
    later.agent.engage(USER, &later.key());
    later.agent.answer(&approval, pincer_tools::Answer::AllowOnce, "me").await.expect("answered");
    let ended =
        crate::world::within(later.agent.wait(USER, &run, std::time::Duration::from_secs(60))).await.expect("ended");
    assert_eq!(ended.status, pincer_agent::WaitStatus::Ok);
    let (first, second) = (sent(&later, 0), sent(&later, 1));
    assert!(first[0].starts_with("system: first, for Hi\n\nsecond\n\n"), "{}", first[0]);
    assert!(first[1].contains("before 0") && first[1].contains("Hi") && first[1].contains("after 0"), "{}", first[1]);
    assert!(first[1].find("before 0") < first[1].find("Hi") && first[1].find("Hi") < first[1].find("after 0"));
    assert!(first[1].contains("BEGIN_OPENCLAW_INTERNAL_CONTEXT"), "{}", first[1]);
    assert_eq!(second[..2], first[..2], "the model is sent the same after the wait");
    assert_eq!(later.shown(0), ["look", "mark"]);
    assert_eq!(later.shown(1), ["look", "mark"]);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_list_of_tools_is_no_tools() {
    let world = world(&conversation(&[text("Hello.")]), "");
    hook(&world, |_: &BeforePromptBuild| {
        Ok(PromptAdditions { tools_allow: Some(Vec::new()), ..PromptAdditions::default() })
    });
    world.ask("Hi").await;
    assert!(world.shown(0).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn before_agent_run_blocks_and_so_does_one_that_fails() {
    let world = world(&conversation(&[text("Hello.")]), "");
    hook(&world, |event: &BeforeAgentRun| match event.prompt.as_str() {
        "fail" => Err(failure()),
        "block" => Ok(RunAnswer {
            outcome: RunOutcome::Block,
            reason: Some("a secret reason".into()),
            message: Some("Not like this.".into()),
        }),
        _ => {
            assert!(event.system_prompt.contains("You are an agent") && event.messages.len() == 5, "{event:?}");
            Ok(RunAnswer::default())
        }
    });
    let blocked = world.ask("block").await;
    assert_eq!((blocked.status, blocked.error.as_deref()), (Status::Error, Some("Not like this.")));
    assert_eq!(blocked.error_kind.as_deref(), Some("blocked"));
    assert!(!serde_json::to_string(&blocked).unwrap().contains("secret"));
    let failed = world.ask("fail").await;
    assert!(failed.error.as_deref().is_some_and(|error| error.contains("so the run is blocked")), "{failed:?}");
    assert!(world.server.requests().is_empty(), "no model was asked");
    world.ask("third").await;
    world.ask("fourth").await;
    assert_eq!(world.ask("fifth").await.status, Status::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn llm_input_and_llm_output_tell_of_each_request_in_order_and_agent_end_of_the_end() {
    let world = world(&conversation(&[calls(&[("mark", 1)]), text("Done.")]), "");
    let log: Log<String> = Arc::default();
    let (inputs, outputs, ends) = (Arc::clone(&log), Arc::clone(&log), Arc::clone(&log));
    hook(&world, move |event: &LlmInput| {
        let count = event.history_messages.len();
        inputs.lock().unwrap().push(format!("in {}/{} {count} {}", event.provider, event.model, event.prompt));
        Ok(Nothing {})
    });
    hook(&world, move |event: &LlmOutput| {
        let is_call = event.last_assistant["content"][0]["type"] == "toolCall";
        outputs.lock().unwrap().push(format!("out {:?} {is_call} {}", event.assistant_texts, event.usage.is_object()));
        Ok(Nothing {})
    });
    hook(&world, move |event: &AgentEnd| {
        ends.lock().unwrap().push(format!("end {} {} {:?}", event.success, event.messages.len(), event.error));
        Ok(Nothing {})
    });
    world.ask("Do it.").await;
    world.agent.close().await;
    assert_eq!(
        seen(&log),
        [
            "in scripted/scripted 1 Do it.",
            "out [] true true",
            "in scripted/scripted 3 Do it.",
            "out [\"Done.\"] false true",
            "end true 3 None",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_end_tells_of_failures_too() {
    let world = world("{ replies: [{ status: 401, error: { message: 'no' }, repeat: true }] }", "");
    let log = observe(&world, |event: &AgentEnd| (event.success, event.error.is_some()));
    world.ask("Hi").await;
    world
        .agent
        .submit(USER, &world.key(), Request { model: Some("no/such".into()), ..Request::new("Hi") }, None)
        .await
        .ok();
    world.agent.close().await;
    assert!(!seen(&log).is_empty() && seen(&log).iter().all(|end| *end == (false, true)), "{:?}", seen(&log));
}

fn persist(change: impl Fn(&ToolResultPersist) -> Option<Value> + Send + Sync + 'static) -> Plugin {
    let hook = FnHook(move |event: &ToolResultPersist| Ok(ToolResultAnswer { message: change(event) }));
    let matcher = Matcher::default();
    Plugin { persisting: vec![PersistHook { matcher, hook: Hook::new("of the test", hook) }], ..Plugin::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_result_persist_changes_what_is_stored_and_what_the_model_reads() {
    let script = conversation(&[calls(&[("mark", 1), ("nope", 2)]), text("Done.")]);
    let world = world(&script, "");
    let log: Log<(String, bool)> = Arc::default();
    let kept = Arc::clone(&log);
    register(
        &world,
        persist(move |event| {
            kept.lock().unwrap().push((event.tool_name.clone(), event.is_synthetic));
            let mut message = event.message.clone();
            message["content"] = json!([{ "type": "text", "text": format!("changed {}", event.tool_name) }]);
            Some(message)
        }),
    );
    world.ask("Do it.").await;
    let told = sent(&world, 1);
    assert_eq!(told[3..], ["tool: changed mark", "tool: changed nope"]);
    let mut log = seen(&log);
    log.sort();
    assert_eq!(log, [("mark".to_owned(), false), ("nope".to_owned(), true)], "each result is asked about once");
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_result_persist_comes_before_the_journal_of_a_program_and_before_its_result() {
    let code = "console.log('seen too'); const r = await tools.mark({ n: 1 }); return [r, 'seen'];";
    let script = conversation(&[
        format!("{{ parts: [{{ call: {{ id: 'c1', name: 'exec', arguments: {{ code: {code:?} }} }} }}] }}"),
        text("Done."),
    ]);
    let world = world(&script, "tools: { codeMode: true },");
    let log: Log<String> = Arc::default();
    let kept = Arc::clone(&log);
    register(
        &world,
        persist(move |event| {
            kept.lock().unwrap().push(event.tool_name.clone());
            let mut message = event.message.clone();
            for part in message["content"].as_array_mut()? {
                let text =
                    part["text"].as_str()?.replace("\"did\":1", "\"did\":\"kept back\"").replace("seen", "hidden");
                part["text"] = text.into();
            }
            Some(message)
        }),
    );
    world.ask("Do it.").await;
    let told = sent(&world, 1);
    assert!(told[3].contains("kept back") && told[3].contains("hidden too"), "{told:?}");
    assert!(!told[3].contains("seen"), "{told:?}");
    assert_eq!(seen(&log), ["mark", "exec"], "each result is asked about once");
    let connection = rusqlite::Connection::open(world.directory.path().join("pincer.db")).expect("the store");
    let row = |query: &str| connection.query_row::<String, _, _>(query, [], |row| row.get(0)).expect("a row");
    let outcome = row("SELECT outcome FROM call");
    assert!(outcome.contains("kept back"), "{outcome}");
    let result = row("SELECT result FROM run");
    assert!(result.contains(r#"["{\"did\":\"kept back\"}","hidden"]"#) || result.contains("\"hidden\"]"), "{result}");
    assert!(result.contains("hidden too") && !result.contains("seen"), "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn before_message_write_changes_or_withholds_what_is_written() {
    let with_text =
        "{ parts: [{ text: 'my password is x' }, { call: { id: 'c1', name: 'mark', arguments: { n: 1 } } }] }";
    let world = world(&conversation(&[with_text.to_owned(), text("Done.")]), "");
    hook_at(&world, 1, |_: &BeforeMessageWrite| Err(failure()));
    hook(&world, |event: &BeforeMessageWrite| {
        let shown = event.message.to_string();
        if shown.contains("password") && event.message["role"] == "assistant" {
            return Ok(MessageWriteAnswer { block: Some(true), message: None });
        }
        let mut message = event.message.clone();
        if message["role"] == "user" {
            message["content"] = "a tidy message".into();
            message["role"] = "assistant".into();
        }
        Ok(MessageWriteAnswer { block: Some(false), message: Some(message) })
    });
    let outcome = world.ask("an untidy message").await;
    assert_eq!(outcome.status, Status::Ok);
    assert_eq!(
        world.entries().await,
        ["user: a tidy message", "assistant: [withheld by a hook], call mark", "result c1", "assistant: Done."]
    );
    assert_eq!(world.effects.all(), ["mark 1"], "the call is made all the same");
    assert!(sent(&world, 0)[1].contains("a tidy message"));
    assert!(sent(&world, 1)[2].contains("withheld"));
}

#[tokio::test(flavor = "multi_thread")]
async fn before_agent_finalize_has_the_model_go_on_three_times_at_most() {
    let replies: Vec<String> = (0..6).map(|number| text(&format!("answer {number}"))).collect();
    let world = world(&conversation(&replies), "");
    let log: Log<(bool, String)> = Arc::default();
    let kept = Arc::clone(&log);
    hook(&world, move |event: &BeforeAgentFinalize| {
        kept.lock().unwrap().push((event.stop_hook_active, event.last_assistant_message.clone()));
        let retry =
            Retry { instruction: Some("Once more, please.".into()), idempotency_key: None, max_attempts: Some(10) };
        Ok(FinalizeAnswer { action: FinalizeAction::Revise, retry: Some(retry), ..FinalizeAnswer::default() })
    });
    let outcome = world.ask("Hi").await;
    let payloads: Vec<&str> = outcome.result.payloads.iter().map(|payload| payload.text.as_str()).collect();
    assert_eq!(payloads, ["answer 3"], "what was revised is no part of the answer");
    let answers = seen(&log);
    assert_eq!(answers.iter().map(|(revised, _)| *revised).collect::<Vec<_>>(), [false, true, true]);
    assert!(sent(&world, 1).last().unwrap().contains("Once more, please."));
}

#[tokio::test(flavor = "multi_thread")]
async fn before_agent_finalize_revises_one_matter_as_often_as_it_says_and_finalize_ends_it() {
    let replies: Vec<String> = (0..4).map(|number| text(&format!("answer {number}"))).collect();
    let world = world(&conversation(&replies), "");
    hook_at(&world, 2, |event: &BeforeAgentFinalize| match event.last_assistant_message.as_str() {
        "answer 1" => Ok(FinalizeAnswer { action: FinalizeAction::Finalize, ..FinalizeAnswer::default() }),
        _ => Err(failure()),
    });
    hook_at(&world, 1, |_: &BeforeAgentFinalize| {
        Ok(FinalizeAnswer { action: FinalizeAction::Revise, reason: Some("why".into()), retry: None })
    });
    world.ask("Hi").await;
    assert_eq!(world.server.requests().len(), 2, "the first answer is revised, the second is final");
    world.ask("Hi again").await;
    // "answer 2" is revised once: a matter without a number of attempts is revised once.
    assert_eq!(world.server.requests().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_the_config_are_hooks_like_closures() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("told");
    let say = |answer: &str| format!("{{ command: ['sh', '-c', 'cat > /dev/null; printf %s \"$0\"', {answer:?}] }}");
    let note = format!(
        "{{ command: ['sh', '-c', 'printf \"%s\\\\n\" \"$PINCER_HOOK\" >> \"$0\"', {:?}] }}",
        file.display().to_string()
    );
    let config = format!(
        "hooks: {{ before_prompt_build: [{}], 'command:new': [{note}], 'command:stop': [{note}], agent_end: [{note}], \
         before_agent_run: [{{ ...x, command: 'grep -q forbidden && exit 3; exit 0' }}] }},",
        say(r#"{"prependSystemContext":"From a command."}"#)
    )
    .replace("...x, ", "");
    let world = world(&conversation(&[text("Hello.")]), &config);
    assert_eq!(world.ask("Hi").await.text(), "Hello.");
    assert!(sent(&world, 0)[0].starts_with("system: From a command."), "{:?}", sent(&world, 0));
    let blocked = world.ask("this is forbidden").await;
    assert!(blocked.error.as_deref().is_some_and(|error| error.contains("hooks.before_agent_run[0]")), "{blocked:?}");
    world.send("/new").await;
    world.agent.close().await;
    let told = std::fs::read_to_string(&file).unwrap();
    assert_eq!(told.lines().collect::<Vec<_>>(), ["agent_end", "agent_end", "command:*"]);
}
