//! From the config's keys to what programs may use and what a model sees.

use std::time::Duration;

use pincer_codemode::{Exposure, Settings};
use pincer_config::keys::{CodeMode, CodeModeFields};
use pincer_runtime::{Principal, ScopeRequest, program_settings};
use pincer_testkit::house::Plan;
use pincer_testkit::tools::echo;

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
    assert_eq!(settings, Settings::default());
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
