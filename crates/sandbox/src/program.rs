//! What a cell is started with: source text, and the globals its host adds.

use std::fmt;
use std::sync::Arc;

use crate::Json;

/// The file name that guest stacks show for the program.
pub const FILE_NAME: &str = "cell.js";

/// A program for one cell: the body of an async function, so `await` and `return` work at its top level.
#[derive(Clone)]
pub struct Program {
    pub(crate) source: String,
    pub(crate) scope: Vec<(String, Global)>,
    pub(crate) library: Option<Arc<dyn Library>>,
    pub(crate) value: ProgramValue,
    pub(crate) is_bare: bool,
    pub(crate) seed: Option<u64>,
}

/// How a program has its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgramValue {
    /// It returns it.
    #[default]
    Returned,
    /// It returns a list with it: the value of its last expression. Whatever is wrong with that fails no program.
    Last,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("source", &self.source).field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// What a program can have without asking for it: looked up on the spot, while the program stands still.
pub trait Library: Send + Sync {
    /// Returns the value of a [`Global::Lazy`] global. `None` if there is no such thing (any more).
    fn global(&self, name: &str) -> Option<Global>;
    /// The text of a file of [`Global::Files`].
    fn file(&self, path: &str) -> Option<Arc<str>>;
}

/// A global of the guest, or a part of one. Frozen there, all the way down.
#[derive(Clone, Debug)]
pub enum Global {
    /// A constant.
    Data(Json),
    /// An async function: a call becomes a request with this method and the arguments as a JSON array.
    Call(String),
    /// The same with a first argument that the host sets: a function for one thing.
    Bound(String, Json),
    /// An object with parts of its own.
    Object(Vec<(String, Global)>),
    /// An object with parts of its own, of which every other member is a function too: a call becomes a request with this
    /// method, and what the host sets together with the member's name as first argument. For what is not known yet.
    Open(Vec<(String, Global)>, String, Json),
    /// A list with parts of its own.
    Array(Vec<Global>),
    /// An object with `list` and `read` for these files, which the guest answers by itself.
    Files(Vec<File>),
    /// Another global, the very same object.
    Alias(String),
    /// As the program's [`Library`] says when it is first used. Only for a global itself.
    Lazy,
}

/// A file that a program can read.
#[derive(Clone, Debug)]
pub struct File {
    /// Parts with `/` between them.
    pub path: String,
    /// What is in it.
    pub description: String,
    /// How much.
    pub bytes: usize,
}

impl Program {
    /// A program without globals of its host.
    pub fn new(source: impl Into<String>) -> Self {
        let (scope, library, value) = (Vec::new(), None, ProgramValue::Returned);
        Self { source: source.into(), scope, library, value, is_bare: false, seed: None }
    }

    /// Leaves it with what the language has, `console.log`, `console.warn` and `console.error`, and the globals that its host adds.
    pub fn bare(mut self) -> Self {
        self.is_bare = true;
        self
    }

    /// Sets the seed of `Math.random`, which is a random one otherwise.
    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Says how the program has its value.
    pub fn value(mut self, value: ProgramValue) -> Self {
        self.value = value;
        self
    }

    /// Adds a global.
    pub fn global(mut self, name: impl Into<String>, scope: Global) -> Self {
        self.scope.push((name.into(), scope));
        self
    }

    /// Adds where lazy globals and files come from.
    pub fn library(mut self, library: Arc<dyn Library>) -> Self {
        self.library = Some(library);
        self
    }

    /// Adds an async function whose calls are requests with the function's own name as method.
    pub fn function(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.global(name.clone(), Global::Call(name))
    }
}

/// The scope as the prelude reads it: lists that begin with a kind, so that no data can be taken for a function.
pub(crate) fn scope_json(scope: &[(String, Global)]) -> String {
    let mut out = String::new();
    write_object(scope, &mut out);
    out
}

/// One part of a scope as the prelude reads it.
pub(crate) fn node_json(scope: &Global) -> String {
    let mut out = String::new();
    write_node(scope, &mut out);
    out
}

fn write_node(scope: &Global, out: &mut String) {
    match scope {
        Global::Data(json) => {
            out.push_str(r#"["data","#);
            out.push_str(json.as_str());
        }
        Global::Call(method) => {
            out.push_str(r#"["call","#);
            out.push_str(&quoted(method));
        }
        Global::Bound(method, first) => {
            out.push_str(r#"["bound","#);
            out.push_str(&quoted(method));
            out.push(',');
            out.push_str(first.as_str());
        }
        Global::Object(parts) => {
            out.push_str(r#"["object","#);
            write_object(parts, out);
        }
        Global::Open(parts, method, first) => {
            out.push_str(r#"["open","#);
            write_object(parts, out);
            out.push(',');
            out.push_str(&quoted(method));
            out.push(',');
            out.push_str(first.as_str());
        }
        Global::Array(items) => {
            out.push_str(r#"["array",["#);
            separated(items, out, write_node);
            out.push(']');
        }
        Global::Files(files) => {
            out.push_str(r#"["files",["#);
            separated(files, out, |file, out| {
                let (path, description) = (quoted(&file.path), quoted(&file.description));
                out.push_str(&format!("[{path},{description},{}]", file.bytes));
            });
            out.push(']');
        }
        Global::Alias(name) => {
            out.push_str(r#"["global","#);
            out.push_str(&quoted(name));
        }
        Global::Lazy => out.push_str(r#"["lazy""#),
    }
    out.push(']');
}

fn write_object(parts: &[(String, Global)], out: &mut String) {
    out.push('{');
    separated(parts, out, |(name, scope), out| {
        out.push_str(&quoted(name));
        out.push(':');
        write_node(scope, out);
    });
    out.push('}');
}

fn separated<T>(items: &[T], out: &mut String, write: impl Fn(&T, &mut String)) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(item, out);
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
