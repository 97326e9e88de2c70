//! From the keys of `mcp.servers` to the settings of servers.

use std::path::Path;
use std::time::Duration;

use pincer_config::{Loaded, parse, parse_with};
use pincer_mcp::{Address, Directory, Elicitation, Launch, Reach, Readiness, Sampling, ServerSettings, Speaks};
use pincer_runtime::{Promised, Vault, mcp_server, mcp_servers};
use serde_json::{Value, json};

const STATE: &str = "/nowhere/state";
const SOON: Duration = Duration::from_secs(10);

/// Returns a config with these servers, as if it were read from `/nowhere/config`.
fn loaded(servers: &Value) -> Loaded {
    let text = json!({ "workspace": "/nowhere/work", "mcp": { "servers": servers } }).to_string();
    let parsed = parse(&text, &|_| None).unwrap();
    Loaded { parsed, file: Some("/nowhere/config/pincer.json5".into()), ..Loaded::default() }
}

/// Returns the settings of a server with these keys.
fn settings(keys: &Value) -> ServerSettings {
    mcp_server(&loaded(&json!({ "notes": keys })), Some(Path::new(STATE)), "notes").unwrap()
}

fn launch(settings: &ServerSettings) -> &Launch {
    match &settings.reach {
        Reach::Program(launch) => launch,
        Reach::Address(_) => panic!("{} is no program", settings.name),
    }
}

fn address(settings: &ServerSettings) -> &Address {
    match &settings.reach {
        Reach::Address(address) => address,
        Reach::Program(_) => panic!("{} is a program", settings.name),
    }
}

/// The digests were computed by the version that made them of the config itself. If one changes, what is stored of every server is
/// forgotten.
#[test]
fn digests_are_those_of_earlier_versions() {
    let servers = json!({
        "program": {
            "type": "stdio", "command": "npx", "args": ["-y", "notes", "--token=abc"], "env": { "NOTES_KEY": "k", "A": "b" },
            "roots": ["/srv/notes"], "timeoutMs": 5000,
        },
        "placed": { "command": "./serve", "cwd": "tools" },
        "address": {
            "type": "streamable-http", "url": "https://example.com/mcp?x=1", "headers": { "X-Key": "k" },
            "auth": { "token": "t", "clientId": "me", "clientSecret": "s", "scopes": ["read"], "redirectPort": 7777 },
            "elicitation": "refuse",
        },
        "plain": { "url": "https://example.com/mcp" },
        "old": { "type": "sse", "url": "https://example.com/sse" },
    });
    let loaded = loaded(&servers);
    for (name, digest) in [
        ("program", "4fda0a3d1c21cee8681bb4b804ed9037"),
        ("placed", "ddff37c5bcd2f63f2e17bdb3a9b41a22"),
        ("address", "c4d289a7aa5cc28d351d6e0bd3b4babe"),
        ("plain", "d81394f13905fafe39931549f474d60b"),
        ("old", "1853735fd41375fa01c4358ad4ae5a15"),
    ] {
        assert_eq!(mcp_server(&loaded, Some(Path::new(STATE)), name).unwrap().digest(), digest, "{name}");
    }
}

#[test]
fn a_program_starts_where_its_entry_says_or_in_a_directory_of_its_own() {
    let keys = json!({ "command": "uvx", "args": ["notes"], "env": { "A": "b" }, "roots": ["work", "/srv"] });
    let own = settings(&keys);
    let started = launch(&own);
    assert_eq!((started.command.as_str(), &started.arguments[..]), ("uvx", &["notes".to_owned()][..]));
    assert_eq!(started.environment["A"], "b");
    let expected = Directory::Own {
        path: "/nowhere/state/mcp/work/notes".into(),
        anchors: vec!["/nowhere/config".into(), "/nowhere/work".into()],
        workspace: "/nowhere/work".into(),
    };
    assert_eq!(started.directory, expected);
    assert_eq!(own.roots, [Path::new("/nowhere/config/work"), Path::new("/srv")]);
    let placed = settings(&json!({ "command": "uvx", "cwd": "tools" }));
    assert_eq!(launch(&placed).directory, Directory::Named("/nowhere/config/tools".into()));
    // A state directory within the workspace is no place: programs can write there.
    let loaded = loaded(&json!({ "notes": keys }));
    for state in [None, Some(Path::new("/nowhere/work/state"))] {
        let settings = mcp_server(&loaded, state, "notes").unwrap();
        assert_eq!(launch(&settings).directory.path(), Path::new("/"), "{state:?}");
    }
}

