//! `pincer config`, and what other commands do with a config that is wrong.

use crate::common::Home;
use serde_json::json;

#[test]
fn validate_tells_everything_that_is_wrong_and_exits_with_2() {
    let home =
        Home::with("{ tools: { profil: 'x', deny: 5 }, hooks: { before_tool_call: [{ command: '${NOT_SET}' }] } }");
    let (code, out, err) = home.run(&["config", "validate"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert_eq!(err.lines().count(), 4, "{err}");
    assert!(err.contains("tools.profil: there is no such key; did you mean `profile`?"), "{err}");
    assert!(err.contains("hooks.before_tool_call[0].command: the environment variable NOT_SET is not set"), "{err}");
    let (code, document) = home.json(&["config", "validate", "--json"]);
    assert_eq!(code, 2);
    assert_eq!(document["code"], "invalid_config");
    assert_eq!(document["problems"].as_array().unwrap().len(), 3);
    // Keys in the order of the file.
    assert_eq!(document["problems"][1]["path"], "tools.profil");
    assert_eq!(document["problems"][2]["path"], "tools.deny");
}

#[test]
fn a_valid_config_says_so_and_warns_of_numbers_it_changes() {
    let home = Home::with("{ tools: { codeMode: { timeoutMs: 1 } } }");
    let (code, out, err) = home.run(&["config", "validate"]);
    assert_eq!(code, 0);
    assert!(out.contains("pincer.json5 is valid"), "{out}");
    assert_eq!(err, "warning: tools.codeMode.timeoutMs: 1 is below the least that is allowed; 100 is used\n");
    let (code, document) = home.json(&["config", "validate", "--json"]);
    assert_eq!((code, &document["warnings"][0]["used"]), (0, &json!(100)));
}

#[test]
fn show_prints_what_is_in_force_without_secrets() {
    let home = Home::with(
        "{ tools: { deny: ['${SET}'] }, logging: { redactPatterns: ['h[u]nter2'] }, approvals: { rules: [{ match: 'hunter2', decision: 'ask' }] } }",
    );
    let (code, document) = home.json(&["config", "show", "--json"]);
    assert_eq!((code, &document["tools"]["deny"][0]), (0, &json!("${SET}")));
    assert_eq!(document["approvals"]["rules"][0]["match"], "[redacted]");
    let (code, out, _) = home.run(&["config", "show"]);
    assert!(code == 0 && !out.contains("value of it") && out.contains("\"codeMode\": false"), "{out}");
}

#[test]
fn schema_is_the_published_one() {
    let (code, schema) = Home::with("{ broken").json(&["config", "schema"]);
    assert_eq!((code, schema), (0, pincer_config::schema()));
}

#[test]
fn every_command_that_uses_the_config_refuses_a_wrong_one() {
    let home = Home::with("{ tools: { profile: 'codign' } }");
    for arguments in [&["exec", "-e", "return 1"][..], &["tools", "list"], &["config", "show"]] {
        let (code, out, err) = home.run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        assert!(
            err.contains(
                "tools.profile: \"codign\" is not one of minimal, coding, messaging, full; did you mean `coding`?"
            ),
            "{err}"
        );
    }
}

#[test]
fn a_config_that_was_named_must_be_there() {
    let home = Home::with("{}");
    let (code, _, err) = home.run(&["config", "validate", "--config", "nowhere.json5"]);
    assert_eq!(code, 2);
    assert!(err.starts_with("error: the config nowhere.json5 cannot be read: No such file"), "{err}");
}
