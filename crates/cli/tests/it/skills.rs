//! `pincer skills`, and the instructions that `pincer agent --show-prompt` prints.

use std::fs;

use pincer_scripted::{Script, Server};
use serde_json::{Value, json};

use crate::common::Home;

const CONFIG: &str =
    "{ workspace: 'work', models: { providers: { own: { baseUrl: 'http://127.0.0.1:9/v1', apiKey: 'k' } } },
    agents: { defaults: { model: 'own/m' }, writer: { skills: ['greet', 'nowhere'] } },
    skills: { entries: { off: { enabled: false }, keyed: { env: { SOME_KEY: 'hunter22' } } } } }";

fn put(home: &Home, place: &str, name: &str, rest: &str) {
    let folder = home.path(place).join("skills").join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join("SKILL.md"),
        format!("---\nname: {name}\ndescription: How to {name}.\n{rest}---\nText of {name}."),
    )
    .unwrap();
}

fn requires(what: &str) -> String {
    format!("metadata: {{\"openclaw\":{{{what}}}}}\n")
}

fn home() -> Home {
    let home = Home::with(CONFIG);
    put(&home, "work", "greet", "");
    put(&home, ".state/pincer", "greet", "");
    put(&home, ".state/pincer", "off", "");
    put(
        &home,
        ".state/pincer",
        "keyed",
        &requires("\"requires\":{\"env\":[\"SOME_KEY\"],\"config\":[\"skills.entries.keyed\"]}"),
    );
    put(
        &home,
        ".state/pincer",
        "needy",
        &requires("\"requires\":{\"bins\":[\"no-such-program\"],\"env\":[\"UNSET\"]}"),
    );
    put(&home, ".state/pincer", "always", &requires("\"always\":true,\"requires\":{\"bins\":[\"no-such-program\"]}"));
    put(&home, ".state/pincer", "elsewhere", &requires("\"os\":[\"plan9\"]"));
    fs::create_dir_all(home.path("work/skills/broken")).unwrap();
    fs::write(home.path("work/skills/broken/SKILL.md"), "no front matter").unwrap();
    home
}

