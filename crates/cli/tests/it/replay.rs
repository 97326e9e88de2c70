//! `pincer runs replay`: a program runs again, against what was recorded, and nothing else happens.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use pincer_codemode::Recording;
use pincer_store::{RunId, block_on};
use pincer_store_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::common::Home;

const PROGRAM: &str = "const before = Date.now();
const { entries } = await tools.ls({});
text('found ' + entries.length);
const [first] = await tools.search('read a file');
return [first.id, Math.random(), Date.now() - before < 60000]";

/// A home with a file and a run of a program.
fn home_with(program: &str) -> (Home, String) {
    let home = Home::with("{}");
    fs::write(home.path("a.txt"), "a").unwrap();
    let (code, _, err) = home.run(&["exec", "-e", program]);
    assert!(code <= 1, "{err}");
    let (_, runs) = home.json(&["runs", "list", "--json"]);
    let run = runs[0]["runId"].as_str().expect("a run").to_owned();
    (home, run)
}

fn store_file(home: &Home) -> PathBuf {
    home.path(".state/pincer/pincer.db")
}

/// A bundle with the programs of a home, and its folder of programs.
fn bundle(home: &Home, runs: &[&str]) -> (PathBuf, PathBuf) {
    let (bundle, programs) = (home.path("bundle"), home.path("bundle/programs"));
    fs::create_dir_all(&programs).unwrap();
    let store = SqliteStore::open(&store_file(home)).unwrap();
    for run in runs {
        let recording = block_on(Recording::read(&store, &RunId::from(*run))).unwrap();
        fs::write(programs.join(format!("{run}.json")), recording.to_text()).unwrap();
    }
    (bundle, programs)
}

