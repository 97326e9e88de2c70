//! The shape of a tool's input, and the places in it that members of a call mean.

use pincer_catalog::{Entry, declare, shortened};
use serde_json::{Map, Value, json};

use crate::calling::{INPUTS, InputError, shown};

/// The most parts of a name with dots.
const MOST_DEEP: usize = 8;
/// The most characters that are shown of an expected shape.
const MOST_SHAPE: usize = 600;

/// The shape of a tool's input.
pub(crate) struct Shape<'a> {
    pub entry: &'a Entry,
}

impl Shape<'_> {
    fn of(&self, member: &str) -> Option<&Value> {
        self.entry.input_schema.get("properties")?.get(member)
    }

    pub(crate) fn has(&self, member: &str) -> bool {
        self.of(member).is_some()
    }

    pub(crate) fn text(&self) -> String {
        shortened(&declare::hint(&self.entry.input_schema), MOST_SHAPE)
    }

    /// Returns whether a member of the tool's input can have this value, as far as its type says.
    fn takes(&self, member: &str, value: &Value) -> bool {
        let Some(kinds) = self.of(member).and_then(|schema| schema.get("type")) else { return self.has(member) };
        let is = |kind: &Value| match kind.as_str() {
            Some("string") => value.is_string(),
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("boolean") => value.is_boolean(),
            Some("null") => value.is_null(),
            Some("number" | "integer") => value.is_number(),
            _ => true,
        };
        match kinds {
            Value::Array(kinds) => kinds.iter().any(is),
            kind => is(kind),
        }
    }

    /// Decides whether `args` or `input` is the whole input, where the tool's input has a member of that name too.
    pub(crate) fn is_whole(
        &self,
        member: &str,
        given: &Value,
        whole: Option<&Map<String, Value>>,
        has_others: bool,
    ) -> Result<bool, InputError> {
        // Nothing at all is no input of a tool that has this member.
        let is_said = !given.is_null() && given.as_str().is_none_or(|text| !text.trim().is_empty());
        let may_be_whole = is_said && whole.is_some_and(|whole| whole.keys().all(|key| self.has(key)));
        let may_be_member = self.takes(member, given);
        let is_plain = member == INPUTS[0] && given.is_object() && !has_others;
        match (may_be_whole, may_be_member) {
            // As the definition of the tool says.
            (true, _) if is_plain => Ok(true),
            (true, false) => Ok(true),
            (false, true) => Ok(false),
            (true, true) => Err(InputError::Meanings { member: shown(member), expected: self.text() }),
            (false, false) => Err(InputError::Input { member: member.into(), expected: self.text() }),
        }
    }

    /// Puts members that stand beside the id into the input.
    pub(crate) fn put_all(&self, args: &mut Map<String, Value>, members: Map<String, Value>) -> Result<(), InputError> {
        let mut members: Vec<(String, Value)> = members.into_iter().collect();
        // The order in which a model writes them means nothing.
        members.sort_by(|(one, _), (other, _)| (one.contains('.'), one).cmp(&(other.contains('.'), other)));
        let mut strange = Vec::new();
        for (member, value) in members {
            let Some(path) = self.path(&member)? else {
                strange.push(shown(&member));
                continue;
            };
            if !put(args, &path, value) {
                return Err(InputError::Twice { member: path[0].to_owned(), expected: self.text() });
            }
        }
        if strange.is_empty() {
            return Ok(());
        }
        let (members, tool) = (strange.join(", "), self.entry.id.to_string());
        Err(InputError::Members { members, tool, expected: self.text() })
    }

    /// Returns the place in the input that a member's name means, or nothing if it means none.
    fn path<'m>(&self, member: &'m str) -> Result<Option<Vec<&'m str>>, InputError> {
        if self.has(member) {
            return Ok(Some(vec![member]));
        }
        let of_input = INPUTS.iter().find_map(|input| Some((*input, member.strip_prefix(input)?.strip_prefix('.')?)));
        let Some((input, rest)) = of_input else { return Ok(self.parts(member)) };
        let own = if self.takes(input, &json!({})) { self.parts(member) } else { None };
        let within = if self.has(rest) { Some(vec![rest]) } else { self.parts(rest) };
        match (own, within) {
            (Some(_), Some(_)) => Err(InputError::Meanings { member: shown(member), expected: self.text() }),
            (own, within) => Ok(own.or(within)),
        }
    }

    /// Returns the parts of a name with dots, if its first part is a member of the input. A number could be the place in a list.
    fn parts<'m>(&self, path: &'m str) -> Option<Vec<&'m str>> {
        let parts: Vec<&str> = path.split('.').collect();
        let is_name = |part: &&str| !part.is_empty() && part.parse::<u64>().is_err();
        let fits = self.has(parts[0]) && parts.len() <= MOST_DEEP && parts[1..].iter().all(is_name);
        let may_go_on = parts.len() == 1 || self.takes(parts[0], &json!({}));
        (fits && may_go_on).then_some(parts)
    }
}

/// Returns an input as an object, also one that was written as a text.
pub(crate) fn object(given: &Value) -> Option<Map<String, Value>> {
    match given {
        Value::Object(members) => Some(members.clone()),
        Value::Null => Some(Map::new()),
        Value::String(text) if text.trim().is_empty() => Some(Map::new()),
        Value::String(text) => serde_json::from_str(text).ok(),
        _ => None,
    }
}

/// Puts a value at a path. Returns `false` if there is another one.
fn put(args: &mut Map<String, Value>, path: &[&str], value: Value) -> bool {
    let Some((last, parents)) = path.split_last() else { return false };
    let mut at = args;
    for parent in parents {
        let below = at.entry(*parent).or_insert_with(|| json!({}));
        let Value::Object(members) = below else { return false };
        at = members;
    }
    match at.get(*last) {
        Some(known) => *known == value,
        None => {
            at.insert((*last).to_owned(), value);
            true
        }
    }
}
