//! Manifests: what is wrong with them is told with its place, and plugins are found where they are said to be.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use pincer_plugins::{LoadError, MANIFEST, Manifest, discover, load};

/// A right manifest with one part replaced.
fn with(key: &str, value: &str) -> String {
    let mut parts = vec![
        ("id", "'weather'"),
        ("version", "'1'"),
        ("command", "['./run']"),
        ("tools", "[{ name: 'forecast', description: 'x', inputSchema: { type: 'object' } }]"),
        ("hooks", "[{ event: 'before_tool_call', matcher: ['exec'] }]"),
        ("namespaces", "[{ id: 'w', globalName: 'Weather', scope: { get: { $tool: 'forecast' }, units: ['C'] } }]"),
    ];
    parts.retain(|(known, _)| *known != key);
    parts.push((key, value));
    let parts: Vec<String> =
        parts.iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| format!("{key}: {value}")).collect();
    format!("{{ {} }}", parts.join(", "))
}

#[test]
fn every_kind_of_wrong_is_told_with_its_place() {
    Manifest::parse(&with("description", "'fine'")).unwrap();
    let tool = |rest: &str| format!("[{{ name: 'forecast', description: 'x', {rest} }}]");
    let named = |name: &str| format!("[{{ name: '{name}', description: 'x', inputSchema: {{ type: 'object' }} }}]");
    let twice = "[{ name: 'forecast', description: 'x', inputSchema: { type: 'object' } }, { name: 'forecast', description: 'x', inputSchema: { type: 'object' } }]";
    let space = |global: &str, scope: &str| format!("[{{ id: 'w', globalName: '{global}', scope: {scope} }}]");
    for (key, value, told) in [
        ("id", "'Weather'".to_owned(), "id: `Weather` is not an id: lower-case letters"),
        ("id", "'core'".into(), "id: `core` is not an id"),
        ("id", "''".into(), "id: `` is not an id"),
        ("id", "".into(), "`id` is missing"),
        ("command", "'python3 x.py'".into(), "command: \"python3 x.py\" is not a list"),
        ("command", "[]".into(), "command: there is no command to run"),
        ("toools", "[]".into(), "toools: there is no such key; did you mean `tools`?"),
        ("tools", named("two words"), "tools[0].name: `two words` is not a name for a tool"),
        ("tools", named("tool_search"), "tools[0].name: `tool_search` is not a name for a tool"),
        ("tools", twice.into(), "tools[1].name: there is another tool `forecast`"),
        ("tools", tool("inputSchema: { type: 'objekt' }"), "tools[0].inputSchema: not a JSON Schema: "),
        ("tools", tool("inputSchema: { type: 'string' }"), "tools[0].inputSchema: it must have `type: \"object\"`"),
        (
            "tools",
            tool("inputSchema: { type: 'object' }, outputSchema: { $ref: '#/nowhere' }"),
            "tools[0].outputSchema: not a JSON Schema: ",
        ),
        (
            "tools",
            tool("inputSchema: { type: 'object' }, readonly: true"),
            "tools[0].readonly: there is no such key; did you mean `readOnly`?",
        ),
        (
            "tools",
            "[{ name: 'forecast', description: ' ', inputSchema: { type: 'object' } }]".into(),
            "tools[0].description: it is empty",
        ),
        (
            "hooks",
            "[{ event: 'before_tool' }]".into(),
            "hooks[0].event: \"before_tool\" is not one of message_received, command:*,",
        ),
        (
            "hooks",
            "[{ event: 'agent_end', matcher: ['exec'] }]".into(),
            "hooks[0].matcher: agent_end is not about tools: leave the matcher out",
        ),
        (
            "hooks",
            "[{ event: 'before_tool_call', matcher: ['group:nope'] }]".into(),
            "hooks[0].matcher[0]: there is no group `nope`",
        ),
        (
            "namespaces",
            space("tools", "{ get: { $tool: 'forecast' } }"),
            "namespaces[0]: `tools` cannot be the global of a namespace",
        ),
        ("namespaces", space("a-b", "{ get: { $tool: 'forecast' } }"), "namespaces[0]: `a-b` cannot be the global"),
        (
            "namespaces",
            space("Weather", "{ get: { $tool: 'read' } }"),
            "namespaces[0]: the namespace `w` needs the tool `read`, which the plugin does not have",
        ),
        (
            "namespaces",
            space("Weather", "{ get: { $tool: 5 } }"),
            "namespaces[0].scope.get: `$tool` must be the name of a tool",
        ),
        (
            "namespaces",
            space("Weather", "{ deep: [{ get: { $tool: 'forecast', args: 'x' } }] }"),
            "namespaces[0].scope.deep[0].get: `args` must be a list",
        ),
        (
            "namespaces",
            space("Weather", "{ get: { $tool: 'forecast', arguments: [] } }"),
            "`arguments` does not belong beside `$tool`",
        ),
        (
            "namespaces",
            space("Weather", "{ constructor: { $tool: 'forecast' } }"),
            "namespaces[0]: `constructor` cannot be a key",
        ),
        (
            "namespaces",
            space("Weather", "{ units: 'C' }"),
            "namespaces[0]: the namespace `w` names no tool that it needs",
        ),
    ] {
        let error = Manifest::parse(&with(key, &value)).expect_err(told).to_string();
        assert!(error.contains(told), "{error} / {told}");
    }
    assert!(Manifest::parse("{ id: 'x', ").unwrap_err().to_string().contains("this is not JSON5"));
}

fn plugin(folder: &Path, id: &str) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(MANIFEST), with("id", &format!("'{id}'"))).unwrap();
    folder.to_owned()
}

#[test]
fn plugins_are_found_in_their_folders_and_in_folders_of_such() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let single = plugin(&at("single"), "one");
    plugin(&at("many/b"), "two");
    plugin(&at("many/a"), "three");
    fs::create_dir(at("many/empty")).unwrap();
    plugin(&at("state/plugins/x"), "four");
    let ids = |named: &[PathBuf], usual: &Path| -> Result<Vec<String>, LoadError> {
        Ok(discover(named, Some(usual))?.into_iter().map(|found| found.manifest.id).collect())
    };
    let usual = at("state/plugins");
    assert_eq!(ids(&[single.clone(), at("many"), single.clone()], &usual).unwrap(), ["four", "one", "three", "two"]);
    assert_eq!(ids(&[], &at("nowhere")).unwrap(), [""; 0]);
    assert!(matches!(ids(&[at("nowhere")], &usual), Err(LoadError::Read { .. })));
    assert!(matches!(ids(&[at("many/empty")], &usual), Err(LoadError::Nothing { .. })));
    plugin(&at("again"), "one");
    let error = ids(&[single, at("again")], &usual).unwrap_err();
    assert!(matches!(error, LoadError::Twice { .. }), "{error}");
    fs::write(at("again").join(MANIFEST), "{ id: 5 }").unwrap();
    let error = load(&at("again")).unwrap_err().to_string();
    assert!(error.contains("again/pincer.plugin.json5\n") && error.contains("id: 5 is not a string"), "{error}");
}
