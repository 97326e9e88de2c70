//! `pincer doctor`: channels, texts to be sent, sessions that no process works on, and jobs of the schedule.

use std::fs;
use std::process::Stdio;

use pincer_runtime::Principal;
use pincer_scripted::{Script, Server};
use pincer_store::{
    AgentRuns, Clock, CronChange, CronDefinition, CronJobs, Deliveries, DeliveryChange, DeliverySource, Enqueued,
    Millis, NewAgentRun, NewDelivery, QueueLimit, Route, WhenFull,
};
use pincer_store_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::common::Home;

const HOUR: Millis = 3_600_000;

fn home(config: &str) -> Home {
    let home = Home::with(config);
    fs::create_dir(home.path("work")).unwrap();
    home
}

/// A home whose agents ask a model with this script.
fn with_model(server: &Server, more: &str) -> Home {
    home(&format!(
        "{{ workspace: 'work', models: {{ providers: {{ s: {{ baseUrl: '{}/v1', apiKey: 'k' }} }} }}, \
         agents: {{ defaults: {{ model: 's/scripted' }} }}, {more} }}",
        server.url()
    ))
}

fn served(replies: &str) -> Server {
    Server::start(Script::parse(&format!("{{ replies: [{replies}] }}")).unwrap()).unwrap()
}

fn store(home: &Home) -> SqliteStore {
    SqliteStore::open(&home.path(".state/pincer/pincer.db")).unwrap()
}

fn me() -> String {
    Principal::of_this_process().user().to_owned()
}

fn doctor(home: &Home) -> (i32, Value) {
    home.json(&["doctor", "--offline", "--json"])
}

/// Checks the status of a check, and that its message and its remedy have these words.
fn check(document: &Value, name: &str, status: &str, words: &[&str]) {
    let all = document["checks"].as_array().unwrap();
    let Some(check) = all.iter().find(|check| check["name"] == name) else { panic!("no {name}: {document:#}") };
    assert_eq!(check["status"], status, "{check:#}");
    assert_eq!(check["remedy"].is_string(), status != "ok", "{check:#}");
    let text = format!("{} → {}", check["message"], check["remedy"]);
    words.iter().for_each(|word| assert!(text.contains(word), "{name} has no {word}: {text}"));
}

fn has(document: &Value, name: &str) -> bool {
    document["checks"].as_array().unwrap().iter().any(|check| check["name"] == name)
}

/// Puts a plugin into the home's folder of plugins, with these channels.
fn plugin(home: &Home, id: &str, channels: &[&str]) {
    let folder = home.path("plugins").join(id);
    fs::create_dir_all(&folder).unwrap();
    let channels: Vec<Value> = channels.iter().map(|name| json!({ "name": name })).collect();
    let manifest = json!({ "id": id, "version": "1", "command": ["false"], "channels": channels });
    fs::write(folder.join("pincer.plugin.json5"), manifest.to_string()).unwrap();
}

#[test]
fn without_work_each_kind_has_one_line_that_says_so() {
    let home = home("{}");
    let (code, document) = doctor(&home);
    assert_eq!(code, 0, "{document:#}");
    check(&document, "channels", "ok", &["no channels"]);
    check(&document, "work", "ok", &["no store yet"]);
    assert!(!home.path(".state").exists(), "to look makes nothing");
    assert_eq!(home.run(&["sessions", "list"]).0, 0);
    assert_eq!(home.run(&["cron", "add", "tea", "--every", "1h", "-m", "Tea."]).0, 0);
    let (code, document) = doctor(&home);
    assert_eq!(code, 0, "{document:#}");
    for name in ["outbox", "sessions", "cron"] {
        check(&document, name, "ok", &[]);
    }
}

