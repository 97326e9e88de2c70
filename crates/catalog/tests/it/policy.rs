//! Policy: what each kind of rule means, and that no rule ever gives what another took.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use pincer_catalog::{Catalog, Entry, Layer, Policy, PolicyError, Profile, Rules, Source, ToolId};
use proptest::prelude::*;

fn entry(id: &str) -> Entry {
    Entry::new(id.parse().expect("an id"), "")
}

const IDS: [&str; 14] = [
    "openclaw:core:read",
    "openclaw:core:write",
    "openclaw:core:edit",
    "openclaw:core:apply_patch",
    "openclaw:core:exec",
    "openclaw:core:web_fetch",
    "openclaw:core:session_status",
    "plugin:browser:browser_request",
    "plugin:files:read",
    "mcp:github:create_issue",
    "mcp:github:read",
    "mcp:outlook:send_mail",
    "client:app:select_file",
    "openclaw:core:process",
];

fn all() -> Catalog {
    Catalog::new(IDS.map(entry)).expect("different ids")
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn admitted(policy: &Policy) -> Vec<String> {
    policy.apply(&all()).iter().map(|entry| entry.id.to_string()).collect()
}

/// The short ids of what passes one layer.
fn check(rules: Rules, expected: &[&str]) {
    let layer = Layer::new("tools", &rules).expect("valid rules");
    let mut expected = strings(expected);
    expected.sort();
    assert_eq!(admitted(&Policy::open().with(layer)), expected, "{rules:?}");
}

fn allow(names: &[&str]) -> Rules {
    Rules { allow: strings(names), ..Rules::default() }
}

fn deny(names: &[&str]) -> Rules {
    Rules { deny: strings(names), ..Rules::default() }
}

fn but(names: &[&str]) -> Vec<&'static str> {
    IDS.into_iter().filter(|id| !names.contains(id)).collect()
}

#[test]
fn without_rules_everything_passes() {
    check(Rules::default(), &IDS);
    check(allow(&["*"]), &IDS);
}

#[test]
fn an_allowed_name_means_ours_and_never_a_servers() {
    check(allow(&["read"]), &["openclaw:core:read", "plugin:files:read"]);
    check(allow(&["r*"]), &["openclaw:core:read", "plugin:files:read"]);
}

#[test]
fn a_denied_name_means_every_tool_of_that_name() {
    check(deny(&["read"]), &but(&["openclaw:core:read", "plugin:files:read", "mcp:github:read"]));
}

#[test]
fn servers_are_named_in_full() {
    check(allow(&["github__*"]), &["mcp:github:create_issue", "mcp:github:read"]);
    check(allow(&["outlook__send_mail"]), &["mcp:outlook:send_mail"]);
    check(allow(&["mcp:github:*"]), &["mcp:github:create_issue", "mcp:github:read"]);
    check(allow(&["bundle-mcp"]), &["mcp:github:create_issue", "mcp:github:read", "mcp:outlook:send_mail"]);
    check(deny(&["bundle-mcp"]), &but(&["mcp:github:create_issue", "mcp:github:read", "mcp:outlook:send_mail"]));
    check(deny(&["GitHub__Read"]), &but(&["mcp:github:read"]));
}

#[test]
fn groups_plugins_and_aliases() {
    check(
        allow(&["group:fs"]),
        &["openclaw:core:read", "openclaw:core:write", "openclaw:core:edit", "openclaw:core:apply_patch"],
    );
    check(allow(&["browser"]), &["plugin:browser:browser_request"]);
    check(allow(&["bash", "apply-patch"]), &["openclaw:core:exec", "openclaw:core:apply_patch"]);
    check(
        allow(&["group:plugins"]),
        &[
            "plugin:browser:browser_request",
            "plugin:files:read",
            "mcp:github:create_issue",
            "mcp:github:read",
            "mcp:outlook:send_mail",
        ],
    );
    check(allow(&["group:openclaw"]), &["openclaw:core:web_fetch", "openclaw:core:session_status"]);
}

#[test]
fn writing_implies_patching_but_not_the_other_way_round() {
    check(allow(&["write"]), &["openclaw:core:write", "openclaw:core:apply_patch"]);
    check(deny(&["write"]), &but(&["openclaw:core:write"]));
}

