//! Shell commands are told from programs, also from broken ones.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use pincer_source::{Language, SourceError, prepare};

fn check(source: &str, expected: Option<&str>) {
    for language in [Language::JavaScript, Language::TypeScript] {
        let found = match prepare(source, language) {
            Err(SourceError::Shell { command }) => Some(command),
            _ => None,
        };
        assert_eq!(found.as_deref(), expected, "{source} {language:?}");
    }
}

#[test]
fn commands_are_recognised() {
    for source in [
        "ls",
        "ls -la",
        "ls --all",
        "ls | wc",
        "ls > files",
        "pwd",
        "cat x | grep y",
        "cat package.json",
        "cat <<EOF",
        "git status",
        "git commit -m \"x\"",
        "npm install && npm test",
        "cd /tmp; ls",
        "cd ..",
        "echo \"hi\" > f",
        "echo $HOME",
        "python3 -c 'print(1)'",
        "./run.sh",
        "../run.sh --fast",
        "~/bin/x",
        "/usr/bin/env node",
        "sudo rm -rf /",
        "$ ls",
        "$ npm test",
        "FOO=1 make",
        "FOO=1 BAR=x npm test",
        "find . -name '*.rs'",
        "curl -s https://example.com | jq .",
        "apt-get install -y jq",
        "node script.js",
        "rm -rf node_modules",
    ] {
        check(source, Some(source));
    }
    check("#!/bin/bash\nls", Some("#!/bin/bash"));
    check("# list\nls -la /", Some("# list"));
    check("pwd\nls /tmp", Some("pwd"));
    check("\n  git log\n", Some("git log"));
    let long = format!("echo {}", "x ".repeat(100));
    check(&long, Some(&format!("{}…", long.chars().take(80).collect::<String>())));
}

#[test]
fn programs_are_not_commands() {
    for source in [
        "find(x)",
        "test.foo",
        "git.status()",
        "cat.name",
        "ls()",
        "date",
        "sort",
        "const sort = 1; sort - 1",
        "const ls = 3\nls",
        "let ls = 1, la = 2; ls - la",
        "ls = 5",
        "ls => ls",
        "node = document",
        "test ? 1 : 2",
        "find in x",
        "let x = ;",
        "const a = await tools.read({path: \"x\"}",
        "fetch(\"x\"",
        "if (x { }",
        "for (const f of files { }",
        "return ls -la",
        "await git status",
        "find(x",
        "test = {",
        "sort.by(",
        "echo(\"hi\"",
        "make - 1 +",
        "head / tail +",
        "x -la",
        "{",
        "}",
        "interface A { b: }",
        "const ls: number = 1; ls -la",
        "type A = ",
        "#!/usr/bin/env node\nlet x = 1",
        "This is not a program at all.",
    ] {
        check(source, None);
    }
}

#[test]
fn the_message_shows_the_command() {
    let error = prepare("ls -la", Language::JavaScript).unwrap_err();
    assert_eq!(error.to_string(), "this is a shell command, not a program: ls -la");
}
