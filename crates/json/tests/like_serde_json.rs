//! The check beside `serde_json`'s own parser: the same texts are accepted, and as many nodes are counted as the tree has.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use pincer_json::{Json, MAX_NODES, has_too_many_nodes, nodes};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::Value;

/// Any value that is not too deep. Keys and texts have all that could be mistaken for structure.
fn values() -> impl Strategy<Value = Value> {
    let text = r#"[a-c\[\]{},:"\\ 😀\n]{0,6}"#;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(text, inner, 0..6).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn of_tree(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(of_tree).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(|member| 1 + of_tree(member)).sum::<usize>(),
        _ => 1,
    }
}

/// Repeated in an array until `count` copies are there.
fn repeated(text: &str, count: usize) -> String {
    format!("[{}{text}]", format!("{text},").repeat(count - 1))
}

proptest! {
    #[test]
    fn a_text_is_json_here_if_serde_json_reads_it(value in values(), pretty in any::<bool>(), edits in vec((any::<u16>(), r#"[\[\]{},:"0e.tn\\ -]?"#), 0..3)) {
        let mut text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        for (at, with) in edits {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            if let Some(at) = places.get(at as usize % places.len().max(1)) {
                let end = text[*at..].chars().next().map_or(*at, |char| at + char.len_utf8());
                text.replace_range(*at..end, &with);
            }
        }
        let read = serde_json::from_str::<Value>(&text);
        let checked = Json::parse(text.as_str());
        prop_assert_eq!(checked.is_ok(), read.is_ok(), "{}", text);
        if let (Ok(checked), Ok(read)) = (checked, read) {
            prop_assert_eq!(checked.to::<Value>().unwrap(), read);
        }
    }

    #[test]
    fn as_many_nodes_are_counted_as_the_tree_has(value in values(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        prop_assert_eq!(nodes(text.as_bytes()), of_tree(&value), "{}", text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn the_limit_is_met_to_the_unit(value in values()) {
        // Large enough that few copies reach the limit.
        let unit = Value::Array(vec![Value::Array(vec![value; 200]); 20]);
        let (text, most) = (unit.to_string(), (MAX_NODES - 1) / of_tree(&unit));
        let (fits, over) = (repeated(&text, most), repeated(&text, most + 1));
        prop_assert!(!has_too_many_nodes(fits.as_bytes()) && has_too_many_nodes(over.as_bytes()));
        prop_assert!(Json::parse(fits).is_ok() && Json::parse(over).is_err());
    }
}
