//! Where hooks and servers start, and what of the workspace they load: nothing that a program could have put there.

use std::fs;

use crate::common::Home;
use serde_json::json;

/// A module that a script of ours asks for and that a program would like to be.
const PLANTED: &str = "open(__file__ + '.loaded', 'w').close()\nfrom importlib import util\n";

/// An MCP server with one tool, in Python's own library.
const SERVER: &str = r#"
import sys, json
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    results = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": [{"name": "where", "inputSchema": {"type": "object"}}]}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": results.get(message["method"], {})}), flush=True)
"#;

/// A hook that blocks calls of `ls`.
const HOOK: &str = r#"
import sys, json
event = json.load(sys.stdin)
print(json.dumps({"block": event["toolName"] == "ls", "blockReason": "seen by the hook"}))
"#;

fn write(home: &Home, path: &str) -> (i32, String) {
    let input = json!({ "path": path, "content": PLANTED }).to_string();
    let (code, _, err) = home.run(&["tools", "call", "write", &input]);
    (code, err)
}

fn is_loaded(home: &Home, path: &str) -> bool {
    home.path(&format!("{path}.loaded")).exists()
}

#[test]
fn nothing_beside_the_script_of_a_hook_is_made_or_loaded() {
    for (script, command) in [
        ("hooks/check.py", json!(["python3", "hooks/check.py"])),
        ("hooks/check.py", json!("python3 ./hooks/check.py")),
        ("check.py", json!(["python3", "check.py"])),
        ("check.py", json!("python3 check.py | cat")),
    ] {
        let config = json!({ "hooks": { "before_tool_call": [{ "matcher": "ls", "command": command }] } });
        let home = Home::with(&config.to_string());
        fs::create_dir_all(home.path(script).parent().unwrap()).unwrap();
        fs::write(home.path(script), HOOK).unwrap();
        let module = script.replace("check.py", "json.py");
        let (code, err) = write(&home, &module);
        if script.starts_with("hooks/") {
            assert!(code == 1 && err.contains("not changed by this tool"), "{module}: {err}");
        } else {
            assert_eq!(code, 0, "{err}");
        }
        assert_eq!(write(&home, script).0, 1, "the script itself");
        assert_eq!(write(&home, "node_modules/x/index.js").0, 1, "what Node finds above it");
        // Where it was started from.
        fs::write(home.path("json.py"), PLANTED).unwrap();
        let (code, _, err) = home.run(&["tools", "call", "ls", "{}"]);
        assert!(code != 0 && err.contains("seen by the hook"), "{command}: {err}");
        assert!(!is_loaded(&home, "json.py"), "{command}");
    }
}

#[test]
fn what_a_config_starts_is_not_changed_however_it_is_named() {
    let absolute = |home: &Home, path: &str| home.path(path).display().to_string();
    let home = Home::with("{}");
    for file in [
        "h/guard.sh",
        "h2/a.sh",
        "guard/__main__.py",
        "lib/real.js",
        "srv/index.js",
        "lib2/serv.js",
        "placed.py",
        "sec/get.sh",
        ".bare/config",
        ".bare/hooks/x",
    ] {
        let file = home.path(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "echo {}").unwrap();
    }
    fs::create_dir(home.path("hooks")).unwrap();
    std::os::unix::fs::symlink("../lib/real.js", home.path("hooks/hook.js")).unwrap();
    fs::write(home.path(".git"), "gitdir: .bare\n").unwrap();
    let hook = |command: serde_json::Value| json!({ "matcher": "ls", "command": command });
    let config = json!({
        "hooks": { "before_tool_call": [
            hook(json!(format!("sh \"{}\"", absolute(&home, "h/guard.sh")))),
            hook(json!(["env", format!("F={}", absolute(&home, "h2/a.sh")), "sh", "-c", "sh $F"])),
            hook(json!(["python3", "./guard"])),
            hook(json!(["node", "hooks/hook.js"])),
        ] },
        "mcp": { "servers": {
            "a": { "command": "node", "args": ["./srv"] },
            "b": { "command": "node", "args": ["./lib2/serv"] },
            "c": { "command": "python3", "args": ["placed.py"], "cwd": "." },
        } },
        "secrets": { "X": { "command": ["./sec/get.sh"] } },
    });
    fs::write(home.path("pincer.json5"), config.to_string()).unwrap();
    for path in [
        "h/guard.sh",
        "h/other",
        "h2/a.sh",
        "guard/__main__.py",
        "guard/json.py",
        "lib/real.js",
        "lib/util.js",
        "hooks/hook.js",
        "srv/index.js",
        "srv/util.js",
        "lib2/serv.js",
        "placed.py",
        "sec/get.sh",
        ".bare/config",
        ".bare/hooks/pre-commit",
        "sub/pincer.json5",
    ] {
        let (code, err) = write(&home, path);
        assert!(code == 1 && err.contains("not changed by this tool"), "{path}: {code} {err}");
    }
    assert_eq!(write(&home, "free.py").0, 0);
}

#[test]
fn a_server_loads_nothing_of_the_workspace_unless_it_is_started_there() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("weather.py"), SERVER).unwrap();
    let library = json!({ "PYTHONPATH": outside.path() });
    for (server, is_told) in [
        (json!({ "command": "python3", "args": ["-m", "weather"], "env": library }), false),
        (json!({ "command": "python3", "args": ["server.py"] }), false),
        (json!({ "command": "python3", "args": ["./server.py"] }), false),
        (json!({ "command": "python3", "args": ["servers/server.py"] }), false),
        (json!({ "command": "python3", "args": ["-m", "weather"], "env": library, "cwd": "." }), true),
        (json!({ "command": "python3", "args": ["server.py"], "cwd": "." }), true),
    ] {
        let home =
            Home::with(&json!({ "mcp": { "servers": { "s": server } }, "tools": { "profile": "full" } }).to_string());
        fs::create_dir(home.path("servers")).unwrap();
        for script in ["server.py", "servers/server.py"] {
            fs::write(home.path(script), SERVER).unwrap();
        }
        let (code, out, err) = home.run(&["mcp", "test", "s"]);
        assert!(code == 0 && out.contains("where"), "{server}: {out} {err}");
        assert_eq!(write(&home, "json.py").0, 0);
        if server["args"] == json!(["servers/server.py"]) {
            assert_eq!((write(&home, "servers/json.py").0, write(&home, "servers/server.py").0), (1, 1));
        }
        home.run(&["mcp", "test", "s"]);
        assert_eq!(is_loaded(&home, "json.py"), is_told, "{server}");
    }
}