#[test]
fn a_channel_that_cannot_be_started_fails_with_its_reason_and_remedy() {
    let home = home(
        "{ plugins: { paths: ['plugins'], entries: { off: { enabled: false } } }, channels: { \
           right: { plugin: 'wire', allowFrom: ['ann'] }, wire: { allowFrom: [] }, spare: { plugin: 'nowhere', enabled: false }, \
           gone: { plugin: 'nowhere', allowFrom: ['*'] }, unknown: { allowFrom: ['*'] }, \
           sleeping: { plugin: 'off', allowFrom: ['*'] }, third: { plugin: 'pair', allowFrom: ['*'] } } }",
    );
    plugin(&home, "wire", &["wire"]);
    plugin(&home, "off", &["sleeping"]);
    plugin(&home, "pair", &["one", "two"]);
    let (code, document) = doctor(&home);
    assert_eq!(code, 1, "{document:#}");
    check(&document, "channel:right", "ok", &["the plugin wire can be started"]);
    check(&document, "channel:wire", "warn", &["takes no message", "channels.wire.allowFrom"]);
    check(&document, "channel:spare", "ok", &["is turned off"]);
    check(
        &document,
        "channel:gone",
        "fail",
        &["there is no plugin nowhere", "pincer plugins install", "plugins.paths"],
    );
    check(&document, "channel:unknown", "fail", &["no plugin has a channel of this name", "channels.unknown.plugin"]);
    check(&document, "channel:sleeping", "fail", &["plugin off is turned off", "plugins.entries.off.enabled"]);
    check(&document, "channel:third", "fail", &["has no channel of this name", "one, two", "pincer plugins show pair"]);
    // What is wrong with the settings is told with the config, and what is wrong with a plugin with the plugins.
    fs::write(home.path("plugins/wire/pincer.plugin.json5"), "{ id: 'wire' }").unwrap();
    let (_, document) = doctor(&home);
    check(&document, "plugins", "fail", &[]);
    check(&document, "channels", "fail", &["no channel can be run", "`plugins`"]);
    let home = self::home("{ channels: { irc: { session: '{nobody}', agent: 'nemo' } } }");
    let (code, document) = doctor(&home);
    assert_eq!(code, 1);
    check(&document, "config", "fail", &["channels.irc.session", "channels.irc.agent: there is no agent `nemo`"]);
}

#[test]
fn a_store_of_an_earlier_version_is_not_touched() {
    let home = home("{}");
    assert_eq!(home.run(&["sessions", "list"]).0, 0);
    let file = home.path(".state/pincer/pincer.db");
    let version = |statement: &str| {
        let run = std::process::Command::new("python3")
            .args([
                "-c",
                "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(c.execute(sys.argv[2]).fetchall())",
            ])
            .arg(&file)
            .arg(statement)
            .output()
            .unwrap();
        String::from_utf8(run.stdout).unwrap()
    };
    let now = version("PRAGMA user_version");
    let number: u32 = now.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
    version(&format!("PRAGMA user_version = {}", number - 1));
    let (code, document) = doctor(&home);
    assert_eq!(code, 0, "{document:#}");
    check(&document, "store", "ok", &["which the next program brings to"]);
    check(&document, "work", "ok", &["not looked at"]);
    assert_eq!(version("PRAGMA user_version").trim(), format!("[({},)]", number - 1));
}

/// Stores a text for a channel, as it was this many milliseconds ago.
fn text(store: &SqliteStore, channel: &str, to: &str, ago: Millis) -> pincer_store::Delivery {
    let id = format!("dl_{channel}_{to}_{ago}");
    let new = NewDelivery {
        id: id.as_str().into(),
        user: me(),
        run: None,
        source: DeliverySource::Operator,
        key: id,
        route: Route { channel: channel.into(), account: None, to: to.into(), thread: None },
        reply_to: None,
        text: "Hello.".into(),
        expires_at: None,
        now: store.now() - ago,
    };
    match store.enqueue(new).wait().unwrap() {
        Enqueued::New(delivery) => delivery,
        other => panic!("{other:?}"),
    }
}

#[test]
fn texts_that_wait_for_long_or_never_arrive_are_told() {
    let home = home("{ plugins: { paths: ['plugins'] }, channels: { wire: { allowFrom: ['ann'] } } }");
    plugin(&home, "wire", &["wire"]);
    assert_eq!(home.run(&["sessions", "list"]).0, 0);
    let store = store(&home);
    text(&store, "wire", "ann", 1000);
    let (code, document) = doctor(&home);
    assert_eq!(code, 0);
    check(&document, "outbox", "ok", &["no text waits for long"]);

    text(&store, "wire", "ben", 2 * HOUR);
    text(&store, "wire", "ben", HOUR);
    text(&store, "gone", "eve", HOUR);
    let failed = text(&store, "wire", "old", 3 * HOUR);
    let claimed = store.claim_delivery(&failed.id, failed.fence, &"process".into()).wait().unwrap();
    let end = DeliveryChange::Failed { error: "no such nick\nat all".into(), at: store.now() - HOUR };
    store.change_delivery(&failed.id, claimed.fence, end).wait().unwrap();
    let (code, document) = doctor(&home);
    assert_eq!(code, 0, "texts that wait are warnings");
    check(
        &document,
        "outbox:wire",
        "warn",
        &["1 place", "2 h", "no process has tried", "pincer channels start wire", "--state pending"],
    );
    let right = fs::read_to_string(home.path("pincer.json5")).unwrap();
    fs::write(home.path("pincer.json5"), right.replace("allowFrom", "allowForm")).unwrap();
    let (_, unclear) = doctor(&home);
    check(&unclear, "config", "fail", &["allowForm"]);
    assert!(!has(&unclear, "outbox:wire"), "a wrong config says nothing of its channels: {unclear:#}");
    fs::write(home.path("pincer.json5"), right).unwrap();
    check(&document, "outbox:gone", "warn", &["no channel of this name is turned on", "pincer channels cancel"]);
    check(
        &document,
        "undelivered:wire",
        "warn",
        &["1 text", "1 h", "no such nick", "deliveries --channel wire --state failed"],
    );
    assert!(!has(&document, "outbox"));

    // One that was tried has the reason.
    let tried = text(&store, "wire", "cat", 4 * HOUR);
    let claimed = store.claim_delivery(&tried.id, tried.fence, &"process".into()).wait().unwrap();
    let later = DeliveryChange::Later { next_at: store.now(), error: "the line is busy".into() };
    store.change_delivery(&tried.id, claimed.fence, later).wait().unwrap();
    let (_, document) = doctor(&home);
    check(&document, "outbox:wire", "warn", &["2 places", "4 h", "after 1 attempt: the line is busy", "tries again"]);
}

