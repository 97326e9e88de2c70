//! Paths without links, and what is in a directory.

use std::fs;
use std::os::unix::fs::symlink;

use pincer_process::{holds, real};

#[test]
fn a_path_is_real_as_far_as_it_exists() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().canonicalize().unwrap();
    fs::create_dir(at.join("there")).unwrap();
    fs::write(at.join("there/file"), "").unwrap();
    symlink(at.join("there"), at.join("link")).unwrap();
    for (path, expected) in
        [("link", "there"), ("link/file", "there/file"), ("link/new/file", "there/new/file"), ("new", "new")]
    {
        assert_eq!(real(&at.join(path)), Some(at.join(expected)), "{path}");
    }
    // A file under a name that ends in a slash is not found.
    assert!(real(&at.join("link/file")).unwrap().is_file());
}

#[test]
fn a_directory_holds_what_links_lead_into_it() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    fs::create_dir_all(at.join("inner/deep")).unwrap();
    fs::create_dir(at.join("inner2")).unwrap();
    symlink(at.join("inner/deep"), at.join("link")).unwrap();
    for (other, expected) in
        [("inner", true), ("inner/deep/new", true), ("link", true), ("link/new", true), ("inner2", false), (".", false)]
    {
        assert_eq!(holds(&at.join("inner"), &at.join(other)), expected, "{other}");
    }
}
