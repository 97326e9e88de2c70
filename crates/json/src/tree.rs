//! Trees that take no more memory than they need.
//!
//! A map that grows member by member ends up with room for twice as many, and a value of a tree that keeps the order of its
//! keys takes 72 bytes. Here the members are collected first, and the map is made of their number.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::{Json, JsonError};

impl Json {
    /// Makes a tree of it, with maps and lists of exactly the size they need. Equal to [`to::<Value>`](Self::to).
    pub fn tree(&self) -> Result<Value, JsonError> {
        serde_json::from_str(self.as_str()).map(|Tree(value)| value).map_err(JsonError::Syntax)
    }
}

struct Tree(Value);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Tree, E> {
        Ok(Tree(Value::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree(Value::Bool(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree(Value::from(value)))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree(Value::from(value)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree(Value::from(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree(Value::from(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(Tree(item)) = seq.next_element()? {
            items.push(item);
        }
        items.shrink_to_fit();
        Ok(Tree(Value::Array(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut members: Vec<(String, Value)> = Vec::new();
        while let Some((mut key, Tree(value))) = map.next_entry::<String, Tree>()? {
            key.shrink_to_fit();
            members.push((key, value));
        }
        let mut exact = Map::with_capacity(members.len());
        exact.extend(members);
        Ok(Tree(Value::Object(exact)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn capacities(value: &Value, seen: &mut Vec<(usize, usize)>) {
        match value {
            Value::Array(items) => {
                seen.push((items.len(), items.capacity()));
                items.iter().for_each(|item| capacities(item, seen));
            }
            Value::Object(members) => members.values().for_each(|member| capacities(member, seen)),
            _ => {}
        }
    }

    #[test]
    fn a_tree_is_what_serde_json_reads_without_spare_room() {
        for text in [
            r#"{"z":1,"a":[-1,18446744073709551615,1.5,1e300,-0.0,-9223372036854775808],"m":{"b":"x\n\ud83d\ude00","b2":null}}"#,
            r#"{"a":1,"b":2,"a":3}"#,
            "[[],{},[[1,2,3,4,5]],true,false,null]",
            r#""text""#,
            "7",
        ] {
            let json = Json::parse(text).unwrap();
            let tree = json.tree().unwrap();
            assert_eq!(tree.to_string(), json.to::<Value>().unwrap().to_string(), "{text}");
            let mut seen = Vec::new();
            capacities(&tree, &mut seen);
            assert!(seen.iter().all(|(length, capacity)| length == capacity), "{text}: {seen:?}");
        }
    }
}
