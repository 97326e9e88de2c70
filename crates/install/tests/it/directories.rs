//! Folders as sources, by the same rules as archives.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use pincer_install::{InstallError, Kind};

use crate::common::{Home, MANIFEST};

#[test]
fn what_is_no_plain_file_in_a_folder_is_refused() {
    type Make = fn(&std::path::Path);
    let cases: [(&str, Make); 6] = [
        ("the entry `bad` is a symbolic link", |bad| symlink("/etc/passwd", bad).unwrap()),
        ("the entry `bad` is a symbolic link", |bad| symlink("/etc", bad).unwrap()),
        ("the entry `bad` is a pipe, not a file or a folder", |bad| {
            assert!(Command::new("mkfifo").arg(bad).status().unwrap().success());
        }),
        ("the entry `bad` is a socket, not a file or a folder", |bad| {
            drop(std::os::unix::net::UnixListener::bind(bad).unwrap());
        }),
        ("the entry `bad` has the setuid, setgid or sticky bit", |bad| {
            fs::write(bad, "x").unwrap();
            fs::set_permissions(bad, fs::Permissions::from_mode(0o4755)).unwrap();
        }),
        ("the entry `bad/BAD` has a character in its name that is not visible", |bad| {
            fs::create_dir(bad).unwrap();
            fs::write(bad.join("BAD\u{202e}"), "x").unwrap();
        }),
    ];
    for (expected, make) in cases {
        let home = Home::new();
        let folder = home.folder("source", &[("pincer.plugin.json5", MANIFEST)]);
        make(&folder.join("bad"));
        let refused = home.install(Kind::Plugin, &folder).unwrap_err().to_string().replace("\\u{202e}", "");
        assert!(refused.ends_with(&format!("is refused: {expected}")), "{refused}");
        assert!(!home.path("state/plugins").exists());
    }
}

#[test]
fn a_source_that_holds_the_state_or_is_no_source_is_refused() {
    let home = Home::new();
    home.folder("state/sub", &[("x", "x")]);
    fs::write(home.path("pincer.plugin.json5"), MANIFEST).unwrap();
    let refused = home.install(Kind::Plugin, &home.path("")).unwrap_err().to_string();
    assert!(refused.ends_with("is refused: the state directory lies in it"), "{refused}");
    let refused = home.install(Kind::Plugin, std::path::Path::new("/dev/null")).unwrap_err().to_string();
    assert!(refused.ends_with("is refused: it is neither a folder nor a file"), "{refused}");
    let missing = home.install(Kind::Plugin, &home.path("missing")).unwrap_err();
    assert!(matches!(missing, InstallError::Read { .. }), "{missing}");
}

#[test]
fn a_folder_of_too_many_entries_is_refused_before_they_are_remembered() {
    let home = Home::new();
    let folder = home.folder("source", &[("pincer.plugin.json5", MANIFEST)]);
    (0..20).for_each(|number| fs::create_dir(folder.join(number.to_string())).unwrap());
    let limits = pincer_install::Limits { entries: 20, ..Default::default() };
    let refused = home.installs.clone().with_limits(limits).stage(Kind::Plugin, &folder).unwrap_err().to_string();
    assert!(refused.ends_with("is refused: it has more than 20 entries"), "{refused}");
}

#[test]
fn what_is_put_in_place_is_for_its_owner_alone() {
    let home = Home::new();
    let folder = home.folder("source", &[("SKILL.md", "---\nname: pdf\n---\n"), ("bin/run", "#!/bin/sh\n")]);
    fs::set_permissions(folder.join("bin"), fs::Permissions::from_mode(0o2777)).unwrap();
    fs::set_permissions(folder.join("bin/run"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(folder.join("SKILL.md"), fs::Permissions::from_mode(0o666)).unwrap();
    home.install(Kind::Skill, &folder).unwrap();
    let mode = |path: &str| fs::metadata(home.path(path)).unwrap().permissions().mode() & 0o7777;
    for path in [
        "state",
        "state/installs",
        "state/skills",
        "state/skills/pdf",
        "state/skills/pdf/bin",
        "state/skills/pdf/bin/run",
    ] {
        assert_eq!(mode(path), 0o700, "{path}");
    }
    assert_eq!((mode("state/skills/pdf/SKILL.md"), mode("state/installs.json")), (0o600, 0o600));
}

#[test]
fn the_name_of_a_skill_is_never_a_path() {
    for name in ["../../outside", "a/b", "/etc", ".", "..", "A", "\u{202e}x", "con trol"] {
        let home = Home::new();
        let folder = home.folder("source", &[("SKILL.md", &format!("---\nname: {name}\n---\n"))]);
        let refused = home.install(Kind::Skill, &folder).unwrap_err().to_string();
        assert!(refused.contains("which cannot be a folder's"), "{name}: {refused}");
        assert!(!refused.contains('\u{202e}'));
        assert!(!home.path("state/skills").exists());
    }
    // Without a name it is the folder's.
    let home = Home::new();
    let folder = home.folder("my-skill", &[("SKILL.md", "Do it.\n")]);
    assert_eq!(home.install(Kind::Skill, &folder).unwrap().id, "my-skill");
}