#[test]
fn an_address_has_all_that_its_entry_says() {
    let keys = json!({
        "url": "https://example.com/mcp", "headers": { "X-Key": "geheim" },
        "auth": { "token": "t", "clientId": "me", "clientSecret": "s", "scopes": ["read"], "redirectPort": 7777 },
    });
    let settings = settings(&keys);
    let Address { url, headers, token, oauth, speaks } = address(&settings);
    assert_eq!(
        (url.as_str(), headers["X-Key"].as_str(), token.as_deref()),
        ("https://example.com/mcp", "geheim", Some("t"))
    );
    assert_eq!((oauth.client_id.as_deref(), oauth.client_secret.as_deref()), (Some("me"), Some("s")));
    assert_eq!((&oauth.scopes[..], oauth.redirect_port), (&["read".to_owned()][..], Some(7777)));
    assert_eq!((*speaks, settings.transport()), (Speaks::Either, "http"));
    assert_eq!(settings.secrets, ["geheim"]);
    for (kind, speaks, transport) in [
        ("http", Speaks::Streamable, "http"),
        ("streamable-http", Speaks::Streamable, "http"),
        ("sse", Speaks::Events, "sse"),
    ] {
        let settings = self::settings(&json!({ "type": kind, "url": "https://example.com/" }));
        assert_eq!((address(&settings).speaks, settings.transport()), (speaks, transport), "{kind}");
    }
    assert_eq!(self::settings(&json!({ "command": "uvx" })).transport(), "stdio");
}

#[test]
fn times_filters_and_questions_are_taken_over() {
    let keys = json!({
        "command": "uvx", "connectTimeoutMs": 1500, "timeoutMs": 2500, "tools": { "allow": ["a*"], "deny": ["ab"] },
        "readOnly": ["get*"], "elicitation": "refuse",
    });
    let said = settings(&keys);
    assert_eq!((said.connect_timeout, said.call_timeout), (Duration::from_millis(1500), Duration::from_millis(2500)));
    assert_eq!((&said.tools.allow[..], &said.tools.deny[..]), (&["a*".to_owned()][..], &["ab".to_owned()][..]));
    assert_eq!((&said.read_only[..], said.elicitation), (&["get*".to_owned()][..], Elicitation::Refuse));
    let usual = settings(&json!({ "command": "uvx" }));
    assert_eq!((usual.connect_timeout, usual.call_timeout), (Duration::from_secs(30), Duration::from_secs(60)));
    assert_eq!(usual.elicitation, Elicitation::Ask);
}

#[test]
fn servers_that_are_enabled_sample_as_they_say_or_else_as_the_others() {
    let loaded = loaded(&json!({
        "silent": { "command": "uvx" }, "refuses": { "command": "uvx", "sampling": "refuse" },
        "passes": { "command": "uvx", "sampling": "pass" }, "off": { "command": "uvx", "enabled": false },
    }));
    for (default, silent) in [(Sampling::Refuse, Sampling::Refuse), (Sampling::Pass, Sampling::Pass)] {
        let servers = mcp_servers(&loaded, None, default);
        let sampling = |name| servers.get(name).unwrap().settings().sampling;
        assert_eq!(
            [sampling("silent"), sampling("refuses"), sampling("passes")],
            [silent, Sampling::Refuse, Sampling::Pass]
        );
        assert!(servers.get("off").is_none());
    }
    assert!(mcp_server(&loaded, None, "off").is_some());
    assert!(mcp_server(&loaded, None, "nowhere").is_none());
}

#[test]
fn a_variable_that_is_not_set_makes_a_server_unusable() {
    let settings = settings(&json!({ "command": "uvx", "env": { "KEY": "${NOTES_KEY_IS_NOT_SET}" } }));
    let why = "needs the environment variable NOTES_KEY_IS_NOT_SET, which is not set";
    assert!(matches!(&settings.readiness, Readiness::Unusable(told) if told == why));
    assert_eq!(settings.resolved(SOON).err().unwrap().to_string(), why);
}

#[test]
fn secrets_are_looked_up_when_the_settings_are_completed() {
    let directory = tempfile::tempdir().unwrap();
    let (file, key) = (directory.path().join("pincer.json5"), directory.path().join("key"));
    let text = json!({
        "workspace": "/nowhere/work",
        "secrets": { "notes": { "file": key } },
        "mcp": { "servers": { "notes": { "command": "uvx", "env": { "NOTES": "${secret:notes}" } } } },
    });
    let vault = Vault::new(None, Some(&file));
    let parsed = parse_with(&text.to_string(), &Promised(vault)).unwrap();
    let settings = mcp_server(&Loaded { parsed, file: Some(file), ..Loaded::default() }, None, "notes").unwrap();
    assert_eq!((launch(&settings).environment["NOTES"].as_str(), settings.secrets.len()), ("${secret:notes}", 0));
    let missing = settings.resolved(SOON).err().unwrap().to_string();
    assert!(missing.starts_with("needs the secret notes: "), "{missing}");

    std::fs::write(&key, "geheim\n").unwrap();
    let resolved = settings.resolved(SOON).ok().unwrap();
    assert!(matches!(resolved.readiness, Readiness::Ready));
    assert_eq!(
        (launch(&resolved).environment["NOTES"].as_str(), &resolved.secrets[..]),
        ("geheim", &["geheim".to_owned()][..])
    );
    assert_eq!(resolved.digest(), settings.digest(), "what is stored of it does not depend on them");
}
