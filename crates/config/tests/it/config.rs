//! Right and wrong configs: the message for each kind of mistake.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;

use pincer_catalog::{Entry, ToolId};
use pincer_config::{Candidates, ConfigError, Loaded, Parsed, Subject, load, parse};

pub(crate) fn environment(name: &str) -> Option<String> {
    match name {
        "HOME_OF_SECRETS" => Some("s3cret".into()),
        "PROFILE" => Some("coding".into()),
        "BAD_PROFILE" => Some("hunter2".into()),
        _ => None,
    }
}

fn read(text: &str) -> Result<Parsed, String> {
    parse(text, &environment).map_err(|problems| problems.to_string())
}

#[test]
fn every_kind_of_wrong_has_its_path_its_reason_and_the_nearest_right_thing() {
    for (text, told) in [
        // Keys.
        ("{ tols: {} }", "tols: there is no such key; did you mean `tools`?"),
        (
            "{ tools: { codeMode: { timeoutms: 5 } } }",
            "tools.codeMode.timeoutms: there is no such key; did you mean `timeoutMs`?",
        ),
        ("{ agents: { 'a b': { tool: {} } } }", "agents[\"a b\"].tool: there is no such key; did you mean `tools`?"),
        (
            "{ zzz: 1 }",
            "zzz: there is no such key here: known are $schema, agents, approvals, auth, channels, cron, diagnostics, hooks, logging, mcp, messages, models, plugins, secrets, security, session, skills, tools, workspace",
        ),
        // Types.
        ("{ tools: 5 }", "tools: 5 is not an object"),
        ("[]", "a list is not an object"),
        ("{ tools: { allow: 'read' } }", "tools.allow: \"read\" is not a list"),
        ("{ tools: { allow: ['read', 7] } }", "tools.allow[1]: 7 is not a string"),
        ("{ tools: { codeMode: 'on' } }", "tools.codeMode: \"on\" is neither true or false nor an object"),
        ("{ tools: { codeMode: { enabled: 'true' } } }", "tools.codeMode.enabled: \"true\" is not true or false"),
        ("{ tools: { codeMode: { timeoutMs: 10.5 } } }", "tools.codeMode.timeoutMs: 10.5 is not a whole number"),
        ("{ tools: { codeMode: { timeoutMs: '5' } } }", "tools.codeMode.timeoutMs: \"5\" is not a whole number"),
        (
            "{ approvals: { rules: [{ match: 5, decision: 'ask' }] } }",
            "approvals.rules[0].match: 5 is neither a string nor a list",
        ),
        // Words.
        (
            "{ tools: { profile: 'codign' } }",
            "tools.profile: \"codign\" is not one of minimal, coding, messaging, full; did you mean `coding`?",
        ),
        (
            "{ approvals: { rules: [{ match: '*', decision: 'asq' }] } }",
            "approvals.rules[0].decision: \"asq\" is not one of ask, allow, deny; did you mean `ask`?",
        ),
        (
            "{ tools: { codeMode: { languages: ['python'] } } }",
            "tools.codeMode.languages[0]: \"python\" is not one of javascript, typescript",
        ),
        // What is missing.
        ("{ hooks: { before_tool_call: [{ matcher: 'exec' }] } }", "hooks.before_tool_call[0]: `command` is missing"),
        (
            "{ hooks: { before_tool_call: [{ command: [] }] } }",
            "hooks.before_tool_call[0].command: there is no command to run",
        ),
        // Variables.
        (
            "{ tools: { deny: ['${NOT_SET}'] } }",
            "tools.deny[0]: the environment variable NOT_SET is not set: set it, or replace `${NOT_SET}`",
        ),
        (
            "{ tools: { deny: ['${a b}'] } }",
            "tools.deny[0]: `${a b}` does not name a variable: write `${NAME}`, or `$${` for the characters themselves",
        ),
        (
            "{ tools: { deny: ['${'] } }",
            "tools.deny[0]: `${` is never closed: write `${NAME}`, or `$${` for the characters themselves",
        ),
        (
            "{ tools: { exec: { allow: ['['] } } }",
            "tools.exec.allow[0]: `[` is not a glob: unclosed character class; missing ']'",
        ),
        (
            "{ tools: { exec: { allow: ['git status', 'make \"a b\"'] } } }",
            "tools.exec.allow[1]: `make \"a b\"` is not a glob: its words are separated by spaces, and nothing in it can be quoted or expanded",
        ),
        (
            "{ tools: { web: { allowHosts: ['a b'] } } }",
            "tools.web.allowHosts[0]: `a b` is not a glob: it has a space in it: name one host",
        ),
        ("{ tools: { exec: { network: false } } }", "tools.exec.network: `false` needs `confine: true` beside it"),
        // Names of tools.
        (
            "{ tools: { allow: ['a'], alsoAllow: ['b'] } }",
            "tools: `allow` and `alsoAllow` exclude each other: keep `allow` for a fixed list, or `alsoAllow` to add to a profile",
        ),
        (
            "{ tools: { bySender: { x: { deny: [''] } } } }",
            "tools.bySender.x.deny[0]: an empty name selects nothing: remove it",
        ),
        (
            "{ logging: { redactPatterns: ['('] } }",
            "logging.redactPatterns[0]: `(` is not a regular expression: unclosed group",
        ),
        // Installations.
        (
            "{ security: { installPolicy: { block: [{}] } } }",
            "security.installPolicy.block[0]: it names nothing: set `id`, `source`, `digest` or `type`",
        ),
        (
            "{ security: { installPolicy: { allow: [{ digest: 'sha256:12' }] } } }",
            "security.installPolicy.allow[0].digest: `sha256:12` is no digest: it must be `sha256:` and 64 hexadecimal digits",
        ),
        (
            "{ security: { installPolicy: { allow: [{ id: '' }] } } }",
            "security.installPolicy.allow[0].id: `` is not a glob: it is empty",
        ),
        // Models.
        (
            "{ models: { providers: { p: { baseUrl: 'localhost:1' } } } }",
            "models.providers.p.baseUrl: it must begin with http:// or https://",
        ),
        (
            "{ models: { providers: { p: { api: 'openai' } } } }",
            "models.providers.p.api: \"openai\" is not one of openai-completions, openai-responses, anthropic-messages; did you mean `openai-responses`?",
        ),
        (
            "{ models: { providers: { p: { apiKey: 'a${b' } } } }",
            "models.providers.p.apiKey: `${` is never closed: write `${NAME}`, or `$${` for the characters themselves",
        ),
        (
            "{ agents: { defaults: { model: 'gpt' } } }",
            "agents.defaults.model: `gpt` is not a model: write `provider/model`",
        ),
        (
            "{ agents: { defaults: { tools: { deny: ['exec'] } } } }",
            "agents.defaults.tools: rights of all agents stand in `tools`, not here",
        ),
        ("{ channels: { cli: {} } }", "channels.cli: the command line is always there, and has no settings"),
        (
            "{ agents: { writer: {} }, channels: { irc: { agent: 'writter' } } }",
            "channels.irc.agent: there is no agent `writter`; did you mean `writer`?",
        ),
        (
            "{ channels: { irc: { session: '{chanel}' } } }",
            "channels.irc.session: there is no placeholder `{chanel}`; there are `{channel}`, `{kind}`, `{conversation}`, `{sender}`, `{account}`, `{thread}`",
        ),
        ("{ channels: { irc: { allowFrom: [''] } } }", "channels.irc.allowFrom[0]: this is empty: name an id, or `*`"),
        ("{ auth: { order: { p: ['x'] } } }", "auth.order.p[0]: there is no `x` in `auth.profiles`"),
        (
            "{ auth: { profiles: { x: { provider: 'q', apiKey: 'k' } }, order: { p: ['x'] } } }",
            "auth.order.p[0]: `x` is a key of the provider `q`",
        ),
    ] {
        assert_eq!(read(text).expect_err(text), told, "{text}");
    }
}

