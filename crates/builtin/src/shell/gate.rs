//! Who may run which command: a hook of ours that looks at every call of `exec`.

use std::path::{Path, PathBuf};

use globset::GlobMatcher;
use pincer_tools::BoxFuture;
use pincer_tools::hooks::{ApprovalDemand, BeforeHook, BeforeToolCall, BeforeVerdict, HookError, Standing};

use super::analyse::{Analysis, analyse, literal_words};
use super::programs::{Argument, unknowable};
use super::reading::more_than_reads;
use super::shape::{shape, this_command};
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

/// Of the shell itself, and harmless as a part of a longer command.
const BUILTINS: [&str; 10] = [":", "[", "cd", "echo", "false", "printf", "pwd", "test", "true", "type"];
/// Programs that are on every list.
const ALWAYS_LISTED: [&str; 7] = ["[", "echo", "false", "printf", "pwd", "test", "true"];

/// Looks at every command before it runs.
pub(crate) struct Gate {
    mode: ExecMode,
    allow: Vec<Listed>,
    path: Vec<PathBuf>,
    workspace: PathBuf,
    /// Whether commands can be confined here.
    confines: bool,
}

/// An entry of the list: a glob over the paths of programs, or over bare names of those found by `PATH`.
struct Listed {
    matcher: GlobMatcher,
    bare: bool,
    arguments: Option<ListedArguments>,
}

/// The arguments that an entry names.
struct ListedArguments {
    words: Vec<String>,
    /// Others may follow.
    and_more: bool,
}

/// A command that runs without a person being asked, and without a shell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unasked {
    /// The program by its path, and its arguments.
    pub words: Vec<String>,
    pub bounds: Bounds,
}

/// What a command may do that runs unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// It is confined to reading.
    Reading,
    /// The list has all of its words: it does what the settings let commands do.
    Settings,
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
    /// It runs this program. An answer for ever covers commands of this shape.
    Runs { shape: String, program: Program },
    /// What it does cannot be told.
    Unknowable(String),
}

impl Gate {
    pub fn new(
        mode: ExecMode,
        allow: &[String],
        path: &str,
        workspace: &Path,
        confines: bool,
    ) -> Result<Self, GateError> {
        let allow = allow.iter().map(|text| Listed::parse(text)).collect::<Result<_, _>>()?;
        let path = std::env::split_paths(path).collect();
        Ok(Self { mode, allow, path, workspace: workspace.to_owned(), confines })
    }

    fn judge(&self, command: &str, directory: Option<&str>) -> BeforeVerdict {
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
        let verdict = BeforeVerdict { standing: standing(&parts, command, directory), ..BeforeVerdict::default() };
        if self.mode == ExecMode::Full {
            return verdict;
        }
        let why = match self.unasked(command) {
            Ok(_) => return verdict,
            Err(why) => self.complaint(&parts).unwrap_or(why),
        };
        if self.mode == ExecMode::Allowlist {
            return block(why);
        }
        let demand = ApprovalDemand { title: Some("Run a command".into()), description: Some(why) };
        BeforeVerdict { require_approval: Some(demand), ..verdict }
    }

    /// Returns how a command runs that the list lets run unasked. All others are for the shell.
    pub fn direct(&self, command: &str) -> Option<Unasked> {
        if self.mode == ExecMode::Full { None } else { self.unasked(command).ok() }
    }

    /// Returns how a command runs without being asked about, or why it does not.
    fn unasked(&self, command: &str) -> Result<Unasked, String> {
        let Some(words) = literal_words(command) else {
            return Err(
                "only a single command of plain words runs unasked, without joins, redirections and globs".into()
            );
        };
        let (name, arguments) = words.split_first().ok_or("it is empty")?;
        let program = self.program(name)?;
        let unasked = |bounds| {
            let program = program.found.display().to_string();
            Unasked { words: std::iter::once(program).chain(arguments.iter().cloned()).collect(), bounds }
        };
        let mut listed = self.allow.iter().filter(|listed| listed.names(&program));
        if listed.clone().any(|listed| listed.arguments.as_ref().is_some_and(|named| named.are(arguments))) {
            return Ok(unasked(Bounds::Settings));
        }
        let is_listed =
            ALWAYS_LISTED.contains(&program.name.as_str()) || listed.any(|listed| listed.arguments.is_none());
        if !is_listed {
            return Err(format!("not on the list tools.exec.allow: {}", program.known_as()));
        }
        let name = program.real.file_name().unwrap_or_default().to_string_lossy();
        let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
        if let Some(why) = more_than_reads(known_name(&program.name, &name), &texts) {
            return Err(format!("{why}; the list can name the whole command"));
        }
        match self.confines {
            true => Ok(unasked(Bounds::Reading)),
            false => Err("this system cannot confine commands, so none runs unasked".into()),
        }
    }