#[test]
fn deny_wins() {
    check(
        Rules { allow: strings(&["read", "write"]), deny: strings(&["READ"]), ..Rules::default() },
        &["openclaw:core:write", "openclaw:core:apply_patch"],
    );
    check(Rules { profile: Some(Profile::Minimal), deny: strings(&["*"]), ..Rules::default() }, &[]);
}

#[test]
fn profiles_and_what_is_added_to_them() {
    let minimal = Rules { profile: Some(Profile::Minimal), ..Rules::default() };
    check(minimal.clone(), &["openclaw:core:session_status"]);
    check(
        Rules { also_allow: strings(&["read"]), ..minimal },
        &["openclaw:core:session_status", "openclaw:core:read", "plugin:files:read"],
    );
    let coding = Rules { profile: Some(Profile::Coding), ..Rules::default() };
    check(coding, &but(&["plugin:browser:browser_request", "plugin:files:read", "client:app:select_file"]));
    check(Rules { profile: Some(Profile::Full), ..Rules::default() }, &IDS);
    check(
        Rules { profile: Some(Profile::Messaging), ..Rules::default() },
        &["openclaw:core:session_status", "mcp:github:create_issue", "mcp:github:read", "mcp:outlook:send_mail"],
    );
}

#[test]
fn sandboxed_sessions_have_mcp_only_if_told_so() {
    let mcp = ["mcp:github:create_issue", "mcp:github:read", "mcp:outlook:send_mail"];
    let passes =
        |rules: &Rules| admitted(&Policy::open().with(Layer::sandbox("tools.sandbox.tools", rules).expect("valid")));
    let mut without = strings(&but(&mcp));
    without.sort();
    assert_eq!(passes(&Rules::default()), without);
    assert_eq!(passes(&Rules { also_allow: strings(&["bundle-mcp"]), ..Rules::default() }).len(), IDS.len());
    assert_eq!(passes(&Rules { also_allow: strings(&["github__read"]), ..Rules::default() }).len(), IDS.len() - 2);
}

#[test]
fn an_empty_list_of_a_run_leaves_nothing() {
    let run =
        |names: &[&str]| admitted(&Policy::open().with(Layer::run("toolsAllow", &strings(names)).expect("valid")));
    assert!(run(&[]).is_empty());
    assert_eq!(run(&["exec"]), ["openclaw:core:exec"]);
}

#[test]
fn wrong_rules_are_told_with_their_place() {
    let both = Rules { allow: strings(&["read"]), also_allow: strings(&["write"]), ..Rules::default() };
    assert_eq!(
        Layer::new("agents.main.tools", &both),
        Err(PolicyError::AllowAndAlsoAllow { at: "agents.main.tools".into() })
    );
    let error = Layer::new("tools", &allow(&["read", "group:filez"])).expect_err("no such group");
    assert!(error.to_string().starts_with("tools.allow[1]: there is no group `filez`: known are agents, "), "{error}");
    let error = Layer::new("tools", &deny(&[" "])).expect_err("empty");
    assert_eq!(error, PolicyError::EmptyName { at: "tools.deny[0]".into() });
}

#[test]
fn every_layer_is_explained() {
    let policy = Policy::open()
        .with(Layer::new("tools", &Rules { profile: Some(Profile::Coding), ..Rules::default() }).expect("valid"))
        .with(Layer::new("agents.main.tools", &deny(&["web_*"])).expect("valid"));
    let explained = policy.explain(&entry("openclaw:core:web_fetch"));
    assert!(!explained.included);
    let told: Vec<String> =
        explained.steps.iter().map(|step| format!("{} {} {}", step.at, step.passes, step.reason)).collect();
    assert_eq!(told, ["tools true part of the profile `coding`", "agents.main.tools false denied by `web_*`"]);
    assert!(policy.explain(&entry("openclaw:core:read")).included);
}

fn names() -> impl Strategy<Value = Vec<String>> {
    let name = prop_oneof![
        Just("*"),
        Just("read"),
        Just("r*"),
        Just("group:fs"),
        Just("group:plugins"),
        Just("bundle-mcp"),
        Just("github__*"),
        Just("mcp:*"),
        Just("browser"),
        Just("exec"),
        Just("client:app:*"),
        Just("nothing"),
        Just("*_*"),
    ];
    proptest::collection::vec(name.prop_map(str::to_owned), 0..4)
}

