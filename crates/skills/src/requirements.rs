//! The requirements of a skill, and a check of them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The requirements of a skill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Programs, all of them.
    pub programs: Vec<String>,
    /// Programs, one of them.
    pub any_program: Vec<String>,
    /// Variables, all of them.
    pub variables: Vec<String>,
    /// Keys of the config that must be set and not `false`.
    pub settings: Vec<String>,
    /// Systems, one of them: `linux`, `darwin`, `win32`. None is any.
    pub systems: Vec<String>,
    /// Nothing but the system counts.
    pub always: bool,
}

/// The surroundings that requirements are checked against.
pub struct Surroundings<'s> {
    /// The directories in which programs are looked for.
    pub path: Vec<PathBuf>,
    /// Returns whether a variable is set and not empty.
    pub has_variable: &'s dyn Fn(&str) -> bool,
    /// Returns whether a key of the config is set and not `false`.
    pub has_setting: &'s dyn Fn(&str) -> bool,
}

/// A requirement that is not met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// The skill is for other systems.
    #[error("it is for {}, and this is {here}", wanted.join(" or "))]
    System {
        /// The systems that it is for.
        wanted: Vec<String>,
        /// This one.
        here: &'static str,
    },
    /// A program is not there.
    #[error("the program `{0}` is not on PATH: install it")]
    Program(String),
    /// None of several programs is there.
    #[error("none of the programs {} is on PATH: install one", quoted(.0))]
    AnyProgram(Vec<String>),
    /// A variable is not set.
    #[error(
        "commands do not get the variable {0}: set it in `skills.entries.<name>.env`, or add it to `tools.exec.passEnv`"
    )]
    Variable(String),
    /// A key of the config is not set.
    #[error("the key `{0}` of the config is not set")]
    Setting(String),
}

fn quoted(words: &[String]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

impl Requirements {
    /// Returns the requirements that are not met.
    pub fn missing(&self, here: &Surroundings<'_>) -> Vec<Missing> {
        let mut missing = Vec::new();
        if !self.systems.is_empty() && !self.systems.iter().any(|system| is_this(system)) {
            missing.push(Missing::System { wanted: self.systems.clone(), here: std::env::consts::OS });
        }
        if self.always {
            return missing;
        }
        let has_program = |name: &String| has_program(&here.path, name);
        missing.extend(self.programs.iter().filter(|name| !has_program(name)).cloned().map(Missing::Program));
        if !self.any_program.is_empty() && !self.any_program.iter().any(has_program) {
            missing.push(Missing::AnyProgram(self.any_program.clone()));
        }
        let variables = self.variables.iter().filter(|name| !(here.has_variable)(name));
        missing.extend(variables.cloned().map(Missing::Variable));
        let settings = self.settings.iter().filter(|key| !(here.has_setting)(key));
        missing.extend(settings.cloned().map(Missing::Setting));
        missing
    }
}

/// Returns whether a word of any of the usual vocabularies means this system.
fn is_this(system: &str) -> bool {
    let system = system.to_ascii_lowercase();
    match std::env::consts::OS {
        "macos" => matches!(system.as_str(), "macos" | "darwin"),
        "windows" => matches!(system.as_str(), "windows" | "win32"),
        here => system == here,
    }
}

fn has_program(path: &[PathBuf], name: &str) -> bool {
    !name.contains('/') && path.iter().any(|directory| is_program(&directory.join(name)))
}

fn is_program(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(requirements: &Requirements) -> Vec<String> {
        let here = Surroundings {
            path: vec!["/usr/bin".into(), "/bin".into()],
            has_variable: &|name| name == "SET",
            has_setting: &|key| key == "tools.exec.mode",
        };
        requirements.missing(&here).iter().map(ToString::to_string).collect()
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn each_requirement_that_is_not_met_is_told() {
        let all = Requirements {
            programs: words(&["sh", "no-such-program", "../bin/sh"]),
            any_program: words(&["no-a", "no-b"]),
            variables: words(&["SET", "UNSET"]),
            settings: words(&["tools.exec.mode", "browser.enabled"]),
            systems: words(&["plan9"]),
            always: false,
        };
        let expected = [
            "it is for plan9",
            "`no-such-program`",
            "`../bin/sh`",
            "none of the programs `no-a`, `no-b`",
            "UNSET",
            "browser.enabled",
        ];
        let found = told(&all);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found}");
        }
        assert_eq!(told(&Requirements { always: true, ..all.clone() }).len(), 1, "only the system counts");
        let met = Requirements {
            programs: words(&["sh"]),
            any_program: words(&["no-a", "sh"]),
            variables: words(&["SET"]),
            systems: words(&["win32", "darwin", "linux"]),
            ..Requirements::default()
        };
        assert_eq!(told(&met), Vec::<String>::new());
    }
}
