//! Who may run which command: a hook of ours that looks at every call of `exec`.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use pincer_tools::BoxFuture;
use pincer_tools::hooks::{ApprovalDemand, BeforeHook, BeforeToolCall, BeforeVerdict, HookError, Standing};

use super::analyse::{Analysis, analyse};

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
/// Programs whose work is to run others: a list cannot know what.
const CARRIERS: [&str; 34] = [
    "bash", "busybox", "chroot", "command", "csh", "dash", "doas", "env", "eval", "exec", "fish", "flock", "ionice",
    "ksh", "nice", "nohup", "parallel", "script", "setsid", "sh", "source", ".", "ssh", "stdbuf", "strace", "su",
    "sudo", "taskset", "timeout", "unshare", "watch", "xargs", "zsh", "nsenter",
];
/// Interpreters, and the options with which they run what stands on the command line.
const INLINE: [(&str, &[&str]); 12] = [
    ("python", &["-c"]),
    ("node", &["-e", "--eval", "-p", "--print"]),
    ("perl", &["-e", "-E"]),
    ("ruby", &["-e"]),
    ("php", &["-r", "-R", "-B", "-E"]),
    ("lua", &["-e"]),
    ("deno", &["eval"]),
    ("bun", &["-e", "--eval", "-p", "--print"]),
    ("awk", &[""]),
    ("gawk", &[""]),
    ("sed", &[""]),
    ("find", &["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprintf", "-fls"]),
];

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
    /// It may run.
    Listed,
    /// Not on the list; an answer for ever would be about this program.
    Unlisted(PathBuf),
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
            let glob = GlobBuilder::new(text).literal_separator(true).build();
            let glob = glob.map_err(|error| wrong(error.kind().to_string()))?;
            Ok(Pattern { matcher: glob.compile_matcher(), bare: !text.contains('/') })
        };
        let allow = allow.iter().map(pattern).collect::<Result<_, _>>()?;
        // A relative entry would mean whatever directory the command is in.
        let path = std::env::split_paths(path).filter(|directory| directory.is_absolute()).collect();
        Ok(Self { mode, allow, path, workspace: workspace.to_owned() })
    }

    fn judge(&self, command: &str) -> BeforeVerdict {
        let block = |reason: String| BeforeVerdict {
            block: Some(true),
            block_reason: Some(reason),
            ..BeforeVerdict::default()
        };
        match self.mode {
            ExecMode::Full => return BeforeVerdict::default(),
            ExecMode::Deny => return block("commands are turned off: tools.exec.mode is `deny`".into()),
            ExecMode::Allowlist | ExecMode::Ask => {}
        }
        let parts = match analyse(command) {
            Analysis::Segments(segments) => segments.iter().map(|words| self.part(words)).collect(),
            Analysis::Opaque(why) => vec![Part::Unknowable(format!("what it runs cannot be told: {why}"))],
        };
        let mut unlisted = Vec::new();
        let mut unknowable = None;
        for part in parts {
            match part {
                Part::Listed => {}
                Part::Unlisted(program) => unlisted.push(program),
                Part::Unknowable(why) => unknowable = unknowable.or(Some(why)),
            }
        }
        unlisted.sort();
        unlisted.dedup();
        let programs: Vec<String> = unlisted.iter().map(|program| program.display().to_string()).collect();
        let why = match (&unknowable, programs.is_empty()) {
            (None, true) => return BeforeVerdict::default(),
            (Some(why), _) => why.clone(),
            (None, false) => format!("{} is not on the list tools.exec.allow", programs.join(", ")),
        };
        if self.mode == ExecMode::Allowlist {
            return block(why);
        }
        let standing = if unknowable.is_some() { Standing::Never } else { Standing::Parts(programs) };
        let demand = ApprovalDemand { title: Some("Run a command".into()), description: Some(why), standing };
        BeforeVerdict { require_approval: Some(demand), ..BeforeVerdict::default() }
    }

    fn part(&self, words: &[String]) -> Part {
        let Some(name) = words.first() else { return Part::Listed };
        if BUILTINS.contains(&name.as_str()) {
            return Part::Listed;
        }
        let plain = name.rsplit('/').next().unwrap_or(name);
        if CARRIERS.contains(&plain) {
            return Part::Unknowable(format!("`{plain}` runs other programs"));
        }
        if is_inline(plain, &words[1..]) {
            return Part::Unknowable(format!("`{plain}` runs code from its command line"));
        }
        if name.contains('/') && !name.starts_with('/') {
            return Part::Unknowable(format!("`{name}` depends on the directory it is run in"));
        }
        let Some(program) = self.resolve(name) else {
            return Part::Unknowable(format!("there is no program `{name}`"));
        };
        if self.allow.iter().any(|pattern| pattern.allows(&program, &self.workspace)) {
            return Part::Listed;
        }
        if program.real.starts_with(&self.workspace) {
            return Part::Unknowable(format!("`{name}` is a file of the workspace, which can change"));
        }
        // By the name it was found under: of a program with many names (busybox), each is another.
        Part::Unlisted(if program.bare { program.found } else { program.real })
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

impl Pattern {
    fn allows(&self, program: &Program, workspace: &Path) -> bool {
        if self.bare {
            // A bare name means what `PATH` finds, never a file that the model could have written.
            return program.bare && self.matcher.is_match(&program.name) && !program.real.starts_with(workspace);
        }
        self.matcher.is_match(&program.found) || self.matcher.is_match(&program.real)
    }
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// `python3.12 -c …`, `node --eval=…`; an interpreter without anything to run reads its program from its input.
fn is_inline(program: &str, arguments: &[String]) -> bool {
    let base = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let Some((_, options)) = INLINE.iter().find(|(name, _)| *name == base) else { return false };
    let matches = |argument: &String| {
        let option = argument.split('=').next().unwrap_or(argument);
        options.iter().any(|inline| {
            // Short options can be glued together: `perl -ne`, `python -Bc`.
            let glued = inline.len() == 2 && option.len() > 2 && option.starts_with('-') && !option.starts_with("--");
            option == *inline || glued && inline.chars().nth(1).is_some_and(|letter| option.contains(letter))
        })
    };
    let always = options.contains(&"");
    let from_input = base != "find" && arguments.iter().all(|argument| argument.starts_with('-'));
    always || from_input || arguments.iter().any(matches)
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
        verdict(ExecMode::Ask, allow, command).require_approval.map(|demand| demand.standing)
    }

    #[test]
    fn modes() {
        assert_eq!(verdict(ExecMode::Deny, &["ls"], "ls").block, Some(true));
        assert_eq!(verdict(ExecMode::Full, &[], "rm -rf /"), BeforeVerdict::default());
        assert_eq!(verdict(ExecMode::Allowlist, &["ls"], "ls -l"), BeforeVerdict::default());
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
    fn an_answer_for_ever_is_about_the_programs_that_were_not_listed() {
        let Some(Standing::Parts(programs)) = asks(&["ls"], "ls | sort | uniq | sort") else { panic!("asks") };
        assert_eq!(programs.len(), 2, "{programs:?}");
        assert!(programs.iter().all(|program| program.starts_with('/')), "{programs:?}");
    }
}
