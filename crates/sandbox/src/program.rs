//! What a cell is started with: source text, and the globals its host adds.

use crate::Json;

/// The file name that guest stacks show for the program.
pub const FILE_NAME: &str = "cell.js";

/// A program for one cell: the body of an async function, so `await` and `return` work at its top level.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) source: String,
    pub(crate) scope: Vec<(String, Scope)>,
}

/// A global of the guest, or a part of one. Frozen there, all the way down.
#[derive(Clone, Debug)]
pub enum Scope {
    /// A constant.
    Data(Json),
    /// An async function: a call becomes a request with this method and the arguments as a JSON array.
    Call(String),
    /// An object with parts of its own.
    Object(Vec<(String, Scope)>),
}

impl Program {
    /// A program without globals of its host.
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), scope: Vec::new() }
    }

    /// Adds a global.
    pub fn global(mut self, name: impl Into<String>, scope: Scope) -> Self {
        self.scope.push((name.into(), scope));
        self
    }

    /// Adds an async function whose calls are requests with the function's own name as method.
    pub fn function(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.global(name.clone(), Scope::Call(name))
    }
}

/// The scope as the prelude reads it: nodes of two elements, so that no data can be taken for a function.
pub(crate) fn scope_json(scope: &[(String, Scope)]) -> String {
    fn node(scope: &Scope, out: &mut String) {
        match scope {
            Scope::Data(json) => {
                out.push_str(r#"["data","#);
                out.push_str(json.as_str());
            }
            Scope::Call(method) => {
                out.push_str(r#"["call","#);
                out.push_str(&quoted(method));
            }
            Scope::Object(parts) => {
                out.push_str(r#"["object","#);
                object(parts, out);
            }
        }
        out.push(']');
    }
    fn object(parts: &[(String, Scope)], out: &mut String) {
        out.push('{');
        for (index, (name, scope)) in parts.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(&quoted(name));
            out.push(':');
            node(scope, out);
        }
        out.push('}');
    }
    let mut out = String::new();
    object(scope, &mut out);
    out
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