#[test]
fn a_group_that_does_not_exist_is_told_wherever_it_stands() {
    for (text, path) in [
        ("{ tools: { deny: ['group:nope'] } }", "tools.deny[0]"),
        ("{ agents: { a: { tools: { allow: ['group:nope'] } } } }", "agents.a.tools.allow[0]"),
        ("{ tools: { sandbox: { tools: { alsoAllow: ['group:nope'] } } } }", "tools.sandbox.tools.alsoAllow[0]"),
        (
            "{ hooks: { before_tool_call: [{ matcher: ['x', 'group:nope'], command: 'c' }] } }",
            "hooks.before_tool_call[0].matcher[1]",
        ),
        ("{ approvals: { rules: [{ match: 'group:nope', decision: 'ask' }] } }", "approvals.rules[0].match"),
    ] {
        let told = read(text).expect_err(text);
        assert!(told.starts_with(&format!("{path}: there is no group `nope`: known are agents, ")), "{told}");
    }
}

#[test]
fn a_regular_expression_in_place_of_a_name_is_told() {
    for (text, path) in [
        ("{ hooks: { before_tool_call: [{ matcher: '[(', command: 'c' }] } }", "hooks.before_tool_call[0].matcher"),
        (
            "{ hooks: { after_tool_call: [{ matcher: ['x', 'exec|write'], command: 'c' }] } }",
            "hooks.after_tool_call[0].matcher[1]",
        ),
        ("{ approvals: { rules: [{ match: '^exec$', decision: 'ask' }] } }", "approvals.rules[0].match"),
    ] {
        let told = read(text).expect_err(text);
        assert!(told.starts_with(&format!("{path}: ")) && told.contains("several names are a list"), "{told}");
    }
    read("{ hooks: { before_tool_call: [{ matcher: ['mcp:git:*', 'group:fs', 'a.b/c-d_e'], command: 'c' }] } }")
        .expect("names, globs and groups");
}

