//! `pincer mcp import`: what is read, what is written, and what is shown of secrets.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::Home;
use serde_json::{Value, json};

const OURS: &str = "// Mine.\n{\n  // Asks first.\n  tools: { exec: { mode: \"ask\" } }, // so it stays\n}\n";
const SECRET: &str = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";

const CODEX: &str = "# mine\nmodel = \"o4\"\n\n[mcp_servers.time]\ncommand = \"uvx\"\nargs = [\"mcp-time\"]\n";

fn cursor() -> String {
    json!({ "mcpServers": {
        "github": { "command": "npx", "args": ["-y", "github-mcp"], "env": { "GITHUB_TOKEN": SECRET } },
        "docs": { "url": "https://docs.example/mcp" },
    } })
    .to_string()
}

/// A home with a config, and with those of Cursor and Codex.
fn home() -> Home {
    let home = Home::with(OURS);
    for (folder, file, text) in [(".cursor", "mcp.json", cursor()), (".codex", "config.toml", CODEX.to_owned())] {
        fs::create_dir(home.path(folder)).unwrap();
        fs::write(home.path(folder).join(file), text).unwrap();
    }
    home
}

fn read(home: &Home, path: &str) -> String {
    fs::read_to_string(home.path(path)).unwrap()
}

/// The names of all files in a folder.
fn files(home: &Home, folder: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(home.path(folder))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_dry_run_shows_everything_and_writes_nothing() {
    let home = home();
    let (code, out, err) = home.run(&["mcp", "import", "--dry-run"]);
    assert_eq!(code, 0, "{err}");
    for part in
        ["Cursor: ", "Codex", "github", "docs", "https://docs.example/mcp", "time  uvx mcp-time", "nothing was written"]
    {
        assert!(out.contains(part), "{part} is not in {out}");
    }
    assert!(!out.contains(SECRET) && !err.contains(SECRET), "{out}{err}");
    assert_eq!((read(&home, "pincer.json5"), read(&home, ".cursor/mcp.json")), (OURS.to_owned(), cursor()));
    assert_eq!(
        (files(&home, ".cursor"), files(&home, ".codex")),
        (vec!["mcp.json".into()], vec!["config.toml".into()])
    );
}

#[test]
fn servers_come_into_our_config_and_what_stands_there_stays() {
    let home = home();
    let (code, told) = home.json(&["mcp", "import", "--json"]);
    assert_eq!(
        (code, &told["written"], &told["added"]),
        (0, &json!(true), &json!(["docs", "github", "time"])),
        "{told}"
    );
    let written = read(&home, "pincer.json5");
    for comment in ["// Mine.", "// Asks first.", "// so it stays"] {
        assert!(written.contains(comment), "{written}");
    }
    assert!(written.contains(SECRET), "it is kept unless somebody says otherwise: {written}");
    assert_eq!((read(&home, ".cursor/mcp.json"), read(&home, ".codex/config.toml")), (cursor(), CODEX.to_owned()));
    let (code, listed) = home.json(&["mcp", "list", "--cached", "--json"]);
    assert_eq!((code, listed.as_array().unwrap().len()), (0, 3));
    // What is there is not taken again.
    let (code, again) = home.json(&["mcp", "import", "--json"]);
    assert_eq!(
        (code, &again["written"], &again["kept"]),
        (0, &json!(false), &json!(["docs", "github", "time"])),
        "{again}"
    );
    assert_eq!(read(&home, "pincer.json5"), written);
}

#[test]
fn secrets_become_variables_whose_values_are_shown_to_nobody() {
    let home = home();
    let (code, out, err) = home.run(&["mcp", "import", "cursor", "--secrets", "variables"]);
    assert_eq!(code, 0, "{err}");
    assert!(!out.contains(SECRET) && !err.contains(SECRET), "{out}{err}");
    assert!(err.contains("set these in the environment"), "{err}");
    let name = err.split("are down: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    assert!(name.contains("GITHUB"), "{err}");
    let written = read(&home, "pincer.json5");
    assert!(!written.contains(SECRET) && written.contains(&format!("${{{name}}}")), "{written}");
    // Until it is set, the server says which one is missing.
    let (code, _, err) = home.run(&["mcp", "list", "--cached"]);
    assert!(code == 0 && err.contains(&format!("github: it needs the environment variable {name}")), "{err}");
    let output = home.command(&["mcp", "list", "--cached"]).env(&name, "x").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn pincer_takes_the_place_of_the_servers_and_a_copy_is_kept() {
    let home = home();
    let (code, told) = home.json(&["mcp", "import", "--write", "--json"]);
    assert_eq!((code, told["clients"].as_array().unwrap().len()), (0, 2), "{told}");
    let cursor_now: Value = serde_json::from_str(&read(&home, ".cursor/mcp.json")).unwrap();
    let names: Vec<&String> = cursor_now["mcpServers"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["pincer"]);
    let args = cursor_now["mcpServers"]["pincer"]["args"].to_string();
    assert!(args.contains("\"mcp\",\"serve\""), "{args}");
    let codex = read(&home, ".codex/config.toml");
    assert!(codex.starts_with("# mine\nmodel = \"o4\"\n") && codex.contains("[mcp_servers.pincer]"), "{codex}");
    assert!(!codex.contains("mcp_servers.time"), "{codex}");
    for (client, before) in told["clients"].as_array().unwrap().iter().zip([cursor(), CODEX.to_owned()]) {
        assert_eq!(fs::read_to_string(client["backup"].as_str().unwrap()).unwrap(), before, "{client}");
    }
    assert_eq!((files(&home, ".cursor").len(), files(&home, ".codex").len()), (2, 2));
    // We are not taken for a server to put behind us.
    let (code, again) = home.json(&["mcp", "import", "--write", "--json"]);
    assert_eq!((code, &again["added"], &again["written"]), (0, &json!([]), &json!(false)), "{again}");
    assert!(!read(&home, "pincer.json5").contains("\"serve\""));
}

#[test]
fn with_write_the_person_is_told_where_a_secret_is_left() {
    let home = home();
    let (code, _, err) = home.run(&["mcp", "import", "cursor", "--secrets", "variables", "--write"]);
    assert!(code == 0 && !err.contains(SECRET), "{err}");
    assert!(err.contains("its value is in the copy of the client's file, and in no other place"), "{err}");
    assert!(!read(&home, ".cursor/mcp.json").contains(SECRET));
}

#[test]
fn what_cannot_be_read_changes_nothing_and_says_what_is_wrong() {
    let home = home();
    fs::write(home.path("broken.json"), "{ \"mcpServers\": ").unwrap();
    for (arguments, code, says) in [
        (&["mcp", "import", "nope"][..], 2, "`nope` is neither a file nor a client: clients are claude-desktop"),
        (&["mcp", "import", "vscode"], 1, "has no config here; looked for"),
        (&["mcp", "import", "broken.json"], 1, "broken.json"),
        (&["mcp", "import", "--write", "--dry-run"], 2, "cannot be used with"),
    ] {
        let (was, out, err) = home.run(arguments);
        assert_eq!((was, out.as_str()), (code, ""), "{arguments:?}: {err}");
        assert!(err.contains(says), "{arguments:?}: {err}");
    }
    fs::write(home.path("pincer.json5"), "{ tools: ").unwrap();
    let (code, _, err) = home.run(&["mcp", "import", "--write"]);
    assert!(code == 2 && err.contains("pincer.json5"), "{err}");
    assert_eq!((read(&home, "pincer.json5").as_str(), read(&home, ".cursor/mcp.json")), ("{ tools: ", cursor()));
    let nobody = Home::with("{}");
    assert_eq!(nobody.run(&["mcp", "import"]).0, 1);
}

#[test]
fn the_client_goes_on_giving_its_variables() {
    let home = home();
    fs::create_dir_all(home.path(".vscode")).unwrap();
    let vscode = json!({
        "inputs": [{ "id": "api-key", "type": "promptString", "password": true }],
        "servers": {
            "asks": { "command": "x", "env": { "KEY": "${input:api-key}", "OTHER": "${env:API_KEY}" } },
            "far": { "type": "http", "url": "https://x.example/mcp", "headers": { "Authorization": "Bearer ${env:TOKEN_OF_FAR}" } },
        },
    });
    fs::write(home.path(".vscode/mcp.json"), vscode.to_string()).unwrap();
    fs::write(
        home.path(".codex/config.toml"),
        "[mcp_servers.web]\nurl = \"https://w.example\"\nbearer_token_env_var = \"WEB_TOKEN\"\n",
    )
    .unwrap();
    fs::write(
        home.path(".mcp.json"),
        r#"{ "mcpServers": { "code": { "command": "y", "args": ["${WHERE:-here}", "${WHOSE}"] } } }"#,
    )
    .unwrap();
    let imported = || {
        let output = home
            .command(&["mcp", "import", "vscode", "codex", "claude-code", "--write", "--json"])
            .env("WHERE", "there")
            .output();
        let told: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        assert_eq!(told["missingVariables"], json!([]), "{told}");
        let parsed = |path: &str| serde_json::from_str::<Value>(&read(&home, path)).unwrap();
        (parsed(".vscode/mcp.json"), parsed(".mcp.json"), read(&home, ".codex/config.toml"))
    };
    let check = |(vscode, code, codex): (Value, Value, String)| {
        assert_eq!(vscode["inputs"][0]["id"], "api-key", "what it asks for stays");
        let names: Vec<&String> = vscode["servers"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["pincer"]);
        let given = json!({ "API_KEY": "${env:API_KEY}", "API_KEY_2": "${input:api-key}", "TOKEN_OF_FAR": "${env:TOKEN_OF_FAR}" });
        assert_eq!(vscode["servers"]["pincer"]["env"], given);
        assert_eq!(code["mcpServers"]["pincer"]["env"], json!({ "WHERE": "${WHERE:-here}", "WHOSE": "${WHOSE}" }));
        assert!(codex.contains("env_vars = [\"WEB_TOKEN\"]") && !codex.contains("[mcp_servers.web]"), "{codex}");
    };
    check(imported());
    let (_, shown) = home.json(&["config", "show", "--json"]);
    let env = &shown["mcp"]["servers"]["asks"]["env"];
    assert_eq!(env, &json!({ "KEY": "${API_KEY_2}", "OTHER": "${API_KEY}" }), "no two things have one name");
    // An import that finds nothing new takes nothing away.
    check(imported());
}

#[test]
fn an_import_is_undone_as_a_whole() {
    let home = home();
    let everything =
        || (read(&home, "pincer.json5"), read(&home, ".cursor/mcp.json"), read(&home, ".codex/config.toml"));
    let before = everything();
    assert_eq!(home.run(&["mcp", "import", "--write"]).0, 0);
    assert!(everything() != before && files(&home, ".cursor").len() == 2);
    let note = home.path(".state/pincer/mcp-import.json");
    assert!(fs::read_to_string(&note).unwrap().contains(SECRET), "it is all that is needed");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&note), mode(note.parent().unwrap())), (0o600, 0o700));
    // An import that changes nothing takes nothing from what can be undone.
    assert_eq!(home.run(&["mcp", "import", "--write"]).0, 0);
    let (code, told) = home.json(&["mcp", "import", "--undo", "--json"]);
    assert_eq!((code, told["undone"].as_array().unwrap().len()), (0, 3), "{told}");
    assert!(everything() == before, "{:?}", everything());
    assert_eq!((files(&home, ".cursor").len(), files(&home, ".codex").len()), (1, 1), "no copy is left");
    let (code, out, err) = home.run(&["mcp", "import", "--undo"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("there is no `pincer mcp import --write` to undo"), "{err}");
    // A config that was not there is gone again.
    fs::remove_file(home.path("pincer.json5")).unwrap();
    assert_eq!(home.run(&["mcp", "import", "cursor", "--write"]).0, 0);
    assert!(home.path(".config/pincer/pincer.json5").exists());
    assert_eq!(home.run(&["mcp", "import", "--undo"]).0, 0);
    assert!(!home.path(".config/pincer/pincer.json5").exists() && read(&home, ".cursor/mcp.json") == cursor());
}

#[test]
fn an_import_is_not_undone_if_a_file_has_been_changed_since() {
    for changed in ["pincer.json5", ".cursor/mcp.json", ".codex/config.toml"] {
        let home = home();
        assert_eq!(home.run(&["mcp", "import", "--write"]).0, 0);
        let mine = format!("{}\n", read(&home, changed));
        fs::write(home.path(changed), &mine).unwrap();
        let everything = || ["pincer.json5", ".cursor/mcp.json", ".codex/config.toml"].map(|file| read(&home, file));
        let before = everything();
        let (code, _, err) = home.run(&["mcp", "import", "--undo"]);
        assert!(code == 1 && err.contains(changed) && err.contains("has been changed since"), "{err}");
        assert_eq!(everything(), before);
        assert_eq!(files(&home, ".cursor").len(), 2, "the copy stays");
    }
}
