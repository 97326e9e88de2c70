//! A namespace: a small object that programs get, whose functions are tools of one plugin.
//!
//! It adds no power. A function here is a name for a tool and a way to arrange arguments; calling it is calling the tool.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use pincer_catalog::names::{is_free_global, is_safe_key};
use serde_json::{Map, Value};

use crate::Context;

/// Between the parts of a path where it is one text.
pub const PATH_SEPARATOR: char = '\0';

/// An object that programs get.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// Its id.
    pub id: String,
    /// What programs call it.
    pub global: String,
    /// What it is for. Trusted text: a model sees it.
    pub description: Option<String>,
    /// How it is used. Trusted text: a model sees it.
    pub prompt: Option<String>,
    /// The names of the plugin's tools it needs. Without one of them it is not there.
    pub required_tools: Vec<String>,
    /// What is in it.
    pub scope: NamespaceSource,
}

/// Where the content of a namespace comes from.
#[derive(Clone)]
pub enum NamespaceSource {
    /// Always the same.
    Fixed(NamespacePart),
    /// Made for each run.
    Made(Arc<dyn Fn(&Context) -> NamespacePart + Send + Sync>),
}

impl fmt::Debug for NamespaceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(scope) => scope.fmt(f),
            Self::Made(_) => f.write_str("Made(…)"),
        }
    }
}

/// A part of a namespace.
#[derive(Clone, Debug)]
pub enum NamespacePart {
    /// Plain data.
    Value(Value),
    /// Parts by name.
    Object(BTreeMap<String, NamespacePart>),
    /// Parts in order.
    Array(Vec<NamespacePart>),
    /// A function.
    Tool(NamespaceFunction),
}

/// A function of a namespace.
#[derive(Clone, Debug)]
pub struct NamespaceFunction {
    /// The name of the plugin's tool.
    pub tool: String,
    /// How arguments become its input.
    pub arguments: Arguments,
}

/// How the arguments of a function become the input of a tool.
#[derive(Clone)]
pub enum Arguments {
    /// The first is the input; without one, an empty object.
    First,
    /// Each by its place is a field of the input. One that is left out or `undefined` is left out; `null` is a value. More than
    /// there are names are refused. A single object with these fields is taken for the input itself.
    Named(Vec<String>),
    /// As this says.
    Mapped(Arc<dyn Fn(Vec<Value>) -> Value + Send + Sync>),
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("First"),
            Self::Named(names) => f.debug_tuple("Named").field(names).finish(),
            Self::Mapped(_) => f.write_str("Mapped(…)"),
        }
    }
}

impl Arguments {
    /// Returns the input for these arguments. `None` is one that was left out.
    pub fn input(&self, mut arguments: Vec<Option<Value>>) -> Result<Value, TooManyArguments> {
        while arguments.last().is_some_and(Option::is_none) {
            arguments.pop();
        }
        match self {
            Self::First => {
                let first = arguments.into_iter().next().flatten().filter(|first| !first.is_null());
                Ok(first.unwrap_or_else(|| Map::new().into()))
            }
            // One object with nothing but these names is what was meant, whatever is documented.
            Self::Named(names) if is_all_of_it(names, &arguments) => {
                Ok(arguments.into_iter().next().flatten().unwrap_or_default())
            }
            Self::Named(names) if arguments.len() > names.len() => {
                Err(TooManyArguments { names: names.clone(), given: arguments.len() })
            }
            Self::Named(names) => {
                let given = names.iter().cloned().zip(arguments);
                Ok(Value::Object(given.filter_map(|(name, argument)| Some((name, argument?))).collect()))
            }
            Self::Mapped(map) => Ok(map(arguments.into_iter().map(Option::unwrap_or_default).collect())),
        }
    }
}

/// A function of a namespace was given more arguments than it has names for. The message goes on from the function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("takes {} arguments ({}), and got {given}", names.len(), names.join(", "))]
pub struct TooManyArguments {
    /// The names of its arguments.
    pub names: Vec<String>,
    /// The number of arguments that it was given.
    pub given: usize,
}

fn is_all_of_it(names: &[String], arguments: &[Option<Value>]) -> bool {
    match arguments {
        [Some(Value::Object(fields))] => !fields.is_empty() && fields.keys().all(|key| names.contains(key)),
        _ => false,
    }
}