#[test]
fn what_is_not_json5_has_its_line_and_column() {
    for (text, place) in [
        ("{\n  tools: {,}\n}", "line 2, column 11"),
        ("{ tools: { deny: ['x' 'y'] } }", "line 1, column 23"),
        ("", "line 1, column 1"),
        ("{\n tools: {}", "line 1, column 1: this is not JSON5: the file ends within this object"),
        ("{\n tools: {},\n tools: {} }", "line 1, column 1"),
        ("{ tools: NaN }", "line 1, column 10"),
    ] {
        let told = read(text).expect_err(text);
        assert!(told.starts_with(place) && told.contains("this is not JSON5"), "{text}: {told}");
    }
    assert!(read("{ a: 1, a: 2 }").unwrap_err().contains("the key `a` stands twice in this object"));
}

#[test]
fn everything_wrong_is_told_at_once() {
    let told = read("{ tols: 1, tools: { profile: 'x', deny: 3, allow: ['${NOPE}'] } }").unwrap_err();
    assert_eq!(told.lines().count(), 4, "{told}");
}

#[test]
fn a_queue_of_a_channel_that_is_not_there_is_a_warning() {
    let parsed = read(
        "{ channels: { wire: {} }, messages: { queue: { \
         byChannel: { wire: 'collect', cli: 'followup', wires: 'steer', 'no\\u001bchan': 'steer' }, \
         debounceMsByChannel: { wire: 5, wier: 10 } } } }",
    )
    .unwrap();
    let told: Vec<String> = parsed.warnings.iter().map(ToString::to_string).collect();
    let nothing = "`channels` has no channel of this name, so this means nothing";
    assert_eq!(
        told,
        [
            format!("messages.queue.byChannel.no\\u{{1b}}chan: {nothing}"),
            format!("messages.queue.byChannel.wires: {nothing}; did you mean `wire`?"),
            format!("messages.queue.debounceMsByChannel.wier: {nothing}; did you mean `wire`?"),
        ]
    );
}

#[test]
fn numbers_are_brought_into_their_range_with_one_warning_each() {
    let parsed = read("{ tools: { codeMode: { timeoutMs: 5, maxOutputBytes: 1e12, maxPendingToolCalls: -3, snapshotTtlSeconds: 60 } } }").unwrap();
    let told: Vec<String> = parsed.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "tools.codeMode.timeoutMs: 5 is below the least that is allowed; 100 is used",
            "tools.codeMode.maxOutputBytes: 1000000000000 is above the most that is allowed; 10485760 is used",
            "tools.codeMode.maxPendingToolCalls: -3 is below the least that is allowed; 1 is used",
        ]
    );
    let shown = parsed.shown();
    assert_eq!(shown["tools"]["codeMode"]["timeoutMs"], 100);
    assert_eq!(shown["tools"]["codeMode"]["snapshotTtlSeconds"], 60);
}

#[test]
fn a_number_beyond_64_bits_is_clamped_like_any_other() {
    let parsed = read("{ tools: { codeMode: { timeoutMs: 1e300 } } }").unwrap();
    assert_eq!(parsed.shown()["tools"]["codeMode"]["timeoutMs"], 60_000);
}

#[test]
fn variables_are_put_in_place_and_never_shown() {
    let parsed = read("{ tools: { profile: '${PROFILE}', deny: ['x-${HOME_OF_SECRETS}-y', '$${kept}'] } }").unwrap();
    assert_eq!(parsed.config.tools.deny, ["x-s3cret-y", "${kept}"]);
    let shown = parsed.shown().to_string();
    assert!(
        shown.contains("${HOME_OF_SECRETS}") && shown.contains("${PROFILE}") && !shown.contains("s3cret"),
        "{shown}"
    );
    for text in [
        "{ tools: { profile: '${BAD_PROFILE}' } }",
        "{ tools: { deny: ['group:${BAD_PROFILE}'] } }",
        "{ tools: { exec: { allow: ['[${BAD_PROFILE}'] } } }",
        "{ tools: { web: { allowHosts: ['{${BAD_PROFILE}'] } } }",
        "{ logging: { redactPatterns: ['(${BAD_PROFILE}'] } }",
        "{ approvals: { rules: [{ match: 'group:${BAD_PROFILE}', decision: 'ask' }] } }",
    ] {
        let told = read(text).unwrap_err();
        assert!(told.contains("${BAD_PROFILE}") && !told.contains("hunter2"), "{told}");
    }
}

