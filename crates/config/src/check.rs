//! A value against the schema that the types make: every problem with its path, numbers brought into their range.

use std::fmt;

use pincer_catalog::{nearest, shortened};
use serde_json::{Map, Number, Value};

use crate::{Problem, Warning};

/// A place in a config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Item(usize),
}

impl Path {
    pub(crate) fn within_key<T>(&mut self, key: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        self.within(Step::Key(key.into()), work)
    }

    pub(crate) fn within_item<T>(&mut self, index: usize, work: impl FnOnce(&mut Self) -> T) -> T {
        self.within(Step::Item(index), work)
    }

    fn within<T>(&mut self, step: Step, work: impl FnOnce(&mut Self) -> T) -> T {
        self.0.push(step);
        let done = work(self);
        self.0.pop();
        done
    }

    /// Returns the MCP server that the place belongs to, and the place within that server.
    pub(crate) fn within_server(&self) -> Option<(&str, Self)> {
        let key = |index: usize| match self.0.get(index) {
            Some(Step::Key(key)) => Some(key.as_str()),
            _ => None,
        };
        let name = key(2).filter(|_| key(0) == Some("mcp") && key(1) == Some("servers"))?;
        Some((name, Self(self.0[3..].to_vec())))
    }

    /// Returns the place in a config of what stands here in an MCP server.
    pub(crate) fn in_server(&self, name: &str) -> Self {
        let server = ["mcp", "servers", name].map(|key| Step::Key(key.to_owned()));
        Self(server.into_iter().chain(self.0.iter().cloned()).collect())
    }

    /// Returns whether this is the place of a key of the whole value.
    pub(crate) fn is_key(&self, key: &str) -> bool {
        self.0 == [Step::Key(key.to_owned())]
    }

    /// Returns whether this is within a key of the whole value.
    pub(crate) fn is_within(&self, key: &str) -> bool {
        matches!(self.0.first(), Some(Step::Key(first)) if first == key)
    }

    /// Returns whether references here are looked up when they are needed, and not when the file is read.
    pub(crate) fn is_late(&self) -> bool {
        let second = |word: &str| matches!(self.0.get(1), Some(Step::Key(key)) if key == word);
        self.is_within("models") && second("providers") || self.is_within("auth") && second("profiles")
    }

    /// Returns whether secrets are kept here: messages do not quote them.
    pub(crate) fn may_be_secret(&self) -> bool {
        const KEYS: [&str; 10] =
            ["env", "headers", "auth", "args", "url", "tokens", "config", "secrets", "apiKey", "baseUrl"];
        self.0.iter().any(|step| matches!(step, Step::Key(key) if KEYS.contains(&key.as_str())))
    }

    /// What stands there.
    pub(crate) fn find<'v>(&self, mut value: &'v mut Value) -> Option<&'v mut Value> {
        for step in &self.0 {
            value = match step {
                Step::Key(key) => value.get_mut(key)?,
                Step::Item(index) => value.get_mut(index)?,
            };
        }
        Some(value)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Item(item) => write!(f, "[{item}]")?,
                Step::Key(key) if is_plain(key) => write!(f, "{}{key}", if index == 0 { "" } else { "." })?,
                Step::Key(key) => write!(f, "[{}]", Value::from(key.as_str()))?,
            }
        }
        Ok(())
    }
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-$".contains(c))
}

/// Checks a value, and clamps the numbers in it.
pub(crate) struct Check<'s> {
    /// The whole schema, for its `$defs`.
    pub schema: &'s Value,
    pub problems: Vec<Problem>,
    pub warnings: Vec<Warning>,
    /// Strings that came from the environment: what was written is shown in their stead.
    pub written: &'s dyn Fn(&Path) -> Option<String>,
}

