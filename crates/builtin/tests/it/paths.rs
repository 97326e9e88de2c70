//! Paths that mean harm: nothing outside the workspace is read or touched, whatever is asked, and whatever changes meanwhile.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{House, contents, house, house_with};
use pincer_builtin::{Guard, Settings};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

const SECRET: &str = "outside-secret";

/// A workspace beside a secret, with every kind of link to it.
fn beset() -> House {
    let house = house();
    fs::write(house.outside("secret.txt"), SECRET).unwrap();
    fs::create_dir(house.outside("private")).unwrap();
    fs::write(house.outside("private/key"), SECRET).unwrap();
    house.put("inner/file.txt", "inside");
    for (to, from) in [
        ("../secret.txt", "up"),
        ("../private", "updir"),
        ("/etc/passwd", "abs"),
        ("/", "root"),
        ("..", "parent"),
        ("inner/../../secret.txt", "winding"),
        ("up", "chain"),
        ("loop2", "loop1"),
        ("loop1", "loop2"),
        ("/proc/self/cwd", "cwd"),
        ("/proc/self/root", "procroot"),
        ("nowhere", "dangling"),
        ("../new-file", "dangling-out"),
        ("/dev/zero", "zero"),
    ] {
        symlink(to, house.path(from)).unwrap();
    }
    symlink(house.outside("secret.txt"), house.path("abslink")).unwrap();
    symlink(house.path("inner"), house.path("absinner")).unwrap();
    symlink("../../secret.txt", house.path("inner/up")).unwrap();
    house
}

