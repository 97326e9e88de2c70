//! The order of keys: kept where a value passes through, and sorted where equal values must have equal texts.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Json;

/// Returns the text of a value with the keys of every object sorted: equal values have equal texts.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (index, (key, value)) in members.into_iter().enumerate() {
                text.push_str(if index > 0 { "," } else { "" });
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index > 0 { "," } else { "" });
                write(item, text);
            }
            text.push(']');
        }
        value => text.push_str(&value.to_string()),
    }
}

/// The members of an object in their order, as text.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

impl Json {
    /// Returns it without the members of this name, or `None` if it is no object or has none. The others keep their order.
    pub fn without(&self, key: &str) -> Option<Self> {
        let Members(members) = serde_json::from_str(self.as_str()).ok()?;
        let left: Vec<String> = members
            .iter()
            .filter(|(name, _)| name != key)
            .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
            .collect();
        (left.len() < members.len()).then(|| Self::parse(format!("{{{}}}", left.join(","))).ok()).flatten()
    }

    /// Returns an object with more members behind its own. `None` if it is no object, or would be too large for one.
    pub fn with<'m>(&self, more: impl IntoIterator<Item = (&'m str, &'m Value)>) -> Option<Self> {
        let own = self.as_str().trim_ascii().strip_prefix('{')?.strip_suffix('}')?.trim_ascii();
        let own = Some(own.to_owned()).filter(|own| !own.is_empty());
        let more = more.into_iter().map(|(name, value)| format!("{}:{value}", Value::from(name)));
        let members: Vec<String> = own.into_iter().chain(more).collect();
        Self::parse(format!("{{{}}}", members.join(","))).ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_equal_texts_and_others_their_order() {
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let (one, other) = (r#"{"b":1,"a":[{"d":"\n","c":null}]}"#, r#"{"a":[{"c":null,"d":"\n"}],"b":1}"#);
        assert_eq!(value(one).to_string(), one);
        assert_eq!(canonical(&value(one)), other);
        assert_eq!(canonical(&value(other)), other);
    }

    #[test]
    fn members_come_and_go_and_the_others_stay_where_they_are() {
        let json = |text: &str| Json::parse(text).unwrap();
        let text = |json: Option<Json>| json.map(|json| json.as_str().to_owned());
        assert_eq!(text(json(r#"{"z":1,"x":{"b":1,"a":2},"y":3}"#).without("x")).as_deref(), Some(r#"{"z":1,"y":3}"#));
        assert_eq!(text(json(r#"{"z":1}"#).without("x")), None);
        assert_eq!(text(json("[1]").without("x")), None);
        assert_eq!(
            text(json(r#"{"z":1, "a":2 }"#).with([("m", &Value::from(3))])).as_deref(),
            Some(r#"{"z":1, "a":2,"m":3}"#)
        );
        assert_eq!(text(json("{ }").with([("m", &Value::Null)])).as_deref(), Some(r#"{"m":null}"#));
        assert_eq!(text(json("[]").with([])), None);
    }
}