/// What is wrong with a namespace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// It cannot be called that.
    #[error("`{0}` cannot be the global of a namespace: it must be a JavaScript identifier that is not in use")]
    Global(String),
    /// It has no id.
    #[error("the namespace `{0}` has no id")]
    Id(String),
    /// It needs no tool, so nothing says who may have it.
    #[error("the namespace `{0}` names no tool that it needs")]
    NoTools(String),
    /// It needs a tool that the plugin does not have.
    #[error("the namespace `{namespace}` needs the tool `{tool}`, which the plugin does not have")]
    NotOwned {
        /// The namespace.
        namespace: String,
        /// The tool.
        tool: String,
    },
    /// A function calls a tool that is not among those it needs.
    #[error("`{path}` of the namespace `{namespace}` calls `{tool}`, which is not among the tools it needs")]
    Undeclared {
        /// The namespace.
        namespace: String,
        /// Where the function is.
        path: String,
        /// The tool.
        tool: String,
    },
    /// A key that must not be.
    #[error("`{key}` cannot be a key in the namespace `{namespace}`")]
    Key {
        /// The namespace.
        namespace: String,
        /// The key.
        key: String,
    },
    /// It nests too deeply.
    #[error("the namespace `{0}` is nested too deeply")]
    Depth(String),
}

/// How deep a scope may nest.
const MOST_DEPTH: usize = 16;

impl Namespace {
    /// Checks all that can be checked before there is a run.
    pub fn check(&self, own: &HashSet<&str>) -> Result<(), NamespaceError> {
        let global = &self.global;
        if !is_free_global(global) {
            return Err(NamespaceError::Global(global.clone()));
        }
        if self.id.is_empty() {
            return Err(NamespaceError::Id(global.clone()));
        }
        if self.required_tools.is_empty() {
            return Err(NamespaceError::NoTools(self.id.clone()));
        }
        if let Some(tool) = self.required_tools.iter().find(|tool| !own.contains(tool.as_str())) {
            return Err(NamespaceError::NotOwned { namespace: self.id.clone(), tool: tool.clone() });
        }
        match &self.scope {
            NamespaceSource::Fixed(scope) => self.check_scope(scope),
            NamespaceSource::Made(_) => Ok(()),
        }
    }

    /// Checks what is in it: safe keys, and functions of its own tools only.
    pub fn check_scope(&self, scope: &NamespacePart) -> Result<(), NamespaceError> {
        self.walk(scope, &mut Vec::new())
    }

    fn walk(&self, scope: &NamespacePart, path: &mut Vec<String>) -> Result<(), NamespaceError> {
        if path.len() > MOST_DEPTH {
            return Err(NamespaceError::Depth(self.id.clone()));
        }
        match scope {
            NamespacePart::Value(value) => self.walk_value(value, path.len()),
            NamespacePart::Array(items) => items.iter().enumerate().try_for_each(|(index, item)| {
                path.push(index.to_string());
                self.walk(item, path)?;
                path.pop();
                Ok(())
            }),
            NamespacePart::Object(members) => members.iter().try_for_each(|(key, member)| {
                self.check_key(key)?;
                path.push(key.clone());
                self.walk(member, path)?;
                path.pop();
                Ok(())
            }),
            NamespacePart::Tool(function) if self.required_tools.contains(&function.tool) => Ok(()),
            NamespacePart::Tool(function) => {
                let (namespace, tool) = (self.id.clone(), function.tool.clone());
                Err(NamespaceError::Undeclared { namespace, path: path.join("."), tool })
            }
        }
    }

    fn walk_value(&self, value: &Value, depth: usize) -> Result<(), NamespaceError> {
        if depth > MOST_DEPTH {
            return Err(NamespaceError::Depth(self.id.clone()));
        }
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.walk_value(item, depth + 1)),
            Value::Object(members) => members.iter().try_for_each(|(key, member)| {
                self.check_key(key)?;
                self.walk_value(member, depth + 1)
            }),
            _ => Ok(()),
        }
    }

    fn check_key(&self, key: &str) -> Result<(), NamespaceError> {
        if key.is_empty() || key.contains(PATH_SEPARATOR) || !is_safe_key(key) {
            return Err(NamespaceError::Key { namespace: self.id.clone(), key: key.into() });
        }
        Ok(())
    }
}
