//! Decides which commands run, and which are asked about: a built-in hook that looks at every call of `exec`.

use std::path::{Path, PathBuf};

use globset::GlobMatcher;
use pincer_tools::BoxFuture;
use pincer_tools::hooks::{ApprovalDemand, BeforeToolCall, BeforeVerdict, Handle, HookError, Standing};

use super::analyse::{Analysis, analyse, literal_words};
use super::programs::{Argument, unknowable};
use super::reading::{is_ordinary, more_than_reads};
use super::shape::{shape, this_command};
use crate::glob::{GlobError, Separator, compile};

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

/// An entry of `tools.exec.allow` that is no glob.
#[derive(Debug, thiserror::Error)]
#[error("`{pattern}` is not a glob for programs: {source}")]
pub struct GateError {
    pattern: String,
    source: GlobError,
}

/// The reason why a command does not run unasked.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum AskReason {
    #[error("only a single command of plain words runs unasked, without joins, redirections and globs")]
    NotPlainWords,
    #[error("it is empty")]
    Empty,
    #[error("`{0}` depends on the directory it is run in")]
    RelativePath(String),
    #[error("`{0}` is no plain path")]
    NotPlainPath(String),
    #[error("there is no program `{0}`")]
    NoProgram(String),
    #[error("`{0}` is another program for every process")]
    PerProcess(String),
    #[error("`{0}` is a file of a workspace, which can change")]
    InWorkspace(String),
    #[error("not on the list tools.exec.allow: {0}")]
    Unlisted(String),
    #[error("`{name}` is another name of {}", real.display())]
    OtherName { name: String, real: PathBuf },
    #[error("{0}; the list can name the whole command")]
    MoreThanReads(String),
    #[error("this system cannot confine commands, so none runs unasked")]
    Unconfined,
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
    /// All directories in which agents can change programs.
    workspaces: Vec<PathBuf>,
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

/// The bounds of a command that runs unasked.
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
    /// As it was named, or found by `PATH`.
    called: PathBuf,
    /// The same without links on the way.
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
    /// It cannot be told what this part does; why.
    Unknowable(String),
}

impl Gate {
    pub(crate) fn new(
        mode: ExecMode,
        allow: &[String],
        path: &str,
        workspaces: Vec<PathBuf>,
        confines: bool,
    ) -> Result<Self, GateError> {
        let allow = allow.iter().map(|text| Listed::parse(text)).collect::<Result<_, _>>()?;
        let path = std::env::split_paths(path).collect();
        Ok(Self { mode, allow, path, workspaces, confines })
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
            Err(reason) => self.complaint(&parts).unwrap_or_else(|| reason.to_string()),
        };
        if self.mode == ExecMode::Allowlist {
            return block(why);
        }
        let demand =
            ApprovalDemand { title: Some("Run a command".into()), description: Some(why), ..ApprovalDemand::default() };
        BeforeVerdict { require_approval: Some(demand), ..verdict }
    }

    /// Returns whether commands are judged at all.
    pub(crate) fn asks(&self) -> bool {
        self.mode != ExecMode::Full
    }

    /// Returns how a command runs that the list lets run unasked. All others are for the shell.
    pub(crate) fn direct(&self, command: &str) -> Option<Unasked> {
        if self.mode == ExecMode::Full { None } else { self.unasked(command).ok() }
    }

    /// Returns how a command runs without being asked about, or why it does not.
    fn unasked(&self, command: &str) -> Result<Unasked, AskReason> {
        let words = literal_words(command).ok_or(AskReason::NotPlainWords)?;
        let (name, arguments) = words.split_first().ok_or(AskReason::Empty)?;
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
            return Err(AskReason::Unlisted(program.known_as()));
        }
        let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let Some(name) = program.known_name() else {
            return Err(AskReason::OtherName { name: program.name, real: program.real });
        };
        if let Some(why) = more_than_reads(&name, &texts) {
            return Err(AskReason::MoreThanReads(why));
        }
        match self.confines {
            true => Ok(unasked(Bounds::Reading)),
            false => Err(AskReason::Unconfined),
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
        let unlisted = (!unlisted.is_empty()).then(|| AskReason::Unlisted(unlisted.join(", ")).to_string());
        unknowable.or(unlisted)
    }

    fn part(&self, words: &[Argument]) -> Part {
        let Some((first, arguments)) = words.split_first() else { return Part::Builtin };
        let name = first.text.as_str();
        if let Some(changed) = arguments.iter().find(|argument| argument.changes) {
            return Part::Unknowable(format!("the shell makes something else of `{}`", changed.text));
        }
        if name == "cd" {
            return Part::Unknowable("what follows `cd` depends on the directory".into());
        }
        if BUILTINS.contains(&name) {
            // Some shells let these set variables, `PATH` among them, or evaluate what they test.
            let sets = arguments.iter().any(|argument| argument.text.starts_with("-v"));
            return if sets { Part::Unknowable(format!("`{name} -v` can change what runs")) } else { Part::Builtin };
        }
        match self.program(name) {
            Ok(program) => match program.unknowable(arguments) {
                Some(why) => Part::Unknowable(why),
                None => {
                    let is_ordinary = program.known_name().is_some_and(|name| is_ordinary(&name));
                    Part::Runs { shape: shape(&program.known_as(), is_ordinary, arguments), program }
                }
            },
            // Perhaps it is a word of the shell.
            Err(reason) => Part::Unknowable(unknowable(name, arguments).unwrap_or_else(|| reason.to_string())),
        }
    }

    /// Returns the program of this name, or why it cannot be told which one that is.
    fn program(&self, name: &str) -> Result<Program, AskReason> {
        if name.contains('/') && !name.starts_with('/') {
            return Err(AskReason::RelativePath(name.into()));
        }
        // `/usr/../proc/self/cwd` is another directory for every process.
        if name.contains('/') && name.split('/').skip(1).any(|part| matches!(part, "" | "." | "..")) {
            return Err(AskReason::NotPlainPath(name.into()));
        }
        let program = self.resolve(name).ok_or_else(|| AskReason::NoProgram(name.into()))?;
        let is_special = |path: &Path| path.starts_with("/proc") || path.starts_with("/dev");
        if [&program.called, &program.found, &program.real].into_iter().any(|path| is_special(path)) {
            return Err(AskReason::PerProcess(name.into()));
        }
        let is_in = |path: &Path| self.workspaces.iter().any(|workspace| path.starts_with(workspace));
        if is_in(&program.real) || is_in(&program.found) {
            return Err(AskReason::InWorkspace(name.into()));
        }
        Ok(program)
    }

    fn resolve(&self, name: &str) -> Option<Program> {
        let bare = !name.contains('/');
        let called = match bare {
            true => self.path.iter().map(|directory| directory.join(name)).find(|file| is_program(file))?,
            false => PathBuf::from(name),
        };
        let real = called.canonicalize().ok().filter(|file| is_program(file))?;
        // Without links on the way, so that the kernel finds what was found here.
        let found = called.parent()?.canonicalize().ok()?.join(called.file_name()?);
        Some(Program { name: name.into(), bare, called, found, real })
    }
}

