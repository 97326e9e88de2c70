//! `pincer secrets` and `${secret:NAME}`: where values are kept, that servers get them, and that nothing shows them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::Home;
use serde_json::{Value, json};

const VALUE: &str = "a value & with 'signs";

/// A server that writes down what is in its environment before it works.
fn server(token: &str) -> Value {
    let program = pincer_testkit::program("mcp-fixture").unwrap();
    let noting = "printf %s \"$TOKEN\" > \"$HOME/got\"; echo \"I got $TOKEN\" >&2; exec \"$0\" stdio";
    json!({ "command": "sh", "args": ["-c", noting, program], "env": { "TOKEN": token } })
}

fn home(more: Value) -> Home {
    let mut config = json!({ "mcp": { "servers": { "one": server("${secret:TOKEN}") } } });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Home::with(&config.to_string())
}

/// Exit code, and everything that was shown.
fn with_input(home: &Home, arguments: &[&str], input: &str) -> (i32, String) {
    let mut command = home.command(arguments);
    command.env("PATH", format!("{}:{}", home.path("bin").display(), std::env::var("PATH").unwrap()));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let shown = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(!shown.contains(VALUE), "{arguments:?}: {shown}");
    (output.status.code().unwrap(), shown)
}

fn run(home: &Home, arguments: &[&str]) -> (i32, String) {
    with_input(home, arguments, "")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn works(home: &Home) {
    let _ = fs::remove_file(home.path("got"));
    let (code, shown) = run(home, &["mcp", "test", "one"]);
    assert_eq!(code, 0, "{shown}");
    assert_eq!(fs::read_to_string(home.path("got")).unwrap(), VALUE);
}

#[test]
fn a_secret_is_kept_privately_given_to_its_server_and_shown_nowhere() {
    let home = home(json!({}));
    let (code, shown) = run(&home, &["mcp", "list", "--cached"]);
    assert!(
        code == 0 && shown.contains("one: it needs the secret TOKEN: it is not set; run `pincer secrets set TOKEN`")
    );
    assert_eq!(run(&home, &["config", "validate"]).0, 2);
    let (code, shown) = with_input(&home, &["secrets", "set", "TOKEN"], &format!("{VALUE}\n"));
    assert!(code == 0 && shown.contains("${secret:TOKEN}"), "{shown}");
    let file = home.path(".state/pincer/secrets.json");
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    works(&home);
    assert_eq!(run(&home, &["config", "validate"]).0, 0);
    let (code, listed) = home.json(&["secrets", "list", "--json"]);
    assert_eq!((code, listed), (0, json!([{ "name": "TOKEN", "kept": "state" }])));
    assert_eq!(run(&home, &["config", "show"]).0, 0);
    let log = fs::read_to_string(home.path(".state/pincer/logs/mcp/one.log")).unwrap();
    assert!(log.contains("I got [redacted]") && !log.contains(VALUE), "{log}");
    // A file that others can read is not used.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, shown) = run(&home, &["mcp", "test", "one"]);
    assert!(code == 1 && shown.contains("chmod 600"), "{shown}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(run(&home, &["secrets", "remove", "TOKEN"]).0, 0);
    assert_eq!(run(&home, &["secrets", "remove", "TOKEN"]).0, 1);
    assert!(!fs::read_to_string(&file).unwrap().contains(VALUE));
    assert_eq!(run(&home, &["mcp", "test", "one"]).0, 1);
}

#[test]
fn secrets_come_from_files_commands_and_the_keychain() {
    for source in [
        json!({ "file": "kept/token" }),
        json!({ "command": ["sh", "-c", "cat kept/token; echo noise >&2"] }),
        json!({ "keychain": "mine" }),
    ] {
        let home = home(json!({ "secrets": { "TOKEN": source } }));
        fs::create_dir(home.path("kept")).unwrap();
        fs::write(home.path("kept/token"), format!("{VALUE}\n")).unwrap();
        fs::create_dir(home.path("bin")).unwrap();
        keychain(&home);
        fs::write(home.path("chain-mine"), VALUE).unwrap();
        works(&home);
        let (code, shown) = with_input(&home, &["secrets", "set", "TOKEN"], VALUE);
        assert!(code == 2 && shown.contains("the config says where TOKEN is kept"), "{shown}");
        let (_, listed) = home.json(&["secrets", "list", "--json"]);
        let kept = source.as_object().unwrap().keys().next().unwrap();
        assert_eq!(listed, json!([{ "name": "TOKEN", "kept": kept }]));
    }
}

/// A keychain in files, with the words of the real one. Its arguments are noted.
fn keychain(home: &Home) {
    let script = "#!/bin/sh\necho \"$@\" >> \"$HOME/said\"\nfor last; do :; done\ncase $1 in\n\
                  lookup) exec cat \"$HOME/chain-$last\" ;;\nstore) exec cat > \"$HOME/chain-$last\" ;;\n\
                  clear) exec rm \"$HOME/chain-$last\" ;;\nesac\n";
    let tool = home.path("bin/secret-tool");
    fs::write(&tool, script).unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn the_systems_keychain_keeps_a_secret_if_it_is_asked_to() {
    let home = home(json!({}));
    fs::create_dir(home.path("bin")).unwrap();
    keychain(&home);
    let (code, shown) = with_input(&home, &["secrets", "set", "TOKEN", "--keychain"], VALUE);
    assert_eq!(code, 0, "{shown}");
    assert!(!fs::read_to_string(home.path(".state/pincer/secrets.json")).unwrap().contains(VALUE));
    assert!(!fs::read_to_string(home.path("said")).unwrap().contains(VALUE), "arguments can be seen by others");
    works(&home);
    let (_, listed) = home.json(&["secrets", "list", "--json"]);
    assert_eq!(listed, json!([{ "name": "TOKEN", "kept": "keychain" }]));
    assert_eq!(run(&home, &["secrets", "remove", "TOKEN"]).0, 0);
    assert!(!home.path("chain-TOKEN").exists());
}

#[test]
fn a_source_that_fails_or_hangs_takes_its_server_down_with_the_reason() {
    for (source, says) in [
        (json!({ "file": "nowhere" }), "nowhere cannot be used"),
        (json!({ "file": "." }), "it is not a file"),
        (json!({ "command": ["false"] }), "`false` failed (exit status: 1)"),
        (json!({ "command": ["no-such-program"] }), "`no-such-program` cannot be run"),
        (json!({ "command": ["true"] }), "what `true` gives is empty"),
        (json!({ "command": ["sh", "-c", "sleep 1000 & echo $! > sleeping; wait"] }), "took longer than"),
        (json!({ "command": ["sh", "-c", "yes"] }), "has more than"),
    ] {
        let home = home(json!({ "secrets": { "TOKEN": source } }));
        let mut config: Value = serde_json::from_str(&fs::read_to_string(home.path("pincer.json5")).unwrap()).unwrap();
        config["mcp"]["servers"]["one"]["connectTimeoutMs"] = 1000.into();
        fs::write(home.path("pincer.json5"), config.to_string()).unwrap();
        let began = Instant::now();
        let (code, shown) = run(&home, &["mcp", "test", "one"]);
        assert!(code == 1 && shown.contains("needs the secret TOKEN") && shown.contains(says), "{source}: {shown}");
        assert!(began.elapsed() < Duration::from_secs(20), "{source}");
        assert_eq!(run(&home, &["exec", "-e", "return 1"]).0, 0, "others are not harmed");
        if let Ok(pid) = fs::read_to_string(home.path("sleeping")) {
            // One that has ended and was not waited for has no words any more.
            let words = fs::read(Path::new("/proc").join(pid.trim()).join("cmdline")).unwrap_or_default();
            assert!(words.is_empty(), "it is still there");
        }
    }
}

#[test]
fn a_secret_elsewhere_in_the_config_must_be_there() {
    let config =
        "{ mcp: { serve: { tokens: { me: '${secret:TOKEN}' } } }, secrets: { A: { file: '${secret:TOKEN}' } } }";
    let (code, told) = Home::with(config).json(&["config", "validate", "--json"]);
    let paths: Vec<&str> =
        told["problems"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!((code, paths), (2, vec!["mcp.serve.tokens.me", "secrets.A.file"]), "{told}");
    let home = Home::with("{ mcp: { serve: { tokens: { me: '${secret:TOKEN}' } } } }");
    assert_eq!(with_input(&home, &["secrets", "set", "TOKEN"], "a-value-without-spaces").0, 0);
    let (code, shown) = run(&home, &["config", "show"]);
    assert!(code == 0 && !shown.contains("a-value-without"), "{shown}");
    // A config that is only looked at starts nothing.
    let command = "secrets: { TOKEN: { command: ['sh', '-c', 'echo a-value-without-spaces; touch ran'] } }";
    let home = Home::with(&format!("{{ mcp: {{ serve: {{ tokens: {{ me: '${{secret:TOKEN}}' }} }} }}, {command} }}"));
    for arguments in [["config", "validate"], ["config", "show"], ["secrets", "list"]] {
        assert_eq!(run(&home, &arguments).0, 0);
        assert!(!home.path("ran").exists(), "{arguments:?}");
    }
    assert_eq!(run(&home, &["exec", "-e", "return 1"]).0, 0);
    assert!(home.path("ran").exists());
    // A problem is told without the value, and with the nearest key.
    for (config, says) in [
        ("{ secrets: { A: 'a-value-without-spaces' } }", "secrets.A: a string is not an object"),
        ("{ secrets: { A: { comand: ['x'] } } }", "secrets.A.comand: there is no such key"),
        ("{ secrets: { A: { command: [] } } }", "secrets.A.command: there is no command to run"),
        ("{ secrets: { 'a b': { file: 'x' } } }", "this cannot be the name of a secret"),
    ] {
        let (code, shown) = run(&Home::with(config), &["config", "validate"]);
        assert!(code == 2 && shown.contains(says) && !shown.contains("a-value"), "{config}: {shown}");
    }
}

#[test]
fn programs_cannot_read_secrets_though_they_lie_in_the_workspace() {
    let home = home(json!({}));
    assert_eq!(with_input(&home, &["secrets", "set", "TOKEN"], VALUE).0, 0);
    fs::create_dir_all(home.path(".state/pincer/mcp-auth")).unwrap();
    fs::write(home.path(".state/pincer/mcp-auth/far.json"), VALUE).unwrap();
    fs::write(home.path(".state/pincer/mcp-import.json"), VALUE).unwrap();
    std::os::unix::fs::symlink(".state/pincer/secrets.json", home.path("link")).unwrap();
    fs::hard_link(home.path(".state/pincer/secrets.json"), home.path("name")).unwrap();
    let program = "const read = (path) => tools.read({ path }).then(() => 'read', (error) => error.message);
        const paths = ['secrets.json', 'mcp-auth/far.json', 'mcp-import.json'].map((name) => '.state/pincer/' + name);
        const found = await tools.grep({ pattern: 'with .signs', hidden: true }).catch((error) => error.message);
        return [await Promise.all([...paths, 'link', 'name'].map(read)), JSON.stringify(found)]";
    let (code, done) = home.json(&["exec", "--json", "-e", program]);
    assert_eq!(code, 0, "{done}");
    for said in done["value"][0].as_array().unwrap() {
        assert!(said.as_str().unwrap().contains("holds secrets of Pincer, which tools do not read"), "{done}");
    }
    assert!(!done.to_string().contains(VALUE), "{done}");
}

#[test]
fn values_that_cannot_be_secrets_are_refused() {
    let home = Home::with("{}");
    for (name, input, code) in
        [("A", "", 1), ("A", "\n", 1), ("A", "x\0y", 1), ("A", &"x".repeat(70_000), 1), ("a b", "x", 2), ("-", "x", 2)]
    {
        assert_eq!(with_input(&home, &["secrets", "set", name], input).0, code, "{name} {}", input.len());
    }
    let (code, shown) = run(&home, &["secrets", "set", "A", "value"]);
    assert!(code == 2 && shown.contains("unexpected argument"), "{shown}");
}

#[test]
fn on_a_terminal_the_value_is_asked_for_and_not_shown() {
    const ASK: &str = r#"
import os, pty, sys, termios, time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
shown, answered = b"", False
while True:
    try:
        piece = os.read(terminal, 4096)
    except OSError:
        break
    if not piece:
        break
    shown += piece
    if not answered and b"(not shown): " in shown:
        answered = True
        # What is typed before the terminal is told to be silent is thrown away.
        while termios.tcgetattr(terminal)[3] & termios.ECHO:
            time.sleep(0.01)
        time.sleep(0.1)
        os.write(terminal, sys.argv[1].encode() + b"\n")
sys.stdout.write(shown.decode(errors="replace"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;
    let home = home(json!({}));
    let pincer = home.command(&["secrets", "set", "TOKEN"]);
    let mut python = Command::new("python3");
    python.args(["-c", ASK, VALUE]).arg(pincer.get_program()).args(pincer.get_args());
    python.current_dir(home.path("")).env_clear().env("TERM", "xterm");
    python.envs(pincer.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = python.output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && shown.contains("value of TOKEN") && !shown.contains("signs"), "{shown}");
    works(&home);
}
