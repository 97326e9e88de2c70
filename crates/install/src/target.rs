//! The thing that is installed: a plugin or a skill, and its name.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of a thing that is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A folder with a `pincer.plugin.json5`.
    Plugin,
    /// A folder with a `SKILL.md`.
    Skill,
}

impl Kind {
    /// Returns the file that makes a folder one of this kind.
    pub fn manifest(self) -> &'static str {
        match self {
            Self::Plugin => pincer_plugins::MANIFEST,
            Self::Skill => pincer_skills::SKILL_FILE,
        }
    }

    /// Returns the folder of the state directory in which all of this kind are.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Plugin => "plugins",
            Self::Skill => "skills",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plugin => "plugin",
            Self::Skill => "skill",
        })
    }
}

/// Returns whether a text can be the name of a plugin or a skill, and so of its folder.
///
/// The name of a skill is read from its own file, so this rule is all that keeps it from being a path.
pub fn is_target_name(name: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    (1..=64).contains(&name.len())
        && name.bytes().all(letters)
        && name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
}

/// The reason for which something is put in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// A new thing is installed.
    Install,
    /// An older version is replaced.
    Update,
}

impl Request {
    /// Returns the fact that nothing was put in place, as the end of a sentence about the thing.
    pub(crate) fn not_done(self) -> &'static str {
        match self {
            Self::Install => "is not installed",
            Self::Update => "is not updated, and the installed one stays",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_a_path() {
        for name in ["notes", "a", "my-skill", "a_b", "2fa", &"x".repeat(64)] {
            assert!(is_target_name(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "a\\b", "-a", "_a", "A", "a b", "ä", "a\0", "a\n", ".a", &"x".repeat(65)] {
            assert!(!is_target_name(name), "{name}");
        }
    }
}
