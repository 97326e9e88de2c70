//! Schemas and inputs that nobody would write: the door refuses or answers, and never panics.

use crate::common::{echo, entry, house};
use pincer_tools::{Door, ErrorCode};
use proptest::prelude::*;
use serde_json::{Value, json};

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,12}".prop_map(Into::into),
        prop::sample::select(vec![
            "object",
            "string",
            "integer",
            "array",
            "#/$defs/a",
            "#",
            "(",
            "^a+$",
            "date",
            "text"
        ])
        .prop_map(Into::into),
    ];
    let key = prop::sample::select(vec![
        "type",
        "properties",
        "required",
        "items",
        "prefixItems",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "$ref",
        "$defs",
        "a",
        "text",
        "pattern",
        "format",
        "minimum",
        "maxLength",
        "additionalProperties",
        "patternProperties",
        "if",
        "then",
        "$schema",
        "$id",
        "description",
        "multipleOf",
        "uniqueItems",
        "__proto__",
    ]);
    leaf.prop_recursive(6, 80, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Schemas come from plugins and servers.
    #[test]
    fn no_schema_makes_the_door_panic(input_schema in json_value(), output_schema in json_value(), input in json_value()) {
        let mut strange = entry("openclaw:core:strange");
        strange.input_schema = input_schema;
        strange.output_schema = Some(output_schema);
        if Door::builder().tool(strange.clone(), echo()).is_err() {
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let house = house(|door| door.tool(strange, echo()).unwrap());
            let outcome = house.call("openclaw:core:strange", input.clone()).await;
            if let Ok(value) = outcome.value() {
                assert_eq!(value, input);
            }
        });
    }

    /// Names and inputs come from programs.
    #[test]
    fn no_input_makes_the_door_panic(name in "\\PC{0,20}|openclaw:core:echo|mcp:files:read", input in json_value()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let house = house(|door| door);
            let outcome = house.call(&name, input.clone()).await;
            let fits = input["text"].is_string()
                && input.as_object().is_some_and(|members| members.keys().all(|key| key == "text"));
            match outcome.value() {
                Ok(value) => assert!(fits && value == input, "{input} is not what the tool takes"),
                Err(error) => assert!(matches!(error.code, ErrorCode::InvalidInput | ErrorCode::UnknownTool), "{error:?}"),
            }
        });
    }
}
