//! From the config's keys to what programs may use and what a model sees.

use std::time::Duration;

use pincer_codemode::{Exposure, Settings as ProgramSettings};
use pincer_config::Config;
use pincer_config::keys::{CodeMode, CodeModeFields};
use pincer_runtime::{Principal, ScopeRequest, program_settings, tool_search_settings};
use pincer_testkit::house::Plan;
use pincer_testkit::tools::echo;
use pincer_tool_search::{Limits, Mode, Settings};

/// Returns the names that a model sees with these keys.
fn shown(fields: &CodeModeFields) -> Vec<String> {
    let mut plan = Plan::default().tools(vec![("openclaw:core:echo", echo()), ("openclaw:core:other", echo())]);
    plan.config.tools.code_mode = CodeMode::Fields(Box::new(fields.clone()));
    let house = plan.open();
    let scope = house.runtime.scope(&ScopeRequest::new(Principal::new("me"), "main")).unwrap();
    match house.runtime.exposure(&scope) {
        Exposure::None => Vec::new(),
        Exposure::Direct(tools) => tools.into_iter().map(|tool| tool.name).collect(),
        Exposure::CodeMode(surface) => surface.names().into_iter().map(str::to_owned).collect(),
    }
}

#[tokio::test]
async fn nothing_but_true_turns_code_mode_on() {
    let usual = CodeModeFields::default;
    let off = [
        usual(),
        CodeModeFields { enabled: Some(false), ..usual() },
        CodeModeFields { timeout_ms: Some(5000), languages: Some(Vec::new()), ..usual() },
    ];
    for fields in off {
        // As without any of this: everything that policy leaves, by its own name.
        assert_eq!(shown(&fields), ["echo", "other"], "{fields:?}");
    }
    assert_eq!(shown(&CodeModeFields { enabled: Some(true), ..usual() }), ["exec", "wait"]);
}

#[test]
fn the_defaults_are_those_of_the_specification_and_of_the_published_schema() {
    let settings = program_settings(&CodeModeFields::default());
    assert_eq!(settings, ProgramSettings::default());
    let usual = pincer_sandbox::Limits::default();
    assert_eq!(settings.timeout, Duration::from_secs(10));
    assert_eq!(
        (settings.limits.memory_bytes, settings.limits.output_bytes, settings.limits.snapshot_bytes),
        (64 << 20, 64 << 10, 10 << 20)
    );
    assert_eq!((settings.limits.value_bytes, usual.value_bytes), (8 << 20, 8 << 20));
    assert_eq!((settings.pending_calls, settings.snapshot_lifetime), (16, Duration::from_secs(900)));
    assert_eq!((settings.search_usual, settings.search_most), (8, 50));
    let schema = pincer_config::schema();
    let fields = &schema["$defs"]["CodeModeFields"]["properties"];
    for (key, used) in [
        ("timeoutMs", settings.timeout.as_millis() as u64),
        ("memoryLimitBytes", settings.limits.memory_bytes as u64),
        ("maxOutputBytes", settings.limits.output_bytes as u64),
        ("maxSnapshotBytes", settings.limits.snapshot_bytes as u64),
        ("maxPendingToolCalls", settings.pending_calls as u64),
        ("snapshotTtlSeconds", settings.snapshot_lifetime.as_secs()),
        ("maxSuspendedRuns", settings.room.all.into()),
        ("maxSuspendedRunsPerUser", settings.room.of_user.into()),
        ("maxSuspendedRunsPerSession", settings.room.of_session.into()),
        ("searchDefaultLimit", settings.search_usual as u64),
        ("maxSearchLimit", settings.search_most as u64),
    ] {
        assert_eq!(fields[key]["default"], used, "{key}");
    }
}

#[test]
fn an_agents_code_mode_is_merged_over_that_for_all() {
    let text = "{ tools: { codeMode: { enabled: true, timeoutMs: 5000, maxSearchLimit: 3 } },
        agents: { a: { tools: { codeMode: { timeoutMs: 700 } } }, b: { tools: { codeMode: false } }, c: {} } }";
    let config = pincer_config::parse(text, &|_| None).unwrap().config;
    let of = |agent: Option<&str>| config.code_mode(agent);
    assert_eq!((of(None).enabled, of(None).timeout_ms), (Some(true), Some(5000)));
    assert_eq!((of(Some("a")).enabled, of(Some("a")).timeout_ms), (Some(true), Some(700)));
    assert_eq!((of(Some("b")).enabled, of(Some("b")).timeout_ms), (Some(false), Some(5000)));
    assert_eq!(of(Some("c")), of(None));
    assert_eq!(of(Some("nobody")), of(None));
    // The usual number of results is clamped to the most.
    assert_eq!(program_settings(&of(None)).search_usual, 3);
}

