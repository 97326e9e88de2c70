//! Names, secrets and variables of all that was found, and that our config takes it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use crate::home::{Home, read, remarks, shown};
use pincer_clients::{Client, Importer, Reading, Reason, Secrets, recognise};
use pincer_config::{Existing, add_servers, parse};
use serde_json::json;

#[test]
fn names_are_unique_over_all_files_and_the_same_server_is_found_once() {
    let home = Home::new(&[]);
    let (cursor, code) = (home.file(Client::Cursor, 0), home.file(Client::VsCode, 0));
    let home = home
        .with(&cursor, r#"{ "mcpServers": { "a b": { "command": "1" }, "a-b": { "command": "2" }, "A_B": { "command": "3" }, "A-B": { "command": "4" } } }"#)
        .with(&code, r#"{ "servers": { "a-b": { "command": "2", "type": "stdio" }, "a.b": { "command": "1" } } }"#);
    let mut importer = Importer::new(&home.around, Secrets::Keep);
    let names = |reading: &Reading| reading.servers.iter().map(|found| found.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&importer.read(&cursor).unwrap()), ["a-b", "a-b-2", "A_B", "A-B-3"]);
    let second = importer.read(&code).unwrap();
    assert_eq!(names(&second), ["a.b"]);
    assert_eq!(second.left_out[0].reason, Reason::Same("a-b-2".into()));
}

#[test]
fn a_key_that_stands_twice_is_told_and_the_last_counts() {
    let reading = read(Client::Cursor, 0, r#"{ "mcpServers": { "a": { "command": "1" }, "a": { "command": "2" } } }"#);
    assert_eq!(shown(&reading), json!({ "a": { "command": "2" } }));
    assert_eq!(remarks(&reading), ["`a` stands twice in this file; the last one counts"]);
}

#[test]
fn secrets_become_variables_and_are_not_lost() {
    let text = r#"{ "mcpServers": {
      "one": { "command": "x", "args": ["--api-key", "s3cret"], "env": { "GITHUB_TOKEN": "ghp_one", "LOG": "debug", "REF": "${env:REF}", "ODD_KEY": "a${b}" } },
      "two": { "command": "x", "env": { "GITHUB_TOKEN": "ghp_two", "API_KEY": "here", "OTHER_KEY": "mine", "A_TOKEN": "t", "Z": "${env:A_TOKEN}" } },
      "net": { "url": "https://n", "headers": { "Authorization": "Bearer abc.def", "X-Api-Key": "k", "Accept": "text/plain" } }
    } }"#;
    let home = Home::new(&[("API_KEY", "here"), ("OTHER_KEY", "somebody else's")]);
    let file = home.file(Client::Cursor, 0);
    let home = home.with(&file, text);
    let reading = Importer::new(&home.around, Secrets::Variables).read(&file).unwrap();
    assert_eq!(
        shown(&reading),
        json!({
            "one": { "command": "x", "args": ["--api-key", "s3cret"], "env": { "GITHUB_TOKEN": "${GITHUB_TOKEN}", "LOG": "debug", "REF": "${REF}", "ODD_KEY": "${ODD_KEY}" } },
            "two": { "command": "x", "env": { "GITHUB_TOKEN": "${TWO_GITHUB_TOKEN}", "API_KEY": "${API_KEY}", "OTHER_KEY": "${TWO_OTHER_KEY}", "A_TOKEN": "${TWO_A_TOKEN}", "Z": "${A_TOKEN}" } },
            "net": { "url": "https://n", "headers": { "Authorization": "Bearer ${NET_TOKEN}", "X-Api-Key": "${NET_X_API_KEY}", "Accept": "text/plain" } },
        })
    );
    let needed: Vec<_> = reading
        .variables
        .iter()
        .map(|needed| (needed.name.as_str(), needed.value.as_ref().map(|value| value.reveal()), needed.is_set))
        .collect();
    assert_eq!(
        needed,
        [
            ("API_KEY", Some("here"), true),
            ("A_TOKEN", None, false),
            ("GITHUB_TOKEN", Some("ghp_one"), false),
            ("NET_TOKEN", Some("abc.def"), false),
            ("NET_X_API_KEY", Some("k"), false),
            ("ODD_KEY", Some("a${b}"), false),
            ("REF", None, false),
            ("TWO_A_TOKEN", Some("t"), false),
            ("TWO_GITHUB_TOKEN", Some("ghp_two"), false),
            ("TWO_OTHER_KEY", Some("mine"), false),
        ]
    );
    assert!(
        remarks(&reading).iter().any(|remark| remark.starts_with("an argument or the address looks like a secret"))
    );
    let printed = format!("{reading:?}");
    assert!(!["ghp_one", "ghp_two", "abc.def"].iter().any(|secret| printed.contains(secret)), "{printed}");

    // With those variables set, each server gets what it got before.
    let servers = reading.servers.iter().map(|found| (found.name.clone(), found.server.clone())).collect();
    let edited = add_servers("", &servers, Existing::Keep, &|_| None).unwrap();
    let lookup = |name: &str| {
        let needed = reading.variables.iter().find(|needed| needed.name == name)?;
        Some(needed.value.as_ref().map_or("of the environment", |value| value.reveal()).to_owned())
    };
    let config = parse(&edited.text, &lookup).unwrap().config;
    assert_eq!(config.mcp.servers["one"].env["ODD_KEY"], "a${b}");
    assert_eq!(config.mcp.servers["two"].env["GITHUB_TOKEN"], "ghp_two");
    assert_eq!(config.mcp.servers["net"].headers["Authorization"], "Bearer abc.def");
}

#[test]
fn whatever_is_found_can_stand_in_our_config() {
    let odd = r#"{
      "": { "command": "a" }, "__": { "command": "b" }, "größe": { "url": "https://x" }, "1": { "command": "${X}" },
      "very long name that goes on and on until it is longer than any name may be, and then on": { "command": "c" },
      "very long name that goes on and on until it is longer than any name may be, and further": { "command": "d" },
      "quote\"'": { "command": "e", "args": ["\"", "'", "\\", "\n", "${", "$${", "\u2028", "/*", "//"] }
    }"#;
    let home = Home::new(&[]);
    let path = home.folder.path().join("any.json");
    fs::write(&path, odd).unwrap();
    let file = recognise(Path::new(&path), &home.around).unwrap().swap_remove(0);
    let reading = Importer::new(&home.around, Secrets::Variables).read(&file).unwrap();
    assert_eq!(reading.servers.len(), 7);
    let servers = reading.servers.iter().map(|found| (found.name.clone(), found.server.clone())).collect();
    let edited = add_servers("// mine\n{ tools: {} }", &servers, Existing::Keep, &|_| None).unwrap();
    assert_eq!(edited.added.len(), 7);
    let config = parse(&edited.text, &|_| Some("v".into())).unwrap().config;
    let quoted = config.mcp.servers.values().find(|server| server.command.as_deref() == Some("e")).unwrap();
    assert_eq!(quoted.args, ["\"", "'", "\\", "\n", "${", "$${", "\u{2028}", "/*", "//"]);
}
