//! `pincer doctor`: what it checks, and how it tells.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pincer_scripted::{Format, Script, Server};
use serde_json::{Value, json};

use crate::common::Home;

const STATE: &str = ".state/pincer";

fn served() -> Server {
    Server::start(Script::parse("{ models: ['small'], replies: [] }").unwrap()).unwrap()
}

/// A config with one provider at this address, whose model agents use.
fn with_provider(url: &str, model: &str) -> Value {
    json!({
        "models": { "providers": { "mine": { "baseUrl": url, "apiKey": "sk-planted-key-0123456789" } } },
        "agents": { "defaults": { "model": model } },
    })
}

fn mcp(program: &str, argument: &str) -> Value {
    json!({ "command": pincer_testkit::program(program).unwrap(), "args": [argument] })
}

/// The status of a check, and its message and remedy in one.
fn told(document: &Value, name: &str) -> (String, String) {
    let check = document["checks"].as_array().unwrap().iter().find(|check| check["name"] == name);
    let check = check.unwrap_or_else(|| panic!("no {name}: {document:#}"));
    let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
    assert_eq!(check["remedy"].is_string(), check["status"] != "ok", "{check}");
    (text("status"), format!("{} → {}", text("message"), text("remedy")))
}

/// Checks one status, and words of the message and the remedy.
fn check(document: &Value, name: &str, status: &str, words: &[&str]) {
    let (found, text) = told(document, name);
    assert_eq!(found, status, "{name}: {text}");
    for word in words {
        assert!(text.contains(word), "{name} has no {word}: {text}");
    }
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_sound_installation_has_nothing_that_fails() {
    let server = served();
    let mut config = with_provider(&server.base_url(Format::Chat), "mine/small");
    let mut off = mcp("mcp-fixture", "stdio");
    off["enabled"] = false.into();
    config["mcp"] = json!({ "servers": { "fixture": mcp("mcp-fixture", "stdio"), "spare": off } });
    let home = Home::with(&config.to_string());
    assert_eq!(home.run(&["exec", "-e", "await tools.ls({})"]).0, 0, "so that there is a store");
    let (code, document) = home.json(&["doctor", "--json"]);
    assert_eq!((code, &document["ok"]), (0, &json!(true)), "{document:#}");
    check(&document, "config", "ok", &["pincer.json5 is valid"]);
    check(&document, "engine", "ok", &["the JavaScript engine was "]);
    check(&document, "state", "ok", &["is yours alone"]);
    check(&document, "store", "ok", &["is sound", "schema "]);
    check(&document, "secrets", "ok", &["no secrets"]);
    check(&document, "plugins", "ok", &["no plugins"]);
    check(&document, "provider:mine", "ok", &["lists 1 model"]);
    check(&document, "model", "ok", &["agents use mine/small"]);
    check(&document, "mcp:fixture", "ok", &["lists ", " tools"]);
    check(&document, "mcp:spare", "ok", &["is turned off"]);
    for name in ["cache", "disk:state", "disk:cache"] {
        told(&document, name);
    }
    assert!(!document.to_string().contains("planted"), "{document:#}");
}

#[test]
fn a_machine_on_which_nothing_was_done_yet_is_sound() {
    let home = Home::with("{}");
    fs::remove_file(home.path("pincer.json5")).unwrap();
    let (code, document) = home.json(&["doctor", "--offline", "--json"]);
    assert_eq!((code, &document["ok"]), (0, &json!(true)), "{document:#}");
    check(&document, "config", "warn", &["there is no config", "pincer init"]);
    check(&document, "model", "warn", &["no model is set", "agents.defaults.model"]);
    check(&document, "store", "ok", &["is not there yet"]);
    assert!(!home.path(STATE).exists(), "to look makes nothing");
}

#[test]
fn a_wrong_config_is_one_check_that_fails_and_the_others_go_on() {
    let home = Home::with("{ tools: { profil: 'x' } }");
    let (code, document) = home.json(&["doctor", "--json"]);
    assert_eq!((code, &document["ok"]), (1, &json!(false)), "{document:#}");
    check(&document, "config", "fail", &["tools.profil: there is no such key", "correct these keys"]);
    check(&document, "engine", "ok", &[]);
    check(&document, "mcp", "ok", &[]);
    let (code, document) = home.json(&["doctor", "--offline", "--json", "--config", "nowhere.json5"]);
    assert_eq!(code, 1);
    check(&document, "config", "fail", &["nowhere.json5 cannot be read", "pincer init"]);
    let home = Home::with("{ tools: { codeMode: { timeoutMs: 1 } } }");
    let (code, document) = home.json(&["doctor", "--offline", "--json"]);
    assert_eq!(code, 0, "a warning is no failure");
    check(&document, "config", "warn", &["tools.codeMode.timeoutMs: 1 is below the least"]);
}

#[test]
fn providers_are_asked_and_their_keys_never_shown() {
    let server = served();
    let (right, other) = (server.base_url(Format::Chat), format!("{}/other", server.url()));
    for (url, model, provider, of_model, code) in [
        (right.as_str(), "mine/gone", ("ok", "lists 1 model"), ("warn", "mine/gone is not in the list"), 0),
        (&right, "mini/small", ("ok", "lists 1 model"), ("fail", "there is no provider `mini`"), 1),
        (&other, "mine/small", ("warn", "no list of models"), ("ok", "mine/small"), 0),
        ("http://127.0.0.1:1/v1", "mine/small", ("fail", "nothing listens at 127.0.0.1:1"), ("ok", "mine/small"), 1),
        ("http://[/v1", "mine/small", ("fail", "is not an address"), ("fail", "is not an address"), 1),
    ] {
        let home = Home::with(&with_provider(url, model).to_string());
        let (found, document) = home.json(&["doctor", "--json"]);
        assert_eq!(found, code, "{url} {model}: {document:#}");
        check(&document, "provider:mine", provider.0, &[provider.1]);
        check(&document, "model", of_model.0, &[of_model.1]);
        assert!(!document.to_string().contains("planted"), "{document:#}");
    }
}

#[test]
fn a_missing_key_fails_and_one_of_the_environment_is_found() {
    let home = Home::with("{ agents: { writer: { model: 'anthropic/x' } } }");
    let (code, document) = home.json(&["doctor", "--offline", "--json"]);
    assert_eq!(code, 1);
    check(&document, "provider:anthropic", "fail", &["set ANTHROPIC_API_KEY in the environment"]);
    check(&document, "model:writer", "ok", &["anthropic/x"]);
    let mut command = home.command(&["doctor", "--offline", "--json"]);
    let output =
        command.env("ANTHROPIC_API_KEY", "sk-ant-planted").env("GROQ_API_KEY", "gsk_planted").output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{document:#}");
    check(&document, "provider:anthropic", "ok", &["was not asked"]);
    check(&document, "provider:groq", "ok", &["was not asked"]);
    assert!(!document.to_string().contains("planted"), "{document:#}");
    // A key that only happens to be there fails nothing.
    let home = Home::with("{}");
    let mut command = home.command(&["doctor", "--json"]);
    let output = command.env("GROQ_API_KEY", "gsk_planted").env("HTTPS_PROXY", "http://127.0.0.1:1").output().unwrap();
    check(&serde_json::from_slice(&output.stdout).unwrap(), "provider:groq", "warn", &["nothing listens"]);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn mcp_servers_are_started_unless_it_is_offline() {
    let server = served();
    let mut config = with_provider(&server.base_url(Format::Chat), "mine/small");
    let unset = json!({ "command": "x", "env": { "A": "${NOT_SET}" } });
    config["mcp"] = json!({ "servers": { "fallen": mcp("mcp-liar", "crash-start"), "unset": unset } });
    let home = Home::with(&config.to_string());
    let (code, document) = home.json(&["doctor", "--json"]);
    assert_eq!(code, 1);
    check(&document, "mcp:fallen", "fail", &["exit status: 7", "pincer mcp test fallen"]);
    check(&document, "mcp:unset", "fail", &["NOT_SET"]);
    let asked = server.requests().len();
    let (_, document) = home.json(&["doctor", "--offline", "--json"]);
    check(&document, "mcp:fallen", "ok", &["was not started"]);
    check(&document, "mcp:unset", "fail", &["NOT_SET"]);
    check(&document, "provider:mine", "ok", &["was not asked"]);
    assert_eq!((asked, server.requests().len()), (1, 1), "offline nothing is asked");
}

#[test]
fn state_that_others_can_read_is_told() {
    let home = Home::with("{}");
    assert_eq!(home.run(&["exec", "-e", "await tools.ls({})"]).0, 0);
    let (state, store, secrets) =
        (home.path(STATE), home.path(STATE).join("pincer.db"), home.path(STATE).join("secrets.json"));
    fs::write(&secrets, r#"{ "TOKEN": { "value": "planted" } }"#).unwrap();
    chmod(&secrets, 0o644);
    chmod(&state, 0o755);
    chmod(&store, 0o644);
    let (code, document) = home.json(&["doctor", "--offline", "--json"]);
    assert_eq!(code, 1);
    check(&document, "state", "warn", &["mode 0755", "chmod 700"]);
    check(&document, "store", "warn", &["mode 0644", "chmod 600"]);
    check(&document, "secrets", "fail", &["others can read", "chmod 600"]);
    assert!(!document.to_string().contains("planted"), "{document:#}");
    chmod(&secrets, 0o600);
    chmod(&state, 0o777);
    let (code, document) = home.json(&["doctor", "--offline", "--json"]);
    assert_eq!(code, 1);
    check(&document, "state", "fail", &["can be changed by every user"]);
    check(&document, "secrets", "ok", &["keeps 1"]);
}

#[test]
fn a_store_that_is_none_fails() {
    let home = Home::with("{}");
    assert_eq!(home.run(&["exec", "-e", "await tools.ls({})"]).0, 0);
    fs::write(home.path(STATE).join("pincer.db"), "this is not a database, but a text that is long enough").unwrap();
    for file in ["pincer.db-wal", "pincer.db-shm"] {
        // They belong to the store that is gone.
        let _ = fs::remove_file(home.path(STATE).join(file));
    }
    let (code, document) = home.json(&["doctor", "--offline", "--json"]);
    assert_eq!(code, 1);
    check(&document, "store", "fail", &["pincer.db", "pincer restore"]);
}

#[test]
fn plugins_that_are_wrong_fail() {
    let home = Home::with("{ plugins: { paths: ['plugins'] } }");
    fs::create_dir_all(home.path("plugins/bad")).unwrap();
    let manifest = home.path("plugins/bad/pincer.plugin.json5");
    fs::write(&manifest, "{ id: 'bad', version: 1, command: [] }").unwrap();
    let (code, document) = home.json(&["doctor", "--offline", "--json"]);
    assert_eq!(code, 1);
    check(&document, "plugins", "fail", &["version: 1 is not a string", "pincer plugins check"]);
}

#[test]
fn hooks_whose_program_is_not_there_are_told_and_gates_fail() {
    let check_with = |config: &str, code: i32, status: &str, words: &[&str]| {
        let home = Home::with(config);
        let (found, document) = home.json(&["doctor", "--offline", "--json"]);
        assert_eq!(found, code, "{document:#}");
        check(&document, "hooks", status, words);
    };
    let gate = "before_agent_run: [{ command: ['/no/such/gate', 'x'] }]";
    let words = ["hooks.before_agent_run[0]", "/no/such/gate", "blocked", "correct `command`"];
    check_with(&format!("{{ hooks: {{ {gate} }} }}"), 1, "fail", &words);
    let observer = "agent_end: [{ command: ['sh', '-c', 'true'] }, { command: ['no-such-observer'] }]";
    let words = ["hooks.agent_end[1]", "no-such-observer", "skipped"];
    check_with(&format!("{{ hooks: {{ {observer} }} }}"), 0, "warn", &words);
    let there =
        "before_tool_call: [{ matcher: 'exec', command: ['sh', '-c', 'true'] }], agent_end: [{ command: 'true' }]";
    check_with(&format!("{{ hooks: {{ {there} }} }}"), 0, "ok", &["2 hooks of the config can be started"]);
}

#[test]
fn people_read_it_in_columns_and_in_colours_only_on_a_terminal() {
    let home = Home::with("{ tools: { profil: 'x' } }");
    let (code, out, err) = home.run(&["doctor", "--offline"]);
    assert_eq!((code, err.as_str()), (1, ""));
    let first: Vec<&str> = out.lines().next().unwrap().split_whitespace().take(2).collect();
    assert_eq!(first, ["fail", "config"]);
    assert!(out.contains("→ correct these keys") && out.contains("\n1 check failed; 1 warning\n"), "{out}");
    assert!(!out.contains('\u{1b}'), "{out}");
    let (code, shown) = home.on_a_terminal("", &["doctor", "--offline"]);
    assert!(code == 1 && shown.contains("\u{1b}[31mfail\u{1b}[0m") && shown.contains("checking"), "{shown}");
    assert_eq!(home.run(&["doctor", "--onlin"]).0, 2);
}
