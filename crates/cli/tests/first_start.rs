//! Several commands that are the first ones at once: each finds what another one is still making.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use common::Home;

/// With a call, so that there is a run to store.
const EXEC: [&str; 3] = ["exec", "-e", "return (await tools.find({ pattern: '*' })).paths.length"];
/// Does little else than open the store: commands of this kind meet there.
const RUNS: [&str; 2] = ["runs", "list"];

/// Runs commands that begin at the same moment. Each waits for a line from a pipe before it becomes pincer: started one after the
/// other, the first would often be done before the last has begun.
fn at_once(home: &Home, cache: Option<&Path>, commands: &[&[&str]]) -> Vec<Output> {
    let gate = home.path("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().expect("mkfifo").success());
    // Open for both, so that opening it does not wait.
    let mut open = fs::File::options().read(true).write(true).open(&gate).unwrap();
    let start = |arguments: &&[&str]| {
        let pincer = home.command(arguments);
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"read go < gate; exec "$0" "$@""#]).arg(pincer.get_program()).args(pincer.get_args());
        shell.current_dir(home.path("")).env_clear();
        shell.envs(pincer.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(cache) = cache {
            shell.env("XDG_CACHE_HOME", cache);
        }
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sh")
    };
    let started: Vec<Child> = commands.iter().map(start).collect();
    // One that is not there yet finds its line later.
    thread::sleep(Duration::from_millis(100));
    open.write_all("\n".repeat(started.len()).as_bytes()).unwrap();
    started.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

/// Returns the first failure.
fn failure(output: &Output) -> Option<String> {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (!output.status.success() || err.contains("warning") || out.is_empty())
        .then(|| format!("{:?} {out} {err}", output.status))
}

#[test]
fn commands_that_make_the_state_directory_at_once_all_succeed() {
    // Compiled before, so that the commands get to the store together.
    assert_eq!(Home::with("{}").run(&EXEC).0, 0);
    let mut failures = Vec::new();
    for round in 0..20 {
        // Many that only open the store, and then some that write to it as well.
        let runs = if round % 2 == 0 { 16 } else { 12 };
        let commands: Vec<&[&str]> = (0..16).map(|number| if number < runs { &RUNS[..] } else { &EXEC[..] }).collect();
        let home = Home::with("{}");
        let ended = at_once(&home, None, &commands);
        failures.extend(ended.iter().filter_map(failure).map(|what| format!("round {round}: {what}")));
        // All programs have left their trace, and no command has taken another one for dead.
        let (_, list) = home.json(&["runs", "list", "--json"]);
        let states: Vec<&str> = list.as_array().unwrap().iter().filter_map(|run| run["state"].as_str()).collect();
        if states != vec!["completed"; 16 - runs] {
            failures.push(format!("round {round}: {states:?}"));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn commands_that_make_the_cache_at_once_all_succeed_and_leave_one_of_each_file() {
    let home = Home::with("{}");
    let cache = home.path("cache");
    for output in at_once(&home, Some(&cache), &[&EXEC[..]; 4]) {
        assert_eq!(failure(&output), None);
    }
    let files = || {
        let files = fs::read_dir(cache.join("pincer")).unwrap();
        let mut names: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let left = files();
    assert!(!left.is_empty() && left.iter().all(|name| !name.starts_with('.')), "{left:?}");
    let later = home.command(&EXEC).env("XDG_CACHE_HOME", &cache).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&later.stderr), "", "nothing is compiled again");
    assert_eq!(files(), left);
}