#[test]
fn a_run_whose_process_was_killed_is_told_until_it_goes_on() {
    let slow = "{ parts: [{ text: 'Never.' }], wire: { headersAfterMs: 60000 } }";
    let server = served(&format!("{slow}, {{ parts: [{{ text: 'Done.' }}], repeat: true }}"));
    let home = with_model(&server, "");
    let mut agent = home.command(&["agent", "--session", "two words", "-m", "Hi."]);
    let mut agent = agent.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while server.requests().is_empty() {
        std::thread::yield_now();
    }
    let (_, document) = doctor(&home);
    check(&document, "sessions", "ok", &["every open run has a process"]);
    agent.kill().unwrap();
    agent.wait().unwrap();
    let (code, document) = doctor(&home);
    assert_eq!(code, 0, "nothing is lost, so this is a warning");
    let run = home.json(&["sessions", "list", "--json"]).1[0]["active"].as_str().unwrap().to_owned();
    let remedies = ["pincer agent --session 'two words' --continue", "pincer sessions abort 'two words'"];
    check(
        &document,
        "session:two words",
        "warn",
        &[&run, "its process is gone: nothing has happened in it for ", remedies[0], remedies[1]],
    );
    // The remedy is one.
    assert_eq!(home.run(&["agent", "--session", "two words", "--continue"]).1, "Done.\n");
    check(&doctor(&home).1, "sessions", "ok", &[]);
}