impl<'s> Check<'s> {
    pub(crate) fn value(&mut self, schema: &'s Value, value: &mut Value, path: &mut Path) {
        let schema = self.resolved(schema);
        if let Some(branches) = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array()) {
            return self.one_of(branches, value, path);
        }
        if !has_type(schema, value) {
            let message = format!("{} is not {}", self.shown(value, path), expected(schema));
            self.problems.push(Problem::new(path.to_string(), message));
            return;
        }
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
            if !allowed.contains(value) {
                self.unknown_word(&words(allowed.iter()), value, path);
            }
            return;
        }
        match value {
            Value::Number(number) => self.number(schema, number, path),
            Value::Array(items) => {
                let Some(of) = schema.get("items") else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    path.within_item(index, |path| self.value(of, item, path));
                }
            }
            Value::Object(members) => self.members(schema, members, path),
            _ => {}
        }
    }

    /// The branch that is of the value's kind; all of them are told if none is.
    fn one_of(&mut self, branches: &'s [Value], value: &mut Value, path: &mut Path) {
        // An enum whose words have descriptions of their own is a list of constants.
        let constants: Vec<&Value> = branches.iter().filter_map(|branch| branch.get("const")).collect();
        if constants.len() == branches.len() {
            if !constants.contains(&&*value) {
                self.unknown_word(&words(constants.into_iter()), value, path);
            }
            return;
        }
        // Of several kinds of objects, the one whose keys are there.
        let has_keys = |branch: &&Value| {
            let required = self.resolved(branch).get("required").and_then(Value::as_array).into_iter().flatten();
            required.filter_map(Value::as_str).all(|key| value.get(key).is_some())
        };
        let is_kind = |branch: &&Value| has_type(self.resolved(branch), value);
        let fitting = branches.iter().find(|branch| is_kind(branch) && has_keys(branch));
        let fitting = fitting.or_else(|| branches.iter().find(is_kind));
        match fitting {
            Some(branch) => self.value(branch, value, path),
            None => {
                let mut kinds: Vec<String> = branches.iter().map(|branch| expected(self.resolved(branch))).collect();
                kinds.dedup();
                let is_none = if kinds.len() == 1 { "is not" } else { "is neither" };
                let message = format!("{} {is_none} {}", self.shown(value, path), kinds.join(" nor "));
                self.problems.push(Problem::new(path.to_string(), message));
            }
        }
    }

    fn members(&mut self, schema: &'s Value, members: &mut Map<String, Value>, path: &mut Path) {
        let none = Map::new();
        let known = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let others = schema.get("additionalProperties");
        for (key, member) in members.iter_mut() {
            let of = schema.get("properties").and_then(|known| known.get(key)).or(others);
            path.within_key(key, |path| match of {
                Some(Value::Bool(false)) => self.unknown_key(key, known, path),
                Some(of) => self.value(of, member, path),
                // What the type leaves open is open.
                None => {}
            });
        }
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        for key in required.filter(|key| !members.contains_key(*key)) {
            self.problems.push(Problem::new(path.to_string(), format!("`{key}` is missing")));
        }
    }

    fn unknown_key(&mut self, key: &str, known: &Map<String, Value>, path: &Path) {
        let near = nearest(key, known.keys().map(|name| (name.clone(), name.clone())), 1).pop();
        let mut message = "there is no such key".to_owned();
        if near.is_none() {
            let all: Vec<&str> = known.keys().map(String::as_str).collect();
            message.push_str(&format!(" here: known are {}", all.join(", ")));
        }
        self.problems.push(Problem::new(path.to_string(), message).meant(near));
    }

    fn unknown_word(&mut self, allowed: &[String], value: &Value, path: &Path) {
        let near =
            value.as_str().and_then(|word| nearest(word, allowed.iter().map(|w| (w.clone(), w.clone())), 1).pop());
        let message = format!("{} is not one of {}", self.shown(value, path), allowed.join(", "));
        self.problems.push(Problem::new(path.to_string(), message).meant(near));
    }

    fn number(&mut self, schema: &Value, number: &mut Number, path: &Path) {
        let bound = |key| schema.get(key).and_then(Value::as_number).cloned();
        let beyond = |bound: Option<Number>, wrong: fn(f64, f64) -> bool| {
            bound.filter(|bound| wrong(number.as_f64().unwrap_or(0.0), bound.as_f64().unwrap_or(0.0)))
        };
        let used = beyond(bound("minimum"), |number, least| number < least)
            .or_else(|| beyond(bound("maximum"), |number, most| number > most));
        if let Some(used) = used {
            let written = std::mem::replace(number, used.clone());
            self.warnings.push(Warning::Number { path: path.to_string(), written, used });
        }
    }

    fn resolved(&self, schema: &'s Value) -> &'s Value {
        definition(self.schema, schema)
    }

    /// A value for a message: short, and without what came from the environment.
    fn shown(&self, value: &Value, path: &Path) -> String {
        let text = match (self.written)(path) {
            Some(written) => Value::from(written).to_string(),
            None => match value {
                Value::String(_) if path.may_be_secret() => "a string".into(),
                Value::Number(_) if path.may_be_secret() => "a number".into(),
                Value::Object(_) => "an object".into(),
                Value::Array(_) => "a list".into(),
                other => other.to_string(),
            },
        };
        const MOST: usize = 60;
        shortened(&text, MOST)
    }
}

/// What a schema refers to among the definitions of the whole one, or the schema itself.
pub(crate) fn definition<'s>(whole: &'s Value, schema: &'s Value) -> &'s Value {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix("#/$defs/"));
    name.and_then(|name| whole.get("$defs")?.get(name)).unwrap_or(schema)
}

fn words<'v>(values: impl Iterator<Item = &'v Value>) -> Vec<String> {
    values.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The names in a schema's `type`, of which there may be one or several.
pub(crate) fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn has_type(schema: &Value, value: &Value) -> bool {
    let types = types(schema);
    let fits = |kind: &&str| match *kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        // Beyond 64 bits a whole number is a float: it is clamped like any other that is too large.
        "integer" => {
            value.is_i64()
                || value.is_u64()
                || value.as_f64().is_some_and(|n| n.fract() == 0.0 && n.abs() >= 2f64.powi(63))
        }
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    types.is_empty() || types.iter().any(fits)
}

fn expected(schema: &Value) -> String {
    let words: Vec<&str> = types(schema)
        .into_iter()
        .filter(|kind| *kind != "null")
        .map(|kind| match kind {
            "boolean" => "true or false",
            "integer" => "a whole number",
            "number" => "a number",
            "string" => "a string",
            "array" => "a list",
            "object" => "an object",
            other => other,
        })
        .collect();
    words.join(" or ")
}