impl Program {
    /// Returns the name by which the tables know this program: the one that it was called by. Nothing, if a link leads to a program
    /// of another name.
    fn known_name(&self) -> Option<String> {
        let (called, real) = (self.found.file_name()?.to_str()?, self.real.file_name()?.to_str()?);
        // Some systems keep their usual programs in one file, or under a name that says which ones these are.
        let is_variant = |suffix: &str| suffix.is_empty() || suffix.starts_with('.');
        let is_it = real.strip_prefix(called).is_some_and(is_variant) || real == "coreutils";
        is_it.then(|| called.to_owned())
    }

    /// Returns why it cannot be told what this program does with these arguments, under whatever name it goes.
    fn unknowable(&self, arguments: &[Argument]) -> Option<String> {
        [&self.found, &self.real].into_iter().find_map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            unknowable(&name, arguments)
        })
    }

    /// Names the program by the path it was found at and by the file that is there: of a program with many names, each is another,
    /// and a link that is changed is another too.
    fn known_as(&self) -> String {
        match self.found == self.real {
            true => self.found.display().to_string(),
            false => format!("{} ({})", self.found.display(), self.real.display()),
        }
    }
}

impl Listed {
    fn parse(text: &str) -> Result<Self, GateError> {
        let wrong = |source: GlobError| GateError { pattern: text.to_owned(), source };
        let mut words = text.split_whitespace();
        let program = words.next().ok_or_else(|| wrong(GlobError::Empty))?;
        let matcher = compile(program, Separator::Literal).map_err(wrong)?;
        let mut words: Vec<String> = words.map(str::to_owned).collect();
        let arguments = (!words.is_empty()).then(|| {
            let and_more = words.pop_if(|last| last == "*").is_some();
            ListedArguments { words, and_more }
        });
        Ok(Self { matcher, bare: !program.contains('/'), arguments })
    }

    /// Returns whether this entry is about a program.
    fn names(&self, program: &Program) -> bool {
        if self.bare {
            return program.bare && self.matcher.is_match(&program.name);
        }
        // Not by what it leads to: a program with several names does something else under each.
        self.matcher.is_match(&program.called) || self.matcher.is_match(&program.found)
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

/// Returns what an answer for ever to a question about this command covers: commands of the same shapes, or this very command
/// where it cannot be told what it does.
fn standing(parts: &[Part], command: &str, directory: Option<&str>) -> Standing {
    let mut shapes = Vec::new();
    for part in parts {
        match part {
            Part::Builtin => {}
            Part::Runs { shape, .. } => shapes.push(match directory {
                Some(directory) => format!("{shape} in {directory:?}"),
                None => shape.clone(),
            }),
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

impl Handle<BeforeToolCall> for Gate {
    fn handle<'a>(&'a self, event: &'a BeforeToolCall) -> BoxFuture<'a, Result<BeforeVerdict, HookError>> {
        let command = event.params.get("command").and_then(|command| command.as_str()).unwrap_or_default();
        let directory = event.params.get("cwd").and_then(|directory| directory.as_str());
        let verdict = self.judge(command, directory);
        Box::pin(async move { Ok(verdict) })
    }
}

#[cfg(test)]
mod tests;
