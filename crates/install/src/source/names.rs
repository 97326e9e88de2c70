//! The names of entries: one rule for folders, tar and zip.

use std::collections::HashMap;

use pincer_tools::is_hidden;

use crate::limits::Limits;
use crate::refusal::{EntryProblem, Refusal, shown};

const MOST_NAME_BYTES: usize = 255;
/// Version control keeps its own programs and links there, and none of it is part of what is installed.
const LEFT_OUT_ANYWHERE: &str = ".git";
/// Archives of the Finder have a second copy of each file's attributes there.
const LEFT_OUT_AT_THE_TOP: &str = "__MACOSX";

/// A path that was checked: relative, in UTF-8, with one `/` between its parts, none of which is empty, `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryPath(String);

impl EntryPath {
    /// Checks the name of an entry. `None` is the top itself, as in `./`.
    pub(crate) fn parse(name: &[u8], limits: &Limits) -> Result<Option<Self>, Refusal> {
        let refused = |problem| Err(Refusal::entry(name, problem));
        let Ok(text) = std::str::from_utf8(name) else { return refused(EntryProblem::NotUtf8) };
        if text.is_empty() {
            return refused(EntryProblem::Nameless);
        }
        if text.len() > limits.path_bytes {
            return refused(EntryProblem::TooLong);
        }
        if text.chars().any(is_hidden) {
            return refused(EntryProblem::HiddenCharacter);
        }
        if text.starts_with('/') {
            return refused(EntryProblem::Absolute);
        }
        // `tar c .` writes `./` before everything.
        let path = text.strip_prefix("./").unwrap_or(text);
        let path = path.strip_suffix('/').unwrap_or(path);
        if path.is_empty() || path == "." {
            return Ok(None);
        }
        for part in path.split('/') {
            match part {
                ".." => return refused(EntryProblem::LeadsOut),
                "" | "." => return refused(EntryProblem::UnclearPath),
                // To some systems a backslash is what `/` is to others, and `C:` is a place.
                _ if part.contains(['\\', ':']) => return refused(EntryProblem::UnclearPath),
                _ if part.len() > MOST_NAME_BYTES => return refused(EntryProblem::TooLong),
                _ => {}
            }
        }
        if path.split('/').count() > limits.depth {
            return refused(EntryProblem::TooDeep(limits.depth));
        }
        Ok(Some(Self(path.to_owned())))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the entry is not taken along.
    pub(crate) fn is_left_out(&self) -> bool {
        let mut parts = self.0.split('/');
        parts.clone().any(|part| part == LEFT_OUT_ANYWHERE) || parts.next() == Some(LEFT_OUT_AT_THE_TOP)
    }

    /// The folders that it lies in, from the top down.
    fn folders(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(at, _)| &self.0[..at])
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    File,
    Folder,
}

/// The names that were there already.
#[derive(Default)]
pub(crate) struct Names {
    /// By the name in one case, as some file systems compare them.
    known: HashMap<String, (String, Is)>,
}

impl Names {
    pub(crate) fn add_file(&mut self, path: &EntryPath) -> Result<(), Refusal> {
        self.add_folders(path)?;
        match self.known.insert(folded(path.as_str()), (path.as_str().to_owned(), Is::File)) {
            None => Ok(()),
            Some((other, is)) => Err(collision(path.as_str(), &other, is == Is::File)),
        }
    }

    pub(crate) fn add_folder(&mut self, path: &EntryPath) -> Result<(), Refusal> {
        self.add_folders(path)?;
        self.folder(path.as_str(), path.as_str())
    }

    fn add_folders(&mut self, path: &EntryPath) -> Result<(), Refusal> {
        path.folders().try_for_each(|folder| self.folder(folder, path.as_str()))
    }

