//! From the text of a file to a checked config.

use std::fmt;

use json5::Position;
use pincer_secrecy::is_secret;
use schemars::JsonSchema;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::check::{Check, Path};
use crate::layout::{Kind, tokens};
use crate::secrecy::hide;
use crate::variables::{Environment, Expansion, Values, Written, expand, sources};
use crate::{Config, Problem, Problems, Unresolved, Warning, names, schema};

/// A file that nests deeper is no config, and could exhaust the parser's stack.
const MOST_DEPTH: usize = 64;

/// A config and what is to be said of it.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The settings.
    pub config: Config,
    /// Numbers that were brought into their range, and settings that mean nothing.
    pub warnings: Vec<Warning>,
    written: Vec<Written>,
}

impl Parsed {
    /// All settings, defaults included, with `${NAME}` as it was written, and without secrets where they usually are.
    pub fn shown(&self) -> Value {
        let mut shown = serde_json::to_value(&self.config).unwrap_or_default();
        hide(&self.config, &mut shown);
        for (name, server) in &self.config.mcp.servers {
            // A place without a value is as it was written.
            let mut written = serde_json::to_value(server).unwrap_or_default();
            for Unresolved { path, .. } in &server.unresolved {
                let text = path.find(&mut written).map(|text| text.take());
                if let (Some(text), Some(place)) = (text, path.in_server(name).find(&mut shown)) {
                    *place = text;
                }
            }
        }
        for Written { path, text, .. } in &self.written {
            if let Some(place) = path.find(&mut shown) {
                *place = text.as_str().into();
            }
        }
        shown
    }

    /// Variables and secrets that MCP servers name and that are not set. Each makes its server unusable, and nothing else.
    pub fn unset(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, server) in &self.config.mcp.servers {
            for Unresolved { path, missing } in &server.unresolved {
                problems.extend(missing.iter().map(|missing| missing.problem(&path.in_server(name))));
            }
        }
        problems
    }
}

/// Reads a config that names no secrets. `environment` looks up the variables it names.
pub fn parse(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Parsed, Problems> {
    parse_with(text, &Environment(environment))
}

/// Reads a config that may name secrets too. Those of MCP servers are not looked up here, but by [`crate::keys::McpServer::resolved`].
pub fn parse_with(text: &str, values: &dyn Values) -> Result<Parsed, Problems> {
    let mut value = syntax(text)?;
    let sources = sources(&value, values);
    let Expansion { written, unresolved, problems } = expand(&mut value, values, &sources);
    let (mut config, mut warnings): (Config, Vec<Warning>) = typed(value, &schema(), problems, &written)?;
    for (name, strings) in unresolved {
        if let Some(server) = config.mcp.servers.get_mut(&name) {
            server.unresolved = strings;
        }
    }
    for Written { path, values, .. } in &written {
        let server = path.within_server().and_then(|(name, _)| config.mcp.servers.get_mut(name));
        let secrets = values.iter().filter(|(name, value)| is_secret(name, value)).map(|(_, value)| value.clone());
        server.into_iter().for_each(|server| server.given.extend(secrets.clone()));
    }
    let mut problems = Vec::new();
    names::check(&config, &mut problems);
    for problem in &mut problems {
        // Messages quote values; what came from the environment is shown as it was written.
        for (name, value) in written.iter().flat_map(|written| &written.values).filter(|(_, value)| !value.is_empty()) {
            problem.message = problem.message.replace(value, &format!("${{{name}}}"));
            problem.message = problem.message.replace(&value.to_lowercase(), &format!("${{{name}}}"));
        }
    }
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    warnings.extend(names::without_channel(&config));
    Ok(Parsed { config, warnings, written })
}

/// Reads another JSON5 file in the same way: every problem with its path, no key twice, numbers brought into their range. Nothing
/// of the environment comes into it.
pub fn document<T: JsonSchema + DeserializeOwned>(text: &str) -> Result<(T, Vec<Warning>), Problems> {
    typed(syntax(text)?, &schemars::schema_for!(T).to_value(), Vec::new(), &[])
}

/// Checks a value against the schema of its type, and takes it.
fn typed<T: DeserializeOwned>(
    mut value: Value,
    schema: &Value,
    problems: Vec<Problem>,
    written: &[Written],
) -> Result<(T, Vec<Warning>), Problems> {
    let before = |path: &Path| written.iter().find(|string| string.path == *path).map(|string| string.text.clone());
    let mut check = Check { schema, problems, warnings: Vec::new(), written: &before };
    check.value(schema, &mut value, &mut Path::default());
    let Check { problems, warnings, .. } = check;
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    // Nothing is left for serde to refuse; should the two ever disagree, it says what it dislikes.
    let typed = serde_json::from_value(value).map_err(|error| Problem::new("", error.to_string()))?;
    Ok((typed, warnings))
}

/// What a text says. No key stands twice in it.
pub(crate) fn syntax(text: &str) -> Result<Value, Problem> {
    read(text).map(|Unique(value)| value)
}

/// What a text says that others have written: of a key that stands twice, the last counts.
pub(crate) fn loose(text: &str) -> Result<Value, Problems> {
    Ok(read(text)?)
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some(at) = too_deep(text) {
        let message = format!("this is nested more than {MOST_DEPTH} deep");
        return Err(Problem::new(place(Position::from_offset(at, text)), message));
    }
    json5::from_str(text).map_err(|error| {
        // Without a position, the text has come to its end.
        let at = place(error.position().unwrap_or_else(|| Position::from_offset(text.len(), text)));
        let reason = error.to_string();
        // The position is in front already.
        let reason = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(reason, _)| reason);
        let reason = reason.replace("EOF parsing", "the file ends within this");
        Problem::new(at, format!("this is not JSON5: {reason}"))
    })
}

fn place(at: Position) -> String {
    format!("line {}, column {}", at.line + 1, at.column + 1)
}

/// Where brackets nest too deeply. Brackets in strings and comments are none.
fn too_deep(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    tokens(text, 0).find_map(|token| {
        match token.kind {
            Kind::Mark(b'[' | b'{') => depth += 1,
            Kind::Mark(b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        (depth > MOST_DEPTH).then_some(token.start)
    })
}

/// JSON in which no key stands twice: of two `deny` lists, one would silently be gone.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Unique, E> {
        Ok(Unique(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Unique, E> {
        Ok(Unique(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Unique, E> {
        Ok(Unique(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Unique, E> {
        // `1e4` is as whole a number as `10000`.
        if value.fract() == 0.0 && value.abs() < 2f64.powi(53) {
            return Ok(Unique((value as i64).into()));
        }
        let number = Number::from_f64(value).ok_or_else(|| E::custom(format!("{value} is no number to work with")))?;
        Ok(Unique(Value::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Unique, E> {
        Ok(Unique(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unique, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Unique(list.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Unique, A::Error> {
        let mut map = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{key}` stands twice in this object")));
            }
            let Unique(value) = members.next_value()?;
            map.insert(key, value);
        }
        Ok(Unique(map.into()))
    }
}