/// Returns the settings of Tool Search with this value of `tools.toolSearch`.
fn searching(value: &str) -> Option<pincer_tool_search::Settings> {
    let text = format!("{{ tools: {{ toolSearch: {value} }} }}");
    let config = pincer_config::parse(&text, &|_| None).unwrap_or_else(|error| panic!("{value}: {error}")).config;
    tool_search_settings(&config.tool_search(None))
}

#[test]
fn tool_search_has_the_defaults_and_clamps_of_the_specification() {
    assert_eq!(tool_search_settings(&Config::default().tool_search(None)), None, "off if it is not set");
    for off in ["false", "{}", "{ enabled: false }", "{ enabled: false, mode: 'tools' }"] {
        assert_eq!(searching(off), None, "{off}");
    }
    let usual =
        Settings { mode: Mode::Code, limits: Limits::new(8, 20), code_timeout: Duration::from_secs(10), hints: false };
    for on in ["true", "{ enabled: true }", "{ mode: 'code' }"] {
        assert_eq!(searching(on), Some(usual.clone()), "{on}");
    }
    for (mode, expected) in [("tools", Mode::Tools), ("directory", Mode::Directory)] {
        let settings = searching(&format!("{{ mode: '{mode}' }}")).expect("on");
        assert_eq!(settings, Settings { mode: expected, hints: true, ..usual.clone() });
    }
    // A number out of its range is the nearest one in it.
    for (key, low, high) in [("codeTimeoutMs", 1, 10_000_000), ("searchDefaultLimit", 0, 99), ("maxSearchLimit", 0, 99)]
    {
        let numbers = |value: u64| {
            let settings = searching(&format!("{{ {key}: {value} }}")).expect("on");
            (settings.code_timeout.as_millis(), settings.limits.usual, settings.limits.most)
        };
        let expected = match key {
            "codeTimeoutMs" => [(1_000, 8, 20), (60_000, 8, 20)],
            "searchDefaultLimit" => [(10_000, 1, 20), (10_000, 20, 20)],
            _ => [(10_000, 1, 1), (10_000, 8, 50)],
        };
        assert_eq!([numbers(low), numbers(high)], expected, "{key}");
    }
    assert_eq!(
        searching("{ searchDefaultLimit: 30, maxSearchLimit: 40 }").map(|settings| settings.limits.usual),
        Some(30)
    );
    for wrong in ["'code'", "{ mode: 'all' }", "{ limit: 3 }"] {
        let text = format!("{{ tools: {{ toolSearch: {wrong} }} }}");
        assert!(pincer_config::parse(&text, &|_| None).is_err(), "{wrong}");
    }
}

#[test]
fn an_agent_changes_fields_of_tool_search_for_itself() {
    let text = "{ tools: { toolSearch: { mode: 'tools', maxSearchLimit: 5 } },
        agents: { a: { tools: { toolSearch: { mode: 'directory' } } }, b: { tools: { toolSearch: false } }, c: {} } }";
    let config = pincer_config::parse(text, &|_| None).unwrap().config;
    let of = |agent: &str| tool_search_settings(&config.tool_search(Some(agent)));
    let seen = |agent: &str| of(agent).map(|settings| (settings.mode, settings.limits.most));
    assert_eq!((seen("a"), seen("b"), seen("c")), (Some((Mode::Directory, 5)), None, Some((Mode::Tools, 5))));
    let text = "{ agents: { a: { tools: { toolSearch: { mode: 'tools' } } } } }";
    let config = pincer_config::parse(text, &|_| None).unwrap().config;
    assert_eq!(tool_search_settings(&config.tool_search(None)), None);
    assert!(tool_search_settings(&config.tool_search(Some("a"))).is_some(), "one agent alone may search");
}
