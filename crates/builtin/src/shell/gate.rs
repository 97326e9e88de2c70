//! Who may run which command: a hook of ours that looks at every call of `exec`.

use std::path::{Path, PathBuf};

use globset::GlobMatcher;
use pincer_tools::BoxFuture;
use pincer_tools::hooks::{ApprovalDemand, BeforeHook, BeforeToolCall, BeforeVerdict, HookError, Standing};

use super::analyse::{Analysis, analyse};
use super::programs::{Argument, unknowable};
use crate::glob::{Separator, compile};

/// What happens to a command that is not on the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecMode {
    /// No command runs.
    Deny,
    /// Only commands on the list run.
    Allowlist,
    /// A person is asked.
    #[default]
    Ask,
    /// It runs.
    Full,
}

/// A pattern that is none.
#[derive(Debug, thiserror::Error)]
#[error("`{pattern}` is not a glob for programs: {reason}")]
pub struct GateError {
    pattern: String,
    reason: String,
}

/// Of the shell itself, and harmless: they run nothing and write nothing.
const BUILTINS: [&str; 10] = [":", "[", "cd", "echo", "false", "printf", "pwd", "test", "true", "type"];

/// Looks at every command before it runs.
pub(crate) struct Gate {
    mode: ExecMode,
    allow: Vec<Pattern>,
    path: Vec<PathBuf>,
    workspace: PathBuf,
}

/// An entry of the list: a glob over the paths of programs, or over bare names of those found by `PATH`.
struct Pattern {
    matcher: GlobMatcher,
    bare: bool,
}

/// A program that a command runs.
struct Program {
    name: String,
    bare: bool,
    found: PathBuf,
    /// Links followed.
    real: PathBuf,
}

/// What is known of a part of a command.
enum Part {
    /// It is the shell's own, and harmless.
    Builtin,
    /// This program is on the list.
    Listed(String),
    /// This one is not.
    Unlisted(String),
    /// Not on the list, and no list could ever tell what it does.
    Unknowable(String),
}

impl Gate {
    pub fn new(mode: ExecMode, allow: &[String], path: &str, workspace: &Path) -> Result<Self, GateError> {
        let pattern = |text: &String| {
            let wrong = |reason: String| GateError { pattern: text.clone(), reason };
            if text.trim().is_empty() {
                return Err(wrong("it is empty".into()));
            }
            let matcher = compile(text, Separator::Literal).map_err(|error| wrong(error.to_string()))?;
            Ok(Pattern { matcher, bare: !text.contains('/') })
        };
        let allow = allow.iter().map(pattern).collect::<Result<_, _>>()?;
        let path = std::env::split_paths(path).collect();
        Ok(Self { mode, allow, path, workspace: workspace.to_owned() })
    }

    fn judge(&self, command: &str) -> BeforeVerdict {
        let block = |reason: String| BeforeVerdict {
            block: Some(true),
            block_reason: Some(reason),
            ..BeforeVerdict::default()
        };
        if self.mode == ExecMode::Deny {
            return block("commands are turned off: tools.exec.mode is `deny`".into());
        }
        let parts = match analyse(command) {
            Analysis::Segments(segments) => segments.iter().map(|words| self.part(words)).collect(),
            Analysis::Opaque(why) => vec![Part::Unknowable(format!("what it runs cannot be told: {why}"))],
        };
        let (mut all, mut unlisted, mut unknowable) = (Vec::new(), Vec::new(), None);
        for part in parts {
            match part {
                Part::Builtin => {}
                Part::Listed(program) => all.push(program),
                Part::Unlisted(program) => {
                    all.push(program.clone());
                    unlisted.push(program);
                }
                Part::Unknowable(why) => unknowable = unknowable.or(Some(why)),
            }
        }
        all.sort();
        all.dedup();
        // Whoever asks about this command, an answer for ever is about its programs, and never about all commands.
        let standing = if unknowable.is_some() { Standing::Never } else { Standing::Parts(all) };
        let verdict = BeforeVerdict { standing, ..BeforeVerdict::default() };
        let why = match unknowable {
            _ if self.mode == ExecMode::Full => return verdict,
            None if unlisted.is_empty() => return verdict,
            None => format!("not on the list tools.exec.allow: {}", unlisted.join(", ")),
            Some(why) => why,
        };
        if self.mode == ExecMode::Allowlist {
            return block(why);
        }
        let demand = ApprovalDemand { title: Some("Run a command".into()), description: Some(why) };
        BeforeVerdict { require_approval: Some(demand), ..verdict }
    }

    fn part(&self, words: &[Argument]) -> Part {
        let Some((first, arguments)) = words.split_first() else { return Part::Builtin };
        let name = first.text.as_str();
        if BUILTINS.contains(&name) {
            // Some shells let these set variables, `PATH` among them, or evaluate what they test.
            let sets = arguments.iter().any(|argument| argument.text.starts_with("-v"));
            return if sets { Part::Unknowable(format!("`{name} -v` can change what runs")) } else { Part::Builtin };
        }
        if name.contains('/') && !name.starts_with('/') {
            return Part::Unknowable(format!("`{name}` depends on the directory it is run in"));
        }
        if name.starts_with("/proc/") || name.starts_with("/dev/") {
            return Part::Unknowable(format!("`{name}` is another program for everyone who asks"));
        }
        let Some(program) = self.resolve(name) else {
            // Perhaps it is a word of the shell.
            let why = unknowable(name, arguments).unwrap_or_else(|| format!("there is no program `{name}`"));
            return Part::Unknowable(why);
        };
        // Under whatever name it goes.
        for path in [&program.found, &program.real] {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if let Some(why) = unknowable(&name, arguments) {
                return Part::Unknowable(why);
            }
        }
        if program.real.starts_with(&self.workspace) || program.found.starts_with(&self.workspace) {
            return Part::Unknowable(format!("`{name}` is a file of the workspace, which can change"));
        }
        let known_as = program.known_as();
        match self.allow.iter().any(|pattern| pattern.allows(&program)) {
            true => Part::Listed(known_as),
            false => Part::Unlisted(known_as),
        }
    }

