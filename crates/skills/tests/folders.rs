//! Folders of skills as they come: in several places, with links, damaged, hostile.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use pincer_skills::{Found, MOST_FILE_BYTES, Place, Source, discover};
use proptest::prelude::{any, prop};
use tempfile::TempDir;

fn put(base: &Path, folder: &str, text: impl AsRef<[u8]>) {
    fs::create_dir_all(base.join("skills").join(folder)).unwrap();
    fs::write(base.join("skills").join(folder).join("SKILL.md"), text).unwrap();
}

fn text(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\nbody")
}

fn place(source: Source, base: &Path) -> Place {
    Place::open(source, base).unwrap()
}

fn home() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn found(base: &Path) -> Found {
    discover(&[place(Source::State, base)])
}

fn names(found: &Found) -> Vec<&str> {
    found.skills.iter().map(|skill| skill.name.as_str()).collect()
}

#[test]
fn the_first_place_counts_and_the_others_are_told() {
    let (one, two) = (home(), home());
    put(one.path(), "pdf", text("pdf", "of one"));
    put(two.path(), "PDF", text("PDF", "of two"));
    put(two.path(), "a", text("a", "of two"));
    let found = discover(&[place(Source::Workspace, one.path()), place(Source::Plugin("p".into()), two.path())]);
    assert_eq!(names(&found), ["a", "pdf"]);
    assert_eq!(found.skills[1].description, "of one");
    assert_eq!(found.shadowed.len(), 1);
    assert_eq!(found.shadowed[0].by, one.path().join("skills/pdf/SKILL.md"));
    assert_eq!(found.skills[0].file(), two.path().join("skills/a/SKILL.md"));
}

#[test]
fn a_folder_without_a_skill_is_passed_over_and_a_damaged_one_is_told() {
    let home = home();
    fs::create_dir_all(home.path().join("skills/empty")).unwrap();
    fs::create_dir_all(home.path().join("skills/.hidden")).unwrap();
    fs::write(home.path().join("skills/README.md"), "no folder").unwrap();
    put(home.path(), "good", text("good", "x"));
    put(home.path(), "unnamed", "---\ndescription: named by its folder\n---\n");
    for (folder, content, _) in DAMAGED {
        put(home.path(), folder, content);
    }
    fs::create_dir_all(home.path().join("skills/pipe")).unwrap();
    let pipe = home.path().join("skills/pipe/SKILL.md");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let found = found(home.path());
    assert_eq!(names(&found), ["good", "unnamed"]);
    for (folder, _, why) in DAMAGED.iter().chain(&[("pipe", "", "not a regular file")]) {
        let problem = found.problems.iter().find(|problem| problem.path.ends_with(folder));
        let problem = problem.unwrap_or_else(|| panic!("{folder} is not told: {:?}", found.problems));
        assert!(problem.message.contains(why), "{folder}: {}", problem.message);
    }
}

const DAMAGED: [(&str, &str, &str); 5] = [
    ("plain", "# no front matter", "does not begin"),
    ("nameless", "---\nname: a/../b\ndescription: x\n---\n", "cannot be a name"),
    ("forged", "---\nname: \"a\\u001b[2J\"\ndescription: x\n---\n", "cannot be a name"),
    ("silent", "---\nname: silent\n---\n", "no `description`"),
    ("open", "---\nname: open\n", "is missing"),
];

#[test]
fn no_link_leads_out_of_a_folder() {
    let (home, elsewhere) = (home(), home());
    put(elsewhere.path(), "away", text("away", "x"));
    fs::create_dir_all(home.path().join("skills/file")).unwrap();
    symlink(elsewhere.path().join("skills/away"), home.path().join("skills/folder")).unwrap();
    symlink(elsewhere.path().join("skills/away/SKILL.md"), home.path().join("skills/file/SKILL.md")).unwrap();
    put(home.path(), "real", text("real", "x"));
    symlink("real", home.path().join("skills/beside")).unwrap();
    let found = found(home.path());
    assert_eq!(names(&found), ["real"]);
    assert_eq!(found.problems.len(), 3, "{:?}", found.problems);
    assert!(found.problems.iter().all(|problem| problem.message.contains("link")), "{:?}", found.problems);
    let place = place(Source::State, home.path());
    for folder in ["folder", "file", "beside", "..", "../skills/real", "real/..", ""] {
        assert!(place.text(folder).is_err(), "{folder}");
    }
    // The whole of `skills` may be such a link.
    let linked = self::home();
    symlink(elsewhere.path().join("skills"), linked.path().join("skills")).unwrap();
    assert_eq!(names(&self::found(linked.path())), Vec::<&str>::new());
}

#[test]
fn a_description_is_one_bounded_line_and_a_text_has_its_bound() {
    let home = home();
    put(home.path(), "long", format!("---\nname: long\ndescription: |\n  one\n  two\n  {}\n---\n", "x".repeat(3000)));
    let description = &found(home.path()).skills[0].description;
    assert!(description.starts_with("one two x") && description.ends_with('…'), "{description}");
    assert_eq!(description.chars().count(), 1025);
    put(home.path(), "huge", text("huge", "x") + &"y".repeat(MOST_FILE_BYTES as usize * 2));
    let read = place(Source::State, home.path()).text("huge").unwrap().unwrap();
    assert!(read.ends_with("this is the beginning]") && read.len() < MOST_FILE_BYTES as usize + 100);
}

#[test]
fn very_many_folders_are_bounded() {
    let home = home();
    for number in 0..1005 {
        fs::create_dir_all(home.path().join(format!("skills/s{number}"))).unwrap();
    }
    let found = found(home.path());
    assert!(found.problems[0].message.contains("only 1000"), "{:?}", found.problems);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 300, ..Default::default() })]

    /// Whatever a file has in it, it is a skill with a proper name and description, or a problem.
    #[test]
    fn any_file_is_a_skill_or_a_problem(bytes in prop::collection::vec(any::<u8>(), 0..400), text in "(name|description|metadata|[a-z]|: |- |\\{|\\}|\\[|\\]|&a|\\*a|\"|'|\n|\\|)*", is_text in any::<bool>()) {
        let content = if is_text { text.into_bytes() } else { bytes };
        let home = home();
        put(home.path(), "raw", &content);
        put(home.path(), "fenced", [&b"---\n"[..], &content, &b"\n---\nbody"[..]].concat());
        let found = found(home.path());
        assert!(found.skills.len() + found.problems.len() + found.shadowed.len() == 2);
        for skill in found.skills {
            assert!(!skill.name.is_empty() && skill.name.len() <= 64 && skill.name.is_ascii());
            assert!(!skill.description.is_empty() && !skill.description.contains('\n'));
        }
    }
}
