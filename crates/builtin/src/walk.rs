//! A walk through the workspace, directory handle by directory handle, with the ignore rules of the ripgrep crates.

use std::io::{self, Read};
use std::path::Path;

use cap_std::fs::{Dir, DirEntry};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::workspace::open_regular;

/// How deep a walk goes.
const MOST_DEPTH: usize = 64;
/// A file of ignore rules is short.
const MOST_RULES_BYTES: u64 = 1 << 20;
const RULE_FILES: [&str; 2] = [".gitignore", ".ignore"];

/// What a walk leaves out, and when it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkOptions {
    /// Names that begin with a dot too.
    pub hidden: bool,
    /// What ignore rules name too.
    pub ignored: bool,
    /// How many entries are looked at.
    pub most: usize,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self { hidden: false, ignored: false, most: 200_000 }
    }
}

/// Something a walk came by.
pub(crate) struct Found {
    /// From where the walk began, with `/`.
    pub path: String,
    pub is_file: bool,
    pub is_dir: bool,
    pub entry: DirEntry,
}

/// A directory that is being walked.
struct Level {
    prefix: String,
    dir: Dir,
    /// What is left of it, last first.
    entries: Vec<DirEntry>,
    rules: Gitignore,
}

/// A walk in the order of names, files and directories mixed, each directory before what is in it. Links are not followed.
pub(crate) struct Walk {
    levels: Vec<Level>,
    options: WalkOptions,
    looked_at: usize,
}

impl Walk {
    pub(crate) fn new(dir: &Dir, options: WalkOptions) -> io::Result<Self> {
        let mut walk = Self { levels: Vec::new(), options, looked_at: 0 };
        walk.enter(dir.try_clone()?, String::new())?;
        Ok(walk)
    }

    /// Whether it ended before everything was looked at.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.looked_at >= self.options.most
    }

    fn enter(&mut self, dir: Dir, prefix: String) -> io::Result<()> {
        let mut entries: Vec<DirEntry> = dir.entries()?.filter_map(Result::ok).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.file_name()));
        let rules = if self.options.ignored { Gitignore::empty() } else { rules(&dir) };
        self.levels.push(Level { prefix, dir, entries, rules });
        Ok(())
    }

    /// Whether rules name an entry: those nearest to it decide.
    fn is_ignored(&self, path: &str, is_dir: bool) -> bool {
        for level in self.levels.iter().rev() {
            let from_there = path.strip_prefix(level.prefix.as_str()).unwrap_or(path);
            match level.rules.matched(Path::new(from_there), is_dir) {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        false
    }
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            let level = self.levels.last_mut()?;
            let Some(entry) = level.entries.pop() else {
                self.levels.pop();
                continue;
            };
            if self.looked_at >= self.options.most {
                return None;
            }
            self.looked_at += 1;
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(kind) = entry.file_type() else { continue };
            let path = format!("{}{name}", level.prefix);
            let hidden = name.starts_with('.') && !self.options.hidden || name == ".git";
            if hidden || self.is_ignored(&path, kind.is_dir()) {
                continue;
            }
            if kind.is_dir() && self.levels.len() < MOST_DEPTH {
                // Opened from the handle of its parent: what is swapped for a link in the meantime is refused, or within.
                let dir = self.levels.last().and_then(|level| level.dir.open_dir(entry.file_name()).ok());
                if let Some(dir) = dir {
                    let _ = self.enter(dir, format!("{path}/"));
                }
            }
            return Some(Found { path, is_file: kind.is_file(), is_dir: kind.is_dir(), entry });
        }
    }
}

fn rules(dir: &Dir) -> Gitignore {
    let mut builder = GitignoreBuilder::new("");
    for name in RULE_FILES {
        let mut text = String::new();
        let read = open_regular(dir, Path::new(name))
            .and_then(|(file, _)| file.take(MOST_RULES_BYTES).read_to_string(&mut text));
        if read.is_ok() {
            for line in text.lines() {
                // A rule that cannot be understood is no rule.
                let _ = builder.add_line(None, line);
            }
        }
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