#[test]
fn skills_are_listed_checked_and_shown() {
    let home = home();
    let (code, listed) = home.json(&["skills", "list", "--json"]);
    let ready = |listed: &Value| {
        let all = listed.as_array().unwrap().iter().filter(|skill| skill["ready"] == json!(true));
        all.map(|skill| format!("{} {}", skill["source"].as_str().unwrap(), skill["name"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (code, ready(&listed)),
        (0, vec!["state always".into(), "workspace greet".into(), "state keyed".into()])
    );
    let (code, out, err) = home.run(&["skills", "list"]);
    assert!(code == 0 && out.lines().count() == 3 && err.contains("4 more"), "{out}{err}");
    let (code, out, err) = home.run(&["skills", "check"]);
    assert_eq!(code, 1, "{out}{err}");
    for expected in [
        "the program `no-such-program` is not on PATH",
        "commands do not get the variable UNSET",
        "it is for plan9",
        "`skills.entries.off.enabled` is false",
        "broken is no skill: SKILL.md: it does not begin",
        "does not count",
    ] {
        assert!(out.contains(expected), "{expected} in {out}");
    }
    assert!(!(out + &err).contains("hunter22"));
    let (_, out, err) = home.run(&["config", "show", "--json"]);
    assert!(out.contains("SOME_KEY") && !(out + &err).contains("hunter22"));
    let (code, checked) = home.json(&["skills", "check", "--agent", "writer", "--json"]);
    assert_eq!((code, &checked["ok"]), (1, &json!(false)));
    assert_eq!(checked["unknown"], json!([{ "key": "agents.writer.skills", "name": "nowhere" }]));
    assert_eq!(ready(&checked["skills"]), ["workspace greet"]);
    let (code, shown) = home.json(&["skills", "show", "needy", "--json"]);
    assert!(code == 0 && shown["text"].as_str().unwrap().ends_with("Text of needy.") && shown["ready"] == json!(false));
    let (code, _, err) = home.run(&["skills", "show", "gret"]);
    assert!(code == 1 && err.contains("did you mean greet?"), "{err}");
    let empty = Home::with("{}");
    let (code, out, _) = empty.run(&["skills", "check"]);
    assert_eq!((code, out.as_str()), (0, "there are no skills\n"));
}

#[test]
fn the_skills_of_plugins_come_last_and_go_with_their_plugin() {
    let home = Home::with("{ plugins: { paths: ['notes'] } }");
    fs::create_dir_all(home.path("notes")).unwrap();
    let manifest = "{ id: 'notes', version: '1.0.0', command: ['true'], tools: [{ name: 'note', description: 'x', inputSchema: { type: 'object' } }] }";
    fs::write(home.path("notes/pincer.plugin.json5"), manifest).unwrap();
    put(&home, "notes", "take-notes", "");
    put(&home, "notes", "both", "");
    put(&home, ".state/pincer", "both", "");
    let sources = |home: &Home| {
        let (_, listed) = home.json(&["skills", "list", "--json"]);
        listed.as_array().unwrap().iter().map(|skill| skill["source"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(sources(&home), ["state", "plugin:notes"]);
    fs::write(home.path("pincer.json5"), "{ plugins: { paths: ['notes'], entries: { notes: { enabled: false } } } }")
        .unwrap();
    assert_eq!(sources(&home), ["state"]);
}

#[test]
fn the_prompt_is_shown_with_its_parts_and_its_boundary_and_nothing_is_sent() {
    let home = home();
    fs::write(home.path("work/AGENTS.md"), "Be good.\u{1b}[2J").unwrap();
    let (code, shown) = home.json(&["agent", "--show-prompt", "--json"]);
    assert_eq!(code, 0, "{shown}");
    let parts = shown["parts"].as_array().unwrap();
    let names: Vec<&str> = parts.iter().map(|part| part["part"].as_str().unwrap()).collect();
    assert_eq!(names, ["base", "tools", "skills", "bootstrap", "session"]);
    assert_eq!((&shown["boundaryAfter"], &parts[3]["file"]), (&json!(4), &json!("AGENTS.md")));
    for part in parts {
        assert_eq!(part["bytes"], json!(part["text"].as_str().unwrap().len()));
        assert!(part["tokens"].as_u64().unwrap() > 0);
    }
    assert!(shown["tools"]["count"].as_u64().unwrap() > 5 && shown["model"] == "own/m");
    assert!(!shown.to_string().contains("hunter22"));
    let (code, out, err) =
        home.run(&["agent", "--show-prompt", "--prompt-mode", "none", "--extra-system-prompt", "Be brief."]);
    assert!(code == 0 && out.contains("cache boundary") && out.contains("==== extra ====\nBe brief."), "{out}{err}");
    let (_, out, _) = home.run(&["agent", "--show-prompt"]);
    assert!(out.contains("Be good.") && !out.contains('\u{1b}'), "{out}");
    let (_, sessions) = home.json(&["sessions", "list", "--json"]);
    assert_eq!(sessions, json!([]));
    let (code, _, err) = home.run(&["agent", "--show-prompt", "--continue"]);
    assert!(code == 2, "{err}");
}

#[test]
fn a_skill_in_a_workspace_has_the_variables_of_its_name_only_if_the_operator_says_so() {
    let home = home();
    put(&home, "work", "keyed", "");
    let (code, checked) = home.json(&["skills", "check", "--json"]);
    assert_eq!((code, &checked["withheld"][0]["name"]), (1, &json!("keyed")), "{checked}");
    let (_, out, _) = home.run(&["skills", "check"]);
    assert!(out.contains("has no variables") && out.contains("skills.entries.keyed.fromWorkspace"), "{out}");
    let config = CONFIG.replace("SOME_KEY: 'hunter22' }", "SOME_KEY: 'hunter22' }, fromWorkspace: true");
    fs::write(home.path("pincer.json5"), config).unwrap();
    assert_eq!(home.json(&["skills", "check", "--json"]).1["withheld"], json!([]));
}

#[test]
fn a_sandboxed_run_has_no_variables_of_a_skill_that_it_writes_in_its_own_directory() {
    let call = |name: &str, arguments: Value| json!({ "parts": [{ "call": { "id": name, "name": name, "arguments": arguments } }] });
    let say = |text: &str| json!({ "parts": [{ "text": text }] });
    let skill =
        json!({ "path": "skills/invoice/SKILL.md", "content": "---\nname: invoice\ndescription: Mine.\n---\nHi." });
    let look = json!({ "command": "echo key:$INVOICE_KEY | tr a-z A-Z" });
    let replies = [call("write", skill), say("Written."), call("exec", look), say("Looked.")];
    let server = Server::start(Script::parse(&json!({ "replies": replies }).to_string()).unwrap()).unwrap();
    let home = Home::with(&format!(
        "{{ workspace: 'work', models: {{ providers: {{ s: {{ baseUrl: '{}/v1', apiKey: 'k' }} }} }},
            agents: {{ defaults: {{ model: 's/scripted', sandbox: {{ mode: 'non-main' }} }} }}, tools: {{ exec: {{ mode: 'full' }} }},
            skills: {{ entries: {{ invoice: {{ env: {{ INVOICE_KEY: 'hunter22' }} }} }} }} }}",
        server.url()
    ));
    fs::create_dir_all(home.path("work")).unwrap();
    put(&home, ".state/pincer", "invoice", "disable-model-invocation: true\n");
    for message in ["Write it.", "Use it."] {
        assert_eq!(home.run(&["agent", "--session", "guest", "-m", message]).0, 0);
    }
    let request = server.requests().last().unwrap().clone();
    assert!(request.text.contains("KEY:") && !request.text.contains("HUNTER22"), "{}", request.text);
}