    fn resolve(&self, name: &str) -> Option<Program> {
        let bare = !name.contains('/');
        let found = match bare {
            true => self.path.iter().map(|directory| directory.join(name)).find(|file| is_program(file))?,
            false => PathBuf::from(name),
        };
        let real = found.canonicalize().ok().filter(|file| is_program(file))?;
        Some(Program { name: name.into(), bare, found, real })
    }
}

impl Program {
    /// By the name it was found under and by what that is: of a program with many names, each is another, and a link that is
    /// changed is another too.
    fn known_as(&self) -> String {
        match self.found == self.real {
            true => self.found.display().to_string(),
            false => format!("{} ({})", self.found.display(), self.real.display()),
        }
    }
}

impl Pattern {
    fn allows(&self, program: &Program) -> bool {
        if self.bare {
            return program.bare && self.matcher.is_match(&program.name);
        }
        self.matcher.is_match(&program.found) || self.matcher.is_match(&program.real)
    }
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

impl BeforeHook for Gate {
    fn before_tool_call<'a>(&'a self, event: &'a BeforeToolCall) -> BoxFuture<'a, Result<BeforeVerdict, HookError>> {
        let command = event.params.get("command").and_then(|command| command.as_str()).unwrap_or_default();
        let verdict = self.judge(command);
        Box::pin(async move { Ok(verdict) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(mode: ExecMode, allow: &[&str], command: &str) -> BeforeVerdict {
        let allow: Vec<String> = allow.iter().map(|text| (*text).to_owned()).collect();
        Gate::new(mode, &allow, "/usr/local/bin:/usr/bin:/bin", Path::new("/nonexistent"))
            .expect("patterns")
            .judge(command)
    }

    fn asks(allow: &[&str], command: &str) -> Option<Standing> {
        let verdict = verdict(ExecMode::Ask, allow, command);
        verdict.require_approval.map(|_| verdict.standing)
    }

    #[test]
    fn modes() {
        assert_eq!(verdict(ExecMode::Deny, &["ls"], "ls").block, Some(true));
        assert_eq!(verdict(ExecMode::Full, &[], "rm -rf /").require_approval, None);
        assert_eq!(verdict(ExecMode::Allowlist, &["ls"], "ls -l").block, None);
        assert_eq!(verdict(ExecMode::Allowlist, &["ls"], "cat x").block, Some(true));
        assert_eq!(asks(&["ls"], "ls -l"), None);
        assert!(asks(&[], "ls").is_some());
    }

    #[test]
    fn every_part_of_a_chain_must_be_on_the_list() {
        assert_eq!(asks(&["ls", "cat"], "ls | cat && cd x; echo done"), None);
        assert!(asks(&["ls"], "ls | cat").is_some());
        assert!(asks(&["ls"], "ls; rm x").is_some());
        assert!(asks(&["ls"], "ls & rm x").is_some());
        assert!(asks(&["ls"], "ls\nrm x").is_some());
        assert!(asks(&["ls"], "ls $(rm x)").is_some());
        assert!(asks(&["ls"], "ls > x").is_some());
    }

    #[test]
    fn a_name_means_what_path_finds_and_a_path_what_is_there() {
        assert_eq!(asks(&["/usr/bin/*", "/bin/*"], "ls"), None);
        assert_eq!(asks(&["l*"], "ls"), None);
        assert!(asks(&["ls"], "/bin/ls").is_some(), "a bare name is not a path");
        assert!(asks(&["ls"], "./ls").is_some());
        assert!(asks(&["*"], "no-such-program-anywhere").is_some());
    }

    #[test]
    fn what_runs_other_programs_or_inline_code_is_never_listed_nor_remembered() {
        for command in [
            "sh -c ls",
            "bash x.sh",
            "env ls",
            "xargs rm",
            "sudo ls",
            "python3 -c 'x'",
            "python3 -Bc x",
            "python3",
            "node -e 1",
            "node --eval=1",
            "perl -ne x f",
            "awk '{system(\"id\")}' f",
            "find . -exec rm {} +",
            "eval ls",
            "timeout 5 ls",
            ". ./x",
            "sed -i s/a/b/ f",
            "find . -delete",
            "command ls",
            "node",
            "nohup ls",
        ] {
            assert_eq!(asks(&["*", "/**"], command), Some(Standing::Never), "{command}");
        }
        assert_eq!(asks(&["find"], "find . -name x"), None);
    }

    #[test]
    fn an_answer_for_ever_is_about_the_programs() {
        let Some(Standing::Parts(programs)) = asks(&["ls"], "ls | sort | uniq | sort") else { panic!("asks") };
        assert_eq!(programs.len(), 3, "{programs:?}");
        // Also where it is somebody else who asks.
        assert!(matches!(verdict(ExecMode::Full, &[], "ls").standing, Standing::Parts(_)));
        assert_eq!(verdict(ExecMode::Full, &[], "sh -c ls").standing, Standing::Never);
        assert!(programs.iter().all(|program| program.starts_with('/')), "{programs:?}");
    }
}
