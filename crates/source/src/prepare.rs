//! From the model's text to the engine's.

use std::sync::atomic::{AtomicU64, Ordering};

use oxc_allocator::Allocator;

use crate::edits::Edits;
use crate::error::{Diagnostic, SourceError};
use crate::facts::Facts;
use crate::map::PositionMap;
use crate::marks::mark;
use crate::nesting::{Nesting, nesting};
use crate::parse::Wrapped;
use crate::position::{excerpt, position_at};
use crate::shell;
use crate::trailing::Trailing;
use crate::typescript::{self, Refusal};

/// The language a program is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// JavaScript, as the engine runs it.
    JavaScript,
    /// TypeScript. Types are erased, not checked.
    TypeScript,
}

impl Language {
    fn error(self, diagnostic: Diagnostic) -> SourceError {
        match self {
            Language::JavaScript => SourceError::Syntax(diagnostic),
            Language::TypeScript => SourceError::TypeScript(diagnostic),
        }
    }
}

/// A program that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The body of an async function, in JavaScript. It has as many lines as what the model wrote.
    pub text: String,
    /// Where in the model's text things stand.
    pub map: PositionMap,
    /// The value that the program returns.
    pub returns: Returns,
}

/// The value of a prepared program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// Its value, if it has one: it says `return`, or ends with something that is no expression.
    Value,
    /// A list with the value of its last expression.
    LastInList,
}

/// Enough for [`crate::nesting`]'s deepest text with room to spare; only what is used becomes memory.
const DEEP_STACK: usize = 64 << 20;

static PREPARATIONS: AtomicU64 = AtomicU64::new(0);

/// How many texts this process has read, so that a test can show what does without.
pub fn preparations() -> u64 {
    PREPARATIONS.load(Ordering::Relaxed)
}

/// Makes a program of `source`, which is the body of a sloppy async function: it may `await` and `return` anywhere.
///
/// Nothing is run and nothing is resolved. Names that do not exist and bindings that are declared twice are found by the
/// engine.
pub fn prepare(source: &str, language: Language) -> Result<Prepared, SourceError> {
    PREPARATIONS.fetch_add(1, Ordering::Relaxed);
    with_stack(source, language, || prepare_here(source, language))?
}

/// Does something that recurses with the nesting of `source`, on a stack that is large enough.
pub(crate) fn with_stack<T: Send>(
    source: &str,
    language: Language,
    work: impl FnOnce() -> T + Send,
) -> Result<T, SourceError> {
    let too_deep = |at| language.error(Diagnostic::at(source, at, "this program is nested too deeply"));
    match nesting(source, language) {
        Nesting::Shallow => Ok(work()),
        Nesting::Deep => on_deep_stack(work).ok_or_else(|| too_deep(0)),
        Nesting::TooDeep(at) => Err(too_deep(at)),
    }
}

/// Does something on a stack that is enough for the deepest text. `None` if there is no such stack.
pub(crate) fn on_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(DEEP_STACK).spawn_scoped(scope, work).ok()?;
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn prepare_here(source: &str, language: Language) -> Result<Prepared, SourceError> {
    let wrapped = Wrapped::new(source);
    let allocator = Allocator::default();
    let parsed = wrapped.parse(&allocator, language);
    let module_access = |(at, what)| {
        let at = position_at(source, wrapped.offset(at));
        SourceError::ModuleAccess { what, at, excerpt: excerpt(source, at) }
    };
    let facts = parsed.body().map(Facts::of);
    if let Some(access) = facts.as_ref().and_then(Facts::module_access) {
        return Err(module_access(access));
    }
    if let Some(at) = parsed.import_meta() {
        return Err(module_access((at, "`import.meta`")));
    }
    let (body, facts) = match (parsed.error(), parsed.body(), facts) {
        (None, Some(body), Some(facts)) => (body, facts),
        (error, ..) => {
            if let Some(command) = shell::unparsed_command(source) {
                return Err(SourceError::Shell { command });
            }
            let unknown = || Diagnostic::at(source, 0, "this is not a program");
            return Err(language.error(error.unwrap_or_else(unknown)));
        }
    };
    if let Some(command) = shell::parsed_command(body, source) {
        return Err(SourceError::Shell { command });
    }
    if let Some((at, message)) = facts.unsupported {
        return Err(language.error(wrapped.diagnostic(at, message)));
    }
    let trailing = if facts.returns { None } else { Trailing::of(body) };
    let mut edits = match language {
        Language::JavaScript => Edits::default(),
        Language::TypeScript => typescript::strip(&wrapped, body, parsed.comments(), trailing)
            .map_err(|Refusal { at, message }| SourceError::TypeScript(wrapped.diagnostic(at, message)))?,
    };
    if let Some(trailing) = trailing {
        trailing.edit(&mut edits);
    }
    // Behind what returns the value: the mark belongs to what is returned.
    mark(body, &mut edits);
    let (start, end) = wrapped.range();
    let (text, map) = edits.apply(wrapped.text(), start, end);
    #[cfg(debug_assertions)]
    if let Err(error) = Wrapped::new(&text).is_javascript() {
        debug_assert!(false, "not JavaScript: {error}\n{source}\n-----\n{text}");
    }
    let returns = if trailing.is_some() { Returns::LastInList } else { Returns::Value };
    Ok(Prepared { text, map, returns })
}