#[test]
fn a_variable_that_is_not_set_makes_its_server_unusable_and_nothing_else() {
    let parsed = read(
        "{ mcp: { servers: {
          far: { url: '${NOWHERE}', headers: { a: '${NOWHERE} ${PROFILE} ${ELSEWHERE}' } },
          near: { command: 'x', args: ['${PROFILE}'] },
          off: { command: 'x', env: { T: '${NOWHERE}' }, enabled: false },
        } } }",
    )
    .unwrap();
    let servers = &parsed.config.mcp.servers;
    let why = servers["far"].unusable().unwrap();
    assert_eq!(
        why,
        "needs the environment variable ELSEWHERE, which is not set, and the environment variable NOWHERE, which is not set"
    );
    assert_eq!((servers["near"].unusable(), servers["near"].args.as_slice()), (None, ["coding".to_owned()].as_slice()));
    assert_eq!(servers["off"].unusable().unwrap(), "needs the environment variable NOWHERE, which is not set");
    let mut told: Vec<String> = parsed.unset().into_iter().map(|problem| problem.path).collect();
    told.dedup();
    assert_eq!(told, ["mcp.servers.far.url", "mcp.servers.far.headers.a", "mcp.servers.off.env.T"]);
    assert_eq!(parsed.shown()["mcp"]["servers"]["far"]["headers"]["a"], "${NOWHERE} ${PROFILE} ${ELSEWHERE}");
    // Other mistakes in a server are reported as ever, and so is every other place.
    for text in [
        "{ mcp: { servers: { far: { url: '${' } } } }",
        "{ mcp: { servers: { far: { url: 'ftp://x', headers: { a: '${NOWHERE}' } } } } }",
        "{ mcp: { serve: { tokens: { me: '${NOWHERE}' } } } }",
        "{ plugins: { entries: { weather: { env: { A: '${NOWHERE}' } } } } }",
        "{ workspace: '${NOWHERE}' }",
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn a_plugins_own_config_is_its_own_business() {
    let parsed =
        read("{ plugins: { entries: { weather: { config: { any: { thing: [1] } }, env: { A: '${PROFILE}' } } } } }")
            .unwrap();
    let entry = &parsed.config.plugins.entries["weather"];
    assert!(entry.enabled && entry.config["any"]["thing"][0] == 1 && entry.env["A"] == "coding");
}

#[test]
fn the_layers_of_a_run_come_from_the_config_in_their_order() {
    let config = read(
        "{
          tools: {
            profile: 'minimal', deny: ['grep'], alsoAllow: ['read', 'grep'],
            byProvider: { acme: { deny: ['ls'] }, 'acme/small': { allow: ['read', 'ls', 'session_status'] } },
            bySender: { mallory: { deny: ['*'] } },
            sandbox: { tools: { deny: ['read'] } },
          },
          agents: { coder: { tools: { profile: 'coding', deny: ['write'], byProvider: { acme: { deny: ['find'] } } } } },
        }",
    )
    .unwrap()
    .config;
    let has = |scope: &Subject<'_>| -> Vec<&str> {
        let policy = config.policy(scope).unwrap();
        let admitted = |name: &&str| {
            let id = ToolId::new(pincer_catalog::Source::Openclaw, "core", *name).unwrap();
            policy.admits(&Entry::new(id, ""))
        };
        ["read", "write", "ls", "find", "grep", "session_status"].into_iter().filter(admitted).collect()
    };
    let coder = Subject { agent: Some("coder"), ..Subject::default() };
    assert_eq!(has(&Subject::default()), ["read", "session_status"]);
    assert_eq!(
        has(&coder),
        ["read", "ls", "find", "session_status"],
        "its profile replaces that for all, the deny stays"
    );
    assert_eq!(has(&Subject { agent: Some("unknown"), ..Subject::default() }), ["read", "session_status"]);
    assert_eq!(has(&Subject { provider: Some("acme"), ..coder.clone() }), ["read", "session_status"]);
    assert_eq!(
        has(&Subject { provider: Some("acme"), model: Some("small"), ..Subject::default() }),
        ["read", "session_status"]
    );
    assert_eq!(has(&Subject { sender: Some("mallory"), ..coder.clone() }), [""; 0]);
    assert_eq!(has(&Subject { sandboxed: true, ..coder.clone() }), ["ls", "find", "session_status"]);
    assert_eq!(has(&Subject { run: Some(&["ls".into(), "write".into()]), ..coder.clone() }), ["ls"]);
    assert_eq!(has(&Subject { run: Some(&[]), ..coder }), [""; 0]);
}

