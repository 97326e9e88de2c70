//! `pincer init`: what it finds, what it writes, and what it leaves alone.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use pincer_scripted::{Format, Script, Server};
use serde_json::{Value, json};

use crate::common::Home;

const SECRET: &str = "sk-ant-planted-0123456789abcdef";
const CONFIG: &str = ".config/pincer/pincer.json5";

/// A home without any config.
fn home() -> Home {
    let home = Home::with("");
    fs::remove_file(home.path("pincer.json5")).unwrap();
    home
}

fn served(models: &[&str]) -> Server {
    let script = json!({ "models": models, "replies": [{ "parts": [{ "text": "OK" }], "repeat": true }] });
    Server::start(Script::parse(&script.to_string()).unwrap()).unwrap()
}

/// A command that finds these model servers and no others, and no provider beyond this machine.
fn command(home: &Home, local: &str, arguments: &[&str]) -> Command {
    let mut command = home.command(arguments);
    command.env("PINCER_INIT_LOCAL", local).env("HTTPS_PROXY", "http://127.0.0.1:1");
    command
}

/// Exit code, stdout, stderr.
fn run(mut command: Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn done(command: Command) -> Value {
    let (code, out, err) = run(command);
    assert_eq!(code, 0, "{out} {err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

fn written(home: &Home) -> String {
    fs::read_to_string(home.path(CONFIG)).unwrap()
}

#[test]
fn a_model_server_becomes_a_config_that_works() {
    let (home, server) = (home(), served(&["nomic-embed-text", "small", "large"]));
    let url = server.base_url(Format::Chat);
    let document = done(command(&home, &format!("mine={url}"), &["init", "--json"]));
    assert_eq!(document["model"], "mine/small", "{document}");
    assert_eq!(document["local"], json!([{ "provider": "mine", "baseUrl": url, "models": ["small", "large"] }]));
    assert_eq!((&document["providers"], &document["missing"]), (&json!([]), &json!(null)));
    assert_eq!(document["config"], json!(home.path(CONFIG)));
    let text = written(&home);
    assert!(text.contains("codeMode: true") && text.contains("// Its address."), "{text}");
    assert_eq!(home.json(&["config", "validate", "--json"]).1["warnings"], json!([]));
    let (code, tested) = home.json(&["models", "test", "--json"]);
    assert_eq!((code, &tested["model"], &tested["text"]), (0, &json!("mine/small"), &json!("OK")));
}

#[test]
fn every_command_to_try_next_is_one() {
    let (home, server) = (home(), served(&["small"]));
    let document = done(command(&home, &format!("mine={}", server.base_url(Format::Chat)), &["init", "--json"]));
    let next: Vec<&str> = document["next"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert!(next.contains(&"pincer doctor") && next.contains(&"pincer models test"), "{next:?}");
    for line in next {
        // What is quoted is one word.
        let parts = line.split('"').enumerate();
        let words: Vec<&str> = parts
            .flat_map(|(at, part)| if at % 2 == 0 { part.split_whitespace().collect() } else { vec![part] })
            .skip(1)
            .collect();
        assert_eq!(home.run(&[&words[..], &["--help"]].concat()).0, 0, "{line}");
    }
    let (code, out, _) = run(command(&home, "", &["init", "--force"]));
    assert!(code == 0 && out.contains("Try next:\n  pincer doctor"), "{out}");
}

#[test]
fn a_config_that_is_there_is_left_alone_without_force() {
    let home = home();
    fs::create_dir_all(home.path(".config/pincer")).unwrap();
    fs::write(home.path(CONFIG), "{} // mine").unwrap();
    let (code, out, err) = run(command(&home, "", &["init"]));
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains(CONFIG) && err.contains("--force"), "{err}");
    assert_eq!(written(&home), "{} // mine");
    assert_eq!(run(command(&home, "", &["init", "--force"])).0, 0);
    assert!(written(&home).contains("codeMode: true"));
    // A link that leads nowhere is a config of somebody too.
    std::os::unix::fs::symlink("nowhere", home.path("link.json5")).unwrap();
    assert_eq!(run(command(&home, "", &["init", "--config", "link.json5"])).0, 2);
    assert!(!home.path("nowhere").exists());
}

#[test]
fn without_a_model_the_config_is_valid_and_says_what_to_do() {
    let home = home();
    let (code, out, err) = run(command(&home, "", &["init"]));
    assert_eq!((code, err.as_str()), (0, ""));
    for word in ["No model was found", "ANTHROPIC_API_KEY", "start Ollama", "`pincer init --force`"] {
        assert!(out.contains(word), "{word}: {out}");
    }
    assert!(written(&home).contains("// model: \"anthropic/NAME\""), "{}", written(&home));
    assert_eq!(home.run(&["config", "validate"]).0, 0);
    let (_, shown) = home.json(&["config", "show", "--json"]);
    assert_eq!((&shown["tools"]["codeMode"], &shown["agents"]["defaults"]["model"]), (&json!(true), &json!(null)));
}

#[test]
fn a_key_is_named_and_never_written_and_no_model_is_invented() {
    let home = home();
    let keyed = |arguments: &[&str]| {
        let mut command = command(&home, "", arguments);
        command.env("ANTHROPIC_API_KEY", SECRET);
        run(command)
    };
    let (code, out, err) = keyed(&["init", "--json"]);
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &document["model"]), (0, &json!(null)), "{out} {err}");
    let provider = &document["providers"][0];
    assert_eq!((&provider["provider"], &provider["variable"]), (&json!("anthropic"), &json!("ANTHROPIC_API_KEY")));
    assert!(provider["error"].is_string(), "{document}");
    let missing = document["missing"].as_str().unwrap();
    assert!(missing.contains("`pincer init --force --model PROVIDER/MODEL`"), "{missing}");
    let (code, shown, _) = keyed(&["init", "--force", "--model", "anthropic/some-model"]);
    assert!(code == 0 && shown.contains("Agents use anthropic/some-model."), "{shown}");
    let text = written(&home);
    assert!(text.contains("model: \"anthropic/some-model\"") && text.contains("from ANTHROPIC_API_KEY"), "{text}");
    assert!(!format!("{out}{err}{shown}{text}").contains("planted"));
    // The same without the key: the model is written, and the key asked for.
    let (_, shown, _) = run(command(&home, "", &["init", "--force", "--model", "anthropic/some-model"]));
    assert!(shown.contains("The key of anthropic is missing: set ANTHROPIC_API_KEY"), "{shown}");
}

#[test]
fn a_model_that_cannot_be_asked_is_refused_and_nothing_is_written() {
    let home = home();
    for (name, expected) in [
        ("antropic/x", "did you mean `anthropic`?"),
        ("x", "write `provider/model`"),
        ("anthropic/${HOME}", "no spaces, quotes or `$`"),
    ] {
        let (code, _, err) = run(command(&home, "", &["init", "--model", name]));
        assert!(code == 2 && err.contains(expected), "{name}: {code} {err}");
        assert!(!home.path(CONFIG).exists());
    }
}

#[test]
fn what_does_not_list_models_is_no_model_server() {
    let (home, server) = (home(), served(&["small"]));
    // One that takes connections and never answers, one that listens nowhere, one that serves something else.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let local = format!(
        "silent=http://{}/v1,gone=http://127.0.0.1:1/v1,other={}/other",
        silent.local_addr().unwrap(),
        server.url()
    );
    let document = done(command(&home, &local, &["init", "--json"]));
    assert_eq!((&document["local"], &document["model"]), (&json!([]), &json!(null)));
    assert!(!written(&home).contains("baseUrl"));
}

