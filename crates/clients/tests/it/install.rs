//! Pincer in the files of clients, and what becomes of the rest of them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pincer_clients::{
    Change, Client, ClientError, ClientFile, Importer, Launch, Passing, Reason, Replace, Secrets, Surroundings, System,
    block, files_of, install, preview,
};

fn launch() -> Launch {
    Launch { program: "/opt/pincer".into(), config: Some("/home/me/pincer.json5".into()), ..Launch::default() }
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(951_782_400)
}

struct Machine {
    _folder: tempfile::TempDir,
    around: Surroundings,
    file: ClientFile,
}

fn place(client: Client, text: Option<&str>) -> Machine {
    let folder = tempfile::tempdir().unwrap();
    let around = Surroundings::new(folder.path(), folder.path().join("app"), System::Linux);
    let file = files_of(client, &around).swap_remove(0);
    if let Some(text) = text {
        fs::create_dir_all(file.path.parent().unwrap()).unwrap();
        fs::write(&file.path, text).unwrap();
    }
    Machine { _folder: folder, around, file }
}

impl Machine {
    fn text(&self) -> String {
        fs::read_to_string(&self.file.path).unwrap()
    }

    fn beside(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.file.path.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn the_block_is_what_the_client_wants_to_see() {
    let json = "{\n  \"mcpServers\": {\n    \"pincer\": {\n      \"command\": \"/opt/pincer\",\n      \"args\": [\"mcp\", \"serve\", \"--config\", \"/home/me/pincer.json5\"]\n    }\n  }\n}\n";
    let typed = json.replace("      \"command\"", "      \"type\": \"stdio\",\n      \"command\"");
    let toml = "[mcp_servers.pincer]\ncommand = \"/opt/pincer\"\nargs = [\"mcp\", \"serve\", \"--config\", \"/home/me/pincer.json5\"]\n";
    for (client, expected) in [
        (Client::ClaudeDesktop, json),
        (Client::ClaudeCode, &typed),
        (Client::Cursor, json),
        (Client::VsCode, &typed.replace("mcpServers", "servers")),
        (Client::Codex, toml),
    ] {
        assert_eq!(block(client, &launch()).unwrap(), expected, "{client:?}");
        // Into a file that is not there, it is the whole file.
        let place = place(client, None);
        let done = install(&place.file, &launch(), &Replace::Beside, now()).unwrap();
        assert_eq!((done.change, done.backup), (Change::Added, None));
        assert_eq!(place.text().trim_start(), expected, "{client:?}");
        // What we have written we know: it is not imported, and not written again.
        let reading = Importer::new(&place.around, Secrets::Keep).read(&place.file).unwrap();
        assert_eq!(reading.left_out[0].reason, Reason::Ourselves);
        let again = install(&place.file, &launch(), &Replace::Beside, now()).unwrap();
        assert_eq!((again.change, again.backup), (Change::Unchanged, None));
        assert_eq!(place.beside().len(), 1);
    }
}

#[test]
fn variables_go_with_it() {
    let launch = Launch { variables: [("TOKEN".to_owned(), Passing::Written("t".to_owned()))].into(), ..launch() };
    assert!(block(Client::Cursor, &launch).unwrap().contains("\"env\": {\n        \"TOKEN\": \"t\"\n      }"));
    assert!(block(Client::Codex, &launch).unwrap().contains("env = { TOKEN = \"t\" }"));
}

#[test]
fn the_rest_of_a_file_stays_as_it_is() {
    for (client, text, replace, expected) in [
        (
            Client::VsCode,
            "\u{feff}// mine\r\n{\r\n\t\"inputs\": [], // none\r\n\t\"servers\": {\r\n\t\t\"a\": { \"command\": \"a\" }, // about a\r\n\t\t// \"off\": {},\r\n\t},\r\n}\r\n",
            Replace::Beside,
            "\u{feff}// mine\r\n{\r\n\t\"inputs\": [], // none\r\n\t\"servers\": {\r\n\t\t\"a\": { \"command\": \"a\" }, // about a\r\n\t\t// \"off\": {},\r\n\t\t\"pincer\": {\r\n\t\t\t\"type\": \"stdio\",\r\n\t\t\t\"command\": \"/opt/pincer\",\r\n\t\t\t\"args\": [\"mcp\", \"serve\", \"--config\", \"/home/me/pincer.json5\"]\r\n\t\t},\r\n\t},\r\n}\r\n",
        ),
        (
            Client::Cursor,
            "{\n    \"mcpServers\": {\n        \"a\": { \"command\": \"a\" },\n        \"b\": {\n            \"command\": \"b\"\n        }\n    },\n    \"other\": [1, 2.50, 1e3]\n}",
            Replace::Instead(vec!["a".into(), "b".into(), "not there".into()]),
            "{\n    \"mcpServers\": {\n        \"pincer\": {\n            \"command\": \"/opt/pincer\",\n            \"args\": [\"mcp\", \"serve\", \"--config\", \"/home/me/pincer.json5\"]\n        }\n    },\n    \"other\": [1, 2.50, 1e3]\n}",
        ),
        (
            Client::Codex,
            "# mine\nmodel = \"o\"   # the model\n\n[mcp_servers.a]\ncommand = 'a' # quoted so\n\n[mcp_servers.a.env]\nX = \"1\"\n\n[mcp_servers.b]\nurl = \"https://b\"\n\n# my profile\n[profiles.x]\nmodel='y'\n",
            Replace::Instead(vec!["a".into()]),
            "# mine\nmodel = \"o\"   # the model\n\n[mcp_servers.b]\nurl = \"https://b\"\n\n[mcp_servers.pincer]\ncommand = \"/opt/pincer\"\nargs = [\"mcp\", \"serve\", \"--config\", \"/home/me/pincer.json5\"]\n\n# my profile\n[profiles.x]\nmodel='y'\n",
        ),
        (
            Client::Codex,
            "mcp_servers = { a = { command = \"a\" } } # inline\r\n",
            Replace::Beside,
            "mcp_servers = { a = { command = \"a\" } , pincer = { command = \"/opt/pincer\", args = [\"mcp\", \"serve\", \"--config\", \"/home/me/pincer.json5\"] } } # inline\r\n",
        ),
        (
            Client::Codex,
            "model = \"o\"\r\n[mcp_servers]\r\n[mcp_servers.pincer]\r\ncommand = \"/old/pincer\"\r\nargs = [\"mcp\", \"serve\"]\r\n[z]\r\n",
            Replace::Beside,
            "model = \"o\"\r\n[mcp_servers]\r\n[mcp_servers.pincer]\r\ncommand = \"/opt/pincer\"\r\nargs = [\"mcp\", \"serve\", \"--config\", \"/home/me/pincer.json5\"]\r\n[z]\r\n",
        ),
    ] {
        let place = place(client, Some(text));
        assert_eq!(preview(&place.file, &launch(), &replace).unwrap(), expected);
        assert_eq!(place.text(), text, "a preview changes nothing");
        let done = install(&place.file, &launch(), &replace, now()).unwrap();
        assert_eq!(place.text(), expected);
        let backup = done.backup.unwrap();
        assert_eq!(fs::read_to_string(&backup).unwrap(), text);
        let name = place.file.path.file_name().unwrap().to_str().unwrap();
        assert_eq!(backup.file_name().unwrap().to_str().unwrap(), format!("{name}.pincer-backup-20000229T000000Z"));
    }
}

#[test]
fn claude_codes_file_keeps_all_else_that_is_in_it() {
    let place = place(
        Client::ClaudeCode,
        Some("{\"numStartups\":12,\"projects\":{\"/x\":{\"history\":[]}},\"big\":123456789012345678901234567890}"),
    );
    install(&place.file, &launch(), &Replace::Beside, now()).unwrap();
    let local = files_of(Client::ClaudeCode, &place.around).swap_remove(1);
    install(&local, &launch(), &Replace::Beside, now()).unwrap();
    let entry = "{ \"pincer\": { \"type\": \"stdio\", \"command\": \"/opt/pincer\", \"args\": [\"mcp\", \"serve\", \"--config\", \"/home/me/pincer.json5\"] } }";
    let here = place.around.directory.to_str().unwrap();
    assert_eq!(
        place.text(),
        format!(
            "{{\"numStartups\":12,\"projects\":{{\"/x\":{{\"history\":[]}}, \"{here}\": {{ \"mcpServers\": {entry} }}}},\"big\":123456789012345678901234567890, \"mcpServers\": {entry}}}"
        )
    );
    // Two backups of the same second do not overwrite each other.
    assert!(place.beside().iter().any(|name| name.ends_with("Z-2")), "{:?}", place.beside());
}

#[test]
fn an_old_entry_of_ours_is_updated_and_that_of_another_is_not() {
    let ours = place(
        Client::Cursor,
        Some(r#"{ "mcpServers": { "pincer": { "command": "/old/pincer", "args": ["mcp", "serve"] } } }"#),
    );
    assert_eq!(install(&ours.file, &launch(), &Replace::Beside, now()).unwrap().change, Change::Updated);
    let text = r#"{ "mcpServers": { "pincer": { "command": "crab" } } }"#;
    let theirs = place(Client::Cursor, Some(text));
    let error = install(&theirs.file, &launch(), &Replace::Beside, now()).unwrap_err();
    assert!(matches!(error, ClientError::Taken { .. }), "{error}");
    assert_eq!((theirs.text().as_str(), theirs.beside().len()), (text, 1));
}

#[test]
fn pincer_is_never_taken_out_by_its_own_name() {
    let place = place(Client::Cursor, Some(r#"{ "mcpServers": {} }"#));
    let done = install(&place.file, &launch(), &Replace::Instead(vec!["pincer".into()]), now()).unwrap();
    assert!(done.removed.is_empty() && place.text().contains("/opt/pincer"));
}

#[cfg(unix)]
#[test]
fn a_program_whose_path_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let launch = Launch { program: PathBuf::from(std::ffi::OsString::from_vec(vec![b'/', 0xff])), ..Launch::default() };
    assert!(matches!(block(Client::Cursor, &launch), Err(ClientError::Path { .. })));
}
