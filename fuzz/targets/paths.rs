//! Feeds the check of paths with whatever the fuzzer thinks of, in a workspace with links and files that must not be changed.
//!
//! Whatever path a file tool is given: what decides over the tools, what git runs, and what lies outside stays as it is.
#![no_main]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pincer_builtin::Workspace;
use pincer_builtin::fuzzing::write;

struct House {
    root: PathBuf,
    workspace: Workspace,
}

const KEPT: [&str; 5] =
    ["work/pincer.json5", "work/.git/config", "work/.git/hooks/pre-commit", "work/plugins/a/x", "outside/file"];

static HOUSE: LazyLock<House> = LazyLock::new(|| {
    // A fuzzer does not end in a way that cleans up: the next one does.
    let place = std::env::var_os("CARGO_TARGET_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let root = place.join("paths-house");
    let _ = fs::remove_dir_all(&root);
    for file in KEPT {
        let file = root.join(file);
        fs::create_dir_all(file.parent().expect("a directory")).expect("made");
        fs::write(file, "kept").expect("made");
    }
    fs::create_dir_all(root.join("work/d/e")).expect("made");
    let work = root.join("work");
    for (link, to) in
        [("l", "."), ("g", ".git"), ("h", "d/../.git/hooks"), ("o", "../outside"), ("d/u", ".."), ("p", "plugins/a")]
    {
        symlink(to, work.join(link)).expect("made");
    }
    let protected = [work.join("pincer.json5"), work.join("plugins"), work.join("not-there-yet.json5")];
    let workspace = Workspace::open(&work, &protected, &[]).expect("a workspace");
    House { root, workspace }
});

fuzz_target!(|path: &str| {
    // The names that matter are few: each letter is one, so that the fuzzer finds its way.
    let names = |c: char| match c {
        'c' => "pincer.json5".to_owned(),
        'n' => "not-there-yet.json5".into(),
        'G' => ".git".into(),
        'C' => "config".into(),
        'P' => "pre-commit".into(),
        'x' => "new".into(),
        'D' => "..".into(),
        other => other.to_string(),
    };
    let spelt: String = path.chars().map(names).collect();
    for path in [path, &spelt] {
        write(&HOUSE.workspace, path);
        for file in KEPT {
            assert_eq!(fs::read(HOUSE.root.join(file)).expect("it is there"), b"kept", "{path:?} changed {file}");
        }
        assert!(!HOUSE.root.join("work/not-there-yet.json5").exists(), "{path:?}");
        assert_eq!(fs::read_dir(HOUSE.root.join("outside")).expect("it is there").count(), 1, "{path:?}");
    }
});
