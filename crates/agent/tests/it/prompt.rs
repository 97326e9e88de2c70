//! The instructions that a model gets: parts, the boundary behind what stays the same, skills, files of the workspace.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use pincer_agent::{Agent, PartKind, PromptMode, Request, RunOutcome, ShownPrompt, Status};
use pincer_config::Loaded;
use pincer_hooks::events::{AgentBootstrap, BeforePromptBuild, BootstrapAnswer, BootstrapFile, PromptAdditions};
use pincer_hooks::{FnHook, Hook};
use pincer_runtime::{EngineStart, ModelSetup, Runtime, RuntimeOptions};
use pincer_scripted::{Script, Server};
use pincer_store::{Leases, SessionKey, Sessions};
use pincer_testkit::house::engine;
use pincer_tools::Plugin;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{USER, conversation, text, within};

/// An agent with the built-in tools, whose model follows a script.
struct Place {
    agent: Agent,
    server: Arc<Server>,
    directory: Arc<TempDir>,
}

impl Place {
    fn new(replies: &[String], config: &str) -> Self {
        let server = Server::start(Script::parse(&conversation(replies)).expect("a script")).expect("a server");
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(directory.path().join("workspace")).expect("a workspace");
        Self::open(Arc::new(server), Arc::new(directory), config)
    }

    fn open(server: Arc<Server>, directory: Arc<TempDir>, config: &str) -> Self {
        let model = if config.contains("model:") { "" } else { "agents: { defaults: { model: 'messages/m' } }," };
        let config = format!(
            "{{ workspace: {:?}, models: {{ providers: {{ messages: {{ baseUrl: '{}', api: 'anthropic-messages', apiKey: 'k' }} }} }}, {model} {config} }}",
            directory.path().join("workspace").display().to_string(),
            server.url(),
        );
        let parsed = pincer_config::parse(&config, &|_| None).unwrap_or_else(|error| panic!("{error}\n{config}"));
        let loaded = Loaded { parsed, ..Loaded::default() };
        let models = ModelSetup::new(&loaded, Some(directory.path()));
        let options = RuntimeOptions {
            engine: EngineStart::Given(engine().clone()),
            ..RuntimeOptions::new(loaded, directory.path().join("state"))
        };
        Self { agent: Agent::new(Arc::new(Runtime::open(options).expect("a runtime")), models), server, directory }
    }