#[test]
fn names_of_a_server_cannot_put_anything_into_the_config() {
    let (home, server) = (home(), served(&["${HOME}", "a\", tools: {", "a\nb"]));
    let document = done(command(&home, &format!("mine={}", server.base_url(Format::Chat)), &["init", "--json"]));
    assert_eq!((&document["model"], &document["local"][0]["models"]), (&json!(null), &json!([])));
    assert!(document["missing"].as_str().unwrap().contains("mine answers, but lists none"), "{document}");
    assert_eq!(home.run(&["config", "validate"]).0, 0);
}

#[test]
fn on_a_terminal_a_person_chooses_among_models() {
    let server = served(&["small", "large"]);
    for (answer, expected) in [("2", "mine/large"), ("", "mine/small"), ("mine/unlisted", "mine/unlisted")] {
        let home = home();
        let local = format!("mine={}", server.base_url(Format::Chat));
        let (code, shown) = home.on_a_terminal_with(&[("PINCER_INIT_LOCAL", &local)], answer, &["init"]);
        assert!(code == 0 && shown.contains("  1  mine/small") && shown.contains("  2  mine/large"), "{shown}");
        assert!(written(&home).contains(&format!("model: \"{expected}\"")), "{answer}: {}", written(&home));
        let (code, shown) =
            home.on_a_terminal_with(&[("PINCER_INIT_LOCAL", &local)], "2", &["init", "--yes", "--force"]);
        assert!(code == 0 && !shown.contains("Which model") && written(&home).contains("\"mine/small\""), "{shown}");
    }
}

#[test]
fn clients_with_servers_are_pointed_out() {
    let home = home();
    fs::create_dir(home.path(".cursor")).unwrap();
    let servers = r#"{ "mcpServers": { "git": { "command": "git-mcp", "env": { "TOKEN": "sk-ant-planted" } } } }"#;
    fs::write(home.path(".cursor/mcp.json"), servers).unwrap();
    let (_, out, _) = run(command(&home, "", &["init"]));
    assert!(out.contains("Cursor has 1 MCP server: `pincer mcp import`") && !out.contains("planted"), "{out}");
    let document = done(command(&home, "", &["init", "--force", "--json"]));
    assert_eq!(document["clients"], json!([{ "client": "cursor", "servers": 1 }]));
    assert!(document["next"].as_array().unwrap().contains(&json!("pincer mcp import")), "{document}");
}

#[test]
fn commands_to_try_find_a_config_that_is_not_where_pincer_looks() {
    let home = home();
    let document = done(command(&home, "", &["init", "--json", "--config", "own.json5"]));
    assert_eq!(document["next"][0], format!("pincer doctor --config {}", home.path("own.json5").display()));
    assert_eq!(home.run(&["config", "validate", "--config", "own.json5"]).0, 0);
    let (_, out, err) = run(command(&home, "", &["init", "--config", "pincer.json5"]));
    assert!(out.ends_with("  pincer doctor\n") && err.is_empty(), "{out} {err}");
    // A config in this directory is used before that of the user.
    let (code, _, err) = run(command(&home, "", &["init"]));
    assert!(code == 0 && err.contains("commands in this directory use ./pincer.json5"), "{err}");
}