    /// A folder may be named again: archives name it before what is in it, or not at all.
    fn folder(&mut self, folder: &str, of: &str) -> Result<(), Refusal> {
        match self.known.get(&folded(folder)) {
            None => {
                self.known.insert(folded(folder), (folder.to_owned(), Is::Folder));
                Ok(())
            }
            Some((same, Is::Folder)) if same == folder => Ok(()),
            Some((other, is)) if other == folder => Err(collision(of, other, *is == Is::Folder)),
            Some((other, _)) => Err(collision(folder, other, true)),
        }
    }
}

fn collision(path: &str, other: &str, same_kind: bool) -> Refusal {
    let problem = match (path == other, same_kind) {
        (true, true) => EntryProblem::Twice,
        (false, true) => EntryProblem::SameButForCase(shown(other)),
        (_, false) => EntryProblem::FileAndFolder,
    };
    Refusal::entry(path.as_bytes(), problem)
}

fn folded(path: &str) -> String {
    path.to_uppercase().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str) -> Result<Option<String>, EntryProblem> {
        match EntryPath::parse(name.as_bytes(), &Limits::default()) {
            Ok(path) => Ok(path.map(|path| path.0)),
            Err(Refusal::Entry { problem, .. }) => Err(problem),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_path_stays_in_its_folder_and_means_one_thing() {
        for (name, path) in [("a", "a"), ("./a/b/", "a/b"), ("a b/ä.txt", "a b/ä.txt"), ("..a/b..", "..a/b..")] {
            assert_eq!(parse(name), Ok(Some(path.into())));
        }
        for top in [".", "./"] {
            assert_eq!(parse(top), Ok(None));
        }
        for (name, problem) in [
            ("", EntryProblem::Nameless),
            ("/", EntryProblem::Absolute),
            ("/etc/passwd", EntryProblem::Absolute),
            ("..", EntryProblem::LeadsOut),
            ("a/../../b", EntryProblem::LeadsOut),
            ("./../b", EntryProblem::LeadsOut),
            ("a//b", EntryProblem::UnclearPath),
            ("a/./b", EntryProblem::UnclearPath),
            ("././a", EntryProblem::UnclearPath),
            ("a\\..\\b", EntryProblem::UnclearPath),
            ("C:/a", EntryProblem::UnclearPath),
            ("a\nb", EntryProblem::HiddenCharacter),
            ("a\u{202e}b", EntryProblem::HiddenCharacter),
            ("a\0b", EntryProblem::HiddenCharacter),
            (&"x".repeat(256), EntryProblem::TooLong),
            (&"x/".repeat(600), EntryProblem::TooLong),
            (&"x/".repeat(33), EntryProblem::TooDeep(32)),
        ] {
            assert_eq!(parse(name), Err(problem), "{name}");
        }
        assert!(EntryPath::parse(b"\xff", &Limits::default()).is_err());
    }

    #[test]
    fn names_that_some_systems_take_for_one_are_refused() {
        let check = |names: &[&str]| {
            let mut seen = Names::default();
            names.iter().try_for_each(|name| {
                let path = EntryPath::parse(name.as_bytes(), &Limits::default()).unwrap().unwrap();
                if name.ends_with('/') { seen.add_folder(&path) } else { seen.add_file(&path) }
            })
        };
        for fine in [&["a", "b", "c/a", "c/b"][..], &["c/", "c/a", "c/"], &["c/a", "c/"]] {
            assert_eq!(check(fine), Ok(()), "{fine:?}");
        }
        for wrong in [
            &["a", "a"][..],
            &["a", "A"],
            &["a", "a/"],
            &["a/", "a"],
            &["a", "a/b"],
            &["a/b", "A/c"],
            &["straße", "STRASSE"],
        ] {
            assert!(check(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_version_control_and_the_finder_keep_is_left_out() {
        let left_out =
            |name: &str| EntryPath::parse(name.as_bytes(), &Limits::default()).unwrap().unwrap().is_left_out();
        assert!(left_out(".git/hooks/pre-commit") && left_out("a/.git") && left_out("__MACOSX/a"));
        assert!(!left_out("a/.gitignore") && !left_out("a/__MACOSX/b") && !left_out("git/a"));
    }
}
