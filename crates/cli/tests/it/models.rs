//! `pincer models`: the models of a config and of its providers, and one tiny request.

use pincer_scripted::{Format, Script, Server};
use serde_json::{Value, json};

use crate::common::Home;

const OK: &str = "{ models: ['scripted', 'other'], replies: [{ parts: [{ text: 'OK' }], repeat: true }] }";

fn served(script: &str) -> Server {
    Server::start(Script::parse(script).unwrap()).unwrap()
}

fn home(server: &Server, format: Format, api: &str, more: &str) -> Home {
    Home::with(&format!(
        "{{ models: {{ providers: {{ mine: {{ baseUrl: '{}', api: '{api}', apiKey: 'sk-planted-key-0123456789', \
         models: [{{ id: 'scripted', maxTokens: 9 }}] }} }}, {more} }}, \
         agents: {{ defaults: {{ model: {{ primary: 'mine/scripted', fallbacks: ['mine/gone'] }} }} }} }}",
        server.base_url(format)
    ))
}

const FORMATS: [(Format, &str); 3] = [
    (Format::Chat, "openai-completions"),
    (Format::Responses, "openai-responses"),
    (Format::Messages, "anthropic-messages"),
];

#[test]
fn a_model_that_answers_is_told_step_by_step() {
    for (format, api) in FORMATS {
        let server = served(OK);
        let home = home(&server, format, api, "");
        let (code, out, err) = home.run(&["models", "test"]);
        assert_eq!(code, 0, "{out} {err}");
        for word in ["settings", "mine/scripted", api, "key", "answer", "first word", "complete"] {
            assert!(out.contains(word), "{word}: {out}");
        }
        let (code, document) = home.json(&["models", "test", "mine/scripted", "--json"]);
        assert_eq!((code, &document["ok"], &document["text"]), (0, &json!(true), &json!("OK")));
        let steps: Vec<&Value> = document["steps"].as_array().unwrap().iter().map(|step| &step["step"]).collect();
        assert_eq!(steps, ["settings", "key", "answer", "first word", "complete"]);
        assert_eq!(server.requests()[0].body["stream"], true);
    }
}

#[test]
fn each_failure_has_its_remedy_and_no_key_in_it() {
    for (reply, kind, remedy) in [
        (
            "{ status: 401, error: { message: 'wrong key sk-planted-key-0123456789' } }",
            "authentication",
            "check the key",
        ),
        ("{ status: 404 }", "not_found", "pincer models list"),
        ("{ status: 429 }", "rate_limit", "add another key"),
        ("{ status: 503 }", "overloaded", "try again later"),
        ("{ parts: [{ text: 'x' }], wire: { truncateAfter: 10 } }", "cut_off", "check the network"),
        (
            "{ recorded: { status: 200, headers: { 'content-type': 'text/html' }, body: 'x' } }",
            "malformed",
            "check that `api`",
        ),
    ] {
        let server = served(&format!("{{ replies: [{reply}, {reply}] }}"));
        let home = home(&server, Format::Chat, "openai-completions", "");
        let (code, out, err) = home.run(&["models", "test"]);
        assert!(code == 1 && err.contains(kind) && err.contains(remedy), "{reply}: {code} {out} {err}");
        assert!(!format!("{out}{err}").contains("planted"), "{out} {err}");
        let (code, document) = home.json(&["models", "test", "--json"]);
        assert_eq!((code, &document["error"]["kind"]), (1, &json!(kind)), "{document}");
    }
    let home = Home::with("{ agents: { defaults: { model: 'anthropic/x' } } }");
    let (code, _, err) = home.run(&["models", "test"]);
    assert!(code == 1 && err.contains("set ANTHROPIC_API_KEY in the environment"), "{code} {err}");
    for (config, arguments, expected) in [
        ("{}", &["models", "test"][..], "no model is configured: set `agents.defaults.model`"),
        ("{}", &["models", "test", "antropic/x"], "did you mean `anthropic`?"),
        ("{}", &["models", "test", "x"], "write `provider/model`"),
        ("{ models: { providers: { p: {} } } }", &["models", "test", "p/x"], "it needs a `baseUrl`"),
        (
            "{ models: { providers: { p: { baseUrl: '${NOT_THERE}' } } } }",
            &["models", "test", "p/x"],
            "models.providers.p needs the environment variable NOT_THERE, which is not set",
        ),
    ] {
        let (code, _, err) = Home::with(config).run(arguments);
        assert!(code == 2 && err.contains(expected), "{arguments:?}: {code} {err}");
    }
}

#[test]
fn models_are_listed_from_the_config_and_from_the_provider() {
    for (format, api) in FORMATS {
        let server = served(OK);
        let home = home(&server, format, api, "");
        let (code, out, _) = home.run(&["models", "list"]);
        assert_eq!(code, 0);
        for row in [
            "mine (",
            "mine/scripted  (asked first)",
            "mine/gone  (fallback 1; not in the provider's list)",
            "mine/other",
        ] {
            assert!(out.contains(row), "{row}: {out}");
        }
        let (_, document) = home.json(&["models", "list", "--json", "--offline"]);
        let models = &document["providers"][0]["models"];
        assert_eq!(
            (&models[0]["id"], &models[0]["maxTokens"], &models[0]["listed"]),
            (&json!("scripted"), &json!(9), &json!(null))
        );
        assert_eq!(server.requests().len(), 1, "offline nothing is asked");
    }
    let (code, out, _) = Home::with("{}").run(&["models", "list"]);
    assert!(code == 0 && out.contains("no model is configured"), "{out}");
    let gone = Home::with("{ models: { providers: { p: { baseUrl: 'http://127.0.0.1:1/v1' } } } }");
    let (code, out, _) = gone.run(&["models", "list"]);
    assert!(code == 0 && out.contains("nothing listens at 127.0.0.1:1"), "{out}");
}

#[test]
fn the_way_of_a_request_is_logged_if_a_switch_asks_for_it() {
    let server = served(OK);
    let home = home(&server, Format::Chat, "openai-completions", "debug: { transport: true }");
    let (_, _, err) = home.run(&["models", "test"]);
    assert!(err.contains("model request") && err.contains("status=200") && !err.contains("model payload"), "{err}");
    let mut command = home.command(&["models", "test"]);
    let output = command
        .env("OPENCLAW_DEBUG_MODEL_PAYLOAD", "full-redacted")
        .env("OPENCLAW_DEBUG_SSE", "peek")
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("Reply with the word OK") && err.contains("model event"), "{err}");
    assert!(!err.contains("planted"), "{err}");
    let quiet = self::home(&server, Format::Chat, "openai-completions", "");
    assert_eq!(quiet.run(&["models", "test"]).2, "");
}

#[test]
fn exchanges_are_recorded_beside_the_config_if_it_says_so() {
    let server = served(OK);
    let home = home(&server, Format::Messages, "anthropic-messages", "record: 'exchanges'");
    assert_eq!(home.run(&["models", "test"]).0, 0);
    let files: Vec<_> = std::fs::read_dir(home.path("exchanges")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    let replayed = Server::start(Script::from_file(&files[0]).unwrap()).unwrap();
    let again = self::home(&replayed, Format::Messages, "anthropic-messages", "");
    let (code, document) = again.json(&["models", "test", "--json"]);
    assert_eq!((code, &document["text"]), (0, &json!("OK")));
    assert!(!std::fs::read_to_string(&files[0]).unwrap().contains("planted"));
}
