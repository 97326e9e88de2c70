//! Files are replaced whole or not at all, and stay what they were.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::UNIX_EPOCH;

use pincer_clients::{Client, ClientError, Launch, Replace, Surroundings, System, files_of, install, replace_file};

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_new_file_is_for_its_owner_only_and_its_folder_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a/b/pincer.json5");
    replace_file(&file, None, "{}").unwrap();
    assert_eq!((fs::read_to_string(&file).unwrap().as_str(), mode(&file)), ("{}", 0o600));
    assert_eq!(names(file.parent().unwrap()), ["pincer.json5"]);
}

#[test]
fn permissions_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    for wanted in [0o644, 0o600, 0o664] {
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(wanted)).unwrap();
        replace_file(&file, Some("old"), "new").unwrap();
        assert_eq!((fs::read_to_string(&file).unwrap().as_str(), mode(&file)), ("new", wanted));
    }
}

#[test]
fn a_link_stays_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("dots")).unwrap();
    fs::write(at("dots/real"), "old").unwrap();
    symlink("dots/real", at("one")).unwrap();
    symlink("one", at("two")).unwrap();
    replace_file(&at("two"), Some("old"), "new").unwrap();
    assert_eq!(fs::read_to_string(at("dots/real")).unwrap(), "new");
    assert!(at("two").is_symlink() && at("one").is_symlink());
    // One that leads nowhere yet leads to the new file.
    symlink("dots/later", at("three")).unwrap();
    replace_file(&at("three"), None, "new").unwrap();
    assert!(at("three").is_symlink() && fs::read_to_string(at("dots/later")).unwrap() == "new");
    symlink("loop", at("loop")).unwrap();
    assert!(matches!(replace_file(&at("loop"), None, "new"), Err(ClientError::Write { .. })));
}

#[test]
fn what_was_changed_meanwhile_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    fs::write(&file, "theirs").unwrap();
    for old in [Some("what was read"), None] {
        assert!(matches!(replace_file(&file, old, "new"), Err(ClientError::Changed { .. })));
    }
    fs::remove_file(&file).unwrap();
    assert!(matches!(replace_file(&file, Some("theirs"), "new"), Err(ClientError::Changed { .. })));
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_read_only_file_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o444)).unwrap();
    assert!(matches!(replace_file(&file, Some("old"), "new"), Err(ClientError::ReadOnly { .. })));
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
}

#[test]
fn a_folder_that_cannot_be_written_to_leaves_the_file_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    let file = closed.join("f");
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o555)).unwrap();
    // Whoever may do everything may do this too.
    if fs::write(closed.join("probe"), "").is_err() {
        assert!(matches!(replace_file(&file, Some("old"), "new"), Err(ClientError::Write { .. })));
    }
    fs::set_permissions(&closed, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    // A folder that is a file cannot be written to by anybody.
    assert!(matches!(replace_file(&file.join("below"), None, "new"), Err(ClientError::Write { .. })));
}

#[test]
fn a_backup_has_the_permissions_of_the_file_and_goes_if_nothing_was_changed() {
    let folder = tempfile::tempdir().unwrap();
    let around = Surroundings::new(folder.path(), folder.path(), System::Linux);
    let file = files_of(Client::ClaudeCode, &around).swap_remove(0);
    let launch = Launch { program: "/opt/pincer".into(), ..Launch::default() };
    fs::write(&file.path, "{}").unwrap();
    fs::set_permissions(&file.path, Permissions::from_mode(0o640)).unwrap();
    let done = install(&file, &launch, &Replace::Beside, UNIX_EPOCH).unwrap();
    assert_eq!((mode(&done.backup.unwrap()), mode(&file.path)), (0o640, 0o640));

    fs::remove_file(folder.path().join(".claude.json.pincer-backup-19700101T000000Z")).unwrap();
    fs::write(&file.path, "{}").unwrap();
    fs::set_permissions(&file.path, Permissions::from_mode(0o444)).unwrap();
    let error = install(&file, &launch, &Replace::Beside, UNIX_EPOCH).unwrap_err();
    assert!(matches!(error, ClientError::ReadOnly { .. }), "{error}");
    assert_eq!(names(folder.path()), [".claude.json"]);
    assert_eq!(fs::read_to_string(&file.path).unwrap(), "{}");
}
