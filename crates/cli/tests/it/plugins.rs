//! Plugins from the config, through the door.

use std::fs;
use std::path::Path;

use crate::common::Home;
use serde_json::json;

fn with_notes(config: &str) -> Home {
    let home = Home::with(config);
    let folder = home.path("plugins/notes");
    fs::create_dir_all(&folder).unwrap();
    for name in ["pincer.plugin.json5", "notes.py"] {
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/notes").join(name), folder.join(name))
            .unwrap();
    }
    home
}

#[test]
fn a_namespace_of_a_manifest_is_an_object_of_programs() {
    let home = with_notes("{ plugins: { paths: ['plugins'] } }");
    let code =
        "await Notes.add('milk', 'shop'); await namespaces.Notes.add({ text: 'call' }); return await Notes.list()";
    let (exit, done) = home.json(&["exec", "--json", "-e", code]);
    assert_eq!(
        (exit, &done["value"][0]["topic"], &done["value"][1]["text"]),
        (0, &json!("shop"), &json!("call")),
        "{done}"
    );
    // Without one of its tools it is not there.
    let home = with_notes("{ plugins: { paths: ['plugins'] }, tools: { deny: ['list_notes'] } }");
    assert_eq!(home.json(&["exec", "--json", "-e", "return typeof Notes"]).1["value"], "undefined");
}

#[test]
fn a_plugin_of_the_config_brings_its_tools() {
    let home =
        with_notes("{ plugins: { paths: ['plugins'], entries: { notes: { config: { file: 'here.jsonl' } } } } }");
    let (code, value) = home.json(&["tools", "call", "add_note", "{\"text\": \"x\"}", "--json"]);
    assert_eq!((code, value), (0, json!({ "count": 1 })));
    assert!(home.path("plugins/notes/here.jsonl").exists());
    let (_, listed) = home.json(&["plugins", "list", "--json"]);
    assert_eq!((&listed[0]["id"], &listed[0]["enabled"]), (&json!("notes"), &json!(true)));
    let (_, shown, _) = home.run(&["plugins", "show", "notes"]);
    assert!(
        shown.contains("tool       plugin:notes:add_note") && shown.contains("namespace  Notes: add, list"),
        "{shown}"
    );
    let (code, _, err) = home.run(&["plugins", "show", "note"]);
    assert!(code == 1 && err.contains("did you mean notes?"), "{err}");
    // Its hook asks, and there is nobody to answer.
    assert_eq!(home.run(&["tools", "call", "write", "{\"path\": \"notes.jsonl\", \"content\": \"\"}"]).0, 3);
}

#[test]
fn a_plugin_is_turned_off_and_one_that_is_wrong_stops_everything() {
    let home = with_notes("{ plugins: { paths: ['plugins'], entries: { notes: { enabled: false } } } }");
    assert!(home.run(&["tools", "call", "add_note", "{\"text\": \"x\"}"]).2.contains("Unknown tool: add_note"));
    assert!(home.run(&["plugins", "list"]).1.contains("notes 0.1.0  (turned off)"));

    let manifest = home.path("plugins/notes/pincer.plugin.json5");
    fs::write(&manifest, "{ id: 'notes', version: 1, command: [] }").unwrap();
    let (code, _, err) = home.run(&["plugins", "check", "plugins/notes"]);
    assert!(
        code == 2 && err.contains("plugins/notes/pincer.plugin.json5") && err.contains("version: 1 is not a string"),
        "{err}"
    );
    let (code, document) = home.json(&["plugins", "check", "plugins/notes", "--json"]);
    assert_eq!((code, &document["problems"][0]["path"]), (2, &json!("version")));
    // It may be one that guards something: without it nothing goes.
    let (code, _, err) = home.run(&["tools", "call", "ls"]);
    assert!(code == 2 && err.contains("version: 1 is not a string"), "{err}");

    let home = Home::with("{ plugins: { entries: { nots: {} } } }");
    let (code, _, err) = home.run(&["tools", "list"]);
    assert!(code == 2 && err.contains("plugins.entries.nots: there is no plugin `nots`"), "{err}");
}

#[test]
fn plugins_in_the_state_directory_are_found() {
    let home = with_notes("{}");
    fs::create_dir_all(home.path(".state/pincer")).unwrap();
    fs::rename(home.path("plugins"), home.path(".state/pincer/plugins")).unwrap();
    assert_eq!(home.json(&["tools", "call", "list_notes", "--json"]), (0, json!([])));
}
