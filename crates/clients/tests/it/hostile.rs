//! Files that are broken, huge, or no files at all.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::error::Error;
use std::fs;

use pincer_clients::{
    Client, ClientFile, Importer, Launch, Replace, Secrets, Surroundings, System, files_of, install, recognise,
};
use proptest::prelude::*;

fn place(client: Client) -> (tempfile::TempDir, Surroundings, ClientFile) {
    let folder = tempfile::tempdir().unwrap();
    let around = Surroundings::new(folder.path(), folder.path().join("app"), System::Linux);
    let file = files_of(client, &around).swap_remove(0);
    fs::create_dir_all(file.path.parent().unwrap()).unwrap();
    (folder, around, file)
}

/// What is told of a file, by reading and by installing, with the causes and without the folder.
fn told(client: Client, bytes: &[u8]) -> String {
    let (folder, around, file) = place(client);
    fs::write(&file.path, bytes).unwrap();
    let error = Importer::new(&around, Secrets::Variables).read(&file).expect_err("it should be refused");
    let launch = Launch { program: "/bin/pincer".into(), ..Launch::default() };
    let refused = install(&file, &launch, &Replace::Beside, std::time::UNIX_EPOCH).expect_err("it should be refused");
    assert_eq!(refused.to_string(), error.to_string());
    assert_eq!(fs::read(&file.path).unwrap(), bytes, "a broken file is left alone");
    assert_eq!(fs::read_dir(file.path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
    format!("{error}{cause}").replace(folder.path().to_str().unwrap(), "~")
}

#[test]
fn a_broken_file_is_told_with_its_name_and_its_place() {
    use Client::{Codex, Cursor};
    let deep_json = format!("{{ \"mcpServers\": {}", "[".repeat(200_000));
    let deep_toml = format!("a = {}", "[".repeat(200_000));
    for (client, bytes, expected) in [
        (Cursor, "{\n  \"mcpServers\": {,}\n}".as_bytes(), "~/.cursor/mcp.json: line 2, column 18: this is not JSON5"),
        (Cursor, b"{ \"mcpServers\": ", "~/.cursor/mcp.json: line 1, column "),
        (Cursor, b"{ \"mcpServers\": [] }", "~/.cursor/mcp.json: `mcpServers` is not an object"),
        (Cursor, b"[]", "~/.cursor/mcp.json: it is not an object"),
        (
            Cursor,
            b"{ \"a\": \"\xff\" }",
            "~/.cursor/mcp.json cannot be read: it is not UTF-8 text: the first bad byte is number 9",
        ),
        (Cursor, deep_json.as_bytes(), "~/.cursor/mcp.json: line 1, column 80: this is nested more than 64 deep"),
        (Codex, b"a = 1\n[mcp_servers\n", "~/.codex/config.toml: line 2, column 13: this is not TOML"),
        (Codex, b"[a]\nb = 1\nb = 2\n", "~/.codex/config.toml: line 3, column 1: this is not TOML"),
        (Codex, b"mcp_servers = 5", "~/.codex/config.toml: `mcp_servers` is not an object"),
        (Codex, deep_toml.as_bytes(), "~/.codex/config.toml: line 1, column "),
    ] {
        let told = told(client, bytes);
        assert!(told.starts_with(expected), "{told}");
    }
}

#[test]
fn what_is_no_file_is_refused_without_waiting() {
    let (_folder, around, file) = place(Client::Cursor);
    let told = |file: &ClientFile| {
        let error = Importer::new(&around, Secrets::Keep).read(file).unwrap_err();
        error.source().unwrap().to_string()
    };
    assert!(told(&file).contains("No such file"));
    fs::create_dir(&file.path).unwrap();
    assert_eq!(told(&file), "it is not a file");
    let device = ClientFile { path: "/dev/zero".into(), ..file };
    assert_eq!(told(&device), "it is not a file");
}

#[test]
fn a_huge_file_is_read_and_a_gigantic_one_refused() {
    let (_folder, around, file) = place(Client::ClaudeCode);
    let history = "\"x\", ".repeat(1 << 20);
    let text = format!("{{ \"history\": [{history} \"y\"], \"mcpServers\": {{ \"a\": {{ \"command\": \"c\" }} }} }}");
    fs::write(&file.path, text).unwrap();
    assert_eq!(Importer::new(&around, Secrets::Keep).read(&file).unwrap().servers.len(), 1);
    fs::File::create(&file.path).unwrap().set_len((64 << 20) + 1).unwrap();
    let error = Importer::new(&around, Secrets::Keep).read(&file).unwrap_err();
    assert!(error.source().unwrap().to_string().starts_with("it has more than"), "{error}");
}

#[test]
fn words_of_others_are_shown_short_and_on_one_line() {
    let (_folder, around, file) = place(Client::Cursor);
    let long = "x".repeat(10_000);
    fs::write(
        &file.path,
        format!(r#"{{ "mcpServers": {{ "a": {{ "type": "\u001b[31m\n{long}", "url": "http://x" }} }} }}"#),
    )
    .unwrap();
    let reading = Importer::new(&around, Secrets::Keep).read(&file).unwrap();
    let told = reading.left_out[0].reason.to_string();
    assert!(told.len() < 120 && !told.contains(['\u{1b}', '\n']), "{told}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_reading_panic(
        text in "[{}\\[\\]:,'\"/*=.# \n$a-z0-9\u{e9}\u{feff}]{0,60}", toml in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let around = Surroundings::new(folder.path(), folder.path(), System::Linux);
        let path = folder.path().join(if toml { "a.toml" } else { "a.json" });
        fs::write(&path, &text).unwrap();
        for file in recognise(&path, &around).unwrap_or_default() {
            let _ = Importer::new(&around, Secrets::Variables).read(&file);
        }
    }

    #[test]
    fn any_value_of_any_key_is_read_or_left_out(
        key in prop::sample::select(vec![
            "command", "url", "args", "env", "cwd", "type", "headers", "auth", "oauth", "scopes", "enabled", "env_vars",
            "startup_timeout_sec", "env_http_headers", "bearer_token_env_var", "enabled_tools", "other",
        ]),
        value in prop::sample::select(vec![
            "null", "true", "-1", "1e308", "\"\"", "\"${\"", "\"${env:A}$${input:b}\"", "[]", "[null]", "[[1]]", "{}",
            "{ \"a\": null }", "{ \"scopes\": 5 }", "{ \"callbackPort\": 70000 }", "{ \"\": \"\\u0000\" }",
        ]),
    ) {
        let (_folder, around, file) = place(Client::VsCode);
        fs::write(&file.path, format!("{{ \"servers\": {{ \"a\": {{ \"command\": \"x\", \"{key}\": {value} }} }} }}")).unwrap();
        let reading = Importer::new(&around, Secrets::Variables).read(&file).unwrap();
        prop_assert_eq!(reading.servers.len() + reading.left_out.len(), 1);
        let servers = reading.servers.into_iter().map(|found| (found.name, found.server)).collect();
        let added = pincer_config::add_servers("", &servers, pincer_config::Existing::Keep, &|_| None);
        prop_assert!(added.is_ok(), "{:?}", added);
    }
}