    /// The same state in another process, with another config.
    fn another(&self, config: &str) -> Self {
        Self::open(Arc::clone(&self.server), Arc::clone(&self.directory), config)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn put(&self, path: &str, content: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn skill(&self, base: &str, name: &str, description: &str) {
        let text = format!("---\nname: {name}\ndescription: {description}\n---\nHow to {name}.");
        self.put(&format!("{base}/skills/{name}/SKILL.md"), &text);
    }

    async fn ask_in(&self, key: &str, request: Request) -> RunOutcome {
        let run = self.agent.submit(USER, &SessionKey::from(key), request, None).await.expect("accepted").run_id;
        let outcome = within(self.agent.outcome(USER, &run)).await.expect("an outcome");
        assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
        outcome
    }

    async fn ask(&self) -> RunOutcome {
        self.ask_in("main", Request::new("Go.")).await
    }

    async fn shown(&self, key: &str, request: &Request) -> ShownPrompt {
        self.agent.show_prompt(USER, &SessionKey::from(key), request).await.expect("a prompt")
    }

    /// The instructions of a request up to the boundary, and those behind it.
    fn sent(&self, request: usize) -> (Vec<String>, Vec<String>) {
        let body = &self.server.requests()[request].body;
        let blocks = body["system"].as_array().expect("blocks").clone();
        let marks: Vec<bool> = blocks.iter().map(|block| block.get("cache_control").is_some()).collect();
        let boundary = marks.iter().position(|mark| *mark).expect("a boundary") + 1;
        assert_eq!(marks.iter().filter(|mark| **mark).count(), 1, "{blocks:?}");
        let texts: Vec<String> = blocks.iter().map(|block| block["text"].as_str().unwrap().to_owned()).collect();
        (texts[..boundary].to_vec(), texts[boundary..].to_vec())
    }
}

fn kinds(shown: &ShownPrompt) -> Vec<String> {
    let name = |part: &pincer_agent::Part| match &part.file {
        Some(file) => file.clone(),
        None => part.part.as_str().to_owned(),
    };
    shown.prompt.parts.iter().map(name).collect()
}

fn part(shown: &ShownPrompt, kind: PartKind) -> String {
    let parts = shown.prompt.parts.iter().filter(|part| part.part == kind);
    parts.map(|part| part.text.as_str()).collect::<Vec<_>>().join("\n")
}

fn moded(mode: PromptMode) -> Request {
    Request { prompt_mode: mode, extra_system_prompt: Some("Be brief.".into()), ..Request::new("Go.") }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stays_the_same_stands_before_the_boundary_and_is_the_same_in_every_turn() {
    let place = Place::new(&[text("One."), text("Two."), text("Three.")], "");
    place.put("workspace/AGENTS.md", "Be good.");
    place.skill("workspace", "pdf", "Of the workspace.");
    place.skill("state", "mail", "Of the state.");
    place.ask().await;
    let (stable, behind) = place.sent(0);
    let whole = stable.join("\n");
    for expected in [
        "<name>pdf</name><description>Of the workspace.</description><location>skills/pdf/SKILL.md</location>",
        "<name>mail</name>",
        "## AGENTS.md\n\nBe good.",
    ] {
        assert!(whole.contains(expected), "{whole}");
    }
    assert!(
        behind.len() == 1 && behind[0].contains("Session: main") && behind[0].contains("Model: messages/m"),
        "{behind:?}"
    );
    assert!(!whole.contains("Today:"));
    // Skills change on the disk meanwhile, in this process and in another.
    place.skill("workspace", "pdf", "Of another day.");
    place.skill("workspace", "new", "It came later.");
    fs::remove_dir_all(place.path("state/skills/mail")).unwrap();
    place.ask().await;
    assert_eq!(place.sent(1).0, stable);
    place.agent.close().await;
    place.agent.runtime().leases().release();
    let another = place.another("");
    another.ask().await;
    assert_eq!(another.sent(2).0, stable);
    // A new conversation has the skills as they are.
    let fresh = another.shown("other", &Request::new("")).await;
    let skills = part(&fresh, PartKind::Skills);
    assert!(
        skills.contains("Of another day.") && skills.contains("It came later.") && !skills.contains("mail"),
        "{skills}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_skills_the_config_changes_has_others_at_once() {
    let place = Place::new(&[text("One.")], "");
    place.skill("workspace", "pdf", "x");
    place.skill("workspace", "mail", "y");
    place.ask().await;
    let limited = place.another("agents: { defaults: { model: 'messages/m', skills: ['mail'] } }");
    let skills = part(&limited.shown("main", &Request::new("")).await, PartKind::Skills);
    assert!(skills.contains("mail") && !skills.contains("pdf"), "{skills}");
    let off = place.another("skills: { entries: { mail: { enabled: false }, pdf: { enabled: false } } }");
    assert_eq!(part(&off.shown("main", &Request::new("")).await, PartKind::Skills), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_says_how_much_the_instructions_have() {
    let place = Place::new(&[text("One.")], "");
    for file in ["AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "BOOTSTRAP.md", "MEMORY.md"] {
        place.put(&format!("workspace/{file}"), "x");
    }
    place.skill("workspace", "pdf", "x");
    let full = [
        "base",
        "tools",
        "skills",
        "AGENTS.md",
        "SOUL.md",
        "IDENTITY.md",
        "USER.md",
        "BOOTSTRAP.md",
        "MEMORY.md",
        "extra",
    ];
    assert_eq!(kinds(&place.shown("main", &moded(PromptMode::Full)).await), full);
    assert_eq!(kinds(&place.shown("main", &moded(PromptMode::Minimal)).await), ["base", "tools", "AGENTS.md", "extra"]);
    let none = place.shown("main", &moded(PromptMode::None)).await;
    assert_eq!((kinds(&none), &none.prompt.suffix), (vec!["extra".to_owned()], &None));
    place.ask_in("main", moded(PromptMode::None)).await;
    assert_eq!(
        place.server.requests()[0].body["system"],
        json!([{ "type": "text", "text": "Be brief.", "cache_control": { "type": "ephemeral" } }])
    );
    let bare = Request { disable_tools: true, ..Request::new("") };
    assert!(!kinds(&place.shown("main", &bare).await).contains(&"skills".to_owned()), "there is no way to read them");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_stores_nothing_and_sends_nothing() {
    let place = Place::new(&[text("One.")], "agents: { defaults: { model: 'messages/m', sandbox: { mode: 'all' } } }");
    place.skill("state", "pdf", "x");
    let shown = place.shown("main", &Request::new("")).await;
    assert!(part(&shown, PartKind::Skills).contains("pdf") && shown.workspace.is_some());
    assert!(!place.path("state/sandboxes").exists());
    assert_eq!(place.server.requests().len(), 0);
    let store = place.agent.runtime().store();
    assert!(store.current_session(USER, &SessionKey::from("main")).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_is_shown_until_a_run_has_completed_with_it_and_the_others_are_read_anew() {
    let failing = "{ status: 400, error: { message: 'no' } }".to_owned();
    let server = Server::start(
        Script::parse(&format!("{{ replies: [{}, {failing}, {}, {}] }}", text("One."), text("Two."), text("Three.")))
            .unwrap(),
    );
    let directory = Arc::new(tempfile::tempdir().unwrap());
    fs::create_dir(directory.path().join("workspace")).unwrap();
    let place = Place::open(Arc::new(server.unwrap()), directory, "");
    place.put("workspace/BOOTSTRAP.md", "Begin so.");
    place.put("workspace/MEMORY.md", "the first note");
    // A run that is shown something else does not count, nor does one that fails.
    place.ask_in("main", moded(PromptMode::Minimal)).await;
    let run = place.agent.submit(USER, &"main".into(), Request::new("Go."), None).await.unwrap().run_id;
    assert_eq!(within(place.agent.outcome(USER, &run)).await.unwrap().status, Status::Error);
    assert!(kinds(&place.shown("main", &Request::new("")).await).contains(&"BOOTSTRAP.md".to_owned()));
    place.ask().await;
    assert!(place.sent(1).0.join("\n").contains("Begin so.") && place.sent(2).0.join("\n").contains("Begin so."));
    place.put("workspace/MEMORY.md", "the second note");
    place.ask_in("other", Request::new("Go.")).await;
    let third = place.sent(3).0.join("\n");
    assert!(
        !third.contains("Begin so.") && third.contains("the second note") && !third.contains("the first note"),
        "{third}"
    );
    // Not in another process either, nor when the file is written again.
    place.put("workspace/BOOTSTRAP.md", "Once more.");
    let another = place.another("");
    assert!(!kinds(&another.shown("new", &Request::new("")).await).contains(&"BOOTSTRAP.md".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_link_leads_a_bootstrap_file_out_of_the_workspace_and_what_is_cut_says_so() {
    let bounds = "agents: { defaults: { model: 'messages/m', bootstrapMaxChars: 100, bootstrapTotalMaxChars: 150 } }";
    let place = Place::new(&[text("One.")], bounds);
    place.put("secret", "hunter22");
    std::os::unix::fs::symlink(place.path("secret"), place.path("workspace/AGENTS.md")).unwrap();
    place.put("workspace/SOUL.md", &"s".repeat(300));
    place.put("workspace/MEMORY.md", &"m".repeat(300));
    let text = part(&place.shown("main", &Request::new("")).await, PartKind::Bootstrap);
    assert!(!text.contains("hunter22") && text.contains("[AGENTS.md is left out"), "{text}");
    assert!(text.contains(&format!("{}\n[SOUL.md is cut here", "s".repeat(100))), "{text}");
    assert!(text.contains(&format!("\n{}\n[MEMORY.md is cut here", "m".repeat(50))), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandboxed_session_has_the_character_of_its_agent_and_not_the_memory() {
    let sandboxed = "agents: { defaults: { model: 'messages/m', sandbox: { mode: 'non-main' } } }";
    let place = Place::new(&[text("One.")], sandboxed);
    for file in ["AGENTS.md", "SOUL.md", "USER.md", "MEMORY.md"] {
        place.put(&format!("workspace/{file}"), &format!("of the agent: {file}"));
    }
    place.skill("workspace", "pdf", "x");
    let shown = place.shown("guest", &Request::new("")).await;
    assert_eq!(kinds(&shown), ["base", "tools", "skills", "AGENTS.md", "SOUL.md"]);
    let location = place.path("workspace/skills/pdf/SKILL.md").canonicalize().unwrap().display().to_string();
    assert!(part(&shown, PartKind::Skills).contains(&location), "{shown:?}");
    place.ask_in("guest", Request::new("Go.")).await;
    let root = fs::read_dir(place.path("state/sandboxes")).ok().and_then(|mut all| all.next());
    if let Some(Ok(own)) = root {
        fs::write(own.path().join("MEMORY.md"), "its own").unwrap();
    }
    assert_eq!(
        kinds(&place.shown("main", &Request::new("")).await)[3..],
        ["AGENTS.md", "SOUL.md", "USER.md", "MEMORY.md"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_reads_its_skills_and_its_commands_have_their_variables() {
    let call = |id: &str, name: &str, arguments: Value| {
        format!("{{ parts: [{{ call: {{ id: '{id}', name: '{name}', arguments: {arguments} }} }}] }}")
    };
    let place = Place::new(&[], "");
    place.skill("state", "mail", "x");
    place.skill("state", "off", "y");
    let path = |name: &str| place.path(&format!("state/skills/{name}/SKILL.md")).display().to_string();
    let replies = [
        call("r1", "read", json!({ "path": path("mail") })),
        call("r2", "read", json!({ "path": path("off") })),
        call("r3", "write", json!({ "path": path("mail"), "content": "mine" })),
        call(
            "r4",
            "exec",
            json!({ "command": "test \"$MAIL_KEY\" = hunter22 && echo given; echo $MAIL_KEY $OFF_KEY" }),
        ),
        text("Done."),
    ];
    let server = Arc::new(Server::start(Script::parse(&conversation(&replies)).unwrap()).unwrap());
    let config = "tools: { exec: { mode: 'full' } }, skills: { entries: { mail: { env: { MAIL_KEY: 'hunter22' } }, off: { enabled: false, env: { OFF_KEY: 'swordfish' } } } }";
    let place = Place::open(server, Arc::clone(&place.directory), config);
    place.ask().await;
    let requests = place.server.requests();
    let all: String = requests.iter().map(|request| request.text.clone()).collect();
    assert!(!all.contains("hunter22") || !all.replace("= hunter22", "").contains("hunter22"), "{all}");
    assert!(!all.contains("swordfish"));
    let results = requests.last().unwrap().body["messages"].to_string();
    assert!(results.contains("How to mail.") && !results.contains("How to off."), "{results}");
    assert!(results.contains("given\\\\n[redacted]") || results.contains("given\\n[redacted]"), "{results}");
    assert_eq!(fs::read_to_string(path_of(&place, "mail")).unwrap().lines().last(), Some("How to mail."));
}

fn path_of(place: &Place, name: &str) -> PathBuf {
    place.path(&format!("state/skills/{name}/SKILL.md"))
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_of_an_agent_have_its_skills() {
    let code = "const all = await skills.list(); let refused = ''; try { await skills.read('nope') } catch (error) { refused = error.message } \
                return { all, text: await skills.read('mail'), refused }";
    let exec =
        format!("{{ parts: [{{ call: {{ id: 'p1', name: 'exec', arguments: {} }} }}] }}", json!({ "code": code }));
    let place = Place::new(&[exec, text("Done.")], "tools: { codeMode: true }");
    place.skill("state", "mail", "Write a mail.");
    place.ask().await;
    let result = place.server.requests()[1].body["messages"].to_string();
    for expected in ["Write a mail.", "How to mail.", "there is no skill `nope`", "skills/mail/SKILL.md"] {
        assert!(result.contains(expected), "{expected} in {result}");
    }
    assert!(place.sent(0).0.join("\n").contains("await skills.read(name)"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_adds_removes_and_replaces_bootstrap_files_within_the_bounds() {
    let bounds = "agents: { defaults: { model: 'messages/m', bootstrapMaxChars: 100 } }";
    let place = Place::new(&[text("One."), text("Two.")], bounds);
    place.put("workspace/AGENTS.md", "Be good.");
    place.put("workspace/SOUL.md", "Be yourself.");
    place.put("workspace/BOOTSTRAP.md", "Begin so.");
    place.put("workspace/MEMORY.md", &"m".repeat(200));
    let closure = |event: &AgentBootstrap| {
        let mut files = event.files.clone();
        assert_eq!(files[0].name, "AGENTS.md");
        files[0].content = "Be better.".into();
        files.retain(|file| !["SOUL.md", "BOOTSTRAP.md"].contains(&file.name.as_str()));
        files.push(BootstrapFile { name: "TEAM.md".into(), content: "t".repeat(200) });
        Ok(BootstrapAnswer { files: Some(files) })
    };
    let hook = Hook::new("of the test", FnHook(closure));
    let plugin = Plugin { id: "hooked".into(), others: vec![hook.into()], ..Plugin::default() };
    place.agent.runtime().door().register(plugin).expect("registered");
    let shown = place.shown("main", &Request::new("")).await;
    assert_eq!(kinds(&shown)[2..], ["AGENTS.md", "MEMORY.md", "TEAM.md"]);
    place.ask().await;
    let sent = place.sent(0).0.join("\n");
    for expected in ["Be better.", "these are the first 100 of its 200 bytes"] {
        assert!(sent.contains(expected), "{sent}");
    }
    assert_eq!(sent.matches("is cut here").count(), 2, "{sent}");
    assert!(!sent.contains("Be good.") && !sent.contains("Be yourself.") && !sent.contains("Begin so."), "{sent}");
    // The run was not shown how to begin.
    let another = place.another(bounds);
    assert!(kinds(&another.shown("main", &Request::new("")).await).contains(&"BOOTSTRAP.md".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hooks_add_to_a_turn_is_no_part_of_the_instructions() {
    let place = Place::new(&[text("One."), text("Two.")], "");
    let closure = |event: &BeforePromptBuild| {
        Ok(PromptAdditions {
            prepend_context: Some(format!("seen {} messages", event.messages.len())),
            append_system_context: Some("Always.".into()),
            ..PromptAdditions::default()
        })
    };
    let hook = Hook::new("of the test", FnHook(closure));
    let plugin = Plugin { id: "hooked".into(), others: vec![hook.into()], ..Plugin::default() };
    place.agent.runtime().door().register(plugin).expect("registered");
    place.ask().await;
    place.ask().await;
    assert_eq!(place.sent(0).0, place.sent(1).0, "the same in every turn");
    assert_eq!(place.sent(0).0.last().map(String::as_str), Some("Always."));
    for (request, expected) in [(0, "seen "), (1, "seen ")] {
        let messages = place.server.requests()[request].body["messages"].to_string();
        assert!(messages.contains(expected), "{messages}");
        assert!(!place.sent(request).0.join("\n").contains("seen "));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_that_a_run_writes_for_itself_has_no_variables() {
    let skill = "---\nname: invoice\ndescription: Mine.\n---\nHi.";
    let call = |id: &str, name: &str, arguments: Value| {
        format!("{{ parts: [{{ call: {{ id: '{id}', name: '{name}', arguments: {arguments} }} }}] }}")
    };
    let look = |id: &str| call(id, "exec", json!({ "command": "echo key:$INVOICE_KEY | tr a-z A-Z" }));
    let replies = [
        call("w1", "write", json!({ "path": "skills/invoice/SKILL.md", "content": skill })),
        text("Written."),
        look("e1"),
        text("Looked."),
        look("e2"),
        text("Looked again."),
    ];
    let config = |entry: &str| {
        format!(
            "tools: {{ exec: {{ mode: 'full' }} }},
             skills: {{ entries: {{ invoice: {{ env: {{ INVOICE_KEY: 'hunter22' }}, {entry} }} }} }}"
        )
    };
    let place = Place::new(&replies, &config(""));
    // The one that the variables are meant for is not offered to models.
    place.put(
        "state/skills/invoice/SKILL.md",
        "---\nname: invoice\ndescription: Writes one.\ndisable-model-invocation: true\n---\nHi.",
    );
    place.ask().await;
    place.ask().await;
    let request = place.server.requests().last().unwrap().clone();
    assert!(request.text.contains("KEY:") && !request.text.contains("HUNTER22"), "{}", request.text);
    assert!(request.body["system"].to_string().contains("<name>invoice</name>"), "the skill is there");
    // The operator may want it so.
    let place = place.another(&config("fromWorkspace: true"));
    place.ask().await;
    assert!(place.server.requests().last().unwrap().text.contains("KEY:HUNTER22"));
}
