//! Configs, state and plugins are the user's own, and Pincer's files are for the user alone.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::Home;
use serde_json::json;

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_config_that_others_can_change_is_not_used_unless_it_is_named() {
    let home = Home::with("{}");
    let config = home.path("pincer.json5");
    let run = |arguments: &[&str]| home.run(&[&["exec", "-e", "return 1"], arguments].concat());
    chmod(&config, 0o664);
    let (code, out, err) = run(&[]);
    assert_eq!((code, out.as_str()), (0, "1\n"));
    assert!(err.starts_with("warning: ") && err.contains("can be changed by its group: run `chmod g-w"), "{err}");
    chmod(&config, 0o646);
    let refused =
        |err: &str| err.contains("the config is not used") && err.contains("pincer.json5 can be changed by every user");
    let (code, _, err) = run(&[]);
    assert!(code != 0 && refused(&err) && err.contains("--config"), "{code} {err}");
    let (code, out, err) = run(&["--config", "pincer.json5"]);
    assert_eq!((code, out.as_str()), (0, "1\n"));
    assert!(err.starts_with("warning: ") && err.contains("can be changed by every user"), "{err}");
    let (code, validated) = home.json(&["config", "validate", "--json"]);
    assert_eq!((code, &validated["valid"]), (2, &json!(false)), "{validated}");
    // A directory in which every user can put another file in its place.
    chmod(&config, 0o644);
    chmod(&home.path("."), 0o777);
    assert!(run(&[]).2.contains("can be changed by every user"));
    chmod(&home.path("."), 0o1777);
    assert_eq!(run(&[]).0, 0);
    // Only root can give files away.
    if rustix::process::getuid().is_root() {
        chown(&config, Some(65534), None).unwrap();
        let (code, _, err) = run(&[]);
        assert!(code != 0 && err.contains("belongs to another user (uid 65534)"), "{err}");
        chown(&config, Some(0), None).unwrap();
        // A link of another user that leads to a file of one's own.
        fs::rename(&config, home.path("mine.json5")).unwrap();
        std::os::unix::fs::symlink("mine.json5", &config).unwrap();
        std::os::unix::fs::lchown(&config, Some(65534), None).unwrap();
        assert!(run(&[]).2.contains("belongs to another user"));
    }
}

#[test]
fn state_and_plugins_that_others_can_change_are_not_used() {
    let home = Home::with("{ plugins: { paths: ['extensions'] } }");
    fs::create_dir_all(home.path("state")).unwrap();
    chmod(&home.path("state"), 0o777);
    let (code, _, err) = home.run(&["exec", "-e", "1", "--state-dir", "state"]);
    assert!(code != 0 && err.contains("the state directory is not used: "), "{code} {err}");
    let plugin = home.path("extensions/first");
    fs::create_dir_all(&plugin).unwrap();
    let manifest = "{ id: 'first', version: '1.0.0', description: 'none', command: ['true'], tools: [] }";
    fs::write(plugin.join("pincer.plugin.json5"), manifest).unwrap();
    assert_eq!(home.run(&["tools", "list"]).0, 0);
    for (path, restored) in
        [("extensions", 0o755), ("extensions/first", 0o755), ("extensions/first/pincer.plugin.json5", 0o644)]
    {
        chmod(&home.path(path), restored | 0o022);
        let (code, _, err) = home.run(&["tools", "list"]);
        assert!(code != 0 && err.contains("plugins are not used: ") && err.contains(path), "{path}: {code} {err}");
        chmod(&home.path(path), restored);
    }
}

#[test]
fn whichever_command_makes_it_the_state_directory_is_for_the_user_alone() {
    let fixture = pincer_testkit::program("mcp-fixture").unwrap();
    let config = json!({ "mcp": { "servers": { "fixture": { "command": fixture, "args": ["stdio"] } } } }).to_string();
    let commands: [&[&str]; 9] = [
        &["exec", "-e", "1"],
        &["tools", "list"],
        &["approvals", "list"],
        &["runs", "list"],
        &["mcp", "list"],
        &["mcp", "test", "fixture"],
        &["mcp", "serve"],
        &["mcp", "serve", "--surface", "direct"],
        &["tools", "call", "ls", "{}"],
    ];
    let mut made = 0;
    for command in commands {
        let home = Home::with(&config);
        // The most generous mask there is.
        let words: Vec<String> =
            home.command(command).get_args().map(|word| word.to_str().unwrap().to_owned()).collect();
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask 0; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_pincer")]).args(words).stdin(Stdio::null());
        let pincer = home.command(command);
        shell
            .current_dir(home.path("."))
            .env_clear()
            .envs(pincer.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.output().unwrap();
        let mut left = vec![home.path(".state/pincer")];
        while let Some(directory) = left.pop().filter(|directory| directory.exists()) {
            made += 1;
            assert_eq!(mode(&directory), 0o700, "{command:?}: {}", directory.display());
            for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
                match entry.file_type().unwrap().is_dir() {
                    true => left.push(entry.path()),
                    false => assert_eq!(mode(&entry.path()) & 0o077, 0, "{command:?}: {}", entry.path().display()),
                }
            }
        }
    }
    assert!(made > commands.len(), "{made}");
}

#[test]
fn a_file_that_was_open_before_does_not_reach_commands() {
    let home = Home::with("{ tools: { exec: { mode: 'full' } } }");
    let input = json!({ "command": "echo leaked >&9 || echo kept" }).to_string();
    for (words, kept) in [
        (&["tools", "call", "exec", &input][..], "kept"),
        (&["confine", "--", "sh", "-c", "echo leaked >&9 || echo kept"], "kept"),
    ] {
        let pincer = home.command(words);
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec 9>leak; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_pincer")]).args(words);
        shell
            .current_dir(home.path("."))
            .env_clear()
            .envs(pincer.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = shell.output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains(kept), "{output:?}");
        assert_eq!(fs::read_to_string(home.path("leak")).unwrap(), "");
    }
}