    /// Returns the first thing that a person should know of the parts.
    fn complaint(&self, parts: &[Part]) -> Option<String> {
        let unknowable = parts.iter().find_map(|part| match part {
            Part::Unknowable(why) => Some(why.clone()),
            _ => None,
        });
        let is_listed = |program: &Program| self.allow.iter().any(|listed| listed.names(program));
        let unlisted = parts.iter().filter_map(|part| match part {
            Part::Runs { program, .. } if !is_listed(program) => Some(program.known_as()),
            _ => None,
        });
        let mut unlisted: Vec<String> = unlisted.collect();
        unlisted.sort();
        unlisted.dedup();
        let unlisted =
            (!unlisted.is_empty()).then(|| format!("not on the list tools.exec.allow: {}", unlisted.join(", ")));
        unknowable.or(unlisted)
    }

    fn part(&self, words: &[Argument]) -> Part {
        let Some((first, arguments)) = words.split_first() else { return Part::Builtin };
        let name = first.text.as_str();
        if let Some(changed) = arguments.iter().find(|argument| argument.changes) {
            return Part::Unknowable(format!("the shell makes something else of `{}`", changed.text));
        }
        if BUILTINS.contains(&name) {
            // Some shells let these set variables, `PATH` among them, or evaluate what they test.
            let sets = arguments.iter().any(|argument| argument.text.starts_with("-v"));
            return if sets { Part::Unknowable(format!("`{name} -v` can change what runs")) } else { Part::Builtin };
        }
        match self.program(name) {
            Ok(program) => match program.unknowable(arguments) {
                Some(why) => Part::Unknowable(why),
                None => Part::Runs { shape: shape(&program.known_as(), arguments), program },
            },
            // Perhaps it is a word of the shell.
            Err(why) => Part::Unknowable(unknowable(name, arguments).unwrap_or(why)),
        }
    }

    /// Returns the program of this name, or why it cannot be told which one that is.
    fn program(&self, name: &str) -> Result<Program, String> {
        if name.contains('/') && !name.starts_with('/') {
            return Err(format!("`{name}` depends on the directory it is run in"));
        }
        if name.starts_with("/proc/") || name.starts_with("/dev/") {
            return Err(format!("`{name}` is another program for every process"));
        }
        let program = self.resolve(name).ok_or_else(|| format!("there is no program `{name}`"))?;
        if program.real.starts_with(&self.workspace) || program.found.starts_with(&self.workspace) {
            return Err(format!("`{name}` is a file of the workspace, which can change"));
        }
        Ok(program)
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
    /// Returns why it cannot be told what this program does with these arguments, under whatever name it goes.
    fn unknowable(&self, arguments: &[Argument]) -> Option<String> {
        [&self.found, &self.real].into_iter().find_map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            unknowable(&name, arguments)
        })
    }

    /// By the name it was found under and by what that is: of a program with many names, each is another, and a link that is
    /// changed is another too.
    fn known_as(&self) -> String {
        match self.found == self.real {
            true => self.found.display().to_string(),
            false => format!("{} ({})", self.found.display(), self.real.display()),
        }
    }
}

impl Listed {
    fn parse(text: &str) -> Result<Self, GateError> {
        let wrong = |reason: &str| GateError { pattern: text.to_owned(), reason: reason.to_owned() };
        let mut words = text.split_whitespace();
        let program = words.next().ok_or_else(|| wrong("it is empty"))?;
        let matcher = compile(program, Separator::Literal).map_err(|error| wrong(&error.to_string()))?;
        let mut words: Vec<String> = words.map(str::to_owned).collect();
        let arguments = (!words.is_empty()).then(|| {
            let and_more = words.pop_if(|last| last == "*").is_some();
            ListedArguments { words, and_more }
        });
        Ok(Self { matcher, bare: !program.contains('/'), arguments })
    }