fn layers() -> impl Strategy<Value = Layer> {
    let profile = prop_oneof![
        Just(None),
        Just(Some(Profile::Minimal)),
        Just(Some(Profile::Coding)),
        Just(Some(Profile::Messaging)),
        Just(Some(Profile::Full)),
    ];
    (profile, names(), names(), 0..4).prop_map(|(profile, names, deny, kind)| {
        let plain = Rules { profile, deny, ..Rules::default() };
        match kind {
            0 => Layer::run("run", &names),
            1 => Layer::sandbox("sandbox", &Rules { also_allow: names, ..plain }),
            2 => Layer::new("tools", &Rules { allow: names, ..plain }),
            _ => Layer::new("tools", &Rules { also_allow: names, ..plain }),
        }
        .expect("valid rules")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn adding_a_layer_never_adds_a_tool(first in proptest::collection::vec(layers(), 0..4), more in layers()) {
        let policy = first.into_iter().fold(Policy::open(), Policy::with);
        let before = admitted(&policy);
        for id in admitted(&policy.with(more)) {
            prop_assert!(before.contains(&id), "{id}");
        }
    }

    #[test]
    fn a_denied_tool_is_in_no_view(others in proptest::collection::vec(layers(), 0..4), index in 0..IDS.len(), at in 0..4usize) {
        let denied = Layer::new("tools", &deny(&[IDS[index]])).expect("valid");
        let mut layers = others;
        layers.insert(at.min(layers.len()), denied);
        let policy = layers.into_iter().fold(Policy::open(), Policy::with);
        let view = policy.apply(&all());
        prop_assert!(view.get(IDS[index]).is_none() && view.find(IDS[index]).is_err());
        prop_assert!(!policy.explain(&entry(IDS[index])).included);
    }

    #[test]
    fn explanation_and_view_agree(layers in proptest::collection::vec(layers(), 0..4)) {
        let policy = layers.into_iter().fold(Policy::open(), Policy::with);
        for entry in all().iter() {
            prop_assert_eq!(policy.explain(entry).included, policy.admits(entry));
        }
    }

    #[test]
    fn any_text_is_a_selector_or_an_error(name in ".{0,40}") {
        if let Ok(layer) = Layer::new("tools", &allow(&[&name])) {
            Policy::open().with(layer).apply(&all());
        }
    }
}

#[test]
fn ids_are_parsed_and_control_tools_have_none() {
    let id: ToolId = "mcp:git:log:all".parse().expect("a name may have colons");
    assert_eq!((id.source(), id.owner(), id.name()), (Source::Mcp, "git", "log:all"));
    for wrong in [
        "read",
        "core:read",
        "core:x:read",
        "mcp::read",
        "mcp:git:",
        "openclaw:codemode:exec",
        "openclaw:codemode:wait",
        "openclaw:core:tool_search",
        "plugin:p:tool_call",
        "client:c:tool_describe",
        "openclaw:core:tool_search_code",
    ] {
        assert!(wrong.parse::<ToolId>().is_err(), "{wrong}");
    }
    for right in ["openclaw:core:exec", "mcp:browser:wait", "mcp:x:tool_search"] {
        assert_eq!(right.parse::<ToolId>().expect(right).to_string(), right);
    }
}

#[test]
fn tools_are_found_by_id_or_by_a_name_that_is_theirs_alone() {
    let all = all();
    assert_eq!(all.find("openclaw:core:exec").expect("by id").id.name(), "exec");
    assert_eq!(all.find("send_mail").expect("by name").id.owner(), "outlook");
    let ambiguous = all.find("read").expect_err("three of them").to_string();
    assert_eq!(
        ambiguous,
        "Ambiguous tool name: read; use an exact tool id: mcp:github:read, openclaw:core:read, plugin:files:read"
    );
    let unknown = all.find("create_isue").expect_err("misspelt").to_string();
    assert_eq!(unknown, "Unknown tool: create_isue. Did you mean: mcp:github:create_issue?");
    assert_eq!(all.find("zzz").expect_err("nothing like it").to_string(), "Unknown tool: zzz.");
}

#[test]
fn order_does_not_depend_on_where_entries_come_from() {
    let turned = Catalog::new(IDS.iter().rev().map(|id| entry(id))).expect("different ids");
    assert!(turned.iter().zip(all().iter()).all(|(a, b)| a == b));
    assert!(Catalog::new([entry(IDS[0]), entry(IDS[0])]).is_err());
    let mut direct = entry("client:app:see");
    direct.flags.direct_only = true;
    assert!(Catalog::new([direct]).expect("one entry").is_empty());
}