#[test]
fn the_first_place_that_is_given_counts() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, deny: &str| -> PathBuf {
        let file = directory.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, format!("{{ tools: {{ deny: ['{deny}'] }} }}")).unwrap();
        file
    };
    let named = write("named.json5", "named");
    write("here/pincer.json5", "here");
    write("home/pincer.json5", "home");
    let empty = directory.path().join("empty");
    let all = Candidates {
        named: Some(named),
        here: directory.path().join("here"),
        home: Some(directory.path().join("home")),
    };
    let denied = |places: &Candidates| -> Vec<String> {
        let Loaded { parsed, .. } = load(places, &environment).unwrap();
        parsed.config.tools.deny
    };
    assert_eq!(denied(&all), ["named"]);
    let places = Candidates { named: None, ..all };
    assert_eq!(denied(&places), ["here"]);
    let places = Candidates { here: empty.clone(), ..places };
    assert_eq!(denied(&places), ["home"]);
    let places = Candidates { home: Some(empty), ..places };
    assert_eq!(denied(&places), [""; 0], "no config at all is a config");
    let places = Candidates { named: Some(directory.path().join("nowhere.json5")), ..places };
    assert!(
        matches!(load(&places, &environment), Err(ConfigError::Read { .. })),
        "a config that was named must be there"
    );
}

#[test]
fn files_that_are_no_config_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let told = |bytes: &[u8]| {
        let file = directory.path().join("c");
        fs::write(&file, bytes).unwrap();
        let error = load(&Candidates { named: Some(file), ..Candidates::default() }, &environment).unwrap_err();
        std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
    };
    assert_eq!(told(b"{\xff}"), "it is not UTF-8 text: the first bad byte is number 2");
    assert_eq!(told(&vec![b' '; (1 << 20) + 1]), "it has more than 1048576 bytes");
    assert!(told("[".repeat(500_000).as_bytes()).ends_with("line 1, column 65: this is nested more than 64 deep"));
    let places = Candidates { named: Some(directory.path().to_owned()), ..Candidates::default() };
    assert!(matches!(load(&places, &environment), Err(ConfigError::Read { .. })));
}

#[test]
fn brackets_in_strings_and_comments_do_not_nest() {
    let brackets = "[".repeat(100);
    for text in [
        format!("{{ tools: {{ deny: ['{brackets}', \"\\\"{brackets}\"] }} }}"),
        format!("// {brackets}\n{{}}"),
        format!("/* {brackets} **/ {{}}"),
    ] {
        read(&text).unwrap();
    }
}

#[test]
fn keys_of_providers_are_looked_up_late_and_never_shown() {
    let text = "{ models: { providers: { a: { apiKey: 'plain-key', baseUrl: 'https://me:hunter2@h/v1', headers: { x: 'plain-value' } }, \
         b: { apiKey: '${NOT_SET}', headers: { y: '${ALSO_NOT}' } }, c: { apiKey: { file: 'key.txt' } } } }, \
         auth: { profiles: { p: { provider: 'a', apiKey: 'second-key' }, q: { provider: 'a', apiKey: '${secret:NONE}' } } } }";
    let parsed = parse(text, &|_| None).expect("a provider that cannot be used is no problem of the others");
    let shown = parsed.shown().to_string();
    for secret in ["plain-key", "hunter2", "plain-value", "second-key"] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
    for written in ["${NOT_SET}", "${ALSO_NOT}", "${secret:NONE}", "key.txt"] {
        assert!(shown.contains(written), "{written}: {shown}");
    }
    let resolve = |text: &str| {
        let values = |name: &str| (name == "SET").then(|| "value".to_owned());
        pincer_config::resolve(text, &pincer_config::Environment(&values), &Default::default())
    };
    assert_eq!(resolve("a${SET}b").expect("resolved"), ("avalueb".to_owned(), vec!["value".to_owned()]));
    let told = resolve("${NOT_SET}").expect_err("not set").to_string();
    assert_eq!(told, "needs the environment variable NOT_SET, which is not set");
}