#[test]
fn a_run_that_waits_for_a_person_is_no_problem_until_its_answer_is_left_lying() {
    let call = "{ parts: [{ call: { id: 'c', name: 'exec', arguments: { command: 'rm -f nothing' } } }] }";
    let server = served(&format!("{call}, {{ parts: [{{ text: 'Done.' }}], repeat: true }}"));
    let home = with_model(&server, "");
    assert_eq!(home.run(&["agent", "-m", "Do it."]).0, 3);
    check(&doctor(&home).1, "sessions", "ok", &["or waits for a person"]);
    let id = home.json(&["approvals", "list", "--json"]).1[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(home.run(&["approvals", "allow", &id]).0, 0);
    let (_, document) = doctor(&home);
    check(&document, "session:main", "warn", &["has what it waited for", "pincer agent --session main --continue"]);
}

/// Stores a message as a process does that dies right after it, or of another user.
fn message(store: &SqliteStore, user: &str, key: &str, request: &Value, ago: Millis) {
    let id = format!("ar_{key}");
    let run = NewAgentRun {
        id: id.as_str().into(),
        user: user.into(),
        session: key.into(),
        agent: None,
        new_session: format!("session-of-{key}").into(),
        key: None,
        digest: Vec::new(),
        rank: 0,
        request: request.to_string().into(),
        brief: "{}".into(),
        answer: None,
        delivery: None,
        queue: QueueLimit { cap: 10, full: WhenFull::RefuseNew },
        now: store.now() - ago,
    };
    store.accept_run(run).wait().unwrap();
}

#[test]
fn messages_that_no_process_takes_are_told_with_the_command_that_takes_them() {
    let home = home("{ plugins: { paths: ['plugins'] }, channels: { wire: { allowFrom: ['ann'] } } }");
    plugin(&home, "wire", &["wire"]);
    assert_eq!(home.run(&["sessions", "list"]).0, 0);
    let (store, plain) = (store(&home), json!({ "message": "Hi." }));
    message(&store, &me(), "young", &plain, 1000);
    check(&doctor(&home).1, "sessions", "ok", &[]);
    message(&store, &me(), "old", &plain, HOUR);
    message(&store, &me(), "wire:dm:ann", &json!({ "message": "Hi.", "channel": "wire" }), HOUR);
    message(&store, "someone", "theirs", &plain, HOUR);
    let (_, document) = doctor(&home);
    check(
        &document,
        "session:old",
        "warn",
        &["no process has begun with 1 message", "accepted 1 h 0 min ago", "--session old --continue"],
    );
    check(
        &document,
        "session:wire:dm:ann",
        "warn",
        &["pincer channels start wire", "pincer sessions abort wire:dm:ann"],
    );
    check(&document, "session:theirs", "warn", &["of the user someone", "start the server"]);
    assert!(!has(&document, "session:young") && !has(&document, "sessions"), "{document:#}");
    let impatient = "{ diagnostics: { stuckSessionWarnMs: 1 } }";
    fs::write(home.path("pincer.json5"), impatient).unwrap();
    assert!(has(&doctor(&home).1, "session:young"));
}

#[test]
fn jobs_that_are_overdue_failed_or_were_turned_off_are_told() {
    let server = served("{ status: 401, error: { message: 'this key is not right' }, repeat: true }");
    let home = with_model(&server, "");
    for add in [["late", "ann"], ["bad", ""], ["fine", ""]] {
        let [name, user] = add;
        let mut arguments = vec!["cron", "add", name, "--every", "1h", "-m", "Look."];
        arguments.extend(if user.is_empty() { [].as_slice() } else { ["--user", "ann"].as_slice() });
        assert_eq!(home.run(&arguments).0, 0);
    }
    let (_, document) = doctor(&home);
    check(&document, "cron", "ok", &["no job is overdue"]);
    {
        let store = store(&home);
        let job = store.cron_job_named("ann", "late").wait().unwrap();
        let (definition, now) = (job.definition.clone(), store.now());
        let change = CronChange { seen: job.version, definition, is_enabled: true, next_at: Some(now - 3 * HOUR), now };
        store.change_cron_job(&job.id, change).wait().unwrap();
    }
    assert_eq!(home.run(&["cron", "run", "bad"]).0, 1);
    let (code, document) = doctor(&home);
    assert_eq!(code, 0);
    check(
        &document,
        "job:late",
        "warn",
        &["of the user ann", "is due since 3 h", "no process runs jobs", "pincer cron run --due", "--watch"],
    );
    check(
        &document,
        "job:bad",
        "warn",
        &["failed when it last ran", "this key is not right", "pincer cron runs bad", "pincer cron run bad"],
    );
    assert!(!has(&document, "job:fine") && !has(&document, "cron"), "{document:#}");

    let config = fs::read_to_string(home.path("pincer.json5")).unwrap();
    let last = config.rfind('}').unwrap();
    let off = format!("{} cron: {{ enabled: false, disableAfterFailures: 2 }} }}", &config[..last]);
    fs::write(home.path("pincer.json5"), off).unwrap();
    assert_eq!(home.run(&["cron", "run", "bad"]).0, 1);
    let (_, document) = doctor(&home);
    check(&document, "job:late", "warn", &["`cron.enabled` is false", "pincer cron run late --user ann"]);
    check(&document, "job:bad", "warn", &["was turned off", "pincer cron enable bad"]);
}

#[test]
fn a_job_that_was_refused_has_another_remedy_than_running_it() {
    let server = served("{ parts: [{ text: 'Never.' }] }");
    let home = with_model(&server, "");
    let orphan = ["cron", "add", "orphan", "--every", "1h", "-m", "Look."];
    assert_eq!(home.run(&orphan).0, 0);
    {
        let store = store(&home);
        let job = store.cron_job_named(&me(), "orphan").wait().unwrap();
        let definition = CronDefinition { agent: Some("gone".into()), ..job.definition.clone() };
        let now = store.now();
        let change = CronChange { seen: job.version, definition, is_enabled: true, next_at: Some(now - 1), now };
        store.change_cron_job(&job.id, change).wait().unwrap();
    }
    home.run(&["cron", "run", "--due"]);
    let (_, document) = doctor(&home);
    check(
        &document,
        "job:orphan",
        "warn",
        &["was refused when it was last due", "gone", "pincer cron show orphan", "pincer cron remove orphan"],
    );
    let orphan = document.to_string();
    assert!(!orphan.contains("pincer cron run orphan"), "a job that is refused is refused by hand too: {document:#}");
}
