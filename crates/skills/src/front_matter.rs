//! The front matter of a `SKILL.md`: YAML between two lines of `---`.
//!
//! Files in public collections have keys of many systems, and are written with YAML that is not quite YAML. Keys that are not known are
//! passed over; where a plain value breaks the rules (`description: Use when: …`), the lines are read one by one.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_saphyr::{budget, options};

use crate::requirements::Requirements;

/// The most bytes of front matter.
const MOST_BYTES: usize = 64 << 10;
/// The line before and after it.
const FENCE: &str = "---";
/// The names under which `metadata` has requirements, in the order in which they are looked for.
const METADATA: [&str; 3] = ["openclaw", "pincer", "clawdbot"];

/// The front matter of a skill.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrontMatter {
    /// The name, if it says one.
    pub name: Option<String>,
    /// The purpose of the skill.
    pub description: Option<String>,
    /// The version, as it is written.
    pub version: Option<String>,
    /// The licence of its files.
    pub license: Option<String>,
    /// The tools that it is written for. For people; what a run may use is decided by policy.
    pub allowed_tools: Vec<String>,
    /// Whether only people choose it, so that models are not told of it.
    pub is_for_people: bool,
    /// The requirements of the skill.
    pub requirements: Requirements,
}

/// An error in front matter.
#[derive(Debug, thiserror::Error)]
pub enum FrontMatterError {
    /// The file begins with something else.
    #[error("it does not begin with a line `---`: a skill begins with its name and description between two such lines")]
    None,
    /// The second line is missing.
    #[error("the second line `---` is missing, or too far away")]
    Open,
    /// The file is not text.
    #[error("it is not UTF-8")]
    NotText,
    /// The front matter is not YAML.
    #[error("what stands between the lines `---` is not YAML: {0}")]
    Yaml(String),
    /// The front matter is YAML of another kind.
    #[error("what stands between the lines `---` is not a list of keys and values")]
    NotKeys,
}

impl FrontMatter {
    /// Reads the front matter at the beginning of a file.
    pub fn parse(bytes: &[u8]) -> Result<Self, FrontMatterError> {
        Ok(Self::parse_with_keys(bytes)?.0)
    }

    /// Reads the front matter at the beginning of a file, with all its keys: also the ones that mean nothing to Pincer.
    pub fn parse_with_keys(bytes: &[u8]) -> Result<(Self, Map<String, Value>), FrontMatterError> {
        let between = between(bytes)?;
        let mut keys = match yaml(between) {
            Ok(Some(Value::Object(keys))) => keys,
            Ok(None) => Map::new(),
            Ok(Some(_)) => return Err(FrontMatterError::NotKeys),
            Err(error) => by_line(between).ok_or(FrontMatterError::Yaml(error))?,
        };
        if let Some(metadata) = keys.get_mut("metadata")
            && let Some(read) = object(metadata)
        {
            *metadata = Value::Object(read);
        }
        let front = Self::of(&keys);
        let version = written_version(between).or_else(|| front.version.clone());
        Ok((Self { version, ..front }, keys))
    }

    fn of(keys: &Map<String, Value>) -> Self {
        let text = |key: &str| keys.get(key).and_then(text).filter(|text| !text.is_empty());
        let metadata = keys.get("metadata").and_then(object).unwrap_or_default();
        let ours = METADATA.iter().find_map(|name| object(metadata.get(*name)?)).unwrap_or_default();
        Self {
            name: text("name"),
            description: text("description"),
            version: text("version"),
            license: text("license"),
            allowed_tools: keys
                .get("allowed-tools")
                .map(|tools| words(tools, |c| c == ',' || c == ' '))
                .unwrap_or_default(),
            is_for_people: keys.get("disable-model-invocation").is_some_and(is_true),
            requirements: Requirements {
                systems: ours.get("os").map(|systems| words(systems, |c| c == ',')).unwrap_or_default(),
                always: ours.get("always").is_some_and(is_true),
                ..ours.get("requires").and_then(object).map(|requires| required(&requires)).unwrap_or_default()
            },
        }
    }
}

fn required(requires: &Map<String, Value>) -> Requirements {
    let all = |key: &str| requires.get(key).map(|value| words(value, |c| c == ',')).unwrap_or_default();
    Requirements {
        programs: all("bins"),
        any_program: all("anyBins"),
        variables: all("env"),
        settings: all("config"),
        ..Requirements::default()
    }
}

/// Returns the text between the two lines.
fn between(bytes: &[u8]) -> Result<&str, FrontMatterError> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let bytes = &bytes[..bytes.len().min(MOST_BYTES)];
    let (text, is_broken) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, false),
        // The end of the piece may cut a character, and text behind the front matter is not looked at.
        Err(error) => {
            let text = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            (text, error.error_len().is_some())
        }
    };
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if first.trim_end() != FENCE {
        let is_text = text.len() == bytes.len() || !text.is_empty();
        return Err(if is_text { FrontMatterError::None } else { FrontMatterError::NotText });
    }
    let begin = first.len();
    let mut end = begin;
    for line in lines {
        if line.trim_end() == FENCE {
            return Ok(&text[begin..end]);
        }
        end += line.len();
    }
    Err(if is_broken { FrontMatterError::NotText } else { FrontMatterError::Open })
}

/// Returns the version as it is written: as a number, `1.10` would be 1.1.
fn written_version(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Written {
        version: Option<String>,
    }
    let version = yaml::<Written>(text).ok()??.version?;
    Some(version.trim().to_owned()).filter(|version| !version.is_empty())
}

fn yaml<T: DeserializeOwned>(text: &str) -> Result<Option<T>, String> {
    let options = options! {
        // A skill may be called `off` or `no`.
        strict_booleans: true,
        budget: budget! { max_depth: 32, max_nodes: 4_000, max_aliases: 16, max_anchors: 16, max_documents: 1 },
    };
    serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
}

/// Reads lines of the form `key: value`, with JSON or plain text as values. Nothing if a line is another one.
fn by_line(text: &str) -> Option<Map<String, Value>> {
    let mut keys = Map::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let (key, value) = line.split_once(':')?;
        let is_key = key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)) && !key.is_empty();
        if !is_key {
            return None;
        }
        let value = value.trim();
        let value = match value.chars().next() {
            Some('{' | '[' | '"' | '\'') => yaml(value).ok()??,
            // Not plain at all.
            Some('&' | '*' | '!' | '|' | '>') => return None,
            _ => Value::from(value),
        };
        keys.insert(key.to_owned(), value);
    }
    Some(keys)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns an object, also one that is written as JSON in a text.
fn object(value: &Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(object) => Some(object.clone()),
        Value::String(text) => serde_json::from_str(text).ok(),
        _ => None,
    }
}

fn is_true(value: &Value) -> bool {
    value.as_bool() == Some(true) || value.as_str() == Some("true")
}

/// Returns the words of a list, or of a text that has several.
fn words(value: &Value, is_between: fn(char) -> bool) -> Vec<String> {
    let all: Vec<String> = match value {
        Value::Array(items) => items.iter().filter_map(text).collect(),
        Value::String(list) => list.split(is_between).map(|word| word.trim().to_owned()).collect(),
        _ => Vec::new(),
    };
    all.into_iter().filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests;