/// Texts that lead out, or nowhere good.
fn hostile(house: &House) -> Vec<String> {
    let mut paths: Vec<String> = [
        "..",
        "../",
        "../secret.txt",
        "./../secret.txt",
        "inner/../../secret.txt",
        "inner/../../private/key",
        "up",
        "updir",
        "updir/key",
        "updir/../secret.txt",
        "abs",
        "root",
        "root/etc/passwd",
        "parent",
        "parent/secret.txt",
        "winding",
        "chain",
        "loop1",
        "loop1/x",
        "cwd",
        "cwd/../secret.txt",
        "procroot/etc/passwd",
        "dangling-out",
        "abslink",
        "absinner/../../secret.txt",
        "inner/up",
        "/etc/passwd",
        "/proc/self/environ",
        "//etc/passwd",
        "/",
        "~/x/../../../../../../etc/passwd",
        "../workspace/../secret.txt",
        "inner/./.././../secret.txt",
        "a/../../secret.txt",
        "....//....//secret.txt",
        "..\\secret.txt",
        "inner/up/..",
        "zero",
        "",
        "\0",
        "up\0",
        "parent/workspace/inner/file.txt",
        "parent/private/",
        "..//secret.txt",
        "inner//..//..//secret.txt",
        "PARENT/../../secret.txt",
        "Inner/../../SECRET.TXT",
        "file:///etc/passwd",
        "%2e%2e/secret.txt",
        "..%2fsecret.txt",
        "\u{2025}/secret.txt",
        "．．/secret.txt",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.push("../".repeat(40) + "etc/passwd");
    paths.push(house.outside("secret.txt").display().to_string());
    paths.push(format!("{}/../secret.txt", house.path(".").display()));
    paths.push("a/".repeat(3000));
    paths.push("x".repeat(5000));
    paths
}

/// Every call of every file tool that names this path.
fn calls(path: &str) -> Vec<(&'static str, Value)> {
    let patch = |body: &str| format!("*** Begin Patch\n{body}\n*** End Patch");
    vec![
        ("read", json!({ "path": path })),
        ("write", json!({ "path": path, "content": "overwritten" })),
        ("edit", json!({ "path": path, "edits": [{ "oldText": SECRET, "newText": "overwritten" }] })),
        ("apply_patch", json!({ "patch": patch(&format!("*** Add File: {path}\n+overwritten")) })),
        ("apply_patch", json!({ "patch": patch(&format!("*** Delete File: {path}")) })),
        (
            "apply_patch",
            json!({ "patch": patch(&format!("*** Update File: inner/file.txt\n*** Move to: {path}\n-inside\n+overwritten")) }),
        ),
        ("ls", json!({ "path": path })),
        ("find", json!({ "pattern": "*", "path": path, "hidden": true, "ignored": true })),
        ("grep", json!({ "pattern": ".", "path": path, "hidden": true, "ignored": true })),
        ("exec", json!({ "command": "true", "cwd": path })),
    ]
}

/// All but the workspace and the store.
fn outside(house: &House) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let all = contents(house.directory.path());
    all.into_iter()
        .filter(|(path, _)| !path.starts_with(house.path(".")) && !path.starts_with(house.outside("state")))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_leads_out_of_the_workspace() {
    let house = beset();
    let paths = hostile(&house);
    assert!(paths.len() >= 40, "{}", paths.len());
    let before = outside(&house);
    for path in &paths {
        for (tool, input) in calls(path) {
            let done = tokio::time::timeout(Duration::from_secs(20), house.call(tool, input.clone())).await;
            let said = match done.unwrap_or_else(|_| panic!("{tool} hangs on {input}")) {
                Ok(value) => value.to_string(),
                Err(error) => error,
            };
            assert!(!said.contains(SECRET) && !said.contains("root:"), "{tool} {input} says {said}");
            house.put("inner/file.txt", "inside");
        }
        assert_eq!(outside(&house), before, "{path} changed something outside");
    }
}

#[tokio::test]
async fn what_leads_out_is_refused_with_a_reason() {
    let house = beset();
    for (path, told) in [
        ("../secret.txt", "leads out of the workspace"),
        ("up", "leads out of the workspace"),
        ("updir/key", "leads out of the workspace"),
        ("absinner/file.txt", "leads out of the workspace, or through a link that does"),
        ("/etc/passwd", "is an absolute path; paths are relative to the workspace"),
        ("dangling", "does not exist"),
    ] {
        let error = house.error("read", json!({ "path": path })).await;
        assert!(error.contains(told), "{path}: {error}");
    }
    let inside = house.path("inner/file.txt").canonicalize().unwrap().display().to_string();
    assert!(house.error("read", json!({ "path": inside })).await.ends_with(": use inner/file.txt"));
    let error = house.error("write", json!({ "path": "dangling-out", "content": "x" })).await;
    assert!(error.contains("leads out of the workspace"), "{error}");
    assert!(!house.outside("new-file").exists());
}

#[tokio::test]
async fn special_files_are_refused_and_nothing_hangs() {
    let house = house();
    let fifo = house.path("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let _socket = UnixListener::bind(house.path("socket")).unwrap();
    for path in ["fifo", "socket"] {
        for (tool, input) in calls(path) {
            let done = tokio::time::timeout(Duration::from_secs(5), house.call(tool, input.clone())).await;
            assert!(
                done.unwrap_or_else(|_| panic!("{tool} hangs on {input}")).is_err() || tool == "apply_patch",
                "{tool} {input}"
            );
        }
    }
    let found = house.ok("grep", json!({ "pattern": "x" })).await;
    assert_eq!(found["filesSearched"], 0);
    assert!(fs::symlink_metadata(&fifo).is_ok(), "it is still there");
}

#[tokio::test]
async fn another_name_of_a_file_outside_is_not_written_through() {
    let house = beset();
    fs::hard_link(house.outside("secret.txt"), house.path("hard")).unwrap();
    house.ok("write", json!({ "path": "hard", "content": "new" })).await;
    assert_eq!(house.get("hard"), "new");
    assert_eq!(fs::read_to_string(house.outside("secret.txt")).unwrap(), SECRET);
}

/// While calls run, a directory and a file are swapped for links that lead out, and back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swapping_links_while_calls_run_gains_nothing() {
    let house = Arc::new(beset());
    house.put("d/key", "inside");
    house.put("f", "inside");
    let before = outside(&house);
    let stop = Arc::new(AtomicBool::new(false));
    let (swapping, swap_house) = (Arc::clone(&stop), Arc::clone(&house));
    let swapper = std::thread::spawn(move || {
        let path = |name: &str| swap_house.path(name);
        symlink("../private", path("dlink")).unwrap();
        symlink("../secret.txt", path("flink")).unwrap();
        let mut swaps = 0_u64;
        while !swapping.load(Ordering::Relaxed) {
            for (real, link, aside) in [("d", "dlink", "daside"), ("f", "flink", "faside")] {
                // The real one goes aside and the link takes its name, and back.
                let _ = fs::rename(path(real), path(aside));
                let _ = fs::rename(path(link), path(real));
                let _ = fs::rename(path(real), path(link));
                let _ = fs::rename(path(aside), path(real));
                swaps += 1;
            }
        }
        swaps
    });
    let mut seen = (0, 0);
    for round in 0..150 {
        for path in ["d/key", "f", "d/new", "d"] {
            for (tool, input) in calls(path) {
                if tool == "exec" && round % 20 != 0 {
                    continue;
                }
                match house.call(tool, input.clone()).await {
                    Ok(value) => {
                        assert!(!value.to_string().contains(SECRET), "{tool} {input} says {value}");
                        seen.0 += 1;
                    }
                    Err(error) => {
                        assert!(!error.contains(SECRET), "{tool} {input} says {error}");
                        seen.1 += 1;
                    }
                }
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    let swaps = swapper.join().unwrap();
    assert!(swaps > 100 && seen.0 > 0 && seen.1 > 0, "{swaps} swaps, {seen:?} done and refused");
    assert_eq!(outside(&house), before, "something outside changed");
}

/// A workspace with what must not be changed in it: there already, and still to come.
fn guarded() -> House {
    let house = house_with(|settings| {
        let of = |path: &str| settings.workspace.join(path);
        let protected = vec![of("pincer.json5"), of("hooks/check.sh"), of("later.json5"), of("plugins")];
        Settings { guard: Guard::new(move |_, _| protected.clone()), ..settings }
    });
    house.put("pincer.json5", "the config\n");
    house.put("hooks/check.sh", "the hook\n");
    house.put("plugins/one/plugin.json5", "the plugin\n");
    house.put(".git/config", "git's\n");
    house.put("inner/file.txt", "free\n");
    fs::create_dir(house.path(".git/hooks")).unwrap();
    let fixed = house.put("fixed.txt", "fixed\n");
    fs::set_permissions(fixed, std::os::unix::fs::PermissionsExt::from_mode(0o444)).unwrap();
    for (to, from) in [
        ("pincer.json5", "config-link"),
        ("later.json5", "later-link"),
        (".git/hooks", "hooks-link"),
        (".", "here"),
        ("plugins/one", "plugin-link"),
    ] {
        symlink(to, house.path(from)).unwrap();
    }
    house
}

#[tokio::test]
async fn what_decides_is_not_changed_by_any_spelling_of_its_path() {
    let house = guarded();
    let before = contents(&house.path(""));
    let places = [
        "pincer.json5",
        "later.json5",
        "hooks/check.sh",
        "plugins/two/plugin.json5",
        "plugins/one/plugin.json5",
        "plugin-link/more.js",
        "config-link",
        "later-link",
        "hooks-link/pre-commit",
        ".git/config",
        ".GIT/config",
        ".git/hooks/pre-commit",
        "fixed.txt",
    ];
    let ways = [
        "",
        "./",
        "here/",
        "inner/../",
        "newdir/../",
        "newdir/more/../../",
        "./newdir/./.././",
        "inner/new/../../",
        "here/newdir/../",
    ];
    for place in places {
        for way in ways {
            let path = format!("{way}{place}");
            let patch = |section: String| json!({ "patch": format!("*** Begin Patch\n{section}\n*** End Patch") });
            for (tool, input) in [
                ("write", json!({ "path": path, "content": "mine" })),
                ("edit", json!({ "path": path, "edits": [{ "oldText": "the", "newText": "my" }] })),
                ("apply_patch", patch(format!("*** Add File: {path}\n+mine"))),
                ("apply_patch", patch(format!("*** Delete File: {path}"))),
                (
                    "apply_patch",
                    patch(format!("*** Update File: inner/file.txt\n*** Move to: {path}\n@@\n-free\n+mine")),
                ),
            ] {
                assert!(house.call(tool, input).await.is_err(), "{tool} {path}");
            }
        }
    }
    assert!(contents(&house.path("")) == before && !house.path("newdir").exists(), "nothing has changed");
    let ordinary = house.call("write", json!({ "path": "new/dir/../file.txt", "content": "x" })).await;
    assert!(ordinary.is_err(), "nothing leads back up from what does not exist");
    for path in ["new/dir/file.txt", "new/dir/../file.txt", "here/inner/../inner/file.txt", "hooks/other.sh"] {
        let outcome = house.call("write", json!({ "path": path, "content": "mine" })).await;
        assert!(outcome.is_ok(), "{path}: {outcome:?}");
    }
    assert_eq!(house.get("inner/file.txt"), "mine");
}

/// A directory on the way becomes a link to git's own, and a directory again, all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_changes_meanwhile_does_not_lead_to_what_is_protected() {
    let house = Arc::new(guarded());
    let done = Arc::new(AtomicBool::new(false));
    let way = house.path("way");
    fs::create_dir(&way).unwrap();
    symlink(".git/hooks", house.path("to-git")).unwrap();
    symlink("plugins", house.path("to-plugins")).unwrap();
    let swapping = {
        let (house, done) = (Arc::clone(&house), Arc::clone(&done));
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                // Each twice: then it is what it was.
                for other in ["to-git", "to-git", "to-plugins", "to-plugins"] {
                    renameat_with(CWD, &way, CWD, house.path(other), RenameFlags::EXCHANGE).unwrap();
                }
            }
        })
    };
    let mut written = 0;
    for _ in 0..2000 {
        let input = json!({ "path": "way/pre-commit", "content": "mine" });
        written += usize::from(house.call("write", input).await.is_ok());
    }
    done.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    assert!(written > 0, "at times it is a directory");
    assert_eq!(fs::read_dir(house.path(".git/hooks")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(house.path("plugins")).unwrap().count(), 1);
}