#[test]
fn a_run_is_replayed_step_by_step() {
    let (home, run) = home_with(PROGRAM);
    let (code, out, err) = home.run(&["runs", "replay", &run[..20]]);
    assert_eq!(code, 0, "{out} {err}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with(&format!("{run} (completed)")), "{out}");
    for (at, words) in [
        (1, "line 2     openclaw:core:ls {} → {"),
        (2, "printed: found "),
        (3, "line 4     tools.search [\"read a file\"] → [{"),
        (4, "end: the value [\"openclaw:core:read\",0."),
    ] {
        assert!(lines[at].starts_with(&format!("   {at}  ")) && lines[at].contains(words), "{words}: {out}");
    }
    assert_eq!(lines[5..], ["the same way as recorded"], "{out}");
    let (code, document) = home.json(&["runs", "replay", &run, "--json"]);
    assert_eq!((code, &document["same"], &document["runId"]), (0, &json!(true), &json!(run)), "{document}");
    let steps = document["steps"].as_array().unwrap();
    assert_eq!((steps.len(), &steps[0]["line"], &steps[0]["tool"]), (4, &json!(2), &json!("openclaw:core:ls")));
    assert!(steps[0]["settled"]["value"]["entries"].is_array() && document.get("difference").is_none(), "{document}");
    let (code, out, _) = home.run(&["runs", "replay", &run, "--step", "1"]);
    assert!(code == 0 && serde_json::from_str::<Value>(&out).unwrap()["number"] == 1, "{out}");
    let (code, out, _) = home.run(&["runs", "replay", &run, "--until", "2"]);
    assert!(code == 0 && out.contains("stopped after step 2") && !out.contains("end:"), "{out}");
}

#[test]
fn a_replay_needs_no_tools_and_changes_nothing() {
    let (home, run) = home_with(PROGRAM);
    // The log that SQLite keeps beside the file is folded into it.
    SqliteStore::open(&store_file(&home)).unwrap().fold().unwrap();
    fs::write(home.path("pincer.json5"), "{ tools: { deny: ['*'], codeMode: { enabled: false } } }").unwrap();
    fs::remove_file(home.path("a.txt")).unwrap();
    let everything = || -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(home.path(".state/pincer")).unwrap().map(Result::unwrap);
        let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
        let mut files: Vec<_> = files
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
            // Where readers say how far they have read.
            .filter(|(name, _)| !name.ends_with("-shm") && !(name.ends_with("-wal")))
            .collect();
        files.sort();
        files
    };
    let before = everything();
    let (code, out, err) = home.run(&["runs", "replay", &run]);
    assert!(code == 0 && out.contains("the same way as recorded"), "{out} {err}");
    assert!(everything() == before, "the state directory is as it was");
    // A copy that cannot be written to will do.
    let copy = home.path("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(store_file(&home), copy.join("pincer.db")).unwrap();
    fs::set_permissions(copy.join("pincer.db"), Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(&copy, Permissions::from_mode(0o500)).unwrap();
    let (code, out, err) = home.run(&["runs", "replay", &run, "--state-dir", copy.to_str().unwrap()]);
    fs::set_permissions(&copy, Permissions::from_mode(0o700)).unwrap();
    assert!(code == 0 && out.contains("the same way as recorded"), "{out} {err}");
}

#[test]
fn another_text_is_told_where_it_goes_another_way() {
    let (home, run) = home_with(PROGRAM);
    let changed = PROGRAM.replace("tools.ls({})", "tools.ls({ path: '.' })");
    fs::write(home.path("changed.js"), changed).unwrap();
    let (code, out, err) = home.run(&["runs", "replay", &run, "--code", "changed.js"]);
    assert_eq!(code, 1, "{out} {err}");
    assert!(out.contains("step 1, line 2: it takes another way"), "{out}");
    assert!(out.contains("  recorded: openclaw:core:ls {} in line 2"), "{out}");
    assert!(out.contains("  now:      openclaw:core:ls {\"path\":\".\"} in line 2"), "{out}");
    let (code, document) = home.json(&["runs", "replay", &run, "--code", "changed.js", "--json"]);
    assert_eq!((code, &document["same"], &document["difference"]["step"]), (1, &json!(false), &json!(1)), "{document}");
}

#[test]
fn the_programs_of_a_bundle_are_replayed_in_their_order() {
    let (home, first) = home_with(PROGRAM);
    home.run(&["exec", "-e", "await tools.ls({}); throw new Error('mine')"]);
    let (_, runs) = home.json(&["runs", "list", "--json"]);
    let second = runs[1]["runId"].as_str().unwrap();
    let (place, programs) = bundle(&home, &[&first, second]);
    // None of these is looked at.
    fs::write(home.path("outside.json"), "{}").unwrap();
    symlink(home.path("outside.json"), programs.join("cm_link.json")).unwrap();
    fs::write(programs.join("notes.txt"), "x").unwrap();
    fs::write(programs.join("..json"), "x").unwrap();
    fs::create_dir(programs.join("cm_folder.json")).unwrap();
    let place = place.to_str().unwrap();
    let (code, out, err) = home.run(&["runs", "replay", place]);
    assert_eq!(code, 0, "{out} {err}");
    assert!(out.find(&first).unwrap() < out.find(second).unwrap() && out.contains("Error: mine"), "{out}");
    let (code, document) = home.json(&["runs", "replay", place, "--json"]);
    assert_eq!((code, document["programs"].as_array().unwrap().len(), &document["same"]), (0, 2, &json!(true)));
    let (code, document) = home.json(&["runs", "replay", place, "--run", second, "--json"]);
    assert_eq!((code, &document["programs"][0]["runId"]), (0, &json!(second)));
    for (arguments, says) in [
        (vec!["runs", "replay", place, "--run", "cm_nothing"], "the bundle has no program cm_nothing"),
        (vec!["runs", "replay", place, "--run", "cm_0"], "several programs begin with cm_0"),
        (vec!["runs", "replay", &first, "--run", "cm_0"], "and this is none"),
        (vec!["runs", "replay", "."], "it has no folder `programs`"),
        (vec!["runs", "replay", "./nothing"], "it has no folder `programs`"),
        (vec!["runs", "replay", "cm_"], "too short"),
        (vec!["runs", "replay", "cm_nothing"], "there is no run cm_nothing"),
    ] {
        let (code, out, err) = home.run(&arguments);
        assert!(code == 2 && err.contains(says), "{arguments:?}: {code} {out} {err}");
    }
}

#[test]
fn the_bundle_of_a_stranger_is_bounded_and_drives_no_terminal() {
    let (home, run) = home_with(PROGRAM);
    let (place, programs) = bundle(&home, &[&run]);
    let file = programs.join(format!("{run}.json"));
    let good: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let replayed = |change: &dyn Fn(&mut Value)| {
        let mut changed = good.clone();
        change(&mut changed);
        fs::write(&file, changed.to_string()).unwrap();
        home.run(&["runs", "replay", place.to_str().unwrap()])
    };
    let evil = "\u{1b}[2J\u{1b}]0;evil\u{7}\u{9b}31m\u{202e}";
    let (code, out, err) = replayed(&|file| {
        file["program"]["code"] = format!("text('{evil}'); throw new Error('{evil}')").into();
        file["runId"] = evil.into();
        file["state"] = evil.into();
        file["events"] = json!([{ "turn": { "at": 0, "end": { "failed": null } } }, { "cut": evil }]);
        file["program"]["image"] = evil.into();
    });
    let is_hidden = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    assert!(!out.contains(is_hidden) && !err.contains(is_hidden), "{out:?} {err:?}");
    assert!(code == 1 && err.contains("another build of the JavaScript engine"), "{code} {out} {err}");
    let (code, out, _) = replayed(&|file| file["calls"][0]["outcome"] = json!({ "ok": { "entries": [] } }));
    assert!(code == 1 && out.contains("the recording is damaged") && out.contains("changed since"), "{code} {out}");
    let (code, _, err) = replayed(&|file| file["form"] = 9.into());
    assert!(code == 1 && err.contains("has form 9"), "{err}");
    fs::write(&file, "{").unwrap();
    let (code, _, err) = home.run(&["runs", "replay", place.to_str().unwrap()]);
    assert!(code == 1 && err.contains("damaged"), "{err}");
    let large = fs::File::create(&file).unwrap();
    large.set_len((65 << 20) + 1).unwrap();
    let (code, _, err) = home.run(&["runs", "replay", place.to_str().unwrap()]);
    assert!(code == 1 && err.contains("more than 67108864 bytes"), "{err}");
}