    /// Whether this entry is about a program.
    fn names(&self, program: &Program) -> bool {
        if self.bare {
            return program.bare && self.matcher.is_match(&program.name);
        }
        self.matcher.is_match(&program.found) || self.matcher.is_match(&program.real)
    }
}

impl ListedArguments {
    fn are(&self, arguments: &[String]) -> bool {
        match self.and_more {
            true => arguments.starts_with(&self.words),
            false => arguments == self.words,
        }
    }
}

/// Returns the name by which the tables know a program: the one that it was called by, unless a link leads to another program,
/// as from `python` to `python3.12`. Programs with many names, as of busybox, are in no table.
fn known_name<'a>(called: &'a str, real: &'a str) -> &'a str {
    let called = called.rsplit('/').next().unwrap_or(called);
    // Some systems keep their usual programs in one file, or under a name that says which ones these are.
    let is_variant = |suffix: &str| suffix.is_empty() || suffix.starts_with(['.', '-']);
    if real.strip_prefix(called).is_some_and(is_variant) || real == "coreutils" { called } else { real }
}

/// Returns what an answer for ever to a question about this command covers: commands of the same shapes, or this very command
/// where it cannot be told what it does.
fn standing(parts: &[Part], command: &str, directory: Option<&str>) -> Standing {
    let mut shapes = Vec::new();
    for part in parts {
        match part {
            Part::Builtin => {}
            Part::Runs { shape, .. } => shapes.push(shape.clone()),
            Part::Unknowable(_) => return this_command(command, directory),
        }
    }
    if shapes.is_empty() {
        return this_command(command, directory);
    }
    shapes.sort();
    shapes.dedup();
    Standing::Parts(shapes)
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

impl BeforeHook for Gate {
    fn before_tool_call<'a>(&'a self, event: &'a BeforeToolCall) -> BoxFuture<'a, Result<BeforeVerdict, HookError>> {
        let command = event.params.get("command").and_then(|command| command.as_str()).unwrap_or_default();
        let directory = event.params.get("cwd").and_then(|directory| directory.as_str());
        let verdict = self.judge(command, directory);
        Box::pin(async move { Ok(verdict) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::LONGEST_REMEMBERED;
    use super::*;

    fn gate(mode: ExecMode, allow: &[&str]) -> Gate {
        let allow: Vec<String> = allow.iter().map(|text| (*text).to_owned()).collect();
        Gate::new(mode, &allow, "/usr/local/bin:/usr/bin:/bin", Path::new("/nonexistent"), true).expect("patterns")
    }

    fn verdict(mode: ExecMode, allow: &[&str], command: &str) -> BeforeVerdict {
        gate(mode, allow).judge(command, None)
    }

    fn asks(allow: &[&str], command: &str) -> Option<Standing> {
        let verdict = verdict(ExecMode::Ask, allow, command);
        verdict.require_approval.map(|_| verdict.standing)
    }

    fn exactly(command: &str) -> Option<Standing> {
        Some(Standing::Parts(vec![format!("{command:?}")]))
    }

    #[test]
    fn modes() {
        assert_eq!(verdict(ExecMode::Deny, &["ls"], "ls").block, Some(true));
        assert_eq!(verdict(ExecMode::Full, &[], "rm -rf /").require_approval, None);
        assert_eq!(verdict(ExecMode::Allowlist, &["ls"], "ls -l").block, None);
        assert_eq!(verdict(ExecMode::Allowlist, &["ls"], "cat x").block, Some(true));
        assert_eq!(asks(&["ls"], "ls -l"), None);
        assert!(asks(&[], "ls").is_some());
        let allow = ["ls".to_owned(), "make test".to_owned()];
        let unconfined = Gate::new(ExecMode::Ask, &allow, "/usr/bin:/bin", Path::new("/nonexistent"), false);
        let unconfined = unconfined.expect("patterns");
        assert!(unconfined.judge("ls", None).require_approval.is_some(), "what cannot be confined");
        assert!(unconfined.judge("make test", None).require_approval.is_none(), "what the operator has written out");
    }

    #[test]
    fn only_one_plain_command_runs_unasked() {
        assert_eq!(asks(&["ls"], " ls -l 'a b' \n"), None);
        for command in [
            "ls; ls",
            "ls | ls",
            "ls && ls",
            "ls & ls",
            "ls &",
            "ls\nls",
            "ls $(ls)",
            "ls > x",
            "ls 2>&1",
            "ls </dev/null",
            "ls *",
            "ls $HOME",
            "ls ~",
            "ls {a,b}",
            "ls [a]",
            "cd x",
        ] {
            assert!(asks(&["*", "/**"], command).is_some(), "{command}");
        }
        let unasked = gate(ExecMode::Ask, &["ls"]).unasked("ls -l 'a b'").expect("runs");
        assert_eq!((unasked.words[0].ends_with("/ls"), &unasked.words[1..]), (true, &["-l".into(), "a b".into()][..]));
    }

    #[test]
    fn an_entry_can_name_a_whole_command() {
        let allow = ["make test", "npm run *", "/usr/bin/env -i"];
        assert_eq!(asks(&allow, "make test"), None);
        assert_eq!(asks(&allow, "make 'test'"), None);
        for command in ["make", "make test x", "make deploy", "make test; ls", "make test > x", "npm install"] {
            assert!(asks(&allow, command).is_some(), "{command}");
        }
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
    fn an_answer_for_ever_about_what_cannot_be_told_is_for_that_command() {
        for command in [
            "sh -c ls",
            "bash x.sh",
            "env ls",
            "xargs rm",
            "sudo ls",
            "python3 -c 'x'",
            "python3 x.py",
            "node -e 1",
            "perl -ne x f",
            "awk '{system(\"id\")}' f",
            "find . -exec rm {} +",
            "eval ls",
            "timeout 5 ls",
            "time ls",
            "\\time ls",
            "/usr/bin/time ls",
            ". ./x",
            "sed -i s/a/b/ f",
            "find . -delete",
            "ls *.rs",
            "test {-v,'a[$(id)]'}",
            "printf {-v,PATH} x",
            "printf -[v] PATH x",
            "tar cfI x y",
            "cd x",
        ] {
            assert_eq!(asks(&[], command), exactly(command), "{command}");
        }
        assert_eq!(asks(&[], &format!("sh -c {}", "x".repeat(LONGEST_REMEMBERED))), Some(Standing::Never));
        let elsewhere = gate(ExecMode::Ask, &[]).judge("./x", Some("sub")).standing;
        assert_eq!(elsewhere, Standing::Parts(vec!["\"./x\" in \"sub\"".into()]));
    }

    #[test]
    fn an_answer_for_ever_covers_commands_of_one_shape() {
        let shapes = |command: &str| match asks(&[], command) {
            Some(Standing::Parts(shapes)) => {
                let name = |shape: &String| {
                    shape.split(' ').filter(|word| !word.starts_with('(')).collect::<Vec<_>>().join(" ")
                };
                shapes
                    .iter()
                    .map(|shape| name(shape).rsplit_once("bin/").expect("a path").1.to_owned())
                    .collect::<Vec<_>>()
            }
            other => panic!("{command}: {other:?}"),
        };
        for (command, expected) in [
            ("sort a.txt", vec!["sort *"]),
            ("sort -o a.txt b.txt", vec!["sort -o a.txt *"]),
            ("uniq a.txt", vec!["uniq *"]),
            ("uniq a.txt b.txt", vec!["uniq * *"]),
            ("seq 1 2 | sort -r | cat | sort -r", vec!["cat", "seq * *", "sort -r"]),
            ("git commit -m 'a \"b'", vec!["git commit -m \"a \\\"b\""]),
            ("touch '*'", vec!["touch *"]),
            ("touch -r '*'", vec!["touch -r \"*\""]),
            ("cd x && touch a.txt", vec!["touch *"]),
        ] {
            assert_eq!(shapes(command), expected, "{command}");
        }
        // Also where another rule asks.
        assert!(matches!(verdict(ExecMode::Full, &[], "ls").standing, Standing::Parts(_)));
    }
}
